#include "os/error.h"
#include "os/event.h"
#include "os/memory.h"
#include "os/signal.h"
#include "rt/rt.h"
#include <stdio.h>

static struct weir__rt *rt_of(struct weir_group *g) {
    return g->world_data;
}

/* --- a loop's thread ------------------------------------------------------------------------- */

static int turn_until_the_end(struct weir_loop *l) {
    int rc = weir__loop_start(l);
    if (rc < 0)
        return rc;
    do
        rc = weir__loop_turn(l);
    while (rc > 0);
    return rc;
}

/* Says that this loop has ended, and waits until no one can look at it any more. */
static void wait_at_the_gate(struct weir__rt *rt, int error) {
    weir__os_mutex_lock(&rt->mutex);
    if (error < 0 && !rt->error)
        rt->error = error;
    rt->live--;
    weir__os_cond_broadcast(&rt->changed);
    weir__os_event_signal(rt->bell);
    while (!rt->gate)
        weir__os_cond_wait(&rt->changed, &rt->mutex);
    weir__os_mutex_unlock(&rt->mutex);
}

/* A loop that broke takes the others with it: half a server that looks alive is worse than none. */
static void body(void *user) {
    struct weir__rt_loop *r = user;
    if (r->cpu >= 0 && weir__os_thread_pin((unsigned)r->cpu) < 0)
        weir__loop_group_log(r->rt->group, "a loop could not be pinned to its CPU");
    weir__rt_seen_join(&r->rt->crowd, &r->seen, r->thread.name, r->loop);
    weir__os_map_watch(&r->loop->pauses[WEIR_PAUSE_MEMORY]);
    atomic_fetch_or(&r->loop->pauses_known, 1u << WEIR_PAUSE_MEMORY);
    weir__loop_enter(r->loop);
    int rc = turn_until_the_end(r->loop);
    if (rc < 0) {
        weir_group_stop(r->rt->group, 0);
        r->stuck = count_if(!weir__loop_abandon(r->loop));
    }
    weir__loop_enter(NULL);
    wait_at_the_gate(r->rt, rc);
    weir__os_map_watch(NULL);
    weir__rt_seen_leave(&r->seen);
    if (!r->stuck)
        weir__rt_loop_fini(r);
}

/* --- the world ------------------------------------------------------------------------------- */

static int start(struct weir_group *g) {
    struct weir__rt *rt = rt_of(g);
    if (rt->started)
        return WEIR_EINVAL;
    rt->unborn = rt->n_loops;
    rt->started = true;
    weir__rt_crowd_open(&rt->crowd, rt->n_loops);
    for (unsigned i = 0; i < rt->n_loops; i++) {
        struct weir__rt_loop *r = &rt->loops[i];
        char name[16];
        snprintf(name, sizeof name, "weir-loop-%u", i % 10000);
        weir__os_mutex_lock(&rt->mutex);
        rt->live++;
        weir__os_mutex_unlock(&rt->mutex);
        int rc = weir__os_thread_start(&r->thread, rt->thread ? rt->thread : name, body, r);
        if (rc < 0) {
            weir__os_mutex_lock(&rt->mutex);
            rt->live--;
            rt->unborn = i;
            weir__os_mutex_unlock(&rt->mutex);
            weir_group_stop(g, 0);
            return weir__os_error(rc);
        }
        r->threaded = true;
    }
    if (weir__rt_watchdog_start(&rt->watchdog, rt->watched) < 0)
        weir__loop_group_log(g, "no thread for the watchdog: long turns are counted, not shown");
    return 0;
}

static int abandon(struct weir_loop *l, void *user) {
    (void)user;
    return weir__loop_abandon(l);
}

static void wait_all_ended(struct weir__rt *rt) {
    weir__os_mutex_lock(&rt->mutex);
    while (rt->live)
        weir__os_cond_wait(&rt->changed, &rt->mutex);
    weir__os_mutex_unlock(&rt->mutex);
    for (unsigned i = 0; i < rt->n_loops; i++) {
        struct weir__rt_loop *r = &rt->loops[i];
        if (!r->threaded)
            r->stuck = count_if(!weir__loop_visit(r->loop, abandon, NULL));
    }
}

static void bury_all(struct weir__rt *rt) {
    weir__os_mutex_lock(&rt->mutex);
    rt->gate = true;
    weir__os_cond_broadcast(&rt->changed);
    weir__os_mutex_unlock(&rt->mutex);
    for (unsigned i = 0; i < rt->n_loops; i++) {
        struct weir__rt_loop *r = &rt->loops[i];
        if (r->threaded)
            weir__os_thread_join(&r->thread);
        else if (!r->stuck)
            weir__rt_loop_fini(r);
    }
}

static int join(struct weir_group *g) {
    struct weir__rt *rt = rt_of(g);
    wait_all_ended(rt);
    weir__rt_watchdog_stop(&rt->watchdog);
    weir__rt_crowd_end(&rt->crowd);
    int error = rt->error;
    weir__loop_group_disown(g);
    bury_all(rt);
    weir__rt_free(rt);
    return error;
}

static bool all_ended(struct weir__rt *rt) {
    weir__os_mutex_lock(&rt->mutex);
    bool ended = rt->live == 0;
    weir__os_mutex_unlock(&rt->mutex);
    return ended;
}

static void wait_for_the_end(struct weir__rt *rt) {
    bool asked = false;
    while (!all_ended(rt)) {
        if (weir__os_stop_wait(&rt->stop, rt->bell, -1) > 0) {
            weir_group_stop(rt->group, asked ? 0 : rt->drain_ms);
            asked = true;
        }
        weir__os_event_drain(rt->bell);
    }
}

static int run(struct weir_group *g) {
    struct weir__rt *rt = rt_of(g);
    weir__os_stop_hold(&rt->stop);
    int rc = rt->started ? 0 : start(g);
    if (rc >= 0)
        wait_for_the_end(rt);
    int ended = join(g);
    return rc < 0 ? rc : ended;
}

/* --- a call into a loop ---------------------------------------------------------------------- */

struct call {
    struct weir__loop_node node;
    struct weir__rt *rt;
    weir__loop_call_fn *fn;
    void *user;
    int rc;
    bool done; /* under rt->mutex */
};

static void call_run(struct weir_loop *l, struct weir__loop_node *n) {
    struct call *c = container_of(n, struct call, node);
    struct weir__rt *rt = c->rt;
    int rc = c->fn(l, c->user);
    weir__os_mutex_lock(&rt->mutex);
    c->rc = rc;
    c->done = true;
    weir__os_cond_broadcast(&rt->changed);
    weir__os_mutex_unlock(&rt->mutex);
}

/* Its inbox is open until join, but nobody will ever look into it. */
static bool is_unborn(struct weir__rt *rt, const struct weir_loop *l) {
    weir__os_mutex_lock(&rt->mutex);
    bool unborn = l->env.index >= rt->unborn;
    weir__os_mutex_unlock(&rt->mutex);
    return unborn;
}

static int call(struct weir_group *g, struct weir_loop *l, weir__loop_call_fn *fn, void *user) {
    struct weir__rt *rt = rt_of(g);
    if (!rt->started)
        return weir__loop_visit(l, fn, user);
    if (weir__loop_current)
        return WEIR_EINVAL;
    if (is_unborn(rt, l))
        return WEIR_ESTOPPED;
    struct call c = {.node = {.run = call_run}, .rt = rt, .fn = fn, .user = user};
    int rc = weir__loop_inbox_push(l->inbox, &c.node);
    if (rc < 0)
        return rc;
    weir__os_mutex_lock(&rt->mutex);
    while (!c.done)
        weir__os_cond_wait(&rt->changed, &rt->mutex);
    weir__os_mutex_unlock(&rt->mutex);
    return c.rc;
}

static void say(struct weir_group *g, const char *line) {
    (void)g;
    fprintf(stderr, "weir: %s\n", line);
}

static unsigned long_turns(struct weir_group *g, struct weir_long_turn *out, unsigned n_max) {
    return weir__rt_watchdog_turns(&rt_of(g)->watchdog, out, n_max);
}

const struct weir__loop_world weir__rt_world = {
    .start = start,
    .run = run,
    .join = join,
    .call = call,
    .log = say,
    .long_turns = long_turns,
    .outside = &weir__rt_outside,
};
