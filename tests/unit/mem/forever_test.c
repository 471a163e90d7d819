#include "mem/forever.h"
#include "os/fault.h"
#include <errno.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void pages_are_zeroed_and_ours(void **state) {
    (void)state;
    unsigned char *a = weir__mem_forever(1), *b = weir__mem_forever(100000), zero = 0;
    assert_true(a && b);
    assert_int_equal((uintptr_t)a % 4096 + (uintptr_t)b % 4096, 0);
    for (size_t i = 0; i < 100000; i++)
        zero |= b[i];
    assert_int_equal(zero, 0);
    memset(b, 0xff, 100000);
    assert_int_equal(a[0], 0);
}

static void no_pages_no_memory(void **state) {
    (void)state;
    struct weir__os_fault f = {.kind = WEIR__OS_MAP, .nth = 1, .error = ENOMEM};
    weir__os_fault_set(&f);
    void *p = weir__mem_forever(1);
    weir__os_fault_set(NULL);
    assert_null(p);
    assert_true(f.hit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_zeroed_and_ours),
        cmocka_unit_test(no_pages_no_memory),
    };
    return cmocka_run_group_tests_name("mem/forever", tests, NULL, NULL);
}
