#include "weir/hist.h"
#include "base/rng.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

static struct weir_hist *make(uint64_t value_max) {
    size_t n = weir_hist_bytes(value_max);
    struct weir_hist *h = weir_hist_init(malloc(n), n, value_max);
    assert_non_null(h);
    return h;
}

static int order(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void empty_is_zero(void **state) {
    (void)state;
    struct weir_hist *h = make(WEIR_HIST_NS_MAX);
    struct weir_hist_bucket b = {0};
    assert_int_equal(weir_hist_count(h), 0);
    assert_int_equal(weir_hist_min(h), 0);
    assert_int_equal(weir_hist_max(h), 0);
    assert_int_equal(weir_hist_at(h, 0.5), 0);
    assert_true(weir_hist_mean(h) == 0);
    assert_false(weir_hist_next(h, &b));
    free(h);
}

static void init_wants_enough_memory(void **state) {
    (void)state;
    uint64_t mem[64];
    assert_null(weir_hist_init(mem, sizeof mem, 100000));
    assert_null(weir_hist_init(NULL, 1 << 20, 1));
    assert_true(weir_hist_bytes(WEIR_HIST_NS_MAX) <= 260 * 1024);
    assert_true(weir_hist_bytes(UINT64_MAX) > weir_hist_bytes(UINT64_MAX >> 1));
}

static void small_values_are_exact(void **state) {
    (void)state;
    struct weir_hist *h = make(4000);
    for (uint64_t v = 0; v < 2048; v++)
        weir_hist_add(h, v);
    for (uint64_t v = 0; v < 2048; v++) {
        assert_int_equal(weir_hist_at(h, (double)(v + 1) / 2048), v);
        assert_int_equal(weir_hist_count_to(h, v), v + 1);
    }
    free(h);
}

/* Every bucket edge up to 2^64: neighbours, no gap, no overlap, under 0.1 % wide. */
static void buckets_tile_the_range(void **state) {
    (void)state;
    struct weir_hist *h = make(UINT64_MAX);
    struct weir_hist_bucket b = {0};
    uint64_t expect = 0;
    for (unsigned top = 0; top < 64; top++)
        for (unsigned sub = 0; sub < 1024; sub++) {
            uint64_t low = top < 10 ? 0 : (UINT64_C(1) << top) + ((uint64_t)sub << (top - 10));
            if (top >= 10)
                weir_hist_add(h, low);
        }
    for (uint64_t v = 0; v < 1024; v++)
        weir_hist_add(h, v);
    while (weir_hist_next(h, &b)) {
        assert_int_equal(b.count, 1);
        assert_true(b.low == expect);
        assert_true(b.high - b.low <= b.low / 1024);
        expect = b.high + 1;
    }
    assert_true(expect == 0);
    assert_int_equal(weir_hist_saturated(h), 0);
    free(h);
}

static uint64_t draw(struct weir__base_rng *r) {
    return weir__base_rng_next(r) >> (24 + weir__base_rng_below(r, 40));
}

static void quantiles_follow_sorted_arrays(void **state) {
    (void)state;
    enum { MAX = 3000 };
    static uint64_t v[MAX];
    struct weir__base_rng r;
    struct weir_hist *h = make(WEIR_HIST_NS_MAX);
    weir__base_rng_seed(&r, 11);
    for (int round = 0; round < 40; round++) {
        size_t n = 1 + weir__base_rng_below(&r, MAX);
        double sum = 0;
        weir_hist_reset(h);
        for (size_t i = 0; i < n; i++) {
            v[i] = draw(&r);
            sum += (double)v[i];
            weir_hist_add(h, v[i]);
        }
        qsort(v, n, sizeof *v, order);
        assert_int_equal(weir_hist_count(h), n);
        assert_true(weir_hist_min(h) == v[0] && weir_hist_max(h) == v[n - 1]);
        assert_true(weir_hist_mean(h) >= sum / (double)n * 0.999999);
        assert_true(weir_hist_mean(h) <= sum / (double)n * 1.000001);
        for (size_t rank = 1; rank <= n; rank++) {
            uint64_t got = weir_hist_at(h, (double)rank / (double)n), want = v[rank - 1];
            assert_true(got >= want);
            assert_true(got - want <= want / 1000);
        }
        assert_true(weir_hist_at(h, 0) >= v[0] && weir_hist_at(h, 0) - v[0] <= v[0] / 1000);
        assert_true(weir_hist_at(h, 1) == v[n - 1]);
    }
    free(h);
}

static void ranks_do_not_slip_by_rounding(void **state) {
    (void)state;
    struct weir_hist *h = make(2000);
    for (uint64_t v = 1; v <= 1000; v++)
        weir_hist_add(h, v);
    assert_int_equal(weir_hist_at(h, 0.07), 70);
    assert_int_equal(weir_hist_at(h, 0.99), 990);
    assert_int_equal(weir_hist_at(h, 0.999), 999);
    assert_int_equal(weir_hist_at(h, 0.9991), 1000);
    assert_int_equal(weir_hist_at(h, -1), 1);
    assert_int_equal(weir_hist_at(h, 7), 1000);
    assert_int_equal(weir_hist_at(h, (double)__builtin_nanf("")), 1);
    free(h);
}

static void add_n_and_merge_equal_single_adds(void **state) {
    (void)state;
    struct weir__base_rng r;
    struct weir_hist *a = make(WEIR_HIST_NS_MAX), *b = make(WEIR_HIST_NS_MAX);
    struct weir_hist *all = make(WEIR_HIST_NS_MAX);
    struct weir_hist_bucket x = {0}, y = {0};
    weir__base_rng_seed(&r, 12);
    for (int i = 0; i < 2000; i++) {
        uint64_t v = draw(&r), n = weir__base_rng_below(&r, 4);
        weir_hist_add_n(i % 2 ? a : b, v, n);
        for (uint64_t k = 0; k < n; k++)
            weir_hist_add(all, v);
    }
    weir_hist_merge(a, b);
    assert_int_equal(weir_hist_count(a), weir_hist_count(all));
    assert_true(weir_hist_mean(a) == weir_hist_mean(all));
    assert_true(weir_hist_min(a) == weir_hist_min(all) && weir_hist_max(a) == weir_hist_max(all));
    while (weir_hist_next(all, &y)) {
        assert_true(weir_hist_next(a, &x));
        assert_true(x.low == y.low && x.high == y.high && x.count == y.count);
    }
    assert_false(weir_hist_next(a, &x));
    free(a);
    free(b);
    free(all);
}

static void over_the_range_is_counted_apart(void **state) {
    (void)state;
    struct weir_hist *small = make(5000), *big = make(1 << 20);
    weir_hist_add_n(small, 100, 9);
    weir_hist_add(small, 5001);
    assert_int_equal(weir_hist_saturated(small), 1);
    assert_int_equal(weir_hist_count(small), 10);
    assert_int_equal(weir_hist_at(small, 0.9), 100);
    assert_int_equal(weir_hist_at(small, 0.91), 5001);
    assert_int_equal(weir_hist_count_to(small, 5000), 9);
    assert_int_equal(weir_hist_count_to(small, 5001), 10);
    weir_hist_add(big, 100000);
    weir_hist_merge(small, big);
    assert_int_equal(weir_hist_saturated(small), 2);
    assert_int_equal(weir_hist_max(small), 100000);
    weir_hist_merge(big, small);
    assert_int_equal(weir_hist_count(big), 12);
    assert_int_equal(weir_hist_saturated(big), 2);
    free(small);
    free(big);
}

static void the_sum_does_not_wrap(void **state) {
    (void)state;
    struct weir_hist *h = make(UINT64_MAX);
    weir_hist_add_n(h, UINT64_MAX, UINT64_C(1) << 40);
    assert_true(weir_hist_mean(h) > 1.8e19 && weir_hist_mean(h) < 1.9e19);
    assert_true(weir_hist_at(h, 0.5) == UINT64_MAX);
    free(h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_is_zero),
        cmocka_unit_test(init_wants_enough_memory),
        cmocka_unit_test(small_values_are_exact),
        cmocka_unit_test(buckets_tile_the_range),
        cmocka_unit_test(quantiles_follow_sorted_arrays),
        cmocka_unit_test(ranks_do_not_slip_by_rounding),
        cmocka_unit_test(add_n_and_merge_equal_single_adds),
        cmocka_unit_test(over_the_range_is_counted_apart),
        cmocka_unit_test(the_sum_does_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
