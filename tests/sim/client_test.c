/* Clients and an echo server in one group of several loops, under refusals, resets and full
 * backlogs; what a client sends goes through refs, from loops that are not its own. */
#include "weir/chan.h"
#include "weir/sim.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CLIENTS = 8, MESSAGES = 40, MESSAGE_BYTES = 300, SEEDS = 200 };

static uint64_t current;

struct client {
    struct run *run;
    struct weir_loop *loop, *sender;
    struct weir_ref ref;
    int status, closes, why, opens;
    unsigned sent;
    uint64_t got;
    bool connected, closed;
};

struct run {
    struct weir_sim *sim;
    struct client client[CLIENTS];
};

static int echo_read(struct weir_ctx *c, struct weir_chain *in) {
    return weir_ctx_send(c, in);
}
static const struct weir_handler echo = {.name = "echo", .read = echo_read};

static uint8_t byte_at(uint64_t off) {
    return (uint8_t)(off * 7 ^ off >> 8);
}

static int client_open(struct weir_ctx *c, const void *config) {
    struct client *k = (struct client *)(uintptr_t)config;
    *(struct client **)weir_ctx_state(c) = k;
    k->opens++;
    return 0;
}

static int client_read(struct weir_ctx *c, struct weir_chain *in) {
    struct client *k = *(struct client **)weir_ctx_state(c);
    uint8_t b;
    while (in->bytes) {
        assert_int_equal(weir_chain_read(in, 0, &b, 1), 0);
        assert_int_equal(b, byte_at(k->got));
        k->got++;
        weir_chain_drop(in, 1);
    }
    if (k->got == MESSAGES * MESSAGE_BYTES)
        weir_chan_close(weir_ctx_chan(c), WEIR_DRAIN);
    return 0;
}

static void client_close(struct weir_ctx *c, int why) {
    struct client *k = *(struct client **)weir_ctx_state(c);
    k->closes++;
    k->why = why;
}

static const struct weir_handler handler = {
    .name = "client",
    .state_size = sizeof(struct client *),
    .open = client_open,
    .read = client_read,
    .close = client_close,
};

/* On another loop than the channel's: one message, then itself again. */
static void send_one(struct weir_loop *l, void *user) {
    struct client *k = user;
    struct weir_chain c = {0};
    uint8_t *p = weir_chain_reserve(weir_loop_mem(l), &c, MESSAGE_BYTES);
    assert_non_null(p);
    for (unsigned i = 0; i < MESSAGE_BYTES; i++)
        p[i] = byte_at((uint64_t)k->sent * MESSAGE_BYTES + i);
    weir_chain_commit(&c, MESSAGE_BYTES);
    if (weir_send(k->ref, &c) < 0) {
        weir_chain_fini(&c);
        return;
    }
    if (++k->sent < MESSAGES)
        assert_int_equal(weir_loop_post(l, send_one, k), 0);
}

static void on_connect(struct weir_chan *ch, int status, void *user) {
    struct client *k = user;
    assert_false(k->connected);
    k->connected = true;
    k->status = status;
    if (status < 0) {
        assert_null(ch);
        return;
    }
    k->ref = weir_chan_ref(ch);
    assert_int_equal(weir_loop_post(k->sender, send_one, k), 0);
}

static void begin(struct weir_loop *l, void *user) {
    struct client *k = user;
    struct weir_stage line[] = {{&handler, k}};
    struct weir_client_options o = {
        .size = sizeof o, .address = "10.0.0.1:7", .stages = line, .n_stages = 1};
    int rc = weir_connect(l, &o, on_connect, k);
    if (rc < 0) {
        k->connected = true;
        k->status = rc;
    }
}

static bool settled(void *user) {
    const struct run *r = user;
    for (int i = 0; i < CLIENTS; i++) {
        const struct client *k = &r->client[i];
        if (!k->connected || k->closes < k->opens)
            return false;
    }
    return true;
}

static void check_client(const struct client *k, const struct weir_sim_options *o) {
    assert_true(k->connected);
    assert_int_equal(k->opens, k->closes);
    assert_in_range(k->got, 0, MESSAGES * MESSAGE_BYTES);
    if (k->status < 0)
        assert_int_equal(k->opens, 0);
    if (!o->reset_ppm && !o->refuse_ppm) {
        assert_int_equal(k->status, 0);
        assert_int_equal(k->got, MESSAGES * MESSAGE_BYTES);
        assert_int_equal(k->why, 0);
    }
}

static uint64_t one(uint64_t seed) {
    static struct run r;
    static struct weir_stage line[] = {{&echo, NULL}};
    struct weir_sim_options o = {.size = sizeof o,
                                 .seed = seed,
                                 .loops = 2 + seed % 3,
                                 .segment_max = 600,
                                 .delay_us_max = 5000,
                                 .reset_ppm = seed % 2 ? 3000 : 0,
                                 .refuse_ppm = seed % 4 == 1 ? 300000 : 0,
                                 .enomem_ppm = seed % 3 ? 0 : 3000,
                                 .backlog_max = seed % 5 ? 0 : 1,
                                 .window_bytes = 4000};
    struct weir_server_options so = {
        .size = sizeof so, .address = "10.0.0.1:7", .stages = line, .n_stages = 1};
    struct weir_server *server;
    memset(&r, 0, sizeof r);
    r.sim = weir_sim_new(&o);
    assert_non_null(r.sim);
    struct weir_group *g = weir_sim_group(r.sim);
    assert_int_equal(weir_serve(g, &so, &server), 0);
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct client *k = &r.client[i];
        k->run = &r;
        k->loop = weir_group_loop(g, i % o.loops);
        k->sender = weir_group_loop(g, (i + 1) % o.loops);
        assert_int_equal(weir_loop_post(k->loop, begin, k), 0);
    }
    assert_int_equal(weir_sim_run(r.sim, 120000, settled, &r), 1);
    for (unsigned i = 0; i < CLIENTS; i++)
        check_client(&r.client[i], &o);
    weir_group_stop(g, 1000);
    assert_int_equal(weir_group_join(g), 0);
    uint64_t trace = weir_sim_trace(r.sim);
    assert_int_equal(weir_sim_free(r.sim), 0);
    return trace;
}

static void clients_on_every_seed(void **state) {
    const char *only = getenv("WEIR_SEED");
    (void)state;
    if (only) {
        one(current = strtoull(only, NULL, 10));
        return;
    }
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        current = seed;
        uint64_t trace = one(seed);
        if (seed % 50 == 0)
            assert_int_equal(trace, one(seed));
    }
}

static int say_seed(void **state) {
    (void)state;
    print_message("last seed %llu (WEIR_SEED replays one)\n", (unsigned long long)current);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(clients_on_every_seed, say_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
