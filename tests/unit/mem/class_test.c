#include "mem/class.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

static void classes_hold_what_maps_to_them(void **state) {
    (void)state;
    unsigned before = 0;
    for (volatile size_t n = 1; n <= WEIR__MEM_BIG_MAX + WEIR__MEM_HEAD_BYTES; n++) {
        unsigned cls = weir__mem_class(n);
        assert_int_equal(cls, weir__mem_class_computed(n));
        assert_in_range(cls, before, before + 1);
        assert_true(cls < WEIR__MEM_CLASSES && weir__mem_class_bytes[cls] >= n);
        assert_true(cls == 0 || weir__mem_class_bytes[cls - 1] < n);
        before = cls;
    }
    assert_int_equal(before, WEIR__MEM_CLASSES - 1);
    volatile size_t zero = 0, more = WEIR__MEM_BIG_MAX + WEIR__MEM_HEAD_BYTES + 1, most = SIZE_MAX;
    assert_int_equal(weir__mem_class(zero), 0);
    assert_int_equal(weir__mem_class(more), WEIR__MEM_HUGE);
    assert_int_equal(weir__mem_class(most), WEIR__MEM_HUGE);
}

static void runs_are_used_well(void **state) {
    (void)state;
    for (unsigned cls = 0; cls < WEIR__MEM_CLASSES; cls++) {
        const struct weir__mem_shape *s = &weir__mem_shapes[cls];
        uint32_t bytes = weir__mem_class_bytes[cls];
        uint32_t run = (uint32_t)s->pages * WEIR__MEM_PAGE_BYTES;
        assert_in_range(s->pages, 1, 16);
        assert_in_range(s->blocks, 1, WEIR__MEM_BLOCKS_MAX);
        assert_true(s->blocks * bytes <= run);
        assert_true(run - s->blocks * bytes <= run / 8);
        assert_true(s->batch >= 1 && s->batch <= s->cache_max);
        assert_true(s->cache_max * bytes <= 512 << 10 || s->cache_max == 4);
        assert_int_equal(bytes % 16, 0);
    }
}

static void an_offset_leads_to_its_block(void **state) {
    (void)state;
    for (unsigned cls = 0; cls < WEIR__MEM_CLASSES; cls++) {
        const struct weir__mem_shape *s = &weir__mem_shapes[cls];
        for (uint64_t i = 0; i < s->blocks; i++)
            assert_int_equal(i * weir__mem_class_bytes[cls] * s->inverse >> 32, i);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_hold_what_maps_to_them),
        cmocka_unit_test(runs_are_used_well),
        cmocka_unit_test(an_offset_leads_to_its_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
