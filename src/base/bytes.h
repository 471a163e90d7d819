/* Integers in bytes of either order. Unaligned is fine; the compiler makes one load or store of the
 * fixed widths. */
#ifndef WEIR_BASE_BYTES_H
#define WEIR_BASE_BYTES_H
#include <stdint.h>
#include <string.h>

static inline uint16_t weir__base_get_be16(const void *p) {
    uint16_t v;
    memcpy(&v, p, 2);
    return __builtin_bswap16(v);
}

static inline uint32_t weir__base_get_be24(const void *p) {
    const uint8_t *b = (const uint8_t *)p;
    return (uint32_t)b[0] << 16 | (uint32_t)b[1] << 8 | b[2];
}

static inline uint32_t weir__base_get_be32(const void *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return __builtin_bswap32(v);
}

static inline uint64_t weir__base_get_be64(const void *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return __builtin_bswap64(v);
}

static inline void weir__base_put_be16(void *p, uint16_t v) {
    v = __builtin_bswap16(v);
    memcpy(p, &v, 2);
}

static inline void weir__base_put_be24(void *p, uint32_t v) {
    uint8_t *b = (uint8_t *)p;
    b[0] = (uint8_t)(v >> 16);
    b[1] = (uint8_t)(v >> 8);
    b[2] = (uint8_t)v;
}

static inline void weir__base_put_be32(void *p, uint32_t v) {
    v = __builtin_bswap32(v);
    memcpy(p, &v, 4);
}

static inline void weir__base_put_be64(void *p, uint64_t v) {
    v = __builtin_bswap64(v);
    memcpy(p, &v, 8);
}

/* width 1..8 bytes, most significant first. */
static inline uint64_t weir__base_get_be(const void *p, unsigned width) {
    const uint8_t *b = (const uint8_t *)p;
    uint64_t v = 0;
    for (unsigned i = 0; i < width; i++)
        v = v << 8 | b[i];
    return v;
}

static inline void weir__base_put_be(void *p, unsigned width, uint64_t v) {
    uint8_t *b = (uint8_t *)p;
    for (unsigned i = width; i-- > 0; v >>= 8)
        b[i] = (uint8_t)v;
}

/* width 1..8 bytes, least significant first. */
static inline uint64_t weir__base_get_le(const void *p, unsigned width) {
    const uint8_t *b = (const uint8_t *)p;
    uint64_t v = 0;
    for (unsigned i = width; i-- > 0;)
        v = v << 8 | b[i];
    return v;
}

static inline void weir__base_put_le(void *p, unsigned width, uint64_t v) {
    uint8_t *b = (uint8_t *)p;
    for (unsigned i = 0; i < width; i++, v >>= 8)
        b[i] = (uint8_t)v;
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the fixed widths swap: little-endian machines only");

#endif
