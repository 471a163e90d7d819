/* The framing handler over an embedded channel: whole, bytewise, over the limit, cut, and with an
 * output that is full. */
#include "kit/embedded.h"
#include "weir/frame.h"
#include <string.h>

static struct weir_frame_format format;

static int answer(struct weir_ctx *c, struct weir_chain *frame, void *user) {
    (void)user;
    size_t n = (size_t)frame->bytes;
    const uint8_t *p = n ? weir_chain_peek(weir_ctx_mem(c), frame, n) : (const uint8_t *)"";
    tell("%.*s;", (int)n, (const char *)p);
    return weir_frame_send(c, frame);
}

static int refuse(struct weir_ctx *c, struct weir_chain *frame, void *user) {
    (void)c, (void)frame, (void)user;
    return WEIR_EPROTO;
}

static void ended(struct weir_ctx *c, bool clean, void *user) {
    (void)c, (void)user;
    tell(clean ? "eof;" : "cut;");
}

static const struct weir_frame_service echo = {.format = &format, .frame = answer, .eof = ended};
static const struct weir_frame_service picky = {.format = &format, .frame = refuse};

static int begin(void **state) {
    const struct weir_frame_options o = {
        .size = sizeof o, .kind = WEIR_FRAME_LINE, .frame_max = 16};
    assert_int_equal(weir_frame_format_init(&format, &o, NULL), 0);
    return emb_begin(state);
}

static void frames_come_up_one_by_one(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&weir_frame_handler, &echo, NULL);
    emb_push(e, "one\ntwo\nthr");
    assert_string_equal(told(), "one;two;");
    emb_push(e, "ee\n");
    assert_string_equal(told(), "one;two;three;");
    emb_expect_out(e, "one\ntwo\nthree\n");
    weir_embedded_eof(e);
    assert_string_equal(told(), "one;two;three;eof;");
    emb_end(e);
}

static void byte_by_byte_is_the_same(void **state) {
    (void)state;
    const char text[] = "a\nbc\n\nd\n";
    struct weir_embedded *e = emb_open(&weir_frame_handler, &echo, NULL);
    for (const char *p = text; *p; p++)
        emb_push(e, (char[2]){*p, 0});
    assert_string_equal(told(), "a;bc;;d;");
    emb_expect_out(e, text);
    emb_end(e);
}

static void a_stream_that_ends_inside_a_frame_is_unclean(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&weir_frame_handler, &echo, NULL);
    emb_push(e, "whole\npart");
    weir_embedded_eof(e);
    assert_string_equal(told(), "whole;cut;");
    emb_end(e);
}

static void too_large_a_frame_closes_with_its_reason(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&weir_frame_handler, &echo, NULL);
    emb_push(e, "ok\nmuch longer than sixteen bytes\n");
    assert_string_equal(told(), "ok;");
    weir_embedded_advance(e, 2000);
    assert_int_equal(weir_embedded_state(e), WEIR_ETOOBIG);
    emb_end(e);
}

static void an_error_of_the_service_closes(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&weir_frame_handler, &picky, NULL);
    emb_push(e, "x\n");
    weir_embedded_advance(e, 2000);
    assert_int_equal(weir_embedded_state(e), WEIR_EPROTO);
    emb_end(e);
}

static void frames_wait_while_the_output_is_full(void **state) {
    (void)state;
    const struct weir_limits limits = {.high_bytes = 6, .low_bytes = 2};
    struct weir_embedded *e = emb_open(&weir_frame_handler, &echo, &limits);
    weir_embedded_hold(e, true);
    emb_push(e, "0\n");
    emb_push(e, "11\n22\n33\n44\n");
    assert_string_equal(told(), "0;11;22;"); /* six bytes queued: the mark */
    weir_embedded_hold(e, false);
    weir_embedded_advance(e, 1);
    assert_string_equal(told(), "0;11;22;33;44;");
    emb_expect_out(e, "0\n11\n22\n33\n44\n");
    emb_end(e);
}

static void a_refused_frame_stays_with_its_sender(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&weir_frame_handler, &echo, NULL);
    struct weir_ctx *c = emb_ctx(e, &weir_frame_handler);
    struct weir_chain large = {0};
    assert_int_equal(weir_chain_write(weir_ctx_mem(c), &large, "more than sixteen bytes", 23), 0);
    assert_int_equal(weir_frame_send(c, &large), WEIR_ETOOBIG);
    assert_int_equal(large.bytes, 23);
    weir_chain_fini(&large);
    emb_end(e);
}

static void without_a_service_the_channel_does_not_open(void **state) {
    (void)state;
    const struct weir_stage line[] = {{&weir_frame_handler, NULL}};
    struct weir_embedded *e;
    assert_int_equal(weir_embedded_new(line, 1, NULL, &e), WEIR_EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(frames_come_up_one_by_one, begin),
        cmocka_unit_test_setup(byte_by_byte_is_the_same, begin),
        cmocka_unit_test_setup(a_stream_that_ends_inside_a_frame_is_unclean, begin),
        cmocka_unit_test_setup(too_large_a_frame_closes_with_its_reason, begin),
        cmocka_unit_test_setup(an_error_of_the_service_closes, begin),
        cmocka_unit_test_setup(frames_wait_while_the_output_is_full, begin),
        cmocka_unit_test_setup(a_refused_frame_stays_with_its_sender, begin),
        cmocka_unit_test_setup(without_a_service_the_channel_does_not_open, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
