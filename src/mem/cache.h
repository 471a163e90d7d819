/* The thread cache in front of an arena: per class a LIFO list of free blocks, bounded, in two
 * halves.
 *
 * `head` is what the inline paths pop from and push to. A trim makes the whole list `old`, and what
 * is needed comes back from there in small batches: what is still old at the next trim was not
 * needed in between (the low-water mark, without counting on the fast path) and goes back to the
 * arena.
 *
 *      arena --batch--> head <--batch-- old --trim--> arena
 *                         +-----trim-----^
 *
 * A pool that wants to see every operation is `slow`: head is empty and there is no room, and
 * blocks live on `old` alone. */
#ifndef WEIR_MEM_CACHE_H
#define WEIR_MEM_CACHE_H
#include "mem/arena.h"

enum weir__mem_slow {                           /* why */
                      WEIR__MEM_SLOW_BUILD = 1, /* AddressSanitizer is to know what is free */
                      WEIR__MEM_SLOW_MODE = 2,  /* no cache */
                      WEIR__MEM_SLOW_FAIL = 4,  /* a failure is planned */
                      WEIR__MEM_SLOW_DEBUG = 8, /* blocks are watched */
};

struct weir_mem;

/* One cache line, which is all that the inline paths touch of a pool. */
struct weir__mem_bin {
    alignas(64) struct weir__mem_block *head;
    uint64_t pushed; /* blocks given back, so far */
    uint64_t limit;  /* how far pushed may get: a pop adds one, a block from the arena takes one */
    uint64_t capacity; /* of a buffer of this class */
    struct weir_mem *mem;
    unsigned cls;
};

struct weir__mem_old {
    struct weir__mem_block *head;
    uint32_t n;
};

struct weir__mem_cache {
    struct weir__mem_bin bins[WEIR__MEM_CLASSES + 1]; /* the last one is empty and full for ever: it
                                                         counts the blocks that have no cache */
    struct weir__mem_old old[WEIR__MEM_CLASSES];
    uint32_t max[WEIR__MEM_CLASSES];
    uint64_t lent[WEIR__MEM_CLASSES];       /* by the arena: in use or cached */
    uint64_t popped[WEIR__MEM_CLASSES + 1]; /* handed out, so far, while slow; else limit says it */
    unsigned slow;                          /* of enum weir__mem_slow */
    bool poison; /* blocks are filled when they come and verified when they go */
};

void weir__mem_cache_init(struct weir__mem_cache *c, struct weir_mem *m);
/* Adds or takes away one reason to be slow. */
void weir__mem_cache_slow(struct weir__mem_cache *c, enum weir__mem_slow why, bool on);
/* Whether blocks are kept at all, and filled meanwhile. Everything cached goes back first. */
void weir__mem_cache_use(struct weir__mem_cache *c, struct weir__mem_arena *a, bool keep,
                         bool poison);
/* A block of a class: from the cache, what others gave back, or the arena. NULL: no memory, or none
 * that the budget affords. */
void *weir__mem_cache_get(struct weir_mem *m, unsigned cls);
/* Counts a block that has no cache: out of the arena, or back. */
void weir__mem_cache_count_large(struct weir__mem_cache *c, bool back);
void weir__mem_cache_put(struct weir_mem *m, void *p, unsigned cls);
/* Gives back what was not needed since the last trim; all: everything. Poisoned blocks are
 * verified. */
void weir__mem_cache_trim(struct weir__mem_cache *c, struct weir__mem_arena *a, bool all);
/* Handed out and given back, so far; their difference is in use. */
uint64_t weir__mem_cache_popped(const struct weir__mem_cache *c, unsigned cls);
/* Blocks of a class; bytes of all. */
uint32_t weir__mem_cache_count(const struct weir__mem_cache *c, unsigned cls);
uint64_t weir__mem_cache_bytes(const struct weir__mem_cache *c);
void weir__mem_cache_invariants(const struct weir__mem_cache *c);

#endif
