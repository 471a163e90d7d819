#include "base/bytes.h"
#include "base/rng.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void known_bytes(void **state) {
    (void)state;
    const uint8_t b[] = {0x01, 0x82, 0x03, 0x84, 0x05, 0x86, 0x07, 0x88};
    assert_int_equal(weir__base_get_be16(b), 0x0182);
    assert_int_equal(weir__base_get_be24(b), 0x018203);
    assert_int_equal(weir__base_get_be32(b), 0x01820384);
    assert_int_equal(weir__base_get_be64(b), UINT64_C(0x0182038405860788));
    assert_int_equal(weir__base_get_be(b, 5), UINT64_C(0x0182038405));
    assert_int_equal(weir__base_get_le(b, 3), 0x038201);
    assert_int_equal(weir__base_get_le(b, 8), UINT64_C(0x8807860584038201));
}

static void every_width_at_every_offset(void **state) {
    (void)state;
    struct weir__base_rng r;
    weir__base_rng_seed(&r, 5);
    for (unsigned width = 1; width <= 8; width++) {
        for (unsigned off = 0; off < 8; off++) {
            uint8_t be[24], le[24], clean[24];
            memset(clean, 0x5a, sizeof clean);
            memcpy(be, clean, sizeof be);
            memcpy(le, clean, sizeof le);
            uint64_t v = weir__base_rng_next(&r) >> (64 - 8 * width);
            weir__base_put_be(be + off, width, v);
            weir__base_put_le(le + off, width, v);
            assert_int_equal(weir__base_get_be(be + off, width), v);
            assert_int_equal(weir__base_get_le(le + off, width), v);
            for (unsigned i = 0; i < width; i++)
                assert_int_equal(be[off + i], le[off + width - 1 - i]);
            assert_memory_equal(be, clean, off);
            assert_memory_equal(be + off + width, clean, sizeof clean - off - width);
        }
    }
}

static void fixed_widths_agree(void **state) {
    (void)state;
    struct weir__base_rng r;
    weir__base_rng_seed(&r, 6);
    for (int i = 0; i < 1000; i++) {
        uint8_t a[9] = {0}, b[9] = {0};
        uint64_t v = weir__base_rng_next(&r);
        weir__base_put_be16(a + 1, (uint16_t)v);
        weir__base_put_be(b + 1, 2, v);
        assert_memory_equal(a, b, sizeof a);
        weir__base_put_be24(a + 1, (uint32_t)v);
        weir__base_put_be(b + 1, 3, v);
        assert_memory_equal(a, b, sizeof a);
        weir__base_put_be32(a + 1, (uint32_t)v);
        weir__base_put_be(b + 1, 4, v);
        assert_memory_equal(a, b, sizeof a);
        weir__base_put_be64(a + 1, v);
        weir__base_put_be(b + 1, 8, v);
        assert_memory_equal(a, b, sizeof a);
        assert_int_equal(weir__base_get_be64(a + 1), v);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_bytes),
        cmocka_unit_test(every_width_at_every_offset),
        cmocka_unit_test(fixed_widths_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
