/* Offloading: a handler's job leaves for a worker and comes back to a channel that may be gone.
 *
 * A job knows its channel by ref and its context by number, so it points at nothing that may die.
 * Jobs that are ordered stand in the channel's line, in the order they were submitted: one that
 * comes back waits there until it is first.
 *
 *   out --> back, not first in line --> first --> done()
 *    |       |                                     ^
 *    |       +-- the channel ends: EGONE ----------+
 *    +-- back, unordered or first in line ---------+ */
#include "chan/chan.h"

struct line_job { /* what a weir_job's link holds */
    struct weir__loop_work work;
    struct weir__base_fifo_link line;
    uint64_t ref;
    uint32_t seat; /* the context's number */
    int16_t back;  /* 1: has come back */
    int16_t ordered;
    int status;
};
_Static_assert(sizeof(struct line_job) <= sizeof(((struct weir_job *)0)->link),
               "link is too small");

static struct line_job *of_job(struct weir_job *j) {
    return (struct line_job *)(void *)j->link;
}

static struct weir_job *job_of(struct line_job *o) {
    return container_of((void *(*)[14])(void *)o, struct weir_job, link);
}

static void run(struct weir__loop_work *w) {
    struct weir_job *j = job_of(container_of(w, struct line_job, work));
    j->run(j);
}

static struct weir_ctx *seat_find(struct weir_chan *ch, uint32_t seat) {
    struct weir_ctx *c = ch->state < WEIR__CHAN_CLOSING ? ch->head : NULL;
    while (c && c->seat != seat)
        c = c->next;
    return c;
}

/* Its owner may free o in here. */
static void tell(struct weir_loop *l, struct weir_ctx *c, struct line_job *o) {
    struct weir_job *j = job_of(o);
    int status = o->status < 0 ? o->status : c ? 0 : WEIR_EGONE;
    weir__loop_attribute(l, o->work.handler, o->ref);
    j->done(c, j, status);
    weir__loop_attribute_end(l);
}

/* The hold ends behind done(), which may still send. */
static void settle_jobs(struct weir_chan *ch) {
    if (ch->jobs->out == 0 && ch->job_hold) {
        ch->job_hold = 0;
        ch->holds--;
        weir__chan_dirty(ch);
    }
    if (unlikely(ch->job_wanted) && ch->jobs->out < ch->plan->limits.offload_max) {
        ch->job_wanted = 0;
        ch->offer = 1;
        weir__chan_dirty(ch);
    }
}

static void deliver(struct weir_chan *ch, struct line_job *o) {
    ch->jobs->out--;
    tell(ch->loop, seat_find(ch, o->seat), o);
}

static void deliver_line(struct weir_chan *ch) {
    struct weir__base_fifo *line = &ch->jobs->line;
    struct line_job *o;
    while (line->first && (o = container_of(line->first, struct line_job, line))->back) {
        weir__base_fifo_pop(line);
        deliver(ch, o);
    }
}

static void done(struct weir_loop *l, struct weir__loop_work *w, int status) {
    struct line_job *o = container_of(w, struct line_job, work);
    struct weir_chan *ch = weir__chan_of_ref(o->ref);
    o->status = status;
    if (!ch) {
        tell(l, NULL, o);
        return;
    }
    o->back = 1;
    if (o->ordered)
        deliver_line(ch);
    else
        deliver(ch, o);
    settle_jobs(ch);
}

void weir__chan_end_jobs(struct weir_chan *ch) {
    struct weir__base_fifo_link *link;
    while ((link = weir__base_fifo_pop(&ch->jobs->line))) {
        struct line_job *o = container_of(link, struct line_job, line);
        if (o->back)
            tell(ch->loop, NULL, o); /* the others hear it when they come back */
    }
}

int weir__chan_offload(struct weir_ctx *c, struct weir_job *j, enum weir_order order,
                       struct weir__loop_handler *account) {
    struct weir_chan *ch = c->chan;
    struct line_job *o = of_job(j);
    if (!weir__chan_live(ch) || c->removed)
        return WEIR_EGONE;
    if (!ch->jobs && !(ch->jobs = weir_mem_new(ch->mem, sizeof *ch->jobs)))
        return WEIR_ENOMEM;
    if (ch->jobs->out >= ch->plan->limits.offload_max)
        return WEIR_EFULL;
    if (!c->seat)
        c->seat = ++ch->jobs->seats;
    *o = (struct line_job){.work = {.run = run, .done = done, .handler = account},
                           .ref = ch->ref,
                           .seat = c->seat,
                           .ordered = order == WEIR_ORDERED};
    int rc = weir__loop_work_submit(ch->loop, &o->work);
    if (rc < 0)
        return rc;
    if (o->ordered)
        weir__base_fifo_push(&ch->jobs->line, &o->line);
    ch->jobs->out++;
    ch->holds += !ch->job_hold;
    ch->job_hold = 1;
    return 0;
}

int weir_ctx_offload(struct weir_ctx *c, struct weir_job *j, enum weir_order order) {
    return weir__chan_offload(c, j, order, c->account);
}

bool weir_ctx_offload_room(struct weir_ctx *c) {
    struct weir_chan *ch = c->chan;
    if (likely(!ch->jobs || ch->jobs->out < ch->plan->limits.offload_max))
        return true;
    ch->job_wanted = 1;
    return false;
}
