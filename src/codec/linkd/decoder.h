/* Bytes to frames. Takes whole frames off the front of a chain, skips what is too large without
 * keeping it. */
#ifndef WEIR_CODEC_LINKD_DECODER_H
#define WEIR_CODEC_LINKD_DECODER_H
#include "codec/linkd/wire.h"

struct weir__linkd_decoder {
    uint32_t want;      /* bytes the chain must hold before another call can do anything */
    uint32_t skip;      /* of a refused frame's payload: still to drop */
    uint32_t frame_max; /* configured limit, at most the hard one */
    uint8_t code;       /* the ERROR code of the last REFUSED or EPROTO */
    bool dead;          /* EPROTO was told */
};

enum weir__linkd_event {
    WEIR__LINKD_WANT,    /* not enough bytes: see want */
    WEIR__LINKD_FRAME,   /* a header and its whole payload */
    WEIR__LINKD_REFUSED, /* a header; its payload is dropped as it arrives. The connection lives */
};

void weir__linkd_decoder_init(struct weir__linkd_decoder *d, uint32_t frame_max);

/* The next event; a frame's payload is appended to `payload` without copying. EPROTO: the rules say
 * to answer h->id with ERROR d->code and close; told again on every later call, with code 0.
 * ENOMEM: nothing moved, try again. EINVAL: in holds a file region. */
int weir__linkd_next(struct weir__linkd_decoder *d, struct weir_mem *m, struct weir_chain *in,
                     struct weir__linkd_head *h, struct weir_chain *payload);

#endif
