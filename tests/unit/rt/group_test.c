#include "loop/group.h"
#include "mem/pool.h"
#include "mem/raw.h"
#include "os/cpu.h"
#include "os/fault.h"
#include "weir/loop.h"
#include <stdarg.h>
#include <setjmp.h>
#include <errno.h>
#include <string.h>
#include <cmocka.h>

static void defaults_use_the_cpus_we_have(void **state) {
    (void)state;
    struct weir_group *g;
    const char *why = "";
    assert_int_equal(weir_group_new(NULL, &g), 0);
    assert_int_equal(weir_group_loops(g), weir__os_cpu_count());
    bool uring = !strcmp(weir_group_transport(g, &why), "uring");
    assert_true(uring || !strcmp(weir_group_transport(g, NULL), "epoll-lt"));
    assert_int_equal(uring, why == NULL); /* not the better one has a reason */
    for (unsigned i = 0; i < weir_group_loops(g); i++)
        assert_int_equal(weir_loop_index(weir_group_loop(g, i)), i);
    assert_null(weir_group_loop(g, weir_group_loops(g)));
    assert_int_equal(weir_group_join(g), 0);
}

static void options_that_make_no_sense(void **state) {
    (void)state;
    struct weir_group *g;
    const size_t size = sizeof(struct weir_group_options);
    const struct weir_group_options bad[] = {
        {.size = 0},
        {.size = size + 8},
        {.size = size, .transport = "carrier pigeon"},
        {.size = size, .trigger = "both"},
        {.size = size, .uring_features = "-speed"},
        {.size = size, .loops = WEIR__LOOP_LOOPS_MAX + 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(weir_group_new(&bad[i], &g), WEIR_EINVAL);
}

static void trigger_and_transport_are_named(void **state) {
    (void)state;
    struct weir_group *g;
    const char *why = "";
    struct weir_group_options o = {
        .size = sizeof o, .loops = 1, .transport = "epoll", .trigger = "et"};
    assert_int_equal(weir_group_new(&o, &g), 0);
    assert_string_equal(weir_group_transport(g, &why), "epoll-et");
    assert_null(why);
    assert_int_equal(weir_group_join(g), 0);
}

/* What a program has compiled in that knows no uring_features yet. */
static void options_of_before(void **state) {
    (void)state;
    struct weir_group *g;
    struct weir_group_options o = {.size = offsetof(struct weir_group_options, uring_features),
                                   .loops = 1,
                                   .transport = "epoll",
                                   .uring_features = "is not looked at"};
    assert_int_equal(weir_group_new(&o, &g), 0);
    assert_int_equal(weir_group_join(g), 0);
}

static void uring_or_the_reason_why_not(void **state) {
    struct weir_group *g;
    const char *why = "";
    struct weir_group_options o = {
        .size = sizeof o, .loops = 2, .transport = "uring", .uring_features = *state};
    assert_int_equal(weir_group_new(&o, &g), 0);
    if (strcmp(weir_group_transport(g, &why), "uring") == 0) {
        assert_null(why);
    } else {
        assert_string_equal(weir_group_transport(g, NULL), "epoll-lt");
        assert_true(why && why[0]);
    }
    assert_int_equal(weir_group_start(g), 0);
    weir_group_stop(g, 0);
    assert_int_equal(weir_group_join(g), 0);
}

static void memory_max_is_shared_out(void **state) {
    (void)state;
    struct weir_group *g;
    struct weir__mem_stats m;
    struct weir_group_options o = {.size = sizeof o, .loops = 2, .memory_max = 10 << 20};
    assert_int_equal(weir_group_new(&o, &g), 0);
    for (unsigned i = 0; i < 2; i++) {
        weir__mem_stats(weir_group_loop(g, i)->mem, &m);
        assert_int_equal(m.budget_bytes, 10 << 20); /* one budget: each leases what it needs */
    }
    assert_int_equal(weir_group_join(g), 0);
}

static void no_allocation_is_taken_for_granted(void **state) {
    (void)state;
    struct weir_group_options o = {.size = sizeof o, .loops = 2, .transport = "epoll"};
    struct weir_group *g = NULL;
    int rc = WEIR_ENOMEM;
    uint64_t nth = 0;
    while (rc == WEIR_ENOMEM) {
        weir__mem_raw_fail(++nth);
        rc = weir_group_new(&o, &g);
        weir__mem_raw_fail(0);
    }
    assert_int_equal(rc, 0);
    assert_true(nth > 4);
    assert_int_equal(weir_group_join(g), 0);
}

/* Every n-th call of a kind fails; returns the first n that none was left for. */
static uint32_t fail_each(enum weir__os_kind kind) {
    struct weir_group_options o = {.size = sizeof o, .loops = 2, .transport = "epoll"};
    struct weir_group *g = NULL;
    for (uint32_t nth = 1;; nth++) {
        struct weir__os_fault f = {.kind = kind, .nth = nth, .error = EMFILE};
        weir__os_fault_set(&f);
        int rc = weir_group_new(&o, &g);
        weir__os_fault_set(NULL);
        if (!f.hit) {
            assert_int_equal(rc, 0);
            assert_int_equal(weir_group_join(g), 0);
            return nth;
        }
        assert_int_equal(rc, WEIR_EFDS);
    }
}

static void no_system_call_is_taken_for_granted(void **state) {
    (void)state;
    assert_true(fail_each(WEIR__OS_EVENT) >= 4);
    assert_true(fail_each(WEIR__OS_SIGNAL) >= 2);
}

/* When a door with a ring cannot be made, the group is made with others; else not at all. */
static void what_a_ring_lacks_epoll_has(void **state) {
    (void)state;
    struct weir_group_options o = {.size = sizeof o, .loops = 1};
    struct weir_group *g = NULL;
    const char *why;
    bool hit = true;
    for (uint32_t nth = 1; hit; nth++) {
        struct weir__os_fault f = {.kind = WEIR__OS_EVENT, .nth = nth, .error = EMFILE};
        weir__os_fault_set(&f);
        int rc = weir_group_new(&o, &g);
        weir__os_fault_set(NULL);
        hit = f.hit;
        assert_true(rc == 0 || (hit && rc == WEIR_EFDS));
        if (rc < 0)
            continue;
        bool uring = !strcmp(weir_group_transport(g, &why), "uring");
        assert_int_equal(uring, why == NULL);
        assert_int_equal(weir_group_join(g), 0);
    }
}

int main(void) {
    static char without[] = "none";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_use_the_cpus_we_have),
        cmocka_unit_test(options_that_make_no_sense),
        cmocka_unit_test(trigger_and_transport_are_named),
        cmocka_unit_test(options_of_before),
        cmocka_unit_test(uring_or_the_reason_why_not),
        cmocka_unit_test_prestate(uring_or_the_reason_why_not, without),
        cmocka_unit_test(what_a_ring_lacks_epoll_has),
        cmocka_unit_test(memory_max_is_shared_out),
        cmocka_unit_test(no_allocation_is_taken_for_granted),
        cmocka_unit_test(no_system_call_is_taken_for_granted),
    };
    return cmocka_run_group_tests_name("rt/group", tests, NULL, NULL);
}
