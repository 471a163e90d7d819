/* One listener that hands its connections to all loops, in virtual time: level loops, stops in the
 * middle of a storm, and the descriptor wall. Each seed is one integer that replays. */
#include "weir/chan.h"
#include "weir/sim.h"
#include "weir/stats.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { SEEDS = 400, PEERS = 40 };

static uint64_t current;

static int echo_read(struct weir_ctx *c, struct weir_chain *in) {
    return weir_ctx_send(c, in);
}
static const struct weir_handler echo = {.name = "echo", .read = echo_read};

struct run {
    struct weir_sim *sim;
    struct weir_group *g;
    unsigned n; /* peers that were dialled */
    struct weir_sim_peer *peer[PEERS];
};

static void run_open(struct run *r, const struct weir_sim_options *o) {
    static const struct weir_stage line[] = {{&echo, NULL}};
    struct weir_server_options so = {.size = sizeof so,
                                     .address = "10.0.0.1:7",
                                     .stages = line,
                                     .n_stages = 1,
                                     .placement = WEIR_HANDOFF};
    struct weir_server *server;
    memset(r, 0, sizeof *r);
    r->sim = weir_sim_new(o);
    assert_non_null(r->sim);
    r->g = weir_sim_group(r->sim);
    assert_int_equal(weir_serve(r->g, &so, &server), 0);
}

static void dial(struct run *r) {
    r->peer[r->n] = weir_sim_dial(r->sim, "10.0.0.1:7");
    assert_int_equal(weir_sim_peer_send(r->peer[r->n], "ping", 4), 0);
    r->n++;
}

static struct weir_loop_stats stats_of(const struct run *r, unsigned i) {
    struct weir_loop_stats s;
    assert_int_equal(weir_group_loop_stats(r->g, i, &s), 0);
    return s;
}

static bool answered(void *user) {
    struct run *r = user;
    const uint8_t *got;
    for (unsigned i = 0; i < r->n; i++)
        if (weir_sim_peer_state(r->peer[i]) == 0 && weir_sim_peer_got(r->peer[i], &got) < 4)
            return false;
    return true;
}

static void assert_level(const struct run *r) {
    uint64_t least = UINT64_MAX, most = 0;
    for (unsigned i = 0; i < weir_group_loops(r->g); i++) {
        uint64_t n = stats_of(r, i).channels;
        least = n < least ? n : least;
        most = n > most ? n : most;
    }
    assert_true(most - least <= 1);
}

static uint64_t run_close(struct run *r, uint32_t drain_ms) {
    weir_group_stop(r->g, drain_ms);
    assert_int_equal(weir_group_join(r->g), 0);
    uint64_t trace = weir_sim_trace(r->sim);
    assert_int_equal(weir_sim_free(r->sim), 0);
    return trace;
}

static const struct weir_sim_options *weather(uint64_t seed, struct weir_sim_options *o) {
    *o = (struct weir_sim_options){.size = sizeof *o,
                                   .seed = seed,
                                   .loops = 2 + seed % 4,
                                   .delay_us_max = seed % 2 ? 50 : 3000};
    return o;
}

/* --- scenarios ------------------------------------------------------------------------------- */

static uint64_t one_by_one(uint64_t seed) {
    struct run r;
    struct weir_sim_options o;
    run_open(&r, weather(seed, &o));
    while (r.n < PEERS) {
        dial(&r);
        assert_int_equal(weir_sim_run(r.sim, 60000, answered, &r), 1);
        assert_level(&r);
    }
    return run_close(&r, 5000);
}

/* All at once: what is in transit counts too, so the loops are level here as well. */
static uint64_t at_once(uint64_t seed) {
    struct run r;
    struct weir_sim_options o;
    run_open(&r, weather(seed, &o));
    while (r.n < PEERS)
        dial(&r);
    assert_int_equal(weir_sim_run(r.sim, 60000, answered, &r), 1);
    assert_level(&r);
    return run_close(&r, 5000);
}

/* A drain that begins at any moment of a storm answers everybody who was let in: the first bytes of
 * who came last, whole or not. */
static uint64_t drained(uint64_t seed) {
    struct run r;
    struct weir_sim_options o;
    run_open(&r, weather(seed, &o));
    for (unsigned i = 0; i < PEERS; i++) {
        dial(&r);
        if (i % 4 == seed % 4)
            weir_sim_run(r.sim, 0, NULL, NULL);
    }
    weir_sim_run(r.sim, seed % 7, NULL, NULL);
    uint64_t begun = weir_sim_now(r.sim);
    weir_group_stop(r.g, 20000);
    assert_int_equal(weir_group_join(r.g), 0);
    assert_true(weir_sim_now(r.sim) - begun < 5000000000); /* no loop waits for nothing */
    uint64_t opened = 0, heard = 0;
    for (unsigned i = 0; i < weir_group_loops(r.g); i++) {
        assert_int_equal(stats_of(&r, i).handed_lost, 0);
        opened += stats_of(&r, i).opened;
    }
    for (unsigned i = 0; i < PEERS; i++) {
        const uint8_t *got;
        bool answer = weir_sim_peer_got(r.peer[i], &got) > 0;
        assert_true(answer || weir_sim_peer_state(r.peer[i]) < 0);
        heard += answer;
    }
    assert_int_equal(heard, opened);
    uint64_t trace = weir_sim_trace(r.sim);
    assert_int_equal(weir_sim_free(r.sim), 0);
    return trace;
}

static unsigned lost;

/* An abort at any moment leaks nothing; weir_sim_free counts. */
static uint64_t aborted(uint64_t seed) {
    struct run r;
    struct weir_sim_options o;
    run_open(&r, weather(seed, &o));
    while (r.n < PEERS)
        dial(&r);
    bool (*never)(void *) = answered;
    if (seed % 3)
        weir_sim_run(r.sim, seed % 11 / 4, never, &r);
    weir_group_stop(r.g, seed % 2);
    assert_int_equal(weir_group_join(r.g), 0);
    for (unsigned i = 0; i < weir_group_loops(r.g); i++)
        lost += (unsigned)stats_of(&r, i).handed_lost;
    uint64_t trace = weir_sim_trace(r.sim);
    assert_int_equal(weir_sim_free(r.sim), 0);
    return trace;
}

static bool refused(void *user) {
    return stats_of(user, 0).refused_fds > 0;
}

/* Out of descriptors: who is in is served, who waits is served when somebody leaves. */
static uint64_t walled(uint64_t seed) {
    struct run r;
    struct weir_sim_options o;
    weather(seed, &o);
    o.emfile_at = 8;
    run_open(&r, &o);
    while (r.n < 20)
        dial(&r);
    assert_int_equal(weir_sim_run(r.sim, 60000, refused, &r), 1);
    for (unsigned gone = 0; gone < r.n;) {
        const uint8_t *got;
        assert_int_equal(weir_sim_run(r.sim, 1000, NULL, NULL), 0);
        for (unsigned i = 0; i < r.n; i++)
            if (r.peer[i] && weir_sim_peer_got(r.peer[i], &got) == 4) {
                weir_sim_peer_close(r.peer[i]);
                r.peer[i] = NULL;
                gone++;
            }
    }
    return run_close(&r, 5000);
}

static void over_seeds(uint64_t (*one)(uint64_t seed)) {
    const char *only = getenv("WEIR_SEED");
    if (only) {
        one(current = strtoull(only, NULL, 10));
        return;
    }
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        current = seed;
        uint64_t trace = one(seed);
        if (seed % 100 == 0)
            assert_int_equal(trace, one(seed));
    }
}

static void loops_stay_level_one_by_one(void **state) {
    (void)state;
    over_seeds(one_by_one);
}

static void loops_stay_level_in_a_storm(void **state) {
    (void)state;
    over_seeds(at_once);
}

static void a_drain_loses_nobody(void **state) {
    (void)state;
    over_seeds(drained);
}

static void an_abort_leaks_nothing(void **state) {
    (void)state;
    lost = 0;
    over_seeds(aborted);
    if (!getenv("WEIR_SEED"))
        assert_true(lost > 0); /* else no seed has aborted a loop with a handle on its way */
}

static void the_wall_keeps_nobody_out_for_good(void **state) {
    (void)state;
    over_seeds(walled);
}

static int say_seed(void **state) {
    (void)state;
    print_message("last seed %llu (WEIR_SEED replays one)\n", (unsigned long long)current);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(loops_stay_level_one_by_one, say_seed),
        cmocka_unit_test_teardown(loops_stay_level_in_a_storm, say_seed),
        cmocka_unit_test_teardown(a_drain_loses_nobody, say_seed),
        cmocka_unit_test_teardown(an_abort_leaks_nothing, say_seed),
        cmocka_unit_test_teardown(the_wall_keeps_nobody_out_for_good, say_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
