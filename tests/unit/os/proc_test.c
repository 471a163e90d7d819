#include "os/proc.h"
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <unistd.h>
#include <cmocka.h>

static void resident_pages(void **state) {
    (void)state;
    assert_int_equal(weir__os_proc_statm("1000 250 90 1 0 100 0\n", 4096), 250 * 4096);
    assert_int_equal(weir__os_proc_statm("1000", 4096), 0);
    assert_int_equal(weir__os_proc_statm("", 4096), 0);
    assert_int_equal(weir__os_proc_statm("a b", 4096), 0);
}

static void idle_ticks_of_the_cpus_that_are_ours(void **state) {
    (void)state;
    const char *text = "cpu  1 2 3 1000 50 6 7 8 0 0\n"
                       "cpu0 1 2 3 400 20 6 7 8 0 0\n"
                       "cpu1 1 2 3 500 30 6 7 8 0 0\n"
                       "cpu10 1 2 3 100 0 6 7 8 0 0\n"
                       "intr 12345 0 0\n"
                       "cpu1 1 2 3 9 9 9\n";
    const unsigned all[] = {0, 1, 10}, one[] = {1}, none[] = {7};
    assert_int_equal(weir__os_proc_stat_idle(text, all, 3), 1050);
    assert_int_equal(weir__os_proc_stat_idle(text, one, 1), 530);
    assert_int_equal(weir__os_proc_stat_idle(text, none, 1), 0);
    assert_int_equal(weir__os_proc_stat_idle("cpu1 1 2 3 4", one, 1), 0);
    assert_int_equal(weir__os_proc_stat_idle("", one, 1), 0);
}

static void switches_of_a_thread(void **state) {
    (void)state;
    uint64_t v, n;
    const char *text = "Name:\tvoluntary_ctxt_switches\nThreads:\t1\n"
                       "voluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t7\n";
    assert_true(weir__os_proc_status_switches(text, &v, &n));
    assert_int_equal(v, 150);
    assert_int_equal(n, 7);
    assert_false(weir__os_proc_status_switches("voluntary_ctxt_switches:\t150\n", &v, &n));
    assert_false(weir__os_proc_status_switches("voluntary_ctxt_switches:\tx\n", &v, &n));
    assert_false(weir__os_proc_status_switches("", &v, &n));
}

static void this_process(void **state) {
    (void)state;
    assert_int_equal(weir__os_proc_id(), getpid());
    assert_true(weir__os_proc_resident() > 100000);
    uint64_t before, after, n;
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    assert_int_equal(weir__os_proc_switches(getpid(), &before, &n), 0);
    struct pollfd nothing = {.fd = fd[0], .events = POLLIN};
    assert_int_equal(poll(&nothing, 1, 1), 0); /* it sleeps: one switch at least */
    assert_int_equal(weir__os_proc_switches(getpid(), &after, &n), 0);
    assert_true(after > before);
    close(fd[0]);
    close(fd[1]);
    assert_int_equal(weir__os_proc_switches(-1, &before, &n), -ENOENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resident_pages),
        cmocka_unit_test(idle_ticks_of_the_cpus_that_are_ours),
        cmocka_unit_test(switches_of_a_thread),
        cmocka_unit_test(this_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
