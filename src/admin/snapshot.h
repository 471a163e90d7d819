/* What a group of loops did up to one moment: the numbers every finding is made of. Taking one
 * reads what the loops publish, so that it neither waits for a loop nor disturbs one. */
#ifndef WEIR_ADMIN_SNAPSHOT_H
#define WEIR_ADMIN_SNAPSHOT_H
#include "loop/group.h"
#include "mem/pool.h"
#include "weir/proxy.h"
#include "weir/stats.h"

struct weir__admin_told { /* what only the loop itself can tell, when it was last asked */
    uint64_t at_ns;       /* 0: it has not answered yet */
    struct weir__mem_stats memory;
    unsigned listeners;                    /* whose queue is known */
    uint64_t queue_depth, queue_depth_max; /* connections that wait to be accepted, and fit */
    struct weir_proxy_stats proxy;
};

struct weir__admin_loop {
    struct weir_loop_stats stats;
    struct weir_pause_stats pauses[WEIR_PAUSES];
    struct weir__admin_told told;
};

struct weir__admin_snapshot {
    uint64_t at_ns; /* of the admin's loop; all loops share its clock */
    struct weir__loop_process process;
    uint64_t long_turn_ns; /* from when on a turn counts as long; 0: none does */
    unsigned n_loops;
    struct weir__admin_loop loops[];
};

struct weir__admin_turns { /* the last long turns, newest first */
    unsigned n;
    struct weir_long_turn turns[WEIR_LONG_TURNS];
};

/* An empty one for this group. NULL: no memory. */
struct weir__admin_snapshot *weir__admin_snapshot_new(const struct weir_group *g);
void weir__admin_snapshot_free(struct weir__admin_snapshot *s);
/* The context switches of loop `index`'s thread; false: unknown. Any thread. */
bool weir__admin_switches(struct weir_group *g, unsigned index, struct weir__loop_switches *out);
/* Everything but the loops' memory, which only they can tell. Any thread. */
void weir__admin_snapshot_take(struct weir__admin_snapshot *s, struct weir_group *g, uint64_t now);

#endif
