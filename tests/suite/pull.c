/* Pull: output that comes into being only when the transport can take it. */
#include "suite/suite.h"

enum { KIB = 1024 };

static const struct weir_limits fixed = {.batch_bytes = 64 * KIB};

/* What is asked for, until the goal is reached. */
static int64_t give(struct actor *a, uint64_t room) {
    struct weir_chan_counters n = counters_of(a);
    uint64_t left = a->goal - a->poured, cut = left < room ? left : room;
    demand(a->pair, n.inflight == 0 && room > 0 && room <= 64 * KIB);
    if (!cut)
        return 0;
    int rc = pour(a, cut);
    return rc < 0 ? rc : (int64_t)cut;
}

static int ready_open(struct actor *a) {
    ready_it(a);
    return 0;
}

static void whole_batches(struct pair *p) {
    struct actor s = {.pattern = true};
    struct actor c = {
        .open = ready_open, .pull = give, .goal = 1024 * KIB, .hush_marks = true, .limits = fixed};
    link_up(p, &s, &c);
    until(p, s.got == c.goal && c.pulls >= 17);
    pair_settle(p);
    note(&c, "pulls %u", c.pulls); /* 16 batches, and one that found nothing */
    demand(p, c.max_queued <= 64 * KIB);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 1048576 ok; eof clean; close 0", &c, "open; pulls 17; close 0");
    pair_close(p);
}

static int64_t give_small(struct actor *a, uint64_t room) {
    (void)room;
    if (a->poured == a->goal)
        return 0;
    return pour(a, 10000) < 0 ? WEIR_EBUG : 10000;
}

/* Small units are asked for until the batch is full, so that a flight is never one unit only. */
static void small_units_fill_a_batch(struct pair *p) {
    struct actor s = {.pattern = true};
    struct actor c = {.open = ready_open,
                      .pull = give_small,
                      .goal = 700000,
                      .hush_marks = true,
                      .limits = fixed};
    link_up(p, &s, &c);
    until(p, s.got == c.goal && c.pulls >= 71);
    pair_settle(p);
    demand(p, p->side[CLIENT].io->stats.sends <= 12);
    note(&c, "pulls %u", c.pulls);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 700000 ok; eof clean; close 0", &c, "open; pulls 71; close 0");
    pair_close(p);
}

static void post_ready(struct weir_loop *l, void *user) {
    (void)l;
    ready_it(user);
}

static void ready_from_elsewhere(struct pair *p) {
    struct actor s = {.pattern = true}, c = {.pull = give, .goal = 5000, .limits = fixed};
    link_up(p, &s, &c);
    pair_settle(p);
    demand(p, c.pulls == 0);
    demand(p, weir_loop_post(p->side[CLIENT].loop, post_ready, &c) == 0);
    until(p, s.got == 5000);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 5000 ok; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static void empty_then_ready_again(struct pair *p) {
    struct actor s = {.pattern = true}, c = {.open = ready_open, .pull = give, .limits = fixed};
    link_up(p, &s, &c);
    for (unsigned i = 1; i <= 5; i++) {
        until(p, c.pulls >= 2 * i - 1);
        pair_settle(p);
        demand(p, c.pulls == 2 * i - 1);
        c.goal += 1000;
        ready_it(&c);
        until(p, s.got == c.goal);
    }
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 5000 ok; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static int ready_and_close(struct actor *a) {
    ready_it(a);
    close_it(a, WEIR_DRAIN);
    return 0;
}

static void draining_pulls_what_is_ready(struct pair *p) {
    struct actor s = {.pattern = true};
    struct actor c = {.open = ready_and_close,
                      .pull = give,
                      .goal = 512 * KIB,
                      .hush_marks = true,
                      .limits = fixed};
    serve(p, SERVER, &s);
    dial(p, CLIENT, &c);
    expect_end(p, &s, "open; read 524288 ok; eof clean; close 0", &c,
               "open; connect ECANCELLED; close 0");
    pair_close(p);
}

static void shutdown_pulls_what_is_ready(struct pair *p) {
    struct actor s = {.pattern = true};
    struct actor c = {.pull = give, .goal = 512 * KIB, .hush_marks = true, .limits = fixed};
    link_up(p, &s, &c);
    c.limits.half_open = true;
    ready_it(&c);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 524288 ok; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static int64_t give_once_then_break(struct actor *a, uint64_t room) {
    (void)room;
    if (a->poured)
        return WEIR_EPROTO;
    return pour(a, 100) < 0 ? WEIR_EBUG : 100;
}

static void an_error_closes(struct pair *p) {
    struct actor s = {.pattern = true};
    struct actor c = {.pull = give_once_then_break, .limits = fixed};
    link_up(p, &s, &c);
    ready_it(&c);
    expect_end(p, &s, "open; read 100 ok; eof clean; close 0", &c, "open; close EPROTO");
    pair_close(p);
}

static void pulled_to_a_slow_reader(struct pair *p) {
    struct actor s = {.pattern = true};
    struct actor c = {
        .open = ready_open, .pull = give, .goal = 12 << 20, .hush_marks = true, .limits = fixed};
    link_up(p, &s, &c);
    credit_it(&s, 0);
    pair_settle(p);
    demand(p, c.poured < c.goal && counters_of(&c).queued == 0);
    demand(p, c.max_held <= 2 * 64 * KIB + WEIR__IO_RECV_BYTES);
    credit_it(&s, -1);
    until(p, s.got == c.goal);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 12582912 ok; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static void pulled_and_pushed(struct pair *p) {
    struct actor s = {.pattern = true}, c = {.pull = give, .hush_marks = true, .limits = fixed};
    link_up(p, &s, &c);
    for (int i = 0; i < 20; i++) {
        demand(p, pour(&c, 3000) == 0);
        c.goal = c.poured + 5000;
        ready_it(&c);
        until(p, c.poured == c.goal);
    }
    until(p, s.got == 20 * 8000);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 160000 ok; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

const struct suite_case suite_pull[] = {
    {"pull.whole_batches", whole_batches, ANYWHERE, WIDE_NET},
    {"pull.small_units", small_units_fill_a_batch, ANYWHERE, WIDE_NET},
    {"pull.ready_from_elsewhere", ready_from_elsewhere, ANYWHERE, {0}},
    {"pull.empty_then_ready", empty_then_ready_again, ANYWHERE, {0}},
    {"pull.while_draining", draining_pulls_what_is_ready, ANYWHERE, WIDE_NET},
    {"pull.before_the_end", shutdown_pulls_what_is_ready, ANYWHERE, WIDE_NET},
    {"pull.error_closes", an_error_closes, ANYWHERE, {0}},
    {"pull.slow_reader", pulled_to_a_slow_reader, ANYWHERE, WIDE_NET},
    {"pull.with_push", pulled_and_pushed, ANYWHERE, {0}},
    {0},
};
