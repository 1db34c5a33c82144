/* What the GPUs of a scenario are, and what they have done since the library was loaded. */
#ifndef NVML_WORLD_H
#define NVML_WORLD_H

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DOUBLE "nvml"
#include "curve.h"

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    GPU_IS_LOST = 15,
    MEMORY = 20,
};
enum { GRAPHICS = 1, SM = 2, OCCUPANCY = 3, INTEGER = 4, ANY_TENSOR = 5, DFMA = 6, HMMA = 7, DMMA = 8, IMMA = 9 };
enum { DRAM = 10, FP64 = 11, FP32 = 12, FP16 = 13, PIPES = 14 };
enum { PCIE_TX = 20, PCIE_RX = 21, NVLINK_RX = 60, NVLINK_TX = 61, LINKS = 4 };
enum { MEMORY_CLOCK = 2 }; /* nvmlClockType_t */
enum { CYCLES_ELAPSED = 248, CYCLES_TENSOR = 250 };
enum { MAX_GPUS = 128, MAX_INSTANCES = 15, MAX_MIG_HANDLES = 4096 };
/* Of the engines of a GPU: the whole, and after it the instances by their ids. */
enum { WHOLE = 0, ENGINES = 1 + MAX_INSTANCES };
enum { CORES_PER_SM = 128, GI_SLICES = 8 };

/* "Since reboot": the counters do not begin at 0 when the program does. */
static const double CYCLES_BEFORE = 1e12;
static const double JOULES_BEFORE = 1e6;

enum cycles { AUTO, PER_SM, SUMMED, NONE };

/* What does the work: a GPU, or an instance of it. */
struct engine {
    bool present;
    char profile[32];
    unsigned sms, parts, slices, code;
    unsigned born; /* tells an instance from an earlier one with its id */
    double active[PIPES];
    double link_bytes[LINKS]; /* per second: PCIe sent, received, NVLink received, sent */
};

struct gpu {
    bool present;
    char uuid[80], name[96], bus_id[32];
    unsigned device_id, max_clock_mhz, cores, device_file;
    unsigned long long memory;
    int major, minor;
    unsigned gpm, mig, lost, nan, strict_ids, mute, dead, virtualization;
    enum cycles cycles;
    double hang_seconds, power, power_limit, held, clock_excess;
    unsigned long long clock_reasons;
    struct engine engines[ENGINES];
    struct clocks clocks;
    struct curve curve; /* stands instead of the activity of the whole and of the clocks */
};

struct world {
    char driver[32];
    bool own_time; /* set by `time` lines */
    unsigned unloaded, births;
    double call_seconds, refresh_seconds;
    struct faults faults;
    struct gpu gpus[MAX_GPUS];
};

/* Integrals since the library was loaded. Activity is a share of `all`: of time, or with a curve of cycles. */
struct totals {
    double active[PIPES], all, elapsed, tensor;
    double engine, seconds, bytes[LINKS], joules, held; /* over time: the engine's share is not one of cycles */
};

typedef struct device {
    int index;
    int instance;          /* its id; of a GPU -1 */
    unsigned part, births; /* of a MIG device: its compute instance, and when the handle was made */
} device;

typedef struct sample {
    struct sample *next;
    long long renewed_ns; /* at byte 8, as of an H200: the time of its counters */
    int gpu; /* NO_GPU until it was taken */
    int engine;
    unsigned born;
    struct totals totals;
} sample;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct world world;
static struct totals totals[MAX_GPUS][ENGINES];
static struct totals renewed_totals[MAX_GPUS][ENGINES]; /* as of the last refresh: what is given */
static device devices[MAX_GPUS];
static device mig_devices[MAX_MIG_HANDLES]; /* one per answer, the oldest given out again */
static unsigned mig_handles;
static sample *samples;
static unsigned initialised;
static int device_file = -1;
static unsigned clock_calls[MAX_GPUS];
static long read_until;
static char read_path[4096];
static double integrated_until;

#endif
