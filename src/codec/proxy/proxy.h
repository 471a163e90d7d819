/* Between the files of this room. */
#ifndef WEIR_CODEC_PROXY_PROXY_H
#define WEIR_CODEC_PROXY_PROXY_H
#include "weir/proxy.h"

enum {
    WEIR__PROXY_SIGN_BYTES = 12,
    WEIR__PROXY_HEAD_BYTES = 16, /* signature, version and command, family, length */
};

extern const uint8_t weir__proxy_sign[WEIR__PROXY_SIGN_BYTES];

/* What the first bytes may be. */
enum weir__proxy_look {
    WEIR__PROXY_STRANGE, /* no header begins like this */
    WEIR__PROXY_PERHAPS, /* too few to say */
    WEIR__PROXY_LINE,    /* "PROXY " */
    WEIR__PROXY_BINARY,  /* the signature of version 2 */
};
enum weir__proxy_look weir__proxy_look(const uint8_t *p, size_t n);

/* --- text.c: the words of version 1 */
/* As weir_proxy_decode, for what begins with "PROXY ". */
int weir__proxy_line(const uint8_t *p, size_t n, struct weir_proxy_header *out, size_t *need);
/* The line for h; text has WEIR_PROXY_V1_MAX bytes. Returns its bytes. */
size_t weir__proxy_write_line(const struct weir_proxy_header *h, uint8_t *text);
/* An address that is all of s. */
bool weir__proxy_ip4(struct weir_str s, uint8_t out[4]);
bool weir__proxy_ip6(struct weir_str s, uint8_t out[16]);

/* --- crc.c: CRC-32C (Castagnoli), RFC 4960 appendix B. Begins with 0; add in pieces. */
uint32_t weir__proxy_crc(uint32_t crc, const void *data, size_t n);

static inline size_t weir__proxy_ends_bytes(unsigned family) {
    static const uint8_t bytes[] = {0, 12, 36, 216};
    return bytes[family];
}

#endif
