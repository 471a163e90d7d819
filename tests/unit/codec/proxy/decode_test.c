/* Every header is told as one line of text. Each case runs at every length: below its end it asks
 * for more, and never for more than there is; an error stays the same however much follows. */
#include "codec/proxy/proxy.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static size_t tell_end(char *text, size_t cap, unsigned family, const struct weir_proxy_end *e) {
    size_t at = 0;
    if (family == WEIR_PROXY_UNIX)
        return (size_t)snprintf(text, cap, " %.108s", (const char *)e->bytes);
    for (unsigned i = 0; i < (family == WEIR_PROXY_IP4 ? 4 : 16); i++)
        at += (size_t)snprintf(text + at, cap - at, i ? ".%u" : " %u", e->bytes[i]);
    return at + (size_t)snprintf(text + at, cap - at, ":%u", e->port);
}

static const char *tell(const struct weir_proxy_header *h) {
    static char text[1024];
    static const char *const families[] = {"unspec", "ip4", "ip6", "unix"};
    struct weir_str rest = h->tlvs;
    struct weir_proxy_tlv tlv;
    size_t at = (size_t)snprintf(text, sizeof text, "v%u %s %s", h->version,
                                 h->command ? "proxy" : "local", families[h->family]);
    if (h->family) {
        at += (size_t)snprintf(text + at, sizeof text - at, "/%u", h->transport);
        at += tell_end(text + at, sizeof text - at, h->family, &h->from);
        at += tell_end(text + at, sizeof text - at, h->family, &h->to);
    }
    while (weir_proxy_next(&rest, &tlv) == 1)
        at += (size_t)snprintf(text + at, sizeof text - at, " %02x=%.*s", tlv.type,
                               tlv.type == WEIR_PROXY_CRC32C ? 0 : (int)tlv.value.n, tlv.value.p);
    if (h->checksum)
        snprintf(text + at, sizeof text - at, " sum");
    return text;
}

/* On memory of exactly n bytes, so that a sanitizer sees one too far. */
static int decode(const void *p, size_t n, size_t max, struct weir_proxy_header *h, size_t *need,
                  char *told, size_t cap) {
    uint8_t *exact = malloc(n ? n : 1);
    if (n)
        memcpy(exact, p, n);
    int rc = weir_proxy_decode(exact, n, max, h, need);
    if (rc > 0)
        snprintf(told, cap, "%s", tell(h));
    free(exact);
    return rc;
}

static void good_max(const void *p, size_t n, size_t max, const char *expected) {
    struct weir_proxy_header h;
    size_t need;
    char told[1024];
    uint8_t more[8192];
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(decode(p, i, max, &h, &need, told, sizeof told), 0);
        assert_in_range(need, i + 1, n);
    }
    assert_int_equal(decode(p, n, max, &h, NULL, told, sizeof told), n);
    assert_string_equal(told, expected);
    memcpy(more, p, n);
    memcpy(more + n, "\r\n\r\n", 4);
    assert_int_equal(decode(more, n + 4, max, &h, NULL, told, sizeof told), n);
    assert_string_equal(told, expected);
}

/* The error is known with byte `at`, asks for more before, and stays. */
static void bad_max(const void *p, size_t n, size_t max, int code, size_t at) {
    struct weir_proxy_header h;
    char told[1024];
    for (size_t i = 0; i <= n; i++) {
        size_t need = 0;
        assert_int_equal(decode(p, i, max, &h, &need, told, sizeof told), i < at ? 0 : code);
        if (i < at)
            assert_true(need > i);
    }
}

static void good(const void *p, size_t n, const char *expected) {
    good_max(p, n, 0, expected);
}

static void bad(const void *p, size_t n, size_t at) {
    bad_max(p, n, 0, WEIR_EPROTO, at);
}

static void good_line(const char *text, const char *expected) {
    good(text, strlen(text), expected);
}

/* Known only at its end. */
static void bad_line(const char *text) {
    bad(text, strlen(text), strlen(text));
}

/* --- version 1 ---------------------------------------------------------------------------- */

static void lines(void **state) {
    (void)state;
    good_line("PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n",
              "v1 proxy ip4/1 192.168.0.1:56324 192.168.0.11:443");
    good_line("PROXY TCP4 255.255.255.255 0.0.0.0 65535 0\r\n",
              "v1 proxy ip4/1 255.255.255.255:65535 0.0.0.0:0");
    good_line("PROXY TCP6 ::1 fe80::AbCd 1 2\r\n",
              "v1 proxy ip6/1 0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1:1 "
              "254.128.0.0.0.0.0.0.0.0.0.0.0.0.171.205:2");
    good_line(
        "PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff "
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
        "v1 proxy ip6/1 255.255.255.255.255.255.255.255.255.255.255.255.255.255.255.255:65535 "
        "255.255.255.255.255.255.255.255.255.255.255.255.255.255.255.255:65535");
}

static void unknown_ignores_its_rest(void **state) {
    (void)state;
    good_line("PROXY UNKNOWN\r\n", "v1 proxy unspec");
    good_line("PROXY UNKNOWN \r\n", "v1 proxy unspec");
    good_line("PROXY UNKNOWN whatever it is: 1 2 3 \x01\xff\r\n", "v1 proxy unspec");
    char longest[WEIR_PROXY_V1_MAX + 1];
    memset(longest, 'f', sizeof longest);
    memcpy(longest, "PROXY UNKNOWN ", 14);
    memcpy(longest + WEIR_PROXY_V1_MAX - 2, "\r\n", 2);
    good(longest, WEIR_PROXY_V1_MAX, "v1 proxy unspec");
}

static void a_line_has_an_end(void **state) {
    (void)state;
    char text[200];
    memset(text, 'f', sizeof text);
    memcpy(text, "PROXY UNKNOWN ", 14);
    bad(text, sizeof text, WEIR_PROXY_V1_MAX);
    memcpy(text + WEIR_PROXY_V1_MAX - 1, "\r\n", 2); /* one byte too late */
    bad(text, sizeof text, WEIR_PROXY_V1_MAX);
    bad("PROXY UNKNOWN\n", 14, 14);
    bad("PROXY UNKNOWN\rx\r\n", 17, 15);
    bad("PROXY UNKNOWN a\nb\r\n", 19, 16);
    bad("PROXY \r\r\n", 9, 8);
}

static void no_line(void **state) {
    (void)state;
    bad("GET / HTTP/1.1\r\n\r\n", 18, 1);
    bad("PUT / HTTP/1.1\r\n\r\n", 18, 2);
    bad("PROXY\tTCP4 ", 11, 6);
    bad("proxy UNKNOWN\r\n", 15, 1);
    bad("PROXY2 ", 7, 6);
}

static void words_of_a_line(void **state) {
    (void)state;
    static const char *const texts[] = {
        "PROXY \r\n",
        "PROXY UNKNOWNX\r\n",
        "PROXY  TCP4 1.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY TCP5 1.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY tcp4 1.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY TCP4\r\n",
        "PROXY TCP4 \r\n",
        "PROXY TCP4 1.2.3.4\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 \r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 \r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n",
        "PROXY TCP4 1.2.3.4  1.2.3.4 1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 00\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 +1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 -1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 4294967297\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 0x1\r\n",
        "PROXY TCP4 ::1 ::1 1 2\r\n",
        "PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY TCP6 ::1 1.2.3.4 1 2\r\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        bad_line(texts[i]);
    char zero[] = "PROXY TCP4 1.2.3.4 1.2.3.4 1?2\r\n";
    zero[28] = 0;
    bad(zero, sizeof zero - 1, sizeof zero - 1);
}

/* --- version 2 ---------------------------------------------------------------------------- */

struct built {
    uint8_t p[8192];
    size_t n;
};

static void add(struct built *b, const void *p, size_t n) {
    memcpy(b->p + b->n, p, n);
    b->n += n;
    size_t length = b->n - 16;
    b->p[14] = (uint8_t)(length >> 8);
    b->p[15] = (uint8_t)length;
}

static struct built begin(uint8_t command, uint8_t family) {
    struct built b = {.n = 16};
    memcpy(b.p, "\r\n\r\n\0\r\nQUIT\n", 12);
    b.p[12] = command;
    b.p[13] = family;
    return b;
}

static void add_tlv(struct built *b, uint8_t type, const void *value, size_t n) {
    uint8_t head[3] = {type, (uint8_t)(n >> 8), (uint8_t)n};
    add(b, head, 3);
    add(b, value, n);
}

static struct built ip4(void) {
    struct built b = begin(0x21, 0x11);
    add(&b, "\x0a\x00\x00\x01\x0a\x00\x00\x02\x30\x39\x01\xbb", 12);
    return b;
}

#define IP4 "v2 proxy ip4/1 10.0.0.1:12345 10.0.0.2:443"

/* The sum as a sender makes it, bit by bit from the definition. */
static void sign(struct built *b, size_t at) {
    uint32_t crc = ~0u;
    for (size_t i = 0; i < b->n; i++) {
        crc ^= i >= at && i < at + 4 ? 0 : b->p[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    crc = ~crc;
    for (int i = 0; i < 4; i++)
        b->p[at + (size_t)i] = (uint8_t)(crc >> (24 - 8 * i));
}

static void families(void **state) {
    (void)state;
    struct built b = ip4();
    good(b.p, b.n, IP4);
    b.p[13] = 0x12;
    good(b.p, b.n, "v2 proxy ip4/2 10.0.0.1:12345 10.0.0.2:443");
    b = begin(0x21, 0x21);
    add(&b,
        "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02\0\x01\0\x02",
        36);
    good(b.p, b.n,
         "v2 proxy ip6/1 32.1.13.184.0.0.0.0.0.0.0.0.0.0.0.1:1 "
         "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.2:2");
    b = begin(0x21, 0x31);
    char paths[216] = "/run/from";
    memset(paths + 108, 'p', 108); /* as long as it can be */
    add(&b, paths, sizeof paths);
    char expected[200];
    snprintf(expected, sizeof expected, "v2 proxy unix/1 /run/from %.108s", paths + 108);
    good(b.p, b.n, expected);
}

static void local_and_unspec_are_not_looked_into(void **state) {
    (void)state;
    struct built b = begin(0x20, 0);
    good(b.p, b.n, "v2 local unspec");
    b = ip4();
    b.p[12] = 0x20;
    good(b.p, b.n, "v2 local unspec");
    b.p[13] = 0xff; /* LOCAL's family is ignored */
    add(&b, "\x03\x00", 2);
    good(b.p, b.n, "v2 local unspec");
    for (unsigned family = 0; family < 0x40; family++) {
        b = begin(0x21, (uint8_t)family);
        add(&b, "garbage", 7);
        if ((family & 15) <= 2 && (!(family >> 4) || !(family & 15)))
            good(b.p, b.n, "v2 proxy unspec");
    }
}

static void fields_are_judged_when_they_come(void **state) {
    (void)state;
    struct built b;
    for (unsigned v = 0; v < 256; v++) {
        b = ip4();
        b.p[12] = (uint8_t)v;
        if (v != 0x20 && v != 0x21)
            bad(b.p, b.n, 13);
        b = ip4();
        b.p[13] = (uint8_t)v;
        if (v >> 4 > 3 || (v & 15) > 2)
            bad(b.p, b.n, 14);
    }
    for (size_t i = 0; i < 12; i++) {
        b = ip4();
        b.p[i] ^= 0x40;
        bad(b.p, b.n, i + 1);
    }
}

static void addresses_must_be_whole(void **state) {
    (void)state;
    static const struct {
        uint8_t family;
        size_t bytes;
    } of[] = {{0x11, 12}, {0x12, 12}, {0x21, 36}, {0x22, 36}, {0x31, 216}, {0x32, 216}};
    static const uint8_t zeros[216];
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
        for (size_t n = 0; n < of[i].bytes; n++) {
            struct built b = begin(0x21, of[i].family);
            add(&b, zeros, n);
            bad(b.p, b.n, b.n);
        }
}

static void tlvs(void **state) {
    (void)state;
    struct built b = ip4();
    add_tlv(&b, WEIR_PROXY_ALPN, "h2", 2);
    add_tlv(&b, WEIR_PROXY_AUTHORITY, "example.org", 11);
    add_tlv(&b, WEIR_PROXY_NOOP, "", 0);
    add_tlv(&b, 0xee, "mine", 4);
    good(b.p, b.n, IP4 " 01=h2 02=example.org 04= ee=mine");
    struct weir_proxy_header h;
    struct weir_str value;
    assert_true(weir_proxy_decode(b.p, b.n, 0, &h, NULL) > 0);
    assert_true(weir_proxy_find(&h, 0xee, &value));
    assert_memory_equal(value.p, "mine", 4);
    assert_false(weir_proxy_find(&h, WEIR_PROXY_UNIQUE_ID, &value));
}

static void tlvs_that_do_not_fit(void **state) {
    (void)state;
    struct built b = ip4();
    add(&b, "\x04", 1);
    bad(b.p, b.n, b.n);
    add(&b, "\x00", 1);
    bad(b.p, b.n, b.n);
    add(&b, "\x01", 1); /* one byte promised, none there */
    bad(b.p, b.n, b.n);
    b = ip4();
    add_tlv(&b, WEIR_PROXY_ALPN, "h2", 2);
    add(&b, "\x02\xff\xff", 3);
    bad(b.p, b.n, b.n);
}

static void a_unique_id_has_a_limit(void **state) {
    (void)state;
    static char id[WEIR_PROXY_ID_MAX + 1];
    memset(id, 'i', sizeof id);
    struct built b = ip4();
    add_tlv(&b, WEIR_PROXY_UNIQUE_ID, id, WEIR_PROXY_ID_MAX);
    struct weir_proxy_header h;
    assert_int_equal(weir_proxy_decode(b.p, b.n, 0, &h, NULL), b.n);
    b = ip4();
    add_tlv(&b, WEIR_PROXY_UNIQUE_ID, id, WEIR_PROXY_ID_MAX + 1);
    bad(b.p, b.n, b.n);
}

static void ssl_is_walked(void **state) {
    (void)state;
    struct weir_proxy_header h;
    struct weir_str value;
    struct weir_proxy_tlv tlv;
    struct built b = ip4();
    add_tlv(&b, WEIR_PROXY_SSL, "\x01\0\0\0\0\x21\0\x07TLSv1.3", 15);
    assert_int_equal(weir_proxy_decode(b.p, b.n, 0, &h, NULL), b.n);
    assert_true(weir_proxy_find(&h, WEIR_PROXY_SSL, &value));
    struct weir_str rest = {value.p + 5, value.n - 5};
    assert_int_equal(weir_proxy_next(&rest, &tlv), 1);
    assert_int_equal(tlv.type, WEIR_PROXY_SSL_VERSION);
    assert_memory_equal(tlv.value.p, "TLSv1.3", 7);
    assert_int_equal(weir_proxy_next(&rest, &tlv), 0);
    for (size_t n = 0; n < 15; n++) {
        b = ip4();
        add_tlv(&b, WEIR_PROXY_SSL, "\x01\0\0\0\0\x21\0\x07TLSv1.3", n);
        if (n != 5) /* none inside is fine */
            bad(b.p, b.n, b.n);
    }
}

static void the_sum_is_checked(void **state) {
    (void)state;
    struct built b = ip4();
    add_tlv(&b, WEIR_PROXY_ALPN, "h2", 2);
    add_tlv(&b, WEIR_PROXY_CRC32C, "\0\0\0\0", 4);
    add_tlv(&b, WEIR_PROXY_AUTHORITY, "behind", 6);
    sign(&b, 16 + 12 + 5 + 3);
    good(b.p, b.n, IP4 " 01=h2 03= 02=behind sum");
    struct weir_proxy_header h;
    for (size_t i = 0; i < b.n; i++) {
        b.p[i] ^= 1;
        bool covered = weir_proxy_decode(b.p, b.n, 0, &h, NULL) <= 0;
        /* LOCAL, UNSPEC, and a sum that is called something else, are not summed up */
        assert_int_equal(covered, i != 12 && i != 13 && i != 16 + 12 + 5);
        b.p[i] ^= 1;
    }
    b = ip4();
    add_tlv(&b, WEIR_PROXY_CRC32C, "\0\0\0", 3);
    bad(b.p, b.n, b.n);
    b = ip4(); /* twice: the second one would not be covered */
    add_tlv(&b, WEIR_PROXY_CRC32C, "\0\0\0\0", 4);
    add_tlv(&b, WEIR_PROXY_CRC32C, "\0\0\0\0", 4);
    sign(&b, 16 + 12 + 3);
    bad(b.p, b.n, b.n);
}

static void a_header_has_a_limit(void **state) {
    (void)state;
    static uint8_t filler[WEIR_PROXY_HEADER_BYTES];
    struct built b = ip4();
    add_tlv(&b, WEIR_PROXY_NOOP, filler, WEIR_PROXY_HEADER_BYTES - b.n - 3);
    struct weir_proxy_header h;
    assert_int_equal(b.n, WEIR_PROXY_HEADER_BYTES);
    assert_int_equal(weir_proxy_decode(b.p, b.n, 0, &h, NULL), b.n);
    bad_max(b.p, 40, b.n - 1, WEIR_ETOOBIG, 16);
    b = ip4();
    add_tlv(&b, WEIR_PROXY_NOOP, filler, WEIR_PROXY_HEADER_BYTES - b.n - 2);
    bad_max(b.p, 40, 0, WEIR_ETOOBIG, 16);
    b = ip4();
    good_max(b.p, b.n, b.n, IP4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines),
        cmocka_unit_test(unknown_ignores_its_rest),
        cmocka_unit_test(a_line_has_an_end),
        cmocka_unit_test(no_line),
        cmocka_unit_test(words_of_a_line),
        cmocka_unit_test(families),
        cmocka_unit_test(local_and_unspec_are_not_looked_into),
        cmocka_unit_test(fields_are_judged_when_they_come),
        cmocka_unit_test(addresses_must_be_whole),
        cmocka_unit_test(tlvs),
        cmocka_unit_test(tlvs_that_do_not_fit),
        cmocka_unit_test(a_unique_id_has_a_limit),
        cmocka_unit_test(ssl_is_walked),
        cmocka_unit_test(the_sum_is_checked),
        cmocka_unit_test(a_header_has_a_limit),
    };
    return cmocka_run_group_tests_name("codec/proxy/decode", tests, NULL, NULL);
}
