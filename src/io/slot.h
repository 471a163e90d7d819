/* Slots: the one table behind public refs and kernel tokens.
 *
 * A ref is {slot 24 bits, generation 40 bits}; a kernel token is {kind 8, generation low 32, slot
 * 24}. Slots live in blocks of 1024; a block is never unmapped and belongs to one weir__io_slots
 * for ever, so any thread may look at a slot's generation and owner at any time. When a loop ends,
 * its slots (and the inbox they name) wait for the next loop, with their generations going on: an
 * old ref stays dead for ever. */
#ifndef WEIR_IO_SLOT_H
#define WEIR_IO_SLOT_H
#include "base/footprint.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WEIR__IO_SLOT_BITS = 24, WEIR__IO_BLOCK_BITS = 10 };
#define WEIR__IO_SLOT_MASK ((UINT64_C(1) << WEIR__IO_SLOT_BITS) - 1)

struct weir__io_slot {
    _Atomic uint64_t generation; /* of the present or the next holder; never 0 */
    void *object;                /* owner loop only; NULL when free */
    /* any thread: a close on its way, queued at most once at a time (loop/inbox) */
    void *inbox_link[2];
    /* generation << 2 | how; 0: none. Whoever moves it from 0 links the slot (loop/ref) */
    _Atomic uint64_t close_wanted;
    uint32_t next_free; /* owner loop only */
};

_Static_assert(sizeof(struct weir__io_slot) <= WEIR__IDLE_SLOT, "see base/footprint.h");

struct weir__io_block {
    void *owner; /* written before the block is in the table */
    struct weir__io_slot slots[1 << WEIR__IO_BLOCK_BITS];
};

/* Every block there is; entries are set once. Here only so that _at and _token_get can be inline.
 * */
enum { WEIR__IO_BLOCKS_MAX = 1 << (WEIR__IO_SLOT_BITS - WEIR__IO_BLOCK_BITS) };
extern struct weir__io_block *_Atomic weir__io_table[WEIR__IO_BLOCKS_MAX];

struct weir__io_slots { /* one loop's share of the table; outlives the loop */
    void *owner;        /* what weir__io_slot_owner gives other threads: the loop's inbox */
    uint32_t first_free;
    uint32_t n_blocks, used;
    uint32_t blocks[1u << (WEIR__IO_SLOT_BITS - WEIR__IO_BLOCK_BITS)]; /* which blocks are ours */
};

/* Once for ever: s and owner must stay valid memory (type-stable), threads holding old refs may
 * still look at them. */
void weir__io_slots_init(struct weir__io_slots *s, void *owner);

/* A slot holding object: its ref, or 0 when all 2^24 are used or memory is out. */
uint64_t weir__io_slot_new(struct weir__io_slots *s, void *object);
/* Ends the holder: the generation goes up, old refs are dead. */
void weir__io_slot_free(struct weir__io_slots *s, uint64_t ref);
/* The object of some slot in use, or NULL when none is. Slow: for the end of what broke. */
void *weir__io_slots_any(struct weir__io_slots *s);
/* fn of every object; it may free the slot of its own. */
void weir__io_slots_each(struct weir__io_slots *s, void (*fn)(void *object, void *user),
                         void *user);
/* The object of a live ref, or NULL. Only on the loop that owns its slot. */
void *weir__io_slot_get(uint64_t ref);
/* The slot of a ref, or NULL when no such block exists. Any thread. */
static inline struct weir__io_slot *weir__io_slot_at(uint64_t ref) {
    uint32_t index = (uint32_t)(ref & WEIR__IO_SLOT_MASK);
    struct weir__io_block *b = atomic_load_explicit(&weir__io_table[index >> WEIR__IO_BLOCK_BITS],
                                                    memory_order_acquire);
    return b ? &b->slots[index & ((1u << WEIR__IO_BLOCK_BITS) - 1)] : NULL;
}
/* The owner of a live ref, or NULL when it is dead now. Any thread; it may die the next moment. */
void *weir__io_slot_owner(uint64_t ref);

/* Kernel tokens: kind in the top byte. _get also compares the low 32 bits of the generation: NULL =
 * stale. */
static inline uint64_t weir__io_token(uint64_t ref, unsigned kind) {
    return (ref & (UINT64_MAX >> 8)) | (uint64_t)kind << 56;
}
static inline void *weir__io_token_get(uint64_t token) {
    struct weir__io_slot *slot = weir__io_slot_at(token);
    if (!slot || (uint32_t)atomic_load_explicit(&slot->generation, memory_order_relaxed) !=
                     (uint32_t)(token >> WEIR__IO_SLOT_BITS))
        return NULL;
    return slot->object;
}
static inline unsigned weir__io_token_kind(uint64_t token) {
    return (unsigned)(token >> 56);
}

#endif
