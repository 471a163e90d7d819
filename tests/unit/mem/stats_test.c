#include "mem/pool.h"

#include <pthread.h>
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

static void reconcile(const struct weir__mem_stats *s) {
    must(s->chunk_bytes + s->huge_bytes == s->live_bytes + s->cached_bytes + s->free_block_bytes +
                                               s->free_page_bytes + s->overhead_bytes);
    must(s->resident_bytes <= s->chunk_bytes + s->huge_bytes);
}

static void every_byte_has_an_owner(void **state) {
    (void)state;
    struct weir_mem *m = weir__mem_pool_new("stats");
    struct weir__mem_stats st;
    void *p[60];
    weir__mem_enter(m);
    weir__mem_stats(m, &st);
    assert_int_equal(st.chunk_bytes + st.huge_bytes + st.resident_bytes + st.chunks, 0);
    for (unsigned i = 0; i < 60; i++)
        p[i] = weir_mem_new(m, (size_t)i * i * 1000);
    weir__mem_stats(m, &st);
    reconcile(&st);
    assert_int_equal(st.blocks, 60);
    assert_int_equal(st.allocations, 60);
    assert_true(st.huge_bytes > 2 << 20); /* the last ones fill more than half a chunk */
    uint64_t bands = 0;
    for (unsigned i = 0; i < WEIR__MEM_BANDS; i++)
        bands += st.bands[i];
    assert_int_equal(bands, st.chunks);
    assert_int_equal(st.chunk_bytes, st.chunks * WEIR__MEM_CHUNK_BYTES);
    assert_int_equal(st.arenas, 1);
    for (unsigned i = 0; i < 60; i++)
        weir_mem_free(p[i]);
    weir__mem_stats(m, &st);
    reconcile(&st);
    assert_int_equal(st.live_bytes + st.blocks + st.huge_bytes, 0);
    assert_true(st.peak_bytes > 70 * 1000000ULL);
    for (unsigned i = 0; i < 600; i++)
        (void)weir__mem_tick(m, &st);
    weir__mem_stats(m, &st);
    reconcile(&st);
    assert_true(st.resident_bytes < 2 << 20);
    assert_true(st.chunks <= WEIR__MEM_EMPTY_KEPT);
    assert_int_equal(weir__mem_pool_free(m), 0);
}

struct shared {
    struct weir_mem *m;
    _Atomic bool over;
};

static void *look(void *arg) {
    struct shared *s = arg;
    uint64_t last = 0;
    while (!atomic_load(&s->over)) {
        struct weir__mem_stats st;
        weir__mem_stats_read(s->m, &st);
        reconcile(&st);
        must(st.allocations >= last);
        last = st.allocations;
    }
    return NULL;
}

static void others_read_whole_statistics(void **state) {
    (void)state;
    struct shared s = {.m = weir__mem_pool_new("published")};
    struct weir__mem_stats st, seen;
    pthread_t t;
    weir__mem_enter(s.m);
    weir__mem_stats_read(s.m, &seen);
    assert_int_equal(seen.allocations, 0);
    assert_int_equal(pthread_create(&t, NULL, look, &s), 0);
    void *p[40] = {0};
    for (unsigned i = 0; i < 4000; i++) {
        weir_mem_free(p[i % 40]);
        p[i % 40] = weir_mem_new(s.m, (size_t)(i % 53) * 700);
        weir__mem_publish(s.m, &st);
    }
    atomic_store(&s.over, true);
    pthread_join(t, NULL);
    weir__mem_stats_read(s.m, &seen);
    assert_memory_equal(&st, &seen, sizeof st);
    for (unsigned i = 0; i < 40; i++)
        weir_mem_free(p[i]);
    assert_int_equal(weir__mem_pool_free(s.m), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_has_an_owner),
        cmocka_unit_test(others_read_whole_statistics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
