/* Input: leftovers, what a handler wants, stalls and wakes, credit, the end of the stream behind it
 * all. */
#include "kit/embedded.h"

static void what_is_left_is_kept_and_offered_again(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_four, NULL, NULL);
    emb_push(e, "ab");
    emb_push(e, "cdefghij");
    assert_string_equal(told(), "abcd;efgh;");
    assert_int_equal(emb_counters(e).leftover, 2);
    emb_push(e, "kl");
    weir_embedded_eof(e);
    assert_string_equal(told(), "abcd;efgh;ijkl;eof;");
    emb_end(e);
}

static void every_split_reads_the_same(void **state) {
    (void)state;
    const char *text = "abcdefghijkl";
    for (size_t cut = 0; cut <= 12; cut++) {
        forget();
        struct weir_embedded *e = emb_open(&emb_four, NULL, NULL);
        assert_int_equal(weir_embedded_push(e, text, cut), 0);
        assert_int_equal(weir_embedded_push(e, text + cut, 12 - cut), 0);
        weir_embedded_eof(e);
        assert_string_equal(told(), "abcd;efgh;ijkl;eof;");
        emb_end(e);
    }
    forget();
    struct weir_embedded *e = emb_open(&emb_four, NULL, NULL);
    for (size_t i = 0; i < 12; i++)
        assert_int_equal(weir_embedded_push(e, text + i, 1), 0);
    weir_embedded_eof(e);
    assert_string_equal(told(), "abcd;efgh;ijkl;eof;");
    emb_end(e);
}

static void a_stream_that_ends_inside_something_is_unclean(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_four, NULL, NULL);
    emb_push(e, "abcdef");
    weir_embedded_eof(e);
    assert_string_equal(told(), "abcd;cut;");
    emb_end(e);
}

static void input_that_waits_pauses_reading_and_holds_back_the_end(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_gate, NULL, NULL);
    emb_push(e, "one");
    emb_push(e, "two"); /* not received: the first is still there */
    assert_int_equal(emb_counters(e).leftover, 3);
    weir_embedded_eof(e);
    assert_string_equal(told(), "");
    weir_ctx_wake(emb_ctx(e, &emb_gate)); /* offered, refused again: it goes on waiting */
    weir_embedded_advance(e, 1);
    assert_string_equal(told(), "");
    emb_gate_open = true;
    weir_ctx_wake(emb_ctx(e, &emb_gate));
    weir_embedded_advance(e, 1);
    assert_string_equal(told(), "took 3;took 3;eof;");
    emb_end(e);
}

static void a_stall_behind_a_forwarder_pauses_the_socket_too(void **state) {
    (void)state;
    struct weir_stage line[] = {{&emb_forward, NULL}, {&emb_gate, NULL}};
    struct weir_embedded *e = emb_line(line, 2, NULL);
    emb_push(e, "one");
    emb_push(e, "two");
    assert_int_equal(emb_counters(e).leftover, 3);
    emb_gate_open = true;
    weir_ctx_wake(emb_ctx(e, &emb_gate));
    weir_embedded_eof(e);
    assert_string_equal(told(), "took 3;took 3;eof;");
    emb_end(e);
}

static void leftovers_wait_with_each_handler(void **state) {
    (void)state;
    struct weir_stage line[] = {{&emb_forward, NULL}, {&emb_four, NULL}};
    struct weir_embedded *e = emb_line(line, 2, NULL);
    emb_push(e, "abc");
    assert_int_equal(emb_counters(e).leftover, 3);
    emb_push(e, "defg");
    assert_int_equal(emb_counters(e).leftover, 3);
    weir_embedded_eof(e);
    assert_string_equal(told(), "abcd;cut;");
    emb_end(e);
}

static int want_read(struct weir_ctx *c, struct weir_chain *in) {
    tell("%d;", (int)in->bytes);
    weir_ctx_want(c, 10);
    if (in->bytes >= 10)
        weir_chain_drop(in, 10);
    return 0;
}

static void a_handler_is_not_called_below_what_it_wants(void **state) {
    (void)state;
    const struct weir_handler want = {.name = "want", .read = want_read};
    struct weir_embedded *e = emb_open(&want, NULL, NULL);
    emb_push(e, "12");
    emb_push(e, "345678");
    assert_string_equal(told(), "2;");
    emb_push(e, "9012");
    assert_string_equal(told(), "2;12;");
    assert_int_equal(emb_counters(e).leftover, 2);
    weir_ctx_want(emb_ctx(e, &want), 1);
    weir_ctx_wake(emb_ctx(e, &want));
    weir_embedded_advance(e, 1);
    assert_string_equal(told(), "2;12;2;");
    emb_end(e);
}

static void credit_is_never_overdrawn(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_sink, NULL, NULL);
    weir_chan_credit(weir_embedded_chan(e), 5);
    emb_push(e, "12345678");
    assert_string_equal(told(), "5;");
    weir_chan_credit(weir_embedded_chan(e), 2);
    weir_embedded_advance(e, 1);
    assert_string_equal(told(), "5;2;");
    weir_chan_credit(weir_embedded_chan(e), -1);
    weir_embedded_advance(e, 1);
    assert_string_equal(told(), "5;2;1;");
    weir_chan_credit(weir_embedded_chan(e), 0);
    emb_push(e, "abc");
    assert_string_equal(told(), "5;2;1;");
    weir_chan_credit(weir_embedded_chan(e), -1);
    weir_embedded_advance(e, 1);
    assert_string_equal(told(), "5;2;1;3;");
    emb_end(e);
}

static void the_end_waits_for_credit(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_sink, NULL, NULL);
    weir_chan_credit(weir_embedded_chan(e), 3);
    emb_push(e, "12345");
    weir_embedded_eof(e);
    assert_string_equal(told(), "3;");
    assert_int_equal(weir_embedded_state(e), 1);
    weir_chan_credit(weir_embedded_chan(e), 100);
    weir_embedded_advance(e, 1);
    assert_string_equal(told(), "3;2;");
    assert_int_equal(weir_embedded_state(e), 0);
    emb_end(e);
}

static void done_tell(struct weir_ctx *c) {
    (void)c;
    tell("done;");
}

static void the_batch_ends_for_every_handler_then_is_sent(void **state) {
    (void)state;
    const struct weir_handler first = {
        .name = "first", .read = emb_forward.read, .read_done = done_tell};
    const struct weir_handler second = {
        .name = "second", .read = emb_sink.read, .read_done = done_tell};
    struct weir_stage line[] = {{&first, NULL}, {&second, NULL}};
    struct weir_embedded *e = emb_line(line, 2, NULL);
    emb_push(e, "abc");
    assert_string_equal(told(), "3;done;done;");
    emb_end(e);
}

static int picky_read(struct weir_ctx *c, struct weir_chain *in) {
    if (in->bytes && *weir_chain_peek(weir_ctx_mem(c), in, 1) == '!') {
        emb_say(c, "bad");
        return WEIR_EPROTO;
    }
    weir_chain_fini(in);
    return 0;
}

static void an_error_of_read_closes_with_its_reason_after_the_answer(void **state) {
    (void)state;
    const struct weir_handler picky = {
        .name = "picky", .read = picky_read, .close = emb_echo.close};
    struct weir_embedded *e = emb_open(&picky, NULL, NULL);
    emb_push(e, "!");
    emb_expect_out(e, "bad");
    weir_embedded_advance(e, 2000); /* the peer never ends: lingering does */
    assert_int_equal(weir_embedded_state(e), WEIR_EPROTO);
    assert_string_equal(told(), "close EPROTO;");
    emb_end(e);
}

static void bytes_that_nobody_behind_reads_are_dropped(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_forward, NULL, NULL);
    emb_push(e, "for nobody");
    assert_int_equal(emb_counters(e).leftover, 0);
    emb_end(e);
}

static void reading_stops_while_the_output_is_full(void **state) {
    (void)state;
    struct weir_limits limits = {.high_bytes = 8, .low_bytes = 2};
    struct weir_embedded *e = emb_open(&emb_echo, NULL, &limits);
    weir_embedded_hold(e, true);
    emb_push(e, "1");
    emb_push(e, "23456789");
    emb_push(e, "waits");
    assert_int_equal(emb_counters(e).queued, 8);
    weir_embedded_hold(e, false);
    emb_expect_out(e, "123456789waits");
    emb_end(e);
    limits.read_while_full = true;
    e = emb_open(&emb_echo, NULL, &limits);
    weir_embedded_hold(e, true);
    emb_push(e, "1");
    emb_push(e, "23456789");
    emb_push(e, "comes");
    assert_int_equal(emb_counters(e).queued, 13);
    emb_end(e);
}

static void a_small_leftover_does_not_pin_its_buffer(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_four, NULL, NULL);
    struct weir_mem *m = weir_ctx_mem(emb_ctx(e, &emb_four));
    char big[40001];
    memset(big, 'x', sizeof big);
    assert_int_equal(weir_embedded_push(e, big, sizeof big), 0);
    assert_int_equal(emb_counters(e).leftover, 1);
    assert_true(weir_mem_live(m) < 8 * 1024); /* channel and contexts; the 40,000 are gone */
    emb_end(e);
}

/* --- handlers that go, or are fed, while they read ----------------------------------------------
 */

static int leave_read(struct weir_ctx *c, struct weir_chain *in) {
    weir_chain_drop(in, 3);
    weir_ctx_remove(c);
    return 0;
}

/* Regression: what a handler had left when it removed itself was counted out twice. */
static void one_that_leaves_inside_its_read_hands_on_the_rest(void **state) {
    (void)state;
    const struct weir_handler leave = {.name = "leave", .read = leave_read};
    struct weir_stage line[] = {{&leave, NULL}, {&emb_four, NULL}};
    struct weir_embedded *e = emb_line(line, 2, NULL);
    emb_push(e, "xyzabcdef");
    assert_int_equal(emb_counters(e).leftover, 2);
    emb_push(e, "gh");
    assert_string_equal(told(), "abcd;efgh;");
    assert_int_equal(emb_counters(e).leftover, 0);
    emb_end(e);
    e = emb_open(&leave, NULL, NULL); /* nobody is behind it */
    emb_push(e, "xyzabc");
    assert_int_equal(emb_counters(e).leftover, 0);
    assert_int_equal(weir_embedded_free(e), 0);
}

static int answer_write(struct weir_ctx *c, struct weir_chain *out) { /* a peer in the pipeline */
    if (out->bytes > 2)
        return weir_ctx_send(c, out);
    return weir_ctx_forward(c, out);
}

static int ask_read(struct weir_ctx *c, struct weir_chain *in) {
    tell("%d;", (int)in->bytes);
    bool more = in->bytes > 2;
    weir_chain_fini(in);
    return more ? emb_say(c, "ok") : 0;
}

/* Regression: bytes that came while a handler read were counted as if it had left them. */
static void bytes_that_come_in_while_it_reads_are_counted(void **state) {
    (void)state;
    const struct weir_handler answer = {
        .name = "answer", .read = emb_forward.read, .write = answer_write};
    const struct weir_handler ask = {.name = "ask", .read = ask_read};
    struct weir_stage line[] = {{&answer, NULL}, {&ask, NULL}};
    struct weir_embedded *e = emb_line(line, 2, NULL);
    emb_push(e, "hello");
    assert_string_equal(told(), "5;2;");
    assert_int_equal(emb_counters(e).leftover, 0);
    emb_end(e);
}

static int early_open(struct weir_ctx *c, const void *config) {
    struct weir_chain hi = {0};
    (void)config;
    assert_int_equal(weir_chain_write(weir_ctx_mem(c), &hi, "hi", 2), 0);
    tell("first;");
    return weir_ctx_forward(c, &hi);
}

static int late_open(struct weir_ctx *c, const void *config) {
    (void)c, (void)config;
    tell("second;");
    return 0;
}

/* Regression: a handler read before it was open. */
static void bytes_from_an_open_in_front_wait_for_open(void **state) {
    (void)state;
    const struct weir_handler early = {
        .name = "early", .open = early_open, .read = emb_forward.read};
    const struct weir_handler late = {.name = "late", .open = late_open, .read = emb_sink.read};
    struct weir_stage line[] = {{&early, NULL}, {&late, NULL}};
    struct weir_embedded *e = emb_line(line, 2, NULL);
    assert_string_equal(told(), "first;second;2;");
    emb_end(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_is_left_is_kept_and_offered_again, emb_begin),
        cmocka_unit_test_setup(every_split_reads_the_same, emb_begin),
        cmocka_unit_test_setup(a_stream_that_ends_inside_something_is_unclean, emb_begin),
        cmocka_unit_test_setup(input_that_waits_pauses_reading_and_holds_back_the_end, emb_begin),
        cmocka_unit_test_setup(a_stall_behind_a_forwarder_pauses_the_socket_too, emb_begin),
        cmocka_unit_test_setup(leftovers_wait_with_each_handler, emb_begin),
        cmocka_unit_test_setup(a_handler_is_not_called_below_what_it_wants, emb_begin),
        cmocka_unit_test_setup(credit_is_never_overdrawn, emb_begin),
        cmocka_unit_test_setup(the_end_waits_for_credit, emb_begin),
        cmocka_unit_test_setup(the_batch_ends_for_every_handler_then_is_sent, emb_begin),
        cmocka_unit_test_setup(an_error_of_read_closes_with_its_reason_after_the_answer, emb_begin),
        cmocka_unit_test_setup(bytes_that_nobody_behind_reads_are_dropped, emb_begin),
        cmocka_unit_test_setup(reading_stops_while_the_output_is_full, emb_begin),
        cmocka_unit_test_setup(a_small_leftover_does_not_pin_its_buffer, emb_begin),
        cmocka_unit_test_setup(one_that_leaves_inside_its_read_hands_on_the_rest, emb_begin),
        cmocka_unit_test_setup(bytes_that_come_in_while_it_reads_are_counted, emb_begin),
        cmocka_unit_test_setup(bytes_from_an_open_in_front_wait_for_open, emb_begin),
    };
    return cmocka_run_group_tests_name("chan/read", tests, NULL, NULL);
}
