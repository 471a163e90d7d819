#include "mem/raw.h"
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void blocks_are_zeroed_and_aligned(void **state) {
    (void)state;
    for (size_t n = 1; n < 100000; n *= 7) {
        unsigned char *p = weir__mem_raw_new(n), zero = 0;
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < n; i++)
            zero |= p[i];
        assert_int_equal(zero, 0);
        memset(p, 0xff, n);
        weir__mem_raw_free(p);
    }
    weir__mem_raw_free(NULL);
}

static void the_nth_fails_and_only_that(void **state) {
    (void)state;
    void *p[4];
    weir__mem_raw_fail(3);
    for (unsigned i = 0; i < 4; i++) {
        p[i] = weir__mem_raw_new(8);
        assert_int_equal(p[i] != NULL, i != 2);
    }
    for (unsigned i = 0; i < 4; i++)
        weir__mem_raw_free(p[i]);
    weir__mem_raw_fail(1);
    weir__mem_raw_fail(0);
    void *q = weir__mem_raw_new(8);
    assert_non_null(q);
    weir__mem_raw_free(q);
}

static void what_cannot_be_had_is_null(void **state) {
    (void)state;
    volatile size_t too_much = SIZE_MAX / 4;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)too_much; /* the sanitizers end the program instead */
#else
    assert_null(weir__mem_raw_new(too_much));
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_zeroed_and_aligned),
        cmocka_unit_test(the_nth_fails_and_only_that),
        cmocka_unit_test(what_cannot_be_had_is_null),
    };
    return cmocka_run_group_tests_name("mem/raw", tests, NULL, NULL);
}
