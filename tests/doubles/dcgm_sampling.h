/* How the host engine of dcgm.c samples what is watched while time passes. */
#ifndef DCGM_SAMPLING_H
#define DCGM_SAMPLING_H

#include <math.h>

#include "dcgm_world.h"

static struct instance *instance_of(unsigned number) {
    return number < MAX_INSTANCES && instances[number].present ? &instances[number] : NULL;
}

static bool is_same(struct pair one, struct pair other) {
    return one.group == other.group && one.number == other.number;
}

static int gpu_of(struct pair entity) {
    if (entity.group == FE_GPU)
        return entity.number < MAX_GPUS && gpus[entity.number].present ? (int)entity.number : NO_GPU;
    const struct instance *instance = instance_of(entity.number);
    return instance == NULL ? NO_GPU : instance->gpu;
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

static bool lacks(const struct gpu *gpu, unsigned short field) {
    for (unsigned i = 0; i < gpu->no_field_count; i++)
        if (gpu->no_fields[i] == field)
            return true;
    return false;
}

/* What an entity has done until now, and the GPM samples that the host engine has taken of it. */
static const struct done *done_by(struct pair entity) {
    return entity.group == FE_GPU ? &gpus[entity.number].done : &instance_of(entity.number)->done;
}

/* The same as GPM's counters have it: until they were last renewed. */
static const struct done *renewed_by(struct pair entity) {
    return entity.group == FE_GPU ? &gpus[entity.number].renewed : &instance_of(entity.number)->renewed;
}

static struct gpm_samples *samples_of(struct pair entity) {
    return entity.group == FE_GPU ? &gpus[entity.number].samples : &instance_of(entity.number)->samples;
}

/* Which pipe a field is of; -1 of every other. */
static int pipe_of(unsigned short field) {
    static const struct {
        unsigned short ratio, cycles;
    } fields[PIPES] = {{TENSOR, CYCLES_TENSOR}, {0, CYCLES_DMMA},    {HMMA, CYCLES_HMMA},
                       {IMMA, CYCLES_IMMA},     {DFMA, CYCLES_DFMA}, {INTEGER, CYCLES_INTEGER},
                       {SM, 0},                 {DRAM, 0},           {FP32, 0}};
    for (int pipe = 0; pipe < PIPES; pipe++)
        if (field == fields[pipe].ratio || field == fields[pipe].cycles)
            return pipe;
    return -1;
}

/* What nvmlGpmMetricsGet() gives for a field between two samples; a total is that of the second. */
static double measured(const struct gpu *gpu, unsigned short field, const struct done *from,
                       const struct done *to) {
    int pipe = pipe_of(field);
    if (field == ENGINE)
        return (to->engine - from->engine) / (to->seconds - from->seconds);
    if (field == NVLINK_TX || field == NVLINK_RX)
        return (to->bytes - from->bytes) / (to->seconds - from->seconds);
    if (field == CYCLES_ELAPSED)
        return gpu->cycles_before + to->elapsed;
    if (field > CYCLES_ELAPSED)
        return gpu->cycles_before / 2 + (pipe < 0 ? 0.0 : to->cycles[pipe]);
    return pipe < 0 ? 0.0 : (to->active[pipe] - from->active[pipe]) / (to->all - from->all);
}

/* Samples are kept as long as the slowest field needs them, and a little longer. */
static int64_t kept_micros(struct pair entity) {
    int64_t longest = 0;
    for (unsigned i = 0; i < cell_count; i++)
        if (is_same(cells[i].entity, entity) && is_profiling(cells[i].field) &&
            interval_of(&cells[i]) > longest)
            longest = interval_of(&cells[i]);
    return 2 * longest + 1000000;
}

static void take_gpm_sample(struct pair entity, int64_t at) {
    struct gpm_samples *samples = samples_of(entity);
    size_t old = 0;
    while (old < samples->count && samples->all[old].micros < at - kept_micros(entity))
        old++;
    samples->count -= old;
    memmove(samples->all, samples->all + old, samples->count * sizeof *samples->all);
    if (samples->count == samples->room) {
        samples->room = samples->room ? 2 * samples->room : 64;
        samples->all = realloc(samples->all, samples->room * sizeof *samples->all);
        if (samples->all == NULL)
            die("out of memory", "GPM samples");
    }
    samples->all[samples->count++] = (struct gpm_sample){at, *renewed_by(entity)};
}

/* A profiling field through GPM. Fields share the samples: one that is younger than the field's interval is
 * not taken anew, and its values then bear a time at which they were not measured (DcgmGpmManager.cpp,
 * MaybeFetchNewSample() and GetLatestSample()). False = there is none that is old enough to begin with. */
static bool through_gpm(const struct cell *cell, int64_t at, double *number) {
    struct gpm_samples *samples = samples_of(cell->entity);
    int64_t interval = interval_of(cell);
    if (samples->count == 0 || at - samples->all[samples->count - 1].micros >= interval)
        take_gpm_sample(cell->entity, at);
    const struct gpm_sample *latest = &samples->all[samples->count - 1];
    for (const struct gpm_sample *base = latest; base-- != samples->all;)
        if (base->micros <= latest->micros - interval) {
            const struct gpu *gpu = &gpus[gpu_of(cell->entity)];
            *number = measured(gpu, cell->field, &base->done, &latest->done);
            return true;
        }
    return false;
}

/* The same through the module for GPUs before Hopper: the mean since the field's last sample. */
static bool through_module(struct cell *cell, double *number) {
    const struct done *now = done_by(cell->entity);
    bool known = cell->sampled && !paused;
    if (known)
        *number = measured(&gpus[gpu_of(cell->entity)], cell->field, &cell->before, now);
    cell->sampled = true;
    cell->before = *now;
    return known;
}

static unsigned clock_now(struct gpu *gpu, unsigned taken) {
    double at = last_refresh((int)(gpu - gpus), worked, refresh_seconds);
    if (gpu->curve.all != NULL)
        return named_mhz(stretch_now(&gpu->curve, at), gpu->clock_excess);
    return gpu->clocks.mhz[taken % gpu->clocks.count];
}

/* A field of the driver, which is no mean over time. */
static double of_a_moment(const struct cell *cell) {
    struct gpu *gpu = &gpus[gpu_of(cell->entity)];
    bool busy = gpu->curve.all != NULL && stretch_now(&gpu->curve, worked)->tensor > 0.0;
    switch (cell->field) {
    case SM_CLOCK:
        return clock_now(gpu, cell->taken);
    case GPU_UTIL:
        return busy ? 100.0 : 100.0 * gpu->graphics;
    case POWER_USAGE:
        return gpu->power;
    case TOTAL_ENERGY: /* millijoules since the driver was loaded */
        return (double)(int64_t)(1e9 + 1000 * gpu->renewed.joules);
    case ENFORCED_POWER_LIMIT:
        return gpu->power_limit;
    default:
        return 0.0;
    }
}

static bool has_value(struct cell *cell, int64_t at, double *number) {
    const struct gpu *gpu = &gpus[gpu_of(cell->entity)];
    if (gpu->status == STATUS_LOST || lacks(gpu, cell->field))
        return false;
    if (!is_profiling(cell->field)) {
        *number = of_a_moment(cell);
        return true;
    }
    bool known = gpu->gpm ? through_gpm(cell, at, number) : through_module(cell, number);
    if (cell->entity.group == FE_GPU_I && !instance_of(cell->entity.number)->compute)
        return false;
    return known && !gpu->blank && (cell->field < CYCLES_ELAPSED || gpu->cycles);
}

static void make_room(struct cell *cell) {
    cell->room = 2 * cell->count + 64;
    struct sample *all = malloc(cell->room * sizeof *all);
    if (all == NULL)
        die("out of memory", "samples");
    if (cell->count > 0)
        memcpy(all, cell->samples, cell->count * sizeof *all);
    free(cell->all);
    cell->all = cell->samples = all;
}

static void keep(struct cell *cell, int64_t micros, bool blank, double number) {
    if (cell->count == cell->most) {
        cell->samples++; /* the oldest goes */
        cell->count--;
    }
    if (cell->samples + cell->count == cell->all + cell->room)
        make_room(cell);
    cell->samples[cell->count++] = (struct sample){micros, blank, number};
}

static void take_sample(struct cell *cell, int64_t at) {
    if (gpu_of(cell->entity) == NO_GPU)
        return;
    const struct gpu *gpu = &gpus[gpu_of(cell->entity)];
    double number = 0.0;
    bool blank = !has_value(cell, at, &number);
    if (gpu->told && cell->field == TENSOR)
        number = gpu->value;
    int64_t stamp = at + ahead - (disorder ? 1500000 : 0);
    int repeats = gpu->status == STATUS_LOST ? BURST : 1;
    for (int i = 0; i < repeats; i++)
        keep(cell, stamp + i, blank, number);
    cell->held = late;
    cell->taken++;
}

/* A tensor instruction has a warp on its SM, and a warp a busy engine. */
static void add_engine(struct done *done, double seconds, double sm, double graphics) {
    done->active[PIPE_SM] += seconds * sm;
    done->engine += seconds * fmax(sm, graphics);
    done->seconds += seconds;
}

static void add_settings(const struct gpu *gpu, struct done *done, double seconds) {
    double cycles = seconds * mean_clock(&gpu->clocks) * 1e6 * gpu->cycles_per;
    done->all += seconds;
    done->elapsed += cycles;
    for (int pipe = 0; pipe < PIPES; pipe++) {
        done->active[pipe] += seconds * gpu->active[pipe];
        done->cycles[pipe] += cycles * gpu->active[pipe];
    }
    done->joules += seconds * gpu->power;
    double sm = fmax(gpu->active[PIPE_SM], gpu->active[PIPE_ANY]);
    add_engine(done, seconds, sm - gpu->active[PIPE_SM],
               fmax(sm, gpu->graphics)); /* the SMs are counted above in part */
}

/* All tensor work is HMMA; what is busy at all has a few integer instructions. */
static void add_curve(struct gpu *gpu, struct done *done, double from, double to) {
    struct work work = work_between(&gpu->curve, from, to);
    double active[PIPES] = {[PIPE_ANY] = work.tensor, [PIPE_HMMA] = work.tensor,
                            [PIPE_INTEGER] = 0.05 * work.busy, [PIPE_SM] = work.sm,
                            [PIPE_DRAM] = work.dram, [PIPE_FP32] = work.fp32};
    done->seconds += work.seconds;
    done->engine += work.engine;
    done->bytes += work.bytes;
    done->joules += work.joules;
    done->all += work.cycles;
    done->elapsed += 1e6 * work.cycles * gpu->cycles_per;
    for (int pipe = 0; pipe < PIPES; pipe++) {
        done->active[pipe] += active[pipe];
        done->cycles[pipe] += 1e6 * active[pipe] * gpu->cycles_per;
    }
}

static void work_on(int index, double from, double to) {
    struct gpu *gpu = &gpus[index];
    if (gpu->curve.all != NULL)
        add_curve(gpu, &gpu->done, from, to);
    else
        add_settings(gpu, &gpu->done, to - from);
    for (struct instance *each = instances; each < instances + MAX_INSTANCES; each++)
        if (each->present && each->gpu == index) {
            each->done.all += to - from;
            each->done.active[PIPE_ANY] += (to - from) * each->active;
            add_engine(&each->done, to - from, each->active, 0.0);
        }
}

static void renew(int index) {
    gpus[index].renewed = gpus[index].done;
    for (struct instance *each = instances; each < instances + MAX_INSTANCES; each++)
        if (each->gpu == index)
            each->renewed = each->done;
}

static void work_until(int64_t micros) {
    double until = worked + (double)(micros - now_micros) * 1e-6;
    for (int i = 0; i < MAX_GPUS; i++) {
        double from = worked, renewed = last_refresh(i, until, refresh_seconds);
        if (!gpus[i].present)
            continue;
        if (renewed > from) {
            work_on(i, from, renewed);
            renew(i);
            from = renewed;
        }
        work_on(i, from, until);
    }
    worked = until;
    now_micros = micros;
}

/* A round begins when the first field is due and the thread has woken up. */
static bool round_begins(int64_t until) {
    int64_t first = INT64_MAX;
    for (unsigned i = 0; i < cell_count; i++)
        if (interval_of(&cells[i]) > 0 && cells[i].next < first)
            first = cells[i].next;
    if (first > until - thread.late)
        return false;
    if (first + thread.late > now_micros)
        work_until(first + thread.late);
    thread.in_round = true;
    thread.at = 0;
    return true;
}

static void end_round(void) {
    thread.in_round = disorder = late = false;
    thread.noise = 1664525u * thread.noise + 1013904223u; /* as good as any, and the same each time */
    thread.late = thread.late_micros * (thread.noise >> 16) / 65536;
}

/* Let time pass, and take every sample that falls due: in rounds, field after field as they were first
 * watched, each due again one interval after it was taken (DcgmCacheManager.cpp, ActuallyUpdateAllFields()). */
static void pass_until(int64_t until) {
    while (thread.in_round || round_begins(until)) {
        for (; thread.at < cell_count; thread.at++) {
            struct cell *cell = &cells[thread.at];
            if (interval_of(cell) == 0 || cell->next > now_micros)
                continue;
            if (now_micros + thread.field_micros > until)
                return work_until(until);
            work_until(now_micros + thread.field_micros);
            take_sample(cell, now_micros);
            cell->next = now_micros + interval_of(cell);
        }
        end_round();
    }
    if (now_micros < until)
        work_until(until);
}

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
    *vacant = (struct cell){.entity = entity, .field = field};
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
        cell->sampled = false;
        take_sample(cell, now_micros);
        cell->next = now_micros + interval;
    }
}

static int64_t real_micros(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

#endif
