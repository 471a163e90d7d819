/* Real workers: threads that start when there is work, results back on the loop, the end of a loop
 * with work out, threads that cannot be had. */
#include "rt/workers.h"
#include "kit/door.h"
#include "os/fault.h"
#include "weir.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdatomic.h>
#include <string.h>
#include <cmocka.h>

enum { MANY = 500 };

struct item {
    struct weir__loop_work work;
    struct bench *bench;
    unsigned ran, done;
    int status;
    pthread_t where;
    char thread[16];
    bool deaf; /* SIGPIPE and SIGTERM were blocked there */
};

struct bench { /* a loop on this thread, real workers */
    struct kit_loop k;
    struct weir__rt_workers *workers;
    pthread_mutex_t gate; /* held by the test: whoever runs waits */
    _Atomic unsigned running;
    unsigned done;
    struct item items[MANY];
};

static void run(struct weir__loop_work *w) {
    struct item *i = container_of(w, struct item, work);
    sigset_t mask;
    atomic_fetch_add(&i->bench->running, 1);
    pthread_mutex_lock(&i->bench->gate);
    pthread_mutex_unlock(&i->bench->gate);
    i->ran++;
    i->where = pthread_self();
    pthread_getname_np(i->where, i->thread, sizeof i->thread);
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    i->deaf = sigismember(&mask, SIGPIPE) == 1 && sigismember(&mask, SIGTERM) == 1;
}

static void done(struct weir_loop *l, struct weir__loop_work *w, int status) {
    struct item *i = container_of(w, struct item, work);
    assert_ptr_equal(l, weir__loop_current);
    i->done++;
    i->status = status;
    i->bench->done++;
}

static struct bench *bench_new(unsigned workers) {
    static struct bench b;
    memset(&b, 0, sizeof b);
    pthread_mutex_init(&b.gate, NULL);
    kit_loop_open(&b.k);
    assert_int_equal(weir__rt_workers_new(workers, &b.workers), 0);
    b.k.loop->env.workers = &b.workers->base;
    for (unsigned i = 0; i < MANY; i++) {
        b.items[i].bench = &b;
        b.items[i].work.run = run;
        b.items[i].work.done = done;
    }
    return &b;
}

static void bench_free(struct bench *b) {
    kit_loop_close(&b->k);
    weir__rt_workers_free(b->workers);
    pthread_mutex_destroy(&b->gate);
}

static int submit(struct bench *b, unsigned i) {
    return weir__loop_work_submit(b->k.loop, &b->items[i].work);
}

static void turn_until(struct bench *b, unsigned n) {
    while (b->done < n) {
        kit_loop_settle(&b->k);
        sched_yield();
    }
}

static void work_runs_elsewhere_and_ends_here(void **state) {
    (void)state;
    struct bench *b = bench_new(3);
    assert_int_equal(b->workers->n, 0); /* nothing to do: nobody there */
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(submit(b, i), 0);
    turn_until(b, MANY);
    for (unsigned i = 0; i < MANY; i++) {
        struct item *it = &b->items[i];
        assert_true(it->ran == 1 && it->done == 1 && it->status == 0 && it->deaf);
        assert_false(pthread_equal(it->where, pthread_self()));
        assert_memory_equal(it->thread, "weir-work-", 10);
    }
    assert_in_range(b->workers->n, 1, 3);
    assert_int_equal(b->workers->base.jobs, MANY);
    assert_int_equal(b->workers->base.finished, MANY);
    assert_int_equal(b->workers->base.waiting, 0);
    assert_in_range(b->workers->base.waiting_max, 1, MANY);
    assert_true(b->workers->base.cpu_ns > 0);
    assert_int_equal(b->k.loop->works, 0);
    bench_free(b);
}

static void one_job_needs_one_thread(void **state) {
    (void)state;
    struct bench *b = bench_new(8);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(submit(b, i), 0);
        turn_until(b, i + 1);
    }
    assert_in_range(b->workers->n, 1, 2); /* 2: it had not gone back to sleep */
    bench_free(b);
}

static void default_is_at_least_two(void **state) {
    (void)state;
    struct weir__rt_workers *p;
    assert_int_equal(weir__rt_workers_new(0, &p), 0);
    assert_in_range(p->n_max, 2, WEIR__RT_WORKERS_MAX);
    weir__rt_workers_free(p);
    weir__rt_workers_free(NULL);
}

static void close_with_work_out(struct bench *b) {
    weir__loop_stop(b->k.loop, 0);
    while (weir__loop_turn(b->k.loop) > 0)
        ;
}

static void a_stopped_loop_waits_for_what_runs_and_stops_the_rest(void **state) {
    (void)state;
    struct bench *b = bench_new(1);
    pthread_mutex_lock(&b->gate);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(submit(b, i), 0);
    while (!b->running)
        sched_yield();
    weir__loop_stop(b->k.loop, 0);
    while (b->done < 9)
        assert_int_equal(weir__loop_turn(b->k.loop), 1);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(weir__loop_turn(b->k.loop), 1); /* one still runs */
    assert_int_equal(submit(b, 10), WEIR_ESTOPPED);
    pthread_mutex_unlock(&b->gate);
    close_with_work_out(b);
    assert_int_equal(b->done, 10);
    assert_int_equal(b->items[0].status, 0);
    for (unsigned i = 1; i < 10; i++)
        assert_true(b->items[i].status == WEIR_ESTOPPED && !b->items[i].ran);
    assert_int_equal(b->workers->base.stopped, 9);
    kit_loop_free(&b->k);
    weir__rt_workers_free(b->workers);
}

static void an_abandoned_loop_waits_too(void **state) {
    (void)state;
    struct bench *b = bench_new(2);
    for (unsigned i = 0; i < 50; i++)
        assert_int_equal(submit(b, i), 0);
    assert_true(weir__loop_abandon(b->k.loop));
    assert_int_equal(b->done, 50);
    for (unsigned i = 0; i < 50; i++)
        assert_int_equal(b->items[i].status, b->items[i].ran ? 0 : WEIR_ESTOPPED);
    kit_loop_free(&b->k);
    weir__rt_workers_free(b->workers);
}

static void no_thread_at_all_is_an_error(void **state) {
    (void)state;
    struct bench *b = bench_new(2);
    struct weir__os_fault f = {.kind = WEIR__OS_THREAD, .nth = 1, .error = EAGAIN, .persist = true};
    weir__os_fault_set(&f);
    assert_int_equal(submit(b, 0), WEIR_ENOMEM);
    f.error = EPERM;
    assert_int_equal(submit(b, 0), WEIR_ESYS(EPERM));
    weir__os_fault_set(NULL);
    assert_int_equal(b->k.loop->works, 0);
    assert_int_equal(submit(b, 0), 0); /* nothing is remembered */
    turn_until(b, 1);
    bench_free(b);
}

static void fewer_threads_do_the_work(void **state) {
    (void)state;
    struct bench *b = bench_new(4);
    struct weir__os_fault f = {.kind = WEIR__OS_THREAD, .nth = 2, .error = EAGAIN, .persist = true};
    pthread_mutex_lock(&b->gate);
    weir__os_fault_set(&f);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(submit(b, i), 0);
    weir__os_fault_set(NULL);
    pthread_mutex_unlock(&b->gate);
    turn_until(b, 20);
    assert_int_equal(b->workers->n, 1);
    bench_free(b);
}

static void a_pool_that_cannot_be_made(void **state) {
    (void)state;
    struct weir__rt_workers *p;
    for (unsigned nth = 1; nth <= 3; nth++) {
        struct weir__os_fault f = {.kind = WEIR__OS_THREAD, .nth = nth, .error = ENOMEM};
        weir__os_fault_set(&f);
        assert_int_equal(weir__rt_workers_new(2, &p), WEIR_ENOMEM);
        weir__os_fault_set(NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_runs_elsewhere_and_ends_here),
        cmocka_unit_test(one_job_needs_one_thread),
        cmocka_unit_test(default_is_at_least_two),
        cmocka_unit_test(a_stopped_loop_waits_for_what_runs_and_stops_the_rest),
        cmocka_unit_test(an_abandoned_loop_waits_too),
        cmocka_unit_test(no_thread_at_all_is_an_error),
        cmocka_unit_test(fewer_threads_do_the_work),
        cmocka_unit_test(a_pool_that_cannot_be_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
