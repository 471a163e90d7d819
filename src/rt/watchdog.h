/* The watchdog of a group: a thread that looks at the turn of every loop a few times within the
 * limit. A turn that runs too long is photographed while it runs, by a signal to its thread, and
 * told about; told again when it is over. The loop itself counts long turns (WEIR_PAUSE_TURN).
 *
 *            runs longer than the limit          the loop counted it
 *   CALM ----------------------------> LONG ----------------------------> CALM
 *     |                                                                    ^
 *     +--------------------------------------------------------------------+
 *       the loop counted one that no look met
 *
 * The thread also looks at the pauses that the kernel knows of. */
#ifndef WEIR_RT_WATCHDOG_H
#define WEIR_RT_WATCHDOG_H
#include "rt/pause.h"
#include "rt/seen.h"

enum { WEIR__RT_SAID_MAX = 8, WEIR__RT_SAID_S = 10 }; /* lines within so many seconds */

/* What there is to know of a loop's turns at one moment. */
struct weir__rt_turn_view {
    uint64_t now_ns;
    uint64_t at_ns; /* the last turn that began; it runs while this is past ended_ns */
    uint64_t ended_ns;
    uint64_t long_turns;                       /* so far */
    uint64_t long_at_ns, long_ns, long_cpu_ns; /* the last of them */
};

enum weir__rt_turn_news {
    WEIR__RT_CALM,  /* nothing new */
    WEIR__RT_BEGAN, /* a turn is found to be long */
    WEIR__RT_OVER   /* one has ended: long_at_ns, long_ns */
};

struct weir__rt_turn_watch { /* {0}: nothing seen yet */
    uint64_t noted_at_ns;    /* the turn that BEGAN was said of */
    uint64_t counted;        /* long turns known */
};

/* One look; OVER comes before the BEGAN of a later turn. Pure. */
enum weir__rt_turn_news weir__rt_turn_look(struct weir__rt_turn_watch *w,
                                           const struct weir__rt_turn_view *v, uint64_t limit_ns);

struct weir__rt_said { /* limits lines by time; {0}: none yet */
    uint64_t since_ns;
    unsigned n, hushed;
};

/* May a line be said now? *hushed: how many were not since the last one. Pure. */
bool weir__rt_may_say(struct weir__rt_said *s, uint64_t now_ns, unsigned *hushed);

struct weir__rt_watched { /* one loop, for the watchdog's thread */
    struct weir__rt_seen *seen;
    struct weir__rt_turn_watch turns;
    struct weir__rt_pause_loop pauses;
    uint64_t asked_ns; /* a picture is awaited since then; 0: none */
};

struct weir__rt_watchdog {
    /* Constant. */
    struct weir_group *group;
    struct weir__rt_crowd *crowd;
    uint64_t limit_ns; /* 0: there is no watchdog */
    /* Its thread. */
    struct weir__os_thread thread;
    struct weir__rt_pause_quota quota;
    struct weir__rt_said said;
    uint64_t pauses_at_ns;
    /* Under the crowd's mutex. */
    bool started, end;
    struct weir_long_turn turns[WEIR_LONG_TURNS]; /* a ring */
    uint64_t n_turns;
    /* Its thread. */
    struct weir__rt_watched *loops; /* as many as the group has */
};

/* The loops' threads have been started. Nothing when limit_ns is 0. ENOMEM, ESYS: nobody watches.
 */
int weir__rt_watchdog_start(struct weir__rt_watchdog *w, struct weir__rt_watched *loops);
/* While the loops still are. Nothing when it was not started. */
void weir__rt_watchdog_stop(struct weir__rt_watchdog *w);
/* weir_group_long_turns. Any thread. */
unsigned weir__rt_watchdog_turns(struct weir__rt_watchdog *w, struct weir_long_turn *out,
                                 unsigned n_max);

#endif
