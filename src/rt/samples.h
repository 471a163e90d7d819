/* Where a profile's samples are written: a fixed number of places, each taken once, from signal
 * handlers on any thread. */
#ifndef WEIR_RT_SAMPLES_H
#define WEIR_RT_SAMPLES_H
#include "os/stack.h"
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { WEIR__RT_SAMPLE_HANDLERS = 4 };

struct weir__rt_sample {
    uint64_t at_ns;
    unsigned thread, n_handlers;
    const char *handlers[WEIR__RT_SAMPLE_HANDLERS]; /* innermost first */
    struct weir__os_stack stack;
};

struct weir__rt_samples {
    _Atomic uint32_t taken; /* more than n_max: the rest is lost */
    uint32_t n_max;
    struct weir__rt_sample at[];
};

/* A place of one's own; NULL: all are taken. Async-signal-safe. */
static inline struct weir__rt_sample *weir__rt_samples_next(struct weir__rt_samples *s) {
    uint32_t i = atomic_fetch_add_explicit(&s->taken, 1, memory_order_relaxed);
    return i < s->n_max ? &s->at[i] : NULL;
}

#endif
