/* What a request carries: a body made once from the seed, whose first bytes are stamped with
 * connection and sequence, so that an answer that belongs to another request is found out. */
#ifndef LOAD_PAYLOAD_H
#define LOAD_PAYLOAD_H
#include "weir/mem.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOAD_PAYLOAD_MAX = 16 << 20 };

struct load_payload { /* read-only once made: all loops share it */
    uint64_t seed;
    size_t bytes;
    uint8_t *body;
};

/* ENOMEM. */
int load_payload_init(struct load_payload *p, uint64_t seed, size_t bytes);
void load_payload_fini(struct load_payload *p);
/* Appends the payload of request number seq of connection conn. ENOMEM: out may hold a part of it.
 */
int load_payload_write(const struct load_payload *p, struct weir_mem *m, uint32_t conn,
                       uint64_t seq, struct weir_chain *out);
/* Are these n bytes what stands at offset off of that payload? off + n <= bytes. */
bool load_payload_matches(const struct load_payload *p, uint32_t conn, uint64_t seq, size_t off,
                          const uint8_t *data, size_t n);

#endif
