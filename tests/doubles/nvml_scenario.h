/* Reads the scenario that the GPUs play; nvml.c says what may stand in it. */
#ifndef NVML_SCENARIO_H
#define NVML_SCENARIO_H

#include "nvml_world.h"

static double real_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static unsigned summed_over(const struct gpu *gpu) {
    return gpu->cycles == SUMMED ? gpu->cores / CORES_PER_SM : 1;
}

/* A tensor instruction has a warp on its SM, and a warp a busy engine. */
static double least_active(const double *active, int pipe) {
    double least = active[pipe];
    if (pipe == SM || pipe == GRAPHICS)
        least = fmax(least, active[ANY_TENSOR]);
    return pipe == GRAPHICS ? fmax(least, active[SM]) : least;
}

static void integrate_settings(const struct gpu *gpu, struct totals *of, double seconds) {
    double cycles = seconds * mean_clock(&gpu->clocks) * 1e6 * summed_over(gpu);
    for (int k = 0; k < ENGINES; k++) {
        if (k != WHOLE && !gpu->engines[k].present)
            continue;
        of[k].all += seconds;
        for (int pipe = 0; pipe < PIPES; pipe++)
            of[k].active[pipe] += seconds * least_active(gpu->engines[k].active, pipe);
        of[k].engine += seconds * least_active(gpu->engines[k].active, GRAPHICS);
        of[k].seconds += seconds;
        for (int link = 0; link < LINKS; link++)
            of[k].bytes[link] += seconds * gpu->engines[k].link_bytes[link];
    }
    of[WHOLE].joules += seconds * gpu->power;
    of[WHOLE].held += seconds * gpu->held;
    of[WHOLE].elapsed += cycles;
    of[WHOLE].tensor += cycles * gpu->engines[WHOLE].active[ANY_TENSOR];
}

/* All tensor work is HMMA; what is busy at all has a few integer instructions. */
static void integrate_curve(struct gpu *gpu, struct totals *whole, double from, double to) {
    struct work work = work_between(&gpu->curve, from, to);
    whole->all += work.cycles;
    whole->active[ANY_TENSOR] += work.tensor;
    whole->active[HMMA] += work.tensor;
    whole->active[GRAPHICS] += work.busy;
    whole->active[INTEGER] += 0.05 * work.busy;
    whole->active[SM] += work.sm;
    whole->active[DRAM] += work.dram;
    whole->active[FP32] += work.fp32;
    whole->engine += work.engine;
    whole->seconds += work.seconds;
    whole->bytes[2] += work.bytes;
    whole->bytes[3] += work.bytes;
    whole->joules += work.joules;
    whole->elapsed += 1e6 * work.cycles * summed_over(gpu);
    whole->tensor += 1e6 * work.tensor * summed_over(gpu);
}

static void integrate(int index, double from, double to) {
    struct gpu *gpu = &world.gpus[index];
    if (gpu->curve.all != NULL)
        integrate_curve(gpu, &totals[index][WHOLE], from, to);
    else
        integrate_settings(gpu, totals[index], to - from);
}

/* When the values of a GPU that are given now were measured. */
static double renewed_at(int index) {
    return last_refresh(index, integrated_until, world.refresh_seconds);
}

static void integrate_until(double now) {
    for (int i = 0; i < MAX_GPUS; i++) {
        double from = integrated_until, renewed = last_refresh(i, now, world.refresh_seconds);
        if (!world.gpus[i].present)
            continue;
        if (renewed > from) {
            integrate(i, from, renewed);
            memcpy(renewed_totals[i], totals[i], sizeof totals[i]);
            from = renewed;
        }
        integrate(i, from, now);
    }
    integrated_until = now;
}

static void forget_totals(void) {
    memset(totals, 0, sizeof totals);
    memset(renewed_totals, 0, sizeof renewed_totals);
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
    gpu->power = 100;
    gpu->power_limit = 700;
    gpu->clocks = (struct clocks){1, {1500}};
    return gpu;
}

static unsigned fault_of(int gpu, const char *call) {
    return (unsigned)find_fault(&world.faults, gpu, call);
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

static bool set_ratio(struct engine *engine, const char *word, const char *value) {
    static const struct {
        const char *word;
        int pipe;
    } pipes[] = {{"tensor", ANY_TENSOR}, {"hmma", HMMA},       {"dmma", DMMA},
                 {"imma", IMMA},         {"integer", INTEGER}, {"graphics", GRAPHICS},
                 {"sm", SM},             {"occupancy", OCCUPANCY}, {"dram", DRAM},
                 {"fp64", FP64},         {"fp32", FP32},       {"fp16", FP16}};
    static const char *const links[LINKS] = {"pcie_sent", "pcie_received", "nvlink_received", "nvlink_sent"};
    for (int link = 0; link < LINKS; link++)
        if (strcmp(word, links[link]) == 0) {
            engine->link_bytes[link] = strtod(value, NULL);
            return true;
        }
    for (size_t i = 0; i < sizeof pipes / sizeof *pipes; i++)
        if (strcmp(word, pipes[i].word) == 0) {
            engine->active[pipes[i].pipe] = strtod(value, NULL);
            return true;
        }
    return false;
}

static void make_instance(struct engine *engine, const char *profile, const char *rest) {
    memset(engine, 0, sizeof *engine);
    engine->present = true;
    engine->parts = 1;
    engine->slices = GI_SLICES;
    engine->born = world.births;
    set_text(engine->profile, sizeof engine->profile, profile);
    if (sscanf(rest, "%u %u %u", &engine->sms, &engine->parts, &engine->slices) < 1)
        die("an instance without a number of SMs", rest);
}

static void set_instance(struct gpu *gpu, const char *values) {
    unsigned id;
    int used = 0;
    char word[32] = "";
    if (sscanf(values, "%u %31s %n", &id, word, &used) < 2 || id >= MAX_INSTANCES)
        die("not an instance", values);
    struct engine *engine = &gpu->engines[1 + id];
    const char *value = values + used;
    if (strcmp(word, "code") == 0)
        engine->code = (unsigned)strtoul(value, NULL, 10);
    else if (!set_ratio(engine, word, value)) {
        world.births++;
        if (strcmp(word, "gone") == 0)
            memset(engine, 0, sizeof *engine);
        else
            make_instance(engine, word, value);
    }
}

static bool set_number(struct gpu *gpu, const char *word, const char *value) {
    const struct number numbers[] = {
        {"max_clock_mhz", &gpu->max_clock_mhz},
        {"cores", &gpu->cores},
        {"device_file", &gpu->device_file},
        {"gpm", &gpu->gpm},
        {"mig", &gpu->mig},
        {"lost", &gpu->lost},
        {"nan", &gpu->nan},
        {"strict_ids", &gpu->strict_ids},
        {"mute", &gpu->mute},
        {"dead", &gpu->dead},
        {"virtualization", &gpu->virtualization},
    };
    return set_one_number(numbers, sizeof numbers / sizeof *numbers, word, value, 10);
}

static bool set_identity(struct gpu *gpu, const char *word, const char *value) {
    const struct text texts[] = {
        {"uuid", gpu->uuid, sizeof gpu->uuid},
        {"name", gpu->name, sizeof gpu->name},
        {"bus_id", gpu->bus_id, sizeof gpu->bus_id},
    };
    const struct number numbers[] = {{"device_id", &gpu->device_id}};
    if (strcmp(word, "memory") == 0)
        gpu->memory = strtoull(value, NULL, 10);
    else
        return set_one_text(texts, sizeof texts / sizeof *texts, word, value) ||
               set_one_number(numbers, 1, word, value, 16);
    return true;
}

static void read_gpu_line(const char *rest) {
    int index;
    char word[32];
    const char *value = split_gpu_line(rest, &index, word);
    struct gpu *gpu = known_gpu(index);
    if (word[0] == '\0')
        return;
    if (strcmp(word, "error") == 0 || strcmp(word, "metric_error") == 0)
        set_fault(&world.faults, index, value);
    else if (strcmp(word, "clock_mhz") == 0)
        set_clocks(&gpu->clocks, value);
    else if (strcmp(word, "curve") == 0)
        read_curve(&gpu->curve, value, integrated_until);
    else if (strcmp(word, "cycles") == 0)
        set_cycles(gpu, value);
    else if (strcmp(word, "hang_seconds") == 0)
        gpu->hang_seconds = strtod(value, NULL);
    else if (strcmp(word, "power") == 0)
        gpu->power = strtod(value, NULL);
    else if (strcmp(word, "power_limit") == 0)
        gpu->power_limit = strtod(value, NULL);
    else if (strcmp(word, "clock_excess") == 0)
        gpu->clock_excess = strtod(value, NULL);
    else if (strcmp(word, "held") == 0)
        gpu->held = strtod(value, NULL);
    else if (strcmp(word, "clock_reasons") == 0)
        gpu->clock_reasons = strtoull(value, NULL, 0);
    else if (strcmp(word, "instance") == 0)
        set_instance(gpu, value);
    else if (strcmp(word, "compute") == 0)
        sscanf(value, "%d %d", &gpu->major, &gpu->minor);
    else if (!set_ratio(&gpu->engines[WHOLE], word, value) && !set_number(gpu, word, value) &&
             !set_identity(gpu, word, value))
        die("no such setting of a GPU", rest);
}

static void read_line(char *line) {
    char word[16];
    const char *rest = split_line(line, word);
    if (rest == NULL)
        return;
    if (strcmp(word, "gpu") == 0) {
        read_gpu_line(rest);
    } else if (strcmp(word, "driver") == 0) {
        set_text(world.driver, sizeof world.driver, rest);
    } else if (strcmp(word, "error") == 0) {
        set_fault(&world.faults, NO_GPU, rest);
    } else if (strcmp(word, "unloaded") == 0) {
        world.unloaded = (unsigned)strtoul(rest, NULL, 10);
    } else if (strcmp(word, "call_seconds") == 0) {
        world.call_seconds = strtod(rest, NULL);
    } else if (strcmp(word, "refresh") == 0) {
        world.refresh_seconds = strtod(rest, NULL);
    } else if (strcmp(word, "time") == 0) {
        double now = strtod(rest, NULL);
        if (!world.own_time) { /* the log begins here: before it nothing was done */
            forget_totals();
            integrated_until = now;
        }
        world.own_time = true;
        integrate_until(now);
    } else {
        die("no such setting", line);
    }
}

static void forget_world(void) {
    for (int i = 0; i < MAX_GPUS; i++)
        drop_curve(&world.gpus[i].curve);
    memset(&world, 0, sizeof world);
    world.refresh_seconds = 0.1;
}

static void begin_scenario(const char *path) {
    set_text(read_path, sizeof read_path, path);
    read_until = 0;
    forget_world();
    forget_totals(); /* no window of these GPUs has work of the ones before */
    set_text(world.driver, sizeof world.driver, "550.54.15");
}

/* What was added to the log since the last look, line by line. */
static void read_on(const char *path) {
    char line[512];
    FILE *file = fopen(path, "r");
    if (file == NULL || fseek(file, read_until, SEEK_SET) != 0)
        die("cannot read the scenario", path);
    /* The file system may show half of what is being written: the rest comes with the next look. */
    while (fgets(line, sizeof line, file) != NULL && strchr(line, '\n') != NULL) {
        read_line(line);
        read_until = ftell(file);
    }
    fclose(file);
}

/* Every call looks, so a look at a log that has not grown is one system call. */
static void follow_scenario(void) {
    const char *path = getenv("OFU_TEST_NVML_SCENARIO");
    struct stat now;
    if (path == NULL)
        die("no scenario", "OFU_TEST_NVML_SCENARIO is not set");
    if (stat(path, &now) != 0)
        die("cannot read the scenario", path);
    if (strcmp(path, read_path) != 0)
        begin_scenario(path);
    if (now.st_size < read_until)
        die("the scenario has lost lines", path);
    if (now.st_size > read_until)
        read_on(path);
}

/* Half of a call's own time passes: before and after it does what it is for. */
static void pass_half_a_call(void) {
    if (world.own_time && world.call_seconds > 0.0)
        integrate_until(integrated_until + world.call_seconds / 2);
}

/* The world as of now: real time that has passed belongs to the settings it passed under. */
static void look(void) {
    if (!world.own_time)
        integrate_until(real_time());
    follow_scenario();
}

#endif
