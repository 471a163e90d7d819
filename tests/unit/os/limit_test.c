#include "os/limit.h"
#include "os/fault.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <cmocka.h>

static void raises_to_the_hard_limit_and_never_lowers(void **state) {
    (void)state;
    struct rlimit r;
    uint64_t soft, hard, now;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &r), 0);
    struct rlimit low = {.rlim_cur = 64, .rlim_max = r.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    assert_int_equal(weir__os_limit_files(&soft, &hard), 0);
    assert_int_equal(soft, 64);
    assert_true(hard == r.rlim_max && hard > 100);
    assert_int_equal(weir__os_limit_files_raise(100, &now), 0);
    assert_int_equal(now, 100);
    assert_int_equal(weir__os_limit_files_raise(80, &now), 0);
    assert_int_equal(now, 100);
    assert_int_equal(weir__os_limit_files_raise(UINT64_MAX - 1, NULL), 0);
    assert_int_equal(weir__os_limit_files(&soft, &hard), 0);
    assert_true(soft == hard);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    assert_int_equal(weir__os_limit_files_raise(0, &now), 0);
    assert_true(now == hard);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &r), 0);
}

static void each_step_can_fail(void **state) {
    (void)state;
    struct rlimit r;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &r), 0);
    struct rlimit low = {.rlim_cur = 64, .rlim_max = r.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    for (uint32_t nth = 1; nth <= 2; nth++) {
        struct weir__os_fault f = {.kind = WEIR__OS_LIMIT, .nth = nth, .error = EPERM};
        uint64_t now = 0;
        weir__os_fault_set(&f);
        assert_int_equal(weir__os_limit_files_raise(100, &now), -EPERM);
        weir__os_fault_set(NULL);
        assert_int_equal(now, nth == 1 ? 0 : 64);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &r), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(raises_to_the_hard_limit_and_never_lowers),
        cmocka_unit_test(each_step_can_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
