/* The stand-in for NVML with what a real DCGM host engine asks for besides: tests/bench/host_engine.py.
 *
 * Where the curves of the GPUs begin, on this node's monotonic clock, is written beside the scenario. */
#define nvmlGpmMetricsGet metrics_get
#define nvmlInitWithFlags init
#include "nvml_of_card.c"
#undef nvmlGpmMetricsGet
#undef nvmlInitWithFlags

enum { DMMA_CYCLES = 251 };

static void write_beginning(void) {
    char path[sizeof read_path + 8];
    snprintf(path, sizeof path, "%s.begun", read_path);
    FILE *file = fopen(path, "w");
    if (file == NULL)
        die("cannot write", path);
    fprintf(file, "%.9f\n", world.gpus[0].curve.begun);
    fclose(file);
}

unsigned nvmlInitWithFlags(unsigned flags) {
    unsigned code = init(flags);
    if (code == SUCCESS)
        write_beginning();
    return code;
}

/* No tensor work of a curve is FP64, so these cycles stand still. */
unsigned nvmlGpmMetricsGet(struct gpm_metrics *asked) {
    unsigned code = metrics_get(asked);
    for (unsigned i = 0; code == SUCCESS && i < asked->count; i++) {
        struct gpm_metric *metric = &asked->metrics[i];
        if (metric->id == DMMA_CYCLES && has_cycles(&world.gpus[asked->second->gpu])) {
            metric->code = SUCCESS;
            metric->value = CYCLES_BEFORE;
        }
    }
    return code;
}

unsigned nvmlSystemGetNVMLVersion(char *version, unsigned size) {
    return nvmlSystemGetDriverVersion(version, size);
}

unsigned nvmlSystemGetCudaDriverVersion_v2(int *version) {
    *version = 13000;
    return SUCCESS;
}

unsigned nvmlDeviceGetIndex(device *handle, unsigned *index) {
    unsigned code = enter_gpu(handle, __func__);
    *index = (unsigned)handle->index;
    return leave(code);
}

unsigned nvmlDeviceGetBrand(device *handle, unsigned *brand) {
    unsigned code = enter_gpu(handle, __func__);
    *brand = 2; /* Tesla: the host engine supports no other */
    return leave(code);
}

/* Without a set of events the host engine samples nothing. None ever comes. */
unsigned nvmlEventSetCreate(void **set) {
    *set = devices;
    return SUCCESS;
}

unsigned nvmlEventSetFree(void *set) {
    (void)set;
    return SUCCESS;
}

unsigned nvmlDeviceRegisterEvents(device *handle, unsigned long long events, void *set) {
    (void)handle, (void)events, (void)set;
    return SUCCESS;
}

enum { TIMEOUT = 10 };

unsigned nvmlEventSetWait_v2(void *set, void *event, unsigned milliseconds) {
    (void)set, (void)event, (void)milliseconds;
    return TIMEOUT;
}
