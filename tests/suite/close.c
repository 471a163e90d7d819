/* Closing: from every callback, twice, at once on both ends, in the middle of things. */
#include "suite/suite.h"
#include <string.h>

enum { MIB = 1024 * 1024 };

static int close_in_open(struct actor *a) {
    close_it(a, WEIR_DRAIN);
    return 0;
}

static void in_open(struct pair *p) {
    struct actor s = {.open = close_in_open}, c = {0};
    serve(p, SERVER, &s);
    dial(p, CLIENT, &c);
    expect_end(p, &s, "open; close 0", &c, "open; eof clean; close 0");
    pair_close(p);
}

static int say_and_close(struct actor *a) {
    say(a, "bye");
    close_it(a, WEIR_DRAIN);
    return 0;
}

static void said_in_open(struct pair *p) {
    struct actor s = {.open = say_and_close}, c = {0};
    serve(p, SERVER, &s);
    dial(p, CLIENT, &c);
    expect_end(p, &s, "open; close 0", &c, "open; read 3 'bye'; eof clean; close 0");
    pair_close(p);
}

static int abort_in_open(struct actor *a) {
    close_it(a, WEIR_ABORT);
    return 0;
}

/* Whether the client learns of its connection before it is reset is up to the transport. */
static void aborted_in_open(struct pair *p) {
    struct actor s = {.open = abort_in_open}, c = {0};
    serve(p, SERVER, &s);
    dial(p, CLIENT, &c);
    until(p, s.closes && c.answers && !c.ctx);
    expect(&s, "open; close ECANCELLED");
    if (c.opens)
        expect(&c, "open; close ERESET");
    else
        expect(&c, "connect ERESET");
    pair_close(p);
}

static int refuse(struct actor *a) {
    (void)a;
    return WEIR_ENOTSUP;
}

static void refused_by_open(struct pair *p) {
    struct actor s = {.open = refuse}, c = {0};
    serve(p, SERVER, &s);
    dial(p, CLIENT, &c);
    expect_end(p, &s, "open", &c, "open; eof clean; close 0");
    pair_close(p);
}

static int close_in_read(struct actor *a, struct weir_chain *in) {
    actor_take(a, in, in->bytes);
    if (a->got == 5)
        close_it(a, WEIR_DRAIN);
    return 0;
}

static void in_read(struct pair *p) {
    struct actor s = {.read = close_in_read}, c = {0};
    link_up(p, &s, &c);
    credit_it(&s, 0);
    pair_settle(p);
    say(&c, "hello and more than it takes");
    pair_settle(p);
    credit_it(&s, 5); /* a whole 'hello' on every door */
    until(p, s.got == 5);
    expect_end(p, &s, "open; read 5 'hello'; close 0", &c, "open; eof clean; close 0");
    pair_close(p);
}

static int abort_in_read(struct actor *a, struct weir_chain *in) {
    actor_take(a, in, 1);
    close_it(a, WEIR_ABORT);
    return 0;
}

static void aborted_in_read(struct pair *p) {
    struct actor s = {.read = abort_in_read}, c = {0};
    link_up(p, &s, &c);
    say(&c, "x");
    expect_end(p, &s, "open; read 1 'x'; close ECANCELLED", &c, "open; close ERESET");
    pair_close(p);
}

static void close_and_again(struct actor *a) {
    close_it(a, WEIR_DRAIN);
    close_it(a, WEIR_DRAIN);
}

static void in_eof(struct pair *p) {
    struct actor s = {.eof = close_and_again}, c = {0};
    link_up(p, &s, &c);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static void abort_it(struct actor *a) {
    close_it(a, WEIR_ABORT);
}

static void aborted_in_eof(struct pair *p) {
    struct actor s = {.eof = abort_it}, c = {.limits = {.half_open = true}};
    link_up(p, &s, &c);
    shut_it(&c);
    expect_end(p, &s, "open; eof clean; close ECANCELLED", &c, "open; close ERESET");
    pair_close(p);
}

static void in_read_done(struct pair *p) {
    struct actor s = {.read_done = close_and_again}, c = {0};
    link_up(p, &s, &c);
    say(&c, "x");
    expect_end(p, &s, "open; read 1 'x'; close 0", &c, "open; eof clean; close 0");
    pair_close(p);
}

static void close_on_edge(struct actor *a, bool yes) {
    if (yes == (a->goal != 0))
        close_it(a, WEIR_DRAIN);
}

static void in_full(struct pair *p) {
    struct actor s = {.pattern = true};
    struct actor c = {.writable = close_on_edge, .limits = {.batch_bytes = 65536}};
    link_up(p, &s, &c);
    demand(p, pour(&c, 200000) == 0);
    expect_end(p, &s, "open; read 200000 ok; eof clean; close 0", &c, "open; full; close 0");
    pair_close(p);
}

static void in_writable(struct pair *p) {
    struct actor s = {.pattern = true};
    struct actor c = {.writable = close_on_edge, .goal = 1, .limits = {.batch_bytes = 65536}};
    link_up(p, &s, &c);
    demand(p, pour(&c, 200000) == 0);
    expect_end(p, &s, "open; read 200000 ok; eof clean; close 0", &c,
               "open; full; writable; close 0");
    pair_close(p);
}

static void everything_in_close(struct actor *a) {
    close_it(a, WEIR_DRAIN);
    close_it(a, WEIR_ABORT);
    credit_it(a, 5);
    shut_it(a);
    ready_it(a);
    wake_it(a);
    demand(a->pair, say(a, "too late") == WEIR_EGONE);
}

static void in_close(struct pair *p) {
    struct actor s = {.close = everything_in_close}, c = {.close = everything_in_close};
    link_up(p, &s, &c);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static void twice(struct pair *p) {
    struct actor s = {0}, c = {0};
    link_up(p, &s, &c);
    for (int i = 0; i < 3; i++)
        close_it(&c, WEIR_DRAIN);
    demand(p, say(&c, "x") == WEIR_EGONE);
    until(p, c.closes);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static int zero_credit(struct actor *a) {
    credit_it(a, 0);
    return 0;
}

static void drained_then_aborted(struct pair *p) {
    struct actor s = {.open = zero_credit, .pattern = true}, c = {.hush_marks = true};
    link_up(p, &s, &c);
    c.limits.drain_ms = 60000;
    demand(p, pour(&c, 14 * MIB) == 0);
    close_it(&c, WEIR_DRAIN);
    pair_settle(p);
    expect(&c, "open");
    close_it(&c, WEIR_ABORT);
    until(p, c.closes);
    expect(&c, "open; close ECANCELLED");
    credit_it(&s, -1);
    until(p, s.closes);
    demand(p, s.why == WEIR_ERESET && s.got < 14 * MIB && s.eofs == 0);
    pair_close(p);
}

static void aborted_with_a_send_in_flight(struct pair *p) {
    struct actor s = {.open = zero_credit, .pattern = true}, c = {.hush_marks = true};
    link_up(p, &s, &c);
    demand(p, pour(&c, 14 * MIB) == 0);
    pair_settle(p);
    until(p, counters_of(&c).inflight > 0);
    close_it(&c, WEIR_ABORT);
    until(p, c.closes);
    expect(&c, "open; close ECANCELLED");
    credit_it(&s, -1);
    until(p, s.closes);
    demand(p, s.why == WEIR_ERESET && s.eofs == 0);
    pair_close(p);
}

/* A transport may have lost the reason of a failed send: then it is EIO. */
static void the_peer_resets_while_we_send(struct pair *p) {
    struct actor s = {.open = zero_credit}, c = {.hush_marks = true};
    link_up(p, &s, &c);
    demand(p, pour(&c, 14 * MIB) == 0);
    pair_settle(p);
    close_it(&s, WEIR_ABORT);
    until(p, s.closes && c.closes);
    expect(&s, "open; close ECANCELLED");
    demand(p, c.why == WEIR_ERESET || c.why == WEIR_EIO);
    demand(p, c.eofs == 0 && c.got == 0);
    pair_close(p);
}

/* What the peer sent before it reset us is read, although our own sending failed first. */
static void the_peer_answers_and_resets(struct pair *p) {
    struct actor s = {.open = zero_credit},
                 c = {.hush_marks = true, .limits = {.read_while_full = true}};
    link_up(p, &s, &c);
    demand(p, pour(&c, 14 * MIB) == 0);
    pair_settle(p);
    credit_it(&c, 0);
    pair_settle(p);
    say(&s, "stop it");
    pair_settle(p);
    credit_it(&c, -1);
    until(p, c.got == 7);
    close_it(&s, WEIR_ABORT);
    until(p, s.closes && c.closes);
    demand(p, c.got == 7 && c.eofs == 0);
    pair_close(p);
}

/* Closing with unread input must not reset what was just answered: input is discarded until the
 * peer ends. */
static void an_answer_survives_unread_input(struct pair *p) {
    struct actor s = {.open = zero_credit},
                 c = {.hush_marks = true, .limits = {.read_while_full = true}};
    link_up(p, &s, &c);
    demand(p, pour(&c, 300000) == 0);
    pair_settle(p);
    say(&s, "go away");
    close_it(&s, WEIR_DRAIN);
    expect_end(p, &s, "open; close 0", &c, "open; read 7 'go away'; eof clean; close 0");
    pair_close(p);
}

static void both_at_once(struct pair *p) {
    struct actor s = {0}, c = {0};
    link_up(p, &s, &c);
    close_it(&s, WEIR_DRAIN);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; close 0", &c, "open; close 0");
    pair_close(p);
}

static void both_abort_at_once(struct pair *p) {
    struct actor s = {0}, c = {0};
    link_up(p, &s, &c);
    pair_settle(p);
    close_it(&s, WEIR_ABORT);
    close_it(&c, WEIR_ABORT);
    expect_end(p, &s, "open; close ECANCELLED", &c, "open; close ECANCELLED");
    pair_close(p);
}

static void both_with_bytes_under_way(struct pair *p) {
    struct actor s = {.pattern = true, .hush_marks = true}, c = s;
    link_up(p, &s, &c);
    demand(p, pour(&s, 200000) == 0 && pour(&c, 200000) == 0);
    close_it(&s, WEIR_DRAIN);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; close 0", &c, "open; close 0");
    pair_close(p);
}

/* --- lingering ------------------------------------------------------------------------------- */

static void linger_ends_with_the_peer(struct pair *p) {
    struct actor s = {.limits = {.linger_ms = 3600 * 1000}}, c = {.limits = {.half_open = true}};
    link_up(p, &s, &c);
    close_it(&s, WEIR_DRAIN);
    until(p, c.eofs);
    pair_settle(p);
    expect(&s, "open");
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; close 0", &c, "open; eof clean; close 0");
    pair_close(p);
}

static void linger_ends_in_time(struct pair *p) {
    struct actor s = {.limits = {.linger_ms = 30}}, c = {.limits = {.half_open = true}};
    link_up(p, &s, &c);
    uint64_t began = pair_now_ns(p);
    close_it(&s, WEIR_DRAIN);
    until(p, s.closes);
    demand(p, pair_now_ns(p) - began >= UINT64_C(29000000));
    expect(&s, "open; close 0");
    pair_settle(p);
    close_it(&c, WEIR_ABORT);
    until(p, c.closes);
    pair_close(p);
}

static void linger_ends_after_so_many_bytes(struct pair *p) {
    struct actor s = {.limits = {.linger_ms = 3600 * 1000}};
    struct actor c = {.hush_marks = true, .limits = {.half_open = true}};
    link_up(p, &s, &c);
    close_it(&s, WEIR_DRAIN);
    until(p, c.eofs);
    demand(p,
           pour(&c, 14 * MIB) == 0); /* more than the transport holds: it must hear of the reset */
    until(p, s.closes && c.closes);
    expect(&s, "open; close 0");
    demand(p, c.why == WEIR_ERESET || c.why == WEIR_EIO);
    pair_close(p);
}

static void draining_has_a_deadline(struct pair *p) {
    struct actor s = {.hush_marks = true, .limits = {.drain_ms = 30}};
    struct actor c = {.open = zero_credit};
    link_up(p, &s, &c);
    demand(p, pour(&s, 14 * MIB) == 0);
    close_it(&s, WEIR_DRAIN);
    until(p, s.closes);
    expect(&s, "open; close ETIMEDOUT");
    credit_it(&c, -1);
    until(p, c.closes);
    demand(p, c.why == WEIR_ERESET);
    pair_close(p);
}

static void fails_with_a_reason(struct pair *p) {
    struct actor s = {0}, c = {0};
    link_up(p, &s, &c);
    say(&s, "sorry");
    pair_act_as(p, SERVER);
    weir_chan_fail(weir_ctx_chan(s.ctx), WEIR_ETOOBIG);
    weir__loop_enter(NULL);
    expect_end(p, &s, "open; close ETOOBIG", &c, "open; read 5 'sorry'; eof clean; close 0");
    pair_close(p);
}

const struct suite_case suite_close[] = {
    {"close.in_open", in_open, ANYWHERE, {0}},
    {"close.said_in_open", said_in_open, ANYWHERE, {0}},
    {"close.aborted_in_open", aborted_in_open, RESETS, {0}},
    {"close.open_refuses", refused_by_open, ANYWHERE, {0}},
    {"close.in_read", in_read, ANYWHERE, {0}},
    {"close.aborted_in_read", aborted_in_read, RESETS, {0}},
    {"close.in_eof", in_eof, ANYWHERE, {0}},
    {"close.aborted_in_eof", aborted_in_eof, RESETS, {0}},
    {"close.in_read_done", in_read_done, ANYWHERE, {0}},
    {"close.in_full", in_full, ANYWHERE, {0}},
    {"close.in_writable", in_writable, ANYWHERE, {0}},
    {"close.everything_in_close", in_close, ANYWHERE, {0}},
    {"close.twice", twice, ANYWHERE, {0}},
    {"close.drained_then_aborted", drained_then_aborted, RESETS, WIDE_NET},
    {"close.aborted_in_flight", aborted_with_a_send_in_flight, RESETS, WIDE_NET},
    {"close.peer_resets_while_sending", the_peer_resets_while_we_send, ANYWHERE, WIDE_NET},
    {"close.peer_answers_and_resets", the_peer_answers_and_resets, ANYWHERE, WIDE_NET},
    {"close.answer_survives_unread_input", an_answer_survives_unread_input, ANYWHERE, WIDE_NET},
    {"close.both_at_once", both_at_once, ANYWHERE, {0}},
    {"close.both_abort_at_once", both_abort_at_once, ANYWHERE, {0}},
    {"close.both_with_bytes_under_way", both_with_bytes_under_way, ANYWHERE, WIDE_NET},
    {"linger.ends_with_the_peer", linger_ends_with_the_peer, ANYWHERE, {0}},
    {"linger.ends_in_time", linger_ends_in_time, ANYWHERE, {0}},
    {"linger.ends_after_bytes", linger_ends_after_so_many_bytes, ANYWHERE, WIDE_NET},
    {"close.drain_deadline", draining_has_a_deadline, RESETS, WIDE_NET},
    {"close.fail_with_reason", fails_with_a_reason, ANYWHERE, {0}},
    {0},
};
