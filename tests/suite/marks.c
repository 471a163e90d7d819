/* The marks of the output, what the memory behind them may be, and how a full output holds reading
 * back. */
#include <string.h>
#include "suite/suite.h"

enum { KIB = 1024, MIB = 1024 * 1024 };

/* What a channel with the default mark may hold: the mark, one gather, one receive buffer, and what
 * size classes add to them. */
#define HELD_MAX(gather) ((64 * KIB + (gather) + WEIR__IO_RECV_BYTES) * 5 / 4)

static const struct weir_limits fixed = {.batch_bytes = 64 * KIB};

static void refill(struct actor *a, bool yes) {
    if (yes && pour_to_goal(a) == 0 && a->poured == a->goal)
        close_it(a, WEIR_DRAIN);
}

static void refill_then_shut(struct actor *a, bool yes) {
    if (yes && pour_to_goal(a) == 0 && a->poured == a->goal)
        shut_it(a);
}

static int pour_all(struct actor *a) {
    return pour(a, a->goal);
}

static void full_then_writable(struct pair *p) {
    struct actor s = {.pattern = true}, c = {.open = pour_all, .goal = 200 * KIB, .limits = fixed};
    link_up(p, &s, &c);
    until(p, s.got == 200 * KIB && c.writables);
    pair_settle(p);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 204800 ok; eof clean; close 0", &c,
               "open; full; writable; close 0");
    pair_close(p);
}

static void below_the_high_mark(struct pair *p) {
    struct actor s = {.pattern = true},
                 c = {.open = pour_all, .goal = 64 * KIB - 1, .limits = fixed};
    link_up(p, &s, &c);
    until(p, s.got == c.goal);
    pair_settle(p);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 65535 ok; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static void exactly_at_the_high_mark(struct pair *p) {
    struct actor s = {.pattern = true};
    struct actor c = {
        .open = pour_all,
        .goal = 64 * KIB,
        .limits = {.high_bytes = 64 * KIB, .low_bytes = 16 * KIB, .batch_bytes = 16 * KIB}};
    link_up(p, &s, &c);
    until(p, s.got == c.goal && c.writables);
    pair_settle(p);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 65536 ok; eof clean; close 0", &c,
               "open; full; writable; close 0");
    pair_close(p);
}

static void room_says_how_much(struct pair *p) {
    struct actor s = {.pattern = true}, c = {.limits = {.high_bytes = 10000, .low_bytes = 1000}};
    link_up(p, &s, &c);
    pair_settle(p);
    demand(p, room_of(&c) == 10000);
    demand(p, pour(&c, 9999) == 0 && room_of(&c) == 1);
    demand(p, pour(&c, 1) == 0 && room_of(&c) == 0);
    until(p, s.got == 10000 && c.writables);
    demand(p, room_of(&c) == 10000);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 10000 ok; eof clean; close 0", &c,
               "open; full; writable; close 0");
    pair_close(p);
}

static void a_source_that_refills(struct pair *p) {
    struct actor s = {.pattern = true};
    struct actor c = {.open = pour_to_goal,
                      .writable = refill,
                      .goal = 4 * MIB,
                      .hush_marks = true,
                      .limits = {.high_bytes = 256 * KIB, .batch_bytes = 64 * KIB}};
    link_up(p, &s, &c);
    until(p, c.closes && s.closes);
    note(&c, "full %u; writable %u", c.fulls, c.writables);
    expect(&s, "open; read 4194304 ok; eof clean; close 0");
    /* 256 KiB at first, then 128 KiB each time 128 KiB are left: 30 times, and after the last it
     * drains. */
    expect(&c, "open; close 0; full 30; writable 30");
    pair_close(p);
}

/* Every flight goes without a copy where the door can; the marks see nothing of it. */
static void without_a_copy(struct pair *p) {
    struct actor s = {.pattern = true};
    struct actor c = {
        .open = pour_to_goal,
        .writable = refill,
        .goal = 4 * MIB,
        .hush_marks = true,
        .limits = {.high_bytes = 256 * KIB, .batch_bytes = 64 * KIB, .zero_copy_bytes = 48 * KIB}};
    link_up(p, &s, &c);
    until(p, c.closes && s.closes);
    note(&c, "full %u; writable %u", c.fulls, c.writables);
    expect(&s, "open; read 4194304 ok; eof clean; close 0");
    expect(&c, "open; close 0; full 30; writable 30");
    pair_close(p);
}

static void what_is_pinned_is_let_go(struct pair *p) {
    struct actor s = {.pattern = true};
    struct actor c = {.hush_marks = true, .limits = {.zero_copy_bytes = 32 * KIB}};
    link_up(p, &s, &c);
    for (unsigned i = 1; i <= 20; i++) {
        demand(p, pour(&c, 48 * KIB) == 0);
        until(p, all_sent(&c));
        demand(p, counters_of(&c).queued == 0);
    }
    until(p, s.got == c.poured && counters_of(&c).pinned == 0);
    demand(p, counters_of(&c).held == 0);
    demand(p, pour(&c, 48 * KIB) == 0);
    close_it(&c, WEIR_ABORT); /* whatever is in flight or pinned */
    until(p, s.closes && c.closes);
    expect(&c, "open; close ECANCELLED");
    pair_close(p);
}

static bool inside; /* of a send */

static void not_inside(struct actor *a, bool yes) {
    (void)yes;
    demand(a->pair, !inside);
}

static void never_from_inside_a_send(struct pair *p) {
    struct actor s = {.pattern = true}, c = {.writable = not_inside, .limits = fixed};
    link_up(p, &s, &c);
    for (int i = 0; i < 20; i++) {
        inside = true;
        int rc = pour(&c, 100 * KIB);
        inside = false;
        demand(p, rc == 0);
        until(p, s.got == 100u * KIB * (unsigned)(i + 1));
    }
    until(p, c.fulls > 0 && c.writables > 0);
    close_it(&c, WEIR_DRAIN);
    until(p, c.closes && s.closes);
    pair_close(p);
}

/* The reader takes 64 KiB whenever it is quiet: the source may only hold its mark, one gather, one
 * buffer. */
static void slow_reader(struct pair *p) {
    enum { TOTAL = 8 * MIB };
    struct actor s = {.pattern = true};
    struct actor c = {.open = pour_to_goal,
                      .writable = refill,
                      .goal = TOTAL,
                      .hush_marks = true,
                      .limits = fixed};
    link_up(p, &s, &c);
    while (s.got < TOTAL) {
        uint64_t before = s.got, step = s.got < MIB ? 64 * KIB : 1024 * KIB;
        credit_it(&s, (int64_t)step);
        until(p, s.got == before + step);
        demand(p, before + step == s.got);
    }
    credit_it(&s, -1);
    until(p, s.closes && c.closes);
    demand(p, c.max_queued <= 64 * KIB + ACTOR_PIECE);
    demand(p, c.max_inflight <= 64 * KIB);
    demand(p, c.max_held <= HELD_MAX(64 * KIB));
    expect(&s, "open; read 8388608 ok; eof clean; close 0");
    expect(&c, "open; close 0");
    pair_close(p);
}

static void big_to_a_slow_reader(struct pair *p) {
    enum { TOTAL = 32 * MIB };
    struct actor s = {.pattern = true};
    struct actor c = {.open = pour_to_goal, .writable = refill, .goal = TOTAL, .hush_marks = true};
    link_up(p, &s, &c);
    while (s.got < TOTAL) {
        uint64_t before = s.got;
        credit_it(&s, 4 * MIB);
        until(p, s.got == before + 4 * MIB);
    }
    credit_it(&s, -1);
    until(p, s.closes && c.closes);
    demand(p, c.max_held <= HELD_MAX(WEIR__IO_SEND_BYTES_MAX));
    expect(&s, "open; read 33554432 ok; eof clean; close 0");
    pair_close(p);
}

static void more_than_memory_allows(struct pair *p) {
    struct actor s = {.pattern = true}, c = {.limits = {.held_max = MIB}, .hush_marks = true};
    link_up(p, &s, &c);
    demand(p, pour(&c, 2 * MIB) == WEIR_EFULL);
    demand(p, counters_of(&c).queued == 0);
    demand(p, pour(&c, 512 * KIB) == 0);
    until(p, s.got == 512 * KIB);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 524288 ok; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static int echo(struct actor *a, struct weir_chain *in) {
    struct weir_chain out = {0};
    a->got += in->bytes;
    weir_chain_append(&out, in);
    return send_chain(a, &out);
}

/* An echo whose client does not read must stop reading: what it holds is its mark and one receive.
 */
static void reading_stops_while_full(struct pair *p) {
    enum { TOTAL = 24 * MIB };
    struct actor s = {.read = echo, .hush_marks = true, .limits = fixed};
    struct actor c = {.pattern = true,
                      .writable = refill_then_shut,
                      .hush_marks = true,
                      .goal = TOTAL,
                      .limits = {.batch_bytes = 64 * KIB, .read_while_full = true}};
    link_up(p, &s, &c);
    credit_it(&c, 0);
    pour_to_goal(&c);
    pair_settle(p);
    until(p, room_of(&s) <= 0);
    demand(p, c.poured < TOTAL);
    demand(p, s.max_held <= HELD_MAX(64 * KIB));
    credit_it(&c, -1);
    expect_end(p, &s, "open; eof clean; close 0", &c, "open; read 25165824 ok; eof clean; close 0");
    pair_close(p);
}

static int announce(struct actor *a, struct weir_chain *in) {
    actor_take(a, in, in->bytes);
    return 0;
}

static void reading_while_full(struct pair *p, bool yes) {
    struct actor s = {.read = announce,
                      .hush_marks = true,
                      .limits = {.held_max = 64 * MIB, .read_while_full = yes}};
    struct actor c = {.pattern = true};
    link_up(p, &s, &c);
    credit_it(&c, 0);
    pair_settle(p);
    demand(p, pour(&s, 24 * MIB) == 0);
    pair_settle(p);
    demand(p, room_of(&s) <= 0);
    say(&c, "hello");
    if (yes)
        until(p, s.got == 5);
    pair_settle(p);
    expect(&s, yes ? "open; read 5 'hello'" : "open");
    credit_it(&c, -1);
    until(p, c.got == 24 * MIB && s.got == 5);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 5 'hello'; eof clean; close 0", &c,
               "open; read 25165824 ok; close 0");
    pair_close(p);
}

static void reading_goes_on_if_asked(struct pair *p) {
    reading_while_full(p, true);
}

static void reading_waits_for_the_output(struct pair *p) {
    reading_while_full(p, false);
}

/* Two channels must not read each other into a standstill when both ends only send while they can.
 */
static void both_full_at_once(struct pair *p) {
    struct actor s = {.pattern = true,
                      .open = pour_to_goal,
                      .writable = refill,
                      .goal = 6 * MIB,
                      .hush_marks = true,
                      .limits = {.read_while_full = true, .half_open = true}};
    struct actor c = s;
    s.writable = c.writable = NULL;
    s.open = c.open = NULL;
    link_up(p, &s, &c);
    while (s.got < s.goal || c.got < c.goal) {
        pour_to_goal(&s);
        pour_to_goal(&c);
        pair_begin(p, "both have everything");
        pair_step(p, __FILE__, __LINE__);
    }
    close_it(&s, WEIR_DRAIN);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 6291456 ok; close 0", &c, "open; read 6291456 ok; close 0");
    pair_close(p);
}

/* What becomes dirty in a drain waits for the next one: a turn has few, however fast the socket. A
 * door that queues its own terminals has one more drain for each of them, as often as the machine
 * is too slow for 100 us: there the bound is the budget of completions. */
static void a_source_does_not_fill_a_turn(struct pair *p) {
    bool queues = !strcmp(p->kind->door[CLIENT], "defer");
    struct actor s = {.pattern = true};
    struct actor c = {.writable = refill,
                      .goal = 8 * MIB,
                      .hush_marks = true,
                      .limits = {.batch_bytes = 64 * KIB}};
    link_up(p, &s, &c);
    pour_to_goal(&c);
    while (c.ctx) {
        uint64_t before = c.poured;
        pair_begin(p, "the end");
        pair_step(p, __FILE__, __LINE__);
        demand(p, queues || c.poured - before <= 512 * KIB);
    }
    until(p, s.closes);
    expect(&s, "open; read 8388608 ok; eof clean; close 0");
    expect(&c, "open; close 0");
    pair_close(p);
}

const struct suite_case suite_marks[] = {
    {"marks.full_then_writable", full_then_writable, ANYWHERE, {0}},
    {"marks.below_high", below_the_high_mark, ANYWHERE, {0}},
    {"marks.exactly_high", exactly_at_the_high_mark, ANYWHERE, {0}},
    {"marks.room", room_says_how_much, ANYWHERE, {0}},
    {"marks.source_refills", a_source_that_refills, ANYWHERE, WIDE_NET},
    {"marks.without_a_copy", without_a_copy, ANYWHERE, WIDE_NET},
    {"marks.pinned_is_let_go", what_is_pinned_is_let_go, ANYWHERE, WIDE_NET},
    {"marks.never_inside_send", never_from_inside_a_send, ANYWHERE, WIDE_NET},
    {"marks.slow_reader_bounded", slow_reader, ANYWHERE, WIDE_NET},
    {"marks.big_to_slow_reader", big_to_a_slow_reader, ANYWHERE, WIDE_NET},
    {"marks.held_max", more_than_memory_allows, ANYWHERE, WIDE_NET},
    {"marks.reading_stops_while_full", reading_stops_while_full, ANYWHERE, WIDE_NET},
    {"marks.read_while_full", reading_goes_on_if_asked, ANYWHERE, WIDE_NET},
    {"marks.read_waits_for_output", reading_waits_for_the_output, ANYWHERE, WIDE_NET},
    {"marks.source_in_a_turn", a_source_does_not_fill_a_turn, ANYWHERE, WIDE_NET},
    {"marks.both_full_at_once", both_full_at_once, ANYWHERE, WIDE_NET},
    {0},
};
