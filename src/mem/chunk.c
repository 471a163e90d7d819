#include "mem/chunk.h"
#include "mem/poison.h"
#include "os/memory.h"

/* Where a chunk goes up to the next band, and down to the one before, in percent of its pages. */
static const struct {
    unsigned down, up;
} marks[WEIR__MEM_BANDS] = {
    [WEIR__MEM_INIT] = {0, 25},   [WEIR__MEM_LOW] = {1, 50},   [WEIR__MEM_MID] = {25, 75},
    [WEIR__MEM_HIGH] = {50, 100}, [WEIR__MEM_TOP] = {75, 100}, [WEIR__MEM_FULL] = {100, 101},
};

/* Fuller ones first. */
static const uint8_t order[] = {WEIR__MEM_TOP, WEIR__MEM_HIGH, WEIR__MEM_MID, WEIR__MEM_LOW,
                                WEIR__MEM_INIT};

static uint64_t page_bytes(unsigned pages) {
    return (uint64_t)pages << WEIR__MEM_PAGE_BITS;
}

static uint64_t dirty(const struct weir__mem_chunks *cs) {
    return cs->free_bytes - cs->clean_bytes;
}

/* The first bit from i on that is `set`, or end. */
static unsigned bit_next(const uint64_t *map, unsigned i, unsigned end, bool set) {
    while (i < end) {
        uint64_t w = (set ? map[i / 64] : ~map[i / 64]) >> (i % 64);
        if (w) {
            i += (unsigned)__builtin_ctzll(w);
            return i < end ? i : end;
        }
        i = (i / 64 + 1) * 64;
    }
    return end;
}

static void bits_set(uint64_t *map, unsigned i, unsigned n, bool set) {
    for (unsigned end = i + n; i < end;) {
        unsigned k = 64 - i % 64 < end - i ? 64 - i % 64 : end - i;
        uint64_t mask = (k == 64 ? UINT64_MAX : ((uint64_t)1 << k) - 1) << (i % 64);
        map[i / 64] = set ? map[i / 64] | mask : map[i / 64] & ~mask;
        i += k;
    }
}

static unsigned bits_count(const uint64_t *map, unsigned i, unsigned n) {
    unsigned k = 0;
    for (unsigned end = i + n; (i = bit_next(map, i, end, true)) < end; i++)
        k++;
    return k;
}

void weir__mem_chunks_init(struct weir__mem_chunks *cs, uint64_t chunk_bytes) {
    *cs = (struct weir__mem_chunks){.chunk_bytes = chunk_bytes};
    for (unsigned i = 0; i < WEIR__MEM_BANDS; i++)
        weir__base_list_init(&cs->bands[i]);
}

static void place(struct weir__mem_chunks *cs, struct weir__mem_chunk *c, enum weir__mem_band b) {
    c->band = b;
    cs->n[b]++;
    weir__base_list_push_front(&cs->bands[b], &c->link);
}

static void displace(struct weir__mem_chunks *cs, struct weir__mem_chunk *c) {
    weir__base_list_remove(&c->link);
    cs->n[c->band]--;
}

static bool is_empty(const struct weir__mem_chunk *c) {
    return c->free == c->pages - c->head;
}

static struct weir__mem_chunk *chunk_new(struct weir__mem_chunks *cs) {
    struct weir__mem_chunk *c = weir__os_map(cs->chunk_bytes, cs->chunk_bytes);
    if (!c)
        return NULL;
    c->pages = (unsigned)(cs->chunk_bytes >> WEIR__MEM_PAGE_BITS);
    size_t books = sizeof *c + c->pages * sizeof c->runs[0];
    c->head = (unsigned)((books + WEIR__MEM_PAGE_BYTES - 1) >> WEIR__MEM_PAGE_BITS);
    c->free = c->longest = c->pages - c->head;
    bits_set(c->bits, c->head, c->free, true);
    bits_set(c->clean, c->head, c->free, true);
    cs->head_bytes += page_bytes(c->head);
    cs->free_bytes += page_bytes(c->free);
    cs->clean_bytes += page_bytes(c->free);
    cs->empty++;
    place(cs, c, WEIR__MEM_INIT);
    WEIR__MEM_HIDE((uint8_t *)c + page_bytes(c->head), page_bytes(c->free));
    return c;
}

static void chunk_unmap(struct weir__mem_chunks *cs, struct weir__mem_chunk *c) {
    displace(cs, c);
    WEIR__MEM_SHOW(c, cs->chunk_bytes);
    weir__os_unmap(c, cs->chunk_bytes);
}

static void chunk_free(struct weir__mem_chunks *cs, struct weir__mem_chunk *c) {
    cs->head_bytes -= page_bytes(c->head);
    cs->free_bytes -= page_bytes(c->free);
    cs->clean_bytes -= page_bytes(bits_count(c->clean, c->head, c->pages - c->head));
    cs->empty--;
    cs->unmapped++;
    chunk_unmap(cs, c);
}

void weir__mem_chunks_fini(struct weir__mem_chunks *cs) {
    for (unsigned b = 0; b < WEIR__MEM_BANDS; b++)
        weir__base_list_each(link, &cs->bands[b])
            chunk_unmap(cs, container_of(link, struct weir__mem_chunk, link));
}

/* Full only when nothing is free, empty only when all is. */
static unsigned percent_used(const struct weir__mem_chunk *c) {
    unsigned all = c->pages - c->head, used = (all - c->free) * 100 / all;
    return used == 0 && !is_empty(c) ? 1 : used;
}

static void rebalance(struct weir__mem_chunks *cs, struct weir__mem_chunk *c) {
    unsigned used = percent_used(c);
    enum weir__mem_band b = c->band;
    while (used >= marks[b].up)
        b++;
    while (used < marks[b].down)
        b--;
    if (used == 0)
        b = WEIR__MEM_INIT;
    if (b == c->band)
        return;
    displace(cs, c);
    place(cs, c, b);
}

/* The start of the shortest run of at least n free pages, or c->pages; notes what it saw. */
static unsigned best_fit(struct weir__mem_chunk *c, unsigned n) {
    unsigned best = c->pages, best_n = UINT32_MAX, longest = 0, end;
    for (unsigned i = c->head; (i = bit_next(c->bits, i, c->pages, true)) < c->pages; i = end) {
        end = bit_next(c->bits, i, c->pages, false);
        unsigned k = end - i;
        if (k == n)
            return i;
        longest = k > longest ? k : longest;
        if (k > n && k < best_n) {
            best = i;
            best_n = k;
        }
    }
    c->longest = longest;
    return best;
}

static struct weir__mem_run *pages_take(struct weir__mem_chunks *cs, struct weir__mem_chunk *c,
                                        unsigned n) {
    unsigned i = best_fit(c, n);
    if (i == c->pages)
        return NULL;
    cs->empty -= is_empty(c);
    cs->empty_low = cs->empty < cs->empty_low ? cs->empty : cs->empty_low;
    bits_set(c->bits, i, n, false);
    cs->clean_bytes -= page_bytes(bits_count(c->clean, i, n));
    bits_set(c->clean, i, n, false);
    c->free -= n;
    cs->free_bytes -= page_bytes(n);
    cs->dirty_low = dirty(cs) < cs->dirty_low ? dirty(cs) : cs->dirty_low;
    for (unsigned k = i; k < i + n; k++)
        c->runs[k].first = (uint16_t)i;
    c->runs[i].pages = (uint16_t)n;
    rebalance(cs, c);
    return &c->runs[i];
}

struct weir__mem_run *weir__mem_pages_take(struct weir__mem_chunks *cs, unsigned n) {
    for (unsigned k = 0; k < ARRAY_LEN(order); k++) {
        weir__base_list_each(link, &cs->bands[order[k]]) {
            struct weir__mem_chunk *c = container_of(link, struct weir__mem_chunk, link);
            struct weir__mem_run *r = c->longest >= n ? pages_take(cs, c, n) : NULL;
            if (r)
                return r;
        }
    }
    struct weir__mem_chunk *c = chunk_new(cs);
    return c ? pages_take(cs, c, n) : NULL;
}

/* Free pages on both sides of [i, i + n) and these. */
static unsigned coalesced(const struct weir__mem_chunk *c, unsigned i, unsigned n) {
    unsigned from = i, to = bit_next(c->bits, i + n, c->pages, false);
    while (from > c->head && weir__mem_bit(c->bits, from - 1))
        from--;
    return to - from;
}

void weir__mem_pages_give(struct weir__mem_chunks *cs, struct weir__mem_run *run) {
    struct weir__mem_chunk *c = weir__mem_chunk_of(cs, run);
    unsigned i = run->first, n = run->pages;
    run->pages = 0;
    bits_set(c->bits, i, n, true);
    c->free += n;
    cs->free_bytes += page_bytes(n);
    unsigned k = coalesced(c, i, n);
    c->longest = k > c->longest ? k : c->longest;
    if (is_empty(c) && ++cs->empty > WEIR__MEM_EMPTY_MAX)
        chunk_free(cs, c);
    else
        rebalance(cs, c);
}

/* Memory behind free pages of c, up to `bytes` of it. */
static uint64_t forget(struct weir__mem_chunks *cs, struct weir__mem_chunk *c, uint64_t bytes) {
    uint64_t gone = 0;
    for (unsigned i = c->head;
         gone < bytes && (i = bit_next(c->bits, i, c->pages, true)) < c->pages; i++) {
        if (weir__mem_bit(c->clean, i))
            continue;
        unsigned end = bit_next(c->bits, i, c->pages, false);
        end = bit_next(c->clean, i, end, true);
        void *p = (uint8_t *)c + page_bytes(i);
        WEIR__MEM_SHOW(p, page_bytes(end - i));
        weir__os_map_forget(p, page_bytes(end - i));
        WEIR__MEM_HIDE(p, page_bytes(end - i));
        bits_set(c->clean, i, end - i, true);
        gone += page_bytes(end - i);
        i = end - 1;
    }
    cs->clean_bytes += gone;
    cs->forgot_bytes += gone;
    return gone;
}

/* The emptiest chunks first. */
static void forget_to(struct weir__mem_chunks *cs, uint64_t keep_bytes) {
    for (unsigned k = ARRAY_LEN(order); k-- > 0;) {
        weir__base_list_each(link, &cs->bands[order[k]]) {
            if (dirty(cs) <= keep_bytes)
                return;
            forget(cs, container_of(link, struct weir__mem_chunk, link), dirty(cs) - keep_bytes);
        }
    }
}

static void drop_empty(struct weir__mem_chunks *cs, unsigned n) {
    weir__base_list_each(link, &cs->bands[WEIR__MEM_INIT]) {
        struct weir__mem_chunk *c = container_of(link, struct weir__mem_chunk, link);
        if (n == 0)
            return;
        if (is_empty(c)) {
            chunk_free(cs, c);
            n--;
        }
    }
}

void weir__mem_chunks_trim(struct weir__mem_chunks *cs, bool all) {
    unsigned idle = cs->empty_low > WEIR__MEM_EMPTY_KEPT ? cs->empty_low - WEIR__MEM_EMPTY_KEPT : 0;
    uint64_t unused = cs->dirty_low > WEIR__MEM_DIRTY_KEPT ? cs->dirty_low - WEIR__MEM_DIRTY_KEPT
                                                           : 0;
    uint64_t keep = all || unused > dirty(cs) ? 0 : dirty(cs) - unused;
    drop_empty(cs, all ? cs->empty : idle);
    forget_to(cs, keep);
    cs->empty_low = cs->empty;
    cs->dirty_low = dirty(cs);
}

void weir__mem_chunk_invariants(const struct weir__mem_chunks *cs,
                                const struct weir__mem_chunk *c) {
    unsigned free = 0, longest = 0, used = percent_used(c);
    must(((uintptr_t)c & (cs->chunk_bytes - 1)) == 0 &&
         c->pages * WEIR__MEM_PAGE_BYTES == cs->chunk_bytes);
    for (unsigned i = c->head; i < c->pages;) {
        unsigned end = bit_next(c->bits, i, c->pages, false);
        if (end == i) { /* taken: a run begins here */
            must(c->runs[i].first == i && c->runs[i].pages > 0);
            must(bits_count(c->clean, i, c->runs[i].pages) == 0);
            i += c->runs[i].pages;
            continue;
        }
        free += end - i;
        longest = end - i > longest ? end - i : longest;
        i = end;
    }
    must(free == c->free && longest <= c->longest);
    must(used < marks[c->band].up && (used >= marks[c->band].down || used == 0));
    must(used > 0 || c->band == WEIR__MEM_INIT);
}
