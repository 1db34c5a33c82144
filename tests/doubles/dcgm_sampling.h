/* How the host engine of dcgm.c samples what is watched while time passes. */
#ifndef DCGM_SAMPLING_H
#define DCGM_SAMPLING_H

#include "dcgm_world.h"

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
    if (cell->count > cell->most) {
        cell->count = cell->most;
        memmove(cell->samples, cell->samples + 1, cell->count * sizeof *cell->samples);
    }
}

/* Whether a field is what it is at one moment, and no integral over time. */
static bool is_of_a_moment(const struct cell *cell, const struct gpu *gpu, double *number) {
    switch (cell->field) {
    case SM_CLOCK:
        *number = gpu->clocks.mhz[cell->taken % gpu->clocks.count];
        return true;
    case GPU_UTIL:
        *number = 100.0 * gpu->graphics;
        return true;
    case POWER_USAGE:
        *number = gpu->power;
        return true;
    case ENFORCED_POWER_LIMIT:
        *number = gpu->power_limit;
        return true;
    case INTEGER:
        *number = gpu->integer;
        return true;
    default:
        return cell->field >= FP64 && cell->field <= FP16; /* these pipes have nothing to do */
    }
}

static void take_sample(struct cell *cell, int64_t at) {
    if (gpu_of(cell->entity) == NO_GPU)
        return;
    const struct gpu *gpu = &gpus[gpu_of(cell->entity)];
    double integral = integral_of(cell), number = 0.0;
    bool blank = is_blank(cell, gpu);
    if (is_of_a_moment(cell, gpu, &number))
        ;
    else if (cell->field == CYCLES_ELAPSED)
        number = gpu->cycles_before + gpu->elapsed_cycles;
    else if (cell->field == CYCLES_TENSOR)
        number = gpu->cycles_before / 2 + gpu->tensor_cycles;
    else if (!blank)
        number = (integral - cell->integral) / (worked - cell->worked);
    if (gpu->told && cell->field == TENSOR)
        number = gpu->value;
    int64_t stamp = at + ahead - (disorder ? 1500000 : 0);
    int repeats = gpu->status == STATUS_LOST ? BURST : 1;
    for (int i = 0; i < repeats; i++)
        keep(cell, stamp + i, blank, number);
    cell->held = late;
    cell->integral = integral;
    cell->worked = worked;
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
    worked += seconds;
    for (int i = 0; i < MAX_GPUS; i++) {
        struct gpu *gpu = &gpus[i];
        if (!gpu->present)
            continue;
        double mhz = mean_clock(&gpu->clocks);
        for (int pipe = 0; pipe < 4; pipe++)
            gpu->busy[pipe] += seconds * gpu->active[pipe];
        double cycles = seconds * mhz * 1e6 * gpu->cycles_per;
        gpu->elapsed_cycles += cycles;
        gpu->tensor_cycles += cycles * gpu->active[0];
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
        late = late && !any;
    }
}

static int64_t real_micros(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

#endif
