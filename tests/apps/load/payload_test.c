#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "load/payload.h"
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_MAX = 2000 };

/* The bytes of a request, read off by what it takes for its own. */
static void payload_of(const struct load_payload *p, uint32_t conn, uint64_t seq, uint8_t *out) {
    for (size_t i = 0; i < p->bytes; i++) {
        unsigned v = 0;
        for (; v < 256; v++) {
            out[i] = (uint8_t)v;
            if (load_payload_matches(p, conn, seq, i, &out[i], 1))
                break;
        }
        assert_true(v < 256);
    }
}

static void chained(const uint8_t *data, size_t n, unsigned rounds, uint8_t digest[32]) {
    uint8_t all[32 + BYTES_MAX] = {0};
    memcpy(all + 32, data, n);
    for (unsigned i = 0; i < rounds; i++)
        assert_int_equal(EVP_Digest(all, 32 + n, all, NULL, EVP_sha256(), NULL), 1);
    memcpy(digest, all, 32);
}

static void test_digest_of_each_request(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 7, 8, 9, 1024, 1500};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct load_payload p;
        uint8_t data[BYTES_MAX], want[32];
        assert_true(load_payload_init(&p, 77, sizes[i]) >= 0);
        assert_true(load_payload_digest(&p, 3) >= 0);
        for (uint64_t seq = 0; seq < 5; seq++) {
            payload_of(&p, 2, seq, data);
            chained(data, p.bytes, 3, want);
            assert_memory_equal(load_payload_answer(&p, 2, seq), want, 32);
        }
        load_payload_fini(&p);
    }
}

static void test_payloads_differ_and_repeat(void **state) {
    (void)state;
    struct load_payload p;
    unsigned seen = 0;
    assert_true(load_payload_init(&p, 1, 64) >= 0);
    assert_true(load_payload_digest(&p, 1) >= 0);
    assert_int_equal(p.kinds, 64);
    bool used[64] = {false};
    for (uint64_t seq = 0; seq < 2000; seq++) {
        size_t kind = (size_t)(load_payload_answer(&p, 0, seq) - p.digests[0]) / 32;
        assert_true(kind < 64);
        seen += !used[kind];
        used[kind] = true;
    }
    assert_int_equal(seen, 64);
    for (unsigned k = 1; k < p.kinds; k++)
        assert_memory_not_equal(p.digests[0], p.digests[k], 32);
    load_payload_fini(&p);
}

static void test_large_payloads_are_few(void **state) {
    (void)state;
    struct load_payload p;
    assert_true(load_payload_init(&p, 1, 4 << 20) >= 0);
    assert_true(load_payload_digest(&p, 16) >= 0);
    assert_int_equal(p.kinds, 2);
    load_payload_fini(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digest_of_each_request),
        cmocka_unit_test(test_payloads_differ_and_repeat),
        cmocka_unit_test(test_large_payloads_are_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
