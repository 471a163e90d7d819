#include "io/uring/ring.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void assert_reason(int error, const char *sysctl, const char *word, const char *not_word) {
    const char *why = weir__uring_ring_reason(-error, sysctl);
    assert_non_null(strstr(why, word));
    assert_null(strstr(why, not_word));
}

static void a_failure_names_its_cause(void **state) {
    (void)state;
    assert_reason(EPERM, "2\n", "io_uring_disabled=2", "seccomp");
    assert_reason(EPERM, "1\n", "io_uring_group", "seccomp");
    assert_reason(EPERM, "0\n", "seccomp", "sysctl");
    assert_reason(EPERM, "", "seccomp", "sysctl");
    assert_reason(ENOSYS, "0\n", "seccomp", "no io_uring");
    assert_reason(ENOSYS, "", "no io_uring", "sysctl");
    assert_reason(EACCES, "0\n", "security module", "seccomp");
    assert_reason(EINVAL, "0\n", "too old", "seccomp");
    assert_reason(ENOMEM, "0\n", "RLIMIT_MEMLOCK", "seccomp");
    assert_reason(EMFILE, "0\n", "RLIMIT_NOFILE", "seccomp");
    assert_reason(ENFILE, "0\n", "RLIMIT_NOFILE", "seccomp");
    assert_reason(EBADF, "0\n", "io_uring_setup", "seccomp");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_failure_names_its_cause)};
    return cmocka_run_group_tests_name("io/uring/ring", tests, NULL, NULL);
}
