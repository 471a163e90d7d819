#include "differ/differ.h"
#include "base/assert.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { QUIET_ROUNDS = 48 };

/* --- gathers: what is handed to the door ----------------------------------------------------- */

/* One world runs at a time. */
static const struct weir__io_ops *real_ops;
static struct weir__io_ops counting_ops;
static struct gathers *counted;

static void count(const struct weir_chain *c) {
    counted->count[c->bytes]++;
    counted->total++;
    counted->bytes += c->bytes;
}

static int counting_send(struct weir__io *io, struct weir__io_sock *s, const struct weir_chain *c) {
    count(c);
    return real_ops->send(io, s, c);
}

static int counting_send_zc(struct weir__io *io, struct weir__io_sock *s,
                            const struct weir_chain *c) {
    count(c);
    return real_ops->send_zc(io, s, c);
}

static void count_gathers(struct weir__io *io, struct gathers *g) {
    counted = g;
    real_ops = io->ops;
    counting_ops = *io->ops;
    counting_ops.send = counting_send;
    counting_ops.send_zc = counting_send_zc;
    io->ops = &counting_ops;
}

/* --- turning --------------------------------------------------------------------------------- */

static bool pump(struct world *w) {
    bool moved = false;
    for (unsigned i = 0; i < w->plan->n_channels; i++)
        if (w->peers[i].world)
            moved |= peer_pump(&w->peers[i]);
    return moved;
}

static void step(struct world *w) {
    if (pump(w))
        w->pair.idle = 0;
    pair_step(&w->pair, __FILE__, __LINE__);
}

/* Nothing moves any more. Virtual time passes only as far as the network needs it. */
static void settle(struct world *w) {
    struct pair *p = &w->pair;
    if (p->net) {
        do
            pair_settle(p);
        while (pump(w));
        return;
    }
    pair_begin(p, "quiet");
    while (p->idle < QUIET_ROUNDS)
        step(w);
}

/* --- the barrier ----------------------------------------------------------------------------- */

static bool peer_is_done(const struct subject *s, const struct peer *p, const struct goal *g) {
    if (p->ping_left || (p->ping_n && p->got < p->ping_at))
        return false;
    return g->peer_idle || p->got == s->poured;
}

static bool reached(const struct world *w, unsigned i) {
    const struct goal *g = &w->plan->channels[i].turns[w->round].goal;
    const struct subject *s = &w->subjects[i];
    const struct peer *p = &w->peers[i];
    if (g->closed)
        return s->closed && p->end != PEER_OPEN;
    if (g->takes && s->in != g->taken)
        return false;
    return !g->sent || s->closed || (subject_has_sent(s) && peer_is_done(s, p, g));
}

static bool all_reached(const struct world *w) {
    for (unsigned i = 0; i < w->plan->n_channels; i++)
        if (!reached(w, i))
            return false;
    return true;
}

WEIR_PRINTF(2, 3) static void trace_add(struct trace *t, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(t->text + t->n, sizeof t->text - t->n, fmt, ap);
    va_end(ap);
    must(n >= 0 && t->n + (size_t)n < sizeof t->text);
    t->n += (size_t)n;
}

static void trace_state(struct trace *t, const struct subject *s, const struct peer *p) {
    static const char *const ends[] = {"open", "eof", "broken", "left"};
    trace_add(t, " in %llu%s", (unsigned long long)s->in, s->bad ? " BAD" : "");
    if (!s->closed) {
        struct weir_chan_counters n;
        weir_chan_counters(weir_ctx_chan(s->ctx), &n);
        trace_add(t, ", waiting %llu + %llu", (unsigned long long)n.queued,
                  (unsigned long long)n.inflight);
    }
    if (p->sip && p->end <= PEER_EOF)
        trace_add(t, ", out %llu of %llu", (unsigned long long)p->got,
                  (unsigned long long)s->poured);
    trace_add(t, "%s, peer %s\n", p->got_bad ? " BAD" : "", ends[p->end]);
}

static void trace_words(struct trace *t, const struct words *w) {
    trace_add(t, "%.*s", (int)w->n, w->text);
    if (w->more)
        trace_add(t, " and %u words %08x", w->more, w->hash);
    trace_add(t, " |");
}

/* The round's line. The two directions stand apart: their order is not promised. */
static void trace_round(struct world *w, unsigned i) {
    struct subject *s = &w->subjects[i];
    struct trace *t = &w->traces[i];
    trace_add(t, "#%u %s:", w->round, plan_says(&w->plan->channels[i].turns[w->round]));
    trace_words(t, &s->writes);
    if (s->pulls && !s->busy)
        trace_add(t, " %u pulls %08x |", s->pulls, (unsigned)(s->pulls_hash >> 32));
    trace_words(t, &s->reads);
    trace_state(t, s, &w->peers[i]);
    s->writes = s->reads = (struct words){0};
    s->pulls = 0;
    s->pulls_hash = 0;
}

static void barrier(struct world *w) {
    pair_begin(&w->pair, "the round's goal is reached");
    for (;;) {
        if (pump(w))
            w->pair.idle = 0;
        if (all_reached(w))
            break;
        pair_step(&w->pair, __FILE__, __LINE__);
    }
    settle(w);
    for (unsigned i = 0; i < w->plan->n_channels; i++)
        trace_round(w, i);
}

/* --- a script -------------------------------------------------------------------------------- */

static void open_channel(struct world *w, unsigned i) {
    struct pair *p = &w->pair;
    struct subject *s = &w->subjects[i];
    struct weir_stage stage = {&subject_handler, s};
    struct weir_server_options o = {.size = sizeof o,
                                    .address = "127.0.0.1:0",
                                    .stages = &stage,
                                    .n_stages = 1,
                                    .socket.sndbuf_bytes = SNDBUF_BYTES,
                                    .limits = w->plan->channels[i].limits};
    struct weir_server *server;
    *s = (struct subject){.world = w, .allow = UINT64_MAX, .unit = 1};
    demand(p, weir_serve(p->side[SERVER].group, &o, &server) >= 0);
    peer_open(&w->peers[i], w, weir_server_address(server));
    pair_begin(p, "the channel is open");
    while (!s->opened)
        step(w);
}

static void run_round(struct world *w) {
    for (unsigned i = 0; i < w->plan->n_channels; i++) {
        const struct turn *t = &w->plan->channels[i].turns[w->round];
        struct weir_loop *before = pair_act_as(&w->pair, SERVER);
        w->subjects[i].busy = t->also.deed != REST;
        subject_do(&w->subjects[i], &t->step);
        subject_do(&w->subjects[i], &t->also);
        weir__loop_enter(before);
        peer_do(&w->peers[i], &t->step);
        peer_do(&w->peers[i], &t->also);
    }
    barrier(w);
}

static void tell_where(const struct world *w) {
    for (unsigned i = 0; i < w->plan->n_channels; i++) {
        const struct goal *g = &w->plan->channels[i].turns[w->round].goal;
        const struct subject *s = &w->subjects[i];
        const struct peer *p = &w->peers[i];
        fprintf(stderr,
                "  channel %u: %s%.*s  now %s:%.*s |%.*s | in %llu (goal %llu%s), closed %d (%d), "
                "peer end %d, got %llu of %llu, sent %llu of %llu\n",
                i, reached(w, i) ? "" : "NOT THERE: ", (int)w->traces[i].n, w->traces[i].text,
                plan_says(&w->plan->channels[i].turns[w->round]), (int)s->writes.n, s->writes.text,
                (int)s->reads.n, s->reads.text, (unsigned long long)s->in,
                (unsigned long long)g->taken, g->takes ? "" : ", any", s->closed, g->closed, p->end,
                (unsigned long long)p->got, (unsigned long long)s->poured,
                (unsigned long long)p->sent, (unsigned long long)p->said);
    }
}

int world_run(struct world *w, const struct plan *plan, const struct pair_kind *kind,
              struct gathers *gathers, const char **why) {
    *why = "";
    memset(w, 0, sizeof *w);
    w->plan = plan;
    if (pair_open(&w->pair, kind, &plan->sim, why) < 0)
        return 0;
    if (setjmp(w->pair.escape)) {
        tell_where(w);
        return -1;
    }
    count_gathers(w->pair.side[SERVER].io, gathers);
    for (unsigned i = 0; i < plan->n_channels; i++)
        open_channel(w, i);
    for (w->round = 0; w->round < plan->n_rounds; w->round++)
        run_round(w);
    for (unsigned i = 0; i < plan->n_channels; i++)
        peer_close(&w->peers[i]);
    w->round--;
    pair_close(&w->pair);
    return 1;
}
