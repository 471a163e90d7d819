#include "loop/group.h"
#include "os/fault.h"
#include "weir/stats.h"
#include <stdarg.h>
#include <setjmp.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static struct weir_group *group_of(unsigned loops, bool pin) {
    struct weir_group_options o = {.size = sizeof o, .loops = loops, .pin = pin};
    struct weir_group *g;
    assert_int_equal(weir_group_new(&o, &g), 0);
    return g;
}

static void count_up(struct weir_loop *l, void *user) {
    (void)l;
    atomic_fetch_add((_Atomic unsigned *)user, 1);
}

static void stop_group(struct weir_loop *l, void *user) {
    (void)l;
    weir_group_stop(user, 0);
}

static void start_stop_join(void **state) {
    (void)state;
    struct weir_group *g = group_of(3, false);
    assert_int_equal(weir_group_start(g), 0);
    assert_int_equal(weir_group_start(g), WEIR_EINVAL);
    weir_group_stop(g, 10000);
    assert_int_equal(weir_group_join(g), 0);
}

static void stopped_before_it_started(void **state) {
    (void)state;
    _Atomic unsigned ran = 0;
    struct weir_group *g = group_of(2, false);
    assert_int_equal(weir_loop_post(weir_group_loop(g, 1), count_up, (void *)&ran), 0);
    weir_group_stop(g, 0);
    assert_int_equal(weir_group_start(g), 0);
    assert_int_equal(weir_group_join(g), 0);
    assert_int_equal(ran, 1);
}

static void joined_and_never_started(void **state) {
    (void)state;
    _Atomic unsigned ran = 0;
    struct weir_group *g = group_of(2, false);
    assert_int_equal(weir_loop_post(weir_group_loop(g, 0), count_up, (void *)&ran), 0);
    assert_int_equal(weir_group_join(g), 0);
    assert_int_equal(ran, 1);
}

struct poster {
    struct weir_loop *loop;
    _Atomic unsigned ran;
    unsigned accepted;
    _Atomic bool busy;
};

static void *post_until_refused(void *user) {
    struct poster *p = user;
    int rc;
    while ((rc = weir_loop_post(p->loop, count_up, (void *)&p->ran)) == 0) {
        p->accepted++;
        p->busy = true;
    }
    return rc == WEIR_ESTOPPED ? p : NULL;
}

static void what_was_not_refused_runs(void **state) {
    (void)state;
    struct weir_group *g = group_of(1, false);
    struct poster p = {.loop = weir_group_loop(g, 0)};
    pthread_t t;
    void *ok;
    assert_int_equal(weir_group_start(g), 0);
    assert_int_equal(pthread_create(&t, NULL, post_until_refused, &p), 0);
    while (!p.busy)
        sched_yield();
    weir_group_stop(g, 0);
    assert_int_equal(pthread_join(t, &ok), 0);
    assert_ptr_equal(ok, &p);
    assert_int_equal(weir_group_join(g), 0);
    assert_int_equal(p.ran, p.accepted);
}

static void a_thread_that_cannot_be_made(void **state) {
    (void)state;
    struct weir_group *g = group_of(3, false);
    struct weir__os_fault f = {.kind = WEIR__OS_THREAD, .nth = 2, .error = EAGAIN};
    weir__os_fault_set(&f);
    int rc = weir_group_start(g);
    weir__os_fault_set(NULL);
    assert_true(rc < 0);
    assert_int_equal(weir_group_join(g), 0);
}

static struct weir__os_fault no_more_waits = {
    .kind = WEIR__OS_EPOLL_WAIT, .nth = 1, .error = EBADF, .persist = true};

static void break_the_door(struct weir_loop *l, void *user) {
    (void)l;
    (void)user;
    weir__os_fault_set(&no_more_waits);
}

static void one_broken_loop_ends_all(void **state) {
    (void)state;
    struct weir_group_options o = {.size = sizeof o, .loops = 2, .transport = "epoll"};
    struct weir_group *g;
    assert_int_equal(weir_group_new(&o, &g), 0);
    assert_int_equal(weir_loop_post(weir_group_loop(g, 1), break_the_door, NULL), 0);
    assert_int_equal(weir_group_start(g), 0);
    assert_int_equal(weir_group_join(g), WEIR_ESYS(EBADF));
}

static void run_ends_when_a_loop_says_so(void **state) {
    (void)state;
    sigset_t before, after;
    struct weir_group *g = group_of(2, false);
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    assert_int_equal(weir_loop_post(weir_group_loop(g, 1), stop_group, g), 0);
    assert_int_equal(weir_group_run(g), 0);
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    assert_int_equal(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM));
    assert_int_equal(sigismember(&before, SIGINT), sigismember(&after, SIGINT));
}

static void run_goes_on_with_a_started_group(void **state) {
    (void)state;
    struct weir_group *g = group_of(1, false);
    assert_int_equal(weir_group_start(g), 0);
    assert_int_equal(weir_loop_post(weir_group_loop(g, 0), stop_group, g), 0);
    assert_int_equal(weir_group_run(g), 0);
}

/* Connections may have taken every descriptor by the time run is called. */
static void run_needs_no_descriptor_of_its_own(void **state) {
    (void)state;
    struct weir_group *g = group_of(1, false);
    struct weir__os_fault signals = {
        .kind = WEIR__OS_SIGNAL, .nth = 1, .error = EMFILE, .persist = true};
    struct weir__os_fault events = {
        .kind = WEIR__OS_EVENT, .nth = 1, .error = EMFILE, .persist = true, .next = &signals};
    weir_group_stop(g, 0);
    weir__os_fault_set(&events);
    int rc = weir_group_run(g);
    weir__os_fault_set(NULL);
    assert_int_equal(rc, 0);
}

static void say_ready(struct weir_loop *l, void *user) {
    (void)l;
    assert_int_equal(write(*(int *)user, "r", 1), 1);
}

static void a_signal_ends_run(void **state) {
    int sig = *(int *)*state, ready[2], status;
    char r;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct weir_group *g = group_of(2, false);
        weir_loop_post(weir_group_loop(g, 0), say_ready, &ready[1]);
        alarm(20);
        _exit(weir_group_run(g) == 0 ? 0 : 1);
    }
    assert_int_equal(read(ready[0], &r, 1), 1);
    assert_int_equal(kill(child, sig), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    close(ready[0]);
    close(ready[1]);
}

struct seen {
    _Atomic unsigned done, pinned, blocked;
};

static void look_around(struct weir_loop *l, void *user) {
    struct seen *s = user;
    cpu_set_t cpus;
    sigset_t mask;
    (void)l;
    sched_getaffinity(0, sizeof cpus, &cpus);
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    s->pinned += CPU_COUNT(&cpus) == 1;
    s->blocked += sigismember(&mask, SIGTERM) == 1 && sigismember(&mask, SIGPIPE) == 1;
    s->done++;
}

static void loop_threads_are_pinned_and_quiet(void **state) {
    (void)state;
    struct seen s = {0};
    struct weir_group *g = group_of(2, true);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(weir_loop_post(weir_group_loop(g, i), look_around, &s), 0);
    assert_int_equal(weir_group_start(g), 0);
    while (s.done < 2)
        sched_yield();
    weir_group_stop(g, 0);
    assert_int_equal(weir_group_join(g), 0);
    assert_int_equal(s.pinned, 2);
    assert_int_equal(s.blocked, 2);
}

static int answer(struct weir_loop *l, void *user) {
    (void)user;
    return weir__loop_current == l ? 42 : -1;
}

static void call_from_a_loop(struct weir_loop *l, void *user) {
    *(_Atomic int *)user = weir__loop_group_call(l->env.group, l, answer, NULL);
    weir_group_stop(l->env.group, 0);
}

static void calls_into_a_loop_wait_for_it(void **state) {
    (void)state;
    _Atomic int from_loop = 0;
    struct weir_group *g = group_of(1, false);
    struct weir_loop *l = weir_group_loop(g, 0);
    assert_int_equal(weir__loop_group_call(g, l, answer, NULL), 42);
    assert_null(weir__loop_current);
    assert_int_equal(weir_group_start(g), 0);
    assert_int_equal(weir__loop_group_call(g, l, answer, NULL), 42);
    assert_int_equal(weir_loop_post(l, call_from_a_loop, (void *)&from_loop), 0);
    int rc;
    while ((rc = weir__loop_group_call(g, l, answer, NULL)) == 42)
        ;
    assert_int_equal(rc, WEIR_ESTOPPED);
    assert_int_equal(weir_group_join(g), 0);
    assert_int_equal(from_loop, WEIR_EINVAL);
}

static void spend_cpu(struct weir_loop *l, void *user) {
    struct weir_loop_stats s;
    do
        weir_group_loop_stats(l->env.group, 0, &s);
    while (l->io->ops->now(l->io) < l->now_ns + 3000000);
    count_up(l, user);
}

static void cpu_time_is_sampled(void **state) {
    (void)state;
    _Atomic unsigned ran = 0;
    struct weir_loop_stats s = {0};
    struct weir_group *g = group_of(1, false);
    assert_int_equal(weir_group_start(g), 0);
    while (s.cpu_ns == 0) {
        assert_int_equal(weir_loop_post(weir_group_loop(g, 0), spend_cpu, (void *)&ran), 0);
        while (!ran)
            sched_yield();
        ran = 0;
        assert_int_equal(weir_group_loop_stats(g, 0, &s), 0);
    }
    assert_true(s.turns > 0 && s.tasks > 0);
    weir_group_stop(g, 0);
    assert_int_equal(weir_group_join(g), 0);
}

int main(void) {
    static int term = SIGTERM, interrupt = SIGINT;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(a_signal_ends_run, &term),
        cmocka_unit_test_prestate(a_signal_ends_run, &interrupt),
        cmocka_unit_test(start_stop_join),
        cmocka_unit_test(stopped_before_it_started),
        cmocka_unit_test(joined_and_never_started),
        cmocka_unit_test(what_was_not_refused_runs),
        cmocka_unit_test(a_thread_that_cannot_be_made),
        cmocka_unit_test(one_broken_loop_ends_all),
        cmocka_unit_test(run_ends_when_a_loop_says_so),
        cmocka_unit_test(run_goes_on_with_a_started_group),
        cmocka_unit_test(run_needs_no_descriptor_of_its_own),
        cmocka_unit_test(loop_threads_are_pinned_and_quiet),
        cmocka_unit_test(calls_into_a_loop_wait_for_it),
        cmocka_unit_test(cpu_time_is_sampled),
    };
    return cmocka_run_group_tests_name("rt/run", tests, NULL, NULL);
}
