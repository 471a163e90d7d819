/* How a frame gets its header without an allocation: from a buffer that the frames of a session
 * share. */
#ifndef WEIR_CODEC_LINKD_PLACE_H
#define WEIR_CODEC_LINKD_PLACE_H
#include "codec/linkd/session.h"

enum {
    WEIR__LINKD_SHARED_BYTES = 224, /* a 256-byte block; at least a deadline more than one header */
    WEIR__LINKD_COPY_MAX = 200,     /* a payload so short joins its header: a part less to send */
};

/* A fresh buffer for headers. False: no memory. */
bool weir__linkd_head_new(struct weir__linkd_session *s);

/* n bytes in the line's head; from its start again where no frame holds it any more. False: no
 * memory. */
WEIR_INLINE bool weir__linkd_head_room(struct weir__linkd_session *s, size_t n) {
    if (likely(weir__mem_buf_exclusive(s->line->head))) {
        s->line->head.p = s->line->head.buf->data;
        s->line->head.n = WEIR__LINKD_SHARED_BYTES;
    }
    return likely(n <= s->line->head.n) || weir__linkd_head_new(s);
}

WEIR_INLINE struct weir_slice weir__linkd_head_take(struct weir__linkd_session *s, size_t n) {
    struct weir_slice head = {.p = s->line->head.p, .n = n, .buf = s->line->head.buf};
    weir__mem_buf_ref(head.buf);
    s->line->head.p += n;
    s->line->head.n -= n;
    return head;
}

/* The payload of one part becomes header and payload in one. */
WEIR_INLINE uint8_t *weir__linkd_join(struct weir__linkd_session *s, size_t n,
                                      struct weir_chain *payload) {
    struct weir_slice *slice = &payload->first->slice, old = *slice;
    if (unlikely(!weir__linkd_head_room(s, n + old.n)))
        return NULL;
    *slice = weir__linkd_head_take(s, n + old.n);
    payload->bytes += n;
    memcpy(slice->p + n, old.p, old.n);
    if (old.buf)
        weir__mem_buf_release(old.buf);
    return slice->p;
}

/* A part for the header alone, in front of payload. */
WEIR_INLINE uint8_t *weir__linkd_prepend(struct weir__linkd_session *s, size_t n,
                                         struct weir_chain *payload) {
    struct weir_part *p;
    if (unlikely(!weir__linkd_head_room(s, n) || !(p = weir__mem_part_new(s->line->m))))
        return NULL;
    p->slice = weir__linkd_head_take(s, n);
    p->next = payload->first;
    payload->first = p;
    payload->last = payload->last ? payload->last : p;
    payload->bytes += n;
    return p->slice.p;
}

/* Moves payload to out, behind n bytes for its header, which the caller fills. NULL: no memory,
 * nothing moved. */
WEIR_INLINE uint8_t *weir__linkd_place(struct weir__linkd_session *s, size_t n,
                                       struct weir_chain *payload) {
    const struct weir_part *first = payload->first;
    bool is_short = payload->bytes <= WEIR__LINKD_COPY_MAX && first &&
                    first->slice.n == payload->bytes && first->slice.p;
    uint8_t *p = is_short ? weir__linkd_join(s, n, payload) : weir__linkd_prepend(s, n, payload);
    if (likely(p))
        weir__mem_chain_append(&s->out, payload);
    return p;
}

#endif
