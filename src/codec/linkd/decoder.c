/*            20 bytes, good           all of the payload
 *   HEAD ---------------> PAYLOAD -----------------------> FRAME, HEAD
 *     |  \ over frame_max
 *     |   ----> REFUSED, SKIP -- dropped as it arrives --> HEAD
 *     | garbage, broken, over the hard limit, CREDIT of another size, PING over 64
 *     v
 *   DEAD                                (PAYLOAD is no stored state: the header stays in the chain)
 */
#include "codec/linkd/decoder.h"
#include "base/assert.h"

void weir__linkd_decoder_init(struct weir__linkd_decoder *d, uint32_t frame_max) {
    *d = (struct weir__linkd_decoder){.frame_max = frame_max};
}

WEIR_COLD static int die(struct weir__linkd_decoder *d, unsigned code) {
    d->dead = true;
    d->code = (uint8_t)code;
    return WEIR_EPROTO;
}

static bool skip(struct weir__linkd_decoder *d, struct weir_chain *in) {
    uint32_t n = in->bytes < d->skip ? (uint32_t)in->bytes : d->skip;
    weir_chain_drop(in, n);
    d->skip -= n;
    return !d->skip;
}

/* Who does not speak linkd is told after two bytes: it may never send twenty. */
WEIR_COLD static int no_head(struct weir__linkd_decoder *d, const struct weir_chain *in,
                             struct weir__linkd_head *h) {
    uint8_t b[WEIR_LINKD_HEAD_BYTES] = {0};
    size_t n = in->bytes < sizeof b ? (size_t)in->bytes : sizeof b;
    if (n && weir_chain_read(in, 0, b, n) < 0)
        return WEIR_EINVAL;
    if (n == sizeof b)
        return WEIR_ENOMEM; /* all there, but no memory to join it */
    if (n >= 2 && weir__base_get_be16(b) != WEIR_LINKD_MAGIC) {
        *h = (struct weir__linkd_head){0};
        return die(d, WEIR_LINKD_MALFORMED);
    }
    d->want = n < 2 ? 2 : WEIR_LINKD_HEAD_BYTES;
    return WEIR__LINKD_WANT;
}

WEIR_COLD static int refuse(struct weir__linkd_decoder *d, struct weir_chain *in,
                            const struct weir__linkd_head *h) {
    weir_chain_drop(in, WEIR_LINKD_HEAD_BYTES);
    d->skip = h->length;
    d->code = WEIR_LINKD_TOO_LARGE;
    skip(d, in);
    return WEIR__LINKD_REFUSED;
}

/* What the length of a frame of this type must be, before it is waited for. */
static unsigned length_code(const struct weir__linkd_head *h) {
    if (h->length > WEIR_LINKD_FRAME_MAX)
        return WEIR_LINKD_TOO_LARGE;
    if (likely(h->type <= WEIR_LINKD_RESPONSE))
        return 0;
    bool ping = h->type == WEIR_LINKD_PING || h->type == WEIR_LINKD_PONG;
    bool credit = h->type == WEIR_LINKD_CREDIT;
    return (ping && h->length > WEIR_LINKD_PING_MAX) || (credit && h->length != 4)
               ? WEIR_LINKD_MALFORMED
               : 0;
}

int weir__linkd_next(struct weir__linkd_decoder *d, struct weir_mem *m, struct weir_chain *in,
                     struct weir__linkd_head *h, struct weir_chain *payload) {
    d->want = 1;
    if (unlikely(d->dead))
        return d->code = 0, WEIR_EPROTO;
    if (unlikely(d->skip) && !skip(d, in))
        return WEIR__LINKD_WANT;
    const uint8_t *p = weir_chain_peek(m, in, WEIR_LINKD_HEAD_BYTES);
    if (unlikely(!p))
        return no_head(d, in, h);
    enum weir__linkd_verdict verdict = weir__linkd_judge(p, h);
    if (unlikely(verdict != WEIR__LINKD_GOOD)) {
        if (verdict == WEIR__LINKD_GARBAGE)
            *h = (struct weir__linkd_head){0};
        return die(d, WEIR_LINKD_MALFORMED);
    }
    unsigned code = length_code(h);
    if (unlikely(code))
        return die(d, code);
    if (unlikely(h->length > d->frame_max))
        return refuse(d, in, h);
    uint32_t whole = WEIR_LINKD_HEAD_BYTES + h->length;
    if (in->bytes < whole)
        return d->want = whole, WEIR__LINKD_WANT;
    check(!payload->bytes);
    int rc = weir_chain_move(m, payload, in, whole);
    if (unlikely(rc < 0))
        return rc;
    weir_chain_drop(payload, WEIR_LINKD_HEAD_BYTES);
    return WEIR__LINKD_FRAME;
}
