/* linkd on both ends with a heartbeat, a peer that answers and one that has died: who answers stays
 * connected for hours of virtual time, who does not is gone in time. */
#include "weir/linkd.h"
#include "weir/sim.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

enum { BEAT_MS = 1000, HOURS_MS = 3 * 3600 * 1000, SEEDS = 20 };

static int echo_call(struct weir_linkd_call *x, void *user) {
    (void)user;
    return weir_linkd_answer(x, weir_linkd_payload(x));
}

static const struct weir_linkd_service echo = {.name = "echo", .call = echo_call};
static const struct weir_linkd_route route = {.handler = &echo};
static const struct weir_linkd_server_options server_options = {
    .size = sizeof server_options, .routes = &route, .n_routes = 1, .heartbeat_ms = BEAT_MS};

static bool alive;
static int ended;

static void client_open(struct weir_linkd_client *k, void *user) {
    (void)k, (void)user;
    alive = true;
}

static void client_close(struct weir_linkd_client *k, int why, void *user) {
    (void)k, (void)user;
    alive = false;
    ended = why;
}

static const struct weir_linkd_client_options client_options = {.size = sizeof client_options,
                                                                .open = client_open,
                                                                .close = client_close,
                                                                .heartbeat_ms = BEAT_MS * 7 / 10,
                                                                .heartbeat_missed_max = 2};

static void connected(struct weir_chan *ch, int status, void *user) {
    (void)ch, (void)user;
    assert_int_equal(status, 0);
}

static void dial(struct weir_loop *l, void *user) {
    static const struct weir_stage line[] = {{&weir_linkd_client_handler, &client_options}};
    struct weir_client_options o = {
        .size = sizeof o, .address = user, .stages = line, .n_stages = 1};
    assert_int_equal(weir_connect(l, &o, connected, NULL), 0);
}

static struct weir_sim *world(uint64_t seed) {
    struct weir_sim_options o = {
        .size = sizeof o, .seed = seed, .loops = 1 + seed % 3, .delay_us_max = 50000};
    struct weir_sim *s = weir_sim_new(&o);
    assert_non_null(s);
    alive = false;
    ended = 0;
    return s;
}

static void end(struct weir_sim *s) {
    weir_group_stop(weir_sim_group(s), 1000);
    assert_int_equal(weir_group_join(weir_sim_group(s)), 0);
    assert_int_equal(weir_sim_free(s), 0);
}

static void serve(struct weir_sim *s) {
    static const struct weir_stage line[] = {{&weir_linkd_server, &server_options}};
    struct weir_server_options so = {
        .size = sizeof so, .address = "10.0.0.1:7", .stages = line, .n_stages = 1};
    struct weir_server *server;
    assert_int_equal(weir_serve(weir_sim_group(s), &so, &server), 0);
}

static void two_that_answer_stay(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct weir_sim *s = world(seed);
        serve(s);
        assert_int_equal(weir_loop_post(weir_group_loop(weir_sim_group(s), 0), dial, "10.0.0.1:7"),
                         0);
        assert_int_equal(weir_sim_run(s, HOURS_MS, NULL, NULL), 0);
        assert_true(alive);
        end(s);
    }
}

static bool gone(void *user) {
    return weir_sim_peer_state(user) != 0;
}

/* It reads what it is asked, and says nothing. */
static void a_dead_client_is_found(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct weir_sim *s = world(seed);
        serve(s);
        struct weir_sim_peer *p = weir_sim_dial(s, "10.0.0.1:7");
        assert_int_equal(weir_sim_run(s, 4 * BEAT_MS - 10, gone, p), 0);
        assert_int_equal(weir_sim_run(s, 1500, gone, p), 1);
        const uint8_t *got;
        assert_int_equal(weir_sim_peer_got(p, &got), 3 * WEIR_LINKD_HEAD_BYTES + 20);
        assert_int_equal(got[3], WEIR_LINKD_PING);
        end(s);
    }
}

static bool dead(void *user) {
    (void)user;
    return ended != 0;
}

static void a_dead_server_is_found(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct weir_sim *s = world(seed);
        assert_non_null(weir_sim_listen(s, "10.0.0.9:9"));
        assert_int_equal(weir_loop_post(weir_group_loop(weir_sim_group(s), 0), dial, "10.0.0.9:9"),
                         0);
        assert_int_equal(weir_sim_run(s, 60000, dead, NULL), 1);
        assert_int_equal(ended, WEIR_ETIMEDOUT);
        end(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_that_answer_stay),
        cmocka_unit_test(a_dead_client_is_found),
        cmocka_unit_test(a_dead_server_is_found),
    };
    return cmocka_run_group_tests_name("sim/heartbeat", tests, NULL, NULL);
}
