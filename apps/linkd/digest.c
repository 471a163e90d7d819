#include "linkd/digest.h"
#include <openssl/evp.h>
#include <stdlib.h>

enum { DIGEST_BYTES = 32 };

struct job { /* of one offloaded call; used again for others of its loop */
    struct weir_linkd_job job;
    struct digest *of;
    struct seat *seat;
    struct job *next; /* idle */
    EVP_MD_CTX *h;
    struct weir_chain answer;
    uint8_t *digest; /* the answer's bytes */
    bool good;
};

struct seat {      /* one loop's */
    EVP_MD_CTX *h; /* for calls that are answered there */
    struct job *idle;
};

struct digest {
    EVP_MD *sha256; /* fetched once: a lookup per call costs more than a small payload */
    unsigned rounds, n_loops;
    enum weir_order order;
    struct seat seats[];
};

static void job_free(struct job *j) {
    EVP_MD_CTX_free(j->h);
    free(j);
}

static void seat_free(struct seat *s) {
    struct job *j;
    EVP_MD_CTX_free(s->h);
    while ((j = s->idle)) {
        s->idle = j->next;
        job_free(j);
    }
}

void digest_free(struct digest *d) {
    for (unsigned i = 0; d && i < d->n_loops; i++)
        seat_free(&d->seats[i]);
    if (d)
        EVP_MD_free(d->sha256);
    free(d);
}

static EVP_MD_CTX *state_new(const struct digest *d) {
    EVP_MD_CTX *h = EVP_MD_CTX_new();
    if (h && EVP_DigestInit_ex2(h, d->sha256, NULL) == 1)
        return h;
    EVP_MD_CTX_free(h);
    return NULL;
}

struct digest *digest_new(struct weir_group *g, unsigned rounds, enum weir_order order) {
    unsigned n = weir_group_loops(g);
    struct digest *d = calloc(1, sizeof *d + n * sizeof d->seats[0]);
    if (!d)
        return NULL;
    d->rounds = rounds;
    d->order = order;
    d->n_loops = n;
    d->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    bool whole = d->sha256 != NULL;
    for (unsigned i = 0; i < n && whole; i++)
        whole = (d->seats[i].h = state_new(d)) != NULL;
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

/* digest: zero at first. */
static bool all_rounds(const struct digest *d, EVP_MD_CTX *h, const struct weir_chain *payload,
                       uint8_t *digest) {
    bool good = true;
    for (unsigned i = 0; i < d->rounds && good; i++)
        good = round_of(h, d->sha256, payload, digest);
    return good;
}

/* --- on the loop ----------------------------------------------------------------------------- */

static struct seat *seat_of(struct digest *d, struct weir_linkd_call *x) {
    return &d->seats[weir_loop_index(weir_linkd_loop(x))];
}

static int digest_call(struct weir_linkd_call *x, void *user) {
    struct digest *d = user;
    struct weir_chain answer = {0};
    uint8_t digest[DIGEST_BYTES] = {0};
    if (!all_rounds(d, seat_of(d, x)->h, weir_linkd_payload(x), digest))
        return WEIR_EBUG;
    int rc = weir_chain_write(weir_linkd_mem(x), &answer, digest, sizeof digest);
    if (rc >= 0)
        rc = weir_linkd_answer(x, &answer);
    if (rc < 0)
        weir_chain_fini(&answer);
    return rc;
}

const struct weir_linkd_service digest_service = {.name = "digest", .call = digest_call};

/* --- on a worker ----------------------------------------------------------------------------- */

static void job_run(struct weir_linkd_job *job) {
    struct job *j = (struct job *)job;
    j->good = all_rounds(j->of, j->h, &job->payload, j->digest);
}

static void job_put(struct job *j) {
    weir_chain_fini(&j->answer);
    weir_chain_fini(&j->job.payload);
    j->next = j->seat->idle;
    j->seat->idle = j;
}

static void job_done(struct weir_linkd_call *x, struct weir_linkd_job *job, int status) {
    struct job *j = (struct job *)job;
    (void)status;
    if (x && (!j->good || weir_linkd_answer(x, &j->answer) < 0))
        (void)weir_linkd_fail(x, WEIR_LINKD_INTERNAL, NULL);
    job_put(j);
}

static struct job *job_get(struct digest *d, struct seat *s) {
    struct job *j = s->idle;
    if (j) {
        s->idle = j->next;
        return j;
    }
    j = calloc(1, sizeof *j);
    if (!j || !(j->h = state_new(d))) {
        free(j);
        return NULL;
    }
    j->of = d;
    j->seat = s;
    j->job.run = job_run;
    j->job.done = job_done;
    return j;
}

static int offload_call(struct weir_linkd_call *x, void *user) {
    static const uint8_t zero[DIGEST_BYTES];
    struct digest *d = user;
    struct weir_mem *m = weir_linkd_mem(x);
    struct job *j = job_get(d, seat_of(d, x));
    if (!j)
        return WEIR_ENOMEM;
    int rc = weir_chain_write(m, &j->answer, zero, sizeof zero);
    j->digest = rc < 0 ? NULL : j->answer.first->slice.p;
    if (rc >= 0)
        rc = weir_linkd_offload(x, &j->job, d->order);
    if (rc < 0)
        job_put(j);
    return rc;
}

const struct weir_linkd_service digest_offloaded = {
    .name = "digest", .call = offload_call, .offloads = true};
