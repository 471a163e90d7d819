/* Event loops: a group of N loops, one thread each; a ref that works from any thread; tasks and
 * timers.
 *
 * The thread rule is in the types: a pointer to a loop's things is used on that loop's thread only;
 * a weir_ref anywhere, any time. */
#ifndef WEIR_LOOP_H
#define WEIR_LOOP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "weir/error.h"
#include "weir/mem.h"
#ifdef __cplusplus
extern "C" {
#endif

struct weir_group;
struct weir_loop;

struct weir_ref { /* {slot 24 bits, generation 40 bits}; 0 = none. A dead ref answers EGONE, for
                     ever */
    uint64_t v;
};

/* Which loop gets a connection. REUSEPORT: a listener per loop, and the kernel picks one by the
 * addresses of the connection. HANDOFF: one listener, on loop 0, which gives each connection to the
 * loop with the fewest channels: for few connections that stay long. */
enum weir_placement { WEIR_REUSEPORT, WEIR_HANDOFF };

struct weir_group_options {
    size_t size;           /* sizeof this struct */
    unsigned loops;        /* 0: the CPUs this process may really use */
    const char *transport; /* "auto" (NULL): "uring" where the kernel has all of it that makes it
                              the cheaper one, else "epoll" without a word; "epoll"; "uring": falls
                              back to epoll, with a line, where the kernel has too little of it */
    const char *trigger;   /* epoll: "lt" or "et"; NULL: "lt". With one, "auto" is epoll */
    bool pin;              /* loop i on the i-th usable CPU */
    uint64_t memory_max;   /* bytes for all loops together; 0: no limit */
    uint32_t drain_ms;     /* weir_group_run, after a signal: channels may drain so long; 0: 500 */
    uint32_t watchdog_ms; /* a turn longer than this is counted and reported with its stack; 0: 100;
                              UINT32_MAX: never, and no thread watches (no pauses are measured) */
    unsigned workers; /* threads for weir_ctx_offload and files, started when there is work; 0: the
                         CPUs this process may really use, at least 2; at most 1024 */
    const struct weir_mem_options *pools; /* how the loops' pools are set up; NULL: defaults */
    /* io_uring: what of it is used, as a list that is read from the left: "-multi-recv,-zero-copy"
     * goes without those two, "none,defer" uses only that one, "all" is the same as NULL: what
     * works here. weir_host_uring() (weir/host.h) has the names. */
    const char *uring_features;
};

/* Makes loops, pools and doors; no thread runs yet. NULL options: defaults. EINVAL (unknown
 * transport, trigger or feature), ENOTSUP, ENOMEM, EFDS. */
int weir_group_new(const struct weir_group_options *o, struct weir_group **out);
/* Starts every loop (unless they run), waits for SIGTERM, SIGINT or weir_group_stop, drains, joins
 * and frees the group: main's result, 0 or an error. Both signals are blocked on the calling thread
 * meanwhile; a second one ends the drain at once. */
int weir_group_run(struct weir_group *g);
/* Starts the loops' threads and returns. ESYS when a thread could not be made; the group is then
 * only good for weir_group_join. EINVAL: it was started before. */
int weir_group_start(struct weir_group *g);
/* Begins the end: listeners close, channels drain for at most drain_ms, then they are aborted.
 * Asked again, the earlier end wins. Any thread, signal handlers too. */
void weir_group_stop(struct weir_group *g, uint32_t drain_ms);
/* Waits until every loop has ended and frees the group (also one that never started). 0, or the
 * first error a loop ended with. */
int weir_group_join(struct weir_group *g);

unsigned weir_group_loops(const struct weir_group *g);
struct weir_loop *weir_group_loop(struct weir_group *g, unsigned index);
/* The transport in use ("epoll-lt", "epoll-et", "uring", "sim") and why it is not the one asked
 * for, or with "auto" not io_uring (else NULL). Any thread. */
const char *weir_group_transport(const struct weir_group *g, const char **why);

unsigned weir_loop_index(const struct weir_loop *l);
/* The loop's clock in nanoseconds: monotonic, as of the callback that runs now, or, while those for
 * what was received are short, of one of the three before it (some microseconds). Loop. */
uint64_t weir_loop_now(const struct weir_loop *l);
/* The loop's pool. Loop. */
struct weir_mem *weir_loop_mem(struct weir_loop *l);
/* fn(l, user) runs on the loop, in the order of each posting thread. Before the group starts too:
 * what was posted then runs in the loop's first turn. Any thread. ENOMEM; ESTOPPED: it never runs.
 */
int weir_loop_post(struct weir_loop *l, void (*fn)(struct weir_loop *l, void *user), void *user);
/* Asks that fn(l, user) run when the group stops, before channels drain: where a program ends what
 * it keeps going. Loop. ENOMEM. */
int weir_loop_on_stop(struct weir_loop *l, void (*fn)(struct weir_loop *l, void *user), void *user);

struct weir_timer { /* zero it before the first arm; embed it in your own struct */
    void *link[4];
    struct weir_loop *loop;
    void (*fn)(struct weir_timer *t);
};

/* fn(t) runs once, at the first whole millisecond at or after deadline_ns of the loop's clock.
 * Arming again moves it; one that is still armed when its loop ends is forgotten. Loop. */
void weir_timer_arm(struct weir_loop *l, struct weir_timer *t, uint64_t deadline_ns,
                    void (*fn)(struct weir_timer *t));
/* true: it was armed and will not run. Loop. */
bool weir_timer_disarm(struct weir_timer *t);

#ifdef __cplusplus
}
#endif
#endif
