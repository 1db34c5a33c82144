/* What a GPU does as time goes on, from a file of lines `SECONDS TENSOR MHZ`, and its integrals.
 *
 * Each line holds for its seconds, one after another, and the last one from then on. The hardware's ratios are
 * shares of elapsed cycles, not of time: a second at twice the clock weighs twice. */
#ifndef CURVE_H
#define CURVE_H

#include "scenario.h"

struct stretch {
    double until, tensor; /* seconds since the curve began; tensor activity, 0..1 */
    unsigned mhz;
};
struct curve {
    size_t count, at; /* `at`: where the last look was */
    double begun;
    struct stretch *all; /* NULL = none */
};
/* What was done in a stretch of time; a cycle is a million here. */
struct work {
    double cycles, tensor, busy; /* elapsed; with the tensor pipe active; with any work at all */
};

static void drop_curve(struct curve *curve) {
    free(curve->all);
    *curve = (struct curve){0};
}

static void read_curve(struct curve *curve, const char *path, double now) {
    FILE *file = fopen(path, "r");
    double seconds, tensor;
    unsigned mhz;
    size_t room = 0;
    if (file == NULL)
        die("cannot read the curve", path);
    drop_curve(curve);
    curve->begun = now;
    while (fscanf(file, "%lf %lf %u", &seconds, &tensor, &mhz) == 3) {
        if (curve->count == room) {
            room = room ? 2 * room : 256;
            curve->all = realloc(curve->all, room * sizeof *curve->all);
            if (curve->all == NULL)
                die("out of memory", path);
        }
        double before = curve->count ? curve->all[curve->count - 1].until : 0.0;
        curve->all[curve->count++] = (struct stretch){before + seconds, tensor, mhz};
    }
    if (curve->count == 0 || !feof(file))
        die("not lines of `SECONDS TENSOR MHZ`", path);
    fclose(file);
}

/* What holds some seconds after its beginning; at a boundary what begins there. */
static const struct stretch *stretch_at(struct curve *curve, double at) {
    if (curve->at > 0 && at < curve->all[curve->at - 1].until)
        curve->at = 0;
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
        work.busy += stretch->tensor > 0.0 ? cycles : 0.0;
        at = end;
    }
    return work;
}

#endif
