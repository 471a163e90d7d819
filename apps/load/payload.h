/* What a request carries: a body made once from the seed, whose first bytes are stamped with
 * connection and sequence, so that an answer that belongs to another request is found out. Where
 * answers are digests the stamps repeat: each digest is computed once and not per answer. */
#ifndef LOAD_PAYLOAD_H
#define LOAD_PAYLOAD_H
#include "weir/mem.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOAD_PAYLOAD_MAX = 16 << 20, LOAD_DIGEST_BYTES = 32 };

struct load_payload { /* read-only once made: all loops share it */
    uint64_t seed;
    size_t bytes;
    uint8_t *body;
    unsigned kinds; /* different payloads; 0: each request has its own */
    uint8_t (*digests)[LOAD_DIGEST_BYTES];
};

/* ENOMEM. */
int load_payload_init(struct load_payload *p, uint64_t seed, size_t bytes);
/* From here on payloads repeat, and what `weir linkd --handler digest` answers to each is known:
 * the last of `rounds` SHA-256 digests, each over the one before (zeros first) and the payload.
 * ENOMEM: memory, or no SHA-256. */
int load_payload_digest(struct load_payload *p, unsigned rounds);
void load_payload_fini(struct load_payload *p);
/* Appends the payload of request number seq of connection conn. ENOMEM: out may hold a part of it.
 */
int load_payload_write(const struct load_payload *p, struct weir_mem *m, uint32_t conn,
                       uint64_t seq, struct weir_chain *out);
/* Are these n bytes what stands at offset off of that payload? off + n <= bytes. */
bool load_payload_matches(const struct load_payload *p, uint32_t conn, uint64_t seq, size_t off,
                          const uint8_t *data, size_t n);
/* The digest of that payload, LOAD_DIGEST_BYTES long; after load_payload_digest. */
const uint8_t *load_payload_answer(const struct load_payload *p, uint32_t conn, uint64_t seq);

#endif
