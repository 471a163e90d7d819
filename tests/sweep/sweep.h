/* The failure sweep: every scenario is run once to count what it asks of the world, then once for
 * every n-th allocation and system call, which fails. Whatever fails, a scenario ends in time, with
 * success or a documented error, and leaves nothing behind. */
#ifndef WEIR_TESTS_SWEEP_SWEEP_H
#define WEIR_TESTS_SWEEP_SWEEP_H
#include "base/compiler.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sweep_place {
    SWEEP_POOL, /* kind: the pools in the order they were made */
    SWEEP_HEAP, /* malloc and its family, called from the library */
    SWEEP_OS,   /* kind: enum weir__os_kind */
    SWEEP_RING, /* kind: enum sweep_ring */
    SWEEP_OP,   /* kind: the opcode of an io_uring request */
    SWEEP_LIBC, /* kind: enum sweep_libc */
    SWEEP_PLACES
};

enum sweep_ring {
    SWEEP_SETUP,
    SWEEP_ENTER,
    SWEEP_REGISTER,
    SWEEP_MAP_RING,
    SWEEP_FULL,
    SWEEP_RINGS
};

/* Calls that the library makes behind its own hook: here it is they that say no. */
enum sweep_libc {
    SWEEP_SOCKET,
    SWEEP_SETSOCKOPT,
    SWEEP_GETSOCKOPT,
    SWEEP_SIGNALFD,
    SWEEP_GETRLIMIT,
    SWEEP_SETRLIMIT,
    SWEEP_GETAFFINITY,
    SWEEP_GETRANDOM,
    SWEEP_TIMER,
    SWEEP_SETTIME,
    SWEEP_PPOLL,
    SWEEP_LIBCS
};

enum { SWEEP_THREADS = 4, SWEEP_KINDS = 64, SWEEP_ERRNOS = 16 };

struct sweep_fault {
    enum sweep_place place;
    unsigned thread, kind; /* threads in the order they were started; 0: the scenario's own */
    uint32_t nth;
    int error;          /* an errno; 0: a short transfer */
    bool persist;       /* and every one after it */
    uint32_t short_max; /* bytes */
};

/* Calls that were made, by thread, place and kind. */
struct sweep_counts {
    uint32_t n[SWEEP_THREADS][SWEEP_PLACES][SWEEP_KINDS];
};

/* errnos.c: what a call can fail with */
struct sweep_errnos {
    const char *name;
    int once[SWEEP_ERRNOS];    /* ends with 0 */
    int persist[SWEEP_ERRNOS]; /* also from the n-th on */
    uint32_t short_max;        /* 0: not a transfer */
};
/* NULL: a call that cannot fail, or whose failure changes nothing. */
const struct sweep_errnos *sweep_errnos(enum sweep_place place, unsigned kind);

struct sweep_scenario {
    const char *name;
    int (*run)(const char *variant); /* 0, or a documented error */
    const char *const *variants;     /* NULL: one, without a name */
    bool cold;                       /* nothing that is kept for ever is there yet */
};
extern const struct sweep_scenario *const sweep_rooms[]; /* each ends with a name of NULL */
extern const char *const sweep_doors[];                  /* lt, et, uring */

/* hooks.c: where calls are counted and spoilt. The plan holds from begin to end; NULL: nothing
 * fails. */
void sweep_begin(const struct sweep_fault *f);
/* Returns how many were spoilt. */
uint32_t sweep_end(struct sweep_counts *counts);
/* What the scenario itself does meanwhile is neither counted nor spoilt. */
void sweep_aside(bool yes);
/* Blocks that the library and this program hold from the heap. */
int64_t sweep_heap_live(void);
/* Takes what is kept for ever (idle inboxes) away, and gives it back. */
void sweep_cool(void);
void sweep_warm(void);

/* Something that must not be, whatever failed. */
WEIR_PRINTF(1, 2) void sweep_finding(const char *fmt, ...);
/* What fails now fails on and on. */
bool sweep_persists(void);
/* The scenario has not got what it waits for: a finding, unless the failure persists. */
void sweep_gave_up(void);

#endif
