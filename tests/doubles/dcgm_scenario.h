/* How dcgm.c takes in its scenario, line by line; the words are explained there. */
#ifndef DCGM_SCENARIO_H
#define DCGM_SCENARIO_H

#include "dcgm_sampling.h"

static void drop_gpm_samples(struct gpm_samples *samples) {
    free(samples->all);
    *samples = (struct gpm_samples){0};
}

static void drop_all_gpm_samples(void) {
    for (int i = 0; i < MAX_GPUS; i++)
        drop_gpm_samples(&gpus[i].samples);
    for (int i = 0; i < MAX_INSTANCES; i++)
        drop_gpm_samples(&instances[i].samples);
}

static void end_engine(void) {
    life++;
    paused = thread.in_round = false;
    drop_all_gpm_samples();
    for (unsigned i = 0; i < cell_count; i++)
        free(cells[i].all);
    memset(cells, 0, sizeof cells);
    cell_count = 0;
    memset(groups, 0, sizeof groups);
    memset(field_groups, 0, sizeof field_groups);
}

static void forget_watches(void) {
    for (unsigned i = 0; i < cell_count; i++) {
        memset(cells[i].watchers, 0, sizeof cells[i].watchers);
        cells[i].count = 0;
    }
    drop_all_gpm_samples();
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
        .cycles_per = 1,
        .major = 9,
        .cycles_before = 1e12,
        .power = 100.0,
        .power_limit = 700.0,
        .clocks = {1, {1500}},
    };
    snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-00000000-0000-0000-0000-%012d", index);
    snprintf(gpu->bus_id, sizeof gpu->bus_id, "00000000:%02X:00.0", 0x1b + index);
    set_text(gpu->name, sizeof gpu->name, "NVIDIA H100 80GB HBM3");
    return gpu;
}

static int fault_of(int gpu, const char *call) {
    return find_fault(&faults, gpu, call);
}

static bool set_ratio(struct gpu *gpu, const char *word, const char *value) {
    static const char *const pipes[PIPES] = {"tensor", "dmma", "hmma", "imma", "dfma", "integer", "sm", "dram", "fp32"};
    for (int i = 0; i < PIPES; i++)
        if (strcmp(word, pipes[i]) == 0) {
            gpu->active[i] = strtod(value, NULL);
            return true;
        }
    const struct {
        const char *word;
        double *number;
    } numbers[] = {
        {"cycles_before", &gpu->cycles_before},
        {"graphics", &gpu->graphics},
        {"power", &gpu->power},
        {"power_limit", &gpu->power_limit},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(word, numbers[i].word) == 0) {
            *numbers[i].number = strtod(value, NULL);
            return true;
        }
    if (strcmp(word, "value") == 0) {
        gpu->told = strcmp(value, "off") != 0;
        gpu->value = strtod(value, NULL);
    } else
        return false;
    return true;
}

static bool set_number(struct gpu *gpu, const char *word, const char *value) {
    const struct number numbers[] = {
        {"max_clock_mhz", &gpu->max_clock_mhz},
        {"memory_mib", &gpu->memory_mib},
        {"device_file", &gpu->device_file},
        {"status", &gpu->status},
        {"gpm", &gpu->gpm},
        {"mig", &gpu->mig},
        {"cycles", &gpu->cycles},
        {"cycles_per", &gpu->cycles_per},
        {"blank", &gpu->blank},
        {"mute_field", &gpu->mute_field},
    };
    return set_one_number(numbers, sizeof numbers / sizeof *numbers, word, value, 10);
}

static bool set_identity(struct gpu *gpu, const char *word, const char *value) {
    const struct text texts[] = {
        {"uuid", gpu->uuid, sizeof gpu->uuid},
        {"name", gpu->name, sizeof gpu->name},
        {"bus_id", gpu->bus_id, sizeof gpu->bus_id},
    };
    const struct number numbers[] = {{"pci_id", &gpu->pci_id}};
    return set_one_text(texts, sizeof texts / sizeof *texts, word, value) ||
           set_one_number(numbers, 1, word, value, 16);
}

static void set_gpu(const char *rest) {
    int index;
    char word[32];
    const char *value = split_gpu_line(rest, &index, word);
    struct gpu *gpu = known_gpu(index);
    if (word[0] == '\0')
        return;
    if (strcmp(word, "error") == 0)
        set_fault(&faults, index, value);
    else if (strcmp(word, "clock_mhz") == 0)
        set_clocks(&gpu->clocks, value);
    else if (strcmp(word, "clock_excess") == 0)
        gpu->clock_excess = strtod(value, NULL);
    else if (strcmp(word, "curve") == 0)
        read_curve(&gpu->curve, value, worked);
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
            free(cells[i].all);
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
        drop_gpm_samples(&instance->samples);
        instance->present = false;
    } else if (strcmp(word, "tensor") == 0) {
        instance->active = strtod(value, NULL);
    } else if (strcmp(word, "compute") == 0) {
        instance->compute = strtoul(value, NULL, 10) != 0;
    } else if (!instance->present) {
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
    for (unsigned i = 0; !own_time && i < cell_count; i++)
        cells[i].next += micros - now_micros;
    if (!own_time)
        drop_all_gpm_samples();
    /* Set back, the clock makes it wait: what is watched is not due before its time comes again
     * (DcgmCacheManager.cpp, ActuallyUpdateAllFields()). */
    if (!own_time || micros < now_micros)
        now_micros = micros;
    own_time = true;
    pass_until(micros);
}

/* Another client watches a field of every GPU, or does so no longer. */
static void watch_for_another(const char *values) {
    unsigned field;
    double seconds;
    if (sscanf(values, "%u %lf", &field, &seconds) != 2)
        die("not `FIELD SECONDS`", values);
    for (unsigned i = 0; i < MAX_GPUS; i++)
        if (gpus[i].present) {
            struct cell *cell = cell_of((struct pair){FE_GPU, i}, (unsigned short)field, true);
            cell->most = cell->most ? cell->most : 1000;
            watch(cell, ANOTHER, (int64_t)(seconds * 1e6));
        }
}

static void set_thread(const char *values) {
    long long late_micros, field_micros;
    if (sscanf(values, "%lld %lld", &late_micros, &field_micros) != 2)
        die("not `MICROS MICROS`", values);
    thread.late_micros = late_micros;
    thread.field_micros = field_micros;
}

static void read_line(char *line) {
    char word[16];
    int major, minor;
    const char *rest = split_line(line, word);
    if (rest == NULL)
        return;
    if (strcmp(word, "gpu") == 0)
        set_gpu(rest);
    else if (strcmp(word, "instance") == 0)
        set_instance(rest);
    else if (strcmp(word, "time") == 0)
        set_time(rest);
    else if (strcmp(word, "error") == 0)
        set_fault(&faults, NO_GPU, rest);
    else if (strcmp(word, "engine") == 0)
        set_engine(strtoul(rest, NULL, 10) != 0);
    else if (strcmp(word, "restart") == 0)
        end_engine();
    else if (strcmp(word, "watch") == 0)
        watch_for_another(rest);
    else if (strcmp(word, "thread") == 0)
        set_thread(rest);
    else if (strcmp(word, "refresh") == 0)
        refresh_seconds = strtod(rest, NULL);
    else if (strcmp(word, "forget") == 0)
        forget_watches();
    else if (strcmp(word, "module") == 0)
        module_there = strtoul(rest, NULL, 10) != 0;
    else if (strcmp(word, "disorder") == 0)
        disorder = true;
    else if (strcmp(word, "hang") == 0)
        hang_seconds = strtod(rest, NULL);
    else if (strcmp(word, "late") == 0)
        late = true;
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
    /* The file system may show half of what is being written: the rest comes with the next look. */
    while (fgets(line, sizeof line, file) != NULL && strchr(line, '\n') != NULL) {
        read_line(line);
        read_until = ftell(file);
    }
    fclose(file);
}

#endif
