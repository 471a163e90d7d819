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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_idle_channel_is_closed, emb_begin),
        cmocka_unit_test_setup(sending_counts_as_activity, emb_begin),
        cmocka_unit_test_setup(a_touch_in_the_idle_event_keeps_it_open, emb_begin),
        cmocka_unit_test_setup(no_idle_limit_is_no_limit, emb_begin),
        cmocka_unit_test_setup(a_drain_that_does_not_end_is_ended, emb_begin),
        cmocka_unit_test_setup(lingering_is_bounded_in_time, emb_begin),
        cmocka_unit_test_setup(the_nearest_deadline_counts, emb_begin),
    };
    return cmocka_run_group_tests_name("chan/timing", tests, NULL, NULL);
}
