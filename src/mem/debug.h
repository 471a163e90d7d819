/* Watching blocks at run time: who allocated what is alive and who touched it last, blocks filled
 * while they are free, blocks in front of a page that nobody may touch.
 *
 * Nothing of it lies in the blocks: a watched one has a record in a table beside them, so that
 * watching may begin and end at any time. Belongs to its pool's owner. */
#ifndef WEIR_MEM_DEBUG_H
#define WEIR_MEM_DEBUG_H
#include "base/list.h"
#include "weir/mem.h"

struct weir__mem_record {
    struct weir__base_link link;   /* newest first */
    struct weir__mem_record *next; /* in its bucket */
    const void *block, *site;
    const void *touched[WEIR_MEM_TOUCHES]; /* a ring */
    uint64_t bytes;
    void *guard; /* the mapping it has to itself, or NULL */
    uint64_t guard_bytes;
    uint8_t kind;
    uint8_t touches; /* so far, up to 255 */
    bool shared;
};

struct weir__mem_debug {
    struct weir_mem_debug options;
    bool on;       /* any of it */
    bool complete; /* everything alive has a record: a block without one was freed before */
    uint32_t countdown;
    struct weir__base_list records;
    struct weir__mem_record **buckets;
    size_t n, n_buckets;
    uint64_t lost; /* blocks that got no record for want of memory */
};

struct weir_buf;

void weir__mem_debug_init(struct weir__mem_debug *d);
/* Unmaps what is still guarded, forgets the rest. */
void weir__mem_debug_fini(struct weir__mem_debug *d);
/* A block of bytes, watched as the options say; NULL: no memory. */
void *weir__mem_debug_get(struct weir_mem *m, size_t bytes, unsigned kind, const void *site);
/* p is given back: asserts that it may be. True: it was guarded and is gone. */
bool weir__mem_debug_put(struct weir_mem *m, void *p, unsigned kind);
/* The record of a block, or NULL. */
struct weir__mem_record *weir__mem_debug_find(const struct weir__mem_debug *d, const void *p);
/* A watched buffer was touched at site, or shared; ignored where its pool does not run. */
void weir__mem_debug_touch(struct weir_buf *b, const void *site);
void weir__mem_debug_share(struct weir_buf *b, const void *site);
/* Its chain goes to other threads, and it with it. */
void weir__mem_debug_share_part(const struct weir_part *p);
/* Tells on_leak about everything that is watched and alive. */
void weir__mem_debug_leaks(const struct weir_mem *m);
void weir__mem_debug_invariants(const struct weir_mem *m);

#endif
