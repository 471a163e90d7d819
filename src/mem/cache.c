#include "mem/cache.h"
#include "mem/poison.h"
#include "mem/pool.h"
#include <string.h>

enum {
    POISON = 0xA5,     /* what a free block is filled with */
    POISON_MAX = 4096, /* so much of it, beginning behind the link */
    LINK_BYTES = sizeof(struct weir__mem_block),
};

static size_t poisoned(unsigned cls) {
    size_t size = weir__mem_class_bytes[cls];
    return (size < POISON_MAX ? size : POISON_MAX) - LINK_BYTES;
}

/* Still as poison left it? */
static bool untouched(const struct weir__mem_block *b, unsigned cls) {
    const uint8_t *p = (const uint8_t *)b + LINK_BYTES;
    size_t n = poisoned(cls);
    return n == 0 || (p[0] == POISON && memcmp(p, p + 1, n - 1) == 0);
}

static void old_push(struct weir__mem_cache *c, struct weir__mem_block *b, unsigned cls) {
    if (c->poison)
        memset((uint8_t *)b + LINK_BYTES, POISON, poisoned(cls));
    b->next = c->old[cls].head;
    c->old[cls].head = b;
    c->old[cls].n++;
    WEIR__MEM_HIDE(b, weir__mem_class_bytes[cls]);
}

static struct weir__mem_block *old_pop(struct weir__mem_cache *c, unsigned cls) {
    struct weir__mem_block *b = c->old[cls].head;
    WEIR__MEM_SHOW(b, weir__mem_class_bytes[cls]);
    if (c->poison) {
        bool written_after_free = !untouched(b, cls);
        must(!written_after_free);
    }
    c->old[cls].head = b->next;
    c->old[cls].n--;
    return b;
}

uint64_t weir__mem_cache_popped(const struct weir__mem_cache *c, unsigned cls) {
    if (c->slow || cls == WEIR__MEM_HUGE)
        return c->popped[cls];
    return c->bins[cls].limit - c->max[cls] + c->lent[cls];
}

uint32_t weir__mem_cache_count(const struct weir__mem_cache *c, unsigned cls) {
    return (uint32_t)(c->lent[cls] - (weir__mem_cache_popped(c, cls) - c->bins[cls].pushed));
}

static void lend(struct weir__mem_cache *c, unsigned cls, unsigned k) {
    c->lent[cls] += k;
    if (!c->slow)
        c->bins[cls].limit -= k;
}

static void give_back(struct weir__mem_cache *c, struct weir__mem_arena *a, void *p, unsigned cls) {
    weir__mem_arena_give(a, p, cls);
    c->lent[cls]--;
    if (!c->slow)
        c->bins[cls].limit++;
}

/* The whole list becomes old. */
static void age(struct weir__mem_cache *c, unsigned cls) {
    struct weir__mem_bin *bin = &c->bins[cls];
    struct weir__mem_old *old = &c->old[cls];
    struct weir__mem_block **end = &bin->head;
    if (!bin->head)
        return;
    if (old->head) {
        while (*end)
            end = &(*end)->next;
        *end = old->head;
    }
    old->head = bin->head;
    old->n = weir__mem_cache_count(c, cls);
    bin->head = NULL;
}

void weir__mem_cache_init(struct weir__mem_cache *c, struct weir_mem *m) {
    memset(c, 0, sizeof *c);
    for (unsigned cls = 0; cls <= WEIR__MEM_HUGE; cls++) {
        c->bins[cls].mem = m;
        c->bins[cls].cls = cls;
    }
    for (unsigned cls = 0; cls < WEIR__MEM_CLASSES; cls++) {
        c->bins[cls].limit = c->max[cls] = weir__mem_shapes[cls].cache_max;
        /* What is smaller than a header never is a buffer. */
        if (weir__mem_class_bytes[cls] > WEIR__MEM_HEAD_BYTES)
            c->bins[cls].capacity = weir__mem_class_bytes[cls] - WEIR__MEM_HEAD_BYTES;
    }
}

/* Another way to count: nothing is lost on the way. */
static void recount(struct weir__mem_cache *c, unsigned slow, bool resize, bool keep) {
    for (unsigned cls = 0; cls < WEIR__MEM_CLASSES; cls++) {
        struct weir__mem_bin *bin = &c->bins[cls];
        if (slow)
            age(c, cls);
        c->popped[cls] = weir__mem_cache_popped(c, cls);
        if (resize)
            c->max[cls] = keep ? weir__mem_shapes[cls].cache_max : 0;
        bin->limit = slow ? bin->pushed : c->popped[cls] + c->max[cls] - c->lent[cls];
    }
    c->slow = slow;
}

void weir__mem_cache_slow(struct weir__mem_cache *c, enum weir__mem_slow why, bool on) {
    recount(c, on ? c->slow | why : c->slow & ~(unsigned)why, false, false);
}

void weir__mem_cache_use(struct weir__mem_cache *c, struct weir__mem_arena *a, bool keep,
                         bool poison) {
    weir__mem_cache_trim(c, a, true);
    c->poison = poison;
    recount(c, c->slow, true, keep);
}

void weir__mem_cache_count_large(struct weir__mem_cache *c, bool back) {
    if (!back) {
        c->popped[WEIR__MEM_HUGE]++;
        return;
    }
    c->bins[WEIR__MEM_HUGE].pushed++;
    c->bins[WEIR__MEM_HUGE].limit++;
}

/* Old blocks back into use. */
static void revive(struct weir__mem_cache *c, unsigned cls) {
    struct weir__mem_old *old = &c->old[cls];
    struct weir__mem_block **end = &old->head;
    uint32_t n = 0, batch = weir__mem_shapes[cls].batch;
    for (; n < batch && *end; n++)
        end = &(*end)->next;
    c->bins[cls].head = old->head;
    old->head = *end;
    *end = NULL;
    old->n -= n;
}

/* Fresh blocks into use. False: none are to be had. */
static bool refill(struct weir_mem *m, unsigned cls) {
    struct weir__mem_cache *c = &m->cache;
    uint64_t size = weir__mem_class_bytes[cls];
    uint64_t afford = weir__mem_budget_afford(m, size, weir__mem_shapes[cls].batch * size);
    if (afford < size)
        return false;
    if (c->bins[cls].head) /* others gave back meanwhile */
        return true;
    unsigned k = weir__mem_arena_take(&m->arena, cls, (unsigned)(afford / size),
                                      &c->bins[cls].head);
    lend(c, cls, k);
    return k > 0;
}

static void *slow_get(struct weir_mem *m, unsigned cls) {
    struct weir__mem_cache *c = &m->cache;
    uint64_t size = weir__mem_class_bytes[cls];
    struct weir__mem_block *b = NULL;
    if (!c->old[cls].head)
        weir__mem_collect(m);
    if (c->old[cls].head) {
        b = old_pop(c, cls);
    } else if (weir__mem_budget_afford(m, size, size) >= size) {
        /* Others may have given one back meanwhile; a fresh one is as good. */
        unsigned k = weir__mem_arena_take(&m->arena, cls, 1, &b);
        lend(c, cls, k);
    }
    c->popped[cls] += b != NULL;
    return b;
}

void *weir__mem_cache_get(struct weir_mem *m, unsigned cls) {
    struct weir__mem_cache *c = &m->cache;
    struct weir__mem_bin *bin = &c->bins[cls];
    if (c->slow)
        return slow_get(m, cls);
    if (!bin->head && c->old[cls].head)
        revive(c, cls);
    if (!bin->head)
        weir__mem_collect(m);
    if (!bin->head && !refill(m, cls))
        return NULL;
    struct weir__mem_block *b = bin->head;
    bin->head = b->next;
    bin->limit++;
    return b;
}

/* Full: the half that was used last stays, so that neither a run of puts nor one of gets meets the
 * arena each time. */
static void spill(struct weir__mem_cache *c, struct weir__mem_arena *a, unsigned cls) {
    age(c, cls);
    struct weir__mem_old *old = &c->old[cls];
    struct weir__mem_block **end = &old->head;
    for (uint32_t keep = c->max[cls] / 2; keep > 0; keep--)
        end = &(*end)->next;
    for (struct weir__mem_block *b = *end, *next; b; b = next) {
        next = b->next;
        give_back(c, a, b, cls);
    }
    *end = NULL;
    c->bins[cls].head = old->head;
    *old = (struct weir__mem_old){0};
}

void weir__mem_cache_put(struct weir_mem *m, void *p, unsigned cls) {
    struct weir__mem_cache *c = &m->cache;
    struct weir__mem_bin *bin = &c->bins[cls];
    if (c->slow) {
        bin->limit = ++bin->pushed;
        if (c->old[cls].n < c->max[cls])
            old_push(c, p, cls);
        else
            give_back(c, &m->arena, p, cls);
        return;
    }
    if (bin->pushed == bin->limit)
        spill(c, &m->arena, cls);
    struct weir__mem_block *b = p;
    b->next = bin->head;
    bin->head = b;
    bin->pushed++;
}

static void trim_class(struct weir__mem_cache *c, struct weir__mem_arena *a, unsigned cls,
                       bool all) {
    if (all && !c->slow)
        age(c, cls);
    uint32_t n = c->old[cls].n, leave = all || !c->slow ? 0 : n / 2;
    for (uint32_t i = n; i > leave; i--)
        give_back(c, a, old_pop(c, cls), cls);
    if (!c->slow)
        age(c, cls);
}

void weir__mem_cache_trim(struct weir__mem_cache *c, struct weir__mem_arena *a, bool all) {
    for (unsigned cls = 0; cls < WEIR__MEM_CLASSES; cls++)
        trim_class(c, a, cls, all);
}

uint64_t weir__mem_cache_bytes(const struct weir__mem_cache *c) {
    uint64_t bytes = 0;
    for (unsigned cls = 0; cls < WEIR__MEM_CLASSES; cls++)
        bytes += (uint64_t)weir__mem_cache_count(c, cls) * weir__mem_class_bytes[cls];
    return bytes;
}

static uint32_t length(const struct weir__mem_block *b) {
    uint32_t n = 0;
#ifdef WEIR__MEM_ASAN
    (void)b; /* hidden */
#else
    for (; b; b = b->next)
        n++;
#endif
    return n;
}

void weir__mem_cache_invariants(const struct weir__mem_cache *c) {
    const struct weir__mem_bin *none = &c->bins[WEIR__MEM_HUGE];
    must(!none->head && none->limit == none->pushed && none->pushed <= c->popped[WEIR__MEM_HUGE]);
    for (unsigned cls = 0; cls < WEIR__MEM_CLASSES; cls++) {
        const struct weir__mem_bin *bin = &c->bins[cls];
        const struct weir__mem_old *old = &c->old[cls];
        must((old->n == 0) == (old->head == NULL) && old->n <= c->max[cls]);
        must(!c->slow || (!bin->head && bin->limit == bin->pushed));
        must(bin->pushed <= bin->limit && bin->limit - bin->pushed <= c->max[cls]);
        must(weir__mem_cache_count(c, cls) <= c->max[cls]);
#ifndef WEIR__MEM_ASAN
        must(length(old->head) == old->n);
        must(length(bin->head) + old->n == weir__mem_cache_count(c, cls));
#else
        (void)length;
#endif
    }
}
