/* Birth and the close protocol: every transition drawn in chan.h, holds, lingering, and a life with
 * every allocation failing once. */
#include "chan/chan.h"
#include "kit/door.h"
#include "kit/embedded.h"
#include "mem/pool.h"
#include "mem/raw.h"

/* --- CONNECTING --------------------------------------------------------------------------------
 */

static void tell_connected(struct weir_chan *ch, int status, void *user) {
    *(struct weir_chan **)user = ch;
    tell("connected %s;", status ? weir_errname(status) : "0");
}

struct dial {
    struct kit_loop k;
    struct weir_chan *ch;
};

static void dial(struct dial *d, uint32_t connect_ms) {
    struct weir_stage line[] = {{&emb_echo, NULL}};
    struct weir_addr to = {0};
    struct weir__chan_plan *p;
    *d = (struct dial){0};
    kit_loop_open(&d->k);
    assert_int_equal(weir__chan_plan_new(d->k.loop, line, 1, NULL, &p), 0);
    assert_int_equal(weir__chan_connect(p, &to, connect_ms, NULL, tell_connected, &d->ch), 0);
    weir__chan_plan_release(p);
    assert_string_equal(told(), "");
}

static void answer(struct dial *d, int code) {
    kit_door_queue(&d->k.door, d->k.door.socks[0].s.user,
                   (struct weir__io_done){.kind = WEIR__IO_CONNECTED, .last = true, .code = code});
    kit_loop_settle(&d->k);
}

static void a_connection_that_works_opens(void **state) {
    (void)state;
    struct dial d;
    dial(&d, 0);
    answer(&d, 0);
    assert_string_equal(told(), "connected 0;");
    assert_int_equal(d.ch->state, WEIR__CHAN_OPEN);
    assert_true(d.k.door.socks[0].armed);
    kit_loop_close(&d.k);
    assert_string_equal(told(), "connected 0;close ESTOPPED;");
}

static void a_connection_that_fails_says_why(void **state) {
    (void)state;
    struct dial d;
    dial(&d, 0);
    answer(&d, WEIR_EREFUSED);
    assert_string_equal(told(), "connected EREFUSED;"); /* nobody was opened, nobody is closed */
    assert_null(d.ch);
    kit_loop_close(&d.k);
}

static void a_connection_has_a_deadline(void **state) {
    (void)state;
    struct dial d;
    dial(&d, 20);
    d.k.door.now_ns += 19 * 1000000;
    kit_loop_settle(&d.k);
    assert_string_equal(told(), "");
    d.k.door.now_ns += 2 * 1000000;
    kit_loop_settle(&d.k);
    assert_string_equal(told(), "connected ETIMEDOUT;");
    kit_loop_close(&d.k);
}

static void a_stop_ends_a_connection_that_is_under_way(void **state) {
    (void)state;
    struct dial d;
    dial(&d, 0);
    kit_loop_close(&d.k);
    assert_string_equal(told(), "connected ESTOPPED;");
}

static void a_ref_may_close_what_connects(void **state) {
    (void)state;
    struct dial d;
    dial(&d, 0);
    struct weir_ref r = {d.k.door.socks[0].s.ref};
    assert_null(weir_chan_find(d.k.loop, r)); /* not open: nobody's yet */
    assert_int_equal(weir_close(r, WEIR_DRAIN), 0);
    kit_loop_settle(&d.k);
    assert_string_equal(told(), "connected ECANCELLED;");
    kit_loop_close(&d.k);
}

static void no_socket_no_channel(void **state) {
    (void)state;
    struct kit_loop k;
    struct weir_stage line[] = {{&emb_echo, NULL}};
    struct weir_addr to = {0};
    struct weir__chan_plan *p;
    kit_loop_open(&k);
    assert_int_equal(weir__chan_plan_new(k.loop, line, 1, NULL, &p), 0);
    k.door.refuse = WEIR_EFDS;
    assert_int_equal(weir__chan_connect(p, &to, 0, NULL, tell_connected, &k), WEIR_EFDS);
    assert_int_equal(weir__chan_accept(p, 0), WEIR_EFDS);
    weir__mem_fail(k.mem, 1, true);
    assert_int_equal(weir__chan_connect(p, &to, 0, NULL, tell_connected, &k), WEIR_ENOMEM);
    assert_int_equal(weir__chan_accept(p, 0), WEIR_ENOMEM);
    weir__mem_fail(k.mem, 0, false);
    weir__chan_plan_release(p);
    assert_string_equal(told(), "");
    kit_loop_close(&k);
}

/* --- OPEN to DEAD ------------------------------------------------------------------------------
 */

static int state_of(struct weir_embedded *e) {
    return weir_embedded_chan(e) ? weir_embedded_chan(e)->state : WEIR__CHAN_DEAD;
}

static void draining_sends_then_lingers_then_closes(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_echo, NULL, NULL);
    weir_embedded_hold(e, true);
    emb_push(e, "one");
    emb_push(e, "two");
    weir_chan_close(weir_embedded_chan(e), WEIR_DRAIN);
    assert_int_equal(state_of(e), WEIR__CHAN_DRAINING);
    assert_int_equal(emb_say(emb_ctx(e, &emb_echo), "late"), WEIR_EGONE);
    weir_chan_close(weir_embedded_chan(e), WEIR_DRAIN);
    weir_embedded_advance(e, 1);
    assert_int_equal(state_of(e), WEIR__CHAN_DRAINING);
    weir_embedded_hold(e, false);
    assert_int_equal(state_of(e), WEIR__CHAN_LINGER);
    emb_expect_out(e, "onetwo");
    weir_embedded_eof(e);
    assert_int_equal(weir_embedded_state(e), 0);
    assert_string_equal(told(), "close 0;");
    emb_end(e);
}

static void an_abort_ends_each_state(void **state) {
    (void)state;
    for (int from = WEIR__CHAN_OPEN; from <= WEIR__CHAN_LINGER; from++) {
        forget();
        struct weir_embedded *e = emb_open(&emb_echo, NULL, NULL);
        weir_embedded_hold(e, true);
        emb_push(e, "one");
        emb_push(e, "two");
        if (from > WEIR__CHAN_OPEN)
            weir_chan_close(weir_embedded_chan(e), WEIR_DRAIN);
        if (from == WEIR__CHAN_LINGER)
            weir_embedded_hold(e, false);
        assert_int_equal(state_of(e), from);
        weir_chan_close(weir_embedded_chan(e), WEIR_ABORT);
        assert_int_equal(state_of(e), WEIR__CHAN_CLOSING);
        weir_chan_close(weir_embedded_chan(e), WEIR_ABORT);
        weir_chan_fail(weir_embedded_chan(e), WEIR_EPROTO);
        weir_embedded_advance(e, 1);
        assert_int_equal(state_of(e), WEIR__CHAN_DEAD);
        assert_string_equal(told(), "close ECANCELLED;");
        emb_end(e);
    }
}

static void lingering_is_bounded_in_bytes(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_echo, NULL, NULL);
    static char much[300 << 10];
    weir_chan_close(weir_embedded_chan(e), WEIR_DRAIN);
    weir_embedded_advance(e, 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(weir_embedded_push(e, much, sizeof much), 0);
    assert_int_equal(state_of(e), WEIR__CHAN_LINGER);
    assert_int_equal(weir_embedded_push(e, much, sizeof much), 0);
    assert_int_equal(weir_embedded_state(e), 0);
    emb_expect_out(e, "");
    emb_end(e);
}

static void half_open_channels_outlive_the_peers_end(void **state) {
    (void)state;
    struct weir_limits limits = {.half_open = true};
    struct weir_embedded *e = emb_open(&emb_four, NULL, &limits);
    weir_embedded_eof(e);
    assert_string_equal(told(), "eof;");
    assert_int_equal(weir_embedded_state(e), 1);
    assert_int_equal(emb_say(emb_ctx(e, &emb_four), "an answer"), 0);
    weir_chan_close(weir_embedded_chan(e), WEIR_DRAIN);
    weir_embedded_advance(e, 1);
    emb_expect_out(e, "an answer");
    assert_int_equal(weir_embedded_state(e), 0); /* both ends are there: it need not linger */
    emb_end(e);
}

/* --- what a drain waits for ----------------------------------------------------------------------
 */

static void drain_event(struct weir_ctx *c, int what, const void *data) {
    (void)data;
    if (what != WEIR_EVENT_DRAIN)
        return;
    tell("drain;");
    assert_int_equal(emb_say(c, "goodbye;"), 0);
    weir_ctx_hold(c);
}

static void a_drain_is_announced_and_waits_for_holds(void **state) {
    (void)state;
    const struct weir_handler h = {
        .name = "h", .read = emb_sink.read, .event = drain_event, .close = emb_echo.close};
    struct weir_embedded *e = emb_open(&h, NULL, NULL);
    struct weir_ctx *c = emb_ctx(e, &h);
    weir_chan_close(weir_embedded_chan(e), WEIR_DRAIN);
    weir_chan_close(weir_embedded_chan(e), WEIR_DRAIN);
    weir_embedded_advance(e, 10);
    emb_expect_out(e, "goodbye;");
    assert_int_equal(state_of(e), WEIR__CHAN_DRAINING);
    weir_ctx_hold(c);
    assert_int_equal(emb_say(c, "answer"), 0); /* held: what was accepted is still answered */
    weir_ctx_unhold(c);
    weir_embedded_advance(e, 1);
    emb_expect_out(e, "goodbye;answer");
    assert_int_equal(state_of(e), WEIR__CHAN_DRAINING);
    weir_ctx_unhold(c);
    weir_embedded_advance(e, 1);
    assert_int_equal(state_of(e), WEIR__CHAN_LINGER);
    weir_embedded_eof(e);
    assert_string_equal(told(), "drain;close 0;");
    emb_end(e);
}

static void an_abort_is_not_announced(void **state) {
    (void)state;
    const struct weir_handler h = {
        .name = "h", .read = emb_sink.read, .event = drain_event, .close = emb_echo.close};
    struct weir_embedded *e = emb_open(&h, NULL, NULL);
    weir_chan_close(weir_embedded_chan(e), WEIR_ABORT);
    weir_embedded_advance(e, 1);
    emb_end(e);
    assert_string_equal(told(), "close ECANCELLED;");
}

/* --- every allocation fails once ---------------------------------------------------------- */

static uint64_t fail_nth;
static unsigned opens, closes;

static int frail_open(struct weir_ctx *c, const void *config) {
    (void)config;
    opens++;
    weir__mem_fail(weir_ctx_mem(c), fail_nth, false);
    return 0;
}

static void frail_close(struct weir_ctx *c, int why) {
    (void)c, (void)why;
    closes++;
}

static int frail_read(struct weir_ctx *c, struct weir_chain *in) {
    struct weir_chain copy = {0};
    uint64_t before = in->bytes;
    if (weir_chain_move(weir_ctx_mem(c), &copy, in, in->bytes > 3 ? 3 : in->bytes) < 0) {
        assert_int_equal(in->bytes, before);
        return WEIR_ENOMEM;
    }
    int rc = weir_ctx_forward(c, &copy);
    assert_true(rc < 0 || !copy.bytes);
    weir_chain_fini(&copy);
    return rc;
}

static int frail_write(struct weir_ctx *c, struct weir_chain *out) {
    int rc = weir_chain_write(weir_ctx_mem(c), out, "|", 1);
    return rc < 0 ? rc : weir_ctx_send(c, out);
}

static int64_t frail_pull(struct weir_ctx *c, uint64_t room) {
    (void)room;
    return emb_say(c, "pulled"), 0;
}

static const struct weir_handler frail = {.name = "frail",
                                          .open = frail_open,
                                          .read = frail_read,
                                          .write = frail_write,
                                          .pull = frail_pull,
                                          .close = frail_close};
static const struct weir_handler added = {
    .name = "added", .read = frail_read, .write = frail_write};

/* Leftovers, compaction, cut flights, filters, pull, insertion, a foreign send and an orderly end.
 */
static int frail_life(void) {
    struct weir_stage line[] = {{&frail, NULL}, {&emb_four, NULL}, {&emb_echo, NULL}};
    struct weir_limits limits = {.batch_bytes = 7, .high_bytes = 4000, .linger_ms = 5};
    struct weir_embedded *e;
    static char big[403];
    int rc = weir_embedded_new(line, 3, &limits, &e);
    if (rc < 0)
        return rc;
    struct weir_mem *m = weir_loop_mem(weir_chan_loop(weir_embedded_chan(e)));
    weir_embedded_push(e, big, sizeof big);
    weir_embedded_hold(e, true);
    weir_embedded_push(e, "abcdefghijk", 11);
    struct weir_chan *ch = weir_embedded_chan(e);
    if (ch)
        emb_pour(weir_chan_head(ch)->next, 30);
    if (ch && weir_ctx_insert_next(weir_chan_head(ch), &added, NULL) >= 0)
        weir_ctx_ready(weir_chan_head(ch));
    weir_embedded_advance(e, 1);
    if ((ch = weir_embedded_chan(e))) {
        struct weir_chain out = {0};
        if (weir_chain_write(m, &out, "foreign", 7) == 0 && weir_send(weir_chan_ref(ch), &out) < 0)
            assert_int_equal(out.bytes, 7);
        weir_chain_fini(&out);
    }
    weir_embedded_hold(e, false);
    weir_embedded_push(e, "lmnopq", 6);
    weir_embedded_advance(e, 20); /* a receive that found no buffer is tried again */
    weir_embedded_eof(e);
    weir_embedded_advance(e, 20);
    rc = weir_embedded_chan(e) ? 1 : 0;
    bool unhit = m->fail_in != 0;
    assert_int_equal(weir_embedded_free(e), 0);
    assert_int_equal(rc, 0); /* it ended by itself, whatever failed */
    return unhit;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    uint64_t n = 0;
    int unhit = 0;
    while (unhit <= 0) {
        forget();
        opens = closes = 0;
        fail_nth = ++n;
        unhit = frail_life();
        assert_int_equal(opens, closes);
        assert_true(n < 100000);
    }
    assert_true(n > 20);
    fail_nth = 0;
    for (n = 1; n < 20; n++) {
        forget();
        opens = closes = 0;
        weir__mem_raw_fail(n);
        frail_life();
        weir__mem_raw_fail(0);
        assert_int_equal(opens, closes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_connection_that_works_opens, emb_begin),
        cmocka_unit_test_setup(a_connection_that_fails_says_why, emb_begin),
        cmocka_unit_test_setup(a_connection_has_a_deadline, emb_begin),
        cmocka_unit_test_setup(a_stop_ends_a_connection_that_is_under_way, emb_begin),
        cmocka_unit_test_setup(a_ref_may_close_what_connects, emb_begin),
        cmocka_unit_test_setup(no_socket_no_channel, emb_begin),
        cmocka_unit_test_setup(draining_sends_then_lingers_then_closes, emb_begin),
        cmocka_unit_test_setup(an_abort_ends_each_state, emb_begin),
        cmocka_unit_test_setup(lingering_is_bounded_in_bytes, emb_begin),
        cmocka_unit_test_setup(half_open_channels_outlive_the_peers_end, emb_begin),
        cmocka_unit_test_setup(a_drain_is_announced_and_waits_for_holds, emb_begin),
        cmocka_unit_test_setup(an_abort_is_not_announced, emb_begin),
        cmocka_unit_test_setup(every_allocation_may_fail, emb_begin),
    };
    return cmocka_run_group_tests_name("chan/chan", tests, NULL, NULL);
}
