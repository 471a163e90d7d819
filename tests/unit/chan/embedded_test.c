/* The embedded door itself: bytes in, bytes out, sends that are held, the clock, and its place on
 * the thread. */
#include "kit/embedded.h"
#include "loop/loop.h"
#include "mem/pool.h"
#include "mem/raw.h"

static void echo_gives_back_what_it_gets(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_echo, NULL, NULL);
    emb_push(e, "hello ");
    emb_push(e, "world");
    emb_expect_out(e, "hello world");
    assert_int_equal(weir_embedded_state(e), 1);
    emb_end(e);
}

static void end_of_stream_closes_in_order(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_echo, NULL, NULL);
    emb_push(e, "last words");
    weir_embedded_eof(e);
    emb_expect_out(e, "last words");
    assert_int_equal(weir_embedded_state(e), 0);
    assert_null(weir_embedded_chan(e));
    assert_string_equal(told(), "close 0;");
    assert_int_equal(weir_embedded_push(e, "x", 1), WEIR_EGONE);
    emb_end(e);
}

static void a_held_send_completes_when_it_is_let_go(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_echo, NULL, NULL);
    weir_embedded_hold(e, true);
    emb_push(e, "one");
    emb_push(e, "two");
    assert_int_equal(emb_counters(e).inflight, 3);
    assert_int_equal(emb_counters(e).queued, 3);
    emb_expect_out(e, "one"); /* what the transport has; it has not said so */
    weir_embedded_hold(e, false);
    emb_expect_out(e, "onetwo");
    assert_int_equal(emb_counters(e).inflight + emb_counters(e).queued, 0);
    emb_end(e);
}

static void it_may_be_freed_while_a_send_is_held(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_echo, NULL, NULL);
    weir_embedded_hold(e, true);
    emb_push(e, "one");
    emb_push(e, "two");
    emb_end(e);
    assert_string_equal(told(), "close ESTOPPED;");
}

static int refuse_open(struct weir_ctx *c, const void *config) {
    (void)c, (void)config;
    return WEIR_EPROTO;
}

static void a_handler_that_refuses_ends_the_channel(void **state) {
    (void)state;
    const struct weir_handler refuse = {
        .name = "refuse", .open = refuse_open, .read = emb_sink.read};
    struct weir_stage line[] = {{&refuse, NULL}};
    struct weir_embedded *e;
    assert_int_equal(weir_embedded_new(line, 1, NULL, &e), WEIR_EPROTO);
    assert_null(e);
    assert_null(weir__loop_current);
    assert_int_equal(weir_embedded_new(line, 0, NULL, &e), 0); /* none: bytes are for nobody */
    assert_int_equal(weir_embedded_free(e), 0);
}

static void two_on_one_thread_end_in_reverse_order(void **state) {
    (void)state;
    struct weir_mem *mine = weir_mem_open("mine"), *outer = weir__mem_current;
    assert_ptr_equal(outer, mine);
    struct weir_embedded *a = emb_open(&emb_echo, NULL, NULL);
    struct weir_loop *loop = weir__loop_current;
    struct weir_embedded *b = emb_open(&emb_echo, NULL, NULL);
    assert_ptr_not_equal(weir__loop_current, loop);
    emb_push(b, "b");
    emb_end(b);
    assert_ptr_equal(weir__loop_current, loop);
    emb_push(a, "a");
    emb_expect_out(a, "a");
    emb_end(a);
    assert_null(weir__loop_current);
    assert_ptr_equal(weir__mem_current, mine);
    weir_mem_close(mine);
}

static void addresses_have_a_text(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_echo, NULL, NULL);
    char text[64];
    assert_int_equal(weir_chan_local(weir_embedded_chan(e), text, sizeof text), 0);
    assert_string_equal(text, "unix:embedded");
    assert_int_equal(weir_chan_peer(weir_embedded_chan(e), text, 5), 0);
    assert_string_equal(text, "unix");
    emb_end(e);
}

/* Regression: the thread's pool was forgotten when there was no memory for the channel's own. */
static void no_memory_leaves_the_thread_as_it_was(void **state) {
    (void)state;
    struct weir_mem *mine = weir_mem_open("mine");
    struct weir_stage line[] = {{&emb_echo, NULL}};
    struct weir_embedded *e = NULL;
    int rc = WEIR_ENOMEM;
    unsigned nth;
    for (nth = 1; rc == WEIR_ENOMEM; nth++) {
        weir__mem_raw_fail(nth);
        rc = weir_embedded_new(line, 1, NULL, &e);
        weir__mem_raw_fail(0);
        if (rc < 0) {
            assert_null(e);
            assert_null(weir__loop_current);
            assert_ptr_equal(weir__mem_current, mine);
        }
    }
    assert_int_equal(rc, 0);
    assert_true(nth > 4);
    emb_end(e);
    assert_ptr_equal(weir__mem_current, mine);
    weir_mem_close(mine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(echo_gives_back_what_it_gets, emb_begin),
        cmocka_unit_test_setup(end_of_stream_closes_in_order, emb_begin),
        cmocka_unit_test_setup(a_held_send_completes_when_it_is_let_go, emb_begin),
        cmocka_unit_test_setup(it_may_be_freed_while_a_send_is_held, emb_begin),
        cmocka_unit_test_setup(a_handler_that_refuses_ends_the_channel, emb_begin),
        cmocka_unit_test_setup(two_on_one_thread_end_in_reverse_order, emb_begin),
        cmocka_unit_test_setup(addresses_have_a_text, emb_begin),
        cmocka_unit_test_setup(no_memory_leaves_the_thread_as_it_was, emb_begin),
    };
    return cmocka_run_group_tests_name("chan/embedded", tests, NULL, NULL);
}
