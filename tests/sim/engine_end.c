/* What every callback of every handler is held to. */
#include "sim/engine.h"
#include <stdio.h>
#include <string.h>

enum {
    DISPATCHES = 16,
    RECEIVE_MAX = 64 * 1024,
    BATCH_MAX = 256 * 1024,
    PINNED_HELD_MAX = 8 * 1024 * 1024, /* half of what may be held by default */
    SURE_NS = 30000000,
};

static const char *name(const struct end *e) {
    static char text[80];
    snprintf(text, sizeof text, "conn %d (%s%s)", e->conn ? (int)e->conn->id : -1,
             engine_kind_names[e->kind], e->client ? " client" : "");
    return text;
}

struct end *engine_end_open(struct run *r, struct weir_ctx *c, enum kind k, bool client) {
    DEMAND(r->n_ends < ENDS_MAX, "more channels opened than connections were made");
    struct end *e = &r->ends[r->n_ends++];
    e->run = r;
    e->ctx = c;
    e->kind = k;
    e->client = client;
    e->open = true;
    e->credit = -1;
    e->own_only = !client && k != FOREIGN;
    e->ref = weir_chan_ref(weir_ctx_chan(c));
    e->last_ns = weir_sim_now(r->sim);
    for (unsigned i = 0; i < r->n_dead; i++)
        DEMAND(r->dead[i].v != e->ref.v, "a new channel has the ref of a dead one");
    *(struct end **)weir_ctx_state(c) = e;
    return e;
}

struct end *engine_end_of(struct weir_ctx *c) {
    return *(struct end **)weir_ctx_state(c);
}

static uint32_t batch_of(const struct run *r) {
    return r->limits.batch_bytes ? r->limits.batch_bytes : BATCH_MAX;
}

/* A handler sends at most a piece, or what one receive brought, once the mark allows it. */
static void look_at_bounds(struct end *e, const struct weir_chan_counters *n) {
    const struct run *r = e->run;
    uint64_t unit = r->weather.segment_max > PIECE_MAX ? r->weather.segment_max : PIECE_MAX;
    uint64_t high = r->limits.high_bytes;
    if (e->kind == SOURCE && high < batch_of(r))
        high = batch_of(r); /* a pull is asked for a batch */
    if (e->own_only) {
        DEMAND(n->queued < high + unit, "%s: %llu bytes queued over a high mark of %llu", name(e),
               (unsigned long long)n->queued, (unsigned long long)high);
        DEMAND(n->held <= 4 * (high + unit + batch_of(r)) + RECEIVE_MAX +
                              (n->pinned ? PINNED_HELD_MAX : 0),
               "%s: %llu bytes of memory held", name(e), (unsigned long long)n->held);
    }
    DEMAND(n->inflight <= batch_of(r), "%s: %llu bytes in flight, over the batch", name(e),
           (unsigned long long)n->inflight);
    DEMAND(n->leftover <= (DISPATCHES + 2) * (uint64_t)r->weather.segment_max + RECEIVE_MAX / 8,
           "%s: %llu bytes of leftover: a pause does not pause", name(e),
           (unsigned long long)n->leftover);
}

void engine_end_look(struct end *e) {
    struct weir_chan_counters n;
    DEMAND(e && e->open, "a callback of a handler that was never opened");
    DEMAND(!e->closed, "%s: a callback after close", name(e));
    weir_chan_counters(weir_ctx_chan(e->ctx), &n);
    look_at_bounds(e, &n);
    e->run->looks++;
    engine_deeds[DEED_PINNED] += n.pinned > 0;
    if (engine_chance(e->run, 200)) {
        weir_sim_burn(e->run->sim, engine_draw(e->run, 300));
        engine_deeds[DEED_BURNT]++;
    }
}

static void compare(struct end *e, const struct weir_chain *in, size_t n) {
    uint64_t at = e->got;
    DEMAND(at + n <= e->n_expect, "%s: %zu bytes at %llu, of %zu that were sent", name(e), n,
           (unsigned long long)at, e->n_expect);
    for (const struct weir_part *p = in->first; p && n; p = p->next) {
        size_t m = p->slice.n < n ? p->slice.n : n;
        DEMAND(!memcmp(p->slice.p, e->expect + at, m), "%s: other bytes than were sent, at %llu",
               name(e), (unsigned long long)at);
        at += m;
        n -= m;
    }
}

void engine_end_take(struct end *e, struct weir_chain *in, size_t n, struct weir_chain *out) {
    DEMAND(!e->eof, "%s: bytes after the end of the stream", name(e));
    DEMAND(n <= in->bytes, "%s: read called with fewer bytes than wanted", name(e));
    compare(e, in, n);
    e->got += n;
    e->last_ns = weir_sim_now(e->run->sim);
    if (!out)
        weir_chain_drop(in, n);
    else if (n == in->bytes)
        weir_chain_append(out, in);
    else
        DEMAND(weir_chain_move(weir_ctx_mem(e->ctx), out, in, n) == 0, "no memory for a cut");
}

/* --- output ---------------------------------------------------------------------------------- */

static void look_at_mark(struct end *e) {
    struct weir_chan_counters n;
    weir_chan_counters(weir_ctx_chan(e->ctx), &n);
    int64_t room = weir_ctx_room(e->ctx);
    if (room <= 0)
        e->full = true;
    else
        DEMAND(n.queued < e->run->limits.high_bytes, "%s: room above the high mark", name(e));
}

/* Some time after the peer has reset, a send fails, and the next one must not be accepted. */
static void look_at_doom(struct end *e) {
    uint64_t reset = e->conn ? e->conn->reset_ns : 0;
    if (e->client || !reset || e->last_ns < reset + SURE_NS)
        return;
    DEMAND(!e->doomed_ns || e->last_ns < e->doomed_ns + SURE_NS,
           "%s: a send is accepted long after the peer has gone", name(e));
    if (!e->doomed_ns)
        e->doomed_ns = e->last_ns;
}

int engine_end_send(struct end *e, struct weir_chain *out) {
    uint64_t n = out->bytes;
    int rc = weir_ctx_send(e->ctx, out);
    if (e->shut)
        DEMAND(rc == WEIR_EGONE || n == 0, "%s: a send after shutdown answers %d", name(e), rc);
    if (rc < 0) {
        DEMAND(out->bytes == n, "%s: a refused send took its bytes", name(e));
        weir_chain_fini(out);
        return rc;
    }
    DEMAND(out->bytes == 0, "%s: an accepted send left bytes", name(e));
    e->sent += n;
    e->last_ns = weir_sim_now(e->run->sim);
    look_at_doom(e);
    if (!e->draining)
        look_at_mark(e);
    return 0;
}

int engine_end_write(struct end *e, const uint8_t *from, size_t n) {
    struct weir_chain out = {0};
    engine_chain(weir_ctx_loop(e->ctx), &out, from + e->sent, n);
    return engine_end_send(e, &out);
}

void engine_chain(struct weir_loop *l, struct weir_chain *out, const uint8_t *bytes, size_t n) {
    DEMAND(weir_chain_write(weir_loop_mem(l), out, bytes, n) == 0, "no memory for a message");
}

void engine_end_writable(struct end *e, bool yes) {
    struct weir_chan_counters n;
    engine_end_look(e);
    weir_chan_counters(weir_ctx_chan(e->ctx), &n);
    if (e->own_only)
        DEMAND(e->full, "%s: writable(%d) and was never full", name(e), yes);
    if (!yes) {
        DEMAND(!e->told_full, "%s: full was told twice", name(e));
        DEMAND(n.queued > e->run->limits.low_bytes, "%s: full at its low mark", name(e));
        engine_deeds[DEED_FULL]++;
    } else {
        DEMAND(n.queued <= e->run->limits.low_bytes, "%s: writable above its low mark", name(e));
        e->full = false;
    }
    e->told_full = !yes;
}

/* --- the end --------------------------------------------------------------------------------- */

void engine_end_eof(struct end *e, bool clean) {
    const struct conn *c = e->conn;
    engine_end_look(e);
    DEMAND(!e->eof, "%s: the stream ended twice", name(e));
    e->eof = true;
    e->clean = clean;
    if (!c) {
        DEMAND(!clean || e->run->storm || e->got == 0, "%s: clean within the head", name(e));
        return;
    }
    if (e->run->storm || e->run->halted || c->breaks)
        return;
    if (!e->client && c->habit == TRUNCATE && c->kind == FRAMED) {
        DEMAND(!clean, "%s: a stream that ended inside a frame is called clean", name(e));
        return;
    }
    DEMAND(e->client || c->shut, "%s: an end that nobody sent", name(e));
    DEMAND(clean, "%s: an unclean end of a whole stream", name(e));
    DEMAND(e->got == e->n_expect || (e->client && c->habit == AWAY_CLOSE),
           "%s: the stream ended after %llu bytes of %zu", name(e), (unsigned long long)e->got,
           e->n_expect);
}

void engine_end_event(struct end *e, int what) {
    engine_end_look(e);
    if (what != WEIR_EVENT_DRAIN)
        return;
    e->drains++;
    e->draining = true;
    DEMAND(e->drains == 1, "%s: the end began %u times", name(e), e->drains);
    if (engine_chance(e->run, 4))
        weir_chan_close(weir_ctx_chan(e->ctx), WEIR_DRAIN); /* it ends already */
}

static void bury(struct end *e) {
    struct run *r = e->run;
    struct weir_chain c = {0};
    if (r->n_dead < DEAD_MAX)
        r->dead[r->n_dead++] = e->ref;
    engine_chain(weir_ctx_loop(e->ctx), &c, (const uint8_t *)"dead", 4);
    DEMAND(weir_send(e->ref, &c) == WEIR_EGONE, "%s: its ref lives after its close", name(e));
    weir_chain_fini(&c);
    DEMAND(weir_close(e->ref, WEIR_ABORT) == WEIR_EGONE, "%s: its ref lives after its close",
           name(e));
}

void engine_end_close(struct end *e, int why) {
    struct weir_chan_counters n;
    engine_end_look(e);
    weir_chan_counters(weir_ctx_chan(e->ctx), &n);
    DEMAND(n.inflight == 0, "%s: closed with bytes in flight", name(e));
    DEMAND(n.pinned == 0, "%s: closed with bytes pinned", name(e));
    e->why = why;
    e->closed = true;
    weir_timer_disarm(&e->timer);
    engine_say("%s closed: %s, got %llu, sent %llu", name(e), weir_errname(why),
               (unsigned long long)e->got, (unsigned long long)e->sent);
    bury(e);
    struct conn *heir = e->conn && !e->client ? e->conn->heir : NULL;
    if (heir && !heir->begun && !e->run->halted)
        engine_client_begin_here(heir, weir_ctx_loop(e->ctx));
}

void engine_end_later(struct end *e, uint64_t us, void (*fn)(struct weir_timer *t)) {
    struct weir_loop *l = weir_ctx_loop(e->ctx);
    weir_timer_arm(l, &e->timer, weir_loop_now(l) + us * 1000, fn);
}

/* --- jobs ------------------------------------------------------------------------------------ */

void engine_job_taken(struct run *r) {
    r->jobs_taken++;
}

void engine_job_done(struct run *r, int status, bool ran) {
    r->jobs_done++;
    DEMAND(r->jobs_done <= r->jobs_taken, "a job is done twice");
    DEMAND(status == 0 || status == WEIR_EGONE || status == WEIR_ESTOPPED, "a job ends with %s",
           weir_errname(status));
    DEMAND(ran == (status != WEIR_ESTOPPED), "a job that %s ends with %s",
           ran ? "ran" : "never ran", weir_errname(status));
    engine_deeds[status == 0            ? DEED_JOB_DONE
                 : status == WEIR_EGONE ? DEED_JOB_GONE
                                        : DEED_JOB_STOPPED]++;
}
