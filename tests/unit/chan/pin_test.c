/* Zero-copy sends: what goes without a copy, how long its memory is kept, and that every end lets
 * go of it once. */
#include "chan/chan.h"
#include "kit/door.h"
#include "kit/embedded.h"
#include "mem/pool.h"

enum { PINS_MAX = 16 };

/* The kit's door with sends that fly until the test lands them, and notices. */
static struct {
    struct kit_loop k;
    struct weir__io_ops ops;
    const struct weir__io_ops *below;
    struct weir_chan *ch;
    bool flying, uncopied_flies;
    unsigned plain, uncopied; /* sends */
    intptr_t next, out[PINS_MAX];
    unsigned n_out;
} z;

static struct weir__loop_sink *sink(void) {
    return z.k.door.socks[0].s.user;
}

static int fly(unsigned *kind) {
    assert_false(z.flying);
    z.flying = true;
    z.uncopied_flies = kind == &z.uncopied;
    ++*kind;
    return 0;
}

static int send_plain(struct weir__io *io, struct weir__io_sock *s, const struct weir_chain *c) {
    (void)io, (void)s, (void)c;
    return fly(&z.plain);
}

static int send_uncopied(struct weir__io *io, struct weir__io_sock *s, const struct weir_chain *c) {
    (void)io, (void)s, (void)c;
    return fly(&z.uncopied);
}

static void queue_sent(int code, bool pinned) {
    struct weir__io_done d = {
        .kind = WEIR__IO_SENT, .last = true, .code = code, .pinned = pinned, .handle = z.next};
    assert_true(z.flying && z.n_out < PINS_MAX);
    z.flying = false;
    if (pinned)
        z.out[z.n_out++] = z.next++;
    kit_door_queue(&z.k.door, sink(), d);
}

static void queue_notice(unsigned i) {
    kit_door_queue(&z.k.door, sink(),
                   (struct weir__io_done){.kind = WEIR__IO_UNPINNED, .handle = z.out[i]});
    z.out[i] = z.out[--z.n_out];
}

/* As the contract has it: the flight, the notices, CLOSED. */
static void close_late(struct weir__io *io, struct weir__io_sock *s, bool abort) {
    if (z.flying)
        queue_sent(WEIR_ECANCELLED, z.uncopied_flies);
    while (z.n_out)
        queue_notice(0);
    z.below->close(io, s, abort);
}

static void sent(int code, bool pinned) {
    queue_sent(code, pinned);
    kit_loop_settle(&z.k);
}

static void unpinned(unsigned i) {
    queue_notice(i);
    kit_loop_settle(&z.k);
}

static void marks_writable(struct weir_ctx *c, bool yes) {
    (void)c;
    tell(yes ? "writable;" : "full;");
}

static void marks_close(struct weir_ctx *c, int why) {
    (void)c;
    tell("close %s;", why ? weir_errname(why) : "0");
}

static const struct weir_handler marks = {
    .name = "marks", .writable = marks_writable, .close = marks_close};

static void open_with(const struct weir_limits *limits) {
    struct weir_stage line[] = {{&marks, NULL}};
    struct weir__chan_plan *p;
    memset(&z, 0, sizeof z);
    kit_loop_open(&z.k);
    z.below = z.k.door.io.ops;
    z.ops = *z.below;
    z.ops.send = send_plain;
    z.ops.send_zc = send_uncopied;
    z.ops.close = close_late;
    z.k.door.io.ops = &z.ops;
    assert_int_equal(weir__chan_plan_new(z.k.loop, line, 1, limits, &p), 0);
    assert_int_equal(weir__chan_accept(p, 0), 0);
    weir__chan_plan_release(p);
    z.ch = container_of(sink(), struct weir_chan, sink);
}

static void open_usual(void) {
    open_with(&(struct weir_limits){.zero_copy_bytes = 1000});
}

static struct weir_chan_counters counters(void) {
    struct weir_chan_counters n;
    weir_chan_counters(z.ch, &n);
    return n;
}

static int pour(size_t n) {
    int rc = emb_pour(weir_chan_head(z.ch), n);
    kit_loop_settle(&z.k);
    return rc;
}

static void pin_one(size_t n) {
    assert_int_equal(pour(n), 0);
    sent(0, true);
}

/* --- what goes without a copy ----------------------------------------------------------------- */

static void only_large_flights_go_without_a_copy(void **state) {
    (void)state;
    open_usual();
    assert_int_equal(pour(999), 0);
    assert_int_equal(z.plain, 1);
    sent(0, false);
    assert_int_equal(pour(1000), 0);
    assert_int_equal(z.uncopied, 1);
    assert_int_equal(pour(600), 0); /* two that go together */
    assert_int_equal(pour(600), 0);
    sent(0, true);
    assert_int_equal(z.uncopied, 2);
    assert_int_equal(counters().inflight, 1200);
    sent(0, true);
    kit_loop_close(&z.k);
}

static void nothing_does_unless_asked_for(void **state) {
    (void)state;
    open_with(NULL);
    assert_int_equal(pour(200000), 0);
    assert_int_equal(z.plain, 1);
    sent(0, false);
    kit_loop_close(&z.k);
    assert_int_equal(z.uncopied, 0);
}

static void a_door_that_always_copies_is_not_asked(void **state) {
    (void)state;
    open_usual();
    z.ops.send_zc = send_plain;
    assert_int_equal(pour(5000), 0);
    assert_null(z.ch->pins);
    sent(0, false);
    kit_loop_close(&z.k);
}

static void without_memory_it_is_copied(void **state) {
    (void)state;
    open_usual();
    for (unsigned nth = 1; nth <= 2; nth++) {
        assert_int_equal(emb_pour(weir_chan_head(z.ch), 2000), 0);
        weir__mem_fail(z.k.mem, nth, false);
        kit_loop_settle(&z.k);
        weir__mem_fail(z.k.mem, 0, false);
        assert_int_equal(z.plain, nth);
        sent(0, false);
    }
    pin_one(2000);
    assert_int_equal(z.uncopied, 1);
    kit_loop_close(&z.k);
}

/* --- what is pinned --------------------------------------------------------------------------- */

static void what_is_pinned_holds_memory_and_nothing_else(void **state) {
    (void)state;
    open_usual();
    pin_one(2000);
    assert_int_equal(counters().inflight, 0);
    assert_int_equal(counters().pinned, 2000);
    assert_in_range(counters().held, 2000, 8192);
    pin_one(1500); /* the next flight did not wait */
    pin_one(3000);
    assert_int_equal(counters().pinned, 6500);
    unpinned(1); /* in any order */
    assert_int_equal(counters().pinned, 5000);
    unpinned(1);
    unpinned(0);
    assert_int_equal(counters().pinned, 0);
    assert_int_equal(counters().held, 0);
    assert_null(z.ch->pins);
    kit_loop_close(&z.k);
}

static void what_was_not_pinned_goes_with_its_terminal(void **state) {
    (void)state;
    open_usual();
    assert_int_equal(pour(2000), 0);
    assert_int_equal(z.uncopied, 1);
    sent(0, false);
    assert_int_equal(counters().held, 0);
    assert_int_equal(pour(2000), 0);
    sent(0, true);
    assert_int_equal(pour(2000), 0);
    unpinned(0); /* while the next one flies, which will be pinned too */
    sent(0, true);
    assert_int_equal(counters().pinned, 2000);
    kit_loop_close(&z.k);
}

static void half_of_the_memory_may_be_pinned(void **state) {
    (void)state;
    open_with(&(struct weir_limits){.zero_copy_bytes = 1000, .held_max = 100000});
    while (!z.plain) {
        assert_int_equal(pour(9000), 0);
        if (!z.plain)
            sent(0, true);
    }
    struct weir_chan_counters n = counters();
    assert_in_range(n.pinned, 27000, 50000);
    assert_int_equal(n.inflight, 9000);
    while (pour(9000) == 0) /* beside it the limit counts as ever */
        assert_in_range(counters().held, n.held, 100000);
    assert_string_equal(told(), "full;");
    sent(0, false);
    while (z.flying) /* the queue, which is small by itself */
        sent(0, false);
    while (z.n_out)
        unpinned(0);
    assert_string_equal(told(), "full;writable;");
    assert_int_equal(counters().held, 0);
    kit_loop_close(&z.k);
}

static void the_last_notice_makes_it_writable(void **state) {
    (void)state;
    open_with(&(struct weir_limits){.zero_copy_bytes = 1000, .held_max = 30000});
    pin_one(9000);
    while (pour(9000) == 0)
        ;
    assert_string_equal(told(), "full;");
    while (z.flying)
        sent(0, false);
    forget();
    unpinned(0);
    assert_int_equal(counters().held, 0);
    assert_int_equal(pour(9000), 0);
    sent(0, false);
    kit_loop_close(&z.k);
}

/* --- ends ------------------------------------------------------------------------------------- */

static void a_drain_does_not_wait_for_notices(void **state) {
    (void)state;
    open_usual();
    pin_one(2000);
    weir_chan_close(z.ch, WEIR_DRAIN);
    kit_loop_settle(&z.k);
    assert_int_equal(z.ch->state, WEIR__CHAN_LINGER); /* the bytes are on their way */
    assert_int_equal(counters().pinned, 2000);
    unpinned(0);
    assert_int_equal(counters().pinned, 0);
    kit_loop_close(&z.k);
}

static void closed_comes_behind_the_notices(void **state) {
    (void)state;
    open_usual();
    pin_one(2000);
    pin_one(2000);
    weir_chan_close(z.ch, WEIR_ABORT);
    assert_int_equal(counters().pinned, 4000); /* until the door has said so */
    assert_string_equal(told(), "");
    kit_loop_settle(&z.k);
    assert_string_equal(told(), "close ECANCELLED;");
    kit_loop_close(&z.k);
}

static void aborted_in_flight_it_may_be_pinned_too(void **state) {
    (void)state;
    open_usual();
    pin_one(2000);
    assert_int_equal(pour(2000), 0);
    weir_chan_close(z.ch, WEIR_ABORT);
    kit_loop_settle(&z.k);
    assert_string_equal(told(), "close ECANCELLED;");
    kit_loop_close(&z.k);
}

static void a_failed_send_may_be_pinned_too(void **state) {
    (void)state;
    open_usual();
    pin_one(2000);
    assert_int_equal(pour(3000), 0);
    sent(WEIR_ERESET, true);
    assert_int_equal(counters().pinned, 5000);
    assert_int_equal(counters().inflight, 0);
    assert_int_equal(pour(10), WEIR_EGONE);
    unpinned(0);
    assert_int_equal(counters().pinned, 3000);
    kit_loop_close(&z.k);
    assert_string_equal(told(), "close ERESET;");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(only_large_flights_go_without_a_copy, emb_begin),
        cmocka_unit_test_setup(nothing_does_unless_asked_for, emb_begin),
        cmocka_unit_test_setup(a_door_that_always_copies_is_not_asked, emb_begin),
        cmocka_unit_test_setup(without_memory_it_is_copied, emb_begin),
        cmocka_unit_test_setup(what_is_pinned_holds_memory_and_nothing_else, emb_begin),
        cmocka_unit_test_setup(what_was_not_pinned_goes_with_its_terminal, emb_begin),
        cmocka_unit_test_setup(half_of_the_memory_may_be_pinned, emb_begin),
        cmocka_unit_test_setup(the_last_notice_makes_it_writable, emb_begin),
        cmocka_unit_test_setup(a_drain_does_not_wait_for_notices, emb_begin),
        cmocka_unit_test_setup(closed_comes_behind_the_notices, emb_begin),
        cmocka_unit_test_setup(aborted_in_flight_it_may_be_pinned_too, emb_begin),
        cmocka_unit_test_setup(a_failed_send_may_be_pinned_too, emb_begin),
    };
    return cmocka_run_group_tests_name("chan/pin", tests, NULL, NULL);
}
