/* Every rule of the protocol, on the server's end. What a test expects is the order of what the
 * service heard and then what was sent. */
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
#define REQUEST(...) .type = WEIR_LINKD_REQUEST, __VA_ARGS__
enum { KIB = 1024 };

static int setup(void **state) {
    struct kit_linkd *t = test_calloc(1, sizeof *t);
    kit_linkd_open_server(t);
    *state = t;
    return 0;
}

static int teardown(void **state) {
    kit_linkd_close(*state);
    test_free(*state);
    return 0;
}

static struct kit_linkd *again(void **state, struct weir_linkd_server_options o) {
    struct kit_linkd *t = *state;
    kit_linkd_close(t);
    memset(t, 0, sizeof *t);
    t->so = o;
    kit_linkd_open_server(t);
    return t;
}

static void request_is_answered(void **state) {
    struct kit_linkd *t = *state;
    assert_int_equal(PUSH(t, REQUEST(.id = 7, .text = "abc")), 0);
    TOLD(t, "call 7 'abc'|done 7 0|out RESPONSE 7 'abc'");
    assert_int_equal(PUSH(t, REQUEST(.id = 7)), 0); /* the id is free again */
    TOLD(t, "call 7 ''|done 7 0|out RESPONSE 7 ''");
    assert_int_equal(t->stats.calls, 2);
    assert_int_equal(t->stats.answered, 2);
    assert_int_equal(t->kicks, 0); /* the host looks by itself after a read */
}

static void answers_come_in_any_order(void **state) {
    struct kit_linkd *t = *state;
    struct weir_chain c;
    PUSH(t, REQUEST(.id = 1, .service = KIT_PARK));
    PUSH(t, REQUEST(.id = 2, .service = KIT_PARK));
    c = kit_chain(t->m, "two", 0);
    assert_int_equal(weir_linkd_answer(kit_linkd_call(t, 2), &c), 0);
    c = kit_chain(t->m, "one", 0);
    assert_int_equal(weir_linkd_answer(kit_linkd_call(t, 1), &c), 0);
    TOLD(t, "call 1 ''|call 2 ''|done 2 0|done 1 0|out RESPONSE 2 'two'|out RESPONSE 1 'one'");
    assert_int_equal(t->kicks, 2);
}

static void every_split_tells_the_same(void **state) {
    struct kit_linkd *t = *state;
    struct kit_frame f[] = {
        {REQUEST(.id = 7, .text = "abc")},
        {.type = WEIR_LINKD_PING, .text = "hi"},
        {REQUEST(.id = 0, .text = "no")},
        {REQUEST(.id = 9, .service = KIT_STREAM, .flags = WEIR_LINKD_MORE, .text = "one")},
        {REQUEST(.id = 9, .service = KIT_STREAM, .text = "two")},
        {.type = WEIR_LINKD_CANCEL, .id = 9},
    };
    const char *words =
        "call 7 'abc'|done 7 0|call 9 'one'|body 9 'one'|last 9 'two'|done 9 ECANCELLED"
        "|out RESPONSE 7 'abc'|out PONG 0 'hi'|out ERROR 0 1 'malformed'"
        "|out ERROR 9 6 'cancelled'";
    uint8_t wire[512];
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(f); i++)
        n += kit_frame_bytes(&f[i], wire + n);
    for (size_t cut = 0; cut < n; cut++) {
        if (cut)
            assert_int_equal(kit_linkd_push_bytes(t, wire, cut), 0);
        assert_int_equal(kit_linkd_push_bytes(t, wire + cut, n - cut), 0);
        TOLD(t, words);
    }
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(kit_linkd_push_bytes(t, wire + i, 1), 0);
        assert_true(t->s.decoder.want > t->in.bytes);
    }
    TOLD(t, words);
}

static void garbage_is_told_once_with_id_0(void **state) {
    struct kit_linkd *t = *state;
    assert_int_equal(kit_linkd_push_bytes(t, "GET / HTTP/1.1\r\n\r\n", 18), WEIR_EPROTO);
    TOLD(t, "out ERROR 0 1 'malformed'");
    assert_int_equal(PUSH(t, REQUEST(.id = 7)), WEIR_EPROTO);
    TOLD(t, "");
    assert_int_equal(t->stats.malformed, 1);
}

static void broken_frame(void **state, size_t at, uint8_t value, unsigned type, const char *words) {
    uint8_t b[64];
    struct kit_frame f = {.type = type, .id = 7, .text = "abc"};
    struct kit_linkd *t = again(state, (struct weir_linkd_server_options){0});
    size_t n = kit_frame_bytes(&f, b);
    b[at] = value;
    assert_int_equal(kit_linkd_push_bytes(t, b, n), WEIR_EPROTO);
    TOLD(t, words);
    assert_int_equal(PUSH(t, REQUEST(.id = 8)), WEIR_EPROTO);
    TOLD(t, "");
}

static void wrong_version_type_or_flags_close(void **state) {
    broken_frame(state, 2, 2, WEIR_LINKD_REQUEST, "out ERROR 7 1 'malformed'");
    broken_frame(state, 3, 0, WEIR_LINKD_REQUEST, "out ERROR 7 1 'malformed'");
    broken_frame(state, 3, 9, WEIR_LINKD_REQUEST, "out ERROR 7 1 'malformed'");
    broken_frame(state, 4, 0x80, WEIR_LINKD_REQUEST, "out ERROR 7 1 'malformed'");
    broken_frame(state, 5, 4, WEIR_LINKD_REQUEST, "out ERROR 7 1 'malformed'");
    broken_frame(state, 5, 1, WEIR_LINKD_RESPONSE, "out ERROR 7 1 'malformed'");
    broken_frame(state, 5, 2, WEIR_LINKD_CANCEL, "out ERROR 7 1 'malformed'");
    broken_frame(state, 3, WEIR_LINKD_PING, WEIR_LINKD_PING, "out ERROR 7 1 'malformed'");
    broken_frame(state, 3, WEIR_LINKD_GOAWAY, WEIR_LINKD_GOAWAY, "out ERROR 7 1 'malformed'");
    broken_frame(state, 3, WEIR_LINKD_CREDIT, WEIR_LINKD_CREDIT, "out ERROR 7 1 'malformed'");
    broken_frame(state, 0, 'X', WEIR_LINKD_REQUEST, "out ERROR 0 1 'malformed'");
}

static void id_0_and_an_open_id_are_refused_and_the_connection_lives(void **state) {
    struct kit_linkd *t = *state;
    assert_int_equal(PUSH(t, REQUEST(.id = 0, .text = "a")), 0);
    TOLD(t, "out ERROR 0 1 'malformed'");
    PUSH(t, REQUEST(.id = 7, .service = KIT_PARK, .text = "first"));
    assert_int_equal(PUSH(t, REQUEST(.id = 7, .text = "second")), 0);
    TOLD(t, "call 7 'first'|out ERROR 7 1 'malformed'");
    assert_int_equal(weir_linkd_answer(kit_linkd_call(t, 7), NULL), 0); /* the first one lives */
    TOLD(t, "done 7 0|out RESPONSE 7 ''");
    assert_int_equal(t->stats.malformed, 2);
}

static void over_the_configured_limit_is_skipped_without_buffering(void **state) {
    struct kit_linkd *t = again(state, (struct weir_linkd_server_options){.frame_max = 100});
    static char piece[64 * KIB];
    assert_int_equal(PUSH(t, REQUEST(.id = 7, .lie = true, .length = 1000 * KIB)), 0);
    TOLD(t, "out ERROR 7 2 'too large'");
    for (uint64_t left = 1000 * KIB; left;) {
        size_t n = left < sizeof piece ? left : sizeof piece;
        assert_int_equal(kit_linkd_push_bytes(t, piece, n), 0);
        assert_int_equal(t->in.bytes, 0);
        left -= n;
    }
    PUSH(t, REQUEST(.id = 8, .text = "ok"));
    TOLD(t, "call 8 'ok'|done 8 0|out RESPONSE 8 'ok'");
    assert_int_equal(t->stats.too_large, 1);
}

static void over_the_hard_limit_closes(void **state) {
    struct kit_linkd *t = *state;
    assert_int_equal(PUSH(t, REQUEST(.id = 7, .lie = true, .length = WEIR_LINKD_FRAME_MAX + 1)),
                     WEIR_EPROTO);
    TOLD(t, "out ERROR 7 2 'too large'");
    assert_int_equal(t->stats.too_large, 1);
}

static void too_large_in_a_stream_ends_its_call(void **state) {
    struct kit_linkd *t = again(state, (struct weir_linkd_server_options){.frame_max = 100});
    PUSH(t, REQUEST(.id = 7, .service = KIT_STREAM, .flags = WEIR_LINKD_MORE, .text = "one"));
    PUSH(t, REQUEST(.id = 7, .service = KIT_STREAM, .flags = WEIR_LINKD_MORE, .n = 101));
    TOLD(t, "call 7 'one'|body 7 'one'|done 7 ETOOBIG|out ERROR 7 2 'too large'");
    PUSH(t, REQUEST(.id = 7, .service = KIT_STREAM, .flags = WEIR_LINKD_MORE, .text = "x"));
    PUSH(t, REQUEST(.id = 7, .service = KIT_STREAM, .text = "last"));
    TOLD(t, ""); /* the rest of the stream is swallowed, then the id is free */
    PUSH(t, REQUEST(.id = 7, .text = "new"));
    TOLD(t, "call 7 'new'|done 7 0|out RESPONSE 7 'new'");
}

static void ping_is_answered_by_the_same_pong(void **state) {
    struct kit_linkd *t = *state;
    PUSH(t, .type = WEIR_LINKD_PING, .text = "payload");
    PUSH(t, .type = WEIR_LINKD_PING);
    assert_int_equal(PUSH(t, .type = WEIR_LINKD_PING, .n = 64), 0);
    TOLD(t, "out PONG 0 'payload'|out PONG 0 ''|out PONG 0 64 bytes");
    assert_int_equal(PUSH(t, .type = WEIR_LINKD_PING, .n = 65), WEIR_EPROTO);
    TOLD(t, "out ERROR 0 1 'malformed'");
}

static void cancel_gets_exactly_one_error_and_late_results_are_dropped(void **state) {
    struct kit_linkd *t = *state;
    PUSH(t, REQUEST(.id = 7, .service = KIT_PARK));
    struct weir_linkd_ref r = weir_linkd_call_ref(kit_linkd_call(t, 7));
    assert_non_null(weir__linkd_find(&t->s, r.id, r.serial));
    PUSH(t, .type = WEIR_LINKD_CANCEL, .id = 7);
    TOLD(t, "call 7 ''|done 7 ECANCELLED|out ERROR 7 6 'cancelled'");
    assert_null(weir__linkd_find(&t->s, r.id, r.serial));
    PUSH(t, .type = WEIR_LINKD_CANCEL, .id = 7);
    TOLD(t, "");
    PUSH(t, REQUEST(.id = 7, .service = KIT_PARK)); /* the same id is another call */
    assert_null(weir__linkd_find(&t->s, r.id, r.serial));
    assert_int_equal(t->stats.cancelled, 1);
    assert_int_equal(t->stats.ignored, 1);
}

static void unknown_ids_are_counted_and_ignored(void **state) {
    struct kit_linkd *t = *state;
    assert_int_equal(PUSH(t, .type = WEIR_LINKD_RESPONSE, .id = 5, .text = "x"), 0);
    assert_int_equal(PUSH(t, .type = WEIR_LINKD_CANCEL, .id = 5), 0);
    assert_int_equal(PUSH(t, .type = WEIR_LINKD_CREDIT, .id = 5, .data = "\0\0\0\1", .n = 4), 0);
    assert_int_equal(PUSH(t, .type = WEIR_LINKD_ERROR, .id = 5, .data = "\0\7", .n = 2), 0);
    assert_int_equal(PUSH(t, .type = WEIR_LINKD_PONG, .text = "x"), 0);
    TOLD(t, "");
    assert_int_equal(t->stats.ignored, 5);
}

static void error_with_id_0_ends_the_connection_silently(void **state) {
    struct kit_linkd *t = *state;
    assert_int_equal(PUSH(t, .type = WEIR_LINKD_ERROR, .data = "\0\1", .n = 2), WEIR_EPROTO);
    TOLD(t, "");
}

static void error_for_an_open_call_ends_it_unanswered(void **state) {
    struct kit_linkd *t = *state;
    PUSH(t, REQUEST(.id = 7, .service = KIT_PARK));
    PUSH(t, .type = WEIR_LINKD_ERROR, .id = 7, .data = "\0\2", .n = 2);
    TOLD(t, "call 7 ''|done 7 ECALL");
}

static void unknown_service(void **state) {
    struct kit_linkd *t = *state;
    PUSH(t, REQUEST(.id = 7, .service = KIT_NONE, .text = "a"));
    TOLD(t, "out ERROR 7 3 'unknown service'");
    PUSH(t, REQUEST(.id = 8, .service = KIT_NONE, .flags = WEIR_LINKD_MORE, .text = "a"));
    PUSH(t, REQUEST(.id = 8, .service = KIT_NONE, .flags = WEIR_LINKD_MORE, .text = "b"));
    PUSH(t, REQUEST(.id = 8, .service = KIT_NONE, .text = "c"));
    TOLD(t, "out ERROR 8 3 'unknown service'"); /* once for the stream */
    assert_int_equal(t->s.table.count, 0);
}

static void services_fail(void **state) {
    struct kit_linkd *t = *state;
    PUSH(t, REQUEST(.id = 7, .service = KIT_FAIL, .text = "a"));
    TOLD(t, "call 7 'a'|done 7 EFULL|out ERROR 7 4 'overloaded'");
    PUSH(t, REQUEST(.id = 8, .service = KIT_SPEAK));
    TOLD(t, "out ERROR 8 7 'no luck today'");
    PUSH(t, REQUEST(.id = 9, .service = KIT_PARK));
    struct weir_linkd_call *x = kit_linkd_call(t, 9);
    assert_int_equal(weir_linkd_fail(x, 0, NULL), WEIR_EINVAL);
    weir_linkd_cancel(x);
    TOLD(t, "call 9 ''|done 9 ECALL|out ERROR 9 6 'cancelled'");
}

static void too_many_calls_and_too_many_bytes(void **state) {
    struct kit_linkd *t = again(
        state, (struct weir_linkd_server_options){.calls_max = 2, .frame_max = 10, .held_max = 12});
    PUSH(t, REQUEST(.id = 1, .service = KIT_PARK, .n = 10));
    PUSH(t, REQUEST(.id = 2, .service = KIT_PARK, .n = 3));
    TOLD(t, "call 1 'xxxxxxxxxx'|out ERROR 2 4 'overloaded'");
    PUSH(t, REQUEST(.id = 3, .service = KIT_PARK, .n = 2));
    PUSH(t, REQUEST(.id = 4, .service = KIT_PARK));
    TOLD(t, "call 3 'xx'|out ERROR 4 4 'overloaded'");
    assert_int_equal(t->stats.overloaded, 2);
}

static void deadline_comes_in_front_of_the_payload(void **state) {
    struct kit_linkd *t = *state;
    t->now_ns = 1000;
    PUSH(t, REQUEST(.id = 7, .service = KIT_PARK, .flags = WEIR_LINKD_DEADLINE,
                    .data = "\0\0\0\5abc", .n = 7));
    PUSH(t, REQUEST(.id = 8, .service = KIT_PARK, .flags = WEIR_LINKD_DEADLINE, .data = "\0\0\0\3",
                    .n = 4));
    TOLD(t, "call 7 'abc'|call 8 ''");
    assert_int_equal(weir_linkd_deadline(kit_linkd_call(t, 7)), 5001000);
    assert_int_equal(t->s.deadline_ns, 3001000);
    weir__linkd_expire(&t->s, 3000999);
    TOLD(t, "");
    weir__linkd_expire(&t->s, 3001000);
    TOLD(t, "done 8 EDEADLINE|out ERROR 8 5 'deadline exceeded'");
    assert_int_equal(t->s.deadline_ns, 5001000);
    weir__linkd_expire(&t->s, 6000000);
    TOLD(t, "done 7 EDEADLINE|out ERROR 7 5 'deadline exceeded'");
    assert_true(t->s.deadline_ns == UINT64_MAX);
    PUSH(t, REQUEST(.id = 9, .flags = WEIR_LINKD_DEADLINE, .text = "abc"));
    TOLD(t, "out ERROR 9 1 'malformed'"); /* no room for it */
    assert_int_equal(t->stats.expired, 2);
}

static void deadline_only_in_the_first_frame(void **state) {
    struct kit_linkd *t = *state;
    PUSH(t, REQUEST(.id = 7, .service = KIT_STREAM, .flags = WEIR_LINKD_MORE | WEIR_LINKD_DEADLINE,
                    .data = "\0\0\0\5abc", .n = 7));
    PUSH(t, REQUEST(.id = 7, .service = KIT_STREAM, .flags = WEIR_LINKD_DEADLINE,
                    .data = "\0\0\0\5abc", .n = 7));
    TOLD(t, "call 7 'abc'|body 7 'abc'|done 7 EPROTO|out ERROR 7 1 'malformed'");
}

static void the_server_limits_deadlines(void **state) {
    struct kit_linkd *t = again(state, (struct weir_linkd_server_options){.deadline_ms = 10});
    PUSH(t, REQUEST(.id = 7, .service = KIT_PARK));
    PUSH(t, REQUEST(.id = 8, .service = KIT_PARK, .flags = WEIR_LINKD_DEADLINE,
                    .data = "\377\377\377\377", .n = 4));
    assert_int_equal(weir_linkd_deadline(kit_linkd_call(t, 7)), 10000000);
    assert_int_equal(weir_linkd_deadline(kit_linkd_call(t, 8)), 10000000);
    weir__linkd_expire(&t->s, 10000000);
    assert_int_equal(t->s.open, 0);
}

static void streamed_request_collected_or_piece_by_piece(void **state) {
    struct kit_linkd *t = *state;
    PUSH(t, REQUEST(.id = 1, .flags = WEIR_LINKD_MORE, .text = "ab"));
    PUSH(t, REQUEST(.id = 2, .service = KIT_STREAM, .flags = WEIR_LINKD_MORE, .text = "12"));
    PUSH(t, REQUEST(.id = 1, .flags = WEIR_LINKD_MORE, .text = "cd"));
    PUSH(t, REQUEST(.id = 2, .service = KIT_STREAM, .text = "34"));
    TOLD(t, "call 2 '12'|body 2 '12'|last 2 '34'");
    PUSH(t, REQUEST(.id = 1, .text = "ef"));
    TOLD(t, "call 1 'abcdef'|done 1 0|out RESPONSE 1 'abcdef'");
    PUSH(t, REQUEST(.id = 3, .flags = WEIR_LINKD_MORE, .text = "ab"));
    PUSH(t, REQUEST(.id = 3, .service = KIT_PARK, .text = "ab"));
    TOLD(t, "out ERROR 3 1 'malformed'"); /* another service in the middle */
}

static void collected_message_has_a_limit(void **state) {
    struct kit_linkd *t = again(state, (struct weir_linkd_server_options){.message_max = 5});
    PUSH(t, REQUEST(.id = 1, .flags = WEIR_LINKD_MORE, .text = "abc"));
    PUSH(t, REQUEST(.id = 1, .flags = WEIR_LINKD_MORE, .text = "def"));
    TOLD(t, "out ERROR 1 2 'too large'");
    PUSH(t, .type = WEIR_LINKD_CANCEL, .id = 1);
    TOLD(t, "");
    assert_int_equal(t->s.table.count, 0);
}

static void credit_is_enforced_and_refunded_as_taken(void **state) {
    struct kit_linkd *t = *state;
    struct kit_frame more = {
        REQUEST(.id = 7, .service = KIT_LAZY, .flags = WEIR_LINKD_MORE, .n = 128 * KIB)};
    kit_linkd_push(t, more);
    kit_linkd_push(t, more);
    TOLD(t, "call 7 131072 bytes|body 7 131072 bytes|body 7 262144 bytes");
    struct weir_linkd_call *x = kit_linkd_call(t, 7);
    weir_chain_drop(weir_linkd_payload(x), 100 * KIB);
    weir_linkd_resume(x);
    TOLD(t, "body 7 159744 bytes"); /* under half a window: not told yet */
    weir_chain_drop(weir_linkd_payload(x), 28 * KIB);
    weir_linkd_resume(x);
    TOLD(t, "body 7 131072 bytes|out CREDIT 7 131072 ''");
    kit_linkd_push(t, more);
    TOLD(t, "body 7 262144 bytes");
    PUSH(t, REQUEST(.id = 7, .service = KIT_LAZY, .flags = WEIR_LINKD_MORE, .n = 1));
    TOLD(t, "done 7 EPROTO|out ERROR 7 1 'malformed'");
}

static void a_single_frame_needs_no_credit(void **state) {
    struct kit_linkd *t = *state;
    PUSH(t, REQUEST(.id = 7, .service = KIT_LAZY, .n = 300 * KIB));
    PUSH(t, REQUEST(.id = 8, .service = KIT_LAZY, .flags = WEIR_LINKD_MORE, .n = 256 * KIB + 1));
    TOLD(t, "call 7 307200 bytes|last 7 307200 bytes|out ERROR 8 1 'malformed'");
}

static void streamed_response_waits_for_credit(void **state) {
    struct kit_linkd *t = *state;
    PUSH(t, REQUEST(.id = 7, .service = KIT_PARK));
    struct weir_linkd_call *x = kit_linkd_call(t, 7);
    struct weir_chain c = kit_chain(t->m, NULL, 280 * KIB);
    assert_int_equal(weir_linkd_write(x, &c), 0);
    assert_int_equal(c.bytes, 0);
    int64_t framed = 0, n;
    while ((n = weir__linkd_pull(&t->s, 64 * KIB)) > 0)
        framed += n;
    assert_int_equal(framed, 256 * KIB + 8 * 20);
    assert_false(weir__linkd_ready(&t->s));
    TOLD(t, "call 7 ''|room 7 40960|out RESPONSE 7+ 32768 bytes|out RESPONSE 7+ 32768 bytes"
            "|out RESPONSE 7+ 32768 bytes|out RESPONSE 7+ 32768 bytes|out RESPONSE 7+ 32768 bytes"
            "|out RESPONSE 7+ 32768 bytes|out RESPONSE 7+ 32768 bytes|out RESPONSE 7+ 32768 bytes");
    PUSH(t, .type = WEIR_LINKD_CREDIT, .id = 7, .data = "\0\0\100\0", .n = 4);
    assert_true(weir__linkd_ready(&t->s));
    assert_int_equal(weir__linkd_pull(&t->s, 64 * KIB), 16 * KIB + 20);
    assert_int_equal(weir_linkd_end(x), 0);
    assert_int_equal(weir_linkd_write(x, &c), WEIR_EGONE);
    PUSH(t, .type = WEIR_LINKD_CREDIT, .id = 7, .data = "\0\0\100\0", .n = 4);
    assert_int_equal(weir__linkd_pull(&t->s, 64 * KIB), 8 * KIB + 20);
    TOLD(t, "done 7 0|out RESPONSE 7+ 16384 bytes|out RESPONSE 7 8192 bytes");
}

static void streams_take_turns(void **state) {
    struct kit_linkd *t = *state;
    for (uint64_t id = 1; id < 3; id++) {
        PUSH(t, REQUEST(.id = id, .service = KIT_PARK));
        struct weir_chain c = kit_chain(t->m, NULL, 50 * KIB);
        assert_int_equal(weir_linkd_write(kit_linkd_call(t, id), &c), 14 * KIB);
        assert_int_equal(weir_linkd_end(kit_linkd_call(t, id)), 0);
    }
    weir__linkd_pull(&t->s, 1 << 20);
    TOLD(t, "call 1 ''|call 2 ''|done 1 0|done 2 0|out RESPONSE 1+ 32768 bytes"
            "|out RESPONSE 2+ 32768 bytes|out RESPONSE 1 18432 bytes|out RESPONSE 2 18432 bytes");
}

static void ends_of_streams(void **state) {
    struct kit_linkd *t = *state;
    struct weir_chain c;
    PUSH(t, REQUEST(.id = 1, .service = KIT_PARK));
    c = kit_chain(t->m, "abc", 0);
    assert_int_equal(weir_linkd_write(kit_linkd_call(t, 1), &c), 64 * KIB - 3);
    assert_int_equal(weir__linkd_pull(&t->s, 100), 23);
    assert_int_equal(weir__linkd_pull(&t->s, 100), 0);
    assert_int_equal(weir_linkd_end(kit_linkd_call(t, 1)), 0);
    assert_int_equal(weir__linkd_pull(&t->s, 100), 20);
    TOLD(t, "call 1 ''|done 1 0|out RESPONSE 1+ 'abc'|out RESPONSE 1 ''");
    PUSH(t, REQUEST(.id = 2, .service = KIT_PARK));
    c = kit_chain(t->m, NULL, (1 << 20) + 1); /* too large for one frame: streamed by itself */
    assert_int_equal(weir_linkd_answer(kit_linkd_call(t, 2), &c), 0);
    assert_int_equal(weir_linkd_answer(kit_linkd_call(t, 2), NULL), WEIR_EGONE);
    assert_int_equal(weir__linkd_pull(&t->s, 1), 32 * KIB + 20);
    PUSH(t, .type = WEIR_LINKD_CANCEL, .id = 2);
    TOLD(t, "call 2 ''|done 2 ECANCELLED|out RESPONSE 2+ 32768 bytes|out ERROR 2 6 'cancelled'");
    assert_false(weir__linkd_ready(&t->s));
}

static void an_early_answer_swallows_the_rest_of_the_request(void **state) {
    struct kit_linkd *t = *state;
    PUSH(t, REQUEST(.id = 7, .service = KIT_STREAM, .flags = WEIR_LINKD_MORE, .text = "one"));
    assert_int_equal(weir_linkd_answer(kit_linkd_call(t, 7), NULL), 0);
    PUSH(t, REQUEST(.id = 7, .service = KIT_STREAM, .flags = WEIR_LINKD_MORE, .text = "two"));
    PUSH(t, REQUEST(.id = 7, .service = KIT_STREAM, .text = "three"));
    TOLD(t, "call 7 'one'|body 7 'one'|done 7 0|out RESPONSE 7 ''");
    assert_int_equal(t->s.table.count, 0);
    for (uint64_t id = 1; id <= 40; id++) /* bounded: the oldest are forgotten */
        PUSH(t, REQUEST(.id = id, .service = KIT_NONE, .flags = WEIR_LINKD_MORE));
    assert_int_equal(t->s.table.count, 32);
}

static void goaway_refuses_new_requests_and_finishes_open_ones(void **state) {
    struct kit_linkd *t = *state;
    PUSH(t, REQUEST(.id = 7, .service = KIT_PARK));
    assert_int_equal(weir__linkd_goaway(&t->s), 0);
    assert_int_equal(weir__linkd_goaway(&t->s), 0);
    PUSH(t, REQUEST(.id = 8, .text = "a"));
    assert_int_equal(weir_linkd_answer(kit_linkd_call(t, 7), NULL), 0);
    TOLD(t, "call 7 ''|done 7 0|out GOAWAY 0 ''|out ERROR 8 8 'unavailable'|out RESPONSE 7 ''");
    PUSH(t, .type = WEIR_LINKD_GOAWAY, .text = "bye");
    assert_true(t->s.goaway_in);
}

static void reading_stops_while_output_is_full(void **state) {
    struct kit_linkd *t = *state;
    for (uint64_t id = 1; id < 4; id++)
        kit_linkd_queue(t, (struct kit_frame){REQUEST(.id = id, .text = "abc")});
    assert_int_equal(weir__linkd_read(&t->s, &t->in, 30), 1);
    TOLD(t,
         "call 1 'abc'|done 1 0|call 2 'abc'|done 2 0|out RESPONSE 1 'abc'|out RESPONSE 2 'abc'");
    assert_int_equal(weir__linkd_read(&t->s, &t->in, 30), 0);
    TOLD(t, "call 3 'abc'|done 3 0|out RESPONSE 3 'abc'");
}

static void the_end_of_the_connection_ends_every_call_once(void **state) {
    struct kit_linkd *t = *state;
    for (uint64_t id = 1; id < 100; id++)
        PUSH(t, REQUEST(.id = id * 1000003, .service = KIT_PARK, .text = "x"));
    kit_linkd_told(t);
    weir__linkd_fini(&t->s, WEIR_ERESET);
    unsigned dones = 0;
    for (const char *p = t->log; (p = strstr(p, "ERESET")); p++)
        dones++;
    assert_int_equal(dones, 99);
    t->log[0] = 0;
    weir__linkd_server_init(&t->s, &t->line, 1, t->s.chan);
}

/* Small calls of every kind, each read and answered while the nth allocation of its turn fails. */
static int scenario(struct kit_linkd *t, unsigned nth, bool persist) {
    struct weir_linkd_call *x;
    struct weir_chain c;
    uint8_t b[64];
    for (unsigned id = 1; id < 7; id++) {
        struct kit_frame f = {REQUEST(.id = id, .service = id % 4, .text = "abc",
                                      .flags = id & 1 ? WEIR_LINKD_MORE : 0)};
        weir__mem_fail(t->m, 0, false);
        size_t n = kit_frame_bytes(&f, b);
        c = kit_chain(t->m, NULL, n);
        memcpy(c.first->slice.p, b, n);
        weir_chain_append(&t->in, &c);
        c = kit_chain(t->m, NULL, 3000);
        weir__mem_fail(t->m, nth, persist);
        int rc = kit_linkd_run(t);
        if (rc >= 0 && (x = kit_linkd_call(t, id))) {
            if (id & 1)
                weir_linkd_write(x, &c);
            else
                weir_linkd_answer(x, &c);
            weir__linkd_pull(&t->s, 1 << 20);
        }
        weir_chain_fini(&c);
        if (t->s.why)
            break;
    }
    weir__mem_fail(t->m, 0, false);
    return t->s.why;
}

static void any_failed_allocation_leaves_a_sound_session(void **state) {
    bool failed = false;
    for (unsigned nth = 1; nth < 60; nth++) {
        struct kit_linkd *t = again(state, (struct weir_linkd_server_options){0});
        int why = scenario(t, nth / 2 + 1, nth & 1);
        failed |= why < 0;
        assert_true(why == 0 || why == WEIR_ENOMEM);
    }
    assert_true(failed);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(request_is_answered),
        CASE(answers_come_in_any_order),
        CASE(every_split_tells_the_same),
        CASE(garbage_is_told_once_with_id_0),
        CASE(wrong_version_type_or_flags_close),
        CASE(id_0_and_an_open_id_are_refused_and_the_connection_lives),
        CASE(over_the_configured_limit_is_skipped_without_buffering),
        CASE(over_the_hard_limit_closes),
        CASE(too_large_in_a_stream_ends_its_call),
        CASE(ping_is_answered_by_the_same_pong),
        CASE(cancel_gets_exactly_one_error_and_late_results_are_dropped),
        CASE(unknown_ids_are_counted_and_ignored),
        CASE(error_with_id_0_ends_the_connection_silently),
        CASE(error_for_an_open_call_ends_it_unanswered),
        CASE(unknown_service),
        CASE(services_fail),
        CASE(too_many_calls_and_too_many_bytes),
        CASE(deadline_comes_in_front_of_the_payload),
        CASE(deadline_only_in_the_first_frame),
        CASE(the_server_limits_deadlines),
        CASE(streamed_request_collected_or_piece_by_piece),
        CASE(collected_message_has_a_limit),
        CASE(credit_is_enforced_and_refunded_as_taken),
        CASE(a_single_frame_needs_no_credit),
        CASE(streamed_response_waits_for_credit),
        CASE(streams_take_turns),
        CASE(ends_of_streams),
        CASE(an_early_answer_swallows_the_rest_of_the_request),
        CASE(goaway_refuses_new_requests_and_finishes_open_ones),
        CASE(reading_stops_while_output_is_full),
        CASE(the_end_of_the_connection_ends_every_call_once),
        CASE(any_failed_allocation_leaves_a_sound_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
