/* What the encoder writes: the bytes themselves, and that the decoder gives it back. */
#include "codec/proxy/proxy.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static const struct weir_proxy_header ip4 = {.version = 2,
                                             .command = WEIR_PROXY_PROXY,
                                             .family = WEIR_PROXY_IP4,
                                             .transport = WEIR_PROXY_STREAM,
                                             .from = {1000, {10, 0, 0, 1}},
                                             .to = {443, {10, 0, 0, 2}}};

static void line(struct weir_proxy_header h, const char *expected) {
    uint8_t out[WEIR_PROXY_V1_MAX];
    size_t n = strlen(expected);
    h.version = 1;
    assert_int_equal(weir_proxy_encode(&h, NULL, 0, out, sizeof out), n);
    assert_memory_equal(out, expected, n);
    assert_int_equal(weir_proxy_encode(&h, NULL, 0, out, n), n);
    assert_int_equal(weir_proxy_encode(&h, NULL, 0, out, n - 1), WEIR_ETOOBIG);
}

static void lines(void **state) {
    (void)state;
    struct weir_proxy_header h = ip4;
    line(h, "PROXY TCP4 10.0.0.1 10.0.0.2 1000 443\r\n");
    h.transport = WEIR_PROXY_DGRAM;
    line(h, "PROXY UNKNOWN\r\n");
    h.transport = WEIR_PROXY_STREAM;
    h.command = WEIR_PROXY_LOCAL;
    line(h, "PROXY UNKNOWN\r\n");
    h.command = WEIR_PROXY_PROXY;
    h.family = WEIR_PROXY_UNIX;
    line(h, "PROXY UNKNOWN\r\n");
    h.family = WEIR_PROXY_IP6;
    memset(h.from.bytes, 0xff, 16);
    h.from.port = h.to.port = 65535;
    memset(h.to.bytes, 0, 16);
    h.to.bytes[15] = 1;
    line(h, "PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 0:0:0:0:0:0:0:1 65535 65535\r\n");
}

static void the_bytes_of_version_2(void **state) {
    (void)state;
    static const uint8_t expected[] = "\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x11"
                                      "\x0a\0\0\x01\x0a\0\0\x02\x03\xe8\x01\xbb\x01\0\x02h2";
    const struct weir_proxy_tlv tlv = {WEIR_PROXY_ALPN, {"h2", 2}};
    uint8_t out[100];
    assert_int_equal(weir_proxy_encode(&ip4, &tlv, 1, out, sizeof out), sizeof expected - 1);
    assert_memory_equal(out, expected, sizeof expected - 1);
    for (size_t cap = 0; cap < sizeof expected - 1; cap++)
        assert_int_equal(weir_proxy_encode(&ip4, &tlv, 1, out, cap), WEIR_ETOOBIG);
}

/* There and back, for every family and both versions. */
static void there_and_back(void **state) {
    (void)state;
    const struct weir_proxy_tlv two[] = {{WEIR_PROXY_AUTHORITY, {"example.org", 11}},
                                         {WEIR_PROXY_UNIQUE_ID, {"42", 2}}};
    for (unsigned family = WEIR_PROXY_IP4; family <= WEIR_PROXY_UNIX; family++)
        for (unsigned sum = 0; sum < 2; sum++) {
            struct weir_proxy_header h = ip4, back;
            struct weir_str value;
            uint8_t out[512];
            h.family = (uint8_t)family;
            h.checksum = sum;
            if (family == WEIR_PROXY_UNIX)
                h.from.port = h.to.port = 0;
            int n = weir_proxy_encode(&h, two, 2, out, sizeof out);
            assert_int_equal(n, 16 + weir__proxy_ends_bytes(family) + 14 + 5 + 7 * sum);
            assert_int_equal(weir_proxy_decode(out, (size_t)n, 0, &back, NULL), n);
            assert_int_equal(back.checksum, sum);
            assert_memory_equal(&back.from, &h.from, sizeof h.from);
            assert_memory_equal(&back.to, &h.to, sizeof h.to);
            assert_true(weir_proxy_find(&back, WEIR_PROXY_UNIQUE_ID, &value));
            assert_memory_equal(value.p, "42", 2);
        }
}

static void without_ends(void **state) {
    (void)state;
    struct weir_proxy_header h = {.version = 2, .command = WEIR_PROXY_LOCAL, .family = 1}, back;
    uint8_t out[16];
    assert_int_equal(weir_proxy_encode(&h, NULL, 0, out, sizeof out), 16);
    assert_memory_equal(out + 12, "\x20\0\0\0", 4);
    h.command = WEIR_PROXY_PROXY; /* a family without a transport is none */
    assert_int_equal(weir_proxy_encode(&h, NULL, 0, out, sizeof out), 16);
    assert_memory_equal(out + 12, "\x21\0\0\0", 4);
    assert_int_equal(weir_proxy_decode(out, 16, 0, &back, NULL), 16);
    assert_int_equal(back.family, WEIR_PROXY_UNSPEC);
}

static void refused(struct weir_proxy_header h, const struct weir_proxy_tlv *tlv, int code) {
    static uint8_t out[WEIR_PROXY_HEADER_MAX + 100];
    assert_int_equal(weir_proxy_encode(&h, tlv, tlv != NULL, out, sizeof out), code);
}

static void what_it_refuses(void **state) {
    (void)state;
    static char big[65536];
    const struct weir_proxy_tlv alpn = {WEIR_PROXY_ALPN, {"h2", 2}},
                                sum = {WEIR_PROXY_CRC32C, {"abcd", 4}},
                                id = {WEIR_PROXY_UNIQUE_ID, {big, WEIR_PROXY_ID_MAX + 1}},
                                fits = {WEIR_PROXY_NOOP, {big, 65535 - 12 - 3}},
                                over = {WEIR_PROXY_NOOP, {big, 65535 - 12 - 2}},
                                field = {WEIR_PROXY_NOOP, {big, 65536}};
    struct weir_proxy_header h = ip4;
    refused(h, &sum, WEIR_EINVAL);
    refused(h, &id, WEIR_EINVAL);
    refused(h, &fits, WEIR_PROXY_HEADER_MAX);
    refused(h, &over, WEIR_ETOOBIG);
    refused(h, &field, WEIR_ETOOBIG);
    h.command = WEIR_PROXY_LOCAL;
    refused(h, &alpn, WEIR_EINVAL);
    h.checksum = true;
    refused(h, NULL, WEIR_EINVAL);
    h = ip4;
    h.version = 1;
    refused(h, &alpn, WEIR_EINVAL);
    h.checksum = true;
    refused(h, NULL, WEIR_EINVAL);
    h = ip4, h.version = 3, refused(h, NULL, WEIR_EINVAL);
    h = ip4, h.command = 2, refused(h, NULL, WEIR_EINVAL);
    h = ip4, h.family = 4, refused(h, NULL, WEIR_EINVAL);
    h = ip4, h.transport = 3, refused(h, NULL, WEIR_EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines),           cmocka_unit_test(the_bytes_of_version_2),
        cmocka_unit_test(there_and_back),  cmocka_unit_test(without_ends),
        cmocka_unit_test(what_it_refuses),
    };
    return cmocka_run_group_tests_name("codec/proxy/encode", tests, NULL, NULL);
}
