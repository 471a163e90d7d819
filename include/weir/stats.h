/* What the loops did: cumulative counters, per loop and per handler. Any thread may read while
 * loops run; each number is whole, and the set is as of one moment of its loop give or take a turn.
 */
#ifndef WEIR_STATS_H
#define WEIR_STATS_H
#include <stdbool.h>
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
    uint64_t handed, handed_lost; /* connections from another loop's listener; of those, closed
                                     unserved because this loop was being aborted */
    uint64_t received, received_bytes, sent, sent_bytes, control_calls;
    uint64_t memory_live, memory_chunks; /* bytes */
    uint64_t inbox, wakes;      /* things that came from other threads; wake-ups they needed */
    uint64_t dropped_dead;      /* sends and closes whose channel was gone on arrival */
    uint64_t file_copied_bytes; /* file contents that went through memory: weir_loop_file_copied */
};

struct weir_handler_stats {
    const char *name;              /* interned, lives as long as the group */
    uint64_t calls;                /* callbacks */
    uint64_t bytes;                /* that it took off its input */
    uint64_t sampled, sampled_ns;  /* one call in 64 is timed, without the handlers inside it;
                                     estimate: calls * sampled_ns / sampled */
    uint64_t offloads, offload_ns; /* its jobs that ran on workers, and their CPU time there */
};

struct weir_worker_stats {         /* of a group's workers, for all loops together */
    unsigned threads;              /* they start when there is work */
    uint64_t jobs;                 /* accepted; each of them ends in one of the next two */
    uint64_t finished, stopped;    /* stopped: never ran, since its loop was ending */
    uint64_t waiting, waiting_max; /* jobs that no worker had taken: now, and at most */
    uint64_t cpu_ns;
};

/* What keeps a loop from its work beside its work.
 *
 * RUN_QUEUE: ready, but the kernel ran others. It is looked at every 100 ms: count is the looks
 * that met a wait since the one before, longest the most within one look, total exact.
 * FAULT: major page faults. Their time is not known, only count.
 * THROTTLE: the process's CPU quota was used up; the same for every loop.
 * MEMORY: the allocator asked the system for memory.
 * TURN: turns longer than watchdog_ms; total is their whole length. */
enum weir_pause_kind {
    WEIR_PAUSE_RUN_QUEUE,
    WEIR_PAUSE_FAULT,
    WEIR_PAUSE_THROTTLE,
    WEIR_PAUSE_MEMORY,
    WEIR_PAUSE_TURN,
    WEIR_PAUSES
};

struct weir_pause_stats { /* cumulative */
    bool known;           /* false: this system or this group does not measure it */
    uint64_t count, longest_ns, total_ns;
};

enum { WEIR_LONG_TURNS = 16, WEIR_LONG_TURN_HANDLERS = 8 };

struct weir_long_turn {
    unsigned loop;
    bool over;      /* false: it runs still, and length_ns is how long so far */
    uint64_t at_ns; /* when it began, on the loops' clock (weir_loop_stats.at_ns) */
    uint64_t length_ns;
    uint64_t cpu_ns;  /* of length_ns: what the thread used of a CPU; the rest it waited */
    uint64_t channel; /* the ref whose callback ran; 0: none */
    unsigned n_handlers;
    const char *handlers[WEIR_LONG_TURN_HANDLERS]; /* that ran, innermost first; live as long as
                                                      the group */
    char stack[1024]; /* "digest_rounds+0x42 < digest_call+0x10 < ...", innermost first; empty: no
                         picture was taken */
};

/* Counts n bytes of a file that were read into memory to be sent, where a region would have gone
 * past it: for whoever reads files so. Loop. */
void weir_loop_file_copied(struct weir_loop *l, uint64_t n);
/* Fills out for loop `index`. EINVAL: no such loop. Any thread. */
int weir_group_loop_stats(struct weir_group *g, unsigned index, struct weir_loop_stats *out);
/* Fills at most n_max entries of loop `index`; the number of handlers it has. EINVAL: no such loop.
 * Any thread. */
int weir_group_handler_stats(struct weir_group *g, unsigned index, struct weir_handler_stats *out,
                             unsigned n_max);
/* Fills out. ENOTSUP: the group has no workers. Any thread. */
int weir_group_worker_stats(struct weir_group *g, struct weir_worker_stats *out);
/* Fills out[kind] for loop `index`. EINVAL: no such loop. Any thread. */
int weir_group_pause_stats(struct weir_group *g, unsigned index,
                           struct weir_pause_stats out[WEIR_PAUSES]);
/* "run_queue", "fault", "throttle", "memory", "turn". */
const char *weir_pause_name(enum weir_pause_kind kind);
/* The last long turns (at most 16 are kept), newest first: how many were filled in. Any thread. */
unsigned weir_group_long_turns(struct weir_group *g, struct weir_long_turn *out, unsigned n_max);

#ifdef __cplusplus
}
#endif
#endif
