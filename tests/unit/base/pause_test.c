/* Pauses: how often, in all, the longest. */
#include "base/pause.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static void adds_up(void **state) {
    struct weir__base_pause p = {0};
    (void)state;
    weir__base_pause_add(&p, 1, 50);
    weir__base_pause_add(&p, 3, 70);
    weir__base_pause_add(&p, 1, 60);
    assert_int_equal(p.count, 5);
    assert_int_equal(p.total_ns, 180);
    assert_int_equal(p.longest_ns, 70);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(adds_up)};
    return cmocka_run_group_tests_name("base/pause", tests, NULL, NULL);
}
