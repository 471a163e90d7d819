/* What a pool holds and how it got there; every byte from the system has an owner in here:
 *
 *      chunk_bytes + huge_bytes = live + cached + free_block + free_page + overhead */
#ifndef WEIR_MEM_STATS_H
#define WEIR_MEM_STATS_H
#include "mem/chunk.h"
#include <stdatomic.h>

struct weir__mem_stats {
    uint64_t live_bytes;   /* in use */
    uint64_t peak_bytes;   /* most that was in use or cached */
    uint64_t budget_bytes; /* the pool's limit, or the smaller one it shares with others */
    uint64_t blocks;       /* in use: buffers, objects, links */
    uint64_t chunk_bytes, huge_bytes; /* from the system: chunks, and what lies outside of them */
    uint64_t cached_bytes;            /* in the thread cache */
    uint64_t free_block_bytes;        /* in runs whose other blocks are in use */
    uint64_t free_page_bytes;         /* in chunks */
    uint64_t overhead_bytes;          /* books, ends of runs, rounding */
    uint64_t resident_bytes; /* chunk_bytes + huge_bytes without the free pages that have no memory
                                behind them; by live_bytes: fragmentation */
    uint64_t arenas;         /* 1; 0: blocks come from the heap one by one */
    uint64_t chunks, chunks_unmapped; /* there, given back so far */
    uint64_t forgot_bytes;            /* memory behind free pages, given back so far */
    uint64_t bands[WEIR__MEM_BANDS];  /* chunks by how full they are */
    uint64_t outside_blocks;          /* so far: those that huge_bytes was for */
    uint64_t allocations;             /* so far */
    uint64_t
        misses; /* of these, not served by the inline path: hit rate = 1 - misses / allocations */
    uint64_t failures;     /* allocations answered with NULL */
    uint64_t over_budget;  /* of these, for want of budget */
    uint64_t foreign;      /* blocks that came back over the return stack */
    uint64_t leased_bytes; /* of a shared budget */
    uint64_t unwatched;    /* blocks that should have been watched and could not be */
};

enum { WEIR__MEM_STATS_WORDS = sizeof(struct weir__mem_stats) / sizeof(uint64_t) };

struct weir__mem_board {   /* the last published statistics */
    _Atomic uint64_t turn; /* odd: being written */
    _Atomic uint64_t words[WEIR__MEM_STATS_WORDS];
};

struct weir_mem;

/* Owner. */
void weir__mem_stats(const struct weir_mem *m, struct weir__mem_stats *out);
/* The same, and others may read it from now on. Owner. */
void weir__mem_publish(struct weir_mem *m, struct weir__mem_stats *out);
/* What was published last (zeros before). Any thread while the pool stands. */
void weir__mem_stats_read(struct weir_mem *m, struct weir__mem_stats *out);

#endif
