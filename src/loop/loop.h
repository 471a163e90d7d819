/* One event loop: turns, tasks, timers, the dirty drain, accounting. It knows no thread and no
 * clock but its door's.
 *
 * A turn, in this order:
 *   1 wait      sleep until the next deadline, or only look when something is ready; while results
 *               of much work keep coming, a moment in which nobody rings
 *   2 dispatch  the door's completions, one at a time, each to its sink; after 16 of them or
 *               100 us: 3. The clock is read after each, or after four while they are brisk
 *   3 drain     channels that changed: marks, pull, flush; the list as it stood
 *   4 timers    what is due
 *   5 inbox     from other threads, then posted tasks, at most 64
 *   6 drain     again
 *   7 submit    hand over what was collected, and dispatch what completed at once (doors that
 *               collect)
 *   8 bury      free what ended in this turn: a pointer met in a turn is valid until here
 *
 * A round of 2 takes at most 256 completions, so that tasks cannot starve; tasks have their budget,
 * so that I/O cannot. */
#ifndef WEIR_LOOP_LOOP_H
#define WEIR_LOOP_LOOP_H
#include "base/list.h"
#include "base/pause.h"
#include "io/io.h"
#include "loop/account.h"
#include "loop/inbox.h"
#include "loop/local.h"
#include "loop/work.h"
#include "time/wheel.h"
#include "weir/loop.h"
#include "weir/stats.h"

enum {
    WEIR__LOOP_DISPATCH_MAX = 256,
    WEIR__LOOP_DRAIN_EVERY = 16,
    WEIR__LOOP_STRIDE = 4,       /* completions from one look at the clock to the next, */
    WEIR__LOOP_BRISK_NS = 50000, /* while the last ones took less; otherwise one */
    WEIR__LOOP_DRAIN_NS = 100000,
    WEIR__LOOP_TASKS_MAX = 64,
    WEIR__LOOP_CROWD = 8,              /* with so much work out, results may wait for each other: */
    WEIR__LOOP_GATHER_MIN_NS = 50000,  /* not for less, which is no work worth a worker, */
    WEIR__LOOP_GATHER_MAX_NS = 250000, /* and not for more */
    WEIR__LOOP_NAP_NS = 5000, /* a shorter wait did not sleep: waking up alone takes longer */
};

/* Who gets a socket's completions: the `user` of every socket opened on a loop points at one. */
struct weir__loop_sink {
    void (*done)(struct weir__loop_sink *s, struct weir__io_done *d);
};

struct weir__loop_dirty { /* {0} = clean */
    struct weir__base_fifo_link link;
    void (*drain)(struct weir__loop_dirty *d);
    bool queued;
};

/* What must end before the loop does. stop is called to drain (again when something joins a loop
 * that already drains), then with abort when the time is up: it changes nothing that is under way.
 */
struct weir__loop_member {
    struct weir__base_link link;
    void (*stop)(struct weir__loop_member *m, bool abort);
};

struct weir__loop_env { /* the world a loop is born into */
    struct weir__io *io;
    struct weir_mem *mem;
    struct weir__loop_inbox *inbox; /* its slots are the door's too */
    uint64_t (*cpu_now)(void);      /* CPU time of the thread that runs the loop; NULL: unknown */
    struct weir_group *group;       /* NULL: alone */
    struct weir__loop_workers *workers; /* NULL: none; outlives the loop */
    struct weir__loop_files *files;     /* NULL: none; outlives the loop */
    unsigned index;
    uint64_t long_turn_ns; /* a turn longer than this is counted as a pause; 0: none is */
};

struct weir__loop_counters {     /* written by the loop, read anywhere */
    _Atomic uint64_t turn_at_ns; /* when the last turn began; it runs while this is past at_ns */
    /* The last long turn, written before it is counted. */
    _Atomic uint64_t long_at_ns, long_ns, long_cpu_ns;
    _Atomic uint64_t at_ns, busy_ns, poll_ns, cpu_ns, turns, sleeps, tasks, timers, turn_max_ns;
    _Atomic uint64_t channels, opened, closed, refused_fds, listeners, listeners_lost, handed,
        handed_lost, dropped_dead, memory_live, memory_chunks, file_copied_bytes;
};

enum weir__loop_phase {
    WEIR__LOOP_RUNNING,
    WEIR__LOOP_DRAINING,
    WEIR__LOOP_ABORTING,
    WEIR__LOOP_ENDED
};

struct weir_loop {
    /* Loop part. */
    struct weir__io *io;
    struct weir_mem *mem;
    struct weir__io_slots *slots;
    uint64_t now_ns, slept; /* slept: waits that slept, so far */
    uint64_t worked;        /* completions, drains, timers and tasks, so far */
    uint64_t drained_ns, sampled_cpu_ns;
    uint64_t notable_ns;      /* a turn longer than this is the longest so far, or a long one */
    unsigned since_drain;     /* completions, as of the last look at the clock */
    unsigned stride, to_look; /* completions from look to look, and until the next one */
    bool look_only;           /* something is ready: the next wait does not sleep */
    bool late;                /* a member joined after the others were told to stop */
    bool deaf;                /* the inbox is closed */
    enum weir__loop_phase phase;
    uint64_t stop_seen, drain_until_ns;
    struct weir__base_fifo dirty, graves, tasks, closers;
    struct weir__base_list members, stoppers, locals;
    struct weir__loop_member work_member; /* while works > 0 */
    uint32_t works;                       /* submitted, and not done */
    uint64_t gather_ns;                   /* what the last result since the last wait took, twice */
    struct weir__time_wheel wheel;
    struct weir__loop_account account;
    struct weir__loop_counters counters;
    /* Long turns are counted by the loop, the rest by whoever measures it. */
    struct weir__base_pause pauses[WEIR_PAUSES];
    _Atomic unsigned pauses_known; /* a bit per kind that is measured here */
    /* Constant. */
    struct weir__loop_env env;
    struct weir__loop_inbox *inbox;
    int cpu; /* its thread stays there; -1: anywhere */
    /* Any thread. */
    _Atomic uint64_t stop_ms; /* 0: run; n: stop, drain at most n - 1 ms; only ever gets shorter */
};

extern WEIR_TLS struct weir_loop *weir__loop_current;

/* The loop in its own pool's memory. ENOMEM. env's things stay the caller's and outlive the loop.
 */
int weir__loop_new(const struct weir__loop_env *env, struct weir_loop **out);
/* Every member must be gone. */
void weir__loop_free(struct weir_loop *l);
/* From now on this thread runs l (NULL: none): sets the current loop and pool. Returns the one
 * before. */
struct weir_loop *weir__loop_enter(struct weir_loop *l);
/* Once, by whoever runs it, before the first turn. */
int weir__loop_start(struct weir_loop *l);
/* One turn. 1 go on, 0 ended (drained and empty), < 0 the door broke. */
int weir__loop_turn(struct weir_loop *l);
/* Until the loop has nothing to do now: for embedded channels and tests. */
void weir__loop_settle(struct weir_loop *l);
/* The deadline the next turn would sleep to; 0: it would not sleep. */
uint64_t weir__loop_deadline(const struct weir_loop *l);
/* Ends a loop that never turned, or whose door broke: aborts its members and runs what others had
 * posted, without a wait. False: the door still holds something, and so the loop cannot be freed.
 * By whoever runs it. */
bool weir__loop_abandon(struct weir_loop *l);
/* Asks the loop to end; asked again, the earlier end wins. Any thread, signal handlers too. */
void weir__loop_stop(struct weir_loop *l, uint32_t drain_ms);
void weir__loop_wake(struct weir_loop *l);

void weir__loop_dirty_mark(struct weir_loop *l, struct weir__loop_dirty *d);
void weir__loop_member_add(struct weir_loop *l, struct weir__loop_member *m);
void weir__loop_member_remove(struct weir_loop *l, struct weir__loop_member *m);
/* A task of the loop's own, run in 5; n->run owns n. Loop. */
void weir__loop_task(struct weir_loop *l, struct weir__loop_node *n);
/* A close from elsewhere waits here until everything its thread sent before has run (see inbox
 * round). */
void weir__loop_closer(struct weir_loop *l, struct weir__loop_node *n);

/* Timers by milliseconds from now. */
static inline void weir__loop_timer_in(struct weir_loop *l, struct weir_timer *t, uint32_t ms,
                                       void (*fn)(struct weir_timer *t)) {
    weir_timer_arm(l, t, l->now_ns + (uint64_t)ms * 1000000, fn);
}

#endif
