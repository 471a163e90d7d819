#include "mem/chain.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

static int enter(void **state) {
    *state = weir__mem_pool_new("test");
    weir__mem_enter(*state);
    return *state ? 0 : -1;
}

static int leave(void **state) {
    return (int)weir__mem_pool_free(*state);
}

static void a_new_slice_is_exactly_n_bytes(void **state) {
    for (size_t n = 1; n < 200000; n += n / 3 + 1) {
        struct weir_slice s;
        assert_int_equal(weir_slice_new(*state, n, &s), 0);
        assert_int_equal(s.n, n);
        assert_true(weir__mem_slice_capacity(s) >= n && weir__mem_buf_exclusive(s));
        assert_int_equal(weir__mem_slice_waste(s), weir__mem_slice_room(s));
        memset(s.p, 7, weir__mem_slice_capacity(s));
        weir_slice_release(&s);
        assert_true(s.p == NULL && s.n == 0 && s.buf == NULL);
    }
}

static void an_empty_slice_has_no_buffer(void **state) {
    struct weir_slice s = {.n = 5};
    assert_int_equal(weir_slice_new(*state, 0, &s), 0);
    assert_true(s.p == NULL && s.n == 0 && s.buf == NULL);
    assert_int_equal(weir_slice_copy(*state, NULL, 0, &s), 0);
    weir_slice_share(&s);
    weir_slice_release(&s);
    assert_int_equal(weir__mem_slice_capacity(s) + weir__mem_slice_waste(s), 0);
    assert_int_equal(weir_mem_live(*state), 0);
}

static void static_storage_needs_no_count(void **state) {
    struct weir_slice s = {.p = (uint8_t *)"static", .n = 6};
    struct weir_slice t = weir_slice_ref(s, 2, 3);
    assert_memory_equal(t.p, "ati", 3);
    weir_slice_share(&s);
    assert_false(weir__mem_buf_exclusive(s));
    assert_int_equal(weir__mem_slice_room(s), 0);
    weir_slice_release(&s);
    weir_slice_release(&t);
    assert_int_equal(weir_mem_live(*state), 0);
}

static void references_keep_the_buffer(void **state) {
    struct weir_slice s;
    assert_int_equal(weir_slice_copy(*state, "0123456789", 10, &s), 0);
    struct weir_slice a = weir_slice_ref(s, 3, 4), none = weir_slice_ref(s, 10, 0);
    assert_null(none.buf);
    assert_false(weir__mem_buf_exclusive(a));
    weir_slice_release(&s);
    assert_true(weir__mem_buf_exclusive(a));
    assert_int_equal(weir__mem_slice_room(a), weir__mem_slice_capacity(a) - 7);
    assert_memory_equal(a.p, "3456", 4);
    weir_slice_release(&a);
    assert_int_equal(weir_mem_live(*state), 0);
}

static void a_shared_slice_is_never_exclusive(void **state) {
    struct weir_slice s;
    assert_int_equal(weir_slice_copy(*state, "abc", 3, &s), 0);
    weir_slice_share(&s);
    weir_slice_share(&s);
    struct weir_slice t = weir_slice_ref(s, 0, 3);
    weir_slice_release(&s);
    assert_false(weir__mem_buf_exclusive(t));
    /* Elsewhere: it goes home over the return stack. */
    weir__mem_enter(NULL);
    weir_slice_release(&t);
    weir__mem_enter(*state);
    assert_true(weir_mem_live(*state) > 0);
    assert_int_equal(weir__mem_collect(*state), 1);
    assert_int_equal(weir_mem_live(*state), 0);
}

static void no_memory_leaves_out_alone(void **state) {
    struct weir_slice s = {.n = 9};
    weir__mem_fail(*state, 1, true);
    assert_int_equal(weir_slice_new(*state, 10, &s), WEIR_ENOMEM);
    assert_int_equal(weir_slice_copy(*state, "x", 1, &s), WEIR_ENOMEM);
    assert_int_equal(weir_slice_new(*state, 1 << 20, &s), WEIR_ENOMEM);
    assert_int_equal(s.n, 9);
    weir__mem_fail(*state, 0, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_new_slice_is_exactly_n_bytes, enter, leave),
        cmocka_unit_test_setup_teardown(an_empty_slice_has_no_buffer, enter, leave),
        cmocka_unit_test_setup_teardown(static_storage_needs_no_count, enter, leave),
        cmocka_unit_test_setup_teardown(references_keep_the_buffer, enter, leave),
        cmocka_unit_test_setup_teardown(a_shared_slice_is_never_exclusive, enter, leave),
        cmocka_unit_test_setup_teardown(no_memory_leaves_out_alone, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
