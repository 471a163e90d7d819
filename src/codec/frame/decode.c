/* The four decoders. Each locates a frame (lead bytes to drop, frame bytes, trail bytes to drop);
 * one function then cuts it out.
 *
 *            enough bytes                lead dropped
 *   START ----------------> located ------------------> delivered -> START
 *     | over the limit                  (no memory: stays located)
 *     v
 *   SKIPPING: drops what arrives until the frame has passed -> START
 *     a stream that cannot be followed -> BROKEN, for good */
#include "base/assert.h"
#include "base/bytes.h"
#include "codec/frame/scan.h"
#include "weir/frame.h"

enum { NEED_MORE = 0, LOCATED = 1 };

static int broken(struct weir_frame_decoder *d) {
    d->broken = true;
    d->need = 0;
    return WEIR_EPROTO;
}

static int need(struct weir_frame_decoder *d, uint64_t bytes) {
    d->need = bytes;
    return NEED_MORE;
}

/* Drops what is there of a frame that is too big. Once it has passed, a late report is due. */
static int skip(struct weir_frame_decoder *d, struct weir_chain *in) {
    uint64_t n = in->bytes < d->skip ? in->bytes : d->skip;
    weir_chain_drop(in, n);
    d->skip -= n;
    if (d->skip)
        return need(d, 1);
    d->skipping = false;
    if (!d->late)
        return LOCATED;
    d->late = false;
    return WEIR_ETOOBIG;
}

static int over(const struct weir_frame_format *f, struct weir_frame_decoder *d,
                struct weir_chain *in, uint64_t bytes) {
    d->skipping = true;
    d->skip = bytes;
    d->late = f->o.fail_late;
    int rc = skip(d, in);
    return f->o.fail_late ? rc : WEIR_ETOOBIG;
}

static int found(struct weir_frame_decoder *d, struct weir_chain *in, uint64_t lead, uint64_t frame,
                 uint8_t trail) {
    weir_chain_drop(in, lead);
    d->frame = frame;
    d->trail = trail;
    d->located = true;
    return LOCATED;
}

/* lead bytes of head (counted in total), of which the first strip are not part of the frame. */
static int sized(const struct weir_frame_format *f, struct weir_frame_decoder *d,
                 struct weir_chain *in, uint64_t total, uint64_t strip, uint64_t counted) {
    if (counted > f->o.frame_max)
        return over(f, d, in, total);
    if (in->bytes < total)
        return need(d, total);
    return found(d, in, strip, total - strip, 0);
}

static int locate_length(const struct weir_frame_format *f, struct weir_frame_decoder *d,
                         struct weir_chain *in) {
    const struct weir_frame_options *o = &f->o;
    uint8_t field[8];
    uint32_t head = o->offset + o->width;
    if (in->bytes < head)
        return need(d, head);
    int rc = weir_chain_read(in, o->offset, field, o->width);
    if (rc < 0)
        return rc;
    uint64_t value = o->little_endian ? weir__base_get_le(field, o->width)
                                      : weir__base_get_be(field, o->width);
    __int128 total = (__int128)value + head + o->adjust;
    if (total < head || total < (__int128)o->strip)
        return broken(d);
    uint64_t bytes = total > (__int128)UINT64_MAX ? UINT64_MAX : (uint64_t)total;
    return sized(f, d, in, bytes, o->strip, bytes);
}

static int locate_varint(const struct weir_frame_format *f, struct weir_frame_decoder *d,
                         struct weir_chain *in) {
    bool wide = f->o.varint_bits == 64;
    size_t max = wide ? 10 : 5, have = in->bytes < max ? (size_t)in->bytes : max, i = 0;
    uint8_t b[10] = {0}, last_max = wide ? 0x01 : 0x0f;
    uint64_t value = 0;
    int rc = have ? weir_chain_read(in, 0, b, have) : 0;
    if (rc < 0)
        return rc;
    while (i < have && b[i] & 0x80)
        value |= (uint64_t)(b[i] & 0x7f) << (7 * i), i++;
    if (i == max || (i == max - 1 && i < have && b[i] > last_max))
        return broken(d);
    if (i == have)
        return need(d, have + 1);
    value |= (uint64_t)b[i] << (7 * i);
    uint64_t lead = i + 1, total = value > UINT64_MAX - lead ? UINT64_MAX : value + lead;
    return sized(f, d, in, total, lead, value);
}

/* Searches on from d->scanned. 1: the delimiter ends at d->scanned. */
static int search(const struct weir_frame_format *f, struct weir_frame_decoder *d,
                  const struct weir_chain *in) {
    const struct weir_part *part = in->first;
    uint64_t at = 0;
    bool hit = false;
    if (part &&
        d->scanned >= in->bytes - in->last->slice.n) { /* the usual case: only the end is new */
        part = in->last;
        at = in->bytes - part->slice.n;
    }
    for (; part && !hit; at += part->slice.n, part = part->next) {
        if (at + part->slice.n <= d->scanned)
            continue;
        if (!part->slice.p)
            return WEIR_EINVAL;
        size_t from = (size_t)(d->scanned - at);
        d->scanned += weir__frame_scan(f, &d->matched, part->slice.p + from, part->slice.n - from,
                                       &hit);
    }
    return hit;
}

static int locate_end(const struct weir_frame_format *f, struct weir_frame_decoder *d,
                      struct weir_chain *in) {
    uint8_t before = 0;
    int rc = search(f, d, in);
    if (rc < 0)
        return rc;
    if (!rc) {
        if (d->scanned - d->matched <= f->o.frame_max + f->cr)
            return need(d, in->bytes + 1);
        weir_chain_drop(in, d->scanned);
        d->scanned = 0;
        d->skipping = true;
        d->late = f->o.fail_late;
        d->need = 1;
        return d->late ? NEED_MORE : WEIR_ETOOBIG;
    }
    uint64_t n = d->scanned - f->end_bytes, end = d->scanned;
    if (f->cr && n && weir_chain_read(in, n - 1, &before, 1) == 0 && before == '\r')
        n--;
    d->scanned = 0;
    if (n <= f->o.frame_max)
        return found(d, in, 0, n, (uint8_t)(end - n));
    weir_chain_drop(in, end);
    return WEIR_ETOOBIG;
}

/* A frame without an end in sight: all that was searched is dropped, only the matcher remembers. */
static int skip_to_end(const struct weir_frame_format *f, struct weir_frame_decoder *d,
                       struct weir_chain *in) {
    int rc = search(f, d, in);
    if (rc < 0)
        return rc;
    weir_chain_drop(in, d->scanned);
    d->scanned = 0;
    if (!rc)
        return need(d, 1);
    d->skipping = false;
    if (!d->late)
        return LOCATED;
    d->late = false;
    return WEIR_ETOOBIG;
}

static int locate(const struct weir_frame_format *f, struct weir_frame_decoder *d,
                  struct weir_chain *in) {
    int rc;
    if (d->broken)
        return WEIR_EPROTO;
    if (d->skipping && (rc = f->end_bytes ? skip_to_end(f, d, in) : skip(d, in)) != LOCATED)
        return rc;
    if (d->located)
        return LOCATED;
    if (f->end_bytes)
        return locate_end(f, d, in);
    return f->o.kind == WEIR_FRAME_LENGTH ? locate_length(f, d, in) : locate_varint(f, d, in);
}

static int delivered(struct weir_frame_decoder *d, struct weir_chain *in) {
    weir_chain_drop(in, d->trail);
    d->located = false;
    d->need = 0;
    return LOCATED;
}

int weir_frame_next(const struct weir_frame_format *f, struct weir_frame_decoder *d,
                    struct weir_mem *m, struct weir_chain *in, struct weir_chain *out) {
    int rc = locate(f, d, in);
    if (rc != LOCATED)
        return rc;
    rc = weir_chain_move(m, out, in, d->frame);
    return rc < 0 ? rc : delivered(d, in);
}

int weir_frame_next_slice(const struct weir_frame_format *f, struct weir_frame_decoder *d,
                          struct weir_mem *m, struct weir_chain *in, struct weir_slice *out) {
    int rc = locate(f, d, in);
    if (rc != LOCATED)
        return rc;
    *out = (struct weir_slice){0};
    rc = d->frame ? weir_chain_take(m, in, d->frame, out) : 0;
    return rc < 0 ? rc : delivered(d, in);
}
