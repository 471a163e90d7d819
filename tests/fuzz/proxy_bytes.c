/* Any bytes, plain and behind a signature: no byte beyond the length is read, the answer does not
 * depend on how the bytes come, and a header that was accepted can be written and read again. */
#include "fuzz/fuzz.h"
#include "weir/proxy.h"
#include <stdlib.h>

static int at_length(const uint8_t *p, size_t n, struct weir_proxy_header *h, size_t *need) {
    uint8_t *exact = malloc(n ? n : 1);
    must(exact);
    if (n)
        memcpy(exact, p, n);
    int rc = weir_proxy_decode(exact, n, 0, h, need);
    free(exact);
    return rc;
}

static void same_at_every_length(const uint8_t *p, size_t n, int whole) {
    struct weir_proxy_header h;
    size_t need;
    int rc = 0;
    size_t i = 0;
    while (i <= n && (rc = at_length(p, i, &h, &need)) == 0) {
        must(need > i);
        i = need; /* nothing happens before that */
    }
    must(rc == 0 ? whole == 0 : rc == whole);
    must(rc <= 0 || (size_t)rc == i);
}

static void again(const struct weir_proxy_header *h) {
    static uint8_t out[WEIR_PROXY_HEADER_BYTES];
    struct weir_proxy_tlv tlvs[64], tlv;
    struct weir_proxy_header back;
    struct weir_str rest = h->tlvs;
    unsigned n = 0;
    int rc;
    while ((rc = weir_proxy_next(&rest, &tlv)) > 0)
        if (tlv.type != WEIR_PROXY_CRC32C && n < 64)
            tlvs[n++] = tlv;
    must(rc == 0);
    int bytes = weir_proxy_encode(h, tlvs, n, out, sizeof out);
    must(bytes > 0);
    must(weir_proxy_decode(out, (size_t)bytes, 0, &back, NULL) == bytes);
    must(back.command == h->command && back.family == h->family && back.checksum == h->checksum);
    must(!memcmp(&back.from, &h->from, sizeof h->from) && !memcmp(&back.to, &h->to, sizeof h->to));
    must(n < 64 || h->tlvs.n >= back.tlvs.n);
}

static void one(const uint8_t *p, size_t n) {
    struct weir_proxy_header h;
    int rc = weir_proxy_decode(p, n, 0, &h, NULL);
    must(rc <= (int)n && (rc >= 0 || rc == WEIR_EPROTO || rc == WEIR_ETOOBIG));
    same_at_every_length(p, n, rc);
    if (rc > 0)
        again(&h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const uint8_t sign[] = {0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51,
                                   0x55, 0x49, 0x54, 0x0a, 0x21, 0x11, 0x00, 0x00};
    static uint8_t text[4096];
    if (n > sizeof text - sizeof sign)
        return 0;
    one(data, n);
    memcpy(text, "PROXY TCP4 ", 11);
    memcpy(text + 11, data, n);
    one(text, 11 + n);
    memcpy(text, sign, sizeof sign);
    memcpy(text + sizeof sign, data, n);
    text[13] = n ? (uint8_t)(0x11 + 0x10 * (data[0] % 3)) : 0;
    text[14] = (uint8_t)(n >> 8);
    text[15] = (uint8_t)n;
    one(text, sizeof sign + n);
    return 0;
}
