/* Blocks of two sides against each other: medians, ranges, a verdict. A block that is INVALID is
 * shown, and is in none of these. */
#ifndef APPS_DEMO_SUMMARY_H
#define APPS_DEMO_SUMMARY_H
#include "demo/block.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BLOCKS_MAX = 8, TEXT_MAX = 1200 };

struct span {
    double median, low, high;
};

struct side {
    unsigned loops, n;
    struct block blocks[BLOCKS_MAX];
};

struct trial {
    struct side a, b; /* before and after the change */
    unsigned cpus;    /* that this process may use; 0: unknown */
    uint64_t seed;    /* of the order inside each pair of blocks */
};

enum verdict { VERDICT_HIGHER, VERDICT_LOWER, VERDICT_UNCLEAR, VERDICT_NONE };

struct metric_info {
    const char *name, *unit;
    int decimals;
    bool compare; /* a change of it is worth a word */
};

extern const struct metric_info metric_infos[METRIC_COUNT];

/* Blocks of a side that count. */
unsigned side_valid(const struct side *s);
/* All zeros when no block counts. */
struct span span_of(const struct side *s, enum metric m);
/* The chance that blocks without any difference come out with no overlap of the two sides. */
double verdict_chance(unsigned blocks_a, unsigned blocks_b);
/* b against a. HIGHER or LOWER: no block of one side reaches into the range of the other, which
 * chance does in at most 5 % of such runs. NONE: the run cannot tell, doubt_text says why. */
enum verdict verdict_of(const struct trial *t, enum metric m);

/* Texts for both reports, cut at cap; each returns text. */
const char *span_text(struct span s, enum metric m, char *text, size_t cap);
const char *change_text(const struct trial *t, enum metric m, char *text, size_t cap);
const char *busy_text(const struct side *s, char *text, size_t cap);
/* Why nothing can be said about a difference: no blocks, errors, other programs, too few CPUs. "":
 * it can. */
const char *doubt_text(const struct trial *t, char *text, size_t cap);
/* Which blocks do not count, and what the change did. */
const char *verdict_text(const struct trial *t, char *text, size_t cap);
/* Whether the hot spot before the change is proven to be the handler, and by what. */
const char *hot_text(const struct side *a, char *text, size_t cap);
/* What the machine does to these numbers. */
const char *machine_text(const struct trial *t, char *text, size_t cap);
/* "1 loop", "2 loops". */
const char *loops_text(unsigned loops, char *text, size_t cap);

#endif
