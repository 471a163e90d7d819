/* One client connection: connects, keeps its slots busy, and comes back after a failure until its
 * share is done.
 *
 *       connect               open       failure, end of share, --short: answer
 *   IDLE -----> CONNECTING ---------> UP --------------------------------------> CLOSING
 *    ^ ^             |                                                            |  |
 *    | |             | failed                                                     |  |
 *    | |    timer    v                      closed after a failure                |  |
 *    | +--------- WAITING <-------------------------------------------------------+  |
 *    |                                      closed in order                          |
 *    +-------------------------------------------------------------------------------+
 *
 * `arrived`: warm, waits for the window. `finished`: its share of the window is done. `dead`:
 * failed LOAD_DEAD_AFTER times in a row without an answer; it goes on trying, but the run no longer
 * waits for it. */
#include "load/run.h"

enum { AGAIN_MS_MAX = 512 };

static void start_connect(struct load_conn *c, uint64_t now);

/* --- what is left to do ---------------------------------------------------------------------- */

static bool wants(const struct load_conn *c, uint64_t now) {
    const struct load_worker *w = c->worker;
    if (w->measuring)
        return c->left > 0 && now < w->end_ns;
    return c->warm_left > 0 || now < w->warm_until_ns;
}

static void take_one(struct load_conn *c) {
    uint64_t *left = c->worker->measuring ? &c->left : &c->warm_left;
    if (*left && *left != UINT64_MAX)
        --*left;
}

/* Nothing is in flight and nothing more is wanted in this phase: says so, once. */
static void report_done(struct load_conn *c) {
    struct load_run *r = c->worker->run;
    if (!c->worker->measuring) {
        if (c->arrived || !(c->tried || r->o->is_short))
            return;
        c->arrived = true;
        if (atomic_fetch_sub(&r->warming, 1) == 1)
            load_run_release(r);
        return;
    }
    if (c->finished || c->left)
        return;
    c->finished = true;
    if (!c->dead && atomic_fetch_sub(&r->live, 1) == 1)
        load_run_finish(r, LOAD_END_DONE);
}

/* --- slots ----------------------------------------------------------------------------------- */

static struct load_counters *counters(struct load_worker *w) {
    return w->measuring ? &w->window : &w->warmup;
}

static struct load_slot *slot_take(struct load_conn *c, uint64_t intended) {
    struct load_slot *s = c->free;
    c->free = s->next;
    s->next = NULL;
    s->busy = true;
    s->expired = false;
    s->intended_ns = intended;
    s->sent_ns = load_clock();
    s->seq = c->seq++;
    if (c->newest)
        c->newest->next = s;
    else
        c->oldest = s;
    c->newest = s;
    c->in_flight++;
    take_one(c);
    load_bump(&counters(c->worker)->started);
    return s;
}

static void slot_put(struct load_conn *c, struct load_slot *s) {
    struct load_slot **link = &c->oldest, *before = NULL;
    while (*link != s) { /* the oldest nearly always */
        before = *link;
        link = &before->next;
    }
    *link = s->next;
    if (c->newest == s)
        c->newest = before;
    s->next = c->free;
    c->free = s;
    s->busy = false;
    s->call = NULL;
    c->in_flight--;
}

/* After the window nothing counts any more: what is in flight stays so. */
static bool too_late(struct load_worker *w, uint64_t now) {
    return w->ended || (w->measuring && now >= w->end_ns);
}

void load_conn_answered(struct load_conn *c, struct load_slot *s, uint64_t now) {
    struct load_worker *w = c->worker;
    if (too_late(w, now))
        return;
    load_bump(&counters(w)->ok);
    if (w->measuring) {
        weir_hist_add(w->response, now - s->intended_ns);
        weir_hist_add(w->service, now > s->sent_ns ? now - s->sent_ns : 0);
        weir_hist_add(w->lag, s->sent_ns > s->intended_ns ? s->sent_ns - s->intended_ns : 0);
        w->last_done_ns = now;
    }
    slot_put(c, s);
    c->answered = true;
    c->fails = 0;
    if (c->dead) {
        c->dead = false;
        atomic_fetch_add(&w->run->live, 1);
    }
}

void load_conn_missed(struct load_conn *c, struct load_slot *s, enum load_outcome how,
                      const struct load_error *e) {
    struct load_worker *w = c->worker;
    uint64_t now = weir_loop_now(w->loop);
    if (too_late(w, now))
        return;
    struct load_counters *n = counters(w);
    load_bump(how == LOAD_TIMED_OUT   ? &n->timed_out
              : how == LOAD_CANCELLED ? &n->cancelled
                                      : &n->failed);
    load_fault_count(w, e, now);
    w->last_done_ns = now;
    slot_put(c, s);
}

void load_conn_lose(struct load_conn *c, const struct load_error *e) {
    struct load_slot *s, *next;
    c->state = LOAD_CLOSING;
    for (s = c->oldest; s; s = next) {
        next = s->next;
        load_conn_missed(c, s, LOAD_FAILED, e);
    }
}

/* --- timeouts -------------------------------------------------------------------------------- */

/* One timer per connection; it is armed when the first request leaves and moves itself to the
 * oldest one when it fires. */
static void watch(struct weir_timer *t) {
    struct load_conn *c = (struct load_conn *)((char *)t - offsetof(struct load_conn, watch));
    struct load_run *r = c->worker->run;
    uint64_t now = weir_loop_now(c->worker->loop), limit = r->o->timeout_ns;
    c->watching = false;
    if (too_late(c->worker, now) || c->state != LOAD_UP)
        return;
    if (c->oldest && c->oldest->sent_ns + limit <= now)
        r->protocol->expire(c, now - limit);
    if (c->state == LOAD_UP && c->oldest && !c->watching) {
        c->watching = true;
        weir_timer_arm(c->worker->loop, &c->watch, c->oldest->sent_ns + limit, watch);
    }
}

static void start_watch(struct load_conn *c, uint64_t sent_ns) {
    if (c->watching)
        return;
    c->watching = true;
    weir_timer_arm(c->worker->loop, &c->watch, sent_ns + c->worker->run->o->timeout_ns, watch);
}

/* --- sending --------------------------------------------------------------------------------- */

static bool send_slot(struct load_conn *c, struct load_slot *s) {
    int rc = c->worker->run->protocol->send(c, s);
    if (rc >= 0) {
        start_watch(c, s->sent_ns);
        return true;
    }
    struct load_error e = {.fault = rc == WEIR_EGONE ? LOAD_FAULT_CLOSED : LOAD_FAULT_LOCAL,
                           .code = load_code_of_end(rc)};
    load_conn_missed(c, s, LOAD_FAILED, &e);
    load_conn_lose(c, &e);
    weir_chan_close(c->chan, WEIR_ABORT);
    return false;
}

/* --short: the connect belongs to the request, so that its slot is taken before. */
static void pump_short(struct load_conn *c, uint64_t now) {
    if (c->state == LOAD_UP && !c->in_flight) {
        c->state = LOAD_CLOSING;
        weir_chan_close(c->chan, WEIR_DRAIN);
    } else if (c->state == LOAD_IDLE && wants(c, now)) {
        slot_take(c, now);
        start_connect(c, now);
    }
}

void load_conn_pump(struct load_conn *c, uint64_t now) {
    struct load_worker *w = c->worker;
    if (w->ended)
        return;
    if (w->run->o->is_short)
        pump_short(c, now);
    else if (c->state == LOAD_IDLE && !c->finished)
        start_connect(c, now);
    while (c->state == LOAD_UP && c->free && !w->run->o->is_short && wants(c, now))
        if (!send_slot(c, slot_take(c, now)))
            break;
    if (!c->in_flight && !wants(c, now))
        report_done(c);
}

/* --- failures -------------------------------------------------------------------------------- */

static void again(struct weir_timer *t) {
    struct load_conn *c = (struct load_conn *)((char *)t - offsetof(struct load_conn, again));
    c->state = LOAD_IDLE;
    load_conn_pump(c, weir_loop_now(c->worker->loop));
}

void load_conn_unanswered(struct load_conn *c) {
    struct load_run *r = c->worker->run;
    c->fails++;
    if (c->dead || c->finished)
        return;
    if (c->fails < LOAD_DEAD_AFTER && atomic_load(&r->opened))
        return;
    c->dead = true;
    if (atomic_fetch_sub(&r->live, 1) == 1)
        load_run_finish(r, LOAD_END_DEAD);
}

/* After a failure: the more of them in a row, the later. */
static void come_back(struct load_conn *c) {
    struct load_worker *w = c->worker;
    uint64_t now = weir_loop_now(w->loop);
    c->state = LOAD_WAITING;
    uint64_t ms = c->fails < 9 ? UINT64_C(1) << c->fails : AGAIN_MS_MAX;
    weir_timer_arm(w->loop, &c->again, now + ms * 1000000, again);
    if (!c->in_flight && !wants(c, now))
        report_done(c);
    load_conn_unanswered(c);
}

static void connect_failed(struct load_conn *c, int status) {
    struct load_error e = {.fault = LOAD_FAULT_CONNECT, .code = status};
    c->tried = true;
    if (c->worker->ended)
        return;
    if (c->oldest)
        load_conn_missed(c, c->oldest, status == WEIR_ETIMEDOUT ? LOAD_TIMED_OUT : LOAD_FAILED, &e);
    else {
        load_fault_count(c->worker, &e, weir_loop_now(c->worker->loop));
        if (c->warm_left)
            c->warm_left--; /* an attempt: a connection that cannot open must not hold up the others
                             */
    }
    come_back(c);
}

void load_conn_closed(struct load_conn *c, int why) {
    struct load_worker *w = c->worker;
    bool in_order = c->state == LOAD_CLOSING && c->answered;
    c->chan = NULL;
    c->peer.ctx = NULL;
    if (w->ended) {
        c->state = LOAD_IDLE;
        return;
    }
    struct load_error e = {.fault = LOAD_FAULT_CLOSED, .code = load_code_of_end(why)};
    load_conn_lose(c, &e);
    if (in_order && w->run->o->is_short) {
        c->state = LOAD_IDLE;
        load_conn_pump(c, weir_loop_now(w->loop));
        return;
    }
    if (c->answered)
        c->fails = 0;
    come_back(c);
}

/* --- connecting ------------------------------------------------------------------------------ */

/* --short: the request that has waited for its connection leaves now. */
static bool send_first(struct load_conn *c) {
    c->oldest->sent_ns = load_clock();
    return send_slot(c, c->oldest);
}

static void connected(struct weir_chan *ch, int status, void *user) {
    struct load_conn *c = user;
    struct load_worker *w = c->worker;
    if (status < 0) {
        connect_failed(c, status);
        return;
    }
    uint64_t now = weir_loop_now(w->loop);
    c->chan = ch;
    c->state = LOAD_UP;
    c->tried = true;
    c->answered = false;
    c->got = 0;
    load_bump(&w->opened);
    weir_hist_add(w->connect, now - c->connect_ns);
    if (!atomic_load_explicit(&w->run->opened, memory_order_relaxed))
        atomic_store(&w->run->opened, true);
    if (w->ended)
        weir_chan_close(ch, WEIR_ABORT);
    else if (!w->run->o->is_short || send_first(c))
        load_conn_pump(c, now);
}

static void start_connect(struct load_conn *c, uint64_t now) {
    const struct load_options *o = c->worker->run->o;
    uint64_t ms = (o->timeout_ns + 999999) / 1000000;
    struct weir_client_options options = {
        .size = sizeof options,
        .address = o->address,
        .stages = &c->stage,
        .n_stages = 1,
        .connect_ms = ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX,
        .socket = o->socket,
    };
    c->state = LOAD_CONNECTING;
    c->connect_ns = now;
    int rc = weir_connect(c->worker->loop, &options, connected, c);
    if (rc < 0)
        connect_failed(c, rc);
}

void load_conn_stop(struct load_conn *c) {
    weir_timer_disarm(&c->again);
    weir_timer_disarm(&c->watch);
    if (c->chan)
        weir_chan_close(c->chan, c->in_flight ? WEIR_ABORT : WEIR_DRAIN);
}

void load_conn_init(struct load_conn *c, struct load_worker *w, struct load_slot *slots,
                    uint32_t index) {
    const struct load_options *o = w->run->o;
    *c = (struct load_conn){.worker = w, .index = index, .slots = slots};
    for (unsigned i = o->in_flight; i-- > 0;) {
        slots[i] = (struct load_slot){.conn = c, .next = c->free};
        c->free = &slots[i];
    }
    c->left = load_options_share(o, &o->requests, index);
    c->warm_left = o->warmup.count ? load_options_share(o, &o->warmup, index) : 0;
    w->run->protocol->prepare(c);
}
