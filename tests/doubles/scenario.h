/* What the scenarios of dcgm.c and nvml.c have in common: lines `word value...` about GPUs.
 * Whoever includes it defines DOUBLE, the name of the stand-in. */
#ifndef SCENARIO_H
#define SCENARIO_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NO_GPU = -1, MAX_CLOCKS = 16, MAX_FAULTS = 256 };

struct fault {
    int gpu;
    char call[48]; /* a call, or the number of a metric */
    int code;
};
struct faults {
    unsigned count;
    struct fault all[MAX_FAULTS];
};
struct clocks {
    unsigned count, mhz[MAX_CLOCKS];
};
struct number {
    const char *word;
    unsigned *number;
};
struct text {
    const char *word;
    char *text;
    size_t size;
};

static void die(const char *what, const char *detail) {
    fprintf(stderr, "tests/doubles/%s.c: %s: %s\n", DOUBLE, what, detail);
    abort();
}

static void set_text(char *to, size_t size, const char *text) {
    if ((size_t)snprintf(to, size, "%s", text) >= size)
        die("too long", text);
}

/* `CALL CODE`: the call answers so, about one GPU or about none; 0 ends that. */
static void set_fault(struct faults *faults, int gpu, const char *values) {
    struct fault fault = {.gpu = gpu};
    if (sscanf(values, "%47s %d", fault.call, &fault.code) != 2)
        die("not `CALL CODE`", values);
    for (unsigned i = 0; i < faults->count; i++) {
        struct fault *old = &faults->all[i];
        if (old->gpu == gpu && strcmp(old->call, fault.call) == 0) {
            old->code = fault.code;
            return;
        }
    }
    if (faults->count == MAX_FAULTS)
        die("too many errors", values);
    faults->all[faults->count++] = fault;
}

static int find_fault(const struct faults *faults, int gpu, const char *call) {
    for (unsigned i = 0; i < faults->count; i++)
        if (faults->all[i].gpu == gpu && strcmp(faults->all[i].call, call) == 0)
            return faults->all[i].code;
    return 0;
}

static void set_clocks(struct clocks *clocks, const char *values) {
    char *end;
    clocks->count = 0;
    for (const char *at = values; clocks->count < MAX_CLOCKS; at = end) {
        unsigned long mhz = strtoul(at, &end, 10);
        if (end == at)
            break;
        clocks->mhz[clocks->count++] = (unsigned)mhz;
    }
    if (clocks->count == 0)
        die("no clock", values);
}

static double mean_clock(const struct clocks *clocks) {
    double mhz = 0.0;
    for (unsigned k = 0; k < clocks->count; k++)
        mhz += clocks->mhz[k] / (double)clocks->count;
    return mhz;
}

/* One of some numbers by its word; false when it is none of them. */
static bool set_one_number(const struct number *numbers, size_t count, const char *word,
                           const char *value, int base) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(word, numbers[i].word) == 0) {
            *numbers[i].number = (unsigned)strtoul(value, NULL, base);
            return true;
        }
    return false;
}

static bool set_one_text(const struct text *texts, size_t count, const char *word, const char *value) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(word, texts[i].word) == 0) {
            set_text(texts[i].text, texts[i].size, value);
            return true;
        }
    return false;
}

/* `N WORD VALUE...` taken apart; the word is empty where there is none. */
static const char *split_gpu_line(const char *rest, int *index, char word[32]) {
    int used = 0;
    word[0] = '\0';
    if (sscanf(rest, "%d %n%31s %n", index, &used, word, &used) < 1)
        die("not a GPU's line", rest);
    return rest + used;
}

/* A line's first word, and the rest of it; NULL when there is none. */
static const char *split_line(char *line, char word[16]) {
    int used = 0;
    line[strcspn(line, "#\n")] = '\0';
    return sscanf(line, "%15s %n", word, &used) < 1 ? NULL : line + used;
}

#endif
