#include "os/thread.h"
#include "os/clock.h"
#include "os/cpu.h"
#include "os/fault.h"
#include "os/signal.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

struct seen {
    struct weir__os_mutex lock;
    struct weir__os_cond changed;
    int tid, pinned, turn;
    char name[16];
    sigset_t mask;
};

static void look_around(void *user) {
    struct seen *s = user;
    s->tid = weir__os_thread_tid();
    pthread_getname_np(pthread_self(), s->name, sizeof s->name);
    pthread_sigmask(SIG_SETMASK, NULL, &s->mask);
}

static void a_thread_has_name_and_quiet_signals(void **state) {
    (void)state;
    struct weir__os_thread t;
    struct seen s = {0};
    sigset_t here;
    assert_int_equal(weir__os_thread_start(&t, "weir-loop-0-long-name", look_around, &s), 0);
    weir__os_thread_join(&t);
    assert_string_equal(s.name, "weir-loop-0-lon");
    assert_true(s.tid > 0 && s.tid != weir__os_thread_tid());
    assert_int_equal(weir__os_thread_tid(), getpid());
    assert_true(sigismember(&s.mask, SIGPIPE) && sigismember(&s.mask, SIGTERM));
    assert_true(sigismember(&s.mask, SIGINT) && !sigismember(&s.mask, SIGSEGV));
    pthread_sigmask(SIG_SETMASK, NULL, &here);
    assert_false(sigismember(&here, SIGTERM));
}

static void pin_to_first(void *user) {
    struct seen *s = user;
    unsigned cpus[2], first;
    assert_true(weir__os_cpu_list(&first, 1) == 1);
    s->pinned = weir__os_thread_pin(first);
    if (s->pinned == 0)
        s->turn = weir__os_cpu_list(cpus, 2) == 1 && cpus[0] == first;
}

static void pinning_leaves_one_cpu(void **state) {
    (void)state;
    struct weir__os_thread t;
    struct seen s = {0};
    assert_int_equal(weir__os_thread_start(&t, "pin", pin_to_first, &s), 0);
    weir__os_thread_join(&t);
    assert_int_equal(s.pinned, 0);
    assert_int_equal(s.turn, 1);
    assert_int_equal(weir__os_thread_pin(1u << 20), -EINVAL);
}

static void answer(void *user) {
    struct seen *s = user;
    weir__os_mutex_lock(&s->lock);
    while (s->turn != 1)
        weir__os_cond_wait(&s->changed, &s->lock);
    s->turn = 2;
    weir__os_cond_broadcast(&s->changed);
    while (s->turn != 3)
        weir__os_cond_wait(&s->changed, &s->lock);
    weir__os_mutex_unlock(&s->lock);
}

static void threads_take_turns(void **state) {
    (void)state;
    struct weir__os_thread t;
    struct seen s = {0};
    uint64_t cpu = 0;
    assert_int_equal(weir__os_mutex_init(&s.lock), 0);
    assert_int_equal(weir__os_cond_init(&s.changed), 0);
    assert_int_equal(weir__os_thread_start(&t, "turns", answer, &s), 0);
    weir__os_mutex_lock(&s.lock);
    s.turn = 1;
    weir__os_cond_signal(&s.changed);
    while (s.turn != 2)
        assert_true(weir__os_cond_wait_until(&s.changed, &s.lock,
                                             weir__os_clock_mono() + UINT64_C(60000000000)));
    assert_int_equal(weir__os_thread_cpu(&t, &cpu), 0);
    assert_true(cpu > 0);
    assert_int_equal(weir__os_thread_signal(&t, 0), 0);
    s.turn = 3;
    weir__os_cond_signal(&s.changed);
    weir__os_mutex_unlock(&s.lock);
    weir__os_thread_join(&t);
    weir__os_mutex_lock(&s.lock);
    assert_false(weir__os_cond_wait_until(&s.changed, &s.lock, weir__os_clock_mono()));
    weir__os_mutex_unlock(&s.lock);
    weir__os_cond_fini(&s.changed);
    weir__os_mutex_fini(&s.lock);
}

static void creation_can_fail(void **state) {
    (void)state;
    struct weir__os_thread t;
    struct seen s = {0};
    struct weir__os_fault f = {.kind = WEIR__OS_ANY, .nth = 1, .error = EAGAIN, .persist = true};
    weir__os_fault_set(&f);
    assert_int_equal(weir__os_thread_start(&t, "no", look_around, &s), -EAGAIN);
    assert_int_equal(weir__os_mutex_init(&s.lock), -EAGAIN);
    assert_int_equal(weir__os_cond_init(&s.changed), -EAGAIN);
    assert_int_equal(weir__os_thread_pin(0), -EAGAIN);
    weir__os_fault_set(NULL);
    assert_int_equal(s.tid, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_has_name_and_quiet_signals),
        cmocka_unit_test(pinning_leaves_one_cpu),
        cmocka_unit_test(threads_take_turns),
        cmocka_unit_test(creation_can_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
