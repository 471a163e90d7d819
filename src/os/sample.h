/* Threads that can be asked where they are: by a signal from another thread, or by a timer on their
 * own CPU clock. Results: >= 0 or a negative errno.
 *
 * One real-time signal serves the whole process: the highest one that nobody has a handler for. It
 * is taken while somebody holds it open and given back afterwards; a signal that a thread did not
 * expect is ignored. */
#ifndef WEIR_OS_SAMPLE_H
#define WEIR_OS_SAMPLE_H
#include "os/stack.h"
#include <stdatomic.h>
#include <time.h>

struct weir__os_sampled { /* a thread; must stay until the thread has left */
    struct weir__os_stack_bounds stack;
    /* In a signal handler on the thread. */
    void (*note)(struct weir__os_sampled *s, int what, const struct weir__os_stack *at);
    _Atomic int tid; /* 0: not joined, or left */
    timer_t timer;   /* owned by whoever calls start and stop */
    bool timed;
};

/* Takes the signal; open may be nested. -ENOTSUP: every candidate has a handler. */
int weir__os_sample_open(void);
/* The last close gives the signal back: not before every thread that could still get one has
 * ended. */
void weir__os_sample_close(void);
/* The signal in use; 0: none. */
int weir__os_sample_signal(void);

/* The calling thread becomes s, and lets the signal through. Without known bounds of its stack it
 * is still sampled, one frame deep. */
void weir__os_sampled_join(struct weir__os_sampled *s,
                           void (*note)(struct weir__os_sampled *s, int what,
                                        const struct weir__os_stack *at));
/* By the thread itself. */
void weir__os_sampled_leave(struct weir__os_sampled *s);
/* note(s, what, where it is) soon runs on the thread. Any thread. -ESRCH: it has not joined. */
int weir__os_sampled_ask(struct weir__os_sampled *s, int what);
/* From now on note(s, what, where it is) runs hz times in a second of the thread's CPU time. One
 * caller at a time; -ESRCH, -EAGAIN, -ENOMEM. */
int weir__os_sampled_start(struct weir__os_sampled *s, unsigned hz, int what);
void weir__os_sampled_stop(struct weir__os_sampled *s);
/* CPU time used by the thread. */
int weir__os_sampled_cpu(const struct weir__os_sampled *s, uint64_t *ns);

#endif
