/* The workers of a group: threads that start when there is work, one queue for all of them.
 *
 *   submit (a loop) --> queue --> a worker runs it --> the loop's inbox
 *
 * A worker starts when work waits and none of them is idle, up to the wanted number. They end with
 * the group, when every loop has ended and so nothing is queued. */
#ifndef WEIR_RT_WORKERS_H
#define WEIR_RT_WORKERS_H
#include "base/list.h"
#include "loop/work.h"
#include "os/thread.h"
#include "rt/seen.h"

enum { WEIR__RT_WORKERS_MAX = 1024 };

struct weir__rt_workers;

struct weir__rt_worker {
    struct weir__os_thread thread;
    struct weir__rt_workers *of;
    struct weir__rt_seen seen;
    struct weir_loop *busy; /* under mutex: whose work it runs */
};

struct weir__rt_workers {
    struct weir__loop_workers base; /* its counters are written under mutex */
    struct weir__os_mutex mutex;
    struct weir__os_cond work, quiet; /* something to do; some work of an ending loop is over */
    /* Under mutex. */
    struct weir__base_fifo queue;
    unsigned n, idle, awaiting;
    bool end;
    /* Constant. */
    struct weir__rt_crowd *crowd; /* set before there is work; NULL: nobody looks at them */
    unsigned n_max;
    struct weir__rt_worker workers[];
};

/* 0 workers: the usable CPUs, at least 2. ENOMEM, ESYS. */
int weir__rt_workers_new(unsigned n, struct weir__rt_workers **out);
/* Joins the threads. No loop has work out. NULL: nothing. */
void weir__rt_workers_free(struct weir__rt_workers *p);

#endif
