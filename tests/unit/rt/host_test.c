#include "os/cpu.h"
#include "os/fault.h"
#include "os/limit.h"
#include "weir/host.h"
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <errno.h>
#include <sched.h>
#include <cmocka.h>

static void says_what_the_kernel_says(void **state) {
    (void)state;
    struct weir_host h = {.size = sizeof h};
    uint64_t soft, hard;
    cpu_set_t set;
    assert_int_equal(weir_host_read(&h), 0);
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    assert_int_equal(h.cpus_allowed, CPU_COUNT(&set));
    assert_int_equal(weir__os_limit_files(&soft, &hard), 0);
    assert_int_equal(h.files_now, soft);
    assert_int_equal(h.files_max, hard);
    assert_int_equal(h.cpus, weir__os_cpu_count());
    assert_true(h.cpus >= 1 && h.cpus <= h.cpus_allowed);
    if (h.quota_milli)
        assert_true(h.cpus * 1000 < h.quota_milli + 1000 || h.cpus == 1);
}

static void a_smaller_affinity_counts_at_once(void **state) {
    (void)state;
    struct weir_host h = {.size = sizeof h};
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(weir_host_read(&h), 0);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_int_equal(h.cpus_allowed, 1);
    assert_int_equal(h.cpus, 1);
}

static void another_size_is_refused(void **state) {
    (void)state;
    struct weir_host h = {.size = sizeof h - 1};
    assert_int_equal(weir_host_read(&h), WEIR_EINVAL);
}

static void a_kernel_that_does_not_answer_is_an_error(void **state) {
    (void)state;
    const enum weir__os_kind kinds[] = {WEIR__OS_AFFINITY, WEIR__OS_LIMIT};
    for (unsigned i = 0; i < 2; i++) {
        struct weir_host h = {.size = sizeof h};
        struct weir__os_fault fault = {.kind = kinds[i], .nth = 1, .error = EPERM};
        weir__os_fault_set(&fault);
        int rc = weir_host_read(&h);
        weir__os_fault_set(NULL);
        assert_int_equal(fault.hit, 1);
        assert_int_equal(rc, WEIR_ESYS(EPERM));
    }
}

static void sockets_tell_what_they_really_get(void **state) {
    (void)state;
    struct weir_socket_options got, asked = {.rcvbuf_bytes = 65536};
    assert_int_equal(weir_host_socket(NULL, true, &got), 0);
    assert_false(got.nagle || got.no_keepalive);
    assert_int_equal(got.keepalive_idle_s, 60);
    assert_true(got.rcvbuf_bytes > 0 && got.sndbuf_bytes > 0);
    assert_int_equal(weir_host_socket(&asked, false, &got), 0);
    assert_int_equal(got.rcvbuf_bytes, 65536);
    asked.rcvbuf_bytes = 1 << 30;
    assert_int_equal(weir_host_socket(&asked, false, &got), 0);
    assert_true(got.rcvbuf_bytes <= 1 << 30);
    asked.keepalive_count = 1000;
    assert_int_equal(weir_host_socket(&asked, false, &got),
                     WEIR_ESOCKOPT(WEIR_SOCKET_KEEPALIVE_COUNT));
    struct weir__os_fault fault = {.kind = WEIR__OS_SOCKET, .nth = 1, .error = EMFILE};
    weir__os_fault_set(&fault);
    int rc = weir_host_socket(NULL, false, &got);
    weir__os_fault_set(NULL);
    assert_int_equal(rc, WEIR_EFDS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_what_the_kernel_says),
        cmocka_unit_test(a_smaller_affinity_counts_at_once),
        cmocka_unit_test(another_size_is_refused),
        cmocka_unit_test(sockets_tell_what_they_really_get),
        cmocka_unit_test(a_kernel_that_does_not_answer_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
