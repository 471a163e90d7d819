#include "sim/workers.h"
#include "base/assert.h"
#include "loop/loop.h"
#include "weir/error.h"

static struct weir__sim_workers *of(struct weir__loop_workers *p) {
    return container_of(p, struct weir__sim_workers, base);
}

static struct weir__loop_work *work_of(struct weir__base_fifo_link *link) {
    return container_of((struct weir__loop_node *)(void *)link, struct weir__loop_work, node);
}

static void push(struct weir__base_fifo *f, struct weir__loop_work *w) {
    weir__base_fifo_push(f, (struct weir__base_fifo_link *)(void *)&w->node);
}

static void waiting_add(struct weir__sim_workers *p, int64_t n) {
    weir__loop_add(&p->base.waiting, (uint64_t)n);
    if (p->base.waiting > p->base.waiting_max)
        p->base.waiting_max = p->base.waiting;
}

static int submit(struct weir__loop_workers *base, struct weir__loop_work *w) {
    struct weir__sim_workers *p = of(base);
    if (p->refuse_ppm && weir__iosim_draw(p->net, 1000000) < p->refuse_ppm)
        return WEIR_ENOMEM;
    w->cpu_ns = 1000 + weir__iosim_draw(p->net, (uint64_t)p->delay_us_max * 1000);
    w->over_ns = weir__iosim_now(p->net) + w->cpu_ns;
    push(&p->pending, w);
    waiting_add(p, 1);
    weir__loop_add(&p->base.jobs, 1);
    return 0;
}

/* Takes out those of l (NULL: those whose time has come). */
static struct weir__base_fifo take(struct weir__sim_workers *p, const struct weir_loop *l) {
    struct weir__base_fifo all = p->pending, out = {0};
    struct weir__base_fifo_link *link;
    uint64_t now = weir__iosim_now(p->net);
    p->pending = (struct weir__base_fifo){0};
    while ((link = weir__base_fifo_pop(&all))) {
        const struct weir__loop_work *w = work_of(link);
        bool its = l ? w->loop == l : w->over_ns <= now;
        weir__base_fifo_push(its ? &out : &p->pending, link);
        waiting_add(p, -its);
    }
    return out;
}

/* No work is ever in the middle of running here, so all of it can be stopped. */
static void cancel(struct weir__loop_workers *base, struct weir_loop *l) {
    struct weir__sim_workers *p = of(base);
    struct weir__base_fifo out = take(p, l);
    struct weir__base_fifo_link *link;
    while ((link = weir__base_fifo_pop(&out))) {
        weir__loop_add(&p->base.stopped, 1);
        weir__loop_work_over(work_of(link), WEIR_ESTOPPED);
    }
}

static void await(struct weir__loop_workers *base, struct weir_loop *l) {
    (void)base, (void)l;
}

static const struct weir__loop_workers_ops ops = {
    .submit = submit, .cancel = cancel, .await = await};

void weir__sim_workers_init(struct weir__sim_workers *p, struct weir__iosim_net *net,
                            uint32_t delay_us_max, uint32_t refuse_ppm) {
    *p = (struct weir__sim_workers){.base = {.ops = &ops},
                                    .net = net,
                                    .delay_us_max = delay_us_max ? delay_us_max : 1000,
                                    .refuse_ppm = refuse_ppm};
}

/* One of the rest, which is taken out. */
static struct weir__loop_work *draw(struct weir__sim_workers *p, struct weir__base_fifo *rest,
                                    uint64_t n) {
    struct weir__base_fifo before = {0};
    struct weir__base_fifo_link *link;
    uint64_t skip = weir__iosim_draw(p->net, n);
    while ((link = weir__base_fifo_pop(rest)) && skip-- > 0)
        weir__base_fifo_push(&before, link);
    weir__base_fifo_append(rest, &before);
    return work_of(link);
}

/* What is due at once is over in any order. */
void weir__sim_workers_run(struct weir__sim_workers *p) {
    if (likely(weir__base_fifo_empty(&p->pending)))
        return;
    struct weir__base_fifo due = take(p, NULL);
    uint64_t n = 0;
    for (struct weir__base_fifo_link *link = due.first; link; link = link->next)
        n++;
    for (; n; n--) {
        struct weir__loop_work *w = draw(p, &due, n);
        w->run(w);
        weir__loop_add(&p->base.finished, 1);
        weir__loop_add(&p->base.cpu_ns, w->cpu_ns);
        weir__loop_work_over(w, 0);
    }
}

uint64_t weir__sim_workers_next_ns(const struct weir__sim_workers *p) {
    uint64_t next = UINT64_MAX;
    for (struct weir__base_fifo_link *link = p->pending.first; link; link = link->next)
        next = work_of(link)->over_ns < next ? work_of(link)->over_ns : next;
    return next;
}
