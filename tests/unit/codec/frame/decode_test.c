/* Each framing is told as text: "[abc]" a frame, "!" a frame over the limit, "#" a stream that
 * cannot be followed. Every case runs whole, byte by byte and at every split, into chains and into
 * slices, and must tell the same. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "mem/pool.h"
#include "weir/frame.h"

struct telling {
    char text[4096];
    size_t n;
    struct weir_mem *m;
    struct weir_frame_decoder d;
    struct weir_chain in;
    bool slices;
};

static void say(struct telling *t, const void *data, size_t n) {
    assert_true(t->n + n < sizeof t->text);
    memcpy(t->text + t->n, data, n);
    t->n += n;
    t->text[t->n] = 0;
}

static void say_frame(struct telling *t, const uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++) /* a zero byte is told as "0" */
        say(t, p[i] ? (const char *)p + i : "0", 1);
}

static int one(struct telling *t, const struct weir_frame_format *f) {
    struct weir_slice s = {0};
    struct weir_chain c = {0};
    int rc = t->slices ? weir_frame_next_slice(f, &t->d, t->m, &t->in, &s)
                       : weir_frame_next(f, &t->d, t->m, &t->in, &c);
    if (rc == 1) {
        say(t, "[", 1);
        say_frame(t, s.p, s.n);
        for (struct weir_part *part = c.first; part; part = part->next)
            say_frame(t, part->slice.p, part->slice.n);
        say(t, "]", 1);
    }
    weir_slice_release(&s);
    weir_chain_fini(&c);
    return rc;
}

static bool feed(struct telling *t, const struct weir_frame_format *f, const void *data, size_t n) {
    struct weir_slice s;
    int rc;
    assert_int_equal(weir_slice_copy(t->m, data, n, &s), 0);
    assert_int_equal(weir_chain_add(t->m, &t->in, &s), 0);
    while ((rc = one(t, f)) != 0) {
        if (rc == WEIR_ETOOBIG)
            say(t, "!", 1);
        else if (rc < 0)
            return assert_int_equal(rc, WEIR_EPROTO), say(t, "#", 1), false;
    }
    assert_true(t->d.need > t->in.bytes);
    return true;
}

static void tell(struct telling *t, const struct weir_frame_format *f, const char *data, size_t n,
                 size_t first, size_t step, bool slices) {
    memset(t, 0, sizeof *t);
    t->m = weir_mem_open("frame");
    t->slices = slices;
    for (size_t at = 0, cut = first; at < n; at += cut, cut = step)
        if (!feed(t, f, data + at, cut < n - at ? cut : n - at))
            break;
    weir_chain_fini(&t->in);
    assert_int_equal(weir_mem_live(t->m), 0);
    weir_mem_close(t->m);
}

static void expect_n(const struct weir_frame_options *o, const char *data, size_t n,
                     const char *text) {
    struct weir_frame_format f;
    static struct telling t;
    const char *why = "";
    assert_int_equal(weir_frame_format_init(&f, o, &why), 0);
    for (int slices = 0; slices < 2; slices++) {
        tell(&t, &f, data, n, n, n, slices);
        assert_string_equal(t.text, text);
        tell(&t, &f, data, n, 1, 1, slices);
        assert_string_equal(t.text, text);
        for (size_t cut = 1; cut < n; cut++) {
            tell(&t, &f, data, n, cut, n, slices);
            assert_string_equal(t.text, text);
        }
    }
}
#define EXPECT(o, literal, text) expect_n(o, literal, sizeof(literal) - 1, text)

static struct weir_frame_options length(uint32_t offset, uint32_t width) {
    return (struct weir_frame_options){.size = sizeof(struct weir_frame_options),
                                       .kind = WEIR_FRAME_LENGTH,
                                       .frame_max = 64,
                                       .offset = offset,
                                       .width = width,
                                       .strip = offset + width};
}

static void length_field_of_every_width(void **state) {
    (void)state;
    struct weir_frame_options o = length(0, 1);
    EXPECT(&o, "\3abc\0\1d", "[abc][][d]");
    o = length(0, 2);
    EXPECT(&o, "\0\3abc\0\0\0\1d", "[abc][][d]");
    o = length(0, 3);
    EXPECT(&o, "\0\0\3abc\0\0\1d", "[abc][d]");
    o = length(0, 4);
    EXPECT(&o, "\0\0\0\3abc\0\0\0\1d\0\0", "[abc][d]");
    o = length(0, 8);
    EXPECT(&o, "\0\0\0\0\0\0\0\3abc", "[abc]");
    o.little_endian = true;
    EXPECT(&o, "\3\0\0\0\0\0\0\0abc", "[abc]");
    o = length(0, 3);
    o.little_endian = true;
    EXPECT(&o, "\3\0\0abc", "[abc]");
}

static void length_field_in_the_middle_of_a_head(void **state) {
    (void)state;
    struct weir_frame_options o = length(2, 2);
    o.strip = 0;
    EXPECT(&o, "Hd\0\3abcHe\0\1d", "[Hd0\3abc][He0\1d]");
}

static void length_with_offset_adjust_and_strip(void **state) {
    (void)state;
    struct weir_frame_options o = length(1, 1);
    o.strip = 1; /* only the first byte goes */
    EXPECT(&o, "X\1aY\2bc", "[\1a][\2bc]");
    o = length(1, 1);
    o.adjust = -2; /* the field counts the whole frame */
    EXPECT(&o, "X\5abcY\2Z\3d", "[abc][][d]");
    o = length(0, 1);
    o.adjust = 2; /* two more bytes of head behind the field */
    o.strip = 1;
    EXPECT(&o, "\3hhabc\0hh", "[hhabc][hh]");
}

static void length_that_contradicts_the_options(void **state) {
    (void)state;
    struct weir_frame_options o = length(0, 1);
    o.adjust = -1;
    EXPECT(&o, "\2a\0bc", "[a]#");
    o = length(0, 1);
    o.strip = 3;
    EXPECT(&o, "\3abc\1d", "[c]#");
}

static void length_over_the_limit_is_skipped(void **state) {
    (void)state;
    struct weir_frame_options o = length(0, 1);
    o.frame_max = 4;
    EXPECT(&o, "\3abc\5abcde\1d\4four\0", "[abc]![d]![]");
    o.fail_late = true;
    EXPECT(&o, "\3abc\5abcde\1d\4four\0", "[abc]![d]![]");
    EXPECT(&o, "\5abcd", ""); /* late: not before it has passed */
    o.fail_late = false;
    EXPECT(&o, "\5abcd", "!");
}

static void length_of_eight_bytes_does_not_overflow(void **state) {
    (void)state;
    struct weir_frame_options o = length(0, 8);
    EXPECT(&o, "\377\377\377\377\377\377\377\377abc", "!");
    o.adjust = INT64_MIN;
    EXPECT(&o, "\0\0\0\0\0\0\0\0abc", "#");
    o.adjust = INT64_MAX;
    EXPECT(&o, "\377\377\377\377\377\377\377\377abc", "!");
}

static void lines(void **state) {
    (void)state;
    struct weir_frame_options o = {.size = sizeof o, .kind = WEIR_FRAME_LINE, .frame_max = 5};
    EXPECT(&o, "ab\ncd\r\n\n\r\n\r\r\nlast", "[ab][cd][][][\r]");
    EXPECT(&o, "12345\n12345\r\n123456\nx\n1234567890\r\ny\n", "[12345][12345]![x]![y]");
    o.keep_cr = true;
    EXPECT(&o, "cd\r\n\n1234\r\n12345\r\nx\n", "[cd\r][][1234\r]![x]");
    o.fail_late = true;
    EXPECT(&o, "123456789\nx\n", "![x]");
    EXPECT(&o, "123456789", "");
}

static void delimiters(void **state) {
    (void)state;
    struct weir_frame_options o = {
        .size = sizeof o, .kind = WEIR_FRAME_DELIMITER, .frame_max = 6, .delimiter = {"aab", 3}};
    EXPECT(&o, "xaabaaabaabyyaabz", "[x][a][][yy]");
    EXPECT(&o, "123456aab1234567aabxaab", "[123456]![x]");
    EXPECT(&o, "aaaaaaaaaaaaaabxaab", "![x]");
    o.delimiter = (struct weir_str){"abab", 4};
    EXPECT(&o, "ababab-abaabab", "[][ab-aba]");
}

static void varints(void **state) {
    (void)state;
    struct weir_frame_options o = {.size = sizeof o, .kind = WEIR_FRAME_VARINT, .frame_max = 300};
    EXPECT(&o, "\3abc\0\1d\203\0efg", "[abc][][d][efg]"); /* 0x83 0x00: a long three */
    EXPECT(&o, "\3abc\377\377\377\377\37", "[abc]#");
    EXPECT(&o, "\377\377\377\377\377", "#");
    EXPECT(&o, "\377\377\377\377\17xx", "!");
    o.frame_max = 2;
    EXPECT(&o, "\3abc\2de\3fgh\0", "![de]![]");
    o.varint_bits = 64;
    EXPECT(&o, "\377\377\377\377\377\377\377\377\377\1x", "!");
    EXPECT(&o, "\377\377\377\377\377\377\377\377\377\2x", "#");
}

static void options_are_checked(void **state) {
    (void)state;
    struct weir_frame_format f;
    const char *why = NULL;
    struct weir_frame_options o = length(0, 5);
    assert_int_equal(weir_frame_format_init(&f, &o, &why), WEIR_EINVAL);
    assert_non_null(strstr(why, "width"));
    o = length(257, 2);
    assert_int_equal(weir_frame_format_init(&f, &o, NULL), WEIR_EINVAL);
    o = length(62, 4);
    assert_int_equal(weir_frame_format_init(&f, &o, NULL), WEIR_EINVAL);
    o = length(0, 4);
    o.strip = 65;
    assert_int_equal(weir_frame_format_init(&f, &o, NULL), WEIR_EINVAL);
    o = length(0, 4);
    o.frame_max = 0;
    assert_int_equal(weir_frame_format_init(&f, &o, NULL), WEIR_EINVAL);
    o = length(0, 4);
    o.size = 8;
    assert_int_equal(weir_frame_format_init(&f, &o, NULL), WEIR_EINVAL);
    o = (struct weir_frame_options){.size = sizeof o, .kind = WEIR_FRAME_DELIMITER, .frame_max = 1};
    assert_int_equal(weir_frame_format_init(&f, &o, NULL), WEIR_EINVAL);
    o.delimiter = (struct weir_str){"12345678901234567", 17};
    assert_int_equal(weir_frame_format_init(&f, &o, NULL), WEIR_EINVAL);
    o.kind = WEIR_FRAME_VARINT;
    o.varint_bits = 16;
    assert_int_equal(weir_frame_format_init(&f, &o, NULL), WEIR_EINVAL);
    o.kind = (enum weir_frame_kind)9;
    assert_int_equal(weir_frame_format_init(&f, &o, NULL), WEIR_EINVAL);
}

/* Nothing is lost when memory is: the same call again goes on. */
static void no_memory_loses_nothing(void **state) {
    (void)state;
    struct weir_frame_options o = length(0, 1);
    struct weir_frame_format f;
    assert_int_equal(weir_frame_format_init(&f, &o, NULL), 0);
    for (int slices = 0; slices < 2; slices++)
        for (unsigned nth = 1; nth < 6; nth++) {
            struct telling t = {.m = weir_mem_open("frame"), .slices = slices};
            assert_int_equal(weir_chain_write(t.m, &t.in, "\5ab", 3), 0);
            struct weir_slice s;
            assert_int_equal(weir_slice_copy(t.m, "cde\1f", 5, &s), 0);
            assert_int_equal(weir_chain_add(t.m, &t.in, &s), 0);
            weir__mem_fail(t.m, nth, false);
            int rc, lost = 0;
            while ((rc = one(&t, &f)) != 0)
                if (rc < 0)
                    assert_int_equal(rc, WEIR_ENOMEM), lost++;
            weir__mem_fail(t.m, 0, false);
            assert_true(lost <= 1);
            assert_string_equal(t.text, "[abcde][f]");
            weir_chain_fini(&t.in);
            assert_int_equal(weir_mem_live(t.m), 0);
            weir_mem_close(t.m);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(length_field_of_every_width),
        cmocka_unit_test(length_field_in_the_middle_of_a_head),
        cmocka_unit_test(length_with_offset_adjust_and_strip),
        cmocka_unit_test(length_that_contradicts_the_options),
        cmocka_unit_test(length_over_the_limit_is_skipped),
        cmocka_unit_test(length_of_eight_bytes_does_not_overflow),
        cmocka_unit_test(lines),
        cmocka_unit_test(delimiters),
        cmocka_unit_test(varints),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(no_memory_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
