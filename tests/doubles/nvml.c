/* A stand-in for libnvidia-ml.so.1: as many GPUs as a scenario file names, and no hardware.
 *
 * OFU_TEST_NVML_SCENARIO names the file. It is looked at again at every call, so a test changes it
 * while the program runs. It is a log of lines `word value...`: a later line overrides an earlier
 * one, `#` begins a comment, and a word that is not known here aborts the program.
 *
 *   driver VERSION               e.g. 595.45; from branch 595 on there are cycle counters
 *   time SECONDS                 moves this library's clock there, the first such line starts it;
 *                                without any it runs with the real time
 *   error CALL CODE              CALL (a C name) answers CODE; 0 ends that
 *   gpu N                        GPU N is there; every other line of a GPU says so too
 *   gpu N error CALL CODE        the same for calls on this GPU
 *   gpu N metric_error ID CODE   nvmlGpmMetricsGet gives metric ID this return code
 *   gpu N uuid|name|bus_id TEXT
 *   gpu N device_id HEX          PCI device id, four digits
 *   gpu N max_clock_mhz|cores|memory|device_file NUMBER      device_file: N of /dev/nvidiaN
 *   gpu N compute MAJOR MINOR
 *   gpu N clock_mhz MHZ...       one per nvmlDeviceGetClockInfo call, over and over
 *   gpu N tensor|hmma|dmma|imma RATIO       what the pipe does from here on, 0..1
 *   gpu N cycles auto|per_sm|summed|none
 *   gpu N gpm|mig|lost|nan|strict_ids|mute 0|1    strict_ids: one unknown metric id fails the whole
 *                                call; mute: nvmlGpmMetricsGet succeeds and fills nothing in
 *   gpu N hang_seconds SECONDS   nvmlGpmSampleGet takes so long, or until the file says 0
 *
 * Since `time` is part of the log, what a GPU did between two samples does not depend on when the
 * file was read: the means that nvmlGpmMetricsGet gives are exact.
 */
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

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
enum { ANY_TENSOR = 5, DFMA = 6, HMMA = 7, DMMA = 8, IMMA = 9, PIPES = 10 };
enum { CYCLES_ELAPSED = 248, CYCLES_TENSOR = 250 };
enum { MAX_GPUS = 128, MAX_CLOCKS = 16, MAX_FAULTS = 32 };
enum { NO_GPU = -1, CORES_PER_SM = 128 };

/* "Since reboot": the counters do not begin at 0 when the program does. */
static const double CYCLES_BEFORE = 1e12;

enum cycles { AUTO, PER_SM, SUMMED, NONE };

struct fault {
    int gpu;
    char call[48]; /* a call, or the number of a metric */
    unsigned code;
};

struct gpu {
    bool present;
    char uuid[80], name[96], bus_id[32];
    unsigned device_id, max_clock_mhz, cores, device_file;
    unsigned long long memory;
    int major, minor;
    unsigned gpm, mig, lost, nan, strict_ids, mute;
    enum cycles cycles;
    double hang_seconds;
    double active[PIPES];
    unsigned clocks[MAX_CLOCKS], clock_count;
};

struct world {
    char driver[32];
    bool own_time; /* set by `time` lines */
    unsigned fault_count;
    struct fault faults[MAX_FAULTS];
    struct gpu gpus[MAX_GPUS];
};

/* Integrals over time since the library was loaded. */
struct totals {
    double active[PIPES], elapsed, tensor;
};

typedef struct device {
    int index;
} device;

typedef struct sample {
    struct sample *next;
    int gpu; /* NO_GPU until it was taken */
    double time;
    struct totals totals;
} sample;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct world world;
static struct totals totals[MAX_GPUS];
static device devices[MAX_GPUS];
static sample *samples;
static unsigned initialised;
static unsigned clock_calls[MAX_GPUS];
static struct stat read_file;
static char read_path[4096];
static double integrated_until;

static void die(const char *what, const char *detail) {
    fprintf(stderr, "tests/doubles/nvml.c: %s: %s\n", what, detail);
    abort();
}

/* --- the scenario ----------------------------------------------------------------------------- */

static double real_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void set_text(char *to, size_t size, const char *text) {
    if ((size_t)snprintf(to, size, "%s", text) >= size)
        die("too long", text);
}

static void integrate_until(double now) {
    double seconds = now - integrated_until;
    for (int i = 0; i < MAX_GPUS; i++) {
        const struct gpu *gpu = &world.gpus[i];
        if (!gpu->present)
            continue;
        double mhz = 0.0;
        for (unsigned k = 0; k < gpu->clock_count; k++)
            mhz += gpu->clocks[k] / (double)gpu->clock_count;
        double cycles = seconds * mhz * 1e6;
        if (gpu->cycles == SUMMED)
            cycles *= gpu->cores / CORES_PER_SM;
        for (int pipe = 0; pipe < PIPES; pipe++)
            totals[i].active[pipe] += seconds * gpu->active[pipe];
        totals[i].elapsed += cycles;
        totals[i].tensor += cycles * gpu->active[ANY_TENSOR];
    }
    integrated_until = now;
}

static struct gpu *known_gpu(int index) {
    if (index < 0 || index >= MAX_GPUS)
        die("no such GPU", "its number is too high");
    struct gpu *gpu = &world.gpus[index];
    if (gpu->present)
        return gpu;
    gpu->present = true;
    snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-00000000-0000-0000-0000-%012d", index);
    snprintf(gpu->bus_id, sizeof gpu->bus_id, "00000000:%02X:00.0", 0x1b + index);
    set_text(gpu->name, sizeof gpu->name, "NVIDIA H100 80GB HBM3");
    gpu->device_id = 0x2330;
    gpu->device_file = (unsigned)index;
    gpu->max_clock_mhz = 1980;
    gpu->cores = 132 * CORES_PER_SM;
    gpu->memory = 85520809984ULL;
    gpu->major = 9;
    gpu->gpm = 1;
    gpu->clocks[0] = 1500;
    gpu->clock_count = 1;
    return gpu;
}

static void set_fault(int gpu, const char *values) {
    struct fault fault = {.gpu = gpu};
    if (sscanf(values, "%47s %u", fault.call, &fault.code) != 2)
        die("not `CALL CODE`", values);
    for (unsigned i = 0; i < world.fault_count; i++) {
        struct fault *old = &world.faults[i];
        if (old->gpu == gpu && strcmp(old->call, fault.call) == 0) {
            old->code = fault.code;
            return;
        }
    }
    if (world.fault_count == MAX_FAULTS)
        die("too many errors", values);
    world.faults[world.fault_count++] = fault;
}

static unsigned fault_of(int gpu, const char *call) {
    for (unsigned i = 0; i < world.fault_count; i++)
        if (world.faults[i].gpu == gpu && strcmp(world.faults[i].call, call) == 0)
            return world.faults[i].code;
    return SUCCESS;
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

static void set_cycles(struct gpu *gpu, const char *value) {
    static const char *const names[] = {"auto", "per_sm", "summed", "none"};
    for (int i = AUTO; i <= NONE; i++)
        if (strcmp(value, names[i]) == 0) {
            gpu->cycles = (enum cycles)i;
            return;
        }
    die("cycles cannot be", value);
}

static bool set_ratio(struct gpu *gpu, const char *word, const char *value) {
    static const struct {
        const char *word;
        int pipe;
    } pipes[] = {{"tensor", ANY_TENSOR}, {"hmma", HMMA}, {"dmma", DMMA}, {"imma", IMMA}};
    for (size_t i = 0; i < sizeof pipes / sizeof *pipes; i++)
        if (strcmp(word, pipes[i].word) == 0) {
            gpu->active[pipes[i].pipe] = strtod(value, NULL);
            return true;
        }
    return false;
}

static bool set_number(struct gpu *gpu, const char *word, const char *value) {
    const struct {
        const char *word;
        unsigned *number;
    } numbers[] = {
        {"max_clock_mhz", &gpu->max_clock_mhz},
        {"cores", &gpu->cores},
        {"device_file", &gpu->device_file},
        {"gpm", &gpu->gpm},
        {"mig", &gpu->mig},
        {"lost", &gpu->lost},
        {"nan", &gpu->nan},
        {"strict_ids", &gpu->strict_ids},
        {"mute", &gpu->mute},
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
    else if (strcmp(word, "device_id") == 0)
        gpu->device_id = (unsigned)strtoul(value, NULL, 16);
    else if (strcmp(word, "memory") == 0)
        gpu->memory = strtoull(value, NULL, 10);
    else
        return false;
    return true;
}

static void read_gpu_line(const char *rest) {
    int index, used = 0;
    char word[32] = "";
    if (sscanf(rest, "%d %n%31s %n", &index, &used, word, &used) < 1)
        die("not a GPU's line", rest);
    const char *value = rest + used;
    struct gpu *gpu = known_gpu(index);
    if (word[0] == '\0')
        return;
    if (strcmp(word, "error") == 0 || strcmp(word, "metric_error") == 0)
        set_fault(index, value);
    else if (strcmp(word, "clock_mhz") == 0)
        set_clocks(gpu, value);
    else if (strcmp(word, "cycles") == 0)
        set_cycles(gpu, value);
    else if (strcmp(word, "hang_seconds") == 0)
        gpu->hang_seconds = strtod(value, NULL);
    else if (strcmp(word, "compute") == 0)
        sscanf(value, "%d %d", &gpu->major, &gpu->minor);
    else if (!set_ratio(gpu, word, value) && !set_number(gpu, word, value) &&
             !set_identity(gpu, word, value))
        die("no such setting of a GPU", rest);
}

static void read_line(char *line) {
    line[strcspn(line, "#\n")] = '\0';
    char word[16] = "";
    int used = 0;
    if (sscanf(line, "%15s %n", word, &used) < 1)
        return;
    const char *rest = line + used;
    if (strcmp(word, "gpu") == 0) {
        read_gpu_line(rest);
    } else if (strcmp(word, "driver") == 0) {
        set_text(world.driver, sizeof world.driver, rest);
    } else if (strcmp(word, "error") == 0) {
        set_fault(NO_GPU, rest);
    } else if (strcmp(word, "time") == 0) {
        double now = strtod(rest, NULL);
        if (!world.own_time) { /* the log begins here: before it nothing was done */
            memset(totals, 0, sizeof totals);
            integrated_until = now;
        }
        world.own_time = true;
        integrate_until(now);
    } else {
        die("no such setting", line);
    }
}

static bool same_file(const char *path, const struct stat *now) {
    return strcmp(path, read_path) == 0 && now->st_ino == read_file.st_ino &&
           now->st_size == read_file.st_size && now->st_mtim.tv_sec == read_file.st_mtim.tv_sec &&
           now->st_mtim.tv_nsec == read_file.st_mtim.tv_nsec;
}

static void read_scenario(void) {
    const char *path = getenv("OFU_TEST_NVML_SCENARIO");
    struct stat now;
    if (path == NULL)
        die("no scenario", "OFU_TEST_NVML_SCENARIO is not set");
    FILE *file = fopen(path, "r");
    if (file == NULL || fstat(fileno(file), &now) != 0)
        die("cannot read the scenario", path);
    if (!same_file(path, &now)) {
        char line[512];
        memset(&world, 0, sizeof world);
        set_text(world.driver, sizeof world.driver, "550.54.15");
        while (fgets(line, sizeof line, file) != NULL)
            read_line(line);
        set_text(read_path, sizeof read_path, path);
        read_file = now;
    }
    fclose(file);
}

/* The world as of now: real time that has passed belongs to the settings it passed under. */
static void look(void) {
    if (!world.own_time)
        integrate_until(real_time());
    read_scenario();
}

/* --- what a test may ask ---------------------------------------------------------------------- */

unsigned test_samples_alive(void) {
    unsigned alive = 0;
    pthread_mutex_lock(&lock);
    for (const sample *each = samples; each != NULL; each = each->next)
        alive++;
    pthread_mutex_unlock(&lock);
    return alive;
}

unsigned test_initialised(void) {
    pthread_mutex_lock(&lock);
    unsigned count = initialised;
    pthread_mutex_unlock(&lock);
    return count;
}

/* As if the library had just been loaded; the samples that are left are forgotten, not freed. */
void test_reset(void) {
    pthread_mutex_lock(&lock);
    memset(&world, 0, sizeof world);
    memset(totals, 0, sizeof totals);
    memset(clock_calls, 0, sizeof clock_calls);
    memset(&read_file, 0, sizeof read_file);
    read_path[0] = '\0';
    samples = NULL;
    initialised = 0;
    integrated_until = real_time();
    pthread_mutex_unlock(&lock);
}

/* --- every call begins with enter() or enter_gpu() and ends with leave() ---------------------- */

static unsigned enter(const char *call) {
    pthread_mutex_lock(&lock);
    look();
    unsigned code = fault_of(NO_GPU, call);
    return code != SUCCESS ? code : initialised == 0 ? UNINITIALIZED : SUCCESS;
}

static unsigned state_of(int gpu, const char *call) {
    if (!world.gpus[gpu].present)
        return INVALID_ARGUMENT;
    if (world.gpus[gpu].lost)
        return GPU_IS_LOST;
    return fault_of(gpu, call);
}

static unsigned enter_gpu(const device *handle, const char *call) {
    unsigned code = enter(call);
    if (code != SUCCESS)
        return code;
    if (handle < devices || handle >= devices + MAX_GPUS)
        die("not a device handle", call);
    return state_of(handle->index, call);
}

static unsigned leave(unsigned code) {
    pthread_mutex_unlock(&lock);
    return code;
}

static struct gpu *gpu_of(const device *handle) {
    return &world.gpus[handle->index];
}

static unsigned give_text(const char *text, char *to, unsigned size) {
    return (unsigned)snprintf(to, size, "%s", text) < size ? SUCCESS : INSUFFICIENT_SIZE;
}

/* --- the library ------------------------------------------------------------------------------ */

unsigned nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    pthread_mutex_lock(&lock);
    look();
    unsigned code = fault_of(NO_GPU, __func__);
    if (code == SUCCESS)
        initialised++;
    for (int i = 0; i < MAX_GPUS; i++)
        devices[i].index = i;
    return leave(code);
}

unsigned nvmlShutdown(void) {
    unsigned code = enter(__func__);
    if (code == SUCCESS)
        initialised--;
    return leave(code);
}

const char *nvmlErrorString(unsigned code) {
    return code == SUCCESS ? "The operation was successful" : "An error of the test double";
}

unsigned nvmlSystemGetDriverVersion(char *version, unsigned size) {
    unsigned code = enter(__func__);
    return leave(code != SUCCESS ? code : give_text(world.driver, version, size));
}

unsigned nvmlDeviceGetCount_v2(unsigned *count) {
    unsigned code = enter(__func__);
    *count = 0;
    for (int i = 0; i < MAX_GPUS; i++)
        *count += world.gpus[i].present;
    return leave(code);
}

unsigned nvmlDeviceGetHandleByIndex_v2(unsigned index, device **handle) {
    unsigned code = enter(__func__);
    if (code == SUCCESS)
        code = index < MAX_GPUS ? state_of((int)index, __func__) : INVALID_ARGUMENT;
    if (code == SUCCESS)
        *handle = &devices[index];
    return leave(code);
}

unsigned nvmlDeviceGetHandleByUUID(const char *uuid, device **handle) {
    unsigned code = enter(__func__);
    if (code != SUCCESS)
        return leave(code);
    for (int i = 0; i < MAX_GPUS; i++)
        if (world.gpus[i].present && strcmp(world.gpus[i].uuid, uuid) == 0) {
            *handle = &devices[i];
            return leave(state_of(i, __func__));
        }
    return leave(NOT_FOUND);
}

unsigned nvmlDeviceGetUUID(device *handle, char *uuid, unsigned size) {
    unsigned code = enter_gpu(handle, __func__);
    return leave(code != SUCCESS ? code : give_text(gpu_of(handle)->uuid, uuid, size));
}

unsigned nvmlDeviceGetName(device *handle, char *name, unsigned size) {
    unsigned code = enter_gpu(handle, __func__);
    return leave(code != SUCCESS ? code : give_text(gpu_of(handle)->name, name, size));
}

struct pci_info {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

unsigned nvmlDeviceGetPciInfo_v3(device *handle, struct pci_info *info) {
    unsigned code = enter_gpu(handle, __func__);
    if (code == SUCCESS) {
        memset(info, 0, sizeof *info);
        info->device_id = gpu_of(handle)->device_id << 16 | 0x10de;
        code = give_text(gpu_of(handle)->bus_id, info->bus_id, sizeof info->bus_id);
    }
    return leave(code);
}

unsigned nvmlDeviceGetMaxClockInfo(device *handle, unsigned type, unsigned *mhz) {
    (void)type;
    unsigned code = enter_gpu(handle, __func__);
    if (code == SUCCESS)
        *mhz = gpu_of(handle)->max_clock_mhz;
    return leave(code);
}

unsigned nvmlDeviceGetMinorNumber(device *handle, unsigned *number) {
    unsigned code = enter_gpu(handle, __func__);
    if (code == SUCCESS)
        *number = gpu_of(handle)->device_file;
    return leave(code);
}

unsigned nvmlDeviceGetClockInfo(device *handle, unsigned type, unsigned *mhz) {
    (void)type;
    unsigned code = enter_gpu(handle, __func__);
    if (code == SUCCESS) {
        const struct gpu *gpu = gpu_of(handle);
        *mhz = gpu->clocks[clock_calls[handle->index]++ % gpu->clock_count];
    }
    return leave(code);
}

unsigned nvmlDeviceGetMemoryInfo(device *handle, unsigned long long *memory) {
    unsigned code = enter_gpu(handle, __func__);
    if (code == SUCCESS) {
        memory[0] = gpu_of(handle)->memory; /* total, free, used */
        memory[1] = gpu_of(handle)->memory;
        memory[2] = 0;
    }
    return leave(code);
}

unsigned nvmlDeviceGetCudaComputeCapability(device *handle, int *major, int *minor) {
    unsigned code = enter_gpu(handle, __func__);
    if (code == SUCCESS) {
        *major = gpu_of(handle)->major;
        *minor = gpu_of(handle)->minor;
    }
    return leave(code);
}

unsigned nvmlDeviceGetNumGpuCores(device *handle, unsigned *cores) {
    unsigned code = enter_gpu(handle, __func__);
    if (code == SUCCESS)
        *cores = gpu_of(handle)->cores;
    return leave(code);
}

unsigned nvmlDeviceGetMigMode(device *handle, unsigned *current, unsigned *pending) {
    unsigned code = enter_gpu(handle, __func__);
    if (code == SUCCESS)
        *current = *pending = gpu_of(handle)->mig;
    return leave(code);
}

/* --- GPM -------------------------------------------------------------------------------------- */

struct gpm_support {
    unsigned version, supported;
};

unsigned nvmlGpmQueryDeviceSupport(device *handle, struct gpm_support *support) {
    unsigned code = enter_gpu(handle, __func__);
    if (code == SUCCESS)
        support->supported = gpu_of(handle)->gpm;
    return leave(code);
}

/* The real library would read freed memory; here the test ends at once and says why. */
static sample **link_to(const sample *wanted, const char *call) {
    for (sample **link = &samples; *link != NULL; link = &(*link)->next)
        if (*link == wanted)
            return link;
    die("a sample that is not allocated (freed twice, or used after it was freed)", call);
    return NULL;
}

unsigned nvmlGpmSampleAlloc(sample **allocated) {
    unsigned code = enter(__func__);
    if (code != SUCCESS)
        return leave(code);
    sample *fresh = calloc(1, sizeof *fresh);
    if (fresh == NULL)
        return leave(MEMORY);
    fresh->gpu = NO_GPU;
    fresh->next = samples;
    samples = fresh;
    *allocated = fresh;
    return leave(SUCCESS);
}

unsigned nvmlGpmSampleFree(sample *freed) {
    pthread_mutex_lock(&lock);
    sample **link = link_to(freed, __func__);
    *link = freed->next;
    free(freed);
    return leave(SUCCESS);
}

static bool still_hangs(int gpu, double begun) {
    pthread_mutex_lock(&lock);
    look();
    double seconds = world.gpus[gpu].hang_seconds;
    pthread_mutex_unlock(&lock);
    return real_time() - begun < seconds;
}

/* Without the lock: a driver that hangs on one GPU answers for the others. */
static void hang(int gpu) {
    const struct timespec nap = {.tv_nsec = 2000000};
    for (double begun = real_time(); still_hangs(gpu, begun);)
        nanosleep(&nap, NULL);
}

unsigned nvmlGpmSampleGet(device *handle, sample *taken) {
    hang(handle->index);
    unsigned code = enter_gpu(handle, __func__);
    link_to(taken, __func__);
    if (code == SUCCESS && (!gpu_of(handle)->gpm || gpu_of(handle)->mig))
        code = NOT_SUPPORTED;
    if (code == SUCCESS) {
        taken->gpu = handle->index;
        taken->time = integrated_until;
        taken->totals = totals[handle->index];
    }
    return leave(code);
}

struct gpm_metric {
    unsigned id, code;
    double value;
    const char *names[3];
};

struct gpm_metrics {
    unsigned version, count;
    sample *first, *second;
    struct gpm_metric metrics[];
};

static bool has_cycles(const struct gpu *gpu) {
    return gpu->cycles == AUTO ? strtol(world.driver, NULL, 10) >= 595 : gpu->cycles != NONE;
}

static unsigned measure(struct gpm_metric *metric, const sample *first, const sample *second) {
    const struct gpu *gpu = &world.gpus[second->gpu];
    char id[16];
    snprintf(id, sizeof id, "%u", metric->id);
    unsigned code = fault_of(second->gpu, id);
    if (code != SUCCESS)
        return code;
    if (metric->id >= ANY_TENSOR && metric->id <= IMMA) {
        double seconds = second->time - first->time;
        double busy = second->totals.active[metric->id] - first->totals.active[metric->id];
        metric->value = gpu->nan ? NAN : 100.0 * busy / seconds;
        return SUCCESS;
    }
    if (metric->id != CYCLES_ELAPSED && metric->id != CYCLES_TENSOR)
        return INVALID_ARGUMENT;
    if (!has_cycles(gpu))
        return NOT_SUPPORTED;
    metric->value = CYCLES_BEFORE + (metric->id == CYCLES_ELAPSED ? second->totals.elapsed
                                                                  : second->totals.tensor);
    return SUCCESS;
}

unsigned nvmlGpmMetricsGet(struct gpm_metrics *asked) {
    unsigned code = enter(__func__);
    const sample *first = *link_to(asked->first, __func__);
    const sample *second = *link_to(asked->second, __func__);
    if (code != SUCCESS)
        return leave(code);
    if (asked->version != 1 || asked->count == 0 || first->gpu == NO_GPU ||
        first->gpu != second->gpu || first->time >= second->time)
        return leave(INVALID_ARGUMENT);
    code = state_of(second->gpu, __func__);
    const struct gpu *gpu = &world.gpus[second->gpu];
    if (code != SUCCESS || gpu->mute)
        return leave(code);
    for (unsigned i = 0; i < asked->count; i++) {
        struct gpm_metric *metric = &asked->metrics[i];
        metric->code = measure(metric, first, second);
        if (gpu->strict_ids && metric->code != SUCCESS)
            return leave(INVALID_ARGUMENT);
    }
    return leave(SUCCESS);
}
