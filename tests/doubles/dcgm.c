/* A stand-in for libdcgm.so.4 and the host engine behind it, as a scenario file says, and no hardware.
 *
 * OFU_TEST_DCGM_SCENARIO names the file. It is looked at again at every call, so a test changes it
 * while the program runs. It is a log of lines `word value...`: lines are only ever added, each is
 * read once, `#` begins a comment, and a word that is not known here aborts the program.
 *
 *   time SECONDS                 unix time; the host engine samples what is watched up to there.
 *                                Without any such line it runs with the real time
 *   version MAJOR.MINOR          of DCGM, 4.6 by default; fields come with versions
 *   address TEXT                 where a host engine listens; 127.0.0.1:5555 by default
 *   engine 0|1                   whether it runs; when it ends, so does every connection
 *   restart                      it ends and is there again at once
 *   forget                       it samples no more of what is watched, for nobody
 *   module 0|1                   whether it has the module that profiles GPUs before Hopper
 *   disorder 1                   the next sample of every field is stamped with an earlier time
 *   ahead SECONDS                samples are stamped so far ahead
 *   error CALL CODE              CALL answers CODE; 0 ends that
 *   gpu N                        GPU N is there; every other line of a GPU says so too
 *   gpu N error CALL CODE        the same for a call about this GPU
 *   gpu N uuid|name|bus_id TEXT
 *   gpu N pci_id HEX             device and vendor, eight digits
 *   gpu N max_clock_mhz|memory_mib|device_file NUMBER
 *   gpu N compute MAJOR MINOR
 *   gpu N clock_mhz MHZ...       one per sample, over and over
 *   gpu N tensor|hmma|imma|dfma RATIO       what the pipe does from here on, 0..1
 *   gpu N value RATIO            samples of the tensor counter say this instead; `value off` ends that
 *   gpu N gpm|mig|cycles|blank 0|1          blank: profiling fields have no value
 *   gpu N no_field ID            this field never has a value
 *   gpu N cycles_before NUMBER   what the cycle counters begin with
 *   gpu N status NUMBER          DcgmEntityStatus_t; 4 = lost
 *   instance G ID PROFILE UUID   GPU G has GPU instance ID, with one compute instance
 *   instance G ID tensor RATIO   what its tensor pipe does
 *   instance G ID compute 0|1    whether it has a compute instance: without one no counter counts
 *   instance G ID gone
 *
 * Misuse that the real library or host engine does not survive ends the program: live values of a
 * profiling field, a watch without an interval or faster than the hardware, a handle that was freed.
 */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
    FB_TOTAL = 250,
    FIRST_PROFILING = 1001,
    TENSOR = 1004,
    IMMA = 1013,
    DFMA = 1015,
    CYCLES_ELAPSED = 1084,
    CYCLES_TENSOR = 1086,
    LAST_PROFILING = 1096,
};
enum { MAX_GPUS = 32, MAX_INSTANCES = 64, MAX_CLOCKS = 16, MAX_FAULTS = 32, MAX_NO_FIELDS = 8 };
enum { MAX_CONNECTIONS = 64, MAX_GROUPS = 64, MAX_ENTITIES = 64, MAX_FIELDS = 16, MAX_CELLS = 1024 };
enum { MAX_WATCHERS = 4, BURST = 16, NO_GPU = -1, SHORTEST_MICROS = 100000 };

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

struct fault {
    int gpu;
    char call[48];
    int code;
};
struct gpu {
    bool present;
    char uuid[80], name[96], bus_id[32];
    unsigned pci_id, max_clock_mhz, memory_mib, device_file, status;
    unsigned gpm, mig, cycles, blank;
    int major, minor;
    double active[4]; /* tensor, imma, hmma, dfma */
    bool told;        /* `value` stands instead of what was measured */
    double value;
    double cycles_before;
    unsigned clocks[MAX_CLOCKS], clock_count;
    unsigned no_fields[MAX_NO_FIELDS], no_field_count;
    double busy[4], elapsed_cycles, tensor_cycles; /* integrals over time */
};
struct instance {
    bool present, compute;
    int gpu, id;
    char profile[32], uuid[80];
    double active, busy;
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
    int64_t next, last;  /* when it is sampled again, and was last */
    double integral;     /* at the last sample; negative before the first */
    unsigned taken;
    struct sample *samples;
    size_t count, room;
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
static struct fault faults[MAX_FAULTS];
static unsigned fault_count;
static struct connection connections[MAX_CONNECTIONS];
static struct group groups[MAX_GROUPS];
static struct field_group field_groups[MAX_GROUPS];
static struct cell cells[MAX_CELLS];
static unsigned cell_count;
static int version = 406;
static char address[256] = "127.0.0.1:5555";
static bool engine = true, module_there, paused, own_time, disorder;
static int64_t ahead;
static unsigned life = 1, initialised;
static int64_t now_micros;
static char read_path[4096];
static long read_until;

static void die(const char *what, const char *detail) {
    fprintf(stderr, "tests/doubles/dcgm.c: %s: %s\n", what, detail);
    abort();
}

static void set_text(char *to, size_t size, const char *text) {
    if ((size_t)snprintf(to, size, "%s", text) >= size)
        die("too long", text);
}

static bool is_profiling(unsigned short field) {
    return field >= FIRST_PROFILING && field <= LAST_PROFILING;
}

/* --- sampling --------------------------------------------------------------------------------- */

static struct instance *instance_of(unsigned number) {
    return number < MAX_INSTANCES && instances[number].present ? &instances[number] : NULL;
}

static int gpu_of(struct pair entity) {
    if (entity.group == FE_GPU)
        return entity.number < MAX_GPUS && gpus[entity.number].present ? (int)entity.number : NO_GPU;
    const struct instance *instance = instance_of(entity.number);
    return instance == NULL ? NO_GPU : instance->gpu;
}

static bool lacks(const struct gpu *gpu, unsigned short field) {
    for (unsigned i = 0; i < gpu->no_field_count; i++)
        if (gpu->no_fields[i] == field)
            return true;
    return false;
}

static int pipe_of(unsigned short field) {
    return field == TENSOR ? 0 : field >= IMMA && field <= DFMA ? field - IMMA + 1 : -1;
}

/* The integral that a field's samples are made of. */
static double integral_of(const struct cell *cell) {
    const struct gpu *gpu = &gpus[gpu_of(cell->entity)];
    int pipe = pipe_of(cell->field);
    if (cell->entity.group == FE_GPU_I)
        return pipe == 0 ? instance_of(cell->entity.number)->busy : 0.0;
    return pipe < 0 ? 0.0 : gpu->busy[pipe];
}

static bool is_blank(const struct cell *cell, const struct gpu *gpu) {
    if (gpu->status == STATUS_LOST || lacks(gpu, cell->field))
        return true;
    if (!is_profiling(cell->field))
        return false;
    if (gpu->blank || cell->integral < 0.0 || (paused && !gpu->gpm))
        return true;
    if (cell->entity.group == FE_GPU_I && !instance_of(cell->entity.number)->compute)
        return true;
    return cell->field >= CYCLES_ELAPSED && !gpu->cycles;
}

static void keep(struct cell *cell, int64_t micros, bool blank, double number) {
    if (cell->count == cell->room) {
        cell->room = cell->room ? 2 * cell->room : 64;
        cell->samples = realloc(cell->samples, cell->room * sizeof *cell->samples);
        if (cell->samples == NULL)
            die("out of memory", "samples");
    }
    cell->samples[cell->count++] = (struct sample){micros, blank, number};
    if (cell->count > 4000) {
        cell->count -= 2000;
        memmove(cell->samples, cell->samples + 2000, cell->count * sizeof *cell->samples);
    }
}

static void take_sample(struct cell *cell, int64_t at) {
    if (gpu_of(cell->entity) == NO_GPU)
        return;
    const struct gpu *gpu = &gpus[gpu_of(cell->entity)];
    double integral = integral_of(cell), number = 0.0;
    bool blank = is_blank(cell, gpu);
    if (cell->field == SM_CLOCK)
        number = gpu->clocks[cell->taken % gpu->clock_count];
    else if (cell->field == CYCLES_ELAPSED)
        number = gpu->cycles_before + gpu->elapsed_cycles;
    else if (cell->field == CYCLES_TENSOR)
        number = gpu->cycles_before / 2 + gpu->tensor_cycles;
    else if (!blank)
        number = (integral - cell->integral) / ((double)(at - cell->last) * 1e-6);
    if (gpu->told && cell->field == TENSOR)
        number = gpu->value;
    int64_t stamp = at + ahead - (disorder ? 1500000 : 0);
    int repeats = gpu->status == STATUS_LOST ? BURST : 1;
    for (int i = 0; i < repeats; i++)
        keep(cell, stamp + i, blank, number);
    cell->integral = integral;
    cell->last = at;
    cell->taken++;
}

static int64_t interval_of(const struct cell *cell) {
    int64_t shortest = 0;
    for (int i = 0; i < MAX_WATCHERS; i++) {
        int64_t interval = cell->watchers[i].interval;
        if (interval > 0 && (shortest == 0 || interval < shortest))
            shortest = interval;
    }
    return shortest;
}

static void integrate(double seconds) {
    for (int i = 0; i < MAX_GPUS; i++) {
        struct gpu *gpu = &gpus[i];
        if (!gpu->present)
            continue;
        double mhz = 0.0;
        for (unsigned k = 0; k < gpu->clock_count; k++)
            mhz += gpu->clocks[k] / (double)gpu->clock_count;
        for (int pipe = 0; pipe < 4; pipe++)
            gpu->busy[pipe] += seconds * gpu->active[pipe];
        gpu->elapsed_cycles += seconds * mhz * 1e6;
        gpu->tensor_cycles += seconds * mhz * 1e6 * gpu->active[0];
    }
    for (int i = 0; i < MAX_INSTANCES; i++)
        if (instances[i].present)
            instances[i].busy += seconds * instances[i].active;
}

/* Let time pass, and take every sample that falls due. */
static void pass_until(int64_t until) {
    while (now_micros < until) {
        int64_t next = until;
        for (unsigned i = 0; i < cell_count; i++)
            if (interval_of(&cells[i]) > 0 && cells[i].next < next)
                next = cells[i].next;
        if (next > now_micros) {
            integrate((double)(next - now_micros) * 1e-6);
            now_micros = next;
        }
        bool any = false;
        for (unsigned i = 0; i < cell_count; i++)
            if (interval_of(&cells[i]) > 0 && cells[i].next <= now_micros) {
                take_sample(&cells[i], now_micros);
                cells[i].next = now_micros + interval_of(&cells[i]);
                any = true;
            }
        disorder = disorder && !any;
    }
}

static int64_t real_micros(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* --- the scenario ----------------------------------------------------------------------------- */

static void end_engine(void) {
    life++;
    paused = false;
    for (unsigned i = 0; i < cell_count; i++)
        free(cells[i].samples);
    memset(cells, 0, sizeof cells);
    cell_count = 0;
    memset(groups, 0, sizeof groups);
    memset(field_groups, 0, sizeof field_groups);
}

static void forget_watches(void) {
    for (unsigned i = 0; i < cell_count; i++)
        memset(cells[i].watchers, 0, sizeof cells[i].watchers);
}

static struct gpu *known_gpu(int index) {
    if (index < 0 || index >= MAX_GPUS)
        die("no such GPU", "its number is too high");
    struct gpu *gpu = &gpus[index];
    if (gpu->present)
        return gpu;
    *gpu = (struct gpu){
        .present = true,
        .pci_id = 0x233010de,
        .max_clock_mhz = 1980,
        .memory_mib = 81559,
        .device_file = (unsigned)index,
        .status = STATUS_OK,
        .gpm = 1,
        .cycles = 1,
        .major = 9,
        .cycles_before = 1e12,
        .clocks = {1500},
        .clock_count = 1,
    };
    snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-00000000-0000-0000-0000-%012d", index);
    snprintf(gpu->bus_id, sizeof gpu->bus_id, "00000000:%02X:00.0", 0x1b + index);
    set_text(gpu->name, sizeof gpu->name, "NVIDIA H100 80GB HBM3");
    return gpu;
}

static void set_fault(int gpu, const char *values) {
    struct fault fault = {.gpu = gpu};
    if (sscanf(values, "%47s %d", fault.call, &fault.code) != 2)
        die("not `CALL CODE`", values);
    for (unsigned i = 0; i < fault_count; i++)
        if (faults[i].gpu == gpu && strcmp(faults[i].call, fault.call) == 0) {
            faults[i].code = fault.code;
            return;
        }
    if (fault_count == MAX_FAULTS)
        die("too many errors", values);
    faults[fault_count++] = fault;
}

static int fault_of(int gpu, const char *call) {
    for (unsigned i = 0; i < fault_count; i++)
        if (faults[i].gpu == gpu && strcmp(faults[i].call, call) == 0)
            return faults[i].code;
    return OK;
}

static void set_clocks(struct gpu *gpu, const char *values) {
    char *end;
    gpu->clock_count = 0;
    for (const char *at = values; gpu->clock_count < MAX_CLOCKS; at = end) {
        unsigned long mhz = strtoul(at, &end, 10);
        if (end == at)
            break;
        gpu->clocks[gpu->clock_count++] = (unsigned)mhz;
    }
    if (gpu->clock_count == 0)
        die("no clock", values);
}

static bool set_ratio(struct gpu *gpu, const char *word, const char *value) {
    static const char *const pipes[] = {"tensor", "imma", "hmma", "dfma"};
    for (int i = 0; i < 4; i++)
        if (strcmp(word, pipes[i]) == 0) {
            gpu->active[i] = strtod(value, NULL);
            return true;
        }
    if (strcmp(word, "cycles_before") == 0)
        gpu->cycles_before = strtod(value, NULL);
    else if (strcmp(word, "value") == 0) {
        gpu->told = strcmp(value, "off") != 0;
        gpu->value = strtod(value, NULL);
    } else
        return false;
    return true;
}

static bool set_number(struct gpu *gpu, const char *word, const char *value) {
    const struct {
        const char *word;
        unsigned *number;
    } numbers[] = {
        {"max_clock_mhz", &gpu->max_clock_mhz},
        {"memory_mib", &gpu->memory_mib},
        {"device_file", &gpu->device_file},
        {"status", &gpu->status},
        {"gpm", &gpu->gpm},
        {"mig", &gpu->mig},
        {"cycles", &gpu->cycles},
        {"blank", &gpu->blank},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(word, numbers[i].word) == 0) {
            *numbers[i].number = (unsigned)strtoul(value, NULL, 10);
            return true;
        }
    return false;
}

static bool set_identity(struct gpu *gpu, const char *word, const char *value) {
    if (strcmp(word, "uuid") == 0)
        set_text(gpu->uuid, sizeof gpu->uuid, value);
    else if (strcmp(word, "name") == 0)
        set_text(gpu->name, sizeof gpu->name, value);
    else if (strcmp(word, "bus_id") == 0)
        set_text(gpu->bus_id, sizeof gpu->bus_id, value);
    else if (strcmp(word, "pci_id") == 0)
        gpu->pci_id = (unsigned)strtoul(value, NULL, 16);
    else
        return false;
    return true;
}

static void set_gpu(const char *rest) {
    int index, used = 0;
    char word[32] = "";
    if (sscanf(rest, "%d %n%31s %n", &index, &used, word, &used) < 1)
        die("not a GPU's line", rest);
    const char *value = rest + used;
    struct gpu *gpu = known_gpu(index);
    if (word[0] == '\0')
        return;
    if (strcmp(word, "error") == 0)
        set_fault(index, value);
    else if (strcmp(word, "clock_mhz") == 0)
        set_clocks(gpu, value);
    else if (strcmp(word, "compute") == 0)
        sscanf(value, "%d %d", &gpu->major, &gpu->minor);
    else if (strcmp(word, "no_field") == 0 && gpu->no_field_count < MAX_NO_FIELDS)
        gpu->no_fields[gpu->no_field_count++] = (unsigned)strtoul(value, NULL, 10);
    else if (!set_ratio(gpu, word, value) && !set_number(gpu, word, value) &&
             !set_identity(gpu, word, value))
        die("no such setting of a GPU", rest);
}

static struct instance *place_of(int gpu, int id) {
    struct instance *vacant = NULL;
    for (int i = MAX_INSTANCES - 1; i >= 0; i--) {
        if (instances[i].present && instances[i].gpu == gpu && instances[i].id == id)
            return &instances[i];
        if (!instances[i].present)
            vacant = &instances[i];
    }
    if (vacant == NULL)
        die("no room for an instance", "");
    return vacant;
}

/* What the host engine had of an entity that is gone, goes with it. */
static void forget_cells(unsigned number) {
    for (unsigned i = 0; i < cell_count; i++)
        if (cells[i].entity.group == FE_GPU_I && cells[i].entity.number == number) {
            free(cells[i].samples);
            memset(&cells[i], 0, sizeof cells[i]);
        }
}

static void set_instance(const char *rest) {
    int gpu, id, used = 0;
    char word[32] = "", value[96] = "";
    if (sscanf(rest, "%d %d %n%31s %95s", &gpu, &id, &used, word, value) < 3)
        die("not an instance's line", rest);
    known_gpu(gpu);
    struct instance *instance = place_of(gpu, id);
    if (strcmp(word, "gone") == 0) {
        forget_cells((unsigned)(instance - instances));
        instance->present = false;
    } else if (strcmp(word, "tensor") == 0) {
        instance->active = strtod(value, NULL);
    } else if (strcmp(word, "compute") == 0) {
        instance->compute = strtoul(value, NULL, 10) != 0;
    } else {
        *instance = (struct instance){.present = true, .compute = true, .gpu = gpu, .id = id};
        set_text(instance->profile, sizeof instance->profile, word);
        set_text(instance->uuid, sizeof instance->uuid, value);
    }
}

static void set_engine(bool runs) {
    if (engine && !runs)
        end_engine();
    engine = runs;
}

static void set_time(const char *value) {
    int64_t micros = (int64_t)(strtod(value, NULL) * 1e6 + 0.5);
    if (!own_time || micros < now_micros) /* the clock is set: what is watched is sampled from there */
        for (unsigned i = 0; i < cell_count; i++) {
            cells[i].next += micros - now_micros;
            cells[i].last += micros - now_micros;
        }
    if (!own_time || micros < now_micros)
        now_micros = micros;
    own_time = true;
    pass_until(micros);
}

static void read_line(char *line) {
    line[strcspn(line, "#\n")] = '\0';
    char word[16] = "";
    int used = 0, major, minor;
    if (sscanf(line, "%15s %n", word, &used) < 1)
        return;
    const char *rest = line + used;
    if (strcmp(word, "gpu") == 0)
        set_gpu(rest);
    else if (strcmp(word, "instance") == 0)
        set_instance(rest);
    else if (strcmp(word, "time") == 0)
        set_time(rest);
    else if (strcmp(word, "error") == 0)
        set_fault(NO_GPU, rest);
    else if (strcmp(word, "engine") == 0)
        set_engine(strtoul(rest, NULL, 10) != 0);
    else if (strcmp(word, "restart") == 0)
        end_engine();
    else if (strcmp(word, "forget") == 0)
        forget_watches();
    else if (strcmp(word, "module") == 0)
        module_there = strtoul(rest, NULL, 10) != 0;
    else if (strcmp(word, "disorder") == 0)
        disorder = true;
    else if (strcmp(word, "ahead") == 0)
        ahead = (int64_t)(strtod(rest, NULL) * 1e6);
    else if (strcmp(word, "address") == 0)
        set_text(address, sizeof address, rest);
    else if (strcmp(word, "version") == 0 && sscanf(rest, "%d.%d", &major, &minor) == 2)
        version = 100 * major + minor;
    else
        die("no such setting", line);
}

/* The world as of now: what was added to the log since the last look, line by line. */
static void look(void) {
    const char *path = getenv("OFU_TEST_DCGM_SCENARIO");
    if (path == NULL)
        die("no scenario", "OFU_TEST_DCGM_SCENARIO is not set");
    if (!own_time) {
        int64_t now = real_micros();
        if (now_micros == 0)
            now_micros = now;
        pass_until(now);
    }
    FILE *file = fopen(path, "r");
    if (file == NULL)
        die("cannot read the scenario", path);
    if (strcmp(path, read_path) != 0) {
        set_text(read_path, sizeof read_path, path);
        read_until = 0;
    }
    char line[512];
    if (fseek(file, read_until, SEEK_SET) != 0)
        die("cannot read the scenario", path);
    while (fgets(line, sizeof line, file) != NULL)
        read_line(line);
    read_until = ftell(file);
    fclose(file);
}

/* --- what a test may ask ---------------------------------------------------------------------- */

static unsigned locked_count(unsigned (*count)(void)) {
    pthread_mutex_lock(&lock);
    unsigned found = count();
    pthread_mutex_unlock(&lock);
    return found;
}

static unsigned count_watches(void) {
    unsigned found = 0;
    for (unsigned i = 0; i < cell_count; i++)
        found += interval_of(&cells[i]) > 0;
    return found;
}

static unsigned count_connections(void) {
    unsigned found = 0;
    for (int i = 1; i < MAX_CONNECTIONS; i++)
        found += connections[i].open;
    return found;
}

static unsigned count_groups(void) {
    unsigned found = 0;
    for (int i = 1; i < MAX_GROUPS; i++)
        found += (groups[i].connection != 0) + (field_groups[i].connection != 0);
    return found;
}

unsigned test_watches(void) {
    return locked_count(count_watches);
}

unsigned test_connections(void) {
    return locked_count(count_connections);
}

unsigned test_groups(void) {
    return locked_count(count_groups);
}

/* Whether a field of an entity is watched by anybody. */
unsigned test_is_watched(unsigned group, unsigned number, unsigned field) {
    unsigned found = 0;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < cell_count; i++)
        if (cells[i].entity.group == group && cells[i].entity.number == number &&
            cells[i].field == field)
            found += interval_of(&cells[i]) > 0;
    pthread_mutex_unlock(&lock);
    return found;
}

unsigned test_paused(void) {
    return paused;
}

unsigned test_initialised(void) {
    return initialised;
}

/* As if the library had just been loaded, and the host engine just been started. */
void test_reset(void) {
    pthread_mutex_lock(&lock);
    end_engine();
    memset(gpus, 0, sizeof gpus);
    memset(instances, 0, sizeof instances);
    memset(connections, 0, sizeof connections);
    fault_count = initialised = 0;
    version = 406;
    set_text(address, sizeof address, "127.0.0.1:5555");
    engine = true;
    module_there = own_time = disorder = false;
    ahead = now_micros = 0;
    read_path[0] = '\0';
    pthread_mutex_unlock(&lock);
}

/* --- every call begins with enter() or enter_with() and ends with leave() --------------------- */

static int enter(const char *call) {
    pthread_mutex_lock(&lock);
    look();
    int code = fault_of(NO_GPU, call);
    return code != OK ? code : initialised == 0 ? UNINITIALIZED : OK;
}

static int enter_with(handle_t connection, const char *call) {
    int code = enter(call);
    if (connection == 0 || connection >= MAX_CONNECTIONS || !connections[connection].open)
        die("not a connection, or one that was closed", call);
    if (code != OK)
        return code;
    const struct connection *own = &connections[connection];
    return own->embedded || (engine && own->life == life) ? OK : CONNECTION_NOT_VALID;
}

static int leave(int code) {
    pthread_mutex_unlock(&lock);
    return code;
}

static handle_t new_connection(bool embedded) {
    for (handle_t i = 1; i < MAX_CONNECTIONS; i++)
        if (!connections[i].open) {
            connections[i] = (struct connection){.open = true, .embedded = embedded, .life = life};
            return i;
        }
    die("too many connections", "");
    return 0;
}

static void end_connection(handle_t connection) {
    connections[connection].open = false;
    if (connections[connection].life != life)
        return;
    for (unsigned i = 0; i < cell_count; i++)
        for (int k = 0; k < MAX_WATCHERS; k++)
            if (cells[i].watchers[k].connection == connection)
                cells[i].watchers[k] = (struct watcher){0};
    for (int i = 0; i < MAX_GROUPS; i++) {
        if (groups[i].connection == connection)
            groups[i].connection = 0;
        if (field_groups[i].connection == connection)
            field_groups[i].connection = 0;
    }
}

/* --- the library ------------------------------------------------------------------------------ */

int dcgmInit(void) {
    pthread_mutex_lock(&lock);
    look();
    int code = fault_of(NO_GPU, __func__);
    initialised += code == OK;
    return leave(code);
}

int dcgmShutdown(void) {
    int code = enter(__func__);
    if (code == OK)
        initialised--;
    return leave(code);
}

const char *errorString(int code) {
    return code == OK ? "Success" : "An error of the test double";
}

int dcgmConnect_v2(const char *where, struct connect_v2 *parameters, handle_t *handle) {
    int code = enter(__func__);
    char wanted[300];
    snprintf(wanted, sizeof wanted, "%s%s", parameters->is_unix ? "unix:" : "", where);
    if (code == OK && parameters->version != 0x02000010)
        code = VER_MISMATCH;
    if (code == OK && (!engine || strcmp(wanted, address) != 0))
        code = CONNECTION_NOT_VALID;
    if (code == OK && parameters->persist != 0)
        die("what is watched must end with the connection", __func__);
    if (code == OK)
        *handle = new_connection(false);
    return leave(code);
}

int dcgmDisconnect(handle_t handle) {
    int code = enter_with(handle, __func__);
    end_connection(handle);
    return leave(code);
}

int dcgmStartEmbedded_v2(struct embedded_v2 *parameters) {
    int code = enter(__func__);
    if (code == OK && parameters->version != 0x02000050)
        code = VER_MISMATCH;
    if (code == OK && (parameters->mode != 1 || parameters->deny_count > 10))
        code = BADPARAM;
    if (code == OK)
        parameters->handle = new_connection(true);
    return leave(code);
}

int dcgmStopEmbedded(handle_t handle) {
    int code = enter_with(handle, __func__);
    end_connection(handle);
    return leave(code);
}

static int list_gpus(unsigned *numbers, int *count, bool all) {
    *count = 0;
    for (unsigned i = 0; i < MAX_GPUS; i++)
        if (gpus[i].present && (all || gpus[i].status == STATUS_OK))
            numbers[(*count)++] = i;
    return OK;
}

int dcgmGetAllDevices(handle_t handle, unsigned *numbers, int *count) {
    int code = enter_with(handle, __func__);
    return leave(code != OK ? code : list_gpus(numbers, count, true));
}

int dcgmGetAllSupportedDevices(handle_t handle, unsigned *numbers, int *count) {
    int code = enter_with(handle, __func__);
    return leave(code != OK ? code : list_gpus(numbers, count, false));
}

int dcgmGetGpuStatus(handle_t handle, unsigned number, int *status) {
    int code = enter_with(handle, __func__);
    if (code == OK && (number >= MAX_GPUS || !gpus[number].present))
        code = BADPARAM;
    if (code == OK)
        code = fault_of((int)number, __func__);
    if (code == OK)
        *status = (int)gpus[number].status;
    return leave(code);
}

static void add_entry(struct hierarchy_v2 *to, struct pair entity, struct pair parent,
                      const struct instance *instance) {
    struct hierarchy_entry *entry = &to->entries[to->count++];
    memset(entry, 0, sizeof *entry);
    entry->entity = entity;
    entry->parent = parent;
    set_text(entry->uuid, sizeof entry->uuid, gpus[instance->gpu].uuid);
    entry->gpu_index = (unsigned)instance->gpu;
    entry->instance = (unsigned)instance->id;
    entry->compute_instance = entity.group == FE_GPU_CI ? 0 : (unsigned)-1;
    entry->profile = 5;
    entry->slices = (unsigned)strtoul(instance->profile, NULL, 10);
}

int dcgmGetGpuInstanceHierarchy(handle_t handle, struct hierarchy_v2 *hierarchy) {
    int code = enter_with(handle, __func__);
    if (code == OK && hierarchy->version != 0x02011f08)
        code = VER_MISMATCH;
    if (code != OK)
        return leave(code);
    hierarchy->count = 0;
    for (unsigned i = 0; i < MAX_INSTANCES; i++) {
        const struct instance *instance = &instances[i];
        if (!instance->present)
            continue;
        struct pair own = {FE_GPU_I, i}, gpu = {FE_GPU, (unsigned)instance->gpu};
        add_entry(hierarchy, own, gpu, instance);
        if (instance->compute)
            add_entry(hierarchy, (struct pair){FE_GPU_CI, i}, own, instance);
    }
    return leave(OK);
}

/* --- groups ----------------------------------------------------------------------------------- */

int dcgmGroupCreate(handle_t handle, int type, const char *name, handle_t *group) {
    int code = enter_with(handle, __func__);
    if (code == OK && (type != 1 || name == NULL))
        code = BADPARAM;
    if (code != OK)
        return leave(code);
    for (handle_t i = 1; i < MAX_GROUPS; i++)
        if (groups[i].connection == 0) {
            groups[i] = (struct group){.connection = handle};
            *group = i;
            return leave(OK);
        }
    return leave(-24);
}

static struct group *own_group(handle_t connection, handle_t group, const char *call) {
    if (group == 0 || group >= MAX_GROUPS || groups[group].connection != connection)
        die("not a group of this connection", call);
    return &groups[group];
}

int dcgmGroupAddEntity(handle_t handle, handle_t id, int kind, unsigned number) {
    int code = enter_with(handle, __func__);
    if (code != OK)
        return leave(code);
    struct group *group = own_group(handle, id, __func__);
    struct pair entity = {(unsigned)kind, number};
    int gpu = gpu_of(entity);
    if (gpu == NO_GPU || group->count == MAX_ENTITIES)
        return leave(BADPARAM);
    if (gpus[gpu].status == STATUS_LOST)
        return leave(GPU_IS_LOST);
    code = fault_of(gpu, __func__);
    for (unsigned i = 0; i < group->count; i++)
        if (memcmp(&group->entities[i], &entity, sizeof entity) == 0)
            code = BADPARAM;
    if (code == OK)
        group->entities[group->count++] = entity;
    return leave(code);
}

int dcgmGroupRemoveEntity(handle_t handle, handle_t id, int kind, unsigned number) {
    int code = enter_with(handle, __func__);
    if (code != OK)
        return leave(code);
    struct group *group = own_group(handle, id, __func__);
    for (unsigned i = 0; i < group->count; i++)
        if (group->entities[i].group == (unsigned)kind && group->entities[i].number == number) {
            group->entities[i] = group->entities[--group->count];
            return leave(OK);
        }
    return leave(BADPARAM);
}

int dcgmGroupDestroy(handle_t handle, handle_t id) {
    int code = enter_with(handle, __func__);
    if (code == OK)
        own_group(handle, id, __func__)->connection = 0;
    return leave(code);
}

static bool is_known(unsigned short field) {
    if (field == GPM_SUPPORT)
        return version >= 400;
    if (field >= CYCLES_ELAPSED && field <= LAST_PROFILING)
        return version >= 406;
    return field != 0 && field < 1200;
}

int dcgmFieldGroupCreate(handle_t handle, int count, unsigned short *fields, const char *name,
                         handle_t *id) {
    int code = enter_with(handle, __func__);
    for (int i = 0; code == OK && i < count; i++)
        code = is_known(fields[i]) ? OK : BADPARAM;
    for (int i = 1; code == OK && i < MAX_GROUPS; i++)
        if (field_groups[i].connection != 0 && strcmp(field_groups[i].name, name) == 0)
            code = DUPLICATE_KEY;
    if (code == OK && (count < 1 || count > MAX_FIELDS))
        code = BADPARAM;
    if (code != OK)
        return leave(code);
    for (handle_t i = 1; i < MAX_GROUPS; i++)
        if (field_groups[i].connection == 0) {
            field_groups[i] = (struct field_group){.connection = handle, .count = (unsigned)count};
            set_text(field_groups[i].name, sizeof field_groups[i].name, name);
            memcpy(field_groups[i].fields, fields, (size_t)count * sizeof *fields);
            *id = i;
            return leave(OK);
        }
    return leave(-24);
}

static struct field_group *own_fields(handle_t connection, handle_t id, const char *call) {
    if (id == 0 || id >= MAX_GROUPS || field_groups[id].connection != connection)
        die("not a group of fields of this connection", call);
    return &field_groups[id];
}

int dcgmFieldGroupDestroy(handle_t handle, handle_t id) {
    int code = enter_with(handle, __func__);
    if (code == OK)
        own_fields(handle, id, __func__)->connection = 0;
    return leave(code);
}

/* --- watches ---------------------------------------------------------------------------------- */

static struct cell *cell_of(struct pair entity, unsigned short field, bool make) {
    struct cell *vacant = NULL;
    for (unsigned i = 0; i < cell_count; i++) {
        struct cell *cell = &cells[i];
        if (cell->field == 0)
            vacant = cell;
        else if (cell->field == field && cell->entity.group == entity.group &&
                 cell->entity.number == entity.number)
            return cell;
    }
    if (!make)
        return NULL;
    if (vacant == NULL) {
        if (cell_count == MAX_CELLS)
            die("too many fields are watched", "");
        vacant = &cells[cell_count++];
    }
    *vacant = (struct cell){.entity = entity, .field = field, .integral = -1.0};
    return vacant;
}

static void watch(struct cell *cell, handle_t connection, int64_t interval) {
    struct watcher *place = NULL;
    for (int i = MAX_WATCHERS - 1; i >= 0; i--) {
        if (cell->watchers[i].connection == connection) {
            cell->watchers[i].interval = interval;
            return;
        }
        if (cell->watchers[i].interval == 0)
            place = &cell->watchers[i];
    }
    if (place == NULL)
        die("too many clients watch one field", "");
    bool first = interval_of(cell) == 0;
    *place = (struct watcher){connection, interval};
    if (first) { /* one that is sampled already goes on until its next sample is due */
        cell->integral = -1.0;
        take_sample(cell, now_micros);
        cell->next = now_micros + interval;
    }
}

static int may_be_watched(const struct group *group, const struct field_group *fields) {
    const char *model = NULL;
    for (unsigned f = 0; f < fields->count; f++)
        for (unsigned e = 0; e < group->count; e++) {
            int index = gpu_of(group->entities[e]);
            if (!is_profiling(fields->fields[f]) || index == NO_GPU || gpus[index].gpm)
                continue;
            if (!module_there)
                return MODULE_NOT_LOADED;
            if (model != NULL && strcmp(model, gpus[index].name) != 0)
                return GROUP_INCOMPATIBLE;
            model = gpus[index].name;
        }
    return OK;
}

int dcgmWatchFields(handle_t handle, handle_t id, handle_t fields_id, long long interval,
                    double keep_seconds, int most) {
    int code = enter_with(handle, __func__);
    if (code != OK)
        return leave(code);
    const struct group *group = own_group(handle, id, __func__);
    const struct field_group *fields = own_fields(handle, fields_id, __func__);
    if (interval < SHORTEST_MICROS || keep_seconds < 1.0 || most < 1)
        die("a watch that the hardware cannot follow, or that keeps nothing", __func__);
    code = may_be_watched(group, fields);
    for (unsigned e = 0; code == OK && e < group->count; e++)
        code = fault_of(gpu_of(group->entities[e]), __func__);
    for (unsigned e = 0; code == OK && e < group->count; e++)
        for (unsigned f = 0; f < fields->count; f++)
            watch(cell_of(group->entities[e], fields->fields[f], true), handle, interval);
    return leave(code);
}

int dcgmUnwatchFields(handle_t handle, handle_t id, handle_t fields_id) {
    int code = enter_with(handle, __func__);
    if (code != OK)
        return leave(code);
    const struct group *group = own_group(handle, id, __func__);
    const struct field_group *fields = own_fields(handle, fields_id, __func__);
    for (unsigned e = 0; e < group->count; e++)
        for (unsigned f = 0; f < fields->count; f++) {
            struct cell *cell = cell_of(group->entities[e], fields->fields[f], false);
            for (int i = 0; cell != NULL && i < MAX_WATCHERS; i++)
                if (cell->watchers[i].connection == handle)
                    cell->watchers[i] = (struct watcher){0};
        }
    return leave(OK);
}

static bool is_watched_by(const struct cell *cell, handle_t connection) {
    for (int i = 0; cell != NULL && i < MAX_WATCHERS; i++)
        if (cell->watchers[i].connection == connection)
            return true;
    return false;
}

static bool is_integer(unsigned short field) {
    return field == SM_CLOCK || field >= CYCLES_ELAPSED;
}

static void fill(struct value_v1 *to, const struct cell *cell, const struct sample *sample) {
    *to = (struct value_v1){.version = 0x01001018, .field = cell->field, .micros = sample->micros};
    to->type = is_integer(cell->field) ? 'i' : 'd';
    if (is_integer(cell->field))
        to->value.i64 = sample->blank ? BLANK_INT64 : (int64_t)sample->number;
    else
        to->value.dbl = sample->blank ? BLANK_FP64 : sample->number;
}

/* One field of one entity to the caller, in pieces, as the real library may. */
static int64_t give(struct pair entity, unsigned short field, handle_t connection, int64_t since,
                    enumeration give_to, void *data) {
    static struct value_v1 piece[8];
    const struct cell *cell = cell_of(entity, field, false);
    int count = 0;
    int64_t latest = 0;
    bool any = false;
    for (size_t i = 0; cell != NULL && i < cell->count; i++) {
        if (cell->samples[i].micros < since)
            continue;
        any = true;
        latest = cell->samples[i].micros > latest ? cell->samples[i].micros : latest;
        fill(&piece[count++], cell, &cell->samples[i]);
        if (count == 8) {
            give_to((int)entity.group, entity.number, piece, count, data);
            count = 0;
        }
    }
    if (!any) {
        piece[0] = (struct value_v1){.version = 0x01001018, .field = field, .type = 'd'};
        piece[0].status = is_watched_by(cell, connection) ? NO_DATA : NOT_WATCHED;
        count = 1;
    }
    if (count > 0)
        give_to((int)entity.group, entity.number, piece, count, data);
    return latest;
}

int dcgmGetValuesSince_v2(handle_t handle, handle_t id, handle_t fields_id, long long since,
                          long long *next, enumeration give_to, void *data) {
    int code = enter_with(handle, __func__);
    if (code != OK)
        return leave(code);
    const struct group *group = own_group(handle, id, __func__);
    const struct field_group *fields = own_fields(handle, fields_id, __func__);
    int64_t latest = since - 1;
    for (unsigned e = 0; e < group->count; e++)
        for (unsigned f = 0; f < fields->count; f++) {
            int64_t last =
                give(group->entities[e], fields->fields[f], handle, since, give_to, data);
            latest = last > latest ? last : latest;
        }
    *next = latest + 1;
    return leave(OK);
}

/* --- live values ------------------------------------------------------------------------------ */

static void live_text(struct value_v2 *to, const char *text) {
    to->type = 's';
    set_text(to->value.str, sizeof to->value.str, text);
}

static void live_number(struct value_v2 *to, int64_t number) {
    to->type = 'i';
    to->value.i64 = number;
}

static void live_of_gpu(struct value_v2 *to, const struct gpu *gpu, unsigned index) {
    switch (to->field) {
    case DRIVER_VERSION:
        return live_text(to, "595.45.04");
    case NAME:
        return live_text(to, gpu->name);
    case NVML_INDEX:
        return live_number(to, index);
    case UUID:
        return live_text(to, gpu->uuid);
    case MINOR_NUMBER:
        return live_number(to, gpu->device_file);
    case PCI_BUSID:
        return live_text(to, gpu->bus_id);
    case PCI_COMBINED_ID:
        return live_number(to, gpu->pci_id);
    case COMPUTE_CAPABILITY:
        return live_number(to, gpu->major << 16 | gpu->minor);
    case MIG_MODE:
        return live_number(to, gpu->mig);
    case GPM_SUPPORT:
        return live_number(to, gpu->gpm);
    case SM_CLOCK:
        return live_number(to, gpu->clocks[0]);
    case MAX_SM_CLOCK:
        return live_number(to, gpu->max_clock_mhz);
    case FB_TOTAL:
        return live_number(to, gpu->memory_mib);
    default:
        return live_number(to, BLANK_INT64 + 2);
    }
}

static void live_of_instance(struct value_v2 *to, const struct instance *instance) {
    if (to->group == FE_GPU_I && to->field == NAME) {
        live_text(to, instance->profile);
    } else if (to->group == FE_GPU_CI && to->field == VISIBLE_DEVICES) {
        live_text(to, instance->uuid);
    } else {
        live_text(to, "<<<NOT_SUPPORTED>>>");
    }
}

int dcgmEntitiesGetLatestValues(handle_t handle, struct pair *entities, unsigned entity_count,
                                unsigned short *fields, unsigned field_count, unsigned flags,
                                struct value_v2 *values) {
    int code = enter_with(handle, __func__);
    for (unsigned f = 0; f < field_count; f++) {
        if (is_profiling(fields[f]) && flags == 1)
            die("the host engine does not survive live values of a profiling field", __func__);
        if (code == OK && !is_known(fields[f]))
            code = GENERIC_ERROR;
    }
    for (unsigned e = 0; code == OK && e < entity_count; e++)
        for (unsigned f = 0; f < field_count; f++) {
            struct value_v2 *to = values++;
            *to = (struct value_v2){.version = 0x02001020, .field = fields[f]};
            to->group = entities[e].group;
            to->number = entities[e].number;
            to->micros = now_micros;
            int gpu = gpu_of(entities[e]);
            if (gpu == NO_GPU)
                to->status = BADPARAM;
            else if (gpus[gpu].status == STATUS_LOST)
                live_text(to, "<<<NULL>>>");
            else if (entities[e].group == FE_GPU)
                live_of_gpu(to, &gpus[gpu], entities[e].number);
            else
                live_of_instance(to, instance_of(entities[e].number));
        }
    return leave(code);
}

/* --- pausing ---------------------------------------------------------------------------------- */

static int set_paused(handle_t handle, const char *call, bool value) {
    int code = enter_with(handle, call);
    bool any = false;
    for (int i = 0; i < MAX_GPUS; i++)
        any = any || (gpus[i].present && !gpus[i].gpm);
    if (code == OK && !any)
        code = NOT_SUPPORTED;
    if (code == OK)
        paused = value;
    return leave(code);
}

int dcgmProfPause(handle_t handle) {
    return set_paused(handle, __func__, true);
}

int dcgmProfResume(handle_t handle) {
    return set_paused(handle, __func__, false);
}
