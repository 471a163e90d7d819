#include "os/signal.h"
#include "os/clock.h"
#include "os/event.h"
#include "os/fault.h"
#include "os/sock.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static int blocked(int sig) {
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    return sigismember(&now, sig);
}

static void stop_signals_become_readable(void **state) {
    (void)state;
    struct weir__os_stop s;
    assert_int_equal(weir__os_stop_open(&s), 0);
    assert_false(blocked(SIGTERM) || blocked(SIGINT));
    weir__os_stop_hold(&s);
    assert_true(blocked(SIGTERM) && blocked(SIGINT));
    assert_int_equal(weir__os_stop_take(&s), 0);
    assert_int_equal(weir__os_stop_wait(&s, -1, 0), 0);
    raise(SIGTERM);
    assert_int_equal(weir__os_stop_wait(&s, -1, -1), SIGTERM);
    raise(SIGINT);
    assert_int_equal(weir__os_stop_take(&s), SIGINT);
    assert_int_equal(weir__os_stop_take(&s), 0);
    raise(SIGTERM); /* still pending at close: it must not kill us afterwards */
    weir__os_stop_close(&s);
    assert_false(blocked(SIGTERM) || blocked(SIGINT));
}

static void the_bell_ends_the_wait(void **state) {
    (void)state;
    struct weir__os_stop s;
    int bell = weir__os_event_new();
    assert_int_equal(weir__os_stop_open(&s), 0);
    weir__os_stop_hold(&s);
    uint64_t start = weir__os_clock_mono();
    assert_int_equal(weir__os_stop_wait(&s, bell, 200000), 0);
    assert_true(weir__os_clock_mono() - start >= 200000);
    weir__os_event_signal(bell);
    assert_int_equal(weir__os_stop_wait(&s, bell, -1), 0);
    assert_int_equal(weir__os_event_drain(bell), 1);
    weir__os_stop_close(&s);
    weir__os_close(bell);
}

static void pipe_is_blocked_here(void **state) {
    (void)state;
    sigset_t before;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(weir__os_signal_block_pipe(), 0);
    assert_true(blocked(SIGPIPE));
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static volatile sig_atomic_t caught;

static void catch_it(int sig, siginfo_t *info, void *context) {
    (void)context;
    caught = info ? sig : -1;
}

static void handlers_come_and_go(void **state) {
    (void)state;
    struct sigaction before, now;
    assert_int_equal(weir__os_signal_handle(SIGUSR2, catch_it, &before), 0);
    raise(SIGUSR2);
    assert_int_equal(caught, SIGUSR2);
    assert_int_equal(weir__os_signal_restore(SIGUSR2, &before), 0);
    sigaction(SIGUSR2, NULL, &now);
    assert_true(now.sa_handler == before.sa_handler);
    assert_int_equal(weir__os_signal_handle(SIGKILL, catch_it, NULL), -EINVAL);
}

static void opening_can_fail_and_changes_nothing(void **state) {
    (void)state;
    struct weir__os_stop s;
    struct weir__os_fault f = {.kind = WEIR__OS_SIGNAL, .nth = 1, .error = EMFILE, .persist = true};
    weir__os_fault_set(&f);
    assert_int_equal(weir__os_stop_open(&s), -EMFILE);
    assert_int_equal(weir__os_signal_handle(SIGUSR2, catch_it, NULL), -EMFILE);
    weir__os_fault_set(NULL);
    assert_false(blocked(SIGTERM));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stop_signals_become_readable),
        cmocka_unit_test(the_bell_ends_the_wait),
        cmocka_unit_test(pipe_is_blocked_here),
        cmocka_unit_test(handlers_come_and_go),
        cmocka_unit_test(opening_can_fail_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
