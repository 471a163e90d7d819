/* What is wrong with a server, told from two snapshots of it. Pure: numbers in, findings out.
 *
 * A finding must be worth acting on: each has a share that the wrong thing must reach, and a floor
 * of work below which a server is too idle to say anything. */
#ifndef WEIR_ADMIN_FINDING_H
#define WEIR_ADMIN_FINDING_H
#include "admin/snapshot.h"

enum weir__admin_kind {
    WEIR__ADMIN_UNPOOLED,     /* buffers from outside the pool */
    WEIR__ADMIN_FEW_LOOPS,    /* a loop has no time left while a CPU has */
    WEIR__ADMIN_MANY_LOOPS,   /* more loops than CPUs */
    WEIR__ADMIN_FILE_COPIED,  /* file contents pass through the process's memory */
    WEIR__ADMIN_BLOCKED,      /* a callback waited, and its loop with it */
    WEIR__ADMIN_HELD,         /* a callback computed for long */
    WEIR__ADMIN_UNEVEN_LOOPS, /* one loop has the connections and no time, another has time */
    WEIR__ADMIN_KINDS
};

enum {
    WEIR__ADMIN_FINDINGS_MAX = 24,
    WEIR__ADMIN_NUMBERS_MAX = 6,
    WEIR__ADMIN_WINDOW_MIN_MS = 1000, /* two snapshots nearer than this say nothing */
};

struct weir__admin_number { /* one piece of evidence; the unit is the name's last word */
    const char *name;
    double value;
};

struct weir__admin_finding {
    enum weir__admin_kind kind;
    int loop;            /* -1: not one loop's */
    const char *handler; /* NULL: nobody's in particular */
    char text[320];      /* what happens, with its numbers; for people */
    const char *advice;
    const char *stack; /* in turns; NULL: none */
    unsigned n_numbers;
    struct weir__admin_number numbers[WEIR__ADMIN_NUMBERS_MAX];
};

/* "unpooled-buffers" and so on: names that stay. */
const char *weir__admin_kind_name(enum weir__admin_kind kind);
/* What is wrong between before and after, which are of one group, at least
 * WEIR__ADMIN_WINDOW_MIN_MS apart (otherwise nothing is found); turns were taken after both. How
 * many of out were filled. */
unsigned weir__admin_find(const struct weir__admin_snapshot *before,
                          const struct weir__admin_snapshot *after,
                          const struct weir__admin_turns *turns,
                          struct weir__admin_finding out[WEIR__ADMIN_FINDINGS_MAX]);

#endif
