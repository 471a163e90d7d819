/* A handler under test in a simulated world: virtual time, every transfer cut at random,
 * connections that break. The code under test is opened by the same calls as on a real network; one
 * integer replays a whole run. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir.h>
#include <weir/sim.h> /* for tests, so not in weir.h */

enum { SEEDS = 200, BYTES = 200000 };

static int echo_read(struct weir_ctx *c, struct weir_chain *in) {
    return weir_ctx_send(c, in);
}

static const struct weir_handler echo = {.name = "echo", .read = echo_read};

static bool settled(void *peer) {
    const uint8_t *bytes;
    return weir_sim_peer_got(peer, &bytes) == BYTES || weir_sim_peer_state(peer) < 0;
}

/* What came back is always a prefix of what was sent; all of it unless the connection was reset. */
static bool answered(struct weir_sim *sim, const uint8_t *data) {
    const uint8_t *got;
    struct weir_sim_peer *p = weir_sim_dial(sim, "10.0.0.1:7");
    if (!p || weir_sim_peer_send(p, data, BYTES) < 0 || weir_sim_run(sim, 60000, settled, p) != 1)
        return false;
    size_t n = weir_sim_peer_got(p, &got);
    return (n == 0 || memcmp(got, data, n) == 0) && (n == BYTES || weir_sim_peer_state(p) < 0);
}

static bool echo_survives(uint64_t seed) {
    static uint8_t data[BYTES];
    struct weir_sim_options so = {.size = sizeof so,
                                  .seed = seed,
                                  .loops = 2,
                                  .segment_max = 1400,
                                  .delay_us_max = 20000,
                                  .reset_ppm = 50};
    const struct weir_stage line[] = {{&echo, NULL}};
    struct weir_server_options o = {
        .size = sizeof o,
        .address = "10.0.0.1:7",
        .stages = line,
        .n_stages = 1,
        .limits = {.high_bytes = 4096, .low_bytes = 1024},
    };
    struct weir_server *s;
    struct weir_sim *sim = weir_sim_new(&so);
    if (!sim)
        return false;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 31 + seed);
    bool good = weir_serve(weir_sim_group(sim), &o, &s) >= 0 && answered(sim, data);
    weir_group_stop(weir_sim_group(sim), 1000);
    weir_sim_run(sim, 2000, NULL, NULL);
    return weir_sim_free(sim) == 0 && good; /* 0: nothing leaked */
}

int main(int argc, char **argv) {
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 0) : 1, last = argc > 1 ? first : SEEDS;
    for (uint64_t seed = first; seed <= last; seed++)
        if (!echo_survives(seed)) {
            printf("seed %" PRIu64 " failed: run this program with it as its argument\n", seed);
            return 1;
        }
    printf("%" PRIu64 " seeds passed\n", last - first + 1);
    return 0;
}
