#include "mem/budget.h"
#include "mem/pool.h"

enum { STEP_MIN = 16 << 10, STEP_MAX = 512 << 10, STEPS = 64 };

void weir__mem_budget_init(struct weir__mem_budget *b, uint64_t max_bytes) {
    uint64_t step = max_bytes / STEPS;
    b->max = max_bytes;
    b->step = step < STEP_MIN ? STEP_MIN : step > STEP_MAX ? STEP_MAX : step;
    atomic_init(&b->used, 0);
    atomic_init(&b->refused, 0);
}

uint64_t weir__mem_budget_take(struct weir__mem_budget *b, uint64_t least, uint64_t want) {
    uint64_t used = atomic_load_explicit(&b->used, memory_order_relaxed), got;
    do {
        uint64_t left = b->max - used;
        if (left < least) {
            atomic_fetch_add_explicit(&b->refused, 1, memory_order_relaxed);
            return 0;
        }
        got = left < want ? left : want;
    } while (!atomic_compare_exchange_weak_explicit(&b->used, &used, used + got,
                                                    memory_order_relaxed, memory_order_relaxed));
    return got;
}

void weir__mem_budget_give(struct weir__mem_budget *b, uint64_t bytes) {
    uint64_t before = atomic_fetch_sub_explicit(&b->used, bytes, memory_order_relaxed);
    must(before >= bytes);
}

static void limit(struct weir_mem *m) {
    m->limit = m->budget < m->lease ? m->budget : m->lease;
}

void weir__mem_budget_set(struct weir_mem *m, uint64_t max_bytes) {
    m->budget = max_bytes;
    limit(m);
}

int weir__mem_budget_attach(struct weir_mem *m, struct weir__mem_budget *b) {
    uint64_t out = m->arena.out_bytes;
    if (b && out > 0 && weir__mem_budget_take(b, out, out) == 0)
        return WEIR_ENOMEM;
    if (m->shared)
        weir__mem_budget_give(m->shared, m->lease);
    m->shared = b;
    m->lease = b ? out : UINT64_MAX;
    m->refused_seen = b ? atomic_load_explicit(&b->refused, memory_order_relaxed) : 0;
    limit(m);
    return 0;
}

/* The shared budget is asked only for what the pool's own would allow. */
static void lease(struct weir_mem *m, uint64_t least) {
    struct weir__mem_budget *b = m->shared;
    uint64_t out = m->arena.out_bytes;
    if (!b || least > m->budget || out > m->budget - least || out + least <= m->lease)
        return;
    uint64_t need = out + least - m->lease;
    m->lease += weir__mem_budget_take(b, need, need + b->step);
    limit(m);
}

static uint64_t left(const struct weir_mem *m) {
    return m->arena.out_bytes < m->limit ? m->limit - m->arena.out_bytes : 0;
}

uint64_t weir__mem_budget_afford(struct weir_mem *m, uint64_t least, uint64_t want) {
    if (likely(left(m) >= want))
        return want;
    lease(m, least);
    if (left(m) < least)
        weir__mem_collect(m);
    if (left(m) < least) {
        weir__mem_cache_trim(&m->cache, &m->arena, true);
        lease(m, least);
    }
    uint64_t k = left(m);
    if (k < least) {
        m->over_budget++;
        return 0;
    }
    return k < want ? k : want;
}

void weir__mem_budget_settle(struct weir_mem *m) {
    if (likely(!m->shared) || m->lease - m->arena.out_bytes <= 2 * m->shared->step)
        return;
    uint64_t back = m->lease - m->arena.out_bytes - m->shared->step;
    weir__mem_budget_give(m->shared, back);
    m->lease -= back;
    limit(m);
}
