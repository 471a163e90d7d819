#include "mem/pool.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

enum { CLS = 9, BYTES = 192 }; /* one class, and an object that fills it */

static const struct weir_mem_debug unwatched = {.size = sizeof unwatched,
                                                .leaks = WEIR_MEM_LEAKS_OFF};

/* A pool as a release build has it. */
static int open_pool(void **state) {
    struct weir_mem *m = weir__mem_pool_new("cache");
    assert_non_null(m);
    weir__mem_debug_set(m, &unwatched);
    weir__mem_enter(m);
    *state = m;
    return 0;
}

static int close_pool(void **state) {
    weir__mem_invariants(*state);
    assert_int_equal(weir__mem_pool_free(*state), 0);
    return 0;
}

static void *get(struct weir_mem *m) {
    return weir_mem_new(m, BYTES - 16);
}

/* Builds with AddressSanitizer never are fast. */
static bool fast(const struct weir_mem *m) {
    return m->cache.slow == 0;
}

static void what_is_freed_last_is_used_first(void **state) {
    struct weir_mem *m = *state;
    void *p[8];
    for (unsigned i = 0; i < 8; i++)
        p[i] = get(m);
    for (unsigned i = 0; i < 8; i++)
        weir_mem_free(p[i]);
    for (unsigned i = 8; i-- > 0;)
        assert_ptr_equal(get(m), p[i]);
    for (unsigned i = 0; i < 8; i++)
        weir_mem_free(p[i]);
}

static void the_cache_is_bounded(void **state) {
    struct weir_mem *m = *state;
    enum { N = 3000 };
    static void *p[N];
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < N; i++)
            p[i] = get(m);
        weir__mem_invariants(m);
        for (unsigned i = 0; i < N; i++) {
            weir_mem_free(p[i]);
            assert_true(weir__mem_cache_count(&m->cache, CLS) <= weir__mem_shapes[CLS].cache_max);
        }
        assert_true(weir__mem_cache_count(&m->cache, CLS) >= weir__mem_shapes[CLS].cache_max / 2);
        weir__mem_invariants(m);
    }
}

static void a_trim_gives_back_what_was_not_needed(void **state) {
    struct weir_mem *m = *state;
    void *p[400];
    for (unsigned i = 0; i < 400; i++)
        p[i] = get(m);
    for (unsigned i = 0; i < 400; i++)
        weir_mem_free(p[i]);
    uint32_t cached = weir__mem_cache_count(&m->cache, CLS);
    assert_true(cached >= 400);
    if (!fast(m))
        return; /* halves it instead */
    weir__mem_trim(m, false);
    assert_int_equal(weir__mem_cache_count(&m->cache, CLS), cached);
    for (unsigned i = 0; i < 100;
         i++) /* so many are in use at a time, whatever the number of calls */
        p[i] = get(m);
    for (unsigned i = 0; i < 100; i++)
        weir_mem_free(p[i]);
    weir__mem_trim(m, false);
    assert_in_range(weir__mem_cache_count(&m->cache, CLS), 100, 100 + weir__mem_shapes[CLS].batch);
    weir__mem_invariants(m);
    weir__mem_trim(m, false);
    assert_int_equal(weir__mem_cache_count(&m->cache, CLS), 0);
    weir__mem_invariants(m);
}

static void the_class_in_use_survives_trims(void **state) {
    struct weir_mem *m = *state;
    void *p = get(m);
    weir_mem_free(p);
    for (unsigned i = 0; i < 10; i++) {
        weir__mem_trim(m, false);
        assert_ptr_equal(get(m), p);
        weir_mem_free(p);
    }
}

static void slow_and_back_loses_nothing(void **state) {
    struct weir_mem *m = *state;
    void *p[50];
    struct weir__mem_stats before, after;
    for (unsigned i = 0; i < 50; i++)
        p[i] = get(m);
    for (unsigned i = 0; i < 25; i++)
        weir_mem_free(p[i]);
    weir__mem_stats(m, &before);
    weir__mem_fail(m, 1000, false);
    weir__mem_stats(m, &after);
    assert_memory_equal(&before, &after, sizeof before);
    weir__mem_invariants(m);
    assert_ptr_equal(get(m), p[24]);
    weir__mem_fail(m, 0, false);
    weir__mem_invariants(m);
    assert_ptr_equal(get(m), p[23]);
    weir__mem_stats(m, &after);
    assert_int_equal(after.blocks, before.blocks + 2);
    assert_int_equal(after.allocations, before.allocations + 2);
    for (unsigned i = 23; i < 50; i++)
        weir_mem_free(p[i]);
}

static void hits_are_not_misses(void **state) {
    struct weir_mem *m = *state;
    struct weir__mem_stats st;
    for (unsigned i = 0; i < 1000; i++)
        weir_mem_free(get(m));
    weir__mem_stats(m, &st);
    assert_int_equal(st.allocations, 1000);
    assert_int_equal(st.misses, fast(m) ? 1 : 1000);
}

static void without_a_cache_everything_goes_to_the_arena(void **state) {
    struct weir_mem *m = *state;
    struct weir_mem_options o = {.size = sizeof o, .mode = WEIR_MEM_POOLED, .debug = &unwatched};
    assert_int_equal(weir_mem_configure(m, &o), 0);
    void *p = get(m);
    weir_mem_free(p);
    assert_int_equal(weir__mem_cache_bytes(&m->cache), 0);
    assert_int_equal(m->arena.out_bytes, 0);
    assert_true(m->arena.chunks.free_bytes > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_pool, close_pool)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(what_is_freed_last_is_used_first),
        TEST(the_cache_is_bounded),
        TEST(a_trim_gives_back_what_was_not_needed),
        TEST(the_class_in_use_survives_trims),
        TEST(slow_and_back_loses_nothing),
        TEST(hits_are_not_misses),
        TEST(without_a_cache_everything_goes_to_the_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
