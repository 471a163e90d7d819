#include "codec/linkd/table.h"
#include "base/assert.h"
#include "codec/linkd/session.h"
#include <string.h>

/* The folded 64 x 64 product: without the seed nobody can aim ids at one run of slots. */
static uint32_t home(const struct weir__linkd_table *t, uint64_t id) {
    unsigned __int128 v = (unsigned __int128)(id ^ t->seed) * (t->seed | 0x9e3779b97f4a7c15u);
    return (uint32_t)((uint64_t)v ^ (uint64_t)(v >> 64)) & t->mask;
}

void weir__linkd_table_init(struct weir__linkd_table *t, uint64_t seed) {
    memset(t, 0, sizeof *t);
    t->slots = t->small;
    t->mask = WEIR__LINKD_SMALL - 1;
    t->seed = seed;
}

void weir__linkd_table_fini(struct weir__linkd_table *t) {
    if (t->slots != t->small)
        weir_mem_free(t->slots);
    weir__linkd_table_init(t, t->seed);
}

struct weir_linkd_call *weir__linkd_table_lookup(const struct weir__linkd_table *t, uint64_t id) {
    struct weir_linkd_call *x;
    for (uint32_t i = home(t, id); (x = t->slots[i]); i = (i + 1) & t->mask)
        if (x->id == id)
            return x;
    return NULL;
}

static void put(struct weir__linkd_table *t, struct weir_linkd_call *x) {
    uint32_t i = home(t, x->id);
    while (t->slots[i])
        i = (i + 1) & t->mask;
    t->slots[i] = x;
}

static int grow(struct weir__linkd_table *t, struct weir_mem *m) {
    struct weir_linkd_call **old = t->slots;
    uint32_t n = t->mask + 1;
    struct weir_linkd_call **slots = weir_mem_new(m, 2 * (size_t)n * sizeof(void *));
    if (!slots)
        return WEIR_ENOMEM;
    t->slots = slots;
    t->mask = 2 * n - 1;
    for (uint32_t i = 0; i < n; i++)
        if (old[i])
            put(t, old[i]);
    if (old == t->small)
        memset(t->small, 0, sizeof t->small);
    else
        weir_mem_free(old);
    return 0;
}

int weir__linkd_table_add(struct weir__linkd_table *t, struct weir_mem *m,
                          struct weir_linkd_call *x) {
    check(!weir__linkd_table_find(t, x->id));
    if (unlikely(4 * (t->count + 1) > 3 * (t->mask + 1))) { /* at most three quarters full */
        int rc = grow(t, m);
        if (rc < 0)
            return rc;
    }
    put(t, x);
    t->count++;
    return 0;
}

void weir__linkd_table_remove(struct weir__linkd_table *t, const struct weir_linkd_call *x) {
    uint32_t hole = home(t, x->id);
    while (t->slots[hole] != x) {
        must(t->slots[hole] != NULL);
        hole = (hole + 1) & t->mask;
    }
    for (uint32_t i = (hole + 1) & t->mask; t->count > 1 && t->slots[i]; i = (i + 1) & t->mask) {
        uint32_t away = (i - home(t, t->slots[i]->id)) & t->mask;
        if (away < ((i - hole) & t->mask))
            continue; /* its home lies behind the hole */
        t->slots[hole] = t->slots[i];
        hole = i;
    }
    t->slots[hole] = NULL;
    if (--t->count == 0 && t->mask >= WEIR__LINKD_KEEP)
        weir__linkd_table_fini(t);
}
