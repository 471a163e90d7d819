/* Headers made by plan: what the encoder writes the decoder gives back, behind any cut; with one
 * byte changed it is refused or says something else, and no sum covers a change. */
#include "fuzz/fuzz.h"
#include "weir/proxy.h"

enum { TLVS_MAX = 6 };

static void plan_end(struct fuzz_plan *f, unsigned family, struct weir_proxy_end *e) {
    size_t n = family == WEIR_PROXY_IP4 ? 4 : family == WEIR_PROXY_IP6 ? 16 : 108;
    for (size_t i = 0; i < n; i++)
        e->bytes[i] = (uint8_t)fuzz_take(f, 1);
    if (family != WEIR_PROXY_UNIX)
        e->port = (uint16_t)fuzz_take(f, 2);
}

static void plan_header(struct fuzz_plan *f, struct weir_proxy_header *h) {
    *h = (struct weir_proxy_header){.version = (uint8_t)(1 + fuzz_below(f, 2)),
                                    .command = WEIR_PROXY_PROXY,
                                    .family = (uint8_t)(1 + fuzz_below(f, 3)),
                                    .transport = (uint8_t)(1 + fuzz_below(f, 2))};
    if (h->version == 1) {
        h->family = (uint8_t)(1 + fuzz_below(f, 2));
        h->transport = WEIR_PROXY_STREAM;
    } else {
        h->checksum = fuzz_one_in(f, 2);
    }
    plan_end(f, h->family, &h->from);
    plan_end(f, h->family, &h->to);
}

static unsigned plan_tlvs(struct fuzz_plan *f, struct weir_proxy_tlv tlvs[TLVS_MAX]) {
    unsigned n = fuzz_below(f, TLVS_MAX + 1);
    for (unsigned i = 0; i < n; i++) {
        size_t bytes = fuzz_below(f, 120);
        bytes = bytes < f->n ? bytes : f->n;
        tlvs[i] = (struct weir_proxy_tlv){WEIR_PROXY_NOOP, {(const char *)f->p, bytes}};
        f->p += bytes;
        f->n -= bytes;
        if (fuzz_one_in(f, 2))
            tlvs[i].type = WEIR_PROXY_UNIQUE_ID;
    }
    return n;
}

static void same(const struct weir_proxy_header *a, const struct weir_proxy_header *b,
                 const struct weir_proxy_tlv *tlvs, unsigned n) {
    struct weir_str rest = b->tlvs;
    struct weir_proxy_tlv tlv;
    must(a->version == b->version && a->command == b->command && a->family == b->family &&
         a->transport == b->transport && a->checksum == b->checksum);
    must(!memcmp(&a->from, &b->from, sizeof a->from) && !memcmp(&a->to, &b->to, sizeof a->to));
    for (unsigned i = 0; i < n; i++) {
        must(weir_proxy_next(&rest, &tlv) == 1 && tlv.type == tlvs[i].type);
        must(tlv.value.n == tlvs[i].value.n);
        must(!tlv.value.n || !memcmp(tlv.value.p, tlvs[i].value.p, tlv.value.n));
    }
    must(weir_proxy_next(&rest, &tlv) == (a->checksum ? 1 : 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static uint8_t out[WEIR_PROXY_HEADER_BYTES];
    struct fuzz_plan plan = {data, n};
    struct weir_proxy_header h, back;
    struct weir_proxy_tlv tlvs[TLVS_MAX];
    plan_header(&plan, &h);
    unsigned n_tlvs = h.version == 2 ? plan_tlvs(&plan, tlvs) : 0;
    int bytes = weir_proxy_encode(&h, tlvs, n_tlvs, out, sizeof out);
    must(bytes > 0 && (h.version == 2 || bytes <= WEIR_PROXY_V1_MAX));
    size_t need, cut = fuzz_below(&plan, (uint32_t)bytes);
    must(weir_proxy_decode(out, cut, 0, &back, &need) == 0);
    must(need > cut && need <= (size_t)bytes);
    must(weir_proxy_decode(out, (size_t)bytes, 0, &back, NULL) == bytes);
    same(&h, &back, tlvs, n_tlvs);
    size_t at = fuzz_below(&plan, (uint32_t)bytes);
    out[at] ^= (uint8_t)(1 + fuzz_below(&plan, 255));
    int rc = weir_proxy_decode(out, (size_t)bytes, 0, &back, NULL);
    must(rc <= bytes);
    must(rc <= 0 || !h.checksum || !back.checksum);
    return 0;
}
