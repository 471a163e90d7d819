/* What the loops did: cumulative counters, per loop and per handler. Any thread may read while
 * loops run; each number is whole, and the set is as of one moment of its loop give or take a turn.
 */
#ifndef WEIR_STATS_H
#define WEIR_STATS_H
#include <stddef.h>
#include <stdint.h>
#include "weir/loop.h"
#ifdef __cplusplus
extern "C" {
#endif

struct weir_loop_stats {
    unsigned index;
    uint64_t at_ns;   /* the loop's clock when its turn last ended */
    uint64_t busy_ns; /* in callbacks, timers, tasks and the door's own work */
    uint64_t poll_ns; /* asleep in the door: its waits of more than 5 us */
    uint64_t cpu_ns; /* CPU time of the loop's thread, as last sampled (at most 1 ms of work old) */
    uint64_t turns, sleeps, tasks, timers;
    uint64_t turn_max_ns;                 /* longest turn */
    uint64_t channels;                    /* open now */
    uint64_t opened, closed, refused_fds; /* connections; accepts that met the descriptor wall */
    uint64_t listeners, listeners_lost;   /* open now; closed because accepting failed for good */
    uint64_t received, received_bytes, sent, sent_bytes, control_calls;
    uint64_t memory_live, memory_chunks; /* bytes */
    uint64_t inbox, wakes; /* things that came from other threads; wake-ups they needed */
    uint64_t dropped_dead; /* sends and closes whose channel was gone on arrival */
};

struct weir_handler_stats {
    const char *name; /* interned, lives as long as the group */
    uint64_t calls, bytes;
    uint64_t sampled, sampled_ns; /* one call in 64 is timed */
};

/* Fills out for loop `index`. EINVAL: no such loop. Any thread. */
int weir_group_loop_stats(struct weir_group *g, unsigned index, struct weir_loop_stats *out);
/* Fills at most n_max entries of loop `index`; the number of handlers it has. EINVAL: no such loop.
 * Any thread. */
int weir_group_handler_stats(struct weir_group *g, unsigned index, struct weir_handler_stats *out,
                             unsigned n_max);

#ifdef __cplusplus
}
#endif
#endif
