/* Blocks of two sides against each other: medians, ranges, a verdict. */
#ifndef APPS_DEMO_SUMMARY_H
#define APPS_DEMO_SUMMARY_H
#include "demo/block.h"
#include <stdbool.h>
#include <stddef.h>

enum { BLOCKS_MAX = 8 };

struct span {
    double median, low, high;
};

struct side {
    unsigned loops, n;
    struct block blocks[BLOCKS_MAX];
};

enum verdict { VERDICT_HIGHER, VERDICT_LOWER, VERDICT_UNCLEAR };

struct metric_info {
    const char *name, *unit;
    int decimals;
    bool compare; /* a change of it is worth a word */
};

extern const struct metric_info metric_infos[METRIC_COUNT];

struct span span_of(const struct side *s, enum metric m);
/* b against a: higher or lower when no block of one side reaches into the range of the other. */
enum verdict verdict_of(const struct side *a, const struct side *b, enum metric m);
/* The chance that blocks without any difference come out this far apart. */
double verdict_chance(unsigned blocks_a, unsigned blocks_b);

/* Texts for both reports; each returns text. */
const char *span_text(struct span s, enum metric m, char *text, size_t cap);
const char *change_text(const struct side *a, const struct side *b, enum metric m, char *text,
                        size_t cap);
const char *busy_text(const struct side *s, char *text, size_t cap);
/* What the change did, in a sentence or two. */
const char *verdict_text(const struct side *a, const struct side *b, char *text, size_t cap);
/* Whether the hot spot is proven to be the handler, and by what. */
const char *hot_text(const struct side *a, char *text, size_t cap);
/* What the machine does to these numbers. */
const char *machine_text(const struct side *a, const struct side *b, char *text, size_t cap);
/* "1 loop", "2 loops". */
const char *loops_text(unsigned loops, char *text, size_t cap);

#endif
