#include "rt/seen.h"
#include "os/clock.h"
#include "rt/profile.h"
#include "rt/samples.h"
#include <string.h>

enum { PICTURE = 1, SAMPLE = 2, STILL_NS = 20000 };

int weir__rt_crowd_init(struct weir__rt_crowd *c) {
    int rc = weir__os_mutex_init(&c->mutex);
    if (rc < 0)
        return rc;
    rc = weir__os_cond_init(&c->changed);
    if (rc < 0)
        weir__os_mutex_fini(&c->mutex);
    weir__base_list_init(&c->threads);
    return rc;
}

void weir__rt_crowd_fini(struct weir__rt_crowd *c) {
    weir__os_cond_fini(&c->changed);
    weir__os_mutex_fini(&c->mutex);
}

void weir__rt_crowd_open(struct weir__rt_crowd *c, unsigned loops) {
    c->code = weir__os_sample_open();
    weir__os_mutex_lock(&c->mutex);
    c->open = true;
    c->loops_max = loops;
    weir__os_mutex_unlock(&c->mutex);
}

void weir__rt_crowd_end(struct weir__rt_crowd *c) {
    weir__os_mutex_lock(&c->mutex);
    c->ending = true;
    weir__os_cond_broadcast(&c->changed);
    while (c->profiling)
        weir__os_cond_wait(&c->changed, &c->mutex);
    weir__os_mutex_unlock(&c->mutex);
    weir__rt_profile_job_join(c);
}

void weir__rt_crowd_close(struct weir__rt_crowd *c) {
    if (c->open && c->code == 0)
        weir__os_sample_close();
    c->open = false;
}

/* --- on the thread --------------------------------------------------------------------------- */

static void take_picture(struct weir__rt_seen *s, const struct weir__os_stack *at) {
    struct weir__rt_picture *p = &s->picture;
    if (!s->loop || atomic_load(&p->state) != WEIR__RT_ASKED)
        return;
    struct weir__loop_counters *c = &s->loop->counters;
    uint64_t turn_at = atomic_load_explicit(&c->turn_at_ns, memory_order_relaxed);
    if (turn_at != atomic_load_explicit(&p->turn_at_ns, memory_order_relaxed) ||
        atomic_load_explicit(&c->at_ns, memory_order_relaxed) > turn_at)
        return; /* it is over */
    p->n_handlers = weir__loop_frames(&s->loop->account, p->handlers, WEIR_LONG_TURN_HANDLERS,
                                      &p->channel);
    p->at = *at;
    atomic_store(&p->state, WEIR__RT_TAKEN);
}

/* noting is up before samples is read, and the profile takes samples away before it reads noting:
 * so either no sample is begun, or the profile waits for its end. */
static void take_sample(struct weir__rt_seen *s, const struct weir__os_stack *at) {
    atomic_store(&s->noting, true);
    struct weir__rt_samples *to = atomic_load(&s->samples);
    struct weir__rt_sample *x = to ? weir__rt_samples_next(to) : NULL;
    if (x) {
        const char *job = atomic_load_explicit(&s->job, memory_order_relaxed);
        uint64_t channel;
        x->thread = s->index;
        x->at_ns = weir__os_clock_mono();
        x->stack = *at;
        x->n_handlers = 0;
        if (s->loop)
            x->n_handlers = weir__loop_frames(&s->loop->account, x->handlers,
                                              WEIR__RT_SAMPLE_HANDLERS, &channel);
        else if (job)
            x->handlers[x->n_handlers++] = job;
    }
    atomic_store(&s->noting, false);
}

static void note(struct weir__os_sampled *os, int what, const struct weir__os_stack *at) {
    struct weir__rt_seen *s = container_of(os, struct weir__rt_seen, os);
    if (what == PICTURE)
        take_picture(s, at);
    else if (what == SAMPLE)
        take_sample(s, at);
}

void weir__rt_seen_join(struct weir__rt_crowd *c, struct weir__rt_seen *s, const char *name,
                        struct weir_loop *loop) {
    s->crowd = c;
    s->loop = loop;
    memcpy(s->name, name, strnlen(name, sizeof s->name - 1));
    weir__os_sampled_join(&s->os, note);
    weir__os_mutex_lock(&c->mutex);
    weir__base_list_push_back(&c->threads, &s->link);
    c->loops += loop != NULL;
    weir__os_cond_broadcast(&c->changed);
    weir__os_mutex_unlock(&c->mutex);
}

void weir__rt_seen_leave(struct weir__rt_seen *s) {
    weir__os_mutex_lock(&s->crowd->mutex);
    weir__rt_seen_sample_end(s);
    weir__base_list_remove(&s->link);
    weir__os_mutex_unlock(&s->crowd->mutex);
    weir__os_sampled_leave(&s->os);
}

/* --- from outside ---------------------------------------------------------------------------- */

bool weir__rt_picture_ask(struct weir__rt_seen *s, uint64_t turn_at_ns) {
    struct weir__rt_picture *p = &s->picture;
    if (s->crowd->code < 0) /* the signal of another group may go at any time */
        return false;
    atomic_store(&p->state, WEIR__RT_NO_PICTURE); /* an older question is taken back */
    atomic_store(&p->turn_at_ns, turn_at_ns);
    atomic_store(&p->state, WEIR__RT_ASKED);
    if (weir__os_sampled_ask(&s->os, PICTURE) == 0)
        return true;
    atomic_store(&p->state, WEIR__RT_NO_PICTURE);
    return false;
}

bool weir__rt_picture_taken(struct weir__rt_seen *s) {
    return atomic_load(&s->picture.state) == WEIR__RT_TAKEN;
}

int weir__rt_seen_sample(struct weir__rt_seen *s, struct weir__rt_samples *to, unsigned index,
                         unsigned hz) {
    s->index = index;
    atomic_store(&s->samples, to);
    int rc = weir__os_sampled_start(&s->os, hz, SAMPLE);
    if (rc < 0)
        atomic_store(&s->samples, NULL);
    return rc;
}

void weir__rt_seen_sample_end(struct weir__rt_seen *s) {
    weir__os_sampled_stop(&s->os);
    atomic_store(&s->samples, NULL);
    while (atomic_load(&s->noting))
        weir__os_clock_sleep(STILL_NS);
}
