#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* As much of linkd version 1 (docs/linkd.md) as a measurement needs, written apart from Weir's own
 * codec so that neither can hide the other's mistake. Anything but REQUEST and PING is refused. */

enum {
    WIRE_HEAD_BYTES = 20,
    WIRE_MAGIC = 0x4C4B,
    WIRE_VERSION = 1,
    WIRE_REQUEST = 1,
    WIRE_RESPONSE = 2,
    WIRE_PING = 4,
    WIRE_PONG = 5,
    WIRE_BUFFER_BYTES = 64 * 1024, /* a frame of more bytes is refused */
    WIRE_DIGEST_BYTES = 32,
    WIRE_DIGEST_ROUNDS = 16,
};

struct wire_head {
    uint8_t type;
    uint16_t flags;
    uint16_t service;
    uint64_t id;
    uint32_t length;
};

void wire_head_write(uint8_t *bytes, const struct wire_head *head);

/* Bytes of the whole frame that starts at `bytes`; 0: more are needed; -1: it is not a frame. */
ssize_t wire_frame(const uint8_t *bytes, size_t count, struct wire_head *head);

/* Turns every whole frame at the front of `bytes` into its echo, in place. Returns how many bytes
 * are answers now, or -1 when the peer broke the protocol. */
ssize_t wire_echo(uint8_t *bytes, size_t count);

/* Like wire_echo, but writes digest answers to `out`, which holds WIRE_DIGEST_OUT_BYTES;
 * `out_count` says how many. Returns the bytes of `bytes` that are done with, or -1. */
enum {
    WIRE_DIGEST_OUT_BYTES = WIRE_BUFFER_BYTES / WIRE_HEAD_BYTES *
                            (WIRE_HEAD_BYTES + WIRE_DIGEST_BYTES)
};
ssize_t wire_digest(const uint8_t *bytes, size_t count, uint8_t *out, size_t *out_count);

/* d(0) = 32 zero bytes, d(i) = SHA-256(d(i-1) || payload); leaves d(16) in `digest`. */
void wire_digest_rounds(const uint8_t *payload, size_t count, uint8_t *digest);

#endif
