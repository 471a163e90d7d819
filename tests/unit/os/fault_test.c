#include "os/fault.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void off_does_nothing(void **state) {
    (void)state;
    size_t n = 10;
    assert_null(weir__os_plan);
    assert_int_equal(weir__os_fault(WEIR__OS_SEND, &n), 0);
    assert_int_equal(n, 10);
}

static void fails_the_nth_once_or_from_there(void **state) {
    (void)state;
    for (int persist = 0; persist < 2; persist++) {
        struct weir__os_fault f = {
            .kind = WEIR__OS_SEND, .nth = 3, .error = EPIPE, .persist = persist};
        assert_null(weir__os_fault_set(&f));
        for (int i = 1; i <= 6; i++) {
            int want = i == 3 || (persist && i > 3) ? -EPIPE : 0;
            assert_int_equal(weir__os_fault(WEIR__OS_SEND, NULL), want);
            assert_int_equal(weir__os_fault(WEIR__OS_RECV, NULL), 0);
        }
        assert_int_equal(f.seen, 6);
        assert_int_equal(f.hit, persist ? 4 : 1);
        assert_ptr_equal(weir__os_fault_set(NULL), &f);
    }
}

static void cuts_transfers(void **state) {
    (void)state;
    struct weir__os_fault f = {.kind = WEIR__OS_RECV, .nth = 1, .persist = true, .short_max = 4};
    size_t n = 10, small = 3;
    weir__os_fault_set(&f);
    assert_int_equal(weir__os_fault(WEIR__OS_RECV, &n), 0);
    assert_int_equal(n, 4);
    assert_int_equal(weir__os_fault(WEIR__OS_RECV, &small), 0);
    assert_int_equal(small, 3);
    f.short_max = 0;
    assert_int_equal(weir__os_fault(WEIR__OS_RECV, &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(f.hit, 2);
    weir__os_fault_set(NULL);
}

static void a_plan_may_hold_several(void **state) {
    (void)state;
    struct weir__os_fault second = {.kind = WEIR__OS_ANY, .nth = 4, .error = EIO};
    struct weir__os_fault first = {
        .kind = WEIR__OS_BIND, .nth = 2, .error = EADDRINUSE, .next = &second};
    weir__os_fault_set(&first);
    assert_int_equal(weir__os_fault(WEIR__OS_BIND, NULL), 0);
    assert_int_equal(weir__os_fault(WEIR__OS_SOCKET, NULL), 0);
    assert_int_equal(weir__os_fault(WEIR__OS_BIND, NULL), -EADDRINUSE);
    assert_int_equal(weir__os_fault(WEIR__OS_SOCKET, NULL), -EIO);
    weir__os_fault_set(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(off_does_nothing),
        cmocka_unit_test(fails_the_nth_once_or_from_there),
        cmocka_unit_test(cuts_transfers),
        cmocka_unit_test(a_plan_may_hold_several),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
