#include "mem/arena.h"
#include "base/rng.h"
#include "os/fault.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

static jmp_buf broke;

static void jump_away(const char *message) {
    (void)message;
    longjmp(broke, 1);
}

/* True when giving p back ends in a panic. */
static bool breaks(struct weir__mem_arena *a, void *p, unsigned cls) {
    volatile bool broke_ = true;
    weir__base_on_panic = jump_away;
    if (setjmp(broke) == 0) {
        weir__mem_arena_give(a, p, cls);
        broke_ = false;
    }
    weir__base_on_panic = NULL;
    return broke_;
}

static unsigned count(struct weir__mem_block *b) {
    unsigned n = 0;
    for (; b; b = b->next)
        n++;
    return n;
}

static void every_block_of_a_run_is_its_own(void **state) {
    (void)state;
    for (unsigned cls = 0; cls < WEIR__MEM_CLASSES; cls++) {
        enum { N = WEIR__MEM_BLOCKS_MAX + 1 };
        static struct weir__mem_block *b[N];
        struct weir__mem_arena a;
        unsigned n = weir__mem_shapes[cls].blocks + 1U;
        uint32_t size = weir__mem_class_bytes[cls];
        weir__mem_arena_init(&a, WEIR__MEM_CHUNK_MIN, false);
        for (unsigned i = 0; i < n; i++) {
            assert_int_equal(weir__mem_arena_take(&a, cls, 1, &b[i]), 1);
            assert_int_equal((uintptr_t)b[i] % 16, 0);
            memset(b[i], (int)i, size);
        }
        assert_int_equal(a.out_bytes, n * (uint64_t)size);
        for (unsigned i = 0; i < n; i++) {
            const uint8_t *p = (const uint8_t *)b[i];
            assert_true(p[0] == (uint8_t)i && p[size / 2] == (uint8_t)i &&
                        p[size - 1] == (uint8_t)i);
        }
        weir__mem_arena_invariants(&a);
        for (unsigned i = 0; i < n; i += 2)
            weir__mem_arena_give(&a, b[i], cls);
        weir__mem_arena_invariants(&a);
        for (unsigned i = 1; i < n; i += 2)
            weir__mem_arena_give(&a, b[i], cls);
        assert_int_equal(a.out_bytes, 0);
        weir__mem_arena_invariants(&a);
        weir__mem_arena_trim(&a, true);
        assert_int_equal(a.block_bytes + a.slack_bytes + a.chunks.free_bytes, 0);
        weir__mem_arena_fini(&a);
    }
}

static void a_batch_is_linked_in_order(void **state) {
    (void)state;
    struct weir__mem_arena a;
    struct weir__mem_block *list = NULL;
    weir__mem_arena_init(&a, WEIR__MEM_CHUNK_MIN, false);
    assert_int_equal(weir__mem_arena_take(&a, 3, 100, &list), 100);
    assert_int_equal(count(list), 100);
    assert_ptr_equal((uint8_t *)list + 64, list->next);
    struct weir__mem_block *rest = NULL; /* what a run has left is enough */
    assert_int_equal(weir__mem_arena_take(&a, 3, 100, &rest), 28);
    for (struct weir__mem_block *next; list; list = next) {
        next = list->next;
        weir__mem_arena_give(&a, list, 3);
    }
    weir__mem_arena_invariants(&a);
    weir__mem_arena_fini(&a);
}

static void freed_twice_or_as_another_class_is_caught(void **state) {
    (void)state;
    struct weir__mem_arena a;
    struct weir__mem_block *b = NULL;
    weir__mem_arena_init(&a, WEIR__MEM_CHUNK_MIN, false);
    weir__mem_arena_take(&a, 5, 1, &b);
    assert_true(breaks(&a, b, 6));
    assert_true(breaks(&a, (uint8_t *)b + 16, 5));
    assert_false(breaks(&a, b, 5));
    assert_true(breaks(&a, b, 5));
    weir__mem_arena_invariants(&a);
    weir__mem_arena_fini(&a);
}

static void large_blocks_are_runs_and_larger_ones_mappings(void **state) {
    (void)state;
    struct weir__mem_arena a;
    weir__mem_arena_init(&a, WEIR__MEM_CHUNK_MIN, false);
    static const size_t sizes[] = {65569, 73728, 131071, 131072, 131073, 262144, 5 << 20};
    for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
        uint8_t *p = weir__mem_arena_take_large(&a, sizes[i]);
        memset(p, 1, sizes[i]);
        assert_int_equal(weir__mem_arena_large_bytes(&a, p), sizes[i]);
        assert_int_equal(a.outside_bytes > 0, sizes[i] > 131072);
        assert_int_equal(a.out_bytes, sizes[i]);
        weir__mem_arena_invariants(&a);
        weir__mem_arena_give_large(&a, p);
        assert_int_equal(a.out_bytes + a.outside_bytes + a.slack_bytes, 0);
    }
    assert_null(weir__mem_arena_take_large(&a, PTRDIFF_MAX));
    assert_null(weir__mem_arena_take_large(&a, SIZE_MAX));
    struct weir__os_fault fault = {.kind = WEIR__OS_MAP, .nth = 1, .error = 12};
    struct weir__os_fault *before = weir__os_fault_set(&fault);
    assert_null(weir__mem_arena_take_large(&a, 1 << 20));
    weir__os_fault_set(before);
    weir__mem_arena_invariants(&a);
    weir__mem_arena_fini(&a);
}

static void without_chunks_everything_is_from_the_heap(void **state) {
    (void)state;
    struct weir__mem_arena a;
    struct weir__mem_block *b = NULL;
    weir__mem_arena_init(&a, WEIR__MEM_CHUNK_MIN, true);
    assert_int_equal(weir__mem_arena_take(&a, 10, 5, &b), 1);
    void *large = weir__mem_arena_take_large(&a, 100000);
    memset(large, 1, 100000);
    weir__mem_arena_invariants(&a);
    assert_int_equal(a.out_bytes, 100000 + weir__mem_class_bytes[10]);
    assert_int_equal(a.chunks.free_bytes, 0);
    weir__mem_arena_give(&a, b, 10);
    weir__mem_arena_give_large(&a, large);
    assert_int_equal(a.out_bytes + a.outside_bytes, 0);
    weir__mem_arena_fini(&a);
}

static void a_burst_is_given_back(void **state) {
    (void)state;
    enum { N = 3000 };
    static struct weir__mem_block *b[N];
    struct weir__mem_arena a;
    struct weir__base_rng rng;
    weir__base_rng_seed(&rng, 3);
    weir__mem_arena_init(&a, WEIR__MEM_CHUNK_BYTES, false);
    for (unsigned i = 0; i < N; i++)
        weir__mem_arena_take(&a, 30, 1, &b[i]);
    uint64_t used = a.out_bytes;
    assert_true(used > 20 << 20);
    for (unsigned i = N; i-- > 1;) {
        unsigned k = (unsigned)weir__base_rng_below(&rng, i + 1);
        struct weir__mem_block *x = b[i];
        b[i] = b[k];
        b[k] = x;
    }
    for (unsigned i = 30; i < N; i++)
        weir__mem_arena_give(&a, b[i], 30);
    weir__mem_arena_trim(&a, false); /* it was needed since the last one */
    weir__mem_arena_trim(&a, false);
    weir__mem_arena_invariants(&a);
    uint64_t chunks = 0;
    for (unsigned i = 0; i < WEIR__MEM_BANDS; i++)
        chunks += a.chunks.n[i];
    uint64_t resident = chunks * WEIR__MEM_CHUNK_BYTES - a.chunks.clean_bytes;
    assert_true(resident < used / 3);
    for (unsigned i = 0; i < 30; i++)
        weir__mem_arena_give(&a, b[i], 30);
    weir__mem_arena_fini(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_block_of_a_run_is_its_own),
        cmocka_unit_test(a_batch_is_linked_in_order),
        cmocka_unit_test(freed_twice_or_as_another_class_is_caught),
        cmocka_unit_test(large_blocks_are_runs_and_larger_ones_mappings),
        cmocka_unit_test(without_chunks_everything_is_from_the_heap),
        cmocka_unit_test(a_burst_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
