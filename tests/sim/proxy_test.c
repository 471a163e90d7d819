/* A server behind a balancer, and everybody else who finds its port, over many seeds: who has a
 * good header is served under the name it gives, nobody else is ever heard. */
#include "weir/proxy.h"
#include "weir/sim.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { PEERS = 12, BYTES = 5000, SEEDS = 200, HEADER_MS = 2000 };

enum kind { LINE, BINARY, LOCAL, NONE, BROKEN, SILENT, HALF, KINDS };

static uint64_t current;
static unsigned served, refused[3]; /* by EPROTO, ETIMEDOUT, anything else */

/* --- the server --------------------------------------------------------------------------- */

static int app_open(struct weir_ctx *c, const void *config) {
    char peer[64], via[64];
    struct weir_chan *ch = weir_ctx_chan(c);
    (void)config;
    const struct weir_proxy_header *h = weir_proxy_header_of(ch);
    assert_non_null(h); /* nobody comes so far without */
    assert_int_equal(weir_chan_peer(ch, peer, sizeof peer), 0);
    assert_int_equal(weir_chan_proxy_peer(ch, via, sizeof via), 0);
    if (h->command == WEIR_PROXY_LOCAL)
        assert_string_equal(peer, via);
    else
        assert_string_equal(peer, "203.0.113.7:4711");
    served++;
    return 0;
}

static int app_read(struct weir_ctx *c, struct weir_chain *in) {
    return weir_ctx_send(c, in);
}

static const struct weir_handler app = {.name = "app", .open = app_open, .read = app_read};

static void on_refused(struct weir_chan *ch, int why, void *user) {
    (void)ch, (void)user;
    refused[why == WEIR_EPROTO ? 0 : why == WEIR_ETIMEDOUT ? 1 : 2]++;
}

/* --- the peers ---------------------------------------------------------------------------- */

static size_t header(enum kind k, uint8_t out[200]) {
    static const struct weir_proxy_tlv tlv = {WEIR_PROXY_AUTHORITY, {"example.org", 11}};
    struct weir_proxy_header h = {.version = k == LINE || k == HALF ? 1 : 2,
                                  .command = k == LOCAL ? WEIR_PROXY_LOCAL : WEIR_PROXY_PROXY,
                                  .family = WEIR_PROXY_IP4,
                                  .transport = WEIR_PROXY_STREAM,
                                  .checksum = k == BINARY || k == BROKEN,
                                  .from = {4711, {203, 0, 113, 7}},
                                  .to = {443, {203, 0, 113, 1}}};
    if (k == NONE || k == SILENT)
        return 0;
    int n = weir_proxy_encode(&h, &tlv, h.checksum, out, 200);
    assert_true(n > 0);
    if (k == BROKEN)
        out[20] ^= 1; /* the sum does not fit any more */
    return k == HALF ? (size_t)n - 2 : (size_t)n;
}

static bool good(enum kind k) {
    return k == LINE || k == BINARY || k == LOCAL;
}

struct world {
    struct weir_sim *sim;
    struct weir_sim_peer *peer[PEERS];
    uint8_t data[BYTES];
};

static enum kind kind_of(unsigned i) {
    return (enum kind)((i + current) % KINDS);
}

static bool settled(void *user) {
    struct world *w = user;
    const uint8_t *got;
    for (unsigned i = 0; i < PEERS; i++)
        if (weir_sim_peer_state(w->peer[i]) == 0 && weir_sim_peer_got(w->peer[i], &got) < BYTES)
            return false;
    return true;
}

static void check_answers(struct world *w, bool may_break) {
    for (unsigned i = 0; i < PEERS; i++) {
        const uint8_t *got;
        size_t n = weir_sim_peer_got(w->peer[i], &got);
        if (!good(kind_of(i))) {
            assert_int_equal(n, 0);
            assert_true(weir_sim_peer_state(w->peer[i]) < 0);
            continue;
        }
        if (n)
            assert_memory_equal(got, w->data, n);
        assert_true(n == BYTES || may_break);
    }
}

static void one(uint64_t seed) {
    static struct world w;
    static const struct weir_proxy_options po = {
        .size = sizeof po, .header_ms = HEADER_MS, .refused = on_refused};
    static const struct weir_stage line[] = {{&weir_proxy_handler, &po}, {&app, NULL}};
    struct weir_sim_options o = {.size = sizeof o,
                                 .seed = seed,
                                 .loops = 1 + seed % 3,
                                 .segment_max = seed % 4 ? 1400 : 7,
                                 .delay_us_max = 20000,
                                 .reset_ppm = seed % 2 ? 2000 : 0,
                                 .enomem_ppm = seed % 3 ? 0 : 5000};
    struct weir_server_options so = {.size = sizeof so,
                                     .address = "10.0.0.1:7",
                                     .stages = line,
                                     .n_stages = 2,
                                     .limits = {.high_bytes = 4096, .low_bytes = 1024}};
    struct weir_server *server;
    current = seed;
    memset(&w, 0, sizeof w);
    assert_non_null(w.sim = weir_sim_new(&o));
    assert_int_equal(weir_serve(weir_sim_group(w.sim), &so, &server), 0);
    for (size_t i = 0; i < BYTES; i++)
        w.data[i] = (uint8_t)(i * 31 + seed);
    for (unsigned i = 0; i < PEERS; i++) {
        uint8_t head[200];
        size_t n = header(kind_of(i), head);
        w.peer[i] = weir_sim_dial(w.sim, "10.0.0.1:7");
        if (n)
            assert_int_equal(weir_sim_peer_send(w.peer[i], head, n), 0);
        if (kind_of(i) != SILENT && kind_of(i) != HALF)
            assert_int_equal(weir_sim_peer_send(w.peer[i], w.data, BYTES), 0);
    }
    if (seed % 5) {
        assert_int_equal(weir_sim_run(w.sim, 60000, settled, &w), 1);
        check_answers(&w, o.reset_ppm != 0);
    } else {
        weir_sim_run(w.sim, seed % 40, NULL, NULL); /* the end comes at any moment */
    }
    weir_group_stop(weir_sim_group(w.sim), seed % 2 ? 1000 : 0);
    assert_int_equal(weir_group_join(weir_sim_group(w.sim)), 0);
    assert_int_equal(weir_sim_free(w.sim), 0);
}

static void only_headers_are_heard(void **state) {
    (void)state;
    const char *only = getenv("WEIR_SEED");
    if (only) {
        one(strtoull(only, NULL, 10));
        return;
    }
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        one(seed);
    print_message("served %u, refused %u broken, %u late, %u other\n", served, refused[0],
                  refused[1], refused[2]);
    assert_true(served > SEEDS && refused[0] > SEEDS && refused[1] > SEEDS);
}

static int say_seed(void **state) {
    (void)state;
    print_message("last seed %llu (WEIR_SEED replays one)\n", (unsigned long long)current);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(only_headers_are_heard, say_seed),
    };
    return cmocka_run_group_tests_name("sim/proxy", tests, NULL, NULL);
}
