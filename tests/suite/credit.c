/* Read credit: what was not granted is not delivered, what was granted is delivered exactly. */
#include "suite/suite.h"
#include <string.h>

static int zero_credit(struct actor *a) {
    credit_it(a, 0);
    return 0;
}

static void zero_from_open(struct pair *p) {
    struct actor s = {.open = zero_credit}, c = {0};
    link_up(p, &s, &c);
    say(&c, "hello");
    pair_settle(p);
    expect(&s, "open");
    credit_it(&s, -1);
    until(p, s.got == 5);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 5 'hello'; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static int ten_credit(struct actor *a) {
    credit_it(a, 10);
    return 0;
}

static void exact(struct pair *p) {
    struct actor s = {.open = ten_credit}, c = {0};
    link_up(p, &s, &c);
    say(&c, "abcdefghijklmnopqrstuvwxyz");
    until(p, s.got == 10);
    pair_settle(p);
    expect(&s, "open; read 10 'abcdefghij'");
    credit_it(&s, 5);
    until(p, s.got == 15);
    pair_settle(p);
    expect(&s, "open; read 15 'abcdefghijklmno'");
    credit_it(&s, -1);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 26 'abcdefghijklmnopqrstuvwxyz'; eof clean; close 0", &c,
               "open; close 0");
    pair_close(p);
}

static void granted_piece_by_piece(struct pair *p) {
    struct actor s = {.open = ten_credit}, c = {0};
    link_up(p, &s, &c);
    for (int i = 0; i < 10; i++)
        say(&c, "x"); /* the grant is used up by many small ones */
    say(&c, "tail");
    until(p, s.got == 10);
    pair_settle(p);
    expect(&s, "open; read 10 'xxxxxxxxxx'");
    credit_it(&s, -1);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 14 'xxxxxxxxxxtail'; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

/* The newest grant counts, it is not added to the one before. */
static void the_last_grant_counts(struct pair *p) {
    struct actor s = {.open = ten_credit}, c = {0};
    link_up(p, &s, &c);
    pair_settle(p);
    credit_it(&s, 20);
    credit_it(&s, 3);
    pair_settle(p);
    say(&c, "abcdefghij");
    until(p, s.got == 3);
    pair_settle(p);
    expect(&s, "open; read 3 'abc'");
    credit_it(&s, 0);
    credit_it(&s, -1);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 10 'abcdefghij'; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static int three_more(struct actor *a, struct weir_chain *in) {
    demand(a->pair, in->bytes <= 3);
    actor_take(a, in, in->bytes);
    if (a->got % 3 == 0)
        credit_it(a, 3);
    return 0;
}

static int three_credit(struct actor *a) {
    credit_it(a, 3);
    return 0;
}

static void renewed_in_every_callback(struct pair *p) {
    struct actor s = {.open = three_credit, .read = three_more, .pattern = true}, c = {0};
    link_up(p, &s, &c);
    demand(p, pour(&c, 900) == 0);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 900 ok; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static int one_more(struct actor *a, struct weir_chain *in) {
    demand(a->pair, in->bytes == 1);
    actor_take(a, in, 1);
    credit_it(a, 1);
    return 0;
}

static int one_credit(struct actor *a) {
    credit_it(a, 1);
    return 0;
}

static void one_byte_at_a_time(struct pair *p) {
    struct actor s = {.open = one_credit, .read = one_more, .pattern = true}, c = {0};
    link_up(p, &s, &c);
    demand(p, pour(&c, 300) == 0);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 300 ok; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static void resume(struct weir_loop *l, void *user) {
    (void)l;
    credit_it(user, -1);
}

static int pause_and_post(struct actor *a, struct weir_chain *in) {
    actor_take(a, in, in->bytes);
    credit_it(a, 0);
    demand(a->pair, weir_loop_post(weir_ctx_loop(a->ctx), resume, a) == 0);
    return 0;
}

static void paused_in_every_read_resumed_later(struct pair *p) {
    struct actor s = {.read = pause_and_post, .pattern = true}, c = {.hush_marks = true};
    link_up(p, &s, &c);
    demand(p, pour(&c, 300000) == 0);
    close_it(&c, WEIR_DRAIN);
    until(p, s.eofs && c.closes);
    expect_end(p, &s, "open; read 300000 ok; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static int pause_and_resume(struct actor *a, struct weir_chain *in) {
    credit_it(a, 0);
    actor_take(a, in, in->bytes);
    credit_it(a, -1);
    return 0;
}

static int toggle_open(struct actor *a) {
    credit_it(a, 0);
    credit_it(a, -1);
    return 0;
}

static void toggle(struct actor *a) {
    credit_it(a, 0);
    credit_it(a, -1);
}

static void toggle_writable(struct actor *a, bool yes) {
    (void)yes;
    toggle(a);
}

static void toggled_in_every_callback(struct pair *p) {
    struct actor s = {.open = toggle_open,
                      .read = pause_and_resume,
                      .read_done = toggle,
                      .eof = toggle,
                      .close = toggle,
                      .writable = toggle_writable,
                      .pattern = true,
                      .hush_marks = true};
    struct actor c = s;
    c.limits.read_while_full = s.limits.read_while_full = true;
    link_up(p, &s, &c);
    demand(p, pour(&s, 300000) == 0 && pour(&c, 300000) == 0);
    until(p, s.got == 300000 && c.got == 300000);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 300000 ok; eof clean; close 0", &c,
               "open; read 300000 ok; close 0");
    pair_close(p);
}

static void toggled_from_outside(struct pair *p) {
    struct actor s = {.pattern = true}, c = {.hush_marks = true};
    link_up(p, &s, &c);
    demand(p, pour(&c, 1 << 20) == 0);
    for (unsigned i = 0; s.got < 1 << 20; i++) {
        credit_it(&s, i % 2 ? -1 : (int64_t)(i % 5) * 1000);
        if (i % 2) {
            uint64_t before = s.got;
            until(p, s.got > before);
        }
    }
    credit_it(&s, -1);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 1048576 ok; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static void toggled_while_nothing_comes(struct pair *p) {
    struct actor s = {0}, c = {0};
    link_up(p, &s, &c);
    for (int i = 0; i < 50; i++) {
        credit_it(&s, 0);
        if (i % 3 == 0)
            pair_settle(p);
        credit_it(&s, i % 2 ? 7 : -1);
        if (i % 4 == 0)
            pair_settle(p);
    }
    credit_it(&s, -1);
    say(&c, "hello");
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 5 'hello'; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static int five_credit(struct actor *a) {
    credit_it(a, 5);
    return 0;
}

/* Credit that is exactly used ends reading, also when the end of the stream is known already. */
static void the_end_waits_for_credit(struct pair *p) {
    struct actor s = {.open = five_credit}, c = {0};
    link_up(p, &s, &c);
    say(&c, "hello");
    close_it(&c, WEIR_DRAIN);
    until(p, s.got == 5);
    pair_settle(p);
    expect(&s, "open; read 5 'hello'");
    credit_it(&s, 1);
    expect_end(p, &s, "open; read 5 'hello'; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static void paused_then_closed(struct pair *p) {
    struct actor s = {.open = zero_credit}, c = {0};
    link_up(p, &s, &c);
    say(&c, "nobody reads this");
    pair_settle(p);
    close_it(&s, WEIR_DRAIN);
    expect_end(p, &s, "open; close 0", &c, "open; eof clean; close 0");
    pair_close(p);
}

static void nothing_arrives_after_a_pause(struct pair *p) {
    struct actor s = {.pattern = true}, c = {.hush_marks = true};
    link_up(p, &s, &c);
    demand(p, pour(&c, 4 << 20) == 0);
    until(p, s.got > 100000);
    credit_it(&s, 0);
    uint64_t got = s.got;
    pair_settle(p);
    demand(p, s.got == got); /* what the kernel had handed over waits in the door */
    credit_it(&s, -1);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 4194304 ok; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

const struct suite_case suite_credit[] = {
    {"credit.zero_from_open", zero_from_open, ANYWHERE, {0}},
    {"credit.exact", exact, ANYWHERE, {0}},
    {"credit.used_by_many_pieces", granted_piece_by_piece, ANYWHERE, {0}},
    {"credit.last_grant_counts", the_last_grant_counts, ANYWHERE, {0}},
    {"credit.renewed_in_every_read", renewed_in_every_callback, ANYWHERE, {0}},
    {"credit.one_byte_at_a_time", one_byte_at_a_time, ANYWHERE, {0}},
    {"credit.paused_in_every_read", paused_in_every_read_resumed_later, ANYWHERE, {0}},
    {"credit.toggled_in_every_callback", toggled_in_every_callback, ANYWHERE, {0}},
    {"credit.toggled_from_outside", toggled_from_outside, ANYWHERE, {0}},
    {"credit.toggled_while_idle", toggled_while_nothing_comes, ANYWHERE, {0}},
    {"credit.eof_waits_for_credit", the_end_waits_for_credit, ANYWHERE, {0}},
    {"credit.paused_then_closed", paused_then_closed, ANYWHERE, {0}},
    {"credit.nothing_after_a_pause", nothing_arrives_after_a_pause, ANYWHERE, WIDE_NET},
    {0},
};
