/* What a linkd request costs without a channel: bytes as the epoll door delivers them (slices of
 * one hot buffer), the session, an answer, its release.
 *
 *     linkd_bench                     every case: ns per request
 *     linkd_bench <case> <requests>   one case, for callgrind: the difference of two lengths */
#include "codec/linkd/session.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HOT_BYTES = 64 << 10, DIGEST_BYTES = 32, ROUND = 1000 };

struct rig {
    struct weir_mem *m;
    struct weir__linkd_line line;
    struct weir__linkd_session s;
    struct weir_linkd_stats stats;
    struct weir_slice hot;
    struct weir_linkd_call *parked;
};

struct bench_case {
    const char *name;
    uint16_t service;
    uint32_t payload;
    unsigned batch; /* requests of one receive */
};

static int echo(struct weir_linkd_call *x, void *user) {
    (void)user;
    return weir_linkd_answer(x, weir_linkd_payload(x));
}

static int digest(struct weir_linkd_call *x, void *user) {
    static const uint8_t sum[DIGEST_BYTES];
    struct weir_chain c = {0};
    (void)user;
    int rc = weir_chain_write(weir_linkd_mem(x), &c, sum, sizeof sum);
    if (rc >= 0)
        rc = weir_linkd_answer(x, &c);
    if (rc < 0)
        weir_chain_fini(&c);
    return rc;
}

static int park(struct weir_linkd_call *x, void *user) {
    struct rig *r = user;
    r->parked = x;
    return 0;
}

static const struct weir_linkd_service services[] = {
    {.name = "echo", .call = echo},
    {.name = "digest", .call = digest},
    {.name = "park", .call = park},
};

static const struct bench_case cases[] = {
    {"echo_64", 0, 64, 1},     {"echo_1k", 0, 1024, 1},     {"echo_8k", 0, 8192, 1},
    {"echo_64x16", 0, 64, 16}, {"echo_1kx16", 0, 1024, 16}, {"digest_64", 1, 64, 1},
    {"digest_8k", 1, 8192, 1}, {"digest_64x16", 1, 64, 16}, {"park_64", 2, 64, 1},
};

static void kick(struct weir__linkd_session *s) {
    (void)s;
}

static uint64_t now_ns(struct weir__linkd_session *s) {
    (void)s;
    return 0;
}

static const struct weir__linkd_host host = {.kick = kick, .now_ns = now_ns};

static void demand(bool ok, const char *what) {
    if (ok)
        return;
    fprintf(stderr, "linkd_bench: %s\n", what);
    exit(1);
}

static void rig_init(struct rig *r, struct weir_linkd_route *routes,
                     struct weir_linkd_server_options *o) {
    *r = (struct rig){.m = weir_mem_open("bench")};
    demand(r->m && weir_slice_new(r->m, HOT_BYTES, &r->hot) == 0, "no memory");
    memset(r->hot.p, 0, HOT_BYTES);
    for (uint16_t i = 0; i < ARRAY_LEN(services); i++)
        routes[i] = (struct weir_linkd_route){i, &services[i], r};
    *o = (struct weir_linkd_server_options){
        .size = sizeof *o, .routes = routes, .n_routes = ARRAY_LEN(services)};
    weir__linkd_server_line(&r->line, o, r->m, &host, &r->stats);
    weir__linkd_server_init(&r->s, &r->line, 42, (struct weir_ref){1});
}

static void rig_fini(struct rig *r) {
    weir__linkd_fini(&r->s, WEIR_EGONE);
    weir__linkd_line_fini(&r->line);
    weir_slice_release(&r->hot);
    demand(weir_mem_live(r->m) == 0, "something leaked");
    weir_mem_close(r->m);
}

/* One receive with its requests, and what they answer. Returns the bytes sent. */
static uint64_t turn(struct rig *r, const struct bench_case *c, uint64_t first_id) {
    size_t frame = WEIR_LINKD_HEAD_BYTES + c->payload;
    struct weir_chain in = {0};
    for (unsigned i = 0; i < c->batch; i++) {
        struct weir__linkd_head h = {.type = WEIR_LINKD_REQUEST,
                                     .service = c->service,
                                     .id = first_id + i,
                                     .length = c->payload};
        weir__linkd_put_head(r->hot.p + i * frame, &h);
    }
    struct weir_slice s = weir_slice_ref(r->hot, 0, c->batch * frame);
    demand(weir_chain_add(r->m, &in, &s) == 0, "no memory");
    demand(weir__linkd_read(&r->s, &in, UINT64_MAX) == 0, "the session died");
    if (r->parked)
        demand(weir_linkd_answer(r->parked, weir_linkd_payload(r->parked)) == 0, "not answered");
    r->parked = NULL;
    uint64_t sent = r->s.out.bytes;
    weir_chain_fini(&r->s.out);
    return sent;
}

static uint64_t clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void run(struct rig *r, const struct bench_case *c, uint64_t requests) {
    uint32_t answer = WEIR_LINKD_HEAD_BYTES + (c->service == 1 ? DIGEST_BYTES : c->payload);
    for (uint64_t i = 0; i < requests; i += c->batch)
        demand(turn(r, c, i + 1) == (uint64_t)answer * c->batch, "a wrong answer");
}

/* The best of some rounds: what the code costs when nothing else runs. */
static double best_ns(struct rig *r, const struct bench_case *c) {
    uint64_t best = UINT64_MAX, n = 16 * ROUND;
    for (unsigned i = 0; i < 25; i++) {
        uint64_t start = clock_ns();
        run(r, c, n);
        uint64_t took = clock_ns() - start;
        best = took < best ? took : best;
    }
    return (double)best / (double)n;
}

int main(int argc, char **argv) {
    static struct rig r;
    static struct weir_linkd_route routes[ARRAY_LEN(services)];
    static struct weir_linkd_server_options o;
    rig_init(&r, routes, &o);
    bool found = argc < 2;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        if (argc < 2) {
            printf("%-14s %8.1f ns/request\n", cases[i].name, best_ns(&r, &cases[i]));
        } else if (!strcmp(argv[1], cases[i].name)) {
            found = true;
            run(&r, &cases[i], argc > 2 ? strtoull(argv[2], NULL, 10) : ROUND);
        }
    }
    rig_fini(&r);
    demand(found, "no such case");
    return 0;
}
