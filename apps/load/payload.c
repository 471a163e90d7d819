#include "load/payload.h"
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

enum { STAMP = 8, COPIED_MAX = 1024, KINDS_MIN = 2, KINDS_MAX = 64 };

/* Hashed before the run starts, at most: a fraction of a second. */
static const uint64_t hashed_max = UINT64_C(128) << 20;

static uint64_t mix(uint64_t x) { /* SplitMix64's finisher */
    x ^= x >> 30;
    x *= 0xBF58476D1CE4E5B9u;
    x ^= x >> 27;
    x *= 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* What tells one payload from another: all that its stamp depends on. */
static uint64_t mark_of(const struct load_payload *p, uint32_t conn, uint64_t seq) {
    uint64_t own = mix((uint64_t)conn << 40 ^ seq);
    return p->kinds ? own % p->kinds : own;
}

static void stamp(const struct load_payload *p, uint64_t mark, uint8_t out[STAMP]) {
    uint64_t v = mix(p->seed + mark + 1);
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

static bool round_of(const struct load_payload *p, const uint8_t mark[STAMP], EVP_MD_CTX *h,
                     uint8_t digest[LOAD_DIGEST_BYTES]) {
    size_t head = p->bytes < STAMP ? p->bytes : STAMP;
    return EVP_DigestInit_ex(h, EVP_sha256(), NULL) == 1 &&
           EVP_DigestUpdate(h, digest, LOAD_DIGEST_BYTES) == 1 &&
           EVP_DigestUpdate(h, mark, head) == 1 &&
           EVP_DigestUpdate(h, p->body + head, p->bytes - head) == 1 &&
           EVP_DigestFinal_ex(h, digest, NULL) == 1;
}

static bool compute(struct load_payload *p, unsigned rounds, EVP_MD_CTX *h) {
    uint8_t mark[STAMP];
    for (unsigned k = 0; k < p->kinds; k++) {
        stamp(p, k, mark);
        for (unsigned i = 0; i < rounds; i++)
            if (!round_of(p, mark, h, p->digests[k]))
                return false;
    }
    return true;
}

int load_payload_digest(struct load_payload *p, unsigned rounds) {
    uint64_t fit = hashed_max / ((p->bytes + LOAD_DIGEST_BYTES) * (uint64_t)rounds);
    p->kinds = fit < KINDS_MIN ? KINDS_MIN : fit > KINDS_MAX ? KINDS_MAX : (unsigned)fit;
    p->digests = calloc(p->kinds, sizeof p->digests[0]);
    EVP_MD_CTX *h = EVP_MD_CTX_new();
    bool done = p->digests && h && compute(p, rounds, h);
    EVP_MD_CTX_free(h);
    return done ? 0 : WEIR_ENOMEM;
}

const uint8_t *load_payload_answer(const struct load_payload *p, uint32_t conn, uint64_t seq) {
    return p->digests[mark_of(p, conn, seq)];
}

void load_payload_fini(struct load_payload *p) {
    free(p->body);
    free(p->digests);
    p->body = NULL;
    p->digests = NULL;
}

int load_payload_write(const struct load_payload *p, struct weir_mem *m, uint32_t conn,
                       uint64_t seq, struct weir_chain *out) {
    uint8_t head[COPIED_MAX];
    size_t copied = p->bytes <= COPIED_MAX ? p->bytes : STAMP;
    memcpy(head, p->body, copied);
    uint8_t mark[STAMP];
    stamp(p, mark_of(p, conn, seq), mark);
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
        stamp(p, mark_of(p, conn, seq), mark);
        size_t part = n < STAMP - off ? n : STAMP - off;
        if (memcmp(mark + off, data, part) != 0)
            return false;
        off += part;
        data += part;
        n -= part;
    }
    return !n || memcmp(p->body + off, data, n) == 0;
}
