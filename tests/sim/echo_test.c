/* An echo server under every kind of weather, over many seeds. Each seed is one integer that
 * replays. */
#include "weir/chan.h"
#include "weir/sim.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { BYTES = 40000, PEERS = 6, SEEDS = 300 };

static int echo_read(struct weir_ctx *c, struct weir_chain *in) {
    return weir_ctx_send(c, in);
}
static const struct weir_handler echo = {.name = "echo", .read = echo_read};

struct run {
    struct weir_sim *sim;
    struct weir_sim_peer *peer[PEERS];
    uint8_t data[BYTES];
    bool stopped; /* peer 0 has not been told to read yet */
};

static uint64_t faults[64], current;

static bool settled(void *user) {
    struct run *r = user;
    const uint8_t *got;
    for (int i = r->stopped ? 1 : 0; i < PEERS; i++)
        if (weir_sim_peer_state(r->peer[i]) == 0 && weir_sim_peer_got(r->peer[i], &got) < BYTES)
            return false;
    return true;
}

/* What came back is a prefix of what was sent; all of it unless the connection broke. */
static void check_answers(struct run *r, bool may_break) {
    for (int i = 0; i < PEERS; i++) {
        const uint8_t *got;
        size_t n = weir_sim_peer_got(r->peer[i], &got);
        assert_in_range(n, 0, BYTES);
        if (n)
            assert_memory_equal(got, r->data, n);
        if (weir_sim_peer_state(r->peer[i]) >= 0)
            assert_int_equal(n, BYTES);
        else
            assert_true(may_break);
    }
}

static void run_open(struct run *r, const struct weir_sim_options *o) {
    static struct weir_stage line[] = {{&echo, NULL}};
    struct weir_server_options so = {.size = sizeof so,
                                     .address = "10.0.0.1:7",
                                     .stages = line,
                                     .n_stages = 1,
                                     .limits = {.high_bytes = 4096, .low_bytes = 1024}};
    struct weir_server *server;
    memset(r, 0, sizeof *r);
    r->sim = weir_sim_new(o);
    assert_non_null(r->sim);
    assert_int_equal(weir_serve(weir_sim_group(r->sim), &so, &server), 0);
    for (size_t i = 0; i < BYTES; i++)
        r->data[i] = (uint8_t)(i * 31 + o->seed);
    for (int i = 0; i < PEERS; i++) {
        r->peer[i] = weir_sim_dial(r->sim, "10.0.0.1:7");
        assert_int_equal(weir_sim_peer_send(r->peer[i], r->data, BYTES), 0);
    }
}

static uint64_t run_close(struct run *r, uint32_t drain_ms) {
    weir_group_stop(weir_sim_group(r->sim), drain_ms);
    assert_int_equal(weir_group_join(weir_sim_group(r->sim)), 0);
    uint64_t trace = weir_sim_trace(r->sim);
    const char *name;
    for (unsigned i = 0; weir_sim_fault(r->sim, i, &name), name; i++)
        faults[i] += weir_sim_fault(r->sim, i, NULL);
    assert_int_equal(weir_sim_free(r->sim), 0);
    return trace;
}

static uint64_t one(uint64_t seed) {
    static struct run r;
    struct weir_sim_options o = {.size = sizeof o,
                                 .seed = seed,
                                 .loops = 1 + seed % 3,
                                 .segment_max = 1400,
                                 .delay_us_max = 20000,
                                 .reset_ppm = seed % 2 ? 2000 : 0,
                                 .enomem_ppm = seed % 3 ? 0 : 5000,
                                 .emfile_at = seed % 4 ? 0 : 6,
                                 .window_bytes = 8000};
    run_open(&r, &o);
    weir_sim_peer_read(r.peer[0], 0, 0);
    weir_sim_peer_read(r.peer[1], 3000, 7000);
    r.stopped = true;
    int settles = weir_sim_run(r.sim, 120000, settled, &r);
    weir_sim_peer_read(r.peer[0], 1, 0);
    r.stopped = false;
    if (!o.emfile_at) {
        assert_int_equal(settles, 1);
        assert_int_equal(weir_sim_run(r.sim, 120000, settled, &r), 1);
        check_answers(&r, o.reset_ppm != 0);
    }
    return run_close(&r, seed % 5 ? 1000 : 0);
}

static void echo_survives_every_seed(void **state) {
    (void)state;
    const char *only = getenv("WEIR_SEED");
    if (only) {
        one(current = strtoull(only, NULL, 10));
        return;
    }
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        current = seed;
        uint64_t trace = one(seed);
        if (seed % 60 == 0)
            assert_int_equal(trace, one(seed));
    }
    print_message("faults injected:\n");
    const char *name;
    struct weir_sim *s = weir_sim_new(NULL);
    for (unsigned i = 0; weir_sim_fault(s, i, &name), name; i++)
        print_message("  %-16s %llu\n", name, (unsigned long long)faults[i]);
    assert_int_equal(weir_sim_free(s), 0);
}

static int say_seed(void **state) {
    (void)state;
    print_message("last seed %llu (WEIR_SEED replays one)\n", (unsigned long long)current);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(echo_survives_every_seed, say_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
