#include "codec/linkd/table.h"
#include "base/assert.h"
#include "codec/linkd/session.h"

/* The folded 64 x 64 product: without the seed nobody can aim ids at one run of slots. */
static uint32_t home(const struct weir__linkd_table *t, uint64_t id) {
    unsigned __int128 v = (unsigned __int128)(id ^ t->seed) * (t->seed | 0x9e3779b97f4a7c15u);
    return (uint32_t)((uint64_t)v ^ (uint64_t)(v >> 64)) & (t->size - 1);
}

void weir__linkd_table_init(struct weir__linkd_table *t, uint64_t seed) {
    *t = (struct weir__linkd_table){.seed = seed};
}

void weir__linkd_table_fini(struct weir__linkd_table *t) {
    weir_mem_free(t->slots);
    weir__linkd_table_init(t, t->seed);
}

static uint32_t next(const struct weir__linkd_table *t, uint32_t i) {
    return (i + 1) & (t->size - 1);
}

struct weir_linkd_call *weir__linkd_table_lookup(const struct weir__linkd_table *t, uint64_t id) {
    struct weir_linkd_call *x;
    for (uint32_t i = home(t, id); (x = t->slots[i]); i = next(t, i))
        if (x->id == id)
            return x;
    return NULL;
}

static void put(struct weir__linkd_table *t, struct weir_linkd_call *x) {
    uint32_t i = home(t, x->id);
    while (t->slots[i])
        i = next(t, i);
    t->slots[i] = x;
}

static int grow(struct weir__linkd_table *t, struct weir_mem *m) {
    struct weir_linkd_call **old = t->slots;
    uint32_t n = t->size, size = n ? 2 * n : WEIR__LINKD_SLOTS_MIN;
    struct weir_linkd_call **slots = weir_mem_new(m, size * sizeof(void *));
    if (!slots)
        return WEIR_ENOMEM;
    t->slots = slots;
    t->size = size;
    for (uint32_t i = 0; i < n; i++)
        if (old[i])
            put(t, old[i]);
    weir_mem_free(old);
    return 0;
}

int weir__linkd_table_add(struct weir__linkd_table *t, struct weir_mem *m,
                          struct weir_linkd_call *x) {
    check(!weir__linkd_table_find(t, x->id));
    if (unlikely(4 * (t->count + 1) > 3 * t->size)) { /* at most three quarters full */
        int rc = grow(t, m);
        if (rc < 0)
            return rc;
    }
    put(t, x);
    t->count++;
    return 0;
}

void weir__linkd_table_remove(struct weir__linkd_table *t, const struct weir_linkd_call *x) {
    uint32_t hole = home(t, x->id), mask = t->size - 1;
    while (t->slots[hole] != x) {
        must(t->slots[hole] != NULL);
        hole = next(t, hole);
    }
    for (uint32_t i = next(t, hole); t->count > 1 && t->slots[i]; i = next(t, i)) {
        uint32_t away = (i - home(t, t->slots[i]->id)) & mask;
        if (away < ((i - hole) & mask))
            continue; /* its home lies behind the hole */
        t->slots[hole] = t->slots[i];
        hole = i;
    }
    t->slots[hole] = NULL;
    if (--t->count == 0 && t->size > WEIR__LINKD_SLOTS_KEEP)
        weir__linkd_table_fini(t);
}
