#include "load/payload.h"
#include <stdlib.h>
#include <string.h>

enum { STAMP = 8, COPIED_MAX = 1024 };

static uint64_t mix(uint64_t x) { /* SplitMix64's finisher */
    x ^= x >> 30;
    x *= 0xBF58476D1CE4E5B9u;
    x ^= x >> 27;
    x *= 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static void stamp(const struct load_payload *p, uint32_t conn, uint64_t seq, uint8_t out[STAMP]) {
    uint64_t v = mix(p->seed + mix((uint64_t)conn << 40 ^ seq) + 1);
    memcpy(out, &v, STAMP);
}

int load_payload_init(struct load_payload *p, uint64_t seed, size_t bytes) {
    *p = (struct load_payload){.seed = seed, .bytes = bytes, .body = malloc(bytes + STAMP)};
    if (!p->body)
        return WEIR_ENOMEM;
    for (size_t i = 0; i < bytes; i += STAMP) {
        uint64_t v = mix(seed + i * 0x9E3779B97F4A7C15u);
        memcpy(p->body + i, &v, STAMP);
    }
    return 0;
}

void load_payload_fini(struct load_payload *p) {
    free(p->body);
    p->body = NULL;
}

int load_payload_write(const struct load_payload *p, struct weir_mem *m, uint32_t conn,
                       uint64_t seq, struct weir_chain *out) {
    uint8_t head[COPIED_MAX];
    size_t copied = p->bytes <= COPIED_MAX ? p->bytes : STAMP;
    memcpy(head, p->body, copied);
    uint8_t mark[STAMP];
    stamp(p, conn, seq, mark);
    memcpy(head, mark, copied < STAMP ? copied : STAMP);
    int rc = copied ? weir_chain_write(m, out, head, copied) : 0;
    if (rc < 0 || copied == p->bytes)
        return rc;
    struct weir_slice rest = {.p = p->body + copied, .n = p->bytes - copied};
    return weir_chain_add(m, out, &rest);
}

bool load_payload_matches(const struct load_payload *p, uint32_t conn, uint64_t seq, size_t off,
                          const uint8_t *data, size_t n) {
    if (off < STAMP) {
        uint8_t mark[STAMP];
        stamp(p, conn, seq, mark);
        size_t part = n < STAMP - off ? n : STAMP - off;
        if (memcmp(mark + off, data, part) != 0)
            return false;
        off += part;
        data += part;
        n -= part;
    }
    return !n || memcmp(p->body + off, data, n) == 0;
}
