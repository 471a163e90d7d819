/* The direct way of a request: what it may not change, and what it reuses. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "codec/linkd/place.h"
#include "kit/linkd.h"

#define PUSH(t, ...) kit_linkd_push(t, (struct kit_frame){__VA_ARGS__})
#define TOLD(t, words) assert_string_equal(kit_linkd_told(t), words)
#define REQUEST(...) .type = WEIR_LINKD_REQUEST, __VA_ARGS__

enum { FRAMES = 40, BIG_BYTES = 1000 };

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

static void an_open_id_is_no_plain_request(void **state) {
    struct kit_linkd *t = *state;
    PUSH(t, REQUEST(.id = 5, .service = KIT_PARK));
    PUSH(t, REQUEST(.id = 5));
    TOLD(t, "call 5 ''|out ERROR 5 1 'malformed'");
    PUSH(t, REQUEST(.id = 6, .text = "x"));
    TOLD(t, "call 6 'x'|done 6 0|out RESPONSE 6 'x'");
    assert_int_equal(weir_linkd_answer(kit_linkd_call(t, 5), NULL), 0);
    TOLD(t, "done 5 0|out RESPONSE 5 ''");
    assert_null(kit_linkd_call(t, 5));
}

static void a_call_that_waits_keeps_its_memory(void **state) {
    struct kit_linkd *t = *state;
    PUSH(t, REQUEST(.id = 1));
    PUSH(t, REQUEST(.id = 2, .service = KIT_PARK, .text = "two"));
    struct weir_linkd_call *parked = kit_linkd_call(t, 2);
    struct weir_linkd_ref ref = weir_linkd_call_ref(parked);
    PUSH(t, REQUEST(.id = 3, .text = "three"));
    PUSH(t, REQUEST(.id = 4, .text = "four"));
    assert_ptr_equal(weir__linkd_find(&t->s, ref.id, ref.serial), parked);
    assert_int_equal(weir_linkd_payload(parked)->bytes, 3);
    assert_int_equal(weir_linkd_answer(parked, weir_linkd_payload(parked)), 0);
    assert_null(weir__linkd_find(&t->s, ref.id, ref.serial));
    PUSH(t, REQUEST(.id = 2));
    assert_null(weir__linkd_find(&t->s, ref.id, ref.serial)); /* another call of that id */
}

static size_t size_of(unsigned i) {
    return i % 3 == 0 ? BIG_BYTES : i % 3 == 1 ? i : WEIR__LINKD_COPY_MAX + i % 2;
}

/* Request i of service echo, its bytes all of one letter. */
static void ask(struct kit_linkd *t, unsigned i) {
    uint8_t data[BIG_BYTES];
    memset(data, 'a' + (int)(i % 26), sizeof data);
    PUSH(t, REQUEST(.id = i + 1, .data = data, .n = size_of(i)));
}

static void assert_answer(const struct weir_chain *c, uint64_t *off, unsigned i) {
    uint8_t head[WEIR_LINKD_HEAD_BYTES], data[BIG_BYTES];
    struct weir__linkd_head h;
    assert_int_equal(weir_chain_read(c, *off, head, sizeof head), 0);
    assert_int_equal(weir__linkd_judge(head, &h), WEIR__LINKD_GOOD);
    assert_int_equal(h.type, WEIR_LINKD_RESPONSE);
    assert_int_equal(h.id, i + 1);
    assert_int_equal(h.length, size_of(i));
    assert_int_equal(weir_chain_read(c, *off + sizeof head, data, h.length), 0);
    for (uint32_t k = 0; k < h.length; k++)
        assert_int_equal(data[k], 'a' + (int)(i % 26));
    *off += sizeof head + h.length;
}

/* Frames share buffers: what is still to be sent may not change when later frames come, whatever
 * was sent in between. */
static void unsent_answers_stay_as_they_are(void **state) {
    struct kit_linkd *t = *state;
    for (unsigned keep = 1; keep < 9; keep++) {
        struct weir_chain unsent[FRAMES] = {{0}};
        for (unsigned i = 0; i < FRAMES; i++) {
            ask(t, i);
            weir_chain_append(&unsent[i], &t->s.out);
            if (i >= keep)
                weir_chain_fini(&unsent[i - keep]);
            for (unsigned k = i >= keep ? i - keep + 1 : 0; k <= i; k++) {
                uint64_t off = 0;
                assert_answer(&unsent[k], &off, k);
                assert_int_equal(off, unsent[k].bytes);
            }
        }
        for (unsigned i = 0; i < FRAMES; i++)
            weir_chain_fini(&unsent[i]);
        t->log[0] = 0;
    }
}

/* Many requests in one receive, in buffers cut anywhere. */
static void requests_come_in_pieces_of_any_size(void **state) {
    struct kit_linkd *t = *state;
    uint8_t bytes[6 * (WEIR_LINKD_HEAD_BYTES + 35)];
    for (size_t piece = 1; piece < 120; piece++) {
        size_t n = 0;
        for (unsigned i = 0; i < 6; i++) {
            uint8_t data[35];
            memset(data, 'a' + (int)i, sizeof data);
            struct kit_frame f = {REQUEST(.id = i + 1, .data = data, .n = i * 7)};
            n += kit_frame_bytes(&f, bytes + n);
        }
        for (size_t at = 0; at < n; at += piece) {
            struct weir_slice s;
            size_t k = n - at < piece ? n - at : piece;
            assert_int_equal(weir_slice_copy(t->m, bytes + at, k, &s), 0);
            assert_int_equal(weir_chain_add(t->m, &t->in, &s), 0);
        }
        assert_int_equal(kit_linkd_run(t), 0);
        assert_int_equal(t->in.bytes, 0);
        assert_int_equal(t->s.out.bytes, n);
        TOLD(t, "call 1 ''|done 1 0|call 2 'bbbbbbb'|done 2 0|"
                "call 3 'cccccccccccccc'|done 3 0|"
                "call 4 'ddddddddddddddddddddd'|done 4 0|"
                "call 5 'eeeeeeeeeeeeeeeeeeeeeeeeeeee'|done 5 0|"
                "call 6 'fffffffffffffffffffffffffffffffffff'|done 6 0|"
                "out RESPONSE 1 ''|out RESPONSE 2 'bbbbbbb'|"
                "out RESPONSE 3 'cccccccccccccc'|"
                "out RESPONSE 4 'ddddddddddddddddddddd'|"
                "out RESPONSE 5 'eeeeeeeeeeeeeeeeeeeeeeeeeeee'|"
                "out RESPONSE 6 'fffffffffffffffffffffffffffffffffff'");
    }
}

/* Pushes request 1 of service echo with n bytes in a buffer of which the test keeps what it was
 * given: a reference on all of it. */
static struct weir_slice ask_from_a_held_buffer(struct kit_linkd *t, size_t n) {
    struct kit_frame f = {REQUEST(.id = 1, .n = n)};
    struct weir_slice s, held;
    assert_int_equal(weir_slice_new(t->m, kit_frame_bytes(&f, NULL), &s), 0);
    kit_frame_bytes(&f, s.p);
    held = weir_slice_ref(s, 0, s.n);
    assert_int_equal(weir_chain_add(t->m, &t->in, &s), 0);
    assert_int_equal(kit_linkd_run(t), 0);
    assert_int_equal(t->s.out.bytes, held.n);
    return held;
}

static unsigned parts(const struct weir_chain *c) {
    unsigned n = 0;
    for (const struct weir_part *p = c->first; p; p = p->next)
        n++;
    return n;
}

/* The response's header goes where the request's was. */
static void an_answer_stays_where_its_request_was(void **state) {
    struct kit_linkd *t = *state;
    for (unsigned i = 0; i < 3; i++) {
        struct kit_frame f = {REQUEST(.id = 9, .n = size_of(i))};
        kit_linkd_queue(t, f);
        const uint8_t *p = t->in.first->slice.p;
        assert_int_equal(kit_linkd_run(t), 0);
        assert_int_equal(parts(&t->s.out), 1);
        assert_int_equal(t->s.out.bytes, WEIR_LINKD_HEAD_BYTES + size_of(i));
        assert_ptr_equal(t->s.out.first->slice.p, p);
        weir_chain_fini(&t->s.out);
    }
}

/* A request whose bytes somebody else refers to does not change: a short answer is copied behind
 * its header, a longer one gets a part in front. */
static void what_others_hold_does_not_change(void **state) {
    struct kit_linkd *t = *state;
    const size_t sizes[] = {1, WEIR__LINKD_COPY_MAX, WEIR__LINKD_COPY_MAX + 1, BIG_BYTES};
    for (unsigned i = 0; i < 4; i++) {
        struct weir_slice held = ask_from_a_held_buffer(t, sizes[i]);
        assert_int_equal(parts(&t->s.out), sizes[i] <= WEIR__LINKD_COPY_MAX ? 1 : 2);
        assert_int_equal(held.p[3], WEIR_LINKD_REQUEST);
        weir_chain_fini(&t->s.out);
        weir_slice_release(&held);
    }
}

/* The buffer that the host receives into is held by it, and by nobody else. */
static void what_the_host_receives_into_is_free_to_write(void **state) {
    struct kit_linkd *t = *state;
    struct kit_frame f = {REQUEST(.id = 1, .n = BIG_BYTES)};
    for (unsigned others = 0; others < 2; others++) {
        struct weir_slice hot, other = {0};
        assert_int_equal(weir_slice_new(t->m, 4096, &hot), 0);
        const struct weir_buf *receiving = hot.buf;
        t->line.receiving = &receiving;
        kit_frame_bytes(&f, hot.p + 100);
        struct weir_slice s = weir_slice_ref(hot, 100, kit_frame_bytes(&f, NULL));
        if (others)
            other = weir_slice_ref(hot, 0, 10);
        assert_int_equal(weir_chain_add(t->m, &t->in, &s), 0);
        assert_int_equal(kit_linkd_run(t), 0);
        assert_int_equal(parts(&t->s.out), 1 + others);
        assert_int_equal(hot.p[103], others ? WEIR_LINKD_REQUEST : WEIR_LINKD_RESPONSE);
        weir_chain_fini(&t->s.out);
        weir_slice_release(&other);
        weir_slice_release(&hot);
    }
}

/* A chain with an empty reservation at its end is as good an answer as any. */
static void an_answer_may_end_in_a_reservation(void **state) {
    struct kit_linkd *t = *state;
    struct weir_chain c = kit_chain(t->m, NULL, BIG_BYTES);
    PUSH(t, REQUEST(.id = 1, .service = KIT_PARK));
    t->log[0] = 0;
    assert_non_null(weir_chain_reserve(t->m, &c, 4096));
    assert_int_equal(weir_linkd_answer(kit_linkd_call(t, 1), &c), 0);
    ask(t, 1);
    assert_int_equal(t->s.out.bytes, 2 * WEIR_LINKD_HEAD_BYTES + BIG_BYTES + size_of(1));
    weir_chain_fini(&t->s.out);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(an_open_id_is_no_plain_request),
        CASE(a_call_that_waits_keeps_its_memory),
        CASE(unsent_answers_stay_as_they_are),
        CASE(requests_come_in_pieces_of_any_size),
        CASE(an_answer_may_end_in_a_reservation),
        CASE(an_answer_stays_where_its_request_was),
        CASE(what_others_hold_does_not_change),
        CASE(what_the_host_receives_into_is_free_to_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
