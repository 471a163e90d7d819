/* The client's end: calls started, replies told exactly once, and every frame a server may send. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "kit/linkd.h"
#include "mem/pool.h"

#define PUSH(t, ...) kit_linkd_push(t, (struct kit_frame){__VA_ARGS__})
#define TOLD(t, words) assert_string_equal(kit_linkd_told(t), words)
#define RESPONSE(...) .type = WEIR_LINKD_RESPONSE, __VA_ARGS__
#define START(t, text, ...)                                                                        \
    start(t, &(struct weir_linkd_request){.size = sizeof(struct weir_linkd_request), __VA_ARGS__}, \
          text)
enum { KIB = 1024 };

static int setup(void **state) {
    struct kit_linkd *t = test_calloc(1, sizeof *t);
    kit_linkd_open_client(t);
    *state = t;
    return 0;
}

static int teardown(void **state) {
    kit_linkd_close(*state);
    test_free(*state);
    return 0;
}

static struct weir_linkd_call *start(struct kit_linkd *t, const struct weir_linkd_request *o,
                                     const char *text) {
    struct weir_chain c = kit_chain(t->m, text, 0);
    struct weir_linkd_call *x = NULL;
    assert_int_equal(weir_linkd_start(&t->k, o, &c, &x, kit_linkd_reply, t), 0);
    assert_int_equal(c.bytes, 0);
    return x;
}

static void call_and_reply(void **state) {
    struct kit_linkd *t = *state;
    START(t, "abc", .service = 3);
    START(t, "def", .deadline_ms = 9);
    TOLD(t, "out REQUEST 1 'abc'|out REQUEST 2@ 9 'def'");
    assert_int_equal(t->kicks, 2);
    assert_int_equal(weir_linkd_open_calls(&t->k), 2);
    PUSH(t, RESPONSE(.id = 2, .text = "two"));
    PUSH(t, RESPONSE(.id = 1, .text = "one"));
    PUSH(t, RESPONSE(.id = 1, .text = "late"));
    TOLD(t, "reply 2 0 'two'|reply 1 0 'one'");
    assert_int_equal(t->stats.ignored, 1);
    assert_int_equal(t->stats.answered, 2);
}

static void errors_of_the_server(void **state) {
    struct kit_linkd *t = *state;
    for (int i = 0; i < 4; i++)
        START(t, "");
    kit_linkd_told(t);
    PUSH(t, .type = WEIR_LINKD_ERROR, .id = 1, .data = "\0\7broken", .n = 8);
    PUSH(t, .type = WEIR_LINKD_ERROR, .id = 2, .data = "\0\5", .n = 2);
    PUSH(t, .type = WEIR_LINKD_ERROR, .id = 3, .data = "\0\6", .n = 2);
    PUSH(t, .type = WEIR_LINKD_ERROR, .id = 4);
    PUSH(t, .type = WEIR_LINKD_ERROR, .id = 5, .data = "\0\7", .n = 2);
    TOLD(t, "reply 1 ECALL 'broken'|code 7 broken|reply 2 EDEADLINE ''|code 5 "
            "|reply 3 ECANCELLED ''|code 6 |reply 4 EPROTO ''");
    assert_int_equal(PUSH(t, .type = WEIR_LINKD_ERROR, .data = "\0\1", .n = 2), WEIR_EPROTO);
    TOLD(t, "");
}

static void streamed_reply_collected_or_in_pieces(void **state) {
    struct kit_linkd *t = *state;
    START(t, "");
    START(t, "", .stream = true);
    kit_linkd_told(t);
    for (uint64_t id = 1; id < 3; id++) {
        PUSH(t, RESPONSE(.id = id, .flags = WEIR_LINKD_MORE, .text = "ab"));
        PUSH(t, RESPONSE(.id = id, .text = "cd"));
    }
    TOLD(t, "reply 1 0 'abcd'|piece 2 0 'ab'|reply 2 0 'cd'");
}

static void credit_is_refunded_in_halves(void **state) {
    struct kit_linkd *t = *state;
    START(t, "", .stream = true);
    START(t, "");
    kit_linkd_told(t);
    for (uint64_t id = 1; id < 3; id++)
        for (int i = 0; i < 4; i++)
            PUSH(t, RESPONSE(.id = id, .flags = WEIR_LINKD_MORE, .n = 64 * KIB));
    TOLD(t, "piece 1 0 65536 bytes|piece 1 0 65536 bytes|piece 1 0 65536 bytes"
            "|piece 1 0 65536 bytes|out CREDIT 1 131072 ''|out CREDIT 1 131072 ''"
            "|out CREDIT 2 131072 ''|out CREDIT 2 131072 ''");
    PUSH(t, RESPONSE(.id = 1, .flags = WEIR_LINKD_MORE, .n = 256 * KIB + 1));
    TOLD(t, "reply 1 EPROTO ''|out ERROR 1 1 'malformed'");
}

static void a_reply_over_the_limits(void **state) {
    struct kit_linkd *t = *state;
    t->s.decoder.frame_max = 10;
    t->line.message_max = 15;
    START(t, "");
    START(t, "");
    kit_linkd_told(t);
    PUSH(t, RESPONSE(.id = 1, .n = 11));
    PUSH(t, RESPONSE(.id = 2, .flags = WEIR_LINKD_MORE, .n = 10));
    PUSH(t, RESPONSE(.id = 2, .n = 6));
    TOLD(t, "reply 1 ETOOBIG ''|reply 2 ETOOBIG 'xxxxxxxxxx'|out ERROR 1 2 'too large'"
            "|out ERROR 2 2 'too large'");
    START(t, "");
    PUSH(t, .type = WEIR_LINKD_ERROR, .id = 3, .n = 11); /* an ERROR is never answered */
    TOLD(t, "reply 3 ECALL ''|out REQUEST 3 ''");
}

static void streamed_request(void **state) {
    struct kit_linkd *t = *state;
    struct weir_linkd_call *x = START(t, "abc", .more = true, .deadline_ms = 1000);
    TOLD(t, "");
    assert_true(weir__linkd_ready(&t->s));
    assert_int_equal(weir__linkd_pull(&t->s, 1000), 27);
    struct weir_chain c = kit_chain(t->m, "def", 0);
    assert_int_equal(weir_linkd_write(x, &c), 64 * KIB - 3);
    assert_int_equal(weir_linkd_end(x), 0);
    assert_int_equal(weir_linkd_end(x), WEIR_EGONE);
    assert_int_equal(weir__linkd_pull(&t->s, 1000), 23);
    TOLD(t, "out REQUEST 1@+ 1000 'abc'|out REQUEST 1 'def'");
    PUSH(t, RESPONSE(.id = 1, .text = "ok"));
    TOLD(t, "reply 1 0 'ok'");
}

static void an_early_reply_frees_the_id_at_the_server(void **state) {
    struct kit_linkd *t = *state;
    START(t, "abc", .more = true);
    weir__linkd_pull(&t->s, 1000);
    PUSH(t, RESPONSE(.id = 1, .text = "enough"));
    TOLD(t, "reply 1 0 'enough'|out REQUEST 1+ 'abc'|out CANCEL 1 ''");
}

static void cancel_and_deadline_tell_the_server(void **state) {
    struct kit_linkd *t = *state;
    weir_linkd_cancel(START(t, ""));
    TOLD(t, "reply 1 ECANCELLED ''|out REQUEST 1 ''|out CANCEL 1 ''");
    PUSH(t, .type = WEIR_LINKD_ERROR, .id = 1, .data = "\0\6", .n = 2);
    START(t, "", .deadline_ms = 5);
    kit_linkd_told(t);
    weir__linkd_expire(&t->s, 4999999);
    TOLD(t, "");
    weir__linkd_expire(&t->s, 5000000);
    TOLD(t, "reply 2 EDEADLINE ''|out CANCEL 2 ''");
    weir_linkd_cancel(START(t, "abc", .more = true)); /* nothing went out: nothing to tell */
    TOLD(t, "reply 3 ECANCELLED ''");
    assert_int_equal(t->stats.ignored, 1);
}

static void pong(int status, void *user) {
    kit_linkd_say(user, "pong %d", status);
}

static void ping(void **state) {
    struct kit_linkd *t = *state;
    char big[65] = {0};
    assert_int_equal(weir_linkd_ping(&t->k, big, 65, pong, t), WEIR_EINVAL);
    assert_int_equal(weir_linkd_ping(&t->k, "hi", 2, pong, t), 0);
    assert_int_equal(weir_linkd_ping(&t->k, "hi", 2, pong, t), WEIR_EAGAIN);
    PUSH(t, .type = WEIR_LINKD_PONG, .text = "ho");
    TOLD(t, "out PING 0 'hi'");
    PUSH(t, .type = WEIR_LINKD_PONG, .text = "hi");
    TOLD(t, "pong 0");
    PUSH(t, .type = WEIR_LINKD_PING, .text = "you?");
    TOLD(t, "out PONG 0 'you?'");
    assert_int_equal(weir_linkd_ping(&t->k, NULL, 0, pong, t),
                     0); /* told by the end of the session */
}

static void goaway(struct weir_linkd_client *k, void *user) {
    (void)k;
    kit_linkd_say(user, "goaway");
}

static void limits_and_goaway(void **state) {
    struct kit_linkd *t = *state;
    t->line.calls_max = 1;
    t->co.goaway = goaway;
    t->co.user = t;
    START(t, "");
    struct weir_chain c = kit_chain(t->m, "abc", 0);
    assert_int_equal(weir_linkd_start(&t->k, NULL, &c, NULL, kit_linkd_reply, t), WEIR_EFULL);
    PUSH(t, .type = WEIR_LINKD_GOAWAY);
    PUSH(t, .type = WEIR_LINKD_GOAWAY);
    assert_int_equal(weir_linkd_start(&t->k, NULL, &c, NULL, kit_linkd_reply, t), WEIR_ESTOPPED);
    assert_int_equal(c.bytes, 3);
    weir_chain_fini(&c);
    PUSH(t, RESPONSE(.id = 1));
    TOLD(t, "goaway|reply 1 0 ''|out REQUEST 1 ''");
}

static void frames_a_client_does_not_serve(void **state) {
    struct kit_linkd *t = *state;
    PUSH(t, .type = WEIR_LINKD_REQUEST, .id = 7, .text = "a");
    PUSH(t, .type = WEIR_LINKD_REQUEST);
    PUSH(t, .type = WEIR_LINKD_CANCEL, .id = 7);
    TOLD(t, "out ERROR 7 3 'unknown service'|out ERROR 0 1 'malformed'");
}

static void the_end_of_the_connection_tells_every_call(void **state) {
    struct kit_linkd *t = *state;
    START(t, "");
    START(t, "", .more = true);
    kit_linkd_told(t);
    weir__linkd_fini(&t->s, WEIR_ERESET);
    const char *told = kit_linkd_told(t);
    assert_non_null(strstr(told, "reply 1 ERESET ''"));
    assert_non_null(strstr(told, "reply 2 ERESET ''"));
    weir__linkd_client_init(&t->k, &t->line, &t->co, 1, t->s.chan);
}

/* A start that fails takes nothing and tells nobody. */
static void any_failed_allocation_of_a_start(void **state) {
    struct kit_linkd *t = *state;
    for (int more = 0; more < 2; more++)
        for (unsigned nth = 1, rc = 1; rc; nth++) {
            struct weir_linkd_request o = {.size = sizeof o, .more = more, .deadline_ms = 5};
            struct weir_chain c = kit_chain(t->m, "abc", 0);
            unsigned open = t->s.open;
            weir__mem_fail(t->m, nth, false);
            rc = (unsigned)-weir_linkd_start(&t->k, &o, &c, NULL, kit_linkd_reply, t);
            weir__mem_fail(t->m, 0, false);
            assert_int_equal(c.bytes, rc ? 3 : 0);
            assert_int_equal(t->s.open, rc ? open : open + 1);
            weir__linkd_invariants(&t->s);
            weir_chain_fini(&c);
            assert_true(nth < 20);
        }
    weir__linkd_pull(&t->s, 1000);
    TOLD(t, "out REQUEST 1@ 5 'abc'|out REQUEST 2@+ 5 'abc'");
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(call_and_reply),
        CASE(errors_of_the_server),
        CASE(streamed_reply_collected_or_in_pieces),
        CASE(credit_is_refunded_in_halves),
        CASE(a_reply_over_the_limits),
        CASE(streamed_request),
        CASE(an_early_reply_frees_the_id_at_the_server),
        CASE(cancel_and_deadline_tell_the_server),
        CASE(ping),
        CASE(limits_and_goaway),
        CASE(frames_a_client_does_not_serve),
        CASE(the_end_of_the_connection_tells_every_call),
        CASE(any_failed_allocation_of_a_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
