#include "io/epoll/epoll.h"
#include "io/uring/uring.h"
#include "mem/raw.h"
#include "os/clock.h"
#include "os/cpu.h"
#include "os/error.h"
#include "os/event.h"
#include "os/sock.h"
#include "rt/files.h"
#include "rt/rt.h"
#include "rt/transport.h"
#include "weir/loop.h"
#include <stdio.h>
#include <string.h>

enum { DRAIN_MS = 500, WATCHDOG_MS = 100 };

static int options_of(const struct weir_group_options *o, struct weir_group_options *out) {
    *out = (struct weir_group_options){.size = sizeof *out};
    if (!o)
        return 0;
    if (o->size < offsetof(struct weir_group_options, drain_ms) || o->size > sizeof *out)
        return WEIR_EINVAL;
    memcpy(out, o, o->size);
    bool sane = out->loops <= WEIR__LOOP_LOOPS_MAX && out->workers <= WEIR__RT_WORKERS_MAX;
    return sane ? 0 : WEIR_EINVAL;
}

/* --- one loop -------------------------------------------------------------------------------- */

void weir__rt_loop_fini(struct weir__rt_loop *r) {
    struct weir_mem *before = weir__mem_enter(r->mem);
    if (r->loop)
        weir__loop_free(r->loop);
    if (r->io)
        r->io->ops->free(r->io);
    r->loop = NULL;
    r->io = NULL;
    weir__mem_enter(before);
}

/* After its thread was joined. What is shared may outlive the pool; everything else is a leak. */
static void pool_fini(struct weir__rt_loop *r) {
    if (r->mem)
        (void)count_if(weir__mem_pool_free(r->mem) != 0);
    if (r->inbox)
        weir__loop_inbox_put(r->inbox);
    r->mem = NULL;
    r->inbox = NULL;
}

static int door_init(struct weir__rt_loop *r, const struct weir__rt_transport *t,
                     const char **why) {
    struct weir__io_config c = {
        .mem = r->mem, .slots = &r->inbox->slots, .edge = t->edge, .uring_without = t->without};
    struct weir_mem *before = weir__mem_enter(r->mem);
    int rc = t->uring ? weir__uring_new(&c, &r->io, why) : weir__epoll_new(&c, &r->io, why);
    weir__mem_enter(before);
    if (rc < 0)
        r->io = NULL;
    return rc;
}

static int loop_init(struct weir__rt_loop *r, unsigned index, const struct weir__rt_transport *t,
                     const char **why) {
    char name[16];
    snprintf(name, sizeof name, "weir-%u", index);
    r->mem = weir__mem_pool_new(name);
    r->inbox = weir__loop_inbox_get();
    if (!r->mem || !r->inbox)
        return WEIR_ENOMEM;
    int rc = r->rt->pools ? weir_mem_configure(r->mem, r->rt->pools) : 0;
    if (rc >= 0 && r->rt->memory.max)
        rc = weir__mem_budget_attach(r->mem, &r->rt->memory);
    if (rc < 0)
        return rc;
    rc = door_init(r, t, why);
    if (rc < 0)
        return rc;
    struct weir__loop_env env = {
        .io = r->io,
        .mem = r->mem,
        .inbox = r->inbox,
        .cpu_now = weir__os_clock_thread_cpu,
        .group = r->rt->group,
        .workers = &r->rt->workers->base,
        .files = &r->rt->files,
        .index = index,
        .long_turn_ns = r->rt->watchdog.limit_ns,
    };
    rc = weir__loop_new(&env, &r->loop);
    if (rc < 0)
        r->loop = NULL;
    return rc;
}

/* --- all of them ----------------------------------------------------------------------------- */

static void loops_fini(struct weir__rt *rt) {
    for (unsigned i = 0; i < rt->n_loops; i++) {
        weir__rt_loop_fini(&rt->loops[i]);
        pool_fini(&rt->loops[i]);
    }
    rt->group->n_loops = 0;
}

static int loops_init(struct weir__rt *rt, const struct weir__rt_transport *t, const char **why) {
    for (unsigned i = 0; i < rt->n_loops; i++) {
        rt->loops[i].rt = rt;
        int rc = loop_init(&rt->loops[i], i, t, why);
        if (rc < 0) {
            loops_fini(rt);
            return rc;
        }
        rt->group->loops[i] = rt->loops[i].loop;
    }
    rt->group->n_loops = rt->n_loops;
    rt->group->transport = t->name;
    return 0;
}

/* All loops use the same door: when one of them cannot have io_uring, none has it. */
static int loops_init_any(struct weir__rt *rt, struct weir__rt_transport t) {
    const char *why = NULL;
    int rc = loops_init(rt, &t, &why);
    if (rc < 0 && t.uring) {
        char line[200];
        weir__rt_transport_fall_back(&t, why && why[0] ? why : weir_strerror(rc));
        snprintf(line, sizeof line, "io_uring cannot be used (%s): epoll instead", t.why);
        if (t.by_name)
            weir__loop_group_log(rt->group, line);
        rc = loops_init(rt, &t, &why);
    }
    rt->group->why = t.why;
    return rc;
}

struct making {
    struct weir__rt *rt;
    struct weir__rt_transport transport;
    int rc;
};

static void make(void *user) {
    struct making *m = user;
    weir__rt_transport_decide(&m->transport);
    m->rc = loops_init_any(m->rt, m->transport);
}

static int loops_make(struct weir__rt *rt, struct weir__rt_transport t) {
    struct making m = {.rt = rt, .transport = t};
    if (t.uring)
        weir__rt_transport_apart(make, &m);
    else
        make(&m);
    return m.rc;
}

static void choose_cpus(struct weir__rt *rt, bool pin) {
    unsigned cpus[WEIR__OS_CPUS_MAX];
    int n = pin ? weir__os_cpu_list(cpus, WEIR__OS_CPUS_MAX) : 0;
    for (unsigned i = 0; i < rt->n_loops; i++)
        rt->loops[i].loop->cpu = rt->loops[i].cpu = n > 0 ? (int)cpus[i % (unsigned)n] : -1;
}

static int bells_init(struct weir__rt *rt) {
    int rc = weir__os_event_new();
    if (rc < 0)
        return rc;
    rt->bell = rc;
    rc = weir__os_stop_open(&rt->stop);
    if (rc < 0)
        weir__os_close(rt->bell);
    return rc;
}

static int sync_init(struct weir__rt *rt) {
    int rc = weir__os_mutex_init(&rt->mutex);
    if (rc < 0)
        return rc;
    rc = weir__os_cond_init(&rt->changed);
    if (rc >= 0) {
        rc = weir__rt_crowd_init(&rt->crowd);
        if (rc >= 0) {
            rc = bells_init(rt);
            if (rc >= 0)
                return 0;
            weir__rt_crowd_fini(&rt->crowd);
        }
        weir__os_cond_fini(&rt->changed);
    }
    weir__os_mutex_fini(&rt->mutex);
    return rc;
}

void weir__rt_free(struct weir__rt *rt) {
    struct weir_group *g = rt->group;
    weir__rt_workers_free(rt->workers);
    weir__rt_crowd_close(&rt->crowd); /* every thread it could ask has ended */
    for (unsigned i = 0; i < rt->n_loops; i++)
        if (!rt->loops[i].stuck)
            pool_fini(&rt->loops[i]);
    weir__os_stop_close(&rt->stop);
    weir__os_close(rt->bell);
    weir__rt_crowd_fini(&rt->crowd);
    weir__os_cond_fini(&rt->changed);
    weir__os_mutex_fini(&rt->mutex);
    weir__mem_raw_free(rt);
    weir__loop_group_free(g);
}

static void watchdog_init(struct weir__rt *rt, uint32_t ms) {
    struct weir__rt_watchdog *w = &rt->watchdog;
    w->group = rt->group;
    w->crowd = &rt->crowd;
    w->limit_ns = ms == UINT32_MAX ? 0 : (uint64_t)(ms ? ms : WATCHDOG_MS) * 1000000;
    rt->watched = (struct weir__rt_watched *)(void *)&rt->loops[rt->n_loops];
    for (unsigned i = 0; i < rt->n_loops; i++)
        rt->watched[i].seen = &rt->loops[i].seen;
}

int weir_group_new(const struct weir_group_options *options, struct weir_group **out) {
    struct weir_group_options o;
    struct weir__rt_transport t;
    int rc = options_of(options, &o);
    if (rc < 0 || (rc = weir__rt_transport_of(&o, &t)) < 0)
        return rc;
    unsigned n = o.loops ? o.loops : weir__os_cpu_count();
    if (n > WEIR__LOOP_LOOPS_MAX)
        n = WEIR__LOOP_LOOPS_MAX;
    struct weir__rt *rt = weir__mem_raw_new(sizeof *rt +
                                            n * (sizeof rt->loops[0] + sizeof *rt->watched));
    struct weir_group *g = weir__loop_group_new(&weir__rt_world, rt);
    if (!rt || !g) {
        rc = WEIR_ENOMEM;
        goto none;
    }
    rt->group = g;
    rt->n_loops = n;
    rt->pools = o.pools;
    weir__mem_budget_init(&rt->memory, o.memory_max);
    rt->drain_ms = o.drain_ms ? o.drain_ms : DRAIN_MS;
    watchdog_init(rt, o.watchdog_ms);
    rc = weir__os_error(sync_init(rt));
    if (rc < 0)
        goto none;
    weir__rt_files_init(&rt->files);
    rc = weir__rt_workers_new(o.workers, &rt->workers);
    if (rc >= 0)
        rt->workers->crowd = &rt->crowd;
    if (rc >= 0)
        rc = loops_make(rt, t);
    if (rc < 0) {
        weir__rt_free(rt);
        return rc;
    }
    rt->pools = NULL;
    choose_cpus(rt, o.pin);
    *out = g;
    return 0;
none:
    if (g)
        weir__loop_group_free(g);
    weir__mem_raw_free(rt);
    return rc;
}
