/* Time in which something did not get on: how often, how long in all, and the longest. One writer,
 * any readers; each number is whole. */
#ifndef WEIR_BASE_PAUSE_H
#define WEIR_BASE_PAUSE_H
#include <stdatomic.h>
#include <stdint.h>

struct weir__base_pause {
    _Atomic uint64_t count, longest_ns, total_ns;
};

/* `count` pauses of ns together. */
static inline void weir__base_pause_add(struct weir__base_pause *p, uint64_t count, uint64_t ns) {
    atomic_store_explicit(&p->count, atomic_load_explicit(&p->count, memory_order_relaxed) + count,
                          memory_order_relaxed);
    atomic_store_explicit(&p->total_ns,
                          atomic_load_explicit(&p->total_ns, memory_order_relaxed) + ns,
                          memory_order_relaxed);
    if (ns > atomic_load_explicit(&p->longest_ns, memory_order_relaxed))
        atomic_store_explicit(&p->longest_ns, ns, memory_order_relaxed);
}

#endif
