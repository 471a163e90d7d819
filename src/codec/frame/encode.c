/* The encoders. One builder measures (p NULL) and writes with the same code. */
#include "base/bytes.h"
#include "codec/frame/scan.h"
#include "weir/frame.h"

struct builder {
    uint8_t *p; /* NULL: only count */
    size_t n;
};

static void put(struct builder *b, const void *data, size_t n) {
    if (b->p)
        memcpy(b->p + b->n, data, n);
    b->n += n;
}

static void put_length(struct builder *b, const struct weir_frame_options *o, uint64_t value) {
    uint8_t field[8];
    if (o->little_endian)
        weir__base_put_le(field, o->width, value);
    else
        weir__base_put_be(field, o->width, value);
    put(b, field, o->width);
}

static void put_varint(struct builder *b, uint64_t value) {
    do {
        uint8_t group = (uint8_t)(value & 0x7f);
        value >>= 7;
        group |= (uint8_t)(value ? 0x80 : 0);
        put(b, &group, 1);
    } while (value);
}

static void put_head(struct builder *b, const struct weir_frame_format *f, uint64_t value) {
    if (f->o.kind == WEIR_FRAME_LENGTH)
        put_length(b, &f->o, value);
    else if (f->o.kind == WEIR_FRAME_VARINT)
        put_varint(b, value);
}

static void put_tail(struct builder *b, const struct weir_frame_format *f) {
    if (f->o.kind == WEIR_FRAME_LINE && f->o.write_crlf)
        put(b, "\r", 1);
    put(b, f->end, f->end_bytes);
}

/* The bytes of a head or a tail in a chain of their own. */
static int build(const struct weir_frame_format *f, struct weir_mem *m, bool head, uint64_t value,
                 struct weir_chain *out) {
    struct builder b = {NULL, 0};
    for (int pass = 0; pass < 2; pass++) {
        if (pass && !b.n)
            return 0;
        if (pass && !(b.p = weir_chain_reserve(m, out, b.n)))
            return WEIR_ENOMEM;
        b.n = 0;
        if (head)
            put_head(&b, f, value);
        else
            put_tail(&b, f);
    }
    weir_chain_commit(out, b.n);
    return 0;
}

/* What the length field says, or an error. */
static int measure(const struct weir_frame_format *f, uint64_t bytes, uint64_t *value) {
    const struct weir_frame_options *o = &f->o;
    *value = bytes;
    if (o->kind == WEIR_FRAME_VARINT) {
        if (o->varint_bits == 32 && bytes > UINT32_MAX)
            return WEIR_EINVAL;
    } else if (o->kind == WEIR_FRAME_LENGTH) {
        __int128 v = (__int128)bytes - o->offset - o->adjust;
        if (bytes < o->offset || v < 0 || (o->width < 8 && v >> (8 * o->width)) ||
            v > (__int128)UINT64_MAX || bytes + o->width < o->strip)
            return WEIR_EINVAL;
        *value = (uint64_t)v;
        bytes += o->width;
    }
    return bytes > o->frame_max ? WEIR_ETOOBIG : 0;
}

/* The payload with its delimiter behind it must decode to exactly the payload. */
static int check_end(const struct weir_frame_format *f, const struct weir_chain *payload) {
    uint8_t matched = 0, last = 0;
    bool hit = false;
    if (!f->end_bytes)
        return 0;
    for (const struct weir_part *part = payload->first; part; part = part->next) {
        if (!part->slice.p)
            return WEIR_EINVAL;
        weir__frame_scan(f, &matched, part->slice.p, part->slice.n, &hit);
        if (hit)
            return WEIR_EINVAL;
        if (part->slice.n)
            last = part->slice.p[part->slice.n - 1];
    }
    if (weir__frame_scan(f, &matched, f->end, f->end_bytes, &hit) != f->end_bytes || !hit)
        return WEIR_EINVAL;
    return f->cr && !f->o.write_crlf && last == '\r' ? WEIR_EINVAL : 0;
}

int weir_frame_write(const struct weir_frame_format *f, struct weir_mem *m,
                     struct weir_chain *payload, struct weir_chain *out) {
    struct weir_chain head = {0}, tail = {0}, before = {0};
    uint64_t value;
    int rc = measure(f, payload->bytes, &value);
    if (rc < 0 || (rc = check_end(f, payload)) < 0)
        return rc;
    if ((rc = build(f, m, true, value, &head)) < 0 || (rc = build(f, m, false, 0, &tail)) < 0 ||
        (rc = weir_chain_move(m, &before, payload, f->o.offset)) < 0) {
        weir_chain_fini(&head);
        weir_chain_fini(&tail);
        return rc;
    }
    weir_chain_append(out, &before);
    weir_chain_append(out, &head);
    weir_chain_append(out, payload);
    weir_chain_append(out, &tail);
    return 0;
}
