#include "mem/chunk.h"
#include "mem/poison.h"
#include "base/rng.h"
#include "os/fault.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

static void check_all(const struct weir__mem_chunks *cs) {
    for (unsigned b = 0; b < WEIR__MEM_BANDS; b++)
        weir__base_list_each(link, &cs->bands[b])
            weir__mem_chunk_invariants(cs, container_of(link, struct weir__mem_chunk, link));
}

static uint64_t chunks(const struct weir__mem_chunks *cs) {
    uint64_t n = 0;
    for (unsigned b = 0; b < WEIR__MEM_BANDS; b++)
        n += cs->n[b];
    return n;
}

static enum weir__mem_band band_of(const struct weir__mem_chunks *cs, void *run) {
    return weir__mem_chunk_of(cs, run)->band;
}

static void a_chunk_lies_at_a_multiple_of_its_size(void **state) {
    (void)state;
    for (uint64_t size = WEIR__MEM_CHUNK_MIN; size <= WEIR__MEM_CHUNK_MAX; size *= 2) {
        struct weir__mem_chunks cs;
        weir__mem_chunks_init(&cs, size);
        struct weir__mem_run *r = weir__mem_pages_take(&cs, 3);
        struct weir__mem_chunk *c = weir__mem_chunk_of(&cs, r);
        assert_int_equal((uintptr_t)c % size, 0);
        assert_int_equal(c->pages, size / WEIR__MEM_PAGE_BYTES);
        uint8_t *p = weir__mem_run_base(c, r);
        assert_ptr_equal(weir__mem_run_of(&cs, p), r);
        assert_ptr_equal(weir__mem_run_of(&cs, p + 3 * WEIR__MEM_PAGE_BYTES - 1), r);
        check_all(&cs);
        weir__mem_chunks_fini(&cs);
    }
}

static void the_shortest_gap_is_taken_and_neighbours_coalesce(void **state) {
    (void)state;
    struct weir__mem_chunks cs;
    struct weir__mem_run *r[6];
    weir__mem_chunks_init(&cs, WEIR__MEM_CHUNK_MIN);
    static const unsigned pages[] = {4, 1, 2, 1, 3, 1};
    for (unsigned i = 0; i < 6; i++)
        r[i] = weir__mem_pages_take(&cs, pages[i]);
    weir__mem_pages_give(&cs, r[0]);
    weir__mem_pages_give(&cs, r[2]);
    weir__mem_pages_give(&cs, r[4]);
    assert_ptr_equal(weir__mem_pages_take(&cs, 2), r[2]);
    assert_ptr_equal(weir__mem_pages_take(&cs, 3), r[4]);
    weir__mem_pages_give(&cs, r[2]);
    weir__mem_pages_give(&cs, r[1]); /* 0, 1 and 2 are one gap of 7 now */
    assert_ptr_equal(weir__mem_pages_take(&cs, 7), r[0]);
    check_all(&cs);
    weir__mem_chunks_fini(&cs);
}

static void bands_follow_use_with_hysteresis(void **state) {
    (void)state;
    struct weir__mem_chunks cs;
    struct weir__mem_run *r[512];
    unsigned n = 0, all;
    weir__mem_chunks_init(&cs, WEIR__MEM_CHUNK_BYTES);
    r[n++] = weir__mem_pages_take(&cs, 1);
    all = weir__mem_chunk_of(&cs, r[0])->pages - weir__mem_chunk_of(&cs, r[0])->head;
    assert_int_equal(band_of(&cs, r[0]), WEIR__MEM_INIT);
    static const struct {
        unsigned percent;
        enum weir__mem_band up, down;
    } at[] = {{24, WEIR__MEM_INIT, WEIR__MEM_LOW}, {26, WEIR__MEM_LOW, WEIR__MEM_MID},
              {49, WEIR__MEM_LOW, WEIR__MEM_MID},  {51, WEIR__MEM_MID, WEIR__MEM_HIGH},
              {74, WEIR__MEM_MID, WEIR__MEM_HIGH}, {76, WEIR__MEM_HIGH, WEIR__MEM_TOP},
              {99, WEIR__MEM_HIGH, WEIR__MEM_TOP}};
    for (unsigned i = 0; i < ARRAY_LEN(at); i++) {
        while (n < all * at[i].percent / 100 + 1)
            r[n++] = weir__mem_pages_take(&cs, 1);
        assert_int_equal(band_of(&cs, r[0]), at[i].up);
    }
    while (n < all)
        r[n++] = weir__mem_pages_take(&cs, 1);
    assert_int_equal(band_of(&cs, r[0]), WEIR__MEM_FULL);
    for (unsigned i = ARRAY_LEN(at); i-- > 0;) {
        while (n > all * at[i].percent / 100 + 1)
            weir__mem_pages_give(&cs, r[--n]);
        assert_int_equal(band_of(&cs, r[0]), at[i].down);
    }
    while (n > 1)
        weir__mem_pages_give(&cs, r[--n]);
    assert_int_equal(band_of(&cs, r[0]), WEIR__MEM_LOW); /* INIT is for fresh ones */
    check_all(&cs);
    struct weir__mem_chunk *c = weir__mem_chunk_of(&cs, r[0]);
    weir__mem_pages_give(&cs, r[0]);
    assert_int_equal(c->band, WEIR__MEM_INIT);
    weir__mem_chunks_fini(&cs);
}

static void fuller_chunks_are_taken_from_first(void **state) {
    (void)state;
    struct weir__mem_chunks cs;
    weir__mem_chunks_init(&cs, WEIR__MEM_CHUNK_MIN);
    struct weir__mem_run *big = weir__mem_pages_take(&cs, 20);
    struct weir__mem_run *other = weir__mem_pages_take(&cs, 26);
    struct weir__mem_run *small = weir__mem_pages_take(&cs, 20);
    assert_ptr_not_equal(weir__mem_chunk_of(&cs, big), weir__mem_chunk_of(&cs, other));
    assert_ptr_not_equal(weir__mem_chunk_of(&cs, small), weir__mem_chunk_of(&cs, big));
    struct weir__mem_run *one = weir__mem_pages_take(&cs, 1);
    assert_ptr_equal(weir__mem_chunk_of(&cs, one), weir__mem_chunk_of(&cs, other));
    check_all(&cs);
    weir__mem_chunks_fini(&cs);
}

static void what_was_not_needed_goes_back_at_a_trim(void **state) {
    (void)state;
    struct weir__mem_chunks cs;
    struct weir__mem_run *r[4];
    weir__mem_chunks_init(&cs, WEIR__MEM_CHUNK_BYTES);
    for (unsigned i = 0; i < 4; i++)
        r[i] = weir__mem_pages_take(&cs, 400);
    uint8_t *p = weir__mem_run_base(weir__mem_chunk_of(&cs, r[0]), r[0]);
    WEIR__MEM_SHOW(p, 100);
    memset(p, 7, 100);
    assert_int_equal(chunks(&cs), 4);
    for (unsigned i = 4; i-- > 0;)
        weir__mem_pages_give(&cs, r[i]);
    assert_int_equal(cs.empty, 4);
    weir__mem_chunks_trim(&cs, false); /* all were needed since the last one */
    assert_int_equal(chunks(&cs), 4);
    r[0] = weir__mem_pages_take(&cs, 400); /* one of them again */
    weir__mem_pages_give(&cs, r[0]);
    weir__mem_chunks_trim(&cs, false); /* three lay idle: one of these stays in reserve */
    assert_int_equal(chunks(&cs), 2);
    weir__mem_chunks_trim(&cs, false);
    assert_int_equal(chunks(&cs), 1);
    weir__mem_chunks_trim(&cs, false);
    assert_int_equal(chunks(&cs), 1);
    assert_true(cs.free_bytes - cs.clean_bytes <= WEIR__MEM_DIRTY_KEPT);
    assert_int_equal(cs.unmapped, 3);
    check_all(&cs);
    weir__mem_chunks_trim(&cs, true);
    assert_int_equal(chunks(&cs) + cs.free_bytes + cs.clean_bytes + cs.head_bytes, 0);
    weir__mem_chunks_fini(&cs);
}

static void forgotten_pages_read_as_zero(void **state) {
    (void)state;
    struct weir__mem_chunks cs;
    weir__mem_chunks_init(&cs, WEIR__MEM_CHUNK_BYTES);
    struct weir__mem_run *keep = weir__mem_pages_take(&cs, 1), *r = weir__mem_pages_take(&cs, 400);
    uint8_t *p = weir__mem_run_base(weir__mem_chunk_of(&cs, r), r);
    uint64_t clean = cs.clean_bytes;
    WEIR__MEM_SHOW(p, 1);
    p[0] = 7;
    weir__mem_pages_give(&cs, r);
    assert_int_equal(cs.clean_bytes, clean);
    weir__mem_chunks_trim(&cs, true);
    assert_int_equal(cs.clean_bytes, cs.free_bytes);
    assert_int_equal(cs.forgot_bytes, 400 * WEIR__MEM_PAGE_BYTES);
    assert_ptr_equal(weir__mem_pages_take(&cs, 400), r);
    WEIR__MEM_SHOW(p, 1);
    assert_int_equal(p[0], 0);
    weir__mem_pages_give(&cs, keep);
    check_all(&cs);
    weir__mem_chunks_fini(&cs);
}

static void too_many_empty_chunks_do_not_wait(void **state) {
    (void)state;
    enum { N = WEIR__MEM_EMPTY_MAX + 5 };
    struct weir__mem_chunks cs;
    struct weir__mem_run *r[N];
    weir__mem_chunks_init(&cs, WEIR__MEM_CHUNK_MIN);
    for (unsigned i = 0; i < N; i++)
        r[i] = weir__mem_pages_take(&cs, 20);
    for (unsigned i = 0; i < N; i++)
        weir__mem_pages_give(&cs, r[i]);
    assert_int_equal(cs.empty, WEIR__MEM_EMPTY_MAX);
    assert_int_equal(chunks(&cs), WEIR__MEM_EMPTY_MAX);
    check_all(&cs);
    weir__mem_chunks_fini(&cs);
}

static void no_memory_is_null(void **state) {
    (void)state;
    struct weir__mem_chunks cs;
    weir__mem_chunks_init(&cs, WEIR__MEM_CHUNK_MIN);
    struct weir__os_fault fault = {.kind = WEIR__OS_MAP, .nth = 1, .error = 12};
    struct weir__os_fault *before = weir__os_fault_set(&fault);
    assert_null(weir__mem_pages_take(&cs, 1));
    weir__os_fault_set(before);
    assert_int_equal(chunks(&cs), 0);
    assert_null(weir__mem_pages_take(&cs, 1000)); /* more than a chunk has */
    weir__mem_chunks_fini(&cs);
}

static void runs_at_random(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        enum { N = 64 };
        struct weir__mem_chunks cs;
        struct weir__mem_run *r[N] = {0};
        struct weir__base_rng rng;
        weir__base_rng_seed(&rng, seed);
        weir__mem_chunks_init(&cs, WEIR__MEM_CHUNK_MIN);
        for (unsigned i = 0; i < 3000; i++) {
            unsigned at = (unsigned)weir__base_rng_below(&rng, N);
            if (r[at]) {
                weir__mem_pages_give(&cs, r[at]);
                r[at] = NULL;
            } else {
                r[at] = weir__mem_pages_take(&cs, 1 + (unsigned)weir__base_rng_below(&rng, 9));
                assert_non_null(r[at]);
            }
            if (i % 64 == 0)
                weir__mem_chunks_trim(&cs, false);
            check_all(&cs);
        }
        weir__mem_chunks_fini(&cs);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chunk_lies_at_a_multiple_of_its_size),
        cmocka_unit_test(the_shortest_gap_is_taken_and_neighbours_coalesce),
        cmocka_unit_test(bands_follow_use_with_hysteresis),
        cmocka_unit_test(fuller_chunks_are_taken_from_first),
        cmocka_unit_test(what_was_not_needed_goes_back_at_a_trim),
        cmocka_unit_test(forgotten_pages_read_as_zero),
        cmocka_unit_test(too_many_empty_chunks_do_not_wait),
        cmocka_unit_test(no_memory_is_null),
        cmocka_unit_test(runs_at_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
