/* The inbox: what other threads ask of a loop. Lock-free, many writers, one reader, in the order of
 * each writer.
 *
 * A stack that the reader takes whole and turns round. An inbox and the slots that name it are
 * never freed, only used again: a thread that holds an old ref may still look at them. Closing puts
 * a mark on the stack that refuses pushes; `visitors` keeps the door alive for those already
 * inside.
 *
 *   idle --get--> refusing --open--> open --close--> refusing --put--> idle
 *
 * Wake-ups are coalesced: the loop says `sleeping` before its last look, and whoever takes that
 * flag down wakes it. */
#ifndef WEIR_LOOP_INBOX_H
#define WEIR_LOOP_INBOX_H
#include "io/slot.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct weir_loop;

struct weir__loop_node { /* one message; run owns it */
    struct weir__loop_node *next;
    void (*run)(struct weir_loop *l, struct weir__loop_node *n);
};

struct weir__loop_inbox {
    _Atomic(struct weir__loop_node *) head;
    _Atomic uint32_t sleeping, visitors;
    _Atomic uint64_t pushed, wakes;
    struct weir_loop *loop;        /* valid while open, for visitors */
    struct weir__io_slots slots;   /* for ever: a slot's owner never changes */
    struct weir__loop_inbox *next; /* idle ones */
};

/* An inbox, idle ones first; it refuses pushes until opened. NULL: no memory. Any thread. */
struct weir__loop_inbox *weir__loop_inbox_get(void);
/* Gives back an inbox that is not open. */
void weir__loop_inbox_put(struct weir__loop_inbox *b);
void weir__loop_inbox_open(struct weir__loop_inbox *b, struct weir_loop *l);
/* No push succeeds any more; waits for visitors. What was pushed before comes back in order; the
 * caller runs or drops it, then puts. */
struct weir__loop_node *weir__loop_inbox_close(struct weir__loop_inbox *b);
/* 0; ESTOPPED when closed (n is untouched). Any thread. Wakes the loop when it sleeps. */
int weir__loop_inbox_push(struct weir__loop_inbox *b, struct weir__loop_node *n);
/* Nothing is there now. Loop. */
static inline bool weir__loop_inbox_empty(const struct weir__loop_inbox *b) {
    return !atomic_load_explicit(&b->head, memory_order_relaxed);
}
/* Everything that is there, oldest first. Loop. */
struct weir__loop_node *weir__loop_inbox_take(struct weir__loop_inbox *b);
/* true: nothing is there and whoever pushes from now on will wake us. Call awake() after the sleep.
 * Loop. */
bool weir__loop_inbox_doze(struct weir__loop_inbox *b);
void weir__loop_inbox_awake(struct weir__loop_inbox *b);

#endif
