/* Deadlines of a channel: idle, drain, linger, and that activity only moves them. */
#include "kit/embedded.h"

static void an_idle_channel_is_closed(void **state) {
    (void)state;
    struct weir_limits limits = {.idle_ms = 100, .linger_ms = 10};
    struct weir_embedded *e = emb_open(&emb_echo, NULL, &limits);
    weir_embedded_advance(e, 90);
    emb_push(e, "still here");
    weir_embedded_advance(e, 90);
    assert_int_equal(weir_embedded_state(e), 1);
    weir_embedded_advance(e, 30);
    assert_int_equal(weir_embedded_state(e), WEIR_EIDLE);
    assert_string_equal(told(), "close EIDLE;");
    emb_end(e);
}

static void sending_counts_as_activity(void **state) {
    (void)state;
    struct weir_limits limits = {.idle_ms = 100};
    struct weir_embedded *e = emb_open(&emb_echo, NULL, &limits);
    for (int i = 0; i < 5; i++) {
        weir_embedded_advance(e, 90);
        assert_int_equal(emb_say(emb_ctx(e, &emb_echo), "."), 0);
        weir_embedded_advance(e, 1);
    }
    assert_int_equal(weir_embedded_state(e), 1);
    emb_end(e);
}

static unsigned touches;

static void touch_event(struct weir_ctx *c, int what, const void *data) {
    (void)data;
    if (what != WEIR_EVENT_IDLE)
        return;
    tell("idle;");
    if (touches && touches--)
        weir_chan_touch(weir_ctx_chan(c));
}

static void a_touch_in_the_idle_event_keeps_it_open(void **state) {
    (void)state;
    const struct weir_handler h = {.name = "h", .read = emb_sink.read, .event = touch_event};
    struct weir_limits limits = {.idle_ms = 10, .linger_ms = 10};
    touches = 3;
    struct weir_embedded *e = emb_open(&h, NULL, &limits);
    weir_embedded_advance(e, 35);
    assert_string_equal(told(), "idle;idle;idle;");
    assert_int_equal(weir_embedded_state(e), 1);
    weir_embedded_advance(e, 30);
    assert_string_equal(told(), "idle;idle;idle;idle;");
    assert_int_equal(weir_embedded_state(e), WEIR_EIDLE);
    emb_end(e);
}

static void no_idle_limit_is_no_limit(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_echo, NULL, NULL);
    weir_embedded_advance(e, 100000);
    assert_int_equal(weir_embedded_state(e), 1);
    emb_end(e);
}

static void a_drain_that_does_not_end_is_ended(void **state) {
    (void)state;
    struct weir_limits limits = {.drain_ms = 50, .idle_ms = 20};
    struct weir_embedded *e = emb_open(&emb_echo, NULL, &limits);
    weir_embedded_hold(e, true);
    emb_push(e, "stuck");
    weir_chan_close(weir_embedded_chan(e), WEIR_DRAIN);
    weir_embedded_advance(e, 49);
    assert_int_equal(weir_embedded_state(e), 1);
    weir_embedded_advance(e, 2);
    assert_int_equal(weir_embedded_state(e), WEIR_ETIMEDOUT);
    emb_end(e);
}

static void lingering_is_bounded_in_time(void **state) {
    (void)state;
    struct weir_limits limits = {.linger_ms = 50};
    struct weir_embedded *e = emb_open(&emb_echo, NULL, &limits);
    weir_chan_close(weir_embedded_chan(e), WEIR_DRAIN);
    weir_embedded_advance(e, 1);
    weir_embedded_advance(e, 48);
    assert_int_equal(weir_embedded_state(e), 1);
    weir_embedded_advance(e, 3);
    assert_int_equal(weir_embedded_state(e), 0); /* it closed, and nothing was wrong */
    emb_end(e);
}

static void the_nearest_deadline_counts(void **state) {
    (void)state;
    struct weir_limits limits = {.idle_ms = 1000, .linger_ms = 5000, .drain_ms = 10};
    struct weir_embedded *e = emb_open(&emb_echo, NULL, &limits);
    weir_ctx_hold(emb_ctx(e, &emb_echo));
    weir_chan_fail(weir_embedded_chan(e), WEIR_EPROTO);
    weir_embedded_advance(e, 9);
    assert_int_equal(weir_embedded_state(e), 1);
    weir_embedded_advance(e, 2);
    assert_int_equal(weir_embedded_state(e), WEIR_EPROTO); /* the first reason stays */
    emb_end(e);
}

/* --- each direction by itself ------------------------------------------------------------- */

static void tell_idle(struct weir_ctx *c, int what, const void *data) {
    (void)c, (void)data;
    if (what == WEIR_EVENT_IDLE_READ)
        tell("read;");
    else if (what == WEIR_EVENT_IDLE_WRITE)
        tell("write;");
    else if (what == WEIR_EVENT_IDLE)
        tell("all;");
}

static int drop_all(struct weir_ctx *c, struct weir_chain *in) {
    (void)c;
    weir_chain_fini(in);
    return 0;
}

static void tell_close(struct weir_ctx *c, int why) {
    (void)c;
    tell("close %s;", why ? weir_errname(why) : "0");
}

static const struct weir_handler teller = {
    .name = "teller", .read = drop_all, .event = tell_idle, .close = tell_close};

static void a_silent_peer_is_told_again_and_again(void **state) {
    (void)state;
    struct weir_limits limits = {.read_idle_ms = 100};
    struct weir_embedded *e = emb_open(&teller, NULL, &limits);
    weir_embedded_advance(e, 99);
    assert_string_equal(told(), "");
    weir_embedded_advance(e, 2);
    assert_string_equal(told(), "read;");
    assert_int_equal(emb_say(emb_ctx(e, &teller), "."), 0); /* not the peer's */
    weir_embedded_advance(e, 100);
    assert_string_equal(told(), "read;read;");
    weir_embedded_advance(e, 50);
    emb_push(e, "x");
    weir_embedded_advance(e, 98);
    assert_string_equal(told(), "read;read;");
    weir_embedded_advance(e, 3);
    assert_string_equal(told(), "read;read;read;");
    assert_int_equal(weir_embedded_state(e), 1);
    emb_end(e);
}

static void an_output_that_rests_or_is_stuck_is_told(void **state) {
    (void)state;
    struct weir_limits limits = {.write_idle_ms = 100};
    struct weir_embedded *e = emb_open(&teller, NULL, &limits);
    weir_embedded_advance(e, 60);
    assert_int_equal(emb_say(emb_ctx(e, &teller), "."), 0);
    weir_embedded_advance(e, 98);
    emb_push(e, "not ours");
    assert_string_equal(told(), "");
    weir_embedded_advance(e, 3);
    assert_string_equal(told(), "write;");
    weir_embedded_hold(e, true);
    assert_int_equal(emb_say(emb_ctx(e, &teller), "stuck"), 0);
    weir_embedded_advance(e, 100);
    assert_string_equal(told(), "write;write;");
    weir_embedded_hold(e, false);
    weir_embedded_advance(e, 98);
    assert_string_equal(told(), "write;write;");
    emb_end(e);
}

static void the_three_go_by_themselves(void **state) {
    (void)state;
    struct weir_limits limits = {
        .read_idle_ms = 50, .write_idle_ms = 70, .idle_ms = 110, .linger_ms = 1};
    struct weir_embedded *e = emb_open(&teller, NULL, &limits);
    weir_embedded_advance(e, 105);
    assert_string_equal(told(), "read;write;read;");
    weir_embedded_hold(e, false);           /* a turn, so that the loop knows what time it is */
    weir_chan_touch(weir_embedded_chan(e)); /* idle_ms only */
    weir_embedded_advance(e, 100);
    assert_string_equal(told(), "read;write;read;write;read;read;");
    weir_embedded_advance(e, 20);
    assert_string_equal(told(), "read;write;read;write;read;read;write;all;close EIDLE;");
    emb_end(e);
}

static void reading_time_can_be_set_later(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&teller, NULL, NULL);
    weir_embedded_advance(e, 500);
    weir_embedded_hold(e, false);
    weir_chan_read_idle(weir_embedded_chan(e), 100);
    weir_embedded_advance(e, 90); /* silent for 590 ms, but asked only then */
    assert_string_equal(told(), "");
    weir_embedded_advance(e, 11);
    assert_string_equal(told(), "read;");
    weir_chan_read_idle(weir_embedded_chan(e), 0);
    weir_embedded_advance(e, 1000);
    assert_string_equal(told(), "read;");
    emb_end(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_idle_channel_is_closed, emb_begin),
        cmocka_unit_test_setup(sending_counts_as_activity, emb_begin),
        cmocka_unit_test_setup(a_touch_in_the_idle_event_keeps_it_open, emb_begin),
        cmocka_unit_test_setup(no_idle_limit_is_no_limit, emb_begin),
        cmocka_unit_test_setup(a_drain_that_does_not_end_is_ended, emb_begin),
        cmocka_unit_test_setup(lingering_is_bounded_in_time, emb_begin),
        cmocka_unit_test_setup(the_nearest_deadline_counts, emb_begin),
        cmocka_unit_test_setup(a_silent_peer_is_told_again_and_again, emb_begin),
        cmocka_unit_test_setup(an_output_that_rests_or_is_stuck_is_told, emb_begin),
        cmocka_unit_test_setup(the_three_go_by_themselves, emb_begin),
        cmocka_unit_test_setup(reading_time_can_be_set_later, emb_begin),
    };
    return cmocka_run_group_tests_name("chan/timing", tests, NULL, NULL);
}
