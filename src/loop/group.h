/* A group of loops in some world: threads and signals (rt), or one thread in virtual time (sim). */
#ifndef WEIR_LOOP_GROUP_H
#define WEIR_LOOP_GROUP_H
#include "base/list.h"
#include "loop/loop.h"
#include "weir/loop.h"
#include "weir/stats.h"

enum { WEIR__LOOP_LOOPS_MAX = 1024 };

typedef int weir__loop_call_fn(struct weir_loop *l, void *user);

struct weir__loop_process { /* the process and its CPUs, seen from outside; 0: unknown */
    uint64_t id, resident_bytes;
    unsigned cpus;    /* usable */
    uint64_t idle_ns; /* of the CPUs it may run on, together; cumulative */
};

struct weir__loop_switches { /* context switches of a loop's thread, cumulative */
    uint64_t voluntary, involuntary;
};

struct weir_profile;
struct weir_profile_options;
struct weir_profile_summary;

/* What the admin of a group needs beyond the group. */
struct weir__loop_outside {
    /* A group of one loop, on a thread of this name: not one of g's. As weir_group_new. */
    int (*group)(const char *thread, struct weir_group **out);
    void (*process)(struct weir_group *g, struct weir__loop_process *out);
    /* Of loop `index`'s thread. False: unknown. Any thread. */
    bool (*switches)(struct weir_group *g, unsigned index, struct weir__loop_switches *out);
    /* The accept queue of a listener's handle: 0 or an error. On the listener's loop. */
    int (*queue)(intptr_t handle, uint32_t *depth, uint32_t *depth_max);
    /* As in weir/profile.h. */
    int (*profile_start)(struct weir_group *g, const struct weir_profile_options *o,
                         void (*done)(struct weir_profile *p, int code, void *user), void *user);
    const char *(*profile_folded)(const struct weir_profile *p, size_t *n);
    const struct weir_profile_summary *(*profile_summary)(const struct weir_profile *p);
    void (*profile_free)(struct weir_profile *p);
};

struct weir__loop_world {
    int (*start)(struct weir_group *g);
    int (*run)(struct weir_group *g);  /* frees g */
    int (*join)(struct weir_group *g); /* frees g */
    /* fn(l, user) on the loop, waited for: its result, or ESTOPPED, EINVAL (on a loop's thread).
     * NULL: the caller's thread is as good. */
    int (*call)(struct weir_group *g, struct weir_loop *l, weir__loop_call_fn *fn, void *user);
    /* One line for people. Any thread. NULL: nobody listens. */
    void (*log)(struct weir_group *g, const char *line);
    /* As weir_group_long_turns. NULL: nobody takes pictures. */
    unsigned (*long_turns)(struct weir_group *g, struct weir_long_turn *out, unsigned n_max);
    const struct weir__loop_outside *outside; /* NULL: there is nothing outside */
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
