/* A stand-in for libnvidia-ml.so.1: as many GPUs as a scenario file names, and no hardware.
 *
 * OFU_TEST_NVML_SCENARIO names the file. It is looked at again at every call, so a test changes it
 * while the program runs. It is a log of lines `word value...`: a later line overrides an earlier
 * one, `#` begins a comment, and a word that is not known here aborts the program.
 *
 *   driver VERSION               e.g. 595.45; from branch 595 on there are cycle counters
 *   time SECONDS                 moves this library's clock there, the first such line starts it;
 *                                without any it runs with the real time
 *   refresh SECONDS              of the counters, of a curve's clock and of the energy: 0.1
 *   call_seconds SECONDS         with such a clock: how far each nvmlGpmSampleGet and each
 *                                nvmlDeviceGetClockInfo moves it; what they give is of its middle
 *   error CALL CODE              CALL (a C name) answers CODE; 0 ends that
 *   unloaded CODE                every call answers CODE: the driver is gone, or another one; 0 ends that
 *   gpu N                        GPU N is there; every other line of a GPU says so too
 *   gpu N error CALL CODE        the same for calls on this GPU
 *   gpu N metric_error ID CODE   nvmlGpmMetricsGet gives metric ID this return code
 *   gpu N uuid|name|bus_id TEXT
 *   gpu N device_id HEX          PCI device id, four digits
 *   gpu N max_clock_mhz|cores|memory|device_file NUMBER      device_file: N of /dev/nvidiaN
 *   gpu N compute MAJOR MINOR
 *   gpu N clock_mhz MHZ...       one per nvmlDeviceGetClockInfo call, over and over
 *   gpu N tensor|hmma|dmma|imma|integer|graphics|sm|occupancy|dram|fp64|fp32|fp16 RATIO
 *                                what it does from here on, 0..1; the SMs and the engine at least what needs them
 *   gpu N pcie_sent|pcie_received|nvlink_sent|nvlink_received BYTES      per second
 *   gpu N curve PATH             instead of these and of clock_mhz: from here on what the file says (curve.h)
 *   gpu N clock_excess RATIO     by which the clock of a curve with tensor work is named too high
 *   gpu N power|power_limit WATTS
 *   gpu N clock_reasons BITS     of nvmlClocksEventReasons; 0 = nothing holds the clock down
 *   gpu N held RATIO             share of the time in which the power cap does: its counter of nanoseconds
 *   gpu N cycles auto|per_sm|summed|none
 *   gpu N gpm|mig|lost|nan|strict_ids|mute|dead 0|1    strict_ids: one unknown metric id fails the
 *                                whole call; mute: nvmlGpmMetricsGet succeeds and fills nothing in;
 *                                dead: the GPU works, and every metric is 0 or stands still
 *   gpu N virtualization MODE    nvmlGpuVirtualizationMode_t: 0 bare metal, 1 passthrough, 2 a vGPU
 *   gpu N instance ID PROFILE SMS [PARTS [SLICES]]   there is a GPU instance with SMS SMs and
 *                                PARTS compute instances (1), which fill SLICES of its slices (all)
 *   gpu N instance ID gone
 *   gpu N instance ID tensor|hmma|dmma|imma|integer|graphics RATIO
 *   gpu N instance ID code CODE  its samples answer CODE
 *   gpu N hang_seconds SECONDS   nvmlGpmSampleGet takes that time, or until the file says 0
 *
 * Since `time` is part of the log, what a GPU did between two samples does not depend on when the
 * file was read: the means that nvmlGpmMetricsGet gives are exact.
 */
#define _POSIX_C_SOURCE 200809L

#include "nvml_scenario.h"

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

/* A line of the scenario that takes effect now, and stays out of the file: for long runs. */
void test_apply(const char *text) {
    char line[512];
    pthread_mutex_lock(&lock);
    look();
    set_text(line, sizeof line, text);
    read_line(line);
    pthread_mutex_unlock(&lock);
}

/* This library's clock. */
double test_time(void) {
    pthread_mutex_lock(&lock);
    double now = integrated_until;
    pthread_mutex_unlock(&lock);
    return now;
}

/* As if the library had just been loaded; the samples that are left are forgotten, not freed. */
void test_reset(void) {
    pthread_mutex_lock(&lock);
    forget_world();
    forget_totals();
    memset(clock_calls, 0, sizeof clock_calls);
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
    unsigned code = world.unloaded ? world.unloaded : fault_of(NO_GPU, call);
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

static bool is_mig(const device *handle) {
    return handle >= mig_devices && handle < mig_devices + MAX_MIG_HANDLES;
}

/* For the calls that take a GPU or a MIG device. One that was made before a change is used no more:
 * the real library may have given its place to another instance. */
static unsigned enter_any(const device *handle, const char *call) {
    if (!is_mig(handle))
        return enter_gpu(handle, call);
    unsigned code = enter(call);
    if (handle->births != world.births)
        die("a MIG handle from before instances came or went", call);
    return code != SUCCESS ? code : state_of(handle->index, call);
}

static const struct engine *engine_of(const device *handle) {
    return &world.gpus[handle->index].engines[1 + handle->instance];
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

/* The library attaches to the driver through files such as /dev/nvidiactl, and lets go of everything when nvmlShutdown
 * was called as often as nvmlInit: docs.nvidia.com/deploy/nvml-api, "Initialization and Cleanup". Here the file is
 * beside the scenario, so that a test finds it among the descriptors of the process. */
static void open_device(void) {
    char path[sizeof read_path + 8];
    snprintf(path, sizeof path, "%s.device", read_path);
    device_file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

unsigned nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    pthread_mutex_lock(&lock);
    look();
    unsigned code = world.unloaded ? world.unloaded : fault_of(NO_GPU, __func__);
    if (code == SUCCESS && initialised++ == 0)
        open_device();
    for (int i = 0; i < MAX_GPUS; i++)
        devices[i] = (device){.index = i, .instance = -1};
    return leave(code);
}

unsigned nvmlShutdown(void) {
    unsigned code = enter(__func__);
    if (code == SUCCESS && --initialised == 0)
        close(device_file);
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
    unsigned code = enter_any(handle, __func__);
    if (code == SUCCESS && is_mig(handle)) {
        char text[80];
        snprintf(text, sizeof text, "MIG-%08d-0000-0000-%04d-%012u", handle->index,
                 handle->instance, handle->part);
        return leave(give_text(text, uuid, size));
    }
    return leave(code != SUCCESS ? code : give_text(gpu_of(handle)->uuid, uuid, size));
}

unsigned nvmlDeviceGetName(device *handle, char *name, unsigned size) {
    unsigned code = enter_any(handle, __func__);
    if (code == SUCCESS && is_mig(handle)) {
        const struct engine *engine = engine_of(handle);
        char text[160];
        snprintf(text, sizeof text, "%s MIG %s%s", gpu_of(handle)->name,
                 engine->parts > 1 ? "1c." : "", engine->profile);
        return leave(give_text(text, name, size));
    }
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
    unsigned code = enter_gpu(handle, __func__);
    pass_half_a_call();
    if (code == SUCCESS && type == MEMORY_CLOCK) {
        *mhz = 3201; /* of an H200, loaded or not */
    } else if (code == SUCCESS) {
        struct gpu *gpu = &world.gpus[handle->index];
        *mhz = gpu->curve.all != NULL
                   ? named_mhz(stretch_now(&gpu->curve, renewed_at(handle->index)), gpu->clock_excess)
                   : gpu->clocks.mhz[clock_calls[handle->index]++ % gpu->clocks.count];
    }
    pass_half_a_call();
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

unsigned nvmlDeviceGetPowerUsage(device *handle, unsigned *milliwatts) {
    unsigned code = enter_gpu(handle, __func__);
    if (code == SUCCESS)
        *milliwatts = (unsigned)(1000 * gpu_of(handle)->power);
    return leave(code);
}

/* Millijoules since the driver was loaded (nvml.h). */
unsigned nvmlDeviceGetTotalEnergyConsumption(device *handle, unsigned long long *millijoules) {
    unsigned code = enter_gpu(handle, __func__);
    if (code == SUCCESS)
        *millijoules = (unsigned long long)(1000 * (JOULES_BEFORE + renewed_totals[handle->index][WHOLE].joules));
    return leave(code);
}

unsigned nvmlDeviceGetEnforcedPowerLimit(device *handle, unsigned *milliwatts) {
    unsigned code = enter_gpu(handle, __func__);
    if (code == SUCCESS)
        *milliwatts = (unsigned)(1000 * gpu_of(handle)->power_limit);
    return leave(code);
}

/* nvml.h: a mask of nvmlClocksEventReason... */
unsigned nvmlDeviceGetCurrentClocksEventReasons(device *handle, unsigned long long *reasons) {
    unsigned code = enter_gpu(handle, __func__);
    if (code == SUCCESS)
        *reasons = gpu_of(handle)->clock_reasons;
    return leave(code);
}

/* The name of the same in drivers before R535, which later ones still have. */
unsigned nvmlDeviceGetCurrentClocksThrottleReasons(device *handle, unsigned long long *reasons) {
    unsigned code = enter_gpu(handle, __func__);
    if (code == SUCCESS)
        *reasons = gpu_of(handle)->clock_reasons;
    return leave(code);
}

struct utilization {
    unsigned gpu, memory; /* percent of the time in which a kernel ran, or memory was used */
};

/* "On MIG-enabled GPUs, querying device utilization rates is not currently supported." The real value
 * is of a past sample period of 1/6 to 1 second, this one of now. */
unsigned nvmlDeviceGetUtilizationRates(device *handle, struct utilization *utilization) {
    unsigned code = enter_gpu(handle, __func__);
    if (code == SUCCESS && gpu_of(handle)->mig)
        code = NOT_SUPPORTED;
    if (code == SUCCESS) {
        struct gpu *gpu = &world.gpus[handle->index];
        double busy = gpu->engines[WHOLE].active[GRAPHICS];
        if (gpu->curve.all != NULL)
            busy = stretch_now(&gpu->curve, integrated_until)->tensor > 0.0;
        *utilization = (struct utilization){(unsigned)(100.0 * busy + 0.5), 0};
    }
    return leave(code);
}

/* For Kepler or newer (nvml.h); the binding hands over 64 bits, the library fills an enum. */
unsigned nvmlDeviceGetVirtualizationMode(device *handle, unsigned *mode) {
    unsigned code = enter_gpu(handle, __func__);
    if (code == SUCCESS)
        *mode = gpu_of(handle)->virtualization;
    return leave(code);
}

unsigned nvmlDeviceGetMigMode(device *handle, unsigned *current, unsigned *pending) {
    unsigned code = enter_gpu(handle, __func__);
    if (code == SUCCESS)
        *current = *pending = gpu_of(handle)->mig;
    return leave(code);
}

/* --- MIG: a MIG device is a compute instance in a GPU instance ---------------------------------- */

unsigned nvmlDeviceGetMaxMigDeviceCount(device *handle, unsigned *count) {
    unsigned code = enter_gpu(handle, __func__);
    if (code == SUCCESS)
        *count = gpu_of(handle)->mig ? 7 : 0;
    return leave(code);
}

unsigned nvmlDeviceGetMigDeviceHandleByIndex(device *handle, unsigned index, device **found) {
    unsigned code = enter_gpu(handle, __func__);
    if (code != SUCCESS)
        return leave(code);
    for (int id = 0; gpu_of(handle)->mig && id < MAX_INSTANCES; id++) {
        const struct engine *engine = &gpu_of(handle)->engines[1 + id];
        if (index < engine->parts) {
            device *fresh = &mig_devices[mig_handles++ % MAX_MIG_HANDLES];
            *fresh = (device){handle->index, id, index, world.births};
            *found = fresh;
            return leave(SUCCESS);
        }
        index -= engine->parts;
    }
    return leave(NOT_FOUND);
}

unsigned nvmlDeviceGetGpuInstanceId(device *handle, unsigned *id) {
    unsigned code = enter_any(handle, __func__);
    if (code == SUCCESS && !is_mig(handle))
        code = INVALID_ARGUMENT;
    if (code == SUCCESS)
        *id = (unsigned)handle->instance;
    return leave(code);
}

struct attributes {
    unsigned sms, engines[5], instance_slices, compute_slices;
    unsigned long long memory_mib;
};

unsigned nvmlDeviceGetAttributes_v2(device *handle, struct attributes *attributes) {
    unsigned code = enter_any(handle, __func__);
    if (code == SUCCESS && !is_mig(handle))
        code = INVALID_ARGUMENT;
    if (code == SUCCESS) {
        const struct engine *engine = engine_of(handle);
        *attributes = (struct attributes){
            .sms = engine->sms * engine->slices / GI_SLICES / engine->parts,
            .instance_slices = GI_SLICES,
            .compute_slices = engine->slices / engine->parts,
            .memory_mib = 10240,
        };
    }
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

static void take(sample *taken, int gpu, int engine) {
    pass_half_a_call();
    taken->gpu = gpu;
    taken->engine = engine;
    taken->born = world.gpus[gpu].engines[engine].born;
    taken->renewed_ns = (long long)(1e9 * renewed_at(gpu));
    taken->totals = renewed_totals[gpu][engine];
    pass_half_a_call();
}

unsigned nvmlGpmSampleGet(device *handle, sample *taken) {
    hang(handle->index);
    unsigned code = enter_gpu(handle, __func__);
    link_to(taken, __func__);
    if (code == SUCCESS && (!gpu_of(handle)->gpm || gpu_of(handle)->mig))
        code = NOT_SUPPORTED;
    if (code == SUCCESS)
        take(taken, handle->index, WHOLE);
    return leave(code);
}

unsigned nvmlGpmMigSampleGet(device *handle, unsigned instance, sample *taken) {
    hang(handle->index);
    unsigned code = enter_gpu(handle, __func__);
    link_to(taken, __func__);
    if (code == SUCCESS && (!gpu_of(handle)->gpm || !gpu_of(handle)->mig))
        code = NOT_SUPPORTED;
    if (code == SUCCESS) {
        const struct engine *engine = &gpu_of(handle)->engines[1 + instance];
        code = instance < MAX_INSTANCES && engine->present ? engine->code : INVALID_ARGUMENT;
    }
    if (code == SUCCESS)
        take(taken, handle->index, 1 + (int)instance);
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

static const double MIB = 1 << 20;

/* NVML_GPM_METRIC_PCIE_TX_PER_SEC and so on, in MiB per second (nvml.h). */
static int link_of(unsigned id) {
    static const unsigned ids[LINKS] = {PCIE_TX, PCIE_RX, NVLINK_RX, NVLINK_TX};
    for (int link = 0; link < LINKS; link++)
        if (ids[link] == id)
            return link;
    return -1;
}

static unsigned measure(struct gpm_metric *metric, const sample *first, const sample *second) {
    const struct gpu *gpu = &world.gpus[second->gpu];
    char id[16];
    snprintf(id, sizeof id, "%u", metric->id);
    unsigned code = fault_of(second->gpu, id);
    if (code != SUCCESS)
        return code;
    if (metric->id >= GRAPHICS && metric->id < PIPES) {
        double all = second->totals.all - first->totals.all;
        double busy = second->totals.active[metric->id] - first->totals.active[metric->id];
        if (metric->id == GRAPHICS) { /* "percentage of time", nvml.h; the others are of cycles */
            all = second->totals.seconds - first->totals.seconds;
            busy = second->totals.engine - first->totals.engine;
        }
        metric->value = gpu->nan ? NAN : gpu->dead ? 0.0 : 100.0 * busy / all;
        return SUCCESS;
    }
    int link = link_of(metric->id);
    if (link >= 0) {
        double bytes = second->totals.bytes[link] - first->totals.bytes[link];
        metric->value = bytes / (second->totals.seconds - first->totals.seconds) / MIB;
        return SUCCESS;
    }
    if (metric->id != CYCLES_ELAPSED && metric->id != CYCLES_TENSOR)
        return INVALID_ARGUMENT;
    if (!has_cycles(gpu))
        return INVALID_ARGUMENT; /* so R580 says of all ids from 248 to 260 */
    if (second->engine != WHOLE)
        return NOT_SUPPORTED;
    double cycles = metric->id == CYCLES_ELAPSED ? second->totals.elapsed : second->totals.tensor;
    metric->value = CYCLES_BEFORE + (gpu->dead ? 0.0 : cycles);
    return SUCCESS;
}

unsigned nvmlGpmMetricsGet(struct gpm_metrics *asked) {
    unsigned code = enter(__func__);
    const sample *first = *link_to(asked->first, __func__);
    const sample *second = *link_to(asked->second, __func__);
    if (code != SUCCESS)
        return leave(code);
    if (asked->version != 1 || asked->count == 0 || first->gpu == NO_GPU ||
        first->gpu != second->gpu || first->engine != second->engine ||
        first->born != second->born || first->renewed_ns >= second->renewed_ns)
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
