/* Two loops, a server's and a client's, each with its own door, turned by turns on one thread.
 *
 * Real doors are only looked at, never slept in; the simulated ones share a network and run in
 * virtual time, where the seed says which loop goes next. A failed expectation prints and jumps out
 * of the case. */
#ifndef WEIR_TESTS_KIT_PAIR_H
#define WEIR_TESTS_KIT_PAIR_H
#include "base/compiler.h"
#include "io/sim/sim.h"
#include "loop/group.h"
#include "loop/loop.h"
#include "mem/pool.h"
#include "weir.h"
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

enum pair_who { SERVER, CLIENT };

struct pair_kind {
    const char *name;
    const char *door[2]; /* "lt", "et", "defer", "uring", "sim"; sim only with sim */
};

struct pair;
struct actor;

struct pair_side {
    struct pair *pair;
    struct weir_mem *mem;
    struct weir__loop_inbox *inbox;
    struct weir__io *io;
    struct weir_loop *loop;
    struct weir_group *group; /* of this one loop: what weir_serve wants */
    uint64_t worked;
    bool ended;
};

struct pair {
    const struct pair_kind *kind;
    bool at_a_name;              /* unix-...: over unix sockets */
    struct weir__iosim_net *net; /* NULL: real doors */
    struct pair_side side[2];
    char address[128];   /* where dial() goes: the server's that listened last */
    char listen_at[128]; /* where serve() listens; empty: a port of the transport's choice, or a
                            name of ours */
    struct actor *actors;
    /* the wait that is going on */
    const char *waits_for;
    uint64_t limit_ns, look_at_ns, steps, idle;
    uint64_t odd_before;
    bool closed;
    jmp_buf escape;
};

extern const struct pair_kind pair_kinds[]; /* ends with a name of NULL */
const struct pair_kind *pair_kind_of(const char *name);

/* ENOTSUP when a door is not on this machine, with *why. sim: its network's options; the seed
 * counts for nothing else. */
int pair_open(struct pair *p, const struct pair_kind *k, const struct weir__iosim_options *sim,
              const char **why);
/* An address that is free to listen at. */
void pair_address(struct pair *p, char *out, size_t cap);
/* Stops both loops, and demands that nothing is left anywhere. Every case ends with it: its actors
 * must live so long. */
void pair_close(struct pair *p);

/* Says what is wrong, with every trace, and leaves the case. */
WEIR_PRINTF(4, 5)
WEIR_NORETURN void pair_fail(struct pair *p, const char *file, int line, const char *fmt, ...);
#define fail_case(p, ...) pair_fail(p, __FILE__, __LINE__, __VA_ARGS__)
#define demand(p, cond) ((cond) ? (void)0 : fail_case(p, "not so: %s", #cond))

/* Turns the pair until cond holds; fails when it does not come to hold for far too long. */
#define until(p, cond)                        \
    do {                                      \
        pair_begin(p, #cond);                 \
        while (!(cond))                       \
            pair_step(p, __FILE__, __LINE__); \
    } while (0)
void pair_begin(struct pair *p, const char *waits_for);
void pair_step(struct pair *p, const char *file, int line);
/* Turns until nothing moves any more without time passing: for "and nothing else happens". */
void pair_settle(struct pair *p);
/* Turns for so long. */
void pair_wait_ms(struct pair *p, uint64_t ms);
uint64_t pair_now_ns(struct pair *p);
/* From now on this thread acts as that side's loop; returns the one before for the way back. */
struct weir_loop *pair_act_as(struct pair *p, enum pair_who who);

#endif
