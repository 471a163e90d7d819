#include "cli/opt.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void a_path_holds_rate_times_round_trip(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"10Gbit,50ms", 62500000},
        {"100Mbit,8ms", 100000},
        {"1.5Gbit,1s", 187500000},
        {"1kbit,1ms", 1},
        {"8bit,1s", 1},
        {"9bit,1s", 2},
        {"1Tbit,250us", 31250000},
        {"400Gbit,1h", 180000000000000},
    };
    for (unsigned i = 0; i < CLI_LENGTH(good); i++) {
        uint64_t bytes = 0;
        assert_true(cli_bdp(good[i].text, &bytes));
        assert_int_equal(bytes, good[i].bytes);
    }
}

static void what_is_no_path_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",
        ",",
        "10Gbit",
        "10Gbit,",
        "10Gbit,50",
        ",50ms",
        "10,50ms",
        "10Gb,50ms",
        "10Gbit 50ms",
        "10Gbit,50ms,1",
        "0bit,50ms",
        "10Gbit,0",
        "-1Gbit,50ms",
        "10gbit,50ms",
        "10Gbit,-1ms",
        "1e9bit,1s",
        "18446744073709551615bit,5000000h",
        "99999999999999999999999999999999bit,1s",
    };
    for (unsigned i = 0; i < CLI_LENGTH(bad); i++) {
        uint64_t bytes;
        if (cli_bdp(bad[i], &bytes))
            fail_msg("\"%s\" was taken for a path", bad[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_holds_rate_times_round_trip),
        cmocka_unit_test(what_is_no_path_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
