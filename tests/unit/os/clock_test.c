#include "os/clock.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void clocks_go_forward(void **state) {
    (void)state;
    uint64_t mono = weir__os_clock_mono(), cpu = weir__os_clock_thread_cpu();
    uint64_t process = weir__os_clock_process_cpu();
    for (int i = 0; i < 1000; i++) {
        uint64_t m = weir__os_clock_mono(), c = weir__os_clock_thread_cpu();
        assert_true(m >= mono && c >= cpu);
        mono = m;
        cpu = c;
    }
    assert_true(weir__os_clock_process_cpu() > process);
    assert_true(weir__os_clock_process_cpu() >= cpu);
}

static void wall_time_is_this_century(void **state) {
    (void)state;
    assert_true(weir__os_clock_wall() > UINT64_C(1700000000) * 1000000000);
}

static void sleep_is_not_shorter(void **state) {
    (void)state;
    uint64_t start = weir__os_clock_mono();
    weir__os_clock_sleep(200000);
    assert_true(weir__os_clock_mono() - start >= 200000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clocks_go_forward),
        cmocka_unit_test(wall_time_is_this_century),
        cmocka_unit_test(sleep_is_not_shorter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
