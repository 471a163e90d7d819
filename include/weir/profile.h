/* Sampling: where loop threads and worker threads spend their CPU time, as folded stacks, and what
 * may honestly be concluded from them.
 *
 * Each thread is interrupted by a timer on its own CPU clock, so a thread that waits is not
 * sampled. A sample is the stack of attribution frames (handlers) and the C stack below it, as far
 * as frame pointers lead. It works with a group that runs in this process (not with a simulated
 * one), while a program that links the library keeps its frame pointers
 * (-fno-omit-frame-pointer). */
#ifndef WEIR_PROFILE_H
#define WEIR_PROFILE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "weir/error.h"
#include "weir/loop.h"
#ifdef __cplusplus
extern "C" {
#endif

struct weir_profile;

struct weir_profile_options {
    size_t size; /* sizeof this struct */
    uint32_t ms; /* the window; 0: 1000; at most 600000 */
    uint32_t hz; /* samples per second of CPU time; 0: 199; at most 1000 */
};

/* What a thread did when it was sampled. HANDLER: inside a handler, in none of the system calls
 * above. OTHER: the engine itself, and workers outside a job. On io_uring one system call waits,
 * receives and sends: WAIT. */
enum weir_profile_phase {
    WEIR_PROFILE_WAIT,    /* in the system call that waits for events */
    WEIR_PROFILE_RECEIVE, /* in the one that receives */
    WEIR_PROFILE_SEND,    /* in the one that sends */
    WEIR_PROFILE_HANDLER,
    WEIR_PROFILE_OTHER,
    WEIR_PROFILE_PHASES
};

struct weir_profile_handler {
    const char *name;     /* lives as long as the profile */
    uint32_t samples;     /* in phase HANDLER with this handler innermost */
    uint32_t parts;       /* in how many of the window's ten equal parts it was met */
    double share;         /* of all samples, 0 to 1 */
    double account_share; /* CPU share by the engine's own accounting: its calls times the mean of
                             those timed by the CPU clock, one in 64, and its jobs. None timed in
                             the window: of the busy time, by the clock. Where fewer than 4 were
                             timed, at least what its long turns used (weir_long_turn). Can be over
                             1, by chance; < 0: unknown */
};

enum weir_profile_cause {
    WEIR_PROFILE_UNKNOWN,    /* too few samples, or not enough agrees: nothing may be named */
    WEIR_PROFILE_NO_HANDLER, /* most samples lie in waiting, receiving and sending */
    WEIR_PROFILE_BY_HANDLER  /* verdict.handler is what the CPU is used for */
};

/* A handler is named only with at least 20 samples, in at least five of the ten parts of the
 * window, with more samples than any other and at least a quarter of all, and when the engine's own
 * accounting agrees with its share within 15 points. */
struct weir_profile_verdict {
    enum weir_profile_cause cause;
    const char *handler; /* with BY_HANDLER, else NULL */
    double share;        /* of all samples: the handler's, or that of waiting and transfer */
    char text[320];      /* one sentence for people: the conclusion and its evidence */
};

struct weir_profile_summary {
    uint64_t window_ns;                  /* as it really was */
    uint32_t hz, threads, samples, lost; /* lost: samples there was no room for */
    uint64_t cpu_ns;                     /* CPU time all sampled threads used in the window */
    uint32_t phases[WEIR_PROFILE_PHASES];
    unsigned n_handlers; /* those that were met, most samples first */
    const struct weir_profile_handler *handlers;
    struct weir_profile_verdict verdict;
};

/* Samples the group for the window and waits for its end (also the group's end cuts it short).
 * Any thread except a loop's. EINVAL: options, or called on a loop's thread; EAGAIN: a profile of
 * this group is under way; ESTOPPED: the group does not run; ENOTSUP: a simulated group, or the
 * system refuses timers or signals; ENOMEM. */
int weir_profile_take(struct weir_group *g, const struct weir_profile_options *o,
                      struct weir_profile **out);
/* The same without waiting: done(p, code, user) comes exactly once after a result of 0, on a
 * thread of its own; it owns p (NULL when code < 0). Any thread, loops too. EAGAIN (also from
 * inside done), EINVAL, ESTOPPED, ENOTSUP, ESYS (no thread), ENOMEM. The group's join waits for
 * done, and so does the next start; keep it short. */
int weir_profile_start(struct weir_group *g, const struct weir_profile_options *o,
                       void (*done)(struct weir_profile *p, int code, void *user), void *user);
/* Folded stacks, a line each: "weir-loop-0;handler:digest;digest_rounds;SHA256_Update 123\n". *n
 * (NULL: not wanted) is its length; the text ends with a zero. Lives as long as p. */
const char *weir_profile_folded(const struct weir_profile *p, size_t *n);
/* Lives as long as p. */
const struct weir_profile_summary *weir_profile_summary(const struct weir_profile *p);
const char *weir_profile_phase_name(enum weir_profile_phase phase);
void weir_profile_free(struct weir_profile *p);

#ifdef __cplusplus
}
#endif
#endif
