/* The real world around a group of loops: one thread each, signals, the doors of this machine.
 *
 *      start             every loop ended         join: the gate opens
 *   NEW ------> RUNNING -----------------> ENDED ----------------------> joined
 *    |                                           each thread frees its     ^
 *    |                                           loop and its door         |
 *    +---------------------------------------------------------------------+
 *      join: every loop is abandoned on the joining thread
 *
 * A thread waits at the gate because others may wake any loop of the group until join, and a door
 * is freed by the thread that started it. */
#ifndef WEIR_RT_RT_H
#define WEIR_RT_RT_H
#include "io/io.h"
#include "loop/files.h"
#include "loop/group.h"
#include "mem/pool.h"
#include "os/signal.h"
#include "os/thread.h"
#include "rt/seen.h"
#include "rt/watchdog.h"
#include "rt/workers.h"
#include <stdatomic.h>

struct weir__rt;

struct weir__rt_loop { /* one loop and what it was born with */
    /* Constant while threads run. */
    struct weir__rt *rt;
    struct weir_mem *mem;
    struct weir__loop_inbox *inbox;
    struct weir__io *io;
    struct weir_loop *loop;
    struct weir__os_thread thread;
    bool threaded;
    int cpu; /* pinned there; -1: anywhere */
    struct weir__rt_seen seen;
    /* Its thread; read after that has ended. */
    bool stuck; /* the door kept something: nothing of this loop can be freed */
};

struct weir__rt {
    struct weir_group *group;
    const char *thread;                   /* the name of a lone loop's thread; NULL: by number */
    const struct weir_mem_options *pools; /* while the loops are made; NULL: defaults */
    uint32_t drain_ms;
    struct weir__mem_budget memory; /* of all loops; max 0: they have none */
    bool started;
    struct weir__rt_workers *workers;
    struct weir__rt_crowd crowd;
    struct weir__rt_watchdog watchdog;
    struct weir__rt_watched *watched; /* one per loop, behind them */
    struct weir__loop_files files;
    int bell; /* eventfd; rung by every loop that ends */
    struct weir__os_stop
        stop; /* had early: later, accepted connections may have every descriptor */
    struct weir__os_mutex mutex;
    struct weir__os_cond changed;
    /* Under mutex. */
    unsigned live; /* threads whose loop has not ended */
    bool gate;
    int error;       /* the first one */
    unsigned unborn; /* starting failed: from this loop on there is no thread */
    /* Constant. */
    unsigned n_loops;
    struct weir__rt_loop loops[];
};

/* group.c */
/* Gives back everything of r that is still there. By the thread that started the door, or any when
 * none did. */
void weir__rt_loop_fini(struct weir__rt_loop *r);
void weir__rt_free(struct weir__rt *rt);

/* outside.c */
extern const struct weir__loop_outside weir__rt_outside;

/* run.c */
extern const struct weir__loop_world weir__rt_world;

#endif
