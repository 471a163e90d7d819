#include "io/slot.h"
#include "base/assert.h"
#include "mem/forever.h"
#include <stddef.h>

enum {
    BLOCK_SLOTS = 1 << WEIR__IO_BLOCK_BITS,
};
#define NONE UINT32_MAX
#define GENERATION_MASK ((UINT64_C(1) << 40) - 1)

struct weir__io_block *_Atomic weir__io_table[WEIR__IO_BLOCKS_MAX];
static _Atomic uint32_t n_made;

static bool grow(struct weir__io_slots *s) {
    struct weir__io_block *b = weir__mem_forever(sizeof *b);
    if (!b)
        return false;
    uint32_t number = atomic_load_explicit(&n_made, memory_order_relaxed);
    do {
        if (number == WEIR__IO_BLOCKS_MAX)
            return false; /* the block is lost; so is everything else with 2^24 sockets open */
    } while (!atomic_compare_exchange_weak(&n_made, &number, number + 1));
    uint32_t first = number << WEIR__IO_BLOCK_BITS;
    b->owner = s->owner;
    for (uint32_t i = 0; i < BLOCK_SLOTS; i++) {
        atomic_init(&b->slots[i].generation, 1);
        b->slots[i].next_free = i + 1 < BLOCK_SLOTS ? first + i + 1 : s->first_free;
    }
    s->first_free = first;
    s->blocks[s->n_blocks++] = number;
    atomic_store_explicit(&weir__io_table[number], b, memory_order_release);
    return true;
}

void weir__io_slots_init(struct weir__io_slots *s, void *owner) {
    s->owner = owner;
    s->first_free = NONE;
    s->n_blocks = s->used = 0;
}

uint64_t weir__io_slot_new(struct weir__io_slots *s, void *object) {
    check(object != NULL);
    if (unlikely(s->first_free == NONE) && !grow(s))
        return 0;
    uint32_t index = s->first_free;
    struct weir__io_slot *slot = weir__io_slot_at(index);
    s->first_free = slot->next_free;
    s->used++;
    slot->object = object;
    uint64_t generation = atomic_load_explicit(&slot->generation, memory_order_relaxed);
    return generation << WEIR__IO_SLOT_BITS | index;
}

void weir__io_slot_free(struct weir__io_slots *s, uint64_t ref) {
    struct weir__io_slot *slot = weir__io_slot_at(ref);
    uint64_t generation = ref >> WEIR__IO_SLOT_BITS;
    must(slot && atomic_load_explicit(&slot->generation, memory_order_relaxed) == generation);
    uint64_t next = (generation + 1) & GENERATION_MASK;
    slot->object = NULL;
    slot->next_free = s->first_free;
    s->first_free = (uint32_t)(ref & WEIR__IO_SLOT_MASK);
    s->used--;
    atomic_store_explicit(&slot->generation, next ? next : 1, memory_order_release);
}

void *weir__io_slots_any(struct weir__io_slots *s) {
    for (uint32_t n = 0; s->used && n < s->n_blocks; n++) {
        struct weir__io_block *b = atomic_load_explicit(&weir__io_table[s->blocks[n]],
                                                        memory_order_relaxed);
        for (uint32_t i = 0; i < BLOCK_SLOTS; i++)
            if (b->slots[i].object)
                return b->slots[i].object;
    }
    return NULL;
}

void weir__io_slots_each(struct weir__io_slots *s, void (*fn)(void *object, void *user),
                         void *user) {
    for (uint32_t n = 0; n < s->n_blocks; n++) {
        struct weir__io_block *b = atomic_load_explicit(&weir__io_table[s->blocks[n]],
                                                        memory_order_relaxed);
        for (uint32_t i = 0; i < BLOCK_SLOTS; i++)
            if (b->slots[i].object)
                fn(b->slots[i].object, user);
    }
}

void *weir__io_slot_get(uint64_t ref) {
    struct weir__io_slot *slot = weir__io_slot_at(ref);
    if (unlikely(!slot) ||
        atomic_load_explicit(&slot->generation, memory_order_relaxed) != ref >> WEIR__IO_SLOT_BITS)
        return NULL;
    return slot->object;
}

void *weir__io_slot_owner(uint64_t ref) {
    struct weir__io_slot *slot = weir__io_slot_at(ref);
    if (!slot ||
        atomic_load_explicit(&slot->generation, memory_order_acquire) != ref >> WEIR__IO_SLOT_BITS)
        return NULL;
    uint32_t number = (uint32_t)(ref & WEIR__IO_SLOT_MASK) >> WEIR__IO_BLOCK_BITS;
    return atomic_load_explicit(&weir__io_table[number], memory_order_relaxed)->owner;
}
