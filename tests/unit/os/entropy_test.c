#include "os/entropy.h"
#include "os/fault.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void fills_exactly(void **state) {
    (void)state;
    static uint8_t a[4096], b[4096];
    assert_int_equal(weir__os_entropy(a, 4000), 0);
    assert_int_equal(weir__os_entropy(b, 4000), 0);
    assert_memory_not_equal(a, b, 4000);
    for (size_t i = 4000; i < sizeof a; i++)
        assert_int_equal(a[i], 0);
    assert_int_equal(weir__os_entropy(a, 0), 0);
}

static void can_fail(void **state) {
    (void)state;
    struct weir__os_fault f = {.kind = WEIR__OS_ENTROPY, .nth = 1, .error = ENOSYS};
    uint8_t a[8] = {0}, zero[8] = {0};
    weir__os_fault_set(&f);
    assert_int_equal(weir__os_entropy(a, sizeof a), -ENOSYS);
    weir__os_fault_set(NULL);
    assert_memory_equal(a, zero, sizeof a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills_exactly),
        cmocka_unit_test(can_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
