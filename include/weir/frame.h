/* Framing: where one message ends and the next begins, in four ways. No channel, no clock: bytes
 * in, frames out.
 *
 * A format is compiled once from options and shared by any number of connections and loops; a
 * decoder is the few bytes of state of one connection, zeroed to begin. Frames are cut out of the
 * chain without copying. */
#ifndef WEIR_FRAME_H
#define WEIR_FRAME_H
#include "weir/error.h"
#include "weir/mem.h"
#include "weir/str.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

enum weir_frame_kind {
    WEIR_FRAME_LENGTH, /* a length field of 1, 2, 3, 4 or 8 bytes somewhere in the head */
    WEIR_FRAME_LINE, /* up to "\n", which is not part of the frame; a "\r" right before it neither,
                        unless keep_cr */
    WEIR_FRAME_DELIMITER, /* up to a string of 1 to 16 bytes, which is not part of the frame */
    WEIR_FRAME_VARINT, /* a base-128 length in front, low group first, as Protocol Buffers write it
                        */
};

enum { WEIR_FRAME_DELIMITER_MAX = 16, WEIR_FRAME_OFFSET_MAX = 256 };

struct weir_frame_options {
    size_t size;
    enum weir_frame_kind kind;
    uint64_t frame_max; /* bytes of a frame: with its head before strip (LENGTH), without length or
                           delimiter (others). Not 0 */
    bool fail_late; /* over frame_max: report when the frame has passed instead of as soon as it is
                       known */
    /* LENGTH: a frame is offset + width + value + adjust bytes long, of which the first strip are
     * dropped. */
    uint32_t offset, width;
    int64_t adjust;
    uint64_t strip;
    bool little_endian;
    /* LINE */
    bool keep_cr;    /* decoding: "\r" belongs to the line */
    bool write_crlf; /* encoding: end lines with "\r\n" */
    /* DELIMITER; copied */
    struct weir_str delimiter;
    /* VARINT */
    uint32_t varint_bits; /* 32 (default) or 64: more is EPROTO */
};

struct weir_frame_format { /* compiled options; read-only afterwards */
    struct weir_frame_options o;
    uint8_t end[WEIR_FRAME_DELIMITER_MAX];  /* what a frame ends with */
    uint8_t back[WEIR_FRAME_DELIMITER_MAX]; /* Knuth-Morris-Pratt: the border of end[0..i] */
    uint32_t end_bytes, cr;                 /* cr: one "\r" more may come before end */
};

struct weir_frame_decoder { /* {0}: at the start of a frame */
    uint64_t need;    /* bytes the chain must hold before another call can do anything; > its length
                         after 0 was returned */
    uint64_t skip;    /* of a frame over the limit: bytes still to drop */
    uint64_t scanned; /* delimiters: bytes already searched */
    uint64_t frame;   /* located: bytes of the frame at the front of the chain */
    uint8_t trail;    /* located: bytes to drop behind it */
    uint8_t matched;  /* delimiters: bytes of the delimiter that the searched part ends with */
    bool located, skipping, late, broken;
};

/* Checks and compiles o into f. f keeps no pointer into o. EINVAL: *reason (may be NULL) says which
 * option and why. Any thread. */
int weir_frame_format_init(struct weir_frame_format *f, const struct weir_frame_options *o,
                           const char **reason);

/* Cuts the next frame off the front of in and appends it to out. 1: a frame (possibly empty); 0:
 * not enough bytes, see d->need. ETOOBIG: a frame over frame_max, told once per frame; it is
 * dropped as it arrives, nothing of it is kept, and calling on finds the next one. EPROTO: the
 * stream cannot be followed (a length that contradicts the options, a varint over varint_bits);
 * from then on always. EINVAL: in holds a file region. ENOMEM: nothing is lost, try again. */
int weir_frame_next(const struct weir_frame_format *f, struct weir_frame_decoder *d,
                    struct weir_mem *m, struct weir_chain *in, struct weir_chain *out);
/* The same with the frame as one slice, copied only at a seam. Caller owns out. */
int weir_frame_next_slice(const struct weir_frame_format *f, struct weir_frame_decoder *d,
                          struct weir_mem *m, struct weir_chain *in, struct weir_slice *out);

/* Appends one frame to out. Takes payload: the whole frame without its length field (LENGTH: the
 * first offset bytes stand before the field), or what decodes to one frame (others). EINVAL: the
 * payload holds the delimiter or a file region where that must be searched, is shorter than offset,
 * or its length does not fit the field; ETOOBIG: over frame_max; ENOMEM. */
int weir_frame_write(const struct weir_frame_format *f, struct weir_mem *m,
                     struct weir_chain *payload, struct weir_chain *out);

/* ---- as a handler ---- */

struct weir_ctx;
struct weir_handler;

/* Config of weir_frame_handler; outlives the server or channel. Without one, or without its format
 * or frame, the handler refuses each channel with EINVAL. */
struct weir_frame_service {
    const struct weir_frame_format *format;
    /* One frame. Take what you like; the rest of it is released. < 0 closes the connection with
     * that reason. Loop. */
    int (*frame)(struct weir_ctx *c, struct weir_chain *frame, void *user);
    /* The stream ended; clean false: inside a frame. May be NULL. */
    void (*eof)(struct weir_ctx *c, bool clean, void *user);
    void *user;
};

/* A pipeline's last handler: cuts frames and hands them up one by one, as long as the channel's
 * output is below its high mark. A frame over frame_max closes with ETOOBIG, a stream that cannot
 * be followed with EPROTO. */
extern const struct weir_handler weir_frame_handler;

/* Sends payload as one frame of the format of c, which is a context of weir_frame_handler. Takes
 * payload. The errors of weir_frame_write and weir_ctx_send. Loop. */
int weir_frame_send(struct weir_ctx *c, struct weir_chain *payload);

#ifdef __cplusplus
}
#endif
#endif
