#include "io/uring/buffers.h"
#include "io/uring/uring.h"
#include "mem/pool.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { START = WEIR__URING_BUFS_START };

struct rig {
    struct weir_mem *mem;
    struct weir__uring_ring ring;
    struct weir__uring_buffers b;
};

static int open_rig(struct rig *r, bool inc) {
    const char *why = "?";
    unsigned has = 0;
    memset(r, 0, sizeof *r);
    if (weir__uring_probe(0, &has, &why) < 0 || (inc && !(has & WEIR__URING_INC_BUFFERS))) {
        print_message("not here: %s\n", inc && has ? "incremental buffers" : why);
        return -1;
    }
    r->mem = weir__mem_pool_new("test");
    weir__mem_enter(r->mem);
    assert_int_equal(weir__uring_ring_init(&r->ring, 0, &why), 0);
    assert_int_equal(weir__uring_buffers_init(&r->b, &r->ring, inc, &why), 0);
    assert_true(weir__uring_buffers_refill(&r->b, r->mem));
    assert_int_equal(r->b.in_ring, START);
    return 0;
}

static void close_rig(struct rig *r) {
    weir__uring_ring_fini(&r->ring);
    weir__uring_buffers_fini(&r->b);
    weir__mem_enter(NULL);
    assert_int_equal(weir__mem_pool_free(r->mem), 0);
}

/* As a completion would tell of n bytes in buffer bid. */
static struct weir_slice take(struct rig *r, unsigned bid, size_t n, bool last) {
    uint32_t flags = CQE_BUFFER | (last ? 0 : CQE_BUF_MORE) | bid << CQE_BUFFER_SHIFT;
    struct weir_slice s = weir__uring_buffers_take(&r->b, flags, n);
    assert_int_equal(s.n, n);
    return s;
}

static void pieces_follow_each_other_in_a_buffer(void **state) {
    struct rig r;
    (void)state;
    if (open_rig(&r, true) < 0)
        return;
    struct weir_slice a = take(&r, 0, 100, false), b = take(&r, 0, 7, false);
    assert_ptr_equal(b.p, a.p + 100);
    assert_ptr_equal(a.buf, b.buf);
    assert_int_equal(r.b.in_ring, START);
    weir_slice_release(&a);
    weir_slice_release(&b);
    close_rig(&r);
}

static void the_same_memory_again_when_nobody_holds_it(void **state) {
    struct rig r;
    (void)state;
    if (open_rig(&r, true) < 0)
        return;
    struct weir_slice a = take(&r, 2, 5000, true);
    const uint8_t *before = a.p;
    assert_int_equal(r.b.in_ring, START - 1);
    weir_slice_release(&a);
    assert_true(weir__uring_buffers_refill(&r.b, r.mem));
    assert_int_equal(r.b.in_ring, START);
    a = take(&r, 2, 1, false);
    assert_ptr_equal(a.p, before);
    weir_slice_release(&a);
    close_rig(&r);
}

static void who_keeps_a_piece_keeps_it_unchanged(void **state) {
    struct rig r;
    (void)state;
    if (open_rig(&r, true) < 0)
        return;
    struct weir_slice kept = take(&r, 1, 4000, true);
    memset(kept.p, 'k', kept.n);
    assert_true(weir__uring_buffers_refill(&r.b, r.mem));
    struct weir_slice fresh = take(&r, 1, 4000, true);
    assert_ptr_not_equal(fresh.buf, kept.buf);
    memset(fresh.p, 'f', fresh.n);
    for (size_t i = 0; i < kept.n; i++)
        assert_int_equal(kept.p[i], 'k');
    weir_slice_release(&kept);
    weir_slice_release(&fresh);
    close_rig(&r);
}

static void every_piece_uses_up_a_plain_buffer(void **state) {
    struct rig r;
    (void)state;
    if (open_rig(&r, false) < 0)
        return;
    struct weir_slice a = take(&r, 0, 10, false), b = take(&r, 1, 10, false);
    assert_ptr_not_equal(a.buf, b.buf);
    assert_int_equal(r.b.in_ring, START - 2);
    weir_slice_release(&a);
    weir_slice_release(&b);
    assert_true(weir__uring_buffers_refill(&r.b, r.mem));
    assert_int_equal(r.b.in_ring, START);
    close_rig(&r);
}

static void more_after_a_shortage_and_fewer_after_a_calm(void **state) {
    struct rig r;
    (void)state;
    if (open_rig(&r, true) < 0)
        return;
    for (unsigned i = 0; i < 10; i++)
        weir__uring_buffers_short(&r.b);
    assert_true(weir__uring_buffers_refill(&r.b, r.mem));
    assert_int_equal(r.b.in_ring, WEIR__URING_INC_BUFS);
    for (unsigned i = 1; i < WEIR__URING_CALM; i++)
        weir__uring_buffers_sleep(&r.b);
    assert_int_equal(r.b.in_ring, WEIR__URING_INC_BUFS);
    weir__uring_buffers_sleep(&r.b);
    assert_int_equal(r.b.in_ring, START);
    struct weir_slice a = take(&r, 0, 10, false); /* the oldest stayed */
    weir_slice_release(&a);
    close_rig(&r);
}

static void without_memory_the_rest_goes_on(void **state) {
    struct rig r;
    (void)state;
    if (open_rig(&r, true) < 0)
        return;
    struct weir_slice kept[START];
    for (unsigned i = 0; i < START; i++)
        kept[i] = take(&r, i, 100, true);
    weir_slice_release(&kept[0]);
    weir__mem_fail(r.mem, 1, true);
    assert_true(weir__uring_buffers_refill(&r.b, r.mem));
    assert_int_equal(r.b.in_ring, 1); /* the one that nobody held */
    weir__mem_fail(r.mem, 0, false);
    assert_true(weir__uring_buffers_refill(&r.b, r.mem));
    assert_int_equal(r.b.in_ring, START);
    for (unsigned i = 1; i < START; i++)
        weir_slice_release(&kept[i]);
    close_rig(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_follow_each_other_in_a_buffer),
        cmocka_unit_test(the_same_memory_again_when_nobody_holds_it),
        cmocka_unit_test(who_keeps_a_piece_keeps_it_unchanged),
        cmocka_unit_test(every_piece_uses_up_a_plain_buffer),
        cmocka_unit_test(more_after_a_shortage_and_fewer_after_a_calm),
        cmocka_unit_test(without_memory_the_rest_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
