/* The threads of a group that can be asked where they are: its loops and its workers. The watchdog
 * takes pictures of them, a profile samples them; both read what a signal handler on the thread has
 * written down. */
#ifndef WEIR_RT_SEEN_H
#define WEIR_RT_SEEN_H
#include "base/list.h"
#include "loop/group.h"
#include "os/sample.h"
#include "os/thread.h"
#include <stdatomic.h>

struct weir__rt_samples;
struct weir__rt_profile_job;

enum weir__rt_picture_state { WEIR__RT_NO_PICTURE, WEIR__RT_ASKED, WEIR__RT_TAKEN };

struct weir__rt_picture { /* of one turn of a loop */
    _Atomic unsigned state;
    _Atomic uint64_t turn_at_ns; /* wanted: of this turn, or none */
    /* Written by the thread before TAKEN. */
    uint64_t channel;
    unsigned n_handlers;
    const char *handlers[WEIR_LONG_TURN_HANDLERS];
    struct weir__os_stack at;
};

struct weir__rt_crowd { /* all of them */
    struct weir__os_mutex mutex;
    struct weir__os_cond changed;
    int code; /* constant after start: 0, or why no thread can be asked */
    /* Under mutex. */
    struct weir__base_list threads;
    unsigned loops, loops_max; /* that have joined, that will */
    bool open, ending, profiling;
    struct weir__rt_profile_job *job; /* the last profile with a thread of its own */
};

struct weir__rt_seen { /* one thread; stays until the thread has ended */
    struct weir__os_sampled os;
    struct weir__base_link link; /* under the crowd's mutex */
    struct weir__rt_crowd *crowd;
    char name[16];
    struct weir_loop *loop;    /* NULL: a worker */
    _Atomic(const char *) job; /* a worker: whose job it runs; NULL: none */
    struct weir__rt_picture picture;
    /* A profile's, while samples is not NULL. */
    _Atomic(struct weir__rt_samples *) samples;
    _Atomic bool noting; /* the signal handler is at work there */
    unsigned index;
};

/* 0 or a negative errno. */
int weir__rt_crowd_init(struct weir__rt_crowd *c);
void weir__rt_crowd_fini(struct weir__rt_crowd *c);
/* Takes the signal, before the threads of so many loops start. Its failure is kept in c->code. */
void weir__rt_crowd_open(struct weir__rt_crowd *c, unsigned loops);
/* Ends what watches: tells profiles to finish and waits for them. While all threads still are. */
void weir__rt_crowd_end(struct weir__rt_crowd *c);
/* Gives the signal back; all threads have ended. Nothing when it was never opened. */
void weir__rt_crowd_close(struct weir__rt_crowd *c);

/* By the thread itself, at its beginning and its end. */
void weir__rt_seen_join(struct weir__rt_crowd *c, struct weir__rt_seen *s, const char *name,
                        struct weir_loop *loop);
void weir__rt_seen_leave(struct weir__rt_seen *s);

/* Asks for a picture of the turn of s's loop that began at turn_at_ns. False: it cannot be had. */
bool weir__rt_picture_ask(struct weir__rt_seen *s, uint64_t turn_at_ns);
/* True: picture->at and the rest may be read until the next ask. */
bool weir__rt_picture_taken(struct weir__rt_seen *s);

/* From now on the thread writes hz samples per second of its CPU time. Under the crowd's mutex. */
int weir__rt_seen_sample(struct weir__rt_seen *s, struct weir__rt_samples *to, unsigned index,
                         unsigned hz);
/* No sample is written after this. Under the crowd's mutex. */
void weir__rt_seen_sample_end(struct weir__rt_seen *s);

#endif
