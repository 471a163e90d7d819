#include "mem/pool.h"

#include <pthread.h>
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

static struct weir_mem *pool(struct weir__mem_budget *b) {
    struct weir_mem *m = weir__mem_pool_new("budget");
    assert_non_null(m);
    assert_int_equal(weir__mem_budget_attach(m, b), 0);
    return m;
}

static unsigned fill(struct weir_mem *m, void **p, unsigned max, size_t bytes) {
    unsigned n = 0;
    weir__mem_enter(m);
    while (n < max && (p[n] = weir_mem_new(m, bytes)))
        n++;
    return n;
}

static void drop(struct weir_mem *m, void **p, unsigned n) {
    weir__mem_enter(m);
    while (n > 0)
        weir_mem_free(p[--n]);
}

static void a_lease_is_all_or_what_is_left(void **state) {
    (void)state;
    struct weir__mem_budget b;
    weir__mem_budget_init(&b, 1000);
    assert_int_equal(weir__mem_budget_take(&b, 10, 600), 600);
    assert_int_equal(weir__mem_budget_take(&b, 10, 600), 400);
    assert_int_equal(weir__mem_budget_take(&b, 1, 600), 0);
    assert_int_equal(atomic_load(&b.refused), 1);
    weir__mem_budget_give(&b, 300);
    assert_int_equal(weir__mem_budget_take(&b, 301, 600), 0);
    assert_int_equal(weir__mem_budget_take(&b, 300, 600), 300);
    assert_int_equal(atomic_load(&b.used), 1000);
}

static void two_pools_share_one_budget_to_the_byte(void **state) {
    (void)state;
    enum { MAX = 1 << 20, N = MAX / 1024 };
    static void *p[2][N];
    struct weir__mem_budget b;
    weir__mem_budget_init(&b, MAX);
    struct weir_mem *m[2] = {pool(&b), pool(&b)};
    unsigned n0 = fill(m[0], p[0], N / 2, 1040), n1 = fill(m[1], p[1], N, 1040);
    assert_int_equal(n0, N / 2);
    assert_in_range(n1, (MAX - 32768) / 1056 - n0, MAX / 1056 - n0); /* a step may lie idle */
    struct weir__mem_stats st;
    weir__mem_stats(m[1], &st);
    assert_int_equal(st.budget_bytes, MAX);
    assert_int_equal(st.failures, 1);
    assert_int_equal(st.over_budget, 1);
    assert_true(st.leased_bytes >= st.live_bytes);
    assert_true(atomic_load(&b.refused) > 0 && atomic_load(&b.used) <= MAX);
    weir__mem_invariants(m[0]);
    weir__mem_invariants(m[1]);

    /* What one gives back, the other gets at its next look. */
    drop(m[0], p[0], n0);
    assert_true(weir__mem_tick(m[0], &st));
    assert_int_equal(st.cached_bytes, 0);
    unsigned more = fill(m[1], p[1] + n1, N - n1, 1040);
    assert_true(more >= n0 - 40);
    drop(m[1], p[1], n1 + more);
    for (unsigned i = 0; i < 2; i++) {
        weir__mem_enter(m[i]);
        assert_int_equal(weir__mem_pool_free(m[i]), 0);
    }
    assert_int_equal(atomic_load(&b.used), 0);
}

static void caches_are_emptied_before_anything_is_refused(void **state) {
    (void)state;
    static void *p[1024];
    struct weir__mem_budget b;
    weir__mem_budget_init(&b, 256 << 10);
    struct weir_mem *m = pool(&b);
    unsigned n = fill(m, p, 300, 1008);
    assert_true(n > 200);
    drop(m, p, n); /* some are cached now */
    void *large = weir_mem_new(m, 230 << 10);
    assert_non_null(large);
    weir_mem_free(large);
    assert_int_equal(weir__mem_pool_free(m), 0);
    assert_int_equal(atomic_load(&b.used), 0);
}

static void the_smaller_of_both_limits_counts(void **state) {
    (void)state;
    static void *p[1024];
    struct weir__mem_budget b;
    weir__mem_budget_init(&b, 1 << 20);
    struct weir_mem *m = pool(&b);
    weir__mem_budget_set(m, 64 << 10);
    assert_int_equal(fill(m, p, 1024, 1008), 62);
    struct weir__mem_stats st;
    weir__mem_stats(m, &st);
    assert_int_equal(st.budget_bytes, 64 << 10);
    assert_int_equal(atomic_load(&b.refused), 0);
    assert_null(weir_mem_new(m, SIZE_MAX / 2));
    drop(m, p, 62);
    assert_int_equal(weir__mem_pool_free(m), 0);
}

static void what_is_held_is_leased_when_a_budget_comes(void **state) {
    (void)state;
    struct weir__mem_budget b, small;
    weir__mem_budget_init(&b, 1 << 20);
    weir__mem_budget_init(&small, 50000);
    struct weir_mem *m = pool(NULL);
    weir__mem_enter(m);
    void *p = weir_mem_new(m, 100000);
    assert_int_equal(weir__mem_budget_attach(m, &small), WEIR_ENOMEM);
    assert_int_equal(atomic_load(&small.used), 0);
    assert_int_equal(weir__mem_budget_attach(m, &b), 0);
    assert_int_equal(atomic_load(&b.used), 100016);
    assert_int_equal(weir__mem_budget_attach(m, NULL), 0);
    assert_int_equal(atomic_load(&b.used), 0);
    weir_mem_free(p);
    assert_int_equal(weir__mem_pool_free(m), 0);
}

static void an_orphan_holds_no_lease(void **state) {
    (void)state;
    struct weir__mem_budget b;
    weir__mem_budget_init(&b, 1 << 20);
    struct weir_mem *m = pool(&b);
    struct weir_slice s;
    weir__mem_enter(m);
    assert_int_equal(weir_slice_new(m, 5000, &s), 0);
    weir_slice_share(&s);
    assert_int_equal(weir__mem_pool_free(m), 1);
    assert_int_equal(atomic_load(&b.used), 0);
    weir_slice_release(&s);
}

static void *churn(void *arg) {
    struct weir__mem_budget *b = arg;
    struct weir_mem *m = pool(b);
    static const size_t sizes[] = {100, 1000, 10000, 100000};
    void *p[64] = {0};
    for (unsigned i = 0; i < 4000; i++) {
        unsigned at = i * 37 % 64;
        weir__mem_enter(m);
        weir_mem_free(p[at]);
        p[at] = weir_mem_new(m, sizes[i % 4]);
        struct weir__mem_stats st;
        if (i % 50 == 0)
            (void)weir__mem_tick(m, &st);
        if (i % 500 == 0)
            weir__mem_invariants(m);
        must(atomic_load(&b->used) <= b->max);
    }
    drop(m, p, 64);
    must(weir__mem_pool_free(m) == 0);
    return NULL;
}

static void threads_never_lease_more_than_there_is(void **state) {
    (void)state;
    struct weir__mem_budget b;
    pthread_t t[3];
    weir__mem_budget_init(&b, 2 << 20);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&t[i], NULL, churn, &b), 0);
    for (unsigned i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(atomic_load(&b.used), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_is_all_or_what_is_left),
        cmocka_unit_test(two_pools_share_one_budget_to_the_byte),
        cmocka_unit_test(caches_are_emptied_before_anything_is_refused),
        cmocka_unit_test(the_smaller_of_both_limits_counts),
        cmocka_unit_test(what_is_held_is_leased_when_a_budget_comes),
        cmocka_unit_test(an_orphan_holds_no_lease),
        cmocka_unit_test(threads_never_lease_more_than_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
