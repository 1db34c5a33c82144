/* What there is in the world of dcgm.c: the layouts of the ABI, the node, the host engine and its clients. */
#ifndef DCGM_WORLD_H
#define DCGM_WORLD_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#define DOUBLE "dcgm"
#include "curve.h"

enum {
    OK = 0,
    BADPARAM = -1,
    GENERIC_ERROR = -3,
    NOT_SUPPORTED = -6,
    UNINITIALIZED = -10,
    VER_MISMATCH = -12,
    NO_DATA = -14,
    NOT_WATCHED = -16,
    GPU_IS_LOST = -18,
    CONNECTION_NOT_VALID = -21,
    GROUP_INCOMPATIBLE = -23,
    DUPLICATE_KEY = -26,
    MODULE_NOT_LOADED = -33,
};
enum { FE_GPU = 1, FE_GPU_I = 4, FE_GPU_CI = 5 };
enum { STATUS_OK = 1, STATUS_LOST = 4 };
enum {
    DRIVER_VERSION = 1,
    NAME = 50,
    NVML_INDEX = 52,
    UUID = 54,
    MINOR_NUMBER = 55,
    PCI_BUSID = 57,
    PCI_COMBINED_ID = 58,
    COMPUTE_CAPABILITY = 63,
    MIG_MODE = 67,
    VISIBLE_DEVICES = 68,
    GPM_SUPPORT = 94,
    SM_CLOCK = 100,
    MAX_SM_CLOCK = 113,
    POWER_USAGE = 155,
    TOTAL_ENERGY = 156,
    ENFORCED_POWER_LIMIT = 164,
    GPU_UTIL = 203,
    FB_TOTAL = 250,
    FIRST_PROFILING = 1001,
    ENGINE = 1001,
    SM = 1002,
    TENSOR = 1004,
    DRAM = 1005,
    FP32 = 1007,
    NVLINK_TX = 1011,
    NVLINK_RX = 1012,
    IMMA = 1013,
    HMMA = 1014,
    DFMA = 1015,
    INTEGER = 1016,
    CYCLES_ELAPSED = 1084,
    CYCLES_TENSOR = 1086,
    CYCLES_DMMA = 1087,
    CYCLES_HMMA = 1088,
    CYCLES_IMMA = 1089,
    CYCLES_DFMA = 1090,
    CYCLES_INTEGER = 1093,
    LAST_PROFILING = 1096,
};
enum { MAX_GPUS = 32, MAX_INSTANCES = 64, MAX_NO_FIELDS = 8 };
enum { ANOTHER = 64, MAX_CONNECTIONS = 64, MAX_GROUPS = 64, MAX_ENTITIES = 64, MAX_FIELDS = 128, MAX_CELLS = 2048 };
enum { MAX_WATCHERS = 4, BURST = 16, SHORTEST_MICROS = 100000 };
enum { PIPE_ANY, PIPE_DMMA, PIPE_HMMA, PIPE_IMMA, PIPE_DFMA, PIPE_INTEGER, PIPE_SM, PIPE_DRAM, PIPE_FP32, PIPES };

#define BLANK_INT64 0x7ffffffffffffff0LL
#define BLANK_FP64 140737488355328.0

/* --- the ABI ---------------------------------------------------------------------------------- */

typedef uintptr_t handle_t;

union value {
    int64_t i64;
    double dbl;
    char str[256];
    char blob[4096];
};
struct value_v1 {
    unsigned version;
    unsigned short field, type;
    int status;
    int64_t micros;
    union value value;
};
struct value_v2 {
    unsigned version, group, number;
    unsigned short field, type;
    int status;
    unsigned unused;
    int64_t micros;
    union value value;
};
struct connect_v2 {
    unsigned version, persist, timeout_ms, is_unix;
};
struct embedded_v2 {
    unsigned version;
    int mode;
    handle_t handle;
    const char *log_file;
    int severity;
    unsigned deny_count;
    const char *service_account;
    unsigned deny[10];
};
struct pair {
    unsigned group, number;
};
struct hierarchy_entry {
    struct pair entity, parent;
    char uuid[128];
    unsigned gpu_index, instance, compute_instance, profile, slices;
};
struct hierarchy_v2 {
    unsigned version, count;
    struct hierarchy_entry entries[448];
};
typedef int (*enumeration)(int group, unsigned number, struct value_v1 *values, int count, void *data);

_Static_assert(sizeof(struct value_v1) == 4120, "dcgmFieldValue_v1");
_Static_assert(sizeof(struct value_v2) == 4128, "dcgmFieldValue_v2");
_Static_assert(sizeof(struct connect_v2) == 16, "dcgmConnectV2Params_v2");
_Static_assert(sizeof(struct embedded_v2) == 80, "dcgmStartEmbeddedV2Params_v2");
_Static_assert(sizeof(struct hierarchy_v2) == 73480, "dcgmMigHierarchy_v2");

/* --- the world -------------------------------------------------------------------------------- */

/* Integrals over time. Activity is a share of `all`: of time, or with a curve of cycles. */
struct done {
    double all, active[PIPES], elapsed, cycles[PIPES];
    double seconds, engine, bytes, joules; /* the engine's share is one of time; bytes of each direction of NVLink */
};
/* A GPM sample: one for all fields of an entity (DcgmGpmManager.cpp). */
struct gpm_sample {
    int64_t micros;
    struct done done;
};
struct gpm_samples {
    size_t count, room;
    struct gpm_sample *all;
};
struct gpu {
    bool present;
    char uuid[80], name[96], bus_id[32];
    unsigned pci_id, max_clock_mhz, memory_mib, device_file, status;
    unsigned gpm, mig, cycles, cycles_per, blank, mute_field;
    int major, minor;
    double active[PIPES];
    bool told;        /* `value` stands instead of what was measured */
    double value;
    double cycles_before;
    double graphics, power, power_limit, clock_excess;
    struct clocks clocks;
    unsigned no_fields[MAX_NO_FIELDS], no_field_count;
    struct curve curve; /* stands instead of activity, engine and clocks */
    struct done done, renewed; /* `renewed`: until its counters last changed */
    struct gpm_samples samples;
};
struct instance {
    bool present, compute;
    int gpu, id;
    char profile[32], uuid[80];
    double active;
    struct done done, renewed;
    struct gpm_samples samples;
};
struct sample {
    int64_t micros;
    bool blank;
    double number;
};
struct watcher {
    handle_t connection;
    int64_t interval;
};
/* One field of one entity, as the host engine's cache holds it. */
struct cell {
    struct pair entity;
    unsigned short field;
    struct watcher watchers[MAX_WATCHERS];
    int64_t next;        /* when it is sampled again */
    bool sampled;        /* by the module that profiles GPUs before Hopper, and then: */
    struct done before;
    bool held;           /* the newest sample is there, but not to be seen yet */
    unsigned taken;
    struct sample *all, *samples; /* room for samples, and the first that is kept */
    size_t count, room, most;
};
struct group {
    handle_t connection;
    struct pair entities[MAX_ENTITIES];
    unsigned count;
};
struct field_group {
    handle_t connection;
    char name[80];
    unsigned short fields[MAX_FIELDS];
    unsigned count;
};
struct connection {
    bool open, embedded;
    unsigned life; /* of the host engine that it was made to */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gpu gpus[MAX_GPUS];
static struct instance instances[MAX_INSTANCES];
static struct faults faults;
static struct connection connections[MAX_CONNECTIONS];
static struct group groups[MAX_GROUPS];
static struct field_group field_groups[MAX_GROUPS];
static struct cell cells[MAX_CELLS];
static unsigned cell_count;
static int version = 406;
static char address[256] = "127.0.0.1:5555";
static bool engine = true, module_there, paused, own_time, disorder, late;
static int64_t ahead;
static unsigned life = 1, initialised;
static int64_t now_micros;
static double hang_seconds, refresh_seconds = 0.1;
static double worked; /* seconds that have passed, however the clock was set */
/* The thread that samples: its rounds, and how long it takes to wake up and for each field. */
static struct {
    int64_t late_micros, field_micros, late;
    bool in_round;
    unsigned at; /* which cell is next in the round */
    uint32_t noise;
} thread;
static char read_path[4096];
static long read_until;

static bool is_profiling(unsigned short field) {
    return field >= FIRST_PROFILING && field <= LAST_PROFILING;
}

#endif
