/* Which version it is, and version 2. Each field is judged as soon as it is there, so that whole
 * input and single bytes get the same answer.
 *
 *     sign 12 | version, command | family, transport | length u16 | ends | TLVs */
#include "base/bytes.h"
#include "codec/proxy/proxy.h"

enum { AT_COMMAND = 12, AT_FAMILY = 13, AT_LENGTH = 14, SSL_HEAD_BYTES = 5, TLV_HEAD_BYTES = 3 };

const uint8_t weir__proxy_sign[WEIR__PROXY_SIGN_BYTES] = {0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d,
                                                          0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a};

static enum weir__proxy_look compare(const uint8_t *p, size_t n, const void *sign, size_t bytes,
                                     enum weir__proxy_look whole) {
    if (n && memcmp(p, sign, n < bytes ? n : bytes) != 0)
        return WEIR__PROXY_STRANGE;
    return n < bytes ? WEIR__PROXY_PERHAPS : whole;
}

enum weir__proxy_look weir__proxy_look(const uint8_t *p, size_t n) {
    enum weir__proxy_look line = compare(p, n, "PROXY ", 6, WEIR__PROXY_LINE);
    if (line != WEIR__PROXY_STRANGE)
        return line;
    return compare(p, n, weir__proxy_sign, WEIR__PROXY_SIGN_BYTES, WEIR__PROXY_BINARY);
}

/* --- TLVs --------------------------------------------------------------------------------- */

int weir_proxy_next(struct weir_str *rest, struct weir_proxy_tlv *out) {
    if (!rest->n)
        return 0;
    if (rest->n < TLV_HEAD_BYTES)
        return WEIR_EPROTO;
    size_t n = weir__base_get_be16(rest->p + 1);
    if (n > rest->n - TLV_HEAD_BYTES)
        return WEIR_EPROTO;
    *out = (struct weir_proxy_tlv){(uint8_t)rest->p[0], {rest->p + TLV_HEAD_BYTES, n}};
    *rest = (struct weir_str){out->value.p + n, rest->n - TLV_HEAD_BYTES - n};
    return 1;
}

bool weir_proxy_find(const struct weir_proxy_header *h, uint8_t type, struct weir_str *out) {
    struct weir_str rest = h->tlvs;
    struct weir_proxy_tlv tlv;
    while (weir_proxy_next(&rest, &tlv) > 0)
        if (tlv.type == type) {
            *out = tlv.value;
            return true;
        }
    return false;
}

static bool ssl_valid(struct weir_str value) {
    struct weir_proxy_tlv tlv;
    int rc;
    if (value.n < SSL_HEAD_BYTES)
        return false;
    struct weir_str rest = {value.p + SSL_HEAD_BYTES, value.n - SSL_HEAD_BYTES};
    while ((rc = weir_proxy_next(&rest, &tlv)) > 0)
        ;
    return rc == 0;
}

/* The sum over the whole header with zeros in place of the sum. */
static bool sum_right(const uint8_t *p, size_t bytes, struct weir_str value) {
    static const uint8_t zeros[4];
    size_t at = (size_t)((const uint8_t *)value.p - p);
    uint32_t crc = weir__proxy_crc(0, p, at);
    crc = weir__proxy_crc(crc, zeros, sizeof zeros);
    crc = weir__proxy_crc(crc, p + at + 4, bytes - at - 4);
    return crc == weir__base_get_be32(value.p);
}

static bool tlvs_valid(const uint8_t *p, size_t bytes, struct weir_proxy_header *out) {
    struct weir_str rest = out->tlvs;
    struct weir_proxy_tlv tlv;
    int rc;
    while ((rc = weir_proxy_next(&rest, &tlv)) > 0) {
        if (tlv.type == WEIR_PROXY_SSL && !ssl_valid(tlv.value))
            return false;
        if (tlv.type == WEIR_PROXY_UNIQUE_ID && tlv.value.n > WEIR_PROXY_ID_MAX)
            return false;
        if (tlv.type != WEIR_PROXY_CRC32C)
            continue;
        if (out->checksum || tlv.value.n != 4 || !sum_right(p, bytes, tlv.value))
            return false;
        out->checksum = true;
    }
    return rc == 0;
}

/* --- version 2 ---------------------------------------------------------------------------- */

static bool command_valid(uint8_t c) {
    return c == 0x20 || c == 0x21;
}

/* LOCAL's is ignored. */
static bool family_valid(uint8_t command, uint8_t f) {
    return command == 0x20 || (f >> 4 <= WEIR_PROXY_UNIX && (f & 15) <= WEIR_PROXY_DGRAM);
}

static void take_ends(const uint8_t *p, struct weir_proxy_header *out) {
    size_t n = out->family == WEIR_PROXY_IP4 ? 4 : out->family == WEIR_PROXY_IP6 ? 16 : 108;
    memcpy(out->from.bytes, p, n);
    memcpy(out->to.bytes, p + n, n);
    if (out->family == WEIR_PROXY_UNIX)
        return;
    out->from.port = weir__base_get_be16(p + 2 * n);
    out->to.port = weir__base_get_be16(p + 2 * n + 2);
}

/* All of it is there. */
static bool whole(const uint8_t *p, size_t bytes, struct weir_proxy_header *out) {
    unsigned family = p[AT_FAMILY] >> 4, transport = p[AT_FAMILY] & 15;
    *out = (struct weir_proxy_header){.version = 2, .command = p[AT_COMMAND] & 15};
    if (out->command == WEIR_PROXY_LOCAL || !family || !transport)
        return true; /* where addresses would end is not said, so nothing else of it can be read */
    size_t ends = weir__proxy_ends_bytes(family), rest = bytes - WEIR__PROXY_HEAD_BYTES;
    if (rest < ends)
        return false;
    out->family = (uint8_t)family;
    out->transport = (uint8_t)transport;
    take_ends(p + WEIR__PROXY_HEAD_BYTES, out);
    out->tlvs = (struct weir_str){(const char *)p + WEIR__PROXY_HEAD_BYTES + ends, rest - ends};
    return tlvs_valid(p, bytes, out);
}

static int binary(const uint8_t *p, size_t n, size_t max, struct weir_proxy_header *out,
                  size_t *need) {
    if ((n > AT_COMMAND && !command_valid(p[AT_COMMAND])) ||
        (n > AT_FAMILY && !family_valid(p[AT_COMMAND], p[AT_FAMILY])))
        return WEIR_EPROTO;
    *need = n + 1;
    if (n < WEIR__PROXY_HEAD_BYTES)
        return 0;
    size_t bytes = WEIR__PROXY_HEAD_BYTES + weir__base_get_be16(p + AT_LENGTH);
    if (bytes > max)
        return WEIR_ETOOBIG;
    *need = bytes;
    if (n < bytes)
        return 0;
    return whole(p, bytes, out) ? (int)bytes : WEIR_EPROTO;
}

int weir_proxy_decode(const void *p, size_t n, size_t max, struct weir_proxy_header *out,
                      size_t *need) {
    size_t least = 0;
    need = need ? need : &least;
    *need = n + 1;
    switch (weir__proxy_look(p, n)) {
    case WEIR__PROXY_PERHAPS: return 0;
    case WEIR__PROXY_LINE: return weir__proxy_line(p, n, out, need);
    case WEIR__PROXY_BINARY: return binary(p, n, max ? max : WEIR_PROXY_HEADER_BYTES, out, need);
    default: return WEIR_EPROTO;
    }
}
