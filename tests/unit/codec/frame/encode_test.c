#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "mem/pool.h"
#include "weir/frame.h"

static struct weir_mem *m;

static int open_mem(void **state) {
    (void)state;
    return (m = weir_mem_open("encode")) ? 0 : -1;
}

static int close_mem(void **state) {
    (void)state;
    assert_int_equal(weir_mem_live(m), 0);
    weir_mem_close(m);
    return 0;
}

static int encode(const struct weir_frame_options *o, const char *payload, size_t n,
                  struct weir_chain *out) {
    struct weir_frame_format f;
    struct weir_chain c = {0};
    assert_int_equal(weir_frame_format_init(&f, o, NULL), 0);
    if (n)
        assert_int_equal(weir_chain_write(m, &c, payload, n), 0);
    int rc = weir_frame_write(&f, m, &c, out);
    assert_int_equal(c.bytes, rc < 0 ? n : 0);
    weir_chain_fini(&c);
    return rc;
}

static void expect_n(const struct weir_frame_options *o, const char *payload, size_t n,
                     const char *wire, size_t wire_n) {
    struct weir_chain out = {0};
    uint8_t got[512];
    assert_int_equal(encode(o, payload, n, &out), 0);
    assert_int_equal(out.bytes, wire_n);
    assert_int_equal(weir_chain_read(&out, 0, got, wire_n), 0);
    assert_memory_equal(got, wire, wire_n);
    weir_chain_fini(&out);
}
#define EXPECT(o, payload, wire) expect_n(o, payload, sizeof(payload) - 1, wire, sizeof(wire) - 1)

static void refused_n(const struct weir_frame_options *o, const char *payload, size_t n, int rc) {
    struct weir_chain out = {0};
    assert_int_equal(encode(o, payload, n, &out), rc);
    assert_int_equal(out.bytes, 0);
    weir_chain_fini(&out);
}
#define REFUSED(o, payload, rc) refused_n(o, payload, sizeof(payload) - 1, rc)

static void length_fields(void **state) {
    (void)state;
    struct weir_frame_options o = {
        .size = sizeof o, .kind = WEIR_FRAME_LENGTH, .frame_max = 400, .width = 2};
    EXPECT(&o, "abc", "\0\3abc");
    EXPECT(&o, "", "\0\0");
    o.little_endian = true;
    EXPECT(&o, "abc", "\3\0abc");
    o.offset = 2;
    EXPECT(&o, "HHabc", "HH\3\0abc");
    REFUSED(&o, "H", WEIR_EINVAL);
    o.adjust = -4;
    EXPECT(&o, "HHabc", "HH\7\0abc");
    o.adjust = 4;
    REFUSED(&o, "HHabc", WEIR_EINVAL);
    o = (struct weir_frame_options){
        .size = sizeof o, .kind = WEIR_FRAME_LENGTH, .frame_max = 400, .width = 1};
    char big[300] = {0};
    refused_n(&o, big, 256, WEIR_EINVAL);
    o.frame_max = 100;
    refused_n(&o, big, 100, WEIR_ETOOBIG);
}

static void varints(void **state) {
    (void)state;
    struct weir_frame_options o = {.size = sizeof o, .kind = WEIR_FRAME_VARINT, .frame_max = 300};
    char big[303] = {0}, wire[302] = "\254\2";
    EXPECT(&o, "abc", "\3abc");
    EXPECT(&o, "", "\0");
    expect_n(&o, big, 300, wire, 302);
    refused_n(&o, big, 301, WEIR_ETOOBIG);
}

static void lines_and_delimiters(void **state) {
    (void)state;
    struct weir_frame_options o = {.size = sizeof o, .kind = WEIR_FRAME_LINE, .frame_max = 300};
    EXPECT(&o, "abc", "abc\n");
    EXPECT(&o, "", "\n");
    REFUSED(&o, "a\nb", WEIR_EINVAL);
    REFUSED(&o, "ab\r", WEIR_EINVAL); /* would come back without it */
    o.write_crlf = true;
    EXPECT(&o, "ab\r", "ab\r\r\n");
    o.kind = WEIR_FRAME_DELIMITER;
    o.delimiter = (struct weir_str){"aa", 2};
    EXPECT(&o, "xyz", "xyzaa");
    REFUSED(&o, "xa", WEIR_EINVAL); /* "xaaa" ends one byte early */
    REFUSED(&o, "xaay", WEIR_EINVAL);
}

static void no_memory_takes_nothing(void **state) {
    (void)state;
    struct weir_frame_options o = {
        .size = sizeof o, .kind = WEIR_FRAME_LENGTH, .frame_max = 300, .width = 2, .offset = 1};
    struct weir_frame_format f;
    assert_int_equal(weir_frame_format_init(&f, &o, NULL), 0);
    for (unsigned nth = 1, rc = 1; rc; nth++) {
        struct weir_chain c = {0}, out = {0};
        assert_int_equal(weir_chain_write(m, &c, "Habc", 4), 0);
        weir__mem_fail(m, nth, false);
        rc = (unsigned)-weir_frame_write(&f, m, &c, &out);
        weir__mem_fail(m, 0, false);
        assert_int_equal(c.bytes, rc ? 4 : 0);
        assert_int_equal(out.bytes, rc ? 0 : 6);
        weir_chain_fini(&c);
        weir_chain_fini(&out);
        assert_int_equal(weir_mem_live(m), 0);
        assert_true(nth < 20);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(length_fields, open_mem, close_mem),
        cmocka_unit_test_setup_teardown(varints, open_mem, close_mem),
        cmocka_unit_test_setup_teardown(lines_and_delimiters, open_mem, close_mem),
        cmocka_unit_test_setup_teardown(no_memory_takes_nothing, open_mem, close_mem),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
