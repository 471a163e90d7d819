/* Order: bytes, then their end, then an error. */
#include "suite/suite.h"
#include <stdio.h>
#include <unistd.h>

static int echo(struct actor *a, struct weir_chain *in) {
    struct weir_chain out = {0};
    weir_chain_append(&out, in);
    return send_chain(a, &out);
}

static int say_welcome(struct actor *a) {
    return say(a, "welcome");
}

static void drain_it(struct actor *a) {
    close_it(a, WEIR_DRAIN);
}

static void hello(struct pair *p) {
    struct actor s = {0}, c = {0};
    link_up(p, &s, &c);
    say(&c, "hello");
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 5 'hello'; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static void echoed(struct pair *p) {
    struct actor s = {.read = echo}, c = {0};
    link_up(p, &s, &c);
    say(&c, "ping");
    until(p, c.got == 4);
    say(&c, "pong");
    until(p, c.got == 8);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; eof clean; close 0", &c, "open; read 8 'pingpong'; close 0");
    pair_close(p);
}

static void the_server_speaks_first(struct pair *p) {
    struct actor s = {.open = say_welcome}, c = {0};
    link_up(p, &s, &c);
    until(p, c.got == 7);
    close_it(&s, WEIR_DRAIN);
    expect_end(p, &s, "open; close 0", &c, "open; read 7 'welcome'; eof clean; close 0");
    pair_close(p);
}

static void many_small_writes(struct pair *p) {
    struct actor s = {.pattern = true}, c = {0};
    link_up(p, &s, &c);
    for (int i = 0; i < 1000; i++)
        demand(p, pour(&c, 7) == 0);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 7000 ok; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static void small_writes_one_per_turn(struct pair *p) {
    struct actor s = {.pattern = true}, c = {0};
    link_up(p, &s, &c);
    for (int i = 1; i <= 50; i++) {
        demand(p, pour(&c, 3) == 0);
        until(p, s.got == 3u * (unsigned)i);
    }
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 150 ok; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static void a_chain_of_many_parts(struct pair *p) { /* more slices than one gather holds */
    struct actor s = {.pattern = true}, c = {0};
    struct weir_chain out = {0};
    uint8_t bytes[300];
    link_up(p, &s, &c);
    pair_act_as(p, CLIENT);
    for (uint64_t at = 0; at < 300 * 300; at += sizeof bytes) {
        struct weir_slice slice;
        pattern_fill(bytes, at, sizeof bytes);
        demand(p, weir_slice_copy(p->side[CLIENT].mem, bytes, sizeof bytes, &slice) == 0);
        demand(p, weir_chain_add(p->side[CLIENT].mem, &out, &slice) == 0);
    }
    demand(p, send_chain(&c, &out) == 0);
    weir__loop_enter(NULL);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 90000 ok; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static void one_big_slice(struct pair *p) { /* more bytes than one gather holds, in one part */
    struct actor s = {.pattern = true}, c = {.hush_marks = true};
    struct weir_chain out = {0};
    struct weir_slice slice;
    link_up(p, &s, &c);
    pair_act_as(p, CLIENT);
    demand(p, weir_slice_new(p->side[CLIENT].mem, 1000000, &slice) == 0);
    pattern_fill(slice.p, 0, slice.n);
    demand(p, weir_chain_add(p->side[CLIENT].mem, &out, &slice) == 0);
    demand(p, send_chain(&c, &out) == 0);
    weir__loop_enter(NULL);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 1000000 ok; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static void big(struct pair *p) {
    struct actor s = {.pattern = true}, c = {.hush_marks = true};
    link_up(p, &s, &c);
    demand(p, pour(&c, 12 << 20) == 0);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 12582912 ok; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static void both_ways_at_once(struct pair *p) {
    struct actor s = {.pattern = true, .hush_marks = true, .limits = {.read_while_full = true}};
    struct actor c = {.pattern = true, .hush_marks = true, .limits = {.read_while_full = true}};
    link_up(p, &s, &c);
    demand(p, pour(&s, 3 << 20) == 0 && pour(&c, 3 << 20) == 0);
    until(p, s.got == 3 << 20 && c.got == 3 << 20);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 3145728 ok; eof clean; close 0", &c,
               "open; read 3145728 ok; close 0");
    pair_close(p);
}

static void data_comes_before_the_end(struct pair *p) {
    struct actor s = {0}, c = {0};
    link_up(p, &s, &c);
    credit_it(&s, 0);
    pair_settle(p);
    say(&c, "hello");
    close_it(&c, WEIR_DRAIN);
    pair_settle(p);
    expect(&s, "open");
    credit_it(&s, -1);
    expect_end(p, &s, "open; read 5 'hello'; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static void data_comes_before_a_reset(struct pair *p) {
    struct actor s = {0}, c = {0};
    link_up(p, &s, &c);
    credit_it(&s, 0);
    pair_settle(p);
    say(&c, "last words");
    until(p, all_sent(&c));
    pair_settle(p);
    close_it(&c, WEIR_ABORT);
    until(p, c.closes);
    pair_settle(p);
    expect(&s, "open");
    credit_it(&s, -1);
    expect_end(p, &s, "open; read 10 'last words'; close ERESET", &c, "open; close ECANCELLED");
    pair_close(p);
}

static void a_reset_alone(struct pair *p) {
    struct actor s = {0}, c = {0};
    link_up(p, &s, &c);
    pair_settle(p);
    close_it(&c, WEIR_ABORT);
    expect_end(p, &s, "open; close ERESET", &c, "open; close ECANCELLED");
    pair_close(p);
}

/* --- leftovers ------------------------------------------------------------------------------- */

static int four_at_a_time(struct actor *a, struct weir_chain *in) {
    weir_ctx_want(a->ctx, 4);
    if (in->bytes < 4)
        return 0;
    actor_take(a, in, 4);
    note(a, "|");
    return 0;
}

static void a_stream_that_ends_inside_something(struct pair *p) {
    struct actor s = {.read = four_at_a_time}, c = {0};
    link_up(p, &s, &c);
    say(&c, "abcdefghij");
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 4 'abcd'; |; read 4 'efgh'; |; eof unclean; close 0", &c,
               "open; close 0");
    pair_close(p);
}

static void a_stream_that_ends_between_things(struct pair *p) {
    struct actor s = {.read = four_at_a_time}, c = {0};
    link_up(p, &s, &c);
    say(&c, "abcd");
    until(p, s.got == 4);
    say(&c, "efgh");
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 4 'abcd'; |; read 4 'efgh'; |; eof clean; close 0", &c,
               "open; close 0");
    pair_close(p);
}

static int only_when_allowed(struct actor *a, struct weir_chain *in) {
    if (a->goal)
        actor_take(a, in, in->bytes);
    return 0;
}

static void the_end_waits_behind_what_was_left(struct pair *p) {
    struct actor s = {.read = only_when_allowed}, c = {0};
    link_up(p, &s, &c);
    say(&c, "hello");
    close_it(&c, WEIR_DRAIN);
    until(p, counters_of(&s).leftover > 0);
    pair_settle(p);
    expect(&s, "open");
    s.goal = 1;
    wake_it(&s);
    expect_end(p, &s, "open; read 5 'hello'; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static void what_is_left_stops_the_reading(struct pair *p) {
    struct actor s = {.read = only_when_allowed, .pattern = true}, c = {.hush_marks = true};
    link_up(p, &s, &c);
    demand(p, pour(&c, 4 << 20) == 0);
    until(p, s.max_leftover > 0);
    pair_settle(p);
    demand(p, s.max_leftover <= WEIR__IO_RECV_BYTES);
    s.goal = 1;
    wake_it(&s);
    until(p, s.got == 4 << 20);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 4194304 ok; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static int take_half(struct actor *a, struct weir_chain *in) {
    actor_take(a, in, (in->bytes + 1) / 2);
    return 0;
}

static void a_reader_that_takes_halves(struct pair *p) {
    struct actor s = {.read = take_half, .pattern = true}, c = {0};
    link_up(p, &s, &c);
    demand(p, pour(&c, 50000) == 0);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 50000 ok; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static int refuse(struct actor *a, struct weir_chain *in) {
    actor_take(a, in, in->bytes);
    return WEIR_EPROTO;
}

static void a_reader_that_refuses(struct pair *p) {
    struct actor s = {.read = refuse}, c = {0};
    link_up(p, &s, &c);
    say(&c, "x");
    expect_end(p, &s, "open; read 1 'x'; close EPROTO", &c, "open; eof clean; close 0");
    pair_close(p);
}

/* --- half a connection ----------------------------------------------------------------------- */

static void answer_and_close(struct actor *a) {
    say(a, "answer");
    close_it(a, WEIR_DRAIN);
}

static void half_close_by_the_client(struct pair *p) {
    struct actor s = {.eof = answer_and_close},
                 c = {.eof = drain_it, .limits = {.half_open = true}};
    link_up(p, &s, &c);
    say(&c, "question");
    shut_it(&c);
    expect_end(p, &s, "open; read 8 'question'; eof clean; close 0", &c,
               "open; read 6 'answer'; eof clean; close 0");
    pair_close(p);
}

static void half_close_by_the_server(struct pair *p) {
    struct actor s = {.pattern = true, .limits = {.half_open = true}};
    struct actor c = {.limits = {.half_open = true}};
    link_up(p, &s, &c);
    shut_it(&s);
    until(p, c.eofs);
    demand(p, pour(&c, 100000) == 0);
    until(p, s.got == 100000 && c.writables);
    demand(p, say(&s, "x") == WEIR_EGONE);
    close_it(&c, WEIR_DRAIN);
    until(p, s.eofs);
    close_it(&s, WEIR_DRAIN);
    until(p, c.closes && s.closes);
    expect(&s, "open; read 100000 ok; eof clean; close 0");
    expect(&c, "open; eof clean; full; writable; close 0");
    pair_close(p);
}

static void a_half_open_end_stays(struct pair *p) {
    struct actor s = {.limits = {.half_open = true}}, c = {.limits = {.half_open = true}};
    link_up(p, &s, &c);
    shut_it(&c);
    until(p, s.eofs);
    pair_settle(p);
    say(&s, "still here");
    until(p, c.got == 10);
    expect(&s, "open; eof clean");
    close_it(&s, WEIR_DRAIN);
    until(p, c.eofs);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; eof clean; close 0", &c,
               "open; read 10 'still here'; eof clean; close 0");
    pair_close(p);
}

static void shutdown_goes_behind_what_is_queued(struct pair *p) {
    struct actor s = {.pattern = true}, c = {.hush_marks = true, .limits = {.half_open = true}};
    link_up(p, &s, &c);
    demand(p, pour(&c, 2 << 20) == 0);
    shut_it(&c);
    shut_it(&c);
    demand(p, say(&c, "x") == WEIR_EGONE);
    until(p, s.closes && c.eofs);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 2097152 ok; eof clean; close 0", &c, "open; eof clean; close 0");
    pair_close(p);
}

static void both_shut_down(struct pair *p) {
    struct actor s = {.eof = drain_it, .limits = {.half_open = true}};
    struct actor c = {.eof = drain_it, .limits = {.half_open = true}};
    link_up(p, &s, &c);
    shut_it(&s);
    shut_it(&c);
    expect_end(p, &s, "open; eof clean; close 0", &c, "open; eof clean; close 0");
    pair_close(p);
}

/* --- unix sockets ---------------------------------------------------------------------------- */

static void at_a_name(struct pair *p) { /* abstract: nothing is left in the file system */
    snprintf(p->listen_at, sizeof p->listen_at, "unix:@weir-suite-%ld-%llu", (long)getpid(),
             (unsigned long long)p->side[SERVER].io->ops->entropy(p->side[SERVER].io));
}

static void unix_hello(struct pair *p) {
    at_a_name(p);
    hello(p);
}

static void unix_big(struct pair *p) {
    at_a_name(p);
    big(p);
}

static void unix_both_ways(struct pair *p) {
    at_a_name(p);
    both_ways_at_once(p);
}

static void unix_half_close(struct pair *p) {
    at_a_name(p);
    half_close_by_the_client(p);
}

static void unix_data_before_the_end(struct pair *p) {
    at_a_name(p);
    data_comes_before_the_end(p);
}

const struct suite_case suite_order[] = {
    {"order.hello", hello, ANYWHERE, {0}},
    {"order.echo", echoed, ANYWHERE, {0}},
    {"order.server_speaks_first", the_server_speaks_first, ANYWHERE, {0}},
    {"order.many_small_writes", many_small_writes, ANYWHERE, {0}},
    {"order.small_writes_one_per_turn", small_writes_one_per_turn, ANYWHERE, {0}},
    {"order.chain_of_many_parts", a_chain_of_many_parts, ANYWHERE, {0}},
    {"order.one_big_slice", one_big_slice, ANYWHERE, {0}},
    {"order.big", big, ANYWHERE, WIDE_NET},
    {"order.both_ways_at_once", both_ways_at_once, ANYWHERE, WIDE_NET},
    {"order.data_before_eof", data_comes_before_the_end, ANYWHERE, {0}},
    {"order.data_before_reset", data_comes_before_a_reset, RESETS, {0}},
    {"order.reset_alone", a_reset_alone, RESETS, {0}},
    {"left.ends_inside_something", a_stream_that_ends_inside_something, ANYWHERE, {0}},
    {"left.ends_between_things", a_stream_that_ends_between_things, ANYWHERE, {0}},
    {"left.eof_waits_behind_leftover", the_end_waits_behind_what_was_left, ANYWHERE, {0}},
    {"left.leftover_stops_reading", what_is_left_stops_the_reading, ANYWHERE, WIDE_NET},
    {"left.reader_takes_halves", a_reader_that_takes_halves, ANYWHERE, {0}},
    {"left.reader_refuses", a_reader_that_refuses, ANYWHERE, {0}},
    {"half.by_the_client", half_close_by_the_client, ANYWHERE, {0}},
    {"half.by_the_server", half_close_by_the_server, ANYWHERE, {0}},
    {"half.open_end_stays", a_half_open_end_stays, ANYWHERE, {0}},
    {"half.shutdown_behind_queued", shutdown_goes_behind_what_is_queued, ANYWHERE, WIDE_NET},
    {"half.both_shut_down", both_shut_down, ANYWHERE, {0}},
    {"unix.hello", unix_hello, ANYWHERE, {0}},
    {"unix.big", unix_big, ANYWHERE, WIDE_NET},
    {"unix.both_ways_at_once", unix_both_ways, ANYWHERE, WIDE_NET},
    {"unix.half_close", unix_half_close, ANYWHERE, {0}},
    {"unix.data_before_eof", unix_data_before_the_end, ANYWHERE, {0}},
    {0},
};
