#include "rt/workers.h"
#include "base/assert.h"
#include "loop/loop.h"
#include "mem/raw.h"
#include "os/clock.h"
#include "os/cpu.h"
#include "os/error.h"
#include "weir/error.h"
#include <errno.h>
#include <stdio.h>

static struct weir__rt_workers *of(struct weir__loop_workers *p) {
    return container_of(p, struct weir__rt_workers, base);
}

static struct weir__loop_work *work_of(struct weir__base_fifo_link *link) {
    return container_of((struct weir__loop_node *)(void *)link, struct weir__loop_work, node);
}

static void push(struct weir__base_fifo *f, struct weir__loop_work *w) {
    weir__base_fifo_push(f, (struct weir__base_fifo_link *)(void *)&w->node);
}

static void waiting_add(struct weir__rt_workers *p, int64_t n) {
    weir__loop_add(&p->base.waiting, (uint64_t)n);
    uint64_t now = atomic_load_explicit(&p->base.waiting, memory_order_relaxed);
    if (now > atomic_load_explicit(&p->base.waiting_max, memory_order_relaxed))
        atomic_store_explicit(&p->base.waiting_max, now, memory_order_relaxed);
}

/* --- a worker -------------------------------------------------------------------------------- */

/* With the mutex; NULL: the end. */
static struct weir__loop_work *next(struct weir__rt_workers *p) {
    p->idle++;
    while (weir__base_fifo_empty(&p->queue) && !p->end)
        weir__os_cond_wait(&p->work, &p->mutex);
    p->idle--;
    struct weir__base_fifo_link *link = weir__base_fifo_pop(&p->queue);
    return link ? work_of(link) : NULL;
}

/* Runs w, counts it and gives it back, which may be the last its loop waits for: nothing of either
 * is touched then. cpu_ns: of this thread, up to here. */
static void work(struct weir__rt_worker *me, struct weir__loop_work *w, uint64_t *cpu_ns) {
    struct weir__rt_workers *p = me->of;
    uint64_t before = *cpu_ns;
    atomic_store_explicit(&me->seen.job, w->handler ? w->handler->name : NULL,
                          memory_order_relaxed);
    w->run(w);
    atomic_store_explicit(&me->seen.job, NULL, memory_order_relaxed);
    *cpu_ns = weir__os_clock_thread_cpu();
    w->cpu_ns = *cpu_ns - before;
    atomic_fetch_add_explicit(&p->base.finished, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&p->base.cpu_ns, w->cpu_ns, memory_order_relaxed);
    weir__loop_work_over(w, 0);
}

static void body(void *user) {
    struct weir__rt_worker *me = user;
    struct weir__rt_workers *p = me->of;
    struct weir__loop_work *w;
    uint64_t cpu_ns = weir__os_clock_thread_cpu();
    if (p->crowd)
        weir__rt_seen_join(p->crowd, &me->seen, me->thread.name, NULL);
    weir__os_mutex_lock(&p->mutex);
    while ((w = next(p))) {
        waiting_add(p, -1);
        me->busy = w->loop;
        weir__os_mutex_unlock(&p->mutex);
        work(me, w, &cpu_ns);
        weir__os_mutex_lock(&p->mutex);
        me->busy = NULL;
        if (p->awaiting)
            weir__os_cond_broadcast(&p->quiet);
    }
    weir__os_mutex_unlock(&p->mutex);
    if (p->crowd)
        weir__rt_seen_leave(&me->seen);
}

/* --- what a loop asks ------------------------------------------------------------------------ */

/* With the mutex. The first one that cannot be had is an error; later, fewer do the work. */
static int start_one(struct weir__rt_workers *p) {
    struct weir__rt_worker *me = &p->workers[p->n];
    char name[16];
    snprintf(name, sizeof name, "weir-work-%u", p->n % 10000);
    me->of = p;
    int rc = weir__os_thread_start(&me->thread, name, body, me);
    if (rc < 0 && p->n)
        return 0;
    if (rc < 0)
        return rc == -EAGAIN ? WEIR_ENOMEM : weir__os_error(rc); /* EAGAIN: no more threads */
    atomic_store_explicit(&p->base.threads, ++p->n, memory_order_relaxed);
    return 0;
}

static int submit(struct weir__loop_workers *base, struct weir__loop_work *w) {
    struct weir__rt_workers *p = of(base);
    int rc = 0;
    weir__os_mutex_lock(&p->mutex);
    uint64_t waiting = atomic_load_explicit(&p->base.waiting, memory_order_relaxed);
    bool idle = p->idle > waiting; /* one that was not woken for work that waits already */
    if (!idle && p->n < p->n_max)
        rc = start_one(p);
    if (rc >= 0) {
        push(&p->queue, w);
        waiting_add(p, 1);
        weir__loop_add(&p->base.jobs, 1);
        if (idle)
            weir__os_cond_signal(&p->work);
    }
    weir__os_mutex_unlock(&p->mutex);
    return rc;
}

/* The works of l that nobody runs, taken out of the queue. */
static struct weir__base_fifo take_queued(struct weir__rt_workers *p, const struct weir_loop *l) {
    struct weir__base_fifo all = p->queue, out = {0};
    struct weir__base_fifo_link *link;
    p->queue = (struct weir__base_fifo){0};
    while ((link = weir__base_fifo_pop(&all))) {
        bool its = work_of(link)->loop == l;
        weir__base_fifo_push(its ? &out : &p->queue, link);
        if (its) {
            waiting_add(p, -1);
            weir__loop_add(&p->base.stopped, 1);
        }
    }
    return out;
}

static void cancel(struct weir__loop_workers *base, struct weir_loop *l) {
    struct weir__rt_workers *p = of(base);
    struct weir__base_fifo_link *link;
    weir__os_mutex_lock(&p->mutex);
    struct weir__base_fifo out = take_queued(p, l);
    weir__os_mutex_unlock(&p->mutex);
    while ((link = weir__base_fifo_pop(&out)))
        weir__loop_work_over(work_of(link), WEIR_ESTOPPED);
}

static bool is_busy_for(const struct weir__rt_workers *p, const struct weir_loop *l) {
    for (unsigned i = 0; i < p->n; i++)
        if (p->workers[i].busy == l)
            return true;
    return false;
}

static void await(struct weir__loop_workers *base, struct weir_loop *l) {
    struct weir__rt_workers *p = of(base);
    weir__os_mutex_lock(&p->mutex);
    p->awaiting++;
    while (is_busy_for(p, l))
        weir__os_cond_wait(&p->quiet, &p->mutex);
    p->awaiting--;
    weir__os_mutex_unlock(&p->mutex);
}

static const struct weir__loop_workers_ops ops = {
    .submit = submit, .cancel = cancel, .await = await};

/* --- birth and death ------------------------------------------------------------------------- */

static int sync_init(struct weir__rt_workers *p) {
    int rc = weir__os_mutex_init(&p->mutex);
    if (rc < 0)
        return rc;
    rc = weir__os_cond_init(&p->work);
    if (rc >= 0) {
        rc = weir__os_cond_init(&p->quiet);
        if (rc >= 0)
            return 0;
        weir__os_cond_fini(&p->work);
    }
    weir__os_mutex_fini(&p->mutex);
    return rc;
}

int weir__rt_workers_new(unsigned n, struct weir__rt_workers **out) {
    n = n ? n : weir__os_cpu_count() > 2 ? weir__os_cpu_count() : 2;
    n = n < WEIR__RT_WORKERS_MAX ? n : WEIR__RT_WORKERS_MAX;
    struct weir__rt_workers *p = weir__mem_raw_new(sizeof *p + n * sizeof p->workers[0]);
    if (!p)
        return WEIR_ENOMEM;
    p->base.ops = &ops;
    p->n_max = n;
    int rc = weir__os_error(sync_init(p));
    if (rc < 0)
        weir__mem_raw_free(p);
    else
        *out = p;
    return rc;
}

void weir__rt_workers_free(struct weir__rt_workers *p) {
    if (!p)
        return;
    weir__os_mutex_lock(&p->mutex);
    p->end = true;
    must(weir__base_fifo_empty(&p->queue));
    weir__os_cond_broadcast(&p->work);
    weir__os_mutex_unlock(&p->mutex);
    for (unsigned i = 0; i < p->n; i++)
        weir__os_thread_join(&p->workers[i].thread);
    weir__os_cond_fini(&p->quiet);
    weir__os_cond_fini(&p->work);
    weir__os_mutex_fini(&p->mutex);
    weir__mem_raw_free(p);
}
