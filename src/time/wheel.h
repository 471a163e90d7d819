/* A hierarchical timer wheel. Resolution 1 ms: a node fires at the first whole millisecond at or
 * after its deadline, never early. Arm and disarm are O(1); a node moves down at most once per
 * level on its way. Nobody reads a clock here: `now` is given. */
#ifndef WEIR_TIME_WHEEL_H
#define WEIR_TIME_WHEEL_H
#include "base/list.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WEIR__TIME_TICK_NS = 1000000,
    WEIR__TIME_LEVELS = 6, /* 64^6 ms: two years; what is farther waits in a list of its own */
    WEIR__TIME_SLOTS = 64,
};

#define WEIR__TIME_NEVER UINT64_MAX

struct weir__time_node { /* {0} = not armed; embed it and use container_of */
    struct weir__base_link link;
    uint64_t tick;  /* it fires at this millisecond */
    uint32_t place; /* 0: not armed; otherwise which list of the wheel, plus one */
};

struct weir__time_wheel {
    uint64_t tick; /* time has been handled up to here */
    size_t armed;
    uint64_t used[WEIR__TIME_LEVELS]; /* a bit per slot that has members */
    struct weir__base_list slot[WEIR__TIME_LEVELS][WEIR__TIME_SLOTS];
    struct weir__base_list far; /* beyond the last level */
    struct weir__base_list due; /* fired, not popped yet */
};

void weir__time_wheel_init(struct weir__time_wheel *w, uint64_t now);
/* Nothing may be armed any more: asserted. */
void weir__time_wheel_fini(struct weir__time_wheel *w);

/* Fires at deadline_ns; an armed node moves. A deadline that has passed fires at the next
 * millisecond, so that what is armed during a round of pops never fires in that round.
 * WEIR__TIME_NEVER disarms. */
void weir__time_wheel_arm(struct weir__time_wheel *w, struct weir__time_node *n,
                          uint64_t deadline_ns, uint64_t now);
/* Disarms everything. */
void weir__time_wheel_forget(struct weir__time_wheel *w);
/* true: it was armed. A node that is due but not popped counts as armed and will not be popped. */
bool weir__time_wheel_disarm(struct weir__time_wheel *w, struct weir__time_node *n);

/* The next node that is due at `now`, disarmed, in order of its millisecond; NULL: no more. Arm and
 * disarm anything between two calls. */
struct weir__time_node *weir__time_wheel_pop(struct weir__time_wheel *w, uint64_t now);

/* Sleep no longer than until this: no node fires earlier, and calling pop at that time makes
 * progress. WEIR__TIME_NEVER: nothing is armed. */
uint64_t weir__time_wheel_next(const struct weir__time_wheel *w);

static inline bool weir__time_armed(const struct weir__time_node *n) {
    return n->place != 0;
}

/* Walks everything: links, bits and counts agree. */
void weir__time_wheel_invariants(const struct weir__time_wheel *w);

#endif
