/* The heartbeat over an embedded channel: who is asked, who is not, and when it ends. */
#include "kit/embedded.h"
#include "weir/heartbeat.h"

static int ping(struct weir_ctx *c, void *user) {
    tell("ping;");
    return user ? WEIR_EPROTO : emb_say(c, "P");
}

static const struct weir_heartbeat_options hundred = {
    .size = sizeof hundred, .interval_ms = 100, .missed_max = 2, .ping = ping};

static struct weir_embedded *open_before(const struct weir_handler *h,
                                         const struct weir_heartbeat_options *o,
                                         const struct weir_limits *limits) {
    struct weir_stage line[] = {{&weir_heartbeat_handler, o}, {h, NULL}};
    return emb_line(line, 2, limits);
}

static void a_silent_peer_is_asked_and_then_closed(void **state) {
    (void)state;
    struct weir_limits limits = {.linger_ms = 10};
    struct weir_embedded *e = open_before(&emb_echo, &hundred, &limits);
    weir_embedded_advance(e, 99);
    assert_string_equal(told(), "");
    weir_embedded_advance(e, 2);
    assert_string_equal(told(), "ping;");
    weir_embedded_advance(e, 198);
    assert_string_equal(told(), "ping;ping;");
    assert_int_equal(weir_embedded_state(e), 1);
    weir_embedded_advance(e, 20);
    assert_string_equal(told(), "ping;ping;close ETIMEDOUT;");
    assert_int_equal(weir_embedded_state(e), WEIR_ETIMEDOUT);
    emb_expect_out(e, "PP");
    emb_end(e);
}

static void any_byte_is_an_answer(void **state) {
    (void)state;
    struct weir_embedded *e = open_before(&emb_sink, &hundred, NULL);
    for (int i = 0; i < 10; i++) {
        weir_embedded_advance(e, 205); /* two are out, none is left to miss */
        emb_push(e, "x");
    }
    assert_int_equal(weir_embedded_state(e), 1);
    emb_end(e);
}

static void an_answer_in_the_same_millisecond_counts(void **state) {
    (void)state;
    struct weir_embedded *e = open_before(&emb_sink, &hundred, NULL);
    for (int i = 0; i < 10; i++) {
        weir_embedded_advance(e, 100);
        emb_push(e, "x");
    }
    assert_int_equal(weir_embedded_state(e), 1);
    emb_end(e);
}

static void a_busy_peer_is_never_asked(void **state) {
    (void)state;
    struct weir_embedded *e = open_before(&emb_echo, &hundred, NULL);
    for (int i = 0; i < 20; i++) {
        weir_embedded_advance(e, 90);
        emb_push(e, "x");
    }
    assert_string_equal(told(), "");
    emb_end(e);
}

static void three_is_the_default(void **state) {
    (void)state;
    struct weir_heartbeat_options o = hundred;
    struct weir_limits limits = {.linger_ms = 1};
    o.missed_max = 0;
    struct weir_embedded *e = open_before(&emb_echo, &o, &limits);
    weir_embedded_advance(e, 390);
    assert_string_equal(told(), "ping;ping;ping;");
    weir_embedded_advance(e, 20);
    assert_int_equal(weir_embedded_state(e), WEIR_ETIMEDOUT);
    emb_end(e);
}

static void a_ping_that_fails_ends_it(void **state) {
    (void)state;
    struct weir_heartbeat_options o = hundred;
    struct weir_limits limits = {.linger_ms = 1};
    o.user = &o;
    struct weir_embedded *e = open_before(&emb_echo, &o, &limits);
    weir_embedded_advance(e, 110);
    assert_int_equal(weir_embedded_state(e), WEIR_EPROTO);
    emb_end(e);
}

/* Not reading says nothing about the peer. */
static void nothing_is_counted_while_nothing_is_read(void **state) {
    (void)state;
    struct weir_limits limits = {.linger_ms = 1};
    struct weir_embedded *e = open_before(&emb_echo, &hundred, &limits);
    weir_chan_credit(weir_embedded_chan(e), 0);
    weir_embedded_advance(e, 5000);
    assert_string_equal(told(), "");
    weir_chan_credit(weir_embedded_chan(e), -1);
    weir_embedded_advance(e, 250);
    assert_string_equal(told(), "ping;ping;");
    weir_embedded_advance(e, 100);
    assert_int_equal(weir_embedded_state(e), WEIR_ETIMEDOUT);
    emb_end(e);
}

/* A full output stops the reading: then taking it is the sign of life, no ping is put behind. */
static void a_peer_that_takes_nothing_is_silent(void **state) {
    (void)state;
    struct weir_limits limits = {
        .high_bytes = 1000, .low_bytes = 100, .linger_ms = 1, .drain_ms = 1};
    struct weir_embedded *e = open_before(&emb_echo, &hundred, &limits);
    weir_embedded_hold(e, true);
    assert_int_equal(emb_pour(emb_ctx(e, &emb_echo), 500), 0);
    weir_embedded_advance(e, 1); /* in flight */
    assert_int_equal(emb_pour(emb_ctx(e, &emb_echo), 5000), 0);
    weir_embedded_advance(e, 250);
    assert_string_equal(told(), "");
    assert_int_equal(weir_embedded_state(e), 1);
    weir_embedded_advance(e, 100);
    assert_int_equal(weir_embedded_state(e), WEIR_ETIMEDOUT);
    emb_end(e);
}

static void what_it_must_be_told(void **state) {
    (void)state;
    const struct weir_heartbeat_options none = {.size = sizeof none, .ping = ping},
                                        mute = {.size = sizeof mute, .interval_ms = 1},
                                        small = {.size = 1, .interval_ms = 1, .ping = ping};
    const struct weir_heartbeat_options *const bad[] = {NULL, &none, &mute, &small};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct weir_stage line[] = {{&weir_heartbeat_handler, bad[i]}};
        struct weir_embedded *e;
        assert_int_equal(weir_embedded_new(line, 1, NULL, &e), WEIR_EINVAL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_silent_peer_is_asked_and_then_closed, emb_begin),
        cmocka_unit_test_setup(any_byte_is_an_answer, emb_begin),
        cmocka_unit_test_setup(an_answer_in_the_same_millisecond_counts, emb_begin),
        cmocka_unit_test_setup(a_busy_peer_is_never_asked, emb_begin),
        cmocka_unit_test_setup(three_is_the_default, emb_begin),
        cmocka_unit_test_setup(a_ping_that_fails_ends_it, emb_begin),
        cmocka_unit_test_setup(nothing_is_counted_while_nothing_is_read, emb_begin),
        cmocka_unit_test_setup(a_peer_that_takes_nothing_is_silent, emb_begin),
        cmocka_unit_test_setup(what_it_must_be_told, emb_begin),
    };
    return cmocka_run_group_tests_name("handler/heartbeat", tests, NULL, NULL);
}
