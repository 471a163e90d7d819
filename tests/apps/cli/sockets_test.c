#include "cli/sockets.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void nothing_asked_is_all_defaults(void **state) {
    (void)state;
    const struct sockets none = {0};
    const struct weir_socket_options defaults = {0};
    struct weir_socket_options got = {.nagle = true, .rcvbuf_bytes = 1};
    assert_int_equal(sockets_read(&none, "test", &got), 0);
    assert_memory_equal(&got, &defaults, sizeof got);
}

static void by_hand_wins_over_the_path(void **state) {
    (void)state;
    const struct sockets s = {.bdp = "100Mbit,8ms", .sndbuf_bytes = 4096};
    struct weir_socket_options got;
    assert_int_equal(sockets_read(&s, "test", &got), 0);
    assert_int_equal(got.rcvbuf_bytes, 100000);
    assert_int_equal(got.sndbuf_bytes, 4096);
}

static void everything_arrives(void **state) {
    (void)state;
    const struct sockets s = {.keepalive = "30,5,3",
                              .notsent_lowat_bytes = 16384,
                              .user_timeout_ms = 1500,
                              .fastopen = 7,
                              .busy_poll_us = 50,
                              .nagle = true};
    struct weir_socket_options got;
    assert_int_equal(sockets_read(&s, "test", &got), 0);
    assert_false(got.no_keepalive);
    assert_int_equal(got.keepalive_idle_s, 30);
    assert_int_equal(got.keepalive_interval_s, 5);
    assert_int_equal(got.keepalive_count, 3);
    assert_int_equal(got.notsent_lowat_bytes, 16384);
    assert_int_equal(got.user_timeout_ms, 1500);
    assert_int_equal(got.fastopen_max, 7);
    assert_int_equal(got.busy_poll_us, 50);
    assert_true(got.nagle);
}

static void keepalive_is_three_numbers_or_off(void **state) {
    (void)state;
    static const char *const bad[] = {"",       "on",      "60",        "60,15",     "60,15,4,",
                                      "0,15,4", "60,0,4",  "60,15,128", "32768,1,1", "60,15,",
                                      ",15,4",  "60 15 4", "60,15,4,9", "-1,15,4"};
    struct weir_socket_options got;
    for (unsigned i = 0; i < CLI_LENGTH(bad); i++) {
        const struct sockets s = {.keepalive = bad[i]};
        assert_int_equal(sockets_read(&s, "test", &got), 2);
    }
    const struct sockets off = {.keepalive = "off"};
    assert_int_equal(sockets_read(&off, "test", &got), 0);
    assert_true(got.no_keepalive);
}

static void a_path_that_no_socket_holds_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"10Gbit", "400Gbit,1s"};
    struct weir_socket_options got;
    for (unsigned i = 0; i < CLI_LENGTH(bad); i++) {
        const struct sockets s = {.bdp = bad[i]};
        assert_int_equal(sockets_read(&s, "test", &got), 2);
    }
}

static void the_kernel_is_asked(void **state) {
    (void)state;
    const struct weir_socket_options fine = {.rcvbuf_bytes = 65536, .notsent_lowat_bytes = 16384};
    const struct weir_socket_options cut = {
        .rcvbuf_bytes = SOCKETS_BYTES_MAX}; /* a line, no more */
    const struct weir_socket_options bad = {.keepalive_idle_s = 40000};
    assert_int_equal(sockets_try("test", &fine, true), 0);
    assert_int_equal(sockets_try("test", &cut, false), 0);
    assert_int_equal(sockets_try("test", &bad, false), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_asked_is_all_defaults),
        cmocka_unit_test(by_hand_wins_over_the_path),
        cmocka_unit_test(everything_arrives),
        cmocka_unit_test(keepalive_is_three_numbers_or_off),
        cmocka_unit_test(a_path_that_no_socket_holds_is_refused),
        cmocka_unit_test(the_kernel_is_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
