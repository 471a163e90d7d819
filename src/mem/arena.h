/* Where blocks come from behind a pool's cache: blocks of a class out of runs of pages (a bitmap
 * each), larger ones as runs of their own, and what would fill half a chunk as mappings outside of
 * them. An arena without chunks takes everything from the heap. Belongs to its pool's owner.
 *
 * Whatever it has from the system is accounted for:
 *
 *      chunks + outside = out (in use or cached) + free blocks + free pages + overhead
 */
#ifndef WEIR_MEM_ARENA_H
#define WEIR_MEM_ARENA_H
#include "mem/chunk.h"

/* The start of a block while nobody uses it: on a list (next only) or on a return stack. */
struct weir__mem_block {
    struct weir__mem_block *next;
    uint8_t cls, kind;
};
_Static_assert(sizeof(struct weir__mem_block) <= 16, "the smallest class holds a free block");

struct weir__mem_arena {
    struct weir__mem_chunks chunks;
    struct weir__base_list
        partial[WEIR__MEM_CLASSES]; /* runs with a free block, fuller ones first */
    bool heap;                      /* no chunks: everything is outside */
    uint64_t out_bytes, out_peak;   /* handed out */
    uint64_t block_bytes;           /* free blocks in runs */
    uint64_t outside_bytes;         /* from the system, not in chunks */
    uint64_t outside_blocks;        /* so far */
    uint64_t slack_bytes; /* ends of runs, what a block of its own leaves over, headers outside */
};

void weir__mem_arena_init(struct weir__mem_arena *a, uint64_t chunk_bytes, bool heap);
/* Gives everything in chunks back, whoever uses it; what lies outside goes block by block. */
void weir__mem_arena_fini(struct weir__mem_arena *a);
/* Up to `want` blocks of a class, linked in *list, the first ends up on top. Returns how many. */
unsigned weir__mem_arena_take(struct weir__mem_arena *a, unsigned cls, unsigned want,
                              struct weir__mem_block **list);
/* Takes one block back. */
void weir__mem_arena_give(struct weir__mem_arena *a, void *p, unsigned cls);
/* A block larger than any class, or NULL. */
void *weir__mem_arena_take_large(struct weir__mem_arena *a, size_t bytes);
void weir__mem_arena_give_large(struct weir__mem_arena *a, void *p);
/* Bytes that a block larger than any class was taken for. */
size_t weir__mem_arena_large_bytes(const struct weir__mem_arena *a, const void *p);
/* A block of bytes was had elsewhere, for `took` bytes from the system; it is gone. */
void weir__mem_arena_out(struct weir__mem_arena *a, uint64_t bytes, uint64_t took);
void weir__mem_arena_in(struct weir__mem_arena *a, uint64_t bytes, uint64_t took);
/* What a block of an arena needs whose fini comes later: gives back what lies outside. Changes
 * nothing in a: any thread, once nobody else changes it either. */
void weir__mem_arena_abandon(const struct weir__mem_arena *a, void *p, unsigned cls);
/* Gives back empty runs, and to the system what was not needed lately; all: whatever is free. */
void weir__mem_arena_trim(struct weir__mem_arena *a, bool all);
/* Asserts that counters, bitmaps and lists agree. */
void weir__mem_arena_invariants(const struct weir__mem_arena *a);

#endif
