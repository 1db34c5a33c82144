/* What a GPU does as time goes on, from a file of lines `SECONDS TENSOR MHZ`, and its integrals.
 *
 * A line may go on with `ENGINE SM DRAM FP32 LINK WATTS`: the other activities, the bytes per second of each
 * direction of NVLink, and the power. Without these, what has tensor work has all SMs and the engine busy.
 *
 * Each line holds for its seconds, one after another, and the last one from then on. The hardware's ratios are
 * shares of elapsed cycles, not of time: a second at twice the clock weighs twice. */
#ifndef CURVE_H
#define CURVE_H

#include <math.h>

#include "scenario.h"

struct stretch {
    double until, tensor; /* seconds since the curve began; tensor activity, 0..1 */
    unsigned mhz;
    double engine, sm, dram, fp32, link, watts;
};
struct curve {
    size_t count, at; /* `at`: where the last look was */
    double begun;
    struct stretch *all; /* NULL = none */
};
/* When a GPU last renewed what its driver gives: GPM counters, clock, energy, what holds the clock. An H200 did so every
 * 0.1 s, and drifted against the host by 0.4 to 8 ms a second (docs/hardware.md). The GPUs of a node take turns here. */
static double last_refresh(int gpu, double now, double period) {
    double phase = 0.037 * gpu;
    return fmin(now, phase + period * floor((now - phase) / period + 1e-6));
}

/* The SM clock that the driver names. On an H200 it was up to 12 % above the true one, as long as tensor work went on,
 * on an H100 for some products (docs/hardware.md); cycle counters count the true one. */
static unsigned named_mhz(const struct stretch *stretch, double excess) {
    return (unsigned)lround(stretch->mhz * (stretch->tensor > 0.0 ? 1.0 + excess : 1.0));
}

/* What was done in a stretch of time; a cycle is a million here. */
struct work {
    double cycles, tensor, busy; /* elapsed; with the tensor pipe active; with any work at all */
    double sm, dram, fp32;       /* cycles too */
    double seconds, engine, bytes, joules;
};

static void drop_curve(struct curve *curve) {
    free(curve->all);
    *curve = (struct curve){0};
}

static bool read_stretch(const char *line, struct stretch *next) {
    *next = (struct stretch){.watts = 100.0};
    int count = sscanf(line, "%lf %lf %u %lf %lf %lf %lf %lf %lf", &next->until, &next->tensor, &next->mhz,
                       &next->engine, &next->sm, &next->dram, &next->fp32, &next->link, &next->watts);
    if (count == 3)
        next->engine = next->sm = next->tensor > 0.0;
    return count == 3 || count == 9;
}

static void read_curve(struct curve *curve, const char *path, double now) {
    FILE *file = fopen(path, "r");
    struct stretch next;
    char line[256];
    size_t room = 0;
    if (file == NULL)
        die("cannot read the curve", path);
    drop_curve(curve);
    curve->begun = now;
    while (fgets(line, sizeof line, file) != NULL && read_stretch(line, &next)) {
        if (curve->count == room) {
            room = room ? 2 * room : 256;
            curve->all = realloc(curve->all, room * sizeof *curve->all);
            if (curve->all == NULL)
                die("out of memory", path);
        }
        double before = curve->count ? curve->all[curve->count - 1].until : 0.0;
        next.until += before;
        curve->all[curve->count++] = next;
    }
    if (curve->count == 0 || !feof(file))
        die("not lines of `SECONDS TENSOR MHZ`", path);
    fclose(file);
}

/* What holds some seconds after its beginning; at a boundary what begins there. */
static const struct stretch *stretch_at(struct curve *curve, double at) {
    while (curve->at > 0 && at < curve->all[curve->at - 1].until)
        curve->at--;
    while (curve->at + 1 < curve->count && curve->all[curve->at].until <= at)
        curve->at++;
    return &curve->all[curve->at];
}

static const struct stretch *stretch_now(struct curve *curve, double now) {
    return stretch_at(curve, now - curve->begun);
}

static struct work work_between(struct curve *curve, double from, double to) {
    struct work work = {0};
    double until = to - curve->begun;
    for (double at = from - curve->begun; at < until;) {
        const struct stretch *stretch = stretch_at(curve, at);
        bool holds = curve->at + 1 == curve->count || stretch->until > until;
        double end = holds ? until : stretch->until;
        double cycles = (end - at) * stretch->mhz;
        work.cycles += cycles;
        work.tensor += cycles * stretch->tensor;
        work.busy += stretch->engine * cycles;
        work.sm += stretch->sm * cycles;
        work.dram += stretch->dram * cycles;
        work.fp32 += stretch->fp32 * cycles;
        work.seconds += end - at;
        work.engine += stretch->engine * (end - at);
        work.bytes += stretch->link * (end - at);
        work.joules += stretch->watts * (end - at);
        at = end;
    }
    return work;
}

#endif
