#include "mem/stats.h"
#include "mem/pool.h"
#include <string.h>

static uint64_t sum(const uint64_t *n, unsigned count) {
    uint64_t s = 0;
    for (unsigned i = 0; i < count; i++)
        s += n[i];
    return s;
}

static uint64_t popped(const struct weir_mem *m) {
    uint64_t n = 0;
    for (unsigned cls = 0; cls <= WEIR__MEM_HUGE; cls++)
        n += weir__mem_cache_popped(&m->cache, cls);
    return n;
}

static uint64_t budget(const struct weir_mem *m) {
    return m->shared && m->shared->max < m->budget ? m->shared->max : m->budget;
}

void weir__mem_stats(const struct weir_mem *m, struct weir__mem_stats *out) {
    const struct weir__mem_arena *a = &m->arena;
    const struct weir__mem_chunks *cs = &a->chunks;
    uint64_t cached = weir__mem_cache_bytes(&m->cache), chunks = sum(cs->n, WEIR__MEM_BANDS);
    *out = (struct weir__mem_stats){
        .live_bytes = a->out_bytes - cached,
        .peak_bytes = a->out_peak,
        .budget_bytes = budget(m),
        .blocks = weir__mem_alive(m),
        .chunk_bytes = chunks * cs->chunk_bytes,
        .huge_bytes = a->outside_bytes,
        .cached_bytes = cached,
        .free_block_bytes = a->block_bytes,
        .free_page_bytes = cs->free_bytes,
        .overhead_bytes = cs->head_bytes + a->slack_bytes,
        .resident_bytes = chunks * cs->chunk_bytes + a->outside_bytes - cs->clean_bytes,
        .arenas = a->heap ? 0 : 1,
        .chunks = chunks,
        .chunks_unmapped = cs->unmapped,
        .forgot_bytes = cs->forgot_bytes,
        .outside_blocks = a->outside_blocks,
        .allocations = popped(m) + m->failures,
        .misses = m->misses,
        .failures = m->failures,
        .over_budget = m->over_budget,
        .foreign = m->foreign,
        .leased_bytes = m->shared ? m->lease : 0,
        .unwatched = m->debug.lost,
    };
    memcpy(out->bands, cs->n, sizeof out->bands);
}

/* The words are released one by one: a reader that saw one of this turn sees the odd number. */
void weir__mem_publish(struct weir_mem *m, struct weir__mem_stats *out) {
    struct weir__mem_board *b = &m->board;
    uint64_t words[WEIR__MEM_STATS_WORDS];
    uint64_t turn = atomic_load_explicit(&b->turn, memory_order_relaxed);
    weir__mem_stats(m, out);
    m->published_out = m->arena.out_bytes;
    memcpy(words, out, sizeof words);
    atomic_store_explicit(&b->turn, turn + 1, memory_order_relaxed);
    for (unsigned i = 0; i < WEIR__MEM_STATS_WORDS; i++)
        atomic_store_explicit(&b->words[i], words[i], memory_order_release);
    atomic_store_explicit(&b->turn, turn + 2, memory_order_release);
}

void weir__mem_stats_read(struct weir_mem *m, struct weir__mem_stats *out) {
    struct weir__mem_board *b = &m->board;
    uint64_t words[WEIR__MEM_STATS_WORDS] = {0}, turn;
    do {
        turn = atomic_load_explicit(&b->turn, memory_order_acquire);
        for (unsigned i = 0; i < WEIR__MEM_STATS_WORDS; i++)
            words[i] = atomic_load_explicit(&b->words[i], memory_order_acquire);
    } while (turn % 2 || turn != atomic_load_explicit(&b->turn, memory_order_relaxed));
    memcpy(out, words, sizeof words);
}
