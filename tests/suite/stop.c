/* The end of a loop: idle, busy and stuck channels, listeners, clients. */
#include "suite/suite.h"

enum { MIB = 1024 * 1024 };

static void stop(struct pair *p, enum pair_who who, uint32_t drain_ms) {
    weir__loop_stop(p->side[who].loop, drain_ms);
}

static void with_an_idle_channel(struct pair *p) {
    struct actor s = {0}, c = {0};
    link_up(p, &s, &c);
    stop(p, SERVER, 60000);
    until(p, p->side[SERVER].ended);
    expect_end(p, &s, "open; close 0", &c, "open; eof clean; close 0");
    pair_close(p);
}

static void with_a_busy_channel(struct pair *p) {
    struct actor s = {.hush_marks = true}, c = {.pattern = true};
    link_up(p, &s, &c);
    demand(p, pour(&s, 3 * MIB) == 0);
    stop(p, SERVER, 60000);
    until(p, p->side[SERVER].ended);
    expect_end(p, &s, "open; close 0", &c, "open; read 3145728 ok; eof clean; close 0");
    pair_close(p);
}

static int zero_credit(struct actor *a) {
    credit_it(a, 0);
    return 0;
}

static void with_a_peer_that_does_not_read(struct pair *p) {
    struct actor s = {.hush_marks = true}, c = {.open = zero_credit, .pattern = true};
    link_up(p, &s, &c);
    demand(p, pour(&s, 14 * MIB) == 0);
    stop(p, SERVER, 30);
    until(p, p->side[SERVER].ended);
    expect(&s, "open; close ESTOPPED");
    credit_it(&c, -1);
    until(p, c.closes);
    demand(p, c.why == WEIR_ERESET);
    pair_close(p);
}

static void with_many_channels(struct pair *p) {
    struct actor s = {0}, c = {0};
    serve(p, SERVER, &s);
    for (int i = 0; i < 50; i++)
        dial(p, CLIENT, &c);
    until(p, s.opens == 50 && c.opens == 50);
    stop(p, SERVER, 60000);
    until(p, p->side[SERVER].ended);
    until(p, c.closes == 50);
    demand(p, s.closes == 50 && c.eofs == 50 && c.why == 0);
    pair_close(p);
}

static void both_loops_at_once(struct pair *p) {
    struct actor s = {.hush_marks = true}, c = {.hush_marks = true};
    link_up(p, &s, &c);
    demand(p, pour(&s, 100000) == 0 && pour(&c, 100000) == 0);
    stop(p, SERVER, 60000);
    stop(p, CLIENT, 60000);
    until(p, p->side[SERVER].ended && p->side[CLIENT].ended);
    demand(p, s.closes == 1 && c.closes == 1 && s.why == 0 && c.why == 0);
    pair_close(p);
}

static void nobody_listens_afterwards(struct pair *p) {
    struct actor s = {0}, c = {0};
    serve(p, SERVER, &s);
    pair_settle(p);
    stop(p, SERVER, 60000);
    until(p, p->side[SERVER].ended);
    dial(p, CLIENT, &c);
    until(p, c.answers);
    expect(&c, "connect EREFUSED");
    pair_close(p);
}

/* Whoever had connected before the listener went is served to the end. */
static void clients_in_the_backlog_are_served(struct pair *p) {
    struct actor s = {0}, c = {0};
    serve(p, SERVER, &s);
    pair_settle(p);
    for (int i = 0; i < 10; i++)
        dial(p, CLIENT, &c);
    pair_begin(p, "connected");
    while (!p->net && c.answers < 10) {
        pair_act_as(p, CLIENT);
        p->side[CLIENT].loop->look_only = true;
        weir__loop_turn(p->side[CLIENT].loop);
        weir__loop_enter(NULL);
    }
    stop(p, SERVER, 60000);
    until(p, p->side[SERVER].ended);
    until(p, c.answers == 10 && c.opens == c.closes);
    demand(p, p->net || (s.opens == 10 && c.eofs == 10 && c.why == 0));
    pair_close(p);
}

static int ask_once(struct actor *a) {
    return say(a, "?");
}

static int answer_all(struct actor *a, struct weir_chain *in) {
    actor_take(a, in, in->bytes);
    return say(a, "!");
}

/* Deeper than what any door takes in a few turns, and nobody's request was looked at before. */
static void a_deep_backlog_is_answered(struct pair *p) {
    enum { CROWD = 1500 };
    struct actor s = {.read = answer_all}, c = {.open = ask_once};
    serve(p, SERVER, &s);
    pair_settle(p);
    for (int i = 0; i < CROWD; i++)
        dial(p, CLIENT, &c);
    pair_begin(p, "connected, and asked");
    while (c.answers < CROWD) {
        pair_act_as(p, CLIENT);
        p->side[CLIENT].loop->look_only = true;
        weir__loop_turn(p->side[CLIENT].loop);
        weir__loop_enter(NULL);
    }
    stop(p, SERVER, 60000);
    until(p, p->side[SERVER].ended);
    until(p, c.opens == c.closes);
    demand(p, s.opens == CROWD && s.got == CROWD && s.why == 0);
    demand(p, c.got == CROWD && c.eofs == CROWD && c.why == 0);
    pair_close(p);
}

static void who_has_just_come_is_answered(struct pair *p) {
    struct actor s = {.read = answer_all}, c = {.open = ask_once};
    link_up(p, &s, &c);
    if (s.got == 0)
        stop(p, SERVER, 60000);
    until(p, c.got == 1);
    stop(p, SERVER, 60000);
    expect_end(p, &s, "open; read 1 '?'; close 0", &c, "open; read 1 '!'; eof clean; close 0");
    pair_close(p);
}

static void asked_again_the_earlier_end_wins(struct pair *p) {
    struct actor s = {.hush_marks = true, .limits = {.drain_ms = 3600 * 1000}};
    struct actor c = {.open = zero_credit, .pattern = true};
    link_up(p, &s, &c);
    demand(p, pour(&s, 14 * MIB) == 0);
    stop(p, SERVER, 3600 * 1000);
    pair_settle(p);
    demand(p, !p->side[SERVER].ended);
    stop(p, SERVER, 10);
    until(p, p->side[SERVER].ended);
    expect(&s, "open; close ESTOPPED");
    credit_it(&c, -1);
    until(p, c.closes);
    pair_close(p);
}

static void while_lingering(struct pair *p) {
    struct actor s = {.limits = {.linger_ms = 3600 * 1000}}, c = {.limits = {.half_open = true}};
    link_up(p, &s, &c);
    close_it(&s, WEIR_DRAIN);
    until(p, c.eofs);
    stop(p, SERVER, 30);
    until(p, p->side[SERVER].ended);
    demand(p, s.closes == 1);
    close_it(&c, WEIR_ABORT);
    until(p, c.closes);
    pair_close(p);
}

const struct suite_case suite_stop[] = {
    {"stop.idle_channel", with_an_idle_channel, ANYWHERE, {0}},
    {"stop.busy_channel", with_a_busy_channel, ANYWHERE, WIDE_NET},
    {"stop.peer_does_not_read", with_a_peer_that_does_not_read, RESETS, WIDE_NET},
    {"stop.many_channels", with_many_channels, ANYWHERE, {0}},
    {"stop.both_loops", both_loops_at_once, ANYWHERE, {0}},
    {"stop.nobody_listens", nobody_listens_afterwards, ANYWHERE, {0}},
    {"stop.backlog_is_served", clients_in_the_backlog_are_served, ANYWHERE, {0}},
    {"stop.deep_backlog", a_deep_backlog_is_answered, REAL_ONLY, {0}},
    {"stop.who_has_just_come", who_has_just_come_is_answered, ANYWHERE, {0}},
    {"stop.earlier_end_wins", asked_again_the_earlier_end_wins, ANYWHERE, WIDE_NET},
    {"stop.while_lingering", while_lingering, ANYWHERE, {0}},
    {0},
};
