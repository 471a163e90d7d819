/* The linkd header on the wire: 20 bytes, big-endian. */
#ifndef WEIR_CODEC_LINKD_WIRE_H
#define WEIR_CODEC_LINKD_WIRE_H
#include "base/bytes.h"
#include "base/compiler.h"
#include "weir/linkd.h"

struct weir__linkd_head {
    uint8_t type;
    uint16_t flags, service;
    uint64_t id;
    uint32_t length;
};

enum weir__linkd_verdict { /* of a header alone */
                           WEIR__LINKD_GOOD,
                           WEIR__LINKD_GARBAGE, /* not linkd at all: there is no id to answer to */
                           WEIR__LINKD_BROKEN,  /* linkd, but not a frame we may guess about */
};

WEIR_INLINE void weir__linkd_put_head(uint8_t *p, const struct weir__linkd_head *h) {
    uint64_t start = (uint64_t)WEIR_LINKD_MAGIC << 48 | (uint64_t)WEIR_LINKD_VERSION << 40;
    weir__base_put_be64(p, start | (uint64_t)h->type << 32 | (uint32_t)h->flags << 16 | h->service);
    weir__base_put_be64(p + 8, h->id);
    weir__base_put_be32(p + 16, h->length);
}

WEIR_INLINE void weir__linkd_get_head(const uint8_t *p, struct weir__linkd_head *h) {
    h->type = p[3];
    h->flags = weir__base_get_be16(p + 4);
    h->service = weir__base_get_be16(p + 6);
    h->id = weir__base_get_be64(p + 8);
    h->length = weir__base_get_be32(p + 16);
}

/* The flags that a frame of this type may carry. */
WEIR_INLINE uint16_t weir__linkd_flags_of(unsigned type) {
    return type == WEIR_LINKD_REQUEST    ? WEIR_LINKD_DEADLINE | WEIR_LINKD_MORE
           : type == WEIR_LINKD_RESPONSE ? WEIR_LINKD_MORE
                                         : 0;
}

/* The first six bytes of a REQUEST without flags: magic, version, type, flags. */
#define WEIR__LINKD_PLAIN \
    ((uint64_t)WEIR_LINKD_MAGIC << 32 | WEIR_LINKD_VERSION << 24 | WEIR_LINKD_REQUEST << 16)

/* Reads and judges what needs no state: magic, version, type, flags, id 0 where the type demands
 * it. */
WEIR_INLINE enum weir__linkd_verdict weir__linkd_judge(const uint8_t *p,
                                                       struct weir__linkd_head *h) {
    enum { START = (WEIR_LINKD_MAGIC << 8) | WEIR_LINKD_VERSION };
    weir__linkd_get_head(p, h);
    if (unlikely(weir__base_get_be24(p) != START))
        return weir__base_get_be16(p) == WEIR_LINKD_MAGIC ? WEIR__LINKD_BROKEN
                                                          : WEIR__LINKD_GARBAGE;
    if (unlikely(h->type - 1u > WEIR_LINKD_CREDIT - 1u ||
                 h->flags & ~weir__linkd_flags_of(h->type)))
        return WEIR__LINKD_BROKEN;
    if (h->type <= WEIR_LINKD_RESPONSE)
        return WEIR__LINKD_GOOD;
    bool whole = h->type == WEIR_LINKD_PING || h->type == WEIR_LINKD_PONG ||
                 h->type == WEIR_LINKD_GOAWAY;
    return whole && h->id ? WEIR__LINKD_BROKEN : WEIR__LINKD_GOOD;
}

#endif
