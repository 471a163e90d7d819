/* Work away from the loop: a function that runs on some worker, and its result back on the loop.
 *
 *   submit --> queued --> running --> in the loop's inbox --> done(0)
 *                 |                        ^
 *                 +-- the loop aborts -----+----------------> done(ESTOPPED), run never called
 *
 * A loop that has work out has a member for it, and so does not end before the last result is in.
 */
#ifndef WEIR_LOOP_WORK_H
#define WEIR_LOOP_WORK_H
#include "loop/inbox.h"
#include <stdatomic.h>
#include <stdint.h>

struct weir__loop_handler;
struct weir__loop_workers;

struct weir__loop_work { /* embedded in its owner's struct, which stays until done */
    struct weir__loop_node node;
    /* Its owner fills these in. */
    void (*run)(struct weir__loop_work *w); /* a worker's thread: bytes only, no counts */
    void (*done)(struct weir_loop *l, struct weir__loop_work *w, int status); /* exactly once */
    struct weir__loop_handler *handler; /* whose CPU time this is; NULL: nobody's */
    /* Ours. */
    struct weir_loop *loop;
    uint64_t cpu_ns;  /* that run used */
    uint64_t over_ns; /* simulated: when it is over */
    int status;
};

struct weir__loop_workers_ops {
    /* Takes w. ENOMEM or a system error: nobody would run it. */
    int (*submit)(struct weir__loop_workers *p, struct weir__loop_work *w);
    /* What l has queued and nobody runs yet comes back as ESTOPPED. */
    void (*cancel)(struct weir__loop_workers *p, struct weir_loop *l);
    /* Returns when nobody runs anything of l, which was cancelled before. */
    void (*await)(struct weir__loop_workers *p, struct weir_loop *l);
};

struct weir__loop_workers { /* of one group */
    const struct weir__loop_workers_ops *ops;
    /* Written by the workers' world, read anywhere. */
    _Atomic uint64_t threads, jobs, finished, stopped, waiting, waiting_max, cpu_ns;
};

/* Takes w: done comes, never from inside this call. ENOTSUP: this loop has no workers; ESTOPPED: it
 * aborts, or its inbox is closed already; what the workers' submit says. Loop. */
int weir__loop_work_submit(struct weir_loop *l, struct weir__loop_work *w);
/* For workers, any thread: w has run (0), or never will (ESTOPPED). It is the loop's again; neither
 * may be touched afterwards. */
void weir__loop_work_over(struct weir__loop_work *w, int status);
/* Waits until every result of l is in its inbox: for a loop that ends without its door. Loop. */
void weir__loop_work_await(struct weir_loop *l);
/* The stop of a loop's member for its work. */
struct weir__loop_member;
void weir__loop_work_stop(struct weir__loop_member *m, bool abort);

#endif
