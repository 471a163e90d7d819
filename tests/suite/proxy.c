/* A proxy inside one loop: what it holds per direction is its marks, one gather and one receive
 * buffer, whatever source and sink do.
 *
 *   source (client loop) --> front | back (server loop) --> sink (client loop) */
#include "suite/suite.h"
#include <string.h>

enum { KIB = 1024, MIB = 1024 * 1024, HIGH = 64 * KIB };

static const struct weir_limits marks = {
    .high_bytes = HIGH, .batch_bytes = 64 * KIB, .read_while_full = true};

/* As much as the other side has room for; the rest is left, and offered again when it has. */
static int relay(struct actor *a, struct weir_chain *in) {
    struct weir_chain out = {0};
    int64_t room = room_of(a->other);
    uint64_t n = room < 0 ? 0 : (uint64_t)room < in->bytes ? (uint64_t)room : in->bytes;
    if (!n)
        return 0;
    a->got += n;
    demand(a->pair, weir_chain_move(weir_ctx_mem(a->ctx), &out, in, n) == 0);
    int rc = send_chain(a->other, &out);
    return rc == WEIR_EGONE ? 0 : rc; /* its close ends this side */
}

static void go_on(struct actor *a, bool yes) {
    if (yes)
        wake_it(a->other);
}

static void pass_the_end(struct actor *a) {
    shut_it(a->other); /* when both directions have ended, both close */
}

static int wait_for_back(struct actor *a) {
    credit_it(a, 0);
    return 0;
}

static void back_is_there(struct actor *a, struct weir_chan *ch) {
    demand(a->pair, ch != NULL);
    credit_it(a->other, -1);
}

struct proxy {
    struct actor front, back, source, sink;
};

static void proxy_open(struct pair *p, struct proxy *x) {
    struct weir_limits limits = marks;
    limits.half_open = true;
    x->front = (struct actor){.open = wait_for_back,
                              .read = relay,
                              .writable = go_on,
                              .eof = pass_the_end,
                              .other = &x->back,
                              .limits = limits,
                              .hush_marks = true};
    x->back = (struct actor){.read = relay,
                             .writable = go_on,
                             .eof = pass_the_end,
                             .connected = back_is_there,
                             .other = &x->front,
                             .limits = limits,
                             .hush_marks = true};
    serve(p, CLIENT, &x->sink);
    char sink[sizeof p->address];
    memcpy(sink, p->address, sizeof sink);
    serve(p, SERVER, &x->front);
    dial(p, CLIENT, &x->source);
    until(p, x->front.opens && x->source.answers);
    memcpy(p->address, sink, sizeof sink);
    dial(p, SERVER, &x->back);
    until(p, x->sink.opens && x->back.answers);
}

static void demand_bounds(struct pair *p, const struct proxy *x) {
    const struct actor *ends[2] = {&x->front, &x->back};
    for (int i = 0; i < 2; i++) {
        demand(p, ends[i]->max_queued <= HIGH);
        demand(p, ends[i]->max_inflight <= 64 * KIB);
        demand(p, ends[i]->max_leftover <= WEIR__IO_RECV_BYTES);
        /* Slices that use a quarter of their buffer or more are not copied out. */
        demand(p, ends[i]->max_held <= 4 * (HIGH + 64 * KIB));
    }
}

static void refill(struct actor *a, bool yes) {
    if (yes && pour_to_goal(a) == 0 && a->poured == a->goal)
        shut_it(a);
}

static void drain_it(struct actor *a) {
    close_it(a, WEIR_DRAIN);
}

static void a_slow_sink(struct pair *p) {
    enum { TOTAL = 24 * MIB };
    struct proxy x = {.source = {.goal = TOTAL, .writable = refill, .hush_marks = true},
                      .sink = {.pattern = true, .open = wait_for_back}};
    x.source.limits.half_open = true;
    x.source.eof = drain_it;
    proxy_open(p, &x);
    pour_to_goal(&x.source);
    pair_settle(p);
    demand(p, x.source.poured < TOTAL); /* the standstill goes back to the source */
    until(p, room_of(&x.back) <= 0);
    for (uint64_t got = 0; got < TOTAL; got = x.sink.got) {
        credit_it(&x.sink, 2 * MIB);
        until(p, x.sink.got == got + 2 * MIB);
    }
    credit_it(&x.sink, -1);
    until(p, x.sink.closes && x.source.closes && x.front.closes && x.back.closes);
    demand_bounds(p, &x);
    expect(&x.sink, "open; read 25165824 ok; eof clean; close 0");
    expect(&x.source, "open; eof clean; close 0");
    expect(&x.front, "open; eof clean; close 0");
    expect(&x.back, "open; eof clean; close 0");
    pair_close(p);
}

static void both_directions(struct pair *p) {
    enum { TOTAL = 4 * MIB };
    struct proxy x = {
        .source = {.goal = TOTAL, .writable = refill, .hush_marks = true, .pattern = true},
        .sink = {.goal = TOTAL, .writable = refill, .hush_marks = true, .pattern = true}};
    x.source.limits = x.sink.limits = (struct weir_limits){.half_open = true,
                                                           .read_while_full = true};
    proxy_open(p, &x);
    pour_to_goal(&x.source);
    pour_to_goal(&x.sink);
    until(p, x.sink.eofs && x.source.eofs);
    close_it(&x.source, WEIR_DRAIN);
    close_it(&x.sink, WEIR_DRAIN);
    until(p, x.front.closes && x.back.closes && x.sink.closes && x.source.closes);
    demand_bounds(p, &x);
    expect(&x.sink, "open; read 4194304 ok; eof clean; close 0");
    expect(&x.source, "open; read 4194304 ok; eof clean; close 0");
    demand(p, x.front.why == 0 && x.back.why == 0);
    pair_close(p);
}

static void abort_other(struct actor *a) {
    close_it(a->other, WEIR_ABORT);
}

static void a_sink_that_dies(struct pair *p) {
    struct proxy x = {.source = {.goal = UINT64_MAX, .writable = refill, .hush_marks = true},
                      .sink = {.pattern = true}};
    proxy_open(p, &x);
    x.back.close = abort_other;
    pour_to_goal(&x.source);
    until(p, x.sink.got > MIB);
    close_it(&x.sink, WEIR_ABORT);
    until(p, x.source.closes && x.front.closes && x.back.closes && x.sink.closes);
    demand(p, x.back.why == WEIR_ERESET || x.back.why == WEIR_EIO);
    demand(p, x.source.why == WEIR_ERESET || x.source.why == WEIR_EIO);
    demand(p, x.front.why == WEIR_ECANCELLED);
    demand_bounds(p, &x);
    pair_close(p);
}

const struct suite_case suite_proxy[] = {
    {"proxy.slow_sink", a_slow_sink, ANYWHERE, WIDE_NET},
    {"proxy.both_directions", both_directions, ANYWHERE, WIDE_NET},
    {"proxy.sink_dies", a_sink_that_dies, RESETS, WIDE_NET},
    {0},
};
