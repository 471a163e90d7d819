/* Options in, a checked and compiled format out. */
#include "codec/frame/scan.h"
#include "weir/frame.h"
#include <string.h>

static int refuse(const char **reason, const char *why) {
    if (reason)
        *reason = why;
    return WEIR_EINVAL;
}

/* back[i]: how much of end is both a true prefix and a suffix of end[0..i]. */
static void compile_end(struct weir_frame_format *f, const char *end, size_t n) {
    memcpy(f->end, end, n);
    f->end_bytes = (uint32_t)n;
    for (size_t i = 1, k = 0; i < n; i++) {
        while (k && f->end[i] != f->end[k])
            k = f->back[k - 1];
        if (f->end[i] == f->end[k])
            k++;
        f->back[i] = (uint8_t)k;
    }
}

static int length_check(const struct weir_frame_options *o, const char **reason) {
    if (o->width != 1 && o->width != 2 && o->width != 3 && o->width != 4 && o->width != 8)
        return refuse(reason, "width: a length field has 1, 2, 3, 4 or 8 bytes");
    if (o->offset > WEIR_FRAME_OFFSET_MAX)
        return refuse(reason, "offset: the length field starts within the first 256 bytes");
    if (o->frame_max < o->offset + o->width)
        return refuse(reason, "frame_max: smaller than the head with the length field");
    if (o->strip > o->frame_max)
        return refuse(reason, "strip: more than frame_max");
    return 0;
}

int weir_frame_format_init(struct weir_frame_format *f, const struct weir_frame_options *o,
                           const char **reason) {
    int rc = 0;
    if (o->size < offsetof(struct weir_frame_options, varint_bits) + sizeof o->varint_bits)
        return refuse(reason, "size: set it to sizeof(struct weir_frame_options)");
    if (!o->frame_max)
        return refuse(reason, "frame_max: must be given");
    memset(f, 0, sizeof *f);
    f->o = *o;
    if (o->kind != WEIR_FRAME_LENGTH)
        f->o.offset = 0;
    switch (o->kind) {
    case WEIR_FRAME_LENGTH: rc = length_check(o, reason); break;
    case WEIR_FRAME_LINE:
        compile_end(f, "\n", 1);
        f->cr = !o->keep_cr;
        break;
    case WEIR_FRAME_DELIMITER:
        if (!o->delimiter.n || o->delimiter.n > WEIR_FRAME_DELIMITER_MAX)
            return refuse(reason, "delimiter: 1 to 16 bytes");
        compile_end(f, o->delimiter.p, o->delimiter.n);
        f->o.delimiter = (struct weir_str){NULL, 0};
        break;
    case WEIR_FRAME_VARINT:
        if (o->varint_bits && o->varint_bits != 32 && o->varint_bits != 64)
            return refuse(reason, "varint_bits: 32 or 64");
        f->o.varint_bits = o->varint_bits ? o->varint_bits : 32;
        break;
    default: return refuse(reason, "kind: unknown");
    }
    return rc;
}
