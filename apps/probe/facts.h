/* Facts about this machine, each with a verdict and a reason. */
#ifndef APPS_PROBE_FACTS_H
#define APPS_PROBE_FACTS_H
#include <stdint.h>

enum fact_verdict { FACT_FINE, FACT_SMALL, FACT_MISSING, FACT_UNKNOWN, FACT_OFF };

struct fact {
    char name[32]; /* "files" */
    char value[160];
    enum fact_verdict verdict;
    char note[240]; /* why it matters, or what to do */
};

enum { FACTS_MAX = 40 };

struct facts_path {   /* what a connection has to fill: rate x round trip / 8 */
    const char *text; /* "10Gbit,50ms" */
    uint64_t bytes;
};

/* Fills facts; how many. uring_features: a list that weir_host_uring() has taken; NULL: all. */
unsigned facts_read(struct fact facts[FACTS_MAX], const struct facts_path *path,
                    const char *uring_features);
/* "fine", "too small", "missing", "unknown", "off". */
const char *fact_verdict_text(enum fact_verdict v);

#endif
