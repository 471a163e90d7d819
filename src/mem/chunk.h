/* Chunks from the system, and runs of pages in them.
 *
 * A chunk lies at a multiple of its size, so that a block finds its chunk by a mask. It begins with
 * its own books: which pages are free (best fit; neighbours coalesce because free pages are only
 * bits), and one descriptor per page. Chunks are kept by how full they are, in overlapping bands,
 * so that one which hovers at a border does not wander; fuller ones are taken from first, and the
 * emptier ones drain:
 *
 *      INIT 0..25 --> LOW 1..50 <--> MID 25..75 <--> HIGH 50..100 <--> TOP 75..100 <--> FULL 100
 *       ^  (fresh)      | empty
 *       +---------------+------> back to the system, at a trim, when unneeded since the last */
#ifndef WEIR_MEM_CHUNK_H
#define WEIR_MEM_CHUNK_H
#include "base/list.h"
#include "mem/class.h"
#include <stdalign.h>

struct weir_mem;

enum {
    WEIR__MEM_CHUNK_BYTES = 4 << 20, /* unless asked for otherwise */
    WEIR__MEM_CHUNK_MIN = 256 << 10,
    WEIR__MEM_CHUNK_MAX = 16 << 20,
    WEIR__MEM_CHUNK_PAGES_MAX = WEIR__MEM_CHUNK_MAX / WEIR__MEM_PAGE_BYTES,
    WEIR__MEM_EMPTY_KEPT = 1,       /* empty chunks that a trim leaves */
    WEIR__MEM_EMPTY_MAX = 8,        /* that wait for one */
    WEIR__MEM_DIRTY_KEPT = 1 << 20, /* memory behind free pages that a trim leaves */
};

enum weir__mem_band {
    WEIR__MEM_INIT,
    WEIR__MEM_LOW,
    WEIR__MEM_MID,
    WEIR__MEM_HIGH,
    WEIR__MEM_TOP,
    WEIR__MEM_FULL,
    WEIR__MEM_BANDS
};

/* The descriptor of a page; that of its first page speaks for a run. */
struct weir__mem_run {
    struct weir__base_link link;              /* among the runs of its class with a free block */
    uint64_t free[WEIR__MEM_BLOCKS_MAX / 64]; /* one bit per free block */
    uint16_t first;                           /* of every page: where its run begins */
    uint16_t pages;
    uint16_t n_free;
    uint8_t cls;    /* WEIR__MEM_HUGE: one block over all pages */
    uint32_t bytes; /* of that block */
};

struct weir__mem_chunk {
    struct weir__base_link link; /* in its band */
    enum weir__mem_band band;
    unsigned head;                                  /* pages of the books */
    unsigned pages;                                 /* all of them */
    unsigned free;                                  /* free ones */
    unsigned longest;                               /* no run of free pages is longer */
    uint64_t bits[WEIR__MEM_CHUNK_PAGES_MAX / 64];  /* a bit per free page */
    uint64_t clean[WEIR__MEM_CHUNK_PAGES_MAX / 64]; /* a bit per free page the system holds no
                                                       memory for: never used, or forgotten */
    alignas(64) struct weir__mem_run runs[];
};

struct weir__mem_chunks {
    uint64_t chunk_bytes; /* of one */
    struct weir__base_list bands[WEIR__MEM_BANDS];
    unsigned empty, empty_low; /* chunks; the fewest since the last trim */
    uint64_t n[WEIR__MEM_BANDS];
    uint64_t head_bytes;             /* the books of all */
    uint64_t free_bytes;             /* free pages of all */
    uint64_t clean_bytes;            /* of these, the ones without memory */
    uint64_t dirty_low;              /* free pages with memory: the fewest since the last trim */
    uint64_t unmapped, forgot_bytes; /* given back to the system, so far */
};

void weir__mem_chunks_init(struct weir__mem_chunks *cs, uint64_t chunk_bytes);
/* Unmaps all of them, whatever they hold. */
void weir__mem_chunks_fini(struct weir__mem_chunks *cs);
/* n pages in a row, from the fullest chunk that has them. The descriptor of the first one, whose
 * first and pages are set; NULL: no memory. */
struct weir__mem_run *weir__mem_pages_take(struct weir__mem_chunks *cs, unsigned n);
void weir__mem_pages_give(struct weir__mem_chunks *cs, struct weir__mem_run *run);
/* Gives back to the system what was not needed since the last trim: empty chunks beyond a reserve,
 * and the memory behind free pages, from the emptiest chunks on. all: everything that is free. */
void weir__mem_chunks_trim(struct weir__mem_chunks *cs, bool all);
/* Asserts that one chunk's bits, descriptors and place agree. */
void weir__mem_chunk_invariants(const struct weir__mem_chunks *cs, const struct weir__mem_chunk *c);

WEIR_INLINE struct weir__mem_chunk *weir__mem_chunk_of(const struct weir__mem_chunks *cs,
                                                       const void *p) {
    return (struct weir__mem_chunk *)((uintptr_t)p & ~(uintptr_t)(cs->chunk_bytes - 1));
}

/* Where a run begins. */
WEIR_INLINE uint8_t *weir__mem_run_base(struct weir__mem_chunk *c, const struct weir__mem_run *r) {
    return (uint8_t *)c + ((size_t)r->first << WEIR__MEM_PAGE_BITS);
}

/* The run that holds p. */
WEIR_INLINE struct weir__mem_run *weir__mem_run_of(const struct weir__mem_chunks *cs,
                                                   const void *p) {
    struct weir__mem_chunk *c = weir__mem_chunk_of(cs, p);
    size_t page = (size_t)((const uint8_t *)p - (uint8_t *)c) >> WEIR__MEM_PAGE_BITS;
    return &c->runs[c->runs[page].first];
}

WEIR_INLINE bool weir__mem_bit(const uint64_t *map, unsigned i) {
    return map[i / 64] >> (i % 64) & 1;
}

#endif
