/* Profiles of a group that works: what they name, who may take them, and what can fail. */
#include "rt/profile.h"
#include "base/compiler.h"
#include "loop/local.h"
#include "loop/work.h"
#include "mem/raw.h"
#include "os/clock.h"
#include "os/fault.h"
#include "weir/sim.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { WINDOWS_MAX = 30 };

static struct weir_group *group_of(unsigned loops) {
    struct weir_group_options o = {.size = sizeof o, .loops = loops};
    struct weir_group *g;
    assert_int_equal(weir_group_new(&o, &g), 0);
    return g;
}

static void end_of(struct weir_group *g) {
    weir_group_stop(g, 0);
    assert_int_equal(weir_group_join(g), 0);
}

static struct weir_profile_options window(uint32_t ms) {
    return (struct weir_profile_options){.size = sizeof(struct weir_profile_options), .ms = ms};
}

/* --- a loop that works ----------------------------------------------------------------------- */

static _Atomic bool enough;

WEIR_NOINLINE static void digest_rounds(void) {
    uint64_t until = weir__os_clock_mono() + 500000;
    while (weir__os_clock_mono() < until)
        continue;
}

static void work(struct weir_loop *l, void *user) {
    if (enough)
        return;
    weir__loop_attribute(l, weir__loop_name(l, "digest"), 1);
    digest_rounds();
    weir__loop_attribute_end(l);
    assert_int_equal(weir_loop_post(l, work, user), 0);
}

static void the_handler_is_named(void **state) {
    struct weir_group *g = group_of(1);
    struct weir_profile_options o = window(500);
    struct weir_profile *p = NULL;
    const struct weir_profile_summary *s = NULL;
    (void)state;
    enough = false;
    assert_int_equal(weir_loop_post(weir_group_loop(g, 0), work, NULL), 0);
    assert_int_equal(weir_group_start(g), 0);
    o.hz = 997;
    for (; o.ms <= 16000; o.ms *= 2) { /* a busy machine gives few samples */
        assert_int_equal(weir_profile_take(g, &o, &p), 0);
        s = weir_profile_summary(p);
        if (s->verdict.cause == WEIR_PROFILE_BY_HANDLER)
            break;
        weir_profile_free(p);
        p = NULL;
    }
    enough = true;
    end_of(g); /* a profile outlives its group */
    assert_non_null(p);
    assert_string_equal(s->verdict.handler, "digest");
    assert_string_equal(s->handlers[0].name, "digest");
    assert_int_equal(s->threads, 1);
    assert_int_equal(s->lost, 0);
    assert_true(s->cpu_ns > 0 && s->window_ns >= 400000000);
    size_t n;
    const char *text = weir_profile_folded(p, &n);
    assert_int_equal(strlen(text), n);
    assert_int_equal(strncmp(text, "weir-loop-0;handler:digest;", 27), 0);
    assert_non_null(strstr(text, ";work;digest_rounds"));
    weir_profile_free(p);
}

/* Little CPU time, and much by the clock. */
static void doze(struct weir_loop *l, void *user) {
    if (enough)
        return;
    weir__loop_attribute(l, weir__loop_name(l, "dozer"), 1);
    for (uint64_t until = weir__os_clock_mono() + 100000; weir__os_clock_mono() < until;)
        continue;
    weir__os_clock_sleep(2000000);
    weir__loop_attribute_end(l);
    assert_int_equal(weir_loop_post(l, doze, user), 0);
}

static double account_of(const struct weir_profile_summary *s, const char *name) {
    for (unsigned i = 0; i < s->n_handlers; i++)
        if (strcmp(s->handlers[i].name, name) == 0)
            return s->handlers[i].account_share;
    return -1;
}

static void the_accounting_is_of_cpu_time(void **state) {
    struct weir_group *g = group_of(1);
    struct weir_profile_options o = window(500);
    struct weir_profile *p = NULL;
    double dozer = -1, digest = -1;
    (void)state;
    enough = false;
    assert_int_equal(weir_loop_post(weir_group_loop(g, 0), work, NULL), 0);
    assert_int_equal(weir_loop_post(weir_group_loop(g, 0), doze, NULL), 0);
    assert_int_equal(weir_group_start(g), 0);
    o.hz = 997;
    for (; o.ms <= 16000 && (dozer < 0 || dozer >= 0.5 || digest < 0.5); o.ms *= 2) {
        assert_int_equal(weir_profile_take(g, &o, &p), 0);
        dozer = account_of(weir_profile_summary(p), "dozer");
        digest = account_of(weir_profile_summary(p), "digest");
        weir_profile_free(p);
    }
    enough = true;
    end_of(g);
    assert_true(dozer >= 0 && dozer < 0.5); /* by the clock it has four fifths */
    assert_true(digest > 0.5);
}

/* One call of 150 ms after the other: in a window there are too few for one of 64 to be timed. */
static void toil(struct weir_loop *l, void *user) {
    if (enough)
        return;
    weir__loop_attribute(l, weir__loop_name(l, "toil"), 1);
    for (unsigned i = 0; i < 300; i++)
        digest_rounds();
    weir__loop_attribute_end(l);
    assert_int_equal(weir_loop_post(l, toil, user), 0);
}

static void few_long_calls_are_named(void **state) {
    struct weir_group_options go = {.size = sizeof go, .loops = 1, .watchdog_ms = 50};
    struct weir_group *g;
    struct weir_profile_options o = window(600);
    char handler[16] = "";
    (void)state;
    assert_int_equal(weir_group_new(&go, &g), 0);
    enough = false;
    assert_int_equal(weir_loop_post(weir_group_loop(g, 0), toil, NULL), 0);
    assert_int_equal(weir_group_start(g), 0);
    for (; o.ms <= 10000 && !handler[0]; o.ms *= 2) { /* a busy machine gives few samples */
        struct weir_profile *p;
        assert_int_equal(weir_profile_take(g, &o, &p), 0);
        const struct weir_profile_verdict *v = &weir_profile_summary(p)->verdict;
        if (v->cause == WEIR_PROFILE_BY_HANDLER)
            snprintf(handler, sizeof handler, "%s", v->handler);
        weir_profile_free(p);
    }
    enough = true;
    end_of(g);
    assert_string_equal(handler, "toil");
}

/* --- a worker that works --------------------------------------------------------------------- */

static void hash_run(struct weir__loop_work *w) {
    (void)w;
    while (!enough)
        digest_rounds();
}

static void hash_done(struct weir_loop *l, struct weir__loop_work *w, int status) {
    (void)l;
    (void)w;
    assert_int_equal(status, 0);
}

static struct weir__loop_work hash = {.run = hash_run, .done = hash_done};

static void submit_hash(struct weir_loop *l, void *user) {
    (void)user;
    hash.handler = weir__loop_name(l, "hash");
    assert_int_equal(weir__loop_work_submit(l, &hash), 0);
}

static void workers_are_sampled_too(void **state) {
    struct weir_group *g = group_of(1);
    struct weir_profile_options o = window(100);
    const char *found = NULL;
    (void)state;
    enough = false;
    assert_int_equal(weir_loop_post(weir_group_loop(g, 0), submit_hash, NULL), 0);
    assert_int_equal(weir_group_start(g), 0);
    for (unsigned i = 0; i < WINDOWS_MAX && !found; i++) {
        struct weir_profile *p;
        assert_int_equal(weir_profile_take(g, &o, &p), 0);
        found = strstr(weir_profile_folded(p, NULL), "weir-work-0;handler:hash;") ? "" : NULL;
        weir_profile_free(p);
    }
    enough = true;
    end_of(g);
    assert_non_null(found);
}

/* --- one with a thread of its own ------------------------------------------------------------ */

struct told {
    _Atomic unsigned n;
    int code;
    struct weir_profile *p;
};

static void done(struct weir_profile *p, int code, void *user) {
    struct told *t = user;
    t->p = p;
    t->code = code;
    t->n++;
}

static void until_told(struct told *t) {
    while (!t->n)
        weir__os_clock_sleep(1000000);
}

static void one_at_a_time_and_the_end_comes_early(void **state) {
    struct weir_group *g = group_of(2);
    struct weir_profile_options o = window(600000);
    struct told t = {0};
    struct weir_profile *p;
    (void)state;
    assert_int_equal(weir_group_start(g), 0);
    assert_int_equal(weir_profile_start(g, &o, done, &t), 0);
    assert_int_equal(weir_profile_start(g, &o, done, &t), WEIR_EAGAIN);
    assert_int_equal(weir_profile_take(g, &o, &p), WEIR_EAGAIN);
    end_of(g); /* does not wait ten minutes */
    assert_int_equal(t.n, 1);
    if (t.code == 0)
        assert_int_equal(weir_profile_summary(t.p)->verdict.cause, WEIR_PROFILE_UNKNOWN);
    else
        assert_int_equal(t.code, WEIR_ESTOPPED); /* it was over before a thread was there */
    weir_profile_free(t.p);
}

static void one_after_the_other(void **state) {
    struct weir_group *g = group_of(1);
    struct weir_profile_options o = window(1);
    (void)state;
    assert_int_equal(weir_group_start(g), 0);
    for (unsigned i = 0; i < 3; i++) {
        struct told t = {0};
        int rc;
        while ((rc = weir_profile_start(g, &o, done, &t)) == WEIR_EAGAIN)
            weir__os_clock_sleep(100000); /* done came a little before the end */
        assert_int_equal(rc, 0);
        until_told(&t);
        weir_profile_free(t.p);
    }
    struct weir__os_fault f = {.kind = WEIR__OS_THREAD, .nth = 1, .error = EAGAIN};
    struct told t = {0};
    int rc = WEIR_EAGAIN;
    while (rc == WEIR_EAGAIN && !f.hit) {
        f.seen = 0;
        weir__os_fault_set(&f);
        rc = weir_profile_start(g, &o, done, &t);
        weir__os_fault_set(NULL);
    }
    assert_true(rc < 0);
    assert_int_equal(t.n, 0);
    end_of(g);
}

/* --- who may not ----------------------------------------------------------------------------- */

struct here {
    struct weir_group *g;
    int rc;
};

static void take_here(struct weir_loop *l, void *user) {
    struct weir_profile_options o = window(1);
    struct weir_profile *p;
    struct here *x = user;
    (void)l;
    x->rc = weir_profile_take(x->g, &o, &p);
}

static void on_a_loop_or_without_one(void **state) {
    struct here x = {.rc = 1};
    struct weir_profile_options o = window(1);
    struct weir_profile *p;
    (void)state;
    x.g = group_of(1);
    assert_int_equal(weir_profile_take(x.g, &o, &p), WEIR_ESTOPPED); /* not started */
    assert_int_equal(weir_loop_post(weir_group_loop(x.g, 0), take_here, &x), 0);
    assert_int_equal(weir_group_start(x.g), 0);
    end_of(x.g);
    assert_int_equal(x.rc, WEIR_EINVAL);
    struct weir_sim *s = weir_sim_new(NULL);
    assert_int_equal(weir_profile_take(weir_sim_group(s), &o, &p), WEIR_ENOTSUP);
    assert_int_equal(weir_profile_start(weir_sim_group(s), &o, done, NULL), WEIR_ENOTSUP);
    assert_int_equal(weir_sim_free(s), 0);
}

static void options(void **state) {
    struct weir_group *g = group_of(1);
    struct weir_profile_options o = window(1);
    struct weir_profile *p;
    (void)state;
    o.size = 1;
    assert_int_equal(weir_profile_take(g, &o, &p), WEIR_EINVAL);
    o = window(600001);
    assert_int_equal(weir_profile_take(g, &o, &p), WEIR_EINVAL);
    o = window(1);
    o.hz = 1001;
    assert_int_equal(weir_profile_start(g, &o, done, NULL), WEIR_EINVAL);
    assert_int_equal(weir_group_join(g), 0);
    assert_string_equal(weir_profile_phase_name(WEIR_PROFILE_WAIT), "wait");
    assert_string_equal(weir_profile_phase_name(WEIR_PROFILE_PHASES), "?");
}

/* --- what can fail --------------------------------------------------------------------------- */

static void no_timer(void **state) {
    struct weir__os_fault f = {.kind = WEIR__OS_TIMER, .nth = 1, .error = EPERM, .persist = true};
    struct weir_group *g = group_of(1);
    struct weir_profile_options o = window(1);
    struct weir_profile *p;
    (void)state;
    assert_int_equal(weir_group_start(g), 0);
    weir__os_fault_set(&f);
    int rc = weir_profile_take(g, &o, &p);
    weir__os_fault_set(NULL);
    assert_int_equal(rc, WEIR_ESYS(EPERM));
    assert_true(strlen(weir_strerror(rc)) > 0);
    assert_int_equal(weir_profile_take(g, &o, &p), 0); /* nothing is left of it */
    weir_profile_free(p);
    end_of(g);
}

static void no_memory(void **state) {
    struct weir_group *g = group_of(1);
    struct weir_profile_options o = window(1);
    struct weir_profile *p;
    int rc = WEIR_ENOMEM;
    (void)state;
    assert_int_equal(weir_group_start(g), 0);
    for (unsigned nth = 1; rc == WEIR_ENOMEM; nth++) {
        weir__mem_raw_fail(nth);
        rc = weir_profile_take(g, &o, &p);
        weir__mem_raw_fail(0);
        assert_true(nth < 100);
    }
    assert_int_equal(rc, 0);
    weir_profile_free(p);
    weir_profile_free(NULL);
    end_of(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_handler_is_named),
        cmocka_unit_test(the_accounting_is_of_cpu_time),
        cmocka_unit_test(few_long_calls_are_named),
        cmocka_unit_test(workers_are_sampled_too),
        cmocka_unit_test(one_at_a_time_and_the_end_comes_early),
        cmocka_unit_test(one_after_the_other),
        cmocka_unit_test(on_a_loop_or_without_one),
        cmocka_unit_test(options),
        cmocka_unit_test(no_timer),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests_name("rt/profile", tests, NULL, NULL);
}
