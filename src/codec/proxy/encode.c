#include "base/bytes.h"
#include "codec/proxy/proxy.h"

/* Measures and writes in one pass: what does not fit is only counted. */
struct writer {
    uint8_t *p;
    size_t n, cap;
};

static void put(struct writer *w, const void *data, size_t n) {
    if (n && w->n <= w->cap && n <= w->cap - w->n)
        memcpy(w->p + w->n, data, n);
    w->n += n;
}

static void put_be16(struct writer *w, size_t v) {
    uint8_t bytes[2];
    weir__base_put_be16(bytes, (uint16_t)v);
    put(w, bytes, 2);
}

static void put_tlv(struct writer *w, uint8_t type, const void *value, size_t n) {
    put(w, &type, 1);
    put_be16(w, n);
    put(w, value, n);
}

/* A family needs a transport and the other way round, or a reader could not tell what follows. */
static bool has_ends(const struct weir_proxy_header *h) {
    return h->command == WEIR_PROXY_PROXY && h->family && h->transport;
}

static bool valid(const struct weir_proxy_header *h, const struct weir_proxy_tlv *tlvs,
                  unsigned n_tlvs) {
    if ((h->version != 1 && h->version != 2) || h->command > WEIR_PROXY_PROXY ||
        h->family > WEIR_PROXY_UNIX || h->transport > WEIR_PROXY_DGRAM)
        return false;
    if (h->version == 1 || !has_ends(h))
        return !n_tlvs && !h->checksum;
    for (unsigned i = 0; i < n_tlvs; i++)
        if (tlvs[i].type == WEIR_PROXY_CRC32C ||
            (tlvs[i].type == WEIR_PROXY_UNIQUE_ID && tlvs[i].value.n > WEIR_PROXY_ID_MAX))
            return false;
    return true;
}

static void put_ends(struct writer *w, const struct weir_proxy_header *h) {
    size_t n = h->family == WEIR_PROXY_IP4 ? 4 : h->family == WEIR_PROXY_IP6 ? 16 : 108;
    put(w, h->from.bytes, n);
    put(w, h->to.bytes, n);
    if (h->family == WEIR_PROXY_UNIX)
        return;
    put_be16(w, h->from.port);
    put_be16(w, h->to.port);
}

static void put_binary(struct writer *w, const struct weir_proxy_header *h,
                       const struct weir_proxy_tlv *tlvs, unsigned n_tlvs) {
    static const uint8_t zeros[4];
    uint8_t head[2] = {(uint8_t)(0x20 | h->command), 0};
    if (has_ends(h))
        head[1] = (uint8_t)(h->family << 4 | h->transport);
    put(w, weir__proxy_sign, sizeof weir__proxy_sign);
    put(w, head, sizeof head);
    put_be16(w, 0);
    if (!has_ends(h))
        return;
    put_ends(w, h);
    for (unsigned i = 0; i < n_tlvs; i++)
        put_tlv(w, tlvs[i].type, tlvs[i].value.p, tlvs[i].value.n);
    if (h->checksum)
        put_tlv(w, WEIR_PROXY_CRC32C, zeros, sizeof zeros);
}

int weir_proxy_encode(const struct weir_proxy_header *h, const struct weir_proxy_tlv *tlvs,
                      unsigned n_tlvs, void *out, size_t cap) {
    struct writer w = {.p = out, .cap = cap};
    if (!valid(h, tlvs, n_tlvs))
        return WEIR_EINVAL;
    if (h->version == 1) {
        uint8_t line[WEIR_PROXY_V1_MAX];
        put(&w, line, weir__proxy_write_line(h, line));
        return w.n <= cap ? (int)w.n : WEIR_ETOOBIG;
    }
    put_binary(&w, h, tlvs, n_tlvs);
    if (w.n > cap || w.n > WEIR_PROXY_HEADER_MAX)
        return WEIR_ETOOBIG;
    weir__base_put_be16(w.p + 14, (uint16_t)(w.n - WEIR__PROXY_HEAD_BYTES));
    if (h->checksum)
        weir__base_put_be32(w.p + w.n - 4, weir__proxy_crc(0, w.p, w.n));
    return (int)w.n;
}
