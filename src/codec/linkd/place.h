/* How a frame gets its header without an allocation: in front of its payload, where that buffer has
 * room which is nobody else's (an answer that is its request: where the request's header was); else
 * from a buffer that the frames of a line share. */
#ifndef WEIR_CODEC_LINKD_PLACE_H
#define WEIR_CODEC_LINKD_PLACE_H
#include "codec/linkd/session.h"

enum {
    WEIR__LINKD_SHARED_BYTES = 224, /* a 256-byte block; at least a deadline more than one header */
    WEIR__LINKD_COPY_MAX = 200,     /* a payload so short joins its header: a part less to send */
};

/* n bytes in front of the first part are free to write: nobody else refers to its buffer. */
WEIR_INLINE bool weir__linkd_front_room(const struct weir__linkd_session *s, size_t n,
                                        const struct weir_part *first) {
    const struct weir_buf *b = likely(first) ? first->slice.buf : NULL;
    return likely(b) && !(b->flags & WEIR__MEM_SHARED) &&
           b->refs == 1u + (b == *s->line->receiving) && (size_t)(first->slice.p - b->data) >= n;
}

WEIR_INLINE uint8_t *weir__linkd_widen(size_t n, struct weir_chain *payload) {
    struct weir_slice *slice = &payload->first->slice;
    slice->p -= n;
    slice->n += n;
    payload->bytes += n;
    return slice->p;
}

/* A fresh buffer for headers. False: no memory. */
bool weir__linkd_head_new(struct weir__linkd_line *line);

/* n bytes in the line's head; from its start again where no frame holds it any more. False: no
 * memory. */
WEIR_INLINE bool weir__linkd_head_room(struct weir__linkd_line *line, size_t n) {
    if (likely(weir__mem_buf_exclusive(line->head))) {
        line->head.p = line->head.buf->data;
        line->head.n = WEIR__LINKD_SHARED_BYTES;
    }
    return likely(n <= line->head.n) || weir__linkd_head_new(line);
}

WEIR_INLINE struct weir_slice weir__linkd_head_take(struct weir__linkd_line *line, size_t n) {
    struct weir_slice head = {.p = line->head.p, .n = n, .buf = line->head.buf};
    weir__mem_buf_ref(head.buf);
    line->head.p += n;
    line->head.n -= n;
    return head;
}

/* The payload of one part becomes header and payload in one. */
WEIR_INLINE uint8_t *weir__linkd_join(struct weir__linkd_line *line, size_t n,
                                      struct weir_chain *payload) {
    struct weir_slice *slice = &payload->first->slice, old = *slice;
    if (unlikely(!weir__linkd_head_room(line, n + old.n)))
        return NULL;
    *slice = weir__linkd_head_take(line, n + old.n);
    payload->bytes += n;
    memcpy(slice->p + n, old.p, old.n);
    if (old.buf)
        weir__mem_buf_release(old.buf);
    return slice->p;
}

/* A part for the header alone, in front of payload. */
WEIR_INLINE uint8_t *weir__linkd_prepend(struct weir__linkd_line *line, size_t n,
                                         struct weir_chain *payload) {
    struct weir_part *p;
    if (unlikely(!weir__linkd_head_room(line, n) || !(p = weir__mem_part_new(line->m))))
        return NULL;
    p->slice = weir__linkd_head_take(line, n);
    p->next = payload->first;
    payload->first = p;
    payload->last = payload->last ? payload->last : p;
    payload->bytes += n;
    return p->slice.p;
}

/* Moves payload to out, behind n bytes for its header, where it has no room in front. NULL: no
 * memory, nothing moved. */
WEIR_INLINE uint8_t *weir__linkd_place_apart(struct weir__linkd_session *s, size_t n,
                                             struct weir_chain *payload) {
    const struct weir_part *first = payload->first;
    bool is_short = payload->bytes <= WEIR__LINKD_COPY_MAX && first &&
                    first->slice.n == payload->bytes && first->slice.p;
    uint8_t *p = is_short ? weir__linkd_join(s->line, n, payload)
                          : weir__linkd_prepend(s->line, n, payload);
    if (likely(p))
        weir__mem_chain_append(&s->out, payload);
    return p;
}

/* Moves payload to out, behind n bytes for its header, which the caller fills. NULL: no memory,
 * nothing moved. */
WEIR_INLINE uint8_t *weir__linkd_place(struct weir__linkd_session *s, size_t n,
                                       struct weir_chain *payload) {
    if (!weir__linkd_front_room(s, n, payload->first))
        return weir__linkd_place_apart(s, n, payload);
    uint8_t *p = weir__linkd_widen(n, payload);
    weir__mem_chain_append(&s->out, payload);
    return p;
}

#endif
