#include "linkd/digest.h"
#include <openssl/evp.h>
#include <stdlib.h>

enum { DIGEST_BYTES = 32 };

struct digest {
    EVP_MD *sha256; /* fetched once: a lookup per call costs more than a small payload */
    unsigned rounds, n_loops;
    EVP_MD_CTX *states[]; /* one per loop, by its index */
};

void digest_free(struct digest *d) {
    for (unsigned i = 0; d && i < d->n_loops; i++)
        EVP_MD_CTX_free(d->states[i]);
    if (d)
        EVP_MD_free(d->sha256);
    free(d);
}

struct digest *digest_new(struct weir_group *g, unsigned rounds) {
    unsigned n = weir_group_loops(g);
    struct digest *d = calloc(1, sizeof *d + n * sizeof(EVP_MD_CTX *));
    if (!d)
        return NULL;
    d->rounds = rounds;
    d->n_loops = n;
    d->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    bool whole = d->sha256 != NULL;
    for (unsigned i = 0; i < n && whole; i++) {
        d->states[i] = EVP_MD_CTX_new();
        whole = d->states[i] && EVP_DigestInit_ex2(d->states[i], d->sha256, NULL) == 1;
    }
    if (whole)
        return d;
    digest_free(d);
    return NULL;
}

/* The payload is hashed where it lies, part by part. */
static bool round_of(EVP_MD_CTX *h, const EVP_MD *sha256, const struct weir_chain *payload,
                     uint8_t *digest) {
    bool ok = EVP_DigestInit_ex2(h, sha256, NULL) == 1 &&
              EVP_DigestUpdate(h, digest, DIGEST_BYTES) == 1;
    for (const struct weir_part *p = payload->first; p && ok; p = p->next)
        ok = EVP_DigestUpdate(h, p->slice.p, p->slice.n) == 1;
    return ok && EVP_DigestFinal_ex(h, digest, NULL) == 1;
}

static int digest_call(struct weir_linkd_call *x, void *user) {
    const struct digest *d = user;
    struct weir_mem *m = weir_linkd_mem(x);
    EVP_MD_CTX *h = d->states[weir_loop_index(weir_linkd_loop(x))];
    struct weir_chain answer = {0};
    uint8_t digest[DIGEST_BYTES] = {0};
    for (unsigned i = 0; i < d->rounds; i++)
        if (!round_of(h, d->sha256, weir_linkd_payload(x), digest))
            return WEIR_EBUG;
    int rc = weir_chain_write(m, &answer, digest, sizeof digest);
    if (rc >= 0)
        rc = weir_linkd_answer(x, &answer);
    if (rc < 0)
        weir_chain_fini(&answer);
    return rc;
}

const struct weir_linkd_service digest_service = {.name = "digest", .call = digest_call};
