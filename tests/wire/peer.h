/* linkd as an attacker speaks it: frames with any lie in them, and what came back as text. */
#ifndef WEIR_TESTS_WIRE_PEER_H
#define WEIR_TESTS_WIRE_PEER_H
#include "weir/linkd.h"
#include "wire/wire.h"

enum { PEER_SCRIPT_MAX = 1 << 20, PEER_PAYLOAD_MAX = 64 << 10 };

struct frame { /* zeroes for what is not named */
    unsigned type, flags, service;
    uint64_t id;
    const char *text; /* the payload, terminated; or n bytes of a pattern of its id */
    size_t n;
    uint32_t lie; /* what the header says instead of the length, where not 0 */
};

struct script {
    uint8_t bytes[PEER_SCRIPT_MAX];
    size_t n;
};

void script_add(struct script *s, struct frame f);
void script_add_bytes(struct script *s, const void *data, size_t n);
/* Byte i of the pattern of id. */
uint8_t peer_pattern(uint64_t id, size_t i);
/* Overwrites 16 or 32 bits of a header. */
void peer_put16(uint8_t *p, unsigned v);
void peer_put32(uint8_t *p, uint32_t v);

struct ear { /* one end that listens */
    int fd;
    uint8_t bytes[WEIR_LINKD_HEAD_BYTES + PEER_PAYLOAD_MAX];
    size_t n, used;
    const char *end; /* "end" after the peer's FIN, "reset"; NULL: it goes on */
    /* the frame heard last */
    unsigned type, flags;
    uint64_t id;
    uint32_t length;
    const uint8_t *payload;
};

/* Waits for the next frame. False: the connection has ended, see end; a part of a frame in front of
 * a FIN fails the test. */
bool ear_hear(struct ear *e);
/* Listens until it has heard `want`, or anything else, which fails the test. The words:
 *   R7'text' answer, R7[900] a long one, r7[..] with more to come, E2#7 error 2, P'..' pong,
 *   C7+n credit, G goaway, each with a blank behind it; end, reset. */
void ear_expect(struct ear *e, const char *want);

/* The witness: an echo and a digest call with numbers of their own. */
void peer_testify(int fd);
uint64_t peer_digest(const uint8_t *p, size_t n);

#endif
