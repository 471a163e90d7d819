/* A thread that is asked where it is, and one that is sampled by its CPU clock. */
#include "os/sample.h"
#include "base/compiler.h"
#include "os/clock.h"
#include "os/fault.h"
#include "os/thread.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { DEADLINE_S = 30 };

struct worker {
    struct weir__os_sampled os;
    struct weir__os_thread thread;
    _Atomic bool joined, end;
    _Atomic unsigned asked, sampled, others, deep;
};

static void note(struct weir__os_sampled *s, int what, const struct weir__os_stack *at) {
    struct worker *w = container_of(s, struct worker, os);
    if (at->n > 1)
        w->deep++;
    if (what == 7)
        w->asked++;
    else if (what == 8)
        w->sampled++;
    else
        w->others++;
}

/* Looks at a clock, so that a sanitizer that holds signals back lets them in. */
static void body(void *user) {
    struct worker *w = user;
    weir__os_sampled_join(&w->os, note);
    w->joined = true;
    while (!w->end)
        (void)weir__os_clock_mono();
    weir__os_sampled_leave(&w->os);
}

static bool soon(_Atomic unsigned *n, unsigned least) {
    uint64_t until = weir__os_clock_mono() + DEADLINE_S * 1000000000ull;
    while (*n < least && weir__os_clock_mono() < until)
        weir__os_clock_sleep(100000);
    return *n >= least;
}

static void start(struct worker *w) {
    *w = (struct worker){0};
    assert_int_equal(weir__os_thread_start(&w->thread, "worker", body, w), 0);
    while (!w->joined)
        weir__os_clock_sleep(100000);
}

static void finish(struct worker *w) {
    w->end = true;
    weir__os_thread_join(&w->thread);
}

static bool is_default(int sig) {
    struct sigaction a;
    assert_int_equal(sigaction(sig, NULL, &a), 0);
    return !(a.sa_flags & SA_SIGINFO) && a.sa_handler == SIG_DFL;
}

static void the_signal_is_taken_and_given_back(void **state) {
    (void)state;
    assert_int_equal(weir__os_sample_signal(), 0);
    assert_int_equal(weir__os_sample_open(), 0);
    int sig = weir__os_sample_signal();
    assert_in_range(sig, SIGRTMIN, SIGRTMAX);
    assert_false(is_default(sig));
    assert_int_equal(weir__os_sample_open(), 0); /* once more: the same */
    assert_int_equal(weir__os_sample_signal(), sig);
    weir__os_sample_close();
    assert_false(is_default(sig));
    weir__os_sample_close();
    assert_true(is_default(sig));
    assert_int_equal(weir__os_sample_signal(), 0);
}

static void a_signal_of_somebody_else_is_left_alone(void **state) {
    (void)state;
    assert_int_equal(weir__os_sample_open(), 0);
    int sig = weir__os_sample_signal();
    weir__os_sample_close();
    signal(sig, SIG_IGN);
    assert_int_equal(weir__os_sample_open(), 0);
    assert_int_not_equal(weir__os_sample_signal(), sig);
    weir__os_sample_close();
    for (int s = SIGRTMIN; s <= SIGRTMAX; s++)
        signal(s, SIG_IGN);
    assert_int_equal(weir__os_sample_open(), -ENOTSUP);
    for (int s = SIGRTMIN; s <= SIGRTMAX; s++)
        signal(s, SIG_DFL);
}

static void a_thread_answers(void **state) {
    struct worker w;
    uint64_t ns = 0;
    (void)state;
    assert_int_equal(weir__os_sample_open(), 0);
    start(&w);
    assert_int_equal(weir__os_sampled_ask(&w.os, 7), 0);
    assert_true(soon(&w.asked, 1));
#if !defined(__SANITIZE_THREAD__) /* which holds signals back until something is called */
    assert_int_equal(w.deep, 1);
#endif
    assert_int_equal(weir__os_sampled_cpu(&w.os, &ns), 0);
    assert_true(ns > 0);
    finish(&w);
    assert_int_equal(weir__os_sampled_ask(&w.os, 7), -ESRCH);
    assert_int_equal(weir__os_sampled_cpu(&w.os, &ns), -ESRCH);
    weir__os_sample_close();
    assert_int_equal(w.asked, 1);
}

static void a_stranger_is_ignored(void **state) {
    struct worker w;
    (void)state;
    assert_int_equal(weir__os_sample_open(), 0);
    start(&w);
    raise(weir__os_sample_signal()); /* this thread has not joined */
    assert_int_equal(weir__os_thread_signal(&w.thread, weir__os_sample_signal()), 0); /* no value */
    uint64_t until = weir__os_clock_mono() + DEADLINE_S * 1000000000ull;
    while (!w.asked && weir__os_clock_mono() < until) { /* again: a sanitizer keeps only one */
        assert_int_equal(weir__os_sampled_ask(&w.os, 7), 0);
        weir__os_clock_sleep(1000000);
    }
    assert_true(w.asked > 0); /* came behind the other */
    assert_int_equal(w.others, 0);
    finish(&w);
    weir__os_sample_close();
}

static void a_timer_samples(void **state) {
    struct worker w;
    (void)state;
    assert_int_equal(weir__os_sample_open(), 0);
    start(&w);
    assert_int_equal(weir__os_sampled_start(&w.os, 500, 8), 0);
    assert_true(soon(&w.sampled, 5));
    weir__os_sampled_stop(&w.os);
    weir__os_sampled_stop(&w.os); /* nothing to do */
    finish(&w);
    weir__os_sample_close();
}

static void a_timer_that_cannot_be_made(void **state) {
    struct weir__os_fault f = {.kind = WEIR__OS_TIMER, .nth = 1, .error = EAGAIN};
    struct worker w;
    (void)state;
    assert_int_equal(weir__os_sample_open(), 0);
    start(&w);
    weir__os_fault_set(&f);
    assert_int_equal(weir__os_sampled_start(&w.os, 100, 8), -EAGAIN);
    f = (struct weir__os_fault){.kind = WEIR__OS_SIGNAL, .nth = 1, .error = EAGAIN};
    assert_int_equal(weir__os_sampled_ask(&w.os, 7), -EAGAIN);
    weir__os_fault_set(NULL);
    finish(&w);
    assert_int_equal(weir__os_sampled_start(&w.os, 100, 8), -ESRCH);
    weir__os_sample_close();
}

static void a_signal_that_cannot_be_had(void **state) {
    struct weir__os_fault f = {.kind = WEIR__OS_SIGNAL, .nth = 1, .error = EINVAL};
    (void)state;
    weir__os_fault_set(&f);
    assert_int_equal(weir__os_sample_open(), -EINVAL);
    weir__os_fault_set(NULL);
    assert_int_equal(weir__os_sample_signal(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_signal_is_taken_and_given_back),
        cmocka_unit_test(a_signal_of_somebody_else_is_left_alone),
        cmocka_unit_test(a_thread_answers),
        cmocka_unit_test(a_stranger_is_ignored),
        cmocka_unit_test(a_timer_samples),
        cmocka_unit_test(a_timer_that_cannot_be_made),
        cmocka_unit_test(a_signal_that_cannot_be_had),
    };
    return cmocka_run_group_tests_name("os/sample", tests, NULL, NULL);
}
