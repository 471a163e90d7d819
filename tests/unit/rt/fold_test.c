/* Samples as folded stacks, phases and handlers. */
#include "rt/fold.h"
#include "base/compiler.h"
#include "mem/raw.h"
#include "os/symbol.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

WEIR_NOINLINE static void leaf(void) {
    __asm__ volatile("nop; nop");
}

WEIR_NOINLINE static void caller(void) {
    __asm__ volatile("nop; nop");
}

static const char threads[2][16] = {"weir-loop-0", "weir-work-1"};

/* Stack of caller > leaf at this time; return addresses stand behind their call. */
static struct weir__rt_sample sample(unsigned thread, uint64_t at_ns, const char *outer,
                                     const char *inner) {
    struct weir__rt_sample x = {.thread = thread, .at_ns = at_ns};
    x.stack.n = 2;
    x.stack.pc[0] = (uintptr_t)leaf;
    x.stack.pc[1] = (uintptr_t)caller + 1;
    if (inner)
        x.handlers[x.n_handlers++] = inner;
    if (outer)
        x.handlers[x.n_handlers++] = outer;
    return x;
}

static int fold(struct weir_profile *p, const struct weir__rt_sample *samples, uint32_t n) {
    struct weir__rt_window w = {.from_ns = 1000, .until_ns = 2000, .threads = threads};
    struct weir__os_symbols *s;
    assert_int_equal(weir__os_symbols_new(&s), 0);
    memset(p, 0, sizeof *p);
    int rc = weir__rt_fold(p, samples, n, &w, s);
    weir__os_symbols_free(s);
    return rc;
}

static void equal_stacks_are_counted(void **state) {
    const struct weir__rt_sample all[] = {
        sample(0, 1000, "linkd", "digest"),  sample(1, 1500, NULL, NULL),
        sample(0, 1100, "linkd", "digest"),  sample(0, 1999, "linkd", "digest"),
        sample(0, 2500, NULL, "a;b\n c\td"),
    };
    struct weir_profile p;
    (void)state;
    assert_int_equal(fold(&p, all, ARRAY_LEN(all)), 0);
    assert_string_equal(p.folded.at, "weir-loop-0;handler:linkd;handler:digest;caller;leaf 3\n"
                                     "weir-work-1;caller;leaf 1\n"
                                     "weir-loop-0;handler:a_b__c_d;caller;leaf 1\n");
    assert_int_equal(p.folded.n, strlen(p.folded.at));
    assert_int_equal(p.summary.samples, 5);
    assert_int_equal(p.summary.phases[WEIR_PROFILE_HANDLER], 4);
    assert_int_equal(p.summary.phases[WEIR_PROFILE_OTHER], 1);
    assert_int_equal(p.summary.n_handlers, 2);
    assert_string_equal(p.summary.handlers[0].name, "digest");
    assert_int_equal(p.summary.handlers[0].samples, 3);
    assert_int_equal(p.summary.handlers[0].parts, 3); /* the 1st, 2nd and 10th */
    assert_true(p.summary.handlers[0].share > .59 && p.summary.handlers[0].share < .61);
    assert_true(p.summary.handlers[0].account_share < 0);
    assert_int_equal(p.summary.handlers[1].parts, 1); /* what comes late is in the last part */
    weir__rt_fold_fini(&p);
}

static void nothing_is_an_empty_text(void **state) {
    struct weir_profile p;
    (void)state;
    assert_int_equal(fold(&p, NULL, 0), 0);
    assert_string_equal(p.folded.at, "");
    assert_int_equal(p.folded.n, 0);
    weir__rt_fold_fini(&p);
}

static void the_phase_is_that_of_the_call(void **state) {
    const char *wait[] = {"__libc_something", "weir__os_epoll_wait", "wait"};
    const char *receive[] = {"weir__epoll_receive", "next"};
    const char *send[] = {"weir__os_sendv"};
    const char *users[] = {"look", "users_handler"}, *users_too[] = {"send_parts"};
    const char *far[] = {"a", "b", "c", "weir__os_send"};
    (void)state;
    assert_int_equal(weir__rt_phase(wait, 3, true, false), WEIR_PROFILE_WAIT);
    assert_int_equal(weir__rt_phase(receive, 2, true, true), WEIR_PROFILE_RECEIVE);
    assert_int_equal(weir__rt_phase(send, 1, true, false), WEIR_PROFILE_SEND);
    assert_int_equal(weir__rt_phase(send, 1, false, false), WEIR_PROFILE_OTHER);
    assert_int_equal(weir__rt_phase(users, 2, true, true), WEIR_PROFILE_HANDLER);
    assert_int_equal(weir__rt_phase(users_too, 1, true, true), WEIR_PROFILE_HANDLER);
    assert_int_equal(weir__rt_phase(far, 4, true, true), WEIR_PROFILE_HANDLER);
    assert_int_equal(weir__rt_phase(NULL, 0, true, false), WEIR_PROFILE_OTHER);
}

/* Many handlers and stacks, so that every table grows; then each allocation fails once. */
static void no_memory(void **state) {
    enum { N = 40 };
    static struct weir__rt_sample all[N];
    static char names[N][4];
    struct weir_profile p;
    (void)state;
    for (unsigned i = 0; i < N; i++) {
        names[i][0] = 'h';
        names[i][1] = (char)('A' + i);
        all[i] = sample(0, 1000 + i, NULL, names[i]);
    }
    assert_int_equal(fold(&p, all, N), 0);
    assert_int_equal(p.summary.n_handlers, N);
    weir__rt_fold_fini(&p);
    int rc = WEIR_ENOMEM;
    for (unsigned nth = 1; rc == WEIR_ENOMEM; nth++) {
        weir__mem_raw_fail(nth);
        rc = fold(&p, all, N);
        weir__mem_raw_fail(0);
        weir__rt_fold_fini(&p);
        assert_true(nth < 200);
    }
    assert_int_equal(rc, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_stacks_are_counted),
        cmocka_unit_test(nothing_is_an_empty_text),
        cmocka_unit_test(the_phase_is_that_of_the_call),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests_name("rt/fold", tests, NULL, NULL);
}
