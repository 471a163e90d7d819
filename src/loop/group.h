/* A group of loops in some world: threads and signals (rt), or one thread in virtual time (sim). */
#ifndef WEIR_LOOP_GROUP_H
#define WEIR_LOOP_GROUP_H
#include "base/list.h"
#include "loop/loop.h"
#include "weir/loop.h"
#include "weir/stats.h"

enum { WEIR__LOOP_LOOPS_MAX = 1024 };

typedef int weir__loop_call_fn(struct weir_loop *l, void *user);

struct weir__loop_world {
    int (*start)(struct weir_group *g);
    int (*run)(struct weir_group *g);  /* frees g */
    int (*join)(struct weir_group *g); /* frees g */
    /* fn(l, user) on the loop, waited for: its result, or ESTOPPED, EINVAL (on a loop's thread).
     * NULL: the caller's thread is as good. */
    int (*call)(struct weir_group *g, struct weir_loop *l, weir__loop_call_fn *fn, void *user);
    /* One line for people. Any thread. NULL: nobody listens. */
    void (*log)(struct weir_group *g, const char *line);
};

/* What lives as long as the group: servers. Freed after every loop has ended, before the loops are
 * freed. */
struct weir__loop_owned {
    struct weir__base_link link;
    void (*free)(struct weir__loop_owned *o);
};

struct weir_group {
    const struct weir__loop_world *world;
    void *world_data;
    const char *transport, *why;
    struct weir__base_list owned;
    char server_why[256];
    unsigned n_loops;
    struct weir_loop *loops[WEIR__LOOP_LOOPS_MAX];
};

/* An empty group; the world fills in its loops. NULL: no memory. */
struct weir_group *weir__loop_group_new(const struct weir__loop_world *world, void *world_data);
void weir__loop_group_own(struct weir_group *g, struct weir__loop_owned *o);
/* Frees what the group owns (before the loops go), then the group itself. */
void weir__loop_group_disown(struct weir_group *g);
void weir__loop_group_free(struct weir_group *g);
/* fn(l, user) on the loop, wherever it runs; before start, on this thread. */
int weir__loop_group_call(struct weir_group *g, struct weir_loop *l, weir__loop_call_fn *fn,
                          void *user);
/* fn(l, user) on this thread as if it were the loop's: the loop has not started, or it runs here.
 */
int weir__loop_visit(struct weir_loop *l, weir__loop_call_fn *fn, void *user);
void weir__loop_group_log(struct weir_group *g, const char *line);

#endif
