#include "base/rng.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* The published first outputs of splitmix64 from state 1234567. */
static void splitmix_matches_its_reference(void **state) {
    (void)state;
    static const uint64_t want[] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
                                    UINT64_C(9817491932198370423), UINT64_C(4593380528125082431),
                                    UINT64_C(16408922859458223821)};
    uint64_t s = 1234567;
    for (int i = 0; i < 5; i++)
        assert_true(weir__base_splitmix(&s) == want[i]);
}

/* xoshiro256** from state {1, 2, 3, 4}; the first two follow by hand: rotl(2 * 5, 7) * 9, and 0. */
static void xoshiro_matches_its_reference(void **state) {
    (void)state;
    static const uint64_t want[] = {11520, 0, 1509978240, UINT64_C(1215971899390074240)};
    struct weir__base_rng r = {{1, 2, 3, 4}};
    for (int i = 0; i < 4; i++)
        assert_true(weir__base_rng_next(&r) == want[i]);
}

static void same_seed_same_numbers(void **state) {
    (void)state;
    struct weir__base_rng a, b, c;
    unsigned equal = 0;
    weir__base_rng_seed(&a, 42);
    weir__base_rng_seed(&b, 42);
    weir__base_rng_seed(&c, 43);
    for (int i = 0; i < 100; i++) {
        uint64_t v = weir__base_rng_next(&a);
        assert_true(v == weir__base_rng_next(&b));
        equal += v == weir__base_rng_next(&c);
    }
    assert_int_equal(equal, 0);
}

static void below_is_even(void **state) {
    (void)state;
    struct weir__base_rng r;
    unsigned seen[7] = {0};
    weir__base_rng_seed(&r, 9);
    for (int i = 0; i < 70000; i++) {
        uint64_t v = weir__base_rng_below(&r, 7);
        assert_true(v < 7);
        seen[v]++;
    }
    for (int i = 0; i < 7; i++)
        assert_in_range(seen[i], 9600, 10400);
    for (int i = 0; i < 1000; i++)
        assert_true(weir__base_rng_below(&r, (UINT64_C(1) << 63) + 1) <= UINT64_C(1) << 63);
    assert_int_equal(weir__base_rng_below(&r, 0), 0);
    assert_int_equal(weir__base_rng_below(&r, 1), 0);
}

static void chance_keeps_its_rate(void **state) {
    (void)state;
    struct weir__base_rng r;
    unsigned hits = 0;
    weir__base_rng_seed(&r, 10);
    for (int i = 0; i < 100000; i++) {
        assert_false(weir__base_rng_chance_ppm(&r, 0));
        assert_true(weir__base_rng_chance_ppm(&r, 1000000));
        hits += weir__base_rng_chance_ppm(&r, 50000);
    }
    assert_in_range(hits, 4700, 5300);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splitmix_matches_its_reference),
        cmocka_unit_test(xoshiro_matches_its_reference),
        cmocka_unit_test(same_seed_same_numbers),
        cmocka_unit_test(below_is_even),
        cmocka_unit_test(chance_keeps_its_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
