#include "loop/work.h"
#include "loop/group.h"
#include "loop/loop.h"

static void arrive(struct weir_loop *l, struct weir__loop_node *n) {
    struct weir__loop_work *w = container_of(n, struct weir__loop_work, node);
    if (w->handler && w->status >= 0) {
        weir__loop_add(&w->handler->offloads, 1);
        weir__loop_add(&w->handler->offload_ns, w->cpu_ns);
    }
    l->gather_ns = 2 * w->cpu_ns;
    w->done(l, w, w->status); /* w is its owner's again, and may be gone */
    must(l->works > 0);
    if (--l->works == 0)
        weir__loop_member_remove(l, &l->work_member);
}

int weir__loop_work_submit(struct weir_loop *l, struct weir__loop_work *w) {
    struct weir__loop_workers *p = l->env.workers;
    check(weir__loop_current == l);
    if (!p)
        return WEIR_ENOTSUP;
    if (l->deaf || l->phase >= WEIR__LOOP_ABORTING)
        return WEIR_ESTOPPED;
    w->node.run = arrive;
    w->loop = l;
    w->cpu_ns = 0;
    int rc = p->ops->submit(p, w);
    if (rc < 0)
        return rc;
    if (l->works++ == 0)
        weir__loop_member_add(l, &l->work_member);
    return 0;
}

void weir__loop_work_over(struct weir__loop_work *w, int status) {
    w->status = status;
    int rc = weir__loop_inbox_push(w->loop->inbox, &w->node);
    must(rc == 0); /* its inbox is open while the loop has work out */
}

void weir__loop_work_await(struct weir_loop *l) {
    if (l->works)
        l->env.workers->ops->await(l->env.workers, l);
}

void weir__loop_work_stop(struct weir__loop_member *m, bool abort) {
    struct weir_loop *l = container_of(m, struct weir_loop, work_member);
    if (abort)
        l->env.workers->ops->cancel(l->env.workers, l);
}

static uint64_t get(_Atomic uint64_t *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

int weir_group_worker_stats(struct weir_group *g, struct weir_worker_stats *out) {
    struct weir__loop_workers *p = g->n_loops ? g->loops[0]->env.workers : NULL;
    if (!p)
        return WEIR_ENOTSUP;
    *out = (struct weir_worker_stats){
        .threads = (unsigned)get(&p->threads),
        .jobs = get(&p->jobs),
        .finished = get(&p->finished),
        .stopped = get(&p->stopped),
        .waiting = get(&p->waiting),
        .waiting_max = get(&p->waiting_max),
        .cpu_ns = get(&p->cpu_ns),
    };
    return 0;
}
