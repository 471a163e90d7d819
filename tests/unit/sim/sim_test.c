#include "weir/sim.h"
#include "weir/stats.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static struct weir_sim *world(uint64_t seed, unsigned loops) {
    struct weir_sim_options o = {.size = sizeof o, .seed = seed, .loops = loops};
    struct weir_sim *s = weir_sim_new(&o);
    assert_non_null(s);
    return s;
}

static void end(struct weir_sim *s) {
    weir_group_stop(weir_sim_group(s), 100);
    assert_int_equal(weir_group_join(weir_sim_group(s)), 0);
    assert_int_equal(weir_sim_free(s), 0);
}

static void options_are_checked(void **state) {
    (void)state;
    struct weir_sim_options o = {.size = 1};
    const char *why;
    assert_null(weir_sim_new(&o));
    o.size = sizeof o + 1;
    assert_null(weir_sim_new(&o));
    o.size = sizeof o;
    o.loops = 1000000;
    assert_null(weir_sim_new(&o));
    struct weir_sim *s = weir_sim_new(NULL);
    assert_int_equal(weir_group_loops(weir_sim_group(s)), 1);
    assert_string_equal(weir_group_transport(weir_sim_group(s), &why), "sim");
    assert_null(weir_sim_dial(s, "no address"));
    assert_null(weir_sim_listen(s, "no address"));
    assert_int_equal(weir_sim_free(s), 0); /* also when it never ran */
}

static void faults_have_names(void **state) {
    (void)state;
    struct weir_sim *s = world(1, 1);
    const char *name;
    unsigned n = 0;
    for (;; n++) {
        assert_int_equal(weir_sim_fault(s, n, &name), 0);
        if (!name)
            break;
    }
    assert_in_range(n, 10, 100);
    end(s);
}

/* --- timers and time ------------------------------------------------------------------------- */

struct clock {
    struct weir_sim *sim;
    struct weir_loop *loop;
    struct weir_timer timer;
    uint64_t fired_ns;
    uint64_t burn_us;
};

static void on_timer(struct weir_timer *t) {
    struct clock *c = (struct clock *)((char *)t - offsetof(struct clock, timer));
    c->fired_ns = weir_sim_now(c->sim);
    weir_sim_burn(c->sim, c->burn_us);
}

static void arm(struct weir_loop *l, void *user) {
    struct clock *c = user;
    weir_timer_arm(l, &c->timer, weir_loop_now(l) + 250000000, on_timer);
}

static bool fired(void *user) {
    return ((struct clock *)user)->fired_ns != 0;
}

static void a_timer_fires_in_virtual_time(void **state) {
    (void)state;
    struct clock c = {.sim = world(2, 1)};
    uint64_t before = weir_sim_now(c.sim);
    c.loop = weir_group_loop(weir_sim_group(c.sim), 0);
    assert_int_equal(weir_loop_post(c.loop, arm, &c), 0);
    assert_int_equal(weir_sim_run(c.sim, 100, fired, &c), 0);
    assert_int_equal(weir_sim_now(c.sim), before + 100000000);
    assert_int_equal(weir_sim_run(c.sim, 1000, fired, &c), 1);
    assert_in_range(c.fired_ns - before, 250000000, 252000000);
    end(c.sim);
}

static void nothing_to_wait_for_is_said(void **state) {
    (void)state;
    struct clock c = {.sim = world(2, 2)};
    assert_int_equal(weir_sim_run(c.sim, 1000000000, fired, &c), WEIR_ESTOPPED);
    assert_int_equal(weir_sim_run(c.sim, 1000, NULL, NULL), 0);
    end(c.sim);
}

static void burnt_time_is_the_loops_busy_time(void **state) {
    (void)state;
    struct clock c = {.sim = world(2, 1), .burn_us = 5000};
    struct weir_loop_stats stats;
    c.loop = weir_group_loop(weir_sim_group(c.sim), 0);
    assert_int_equal(weir_loop_post(c.loop, arm, &c), 0);
    assert_int_equal(weir_sim_run(c.sim, 1000, fired, &c), 1);
    assert_int_equal(weir_group_loop_stats(weir_sim_group(c.sim), 0, &stats), 0);
    assert_in_range(stats.turn_max_ns, 5000000, 5100000);
    end(c.sim);
}

/* The same number for the same seed: a turn of a quarter of a second, and one just short enough. */
static void long_turns_are_counted(void **state) {
    static const struct {
        uint64_t burn_us;
        unsigned long_turns;
    } rows[] = {{250000, 1}, {99000, 0}};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct clock c = {.sim = world(2, 1), .burn_us = rows[i].burn_us};
        struct weir_group *g = weir_sim_group(c.sim);
        struct weir_pause_stats pauses[WEIR_PAUSES];
        struct weir_long_turn t;
        c.loop = weir_group_loop(g, 0);
        assert_int_equal(weir_loop_post(c.loop, arm, &c), 0);
        assert_int_equal(weir_sim_run(c.sim, 1000, fired, &c), 1);
        assert_int_equal(weir_group_pause_stats(g, 0, pauses), 0);
        assert_true(pauses[WEIR_PAUSE_TURN].known);
        assert_false(pauses[WEIR_PAUSE_RUN_QUEUE].known);
        assert_int_equal(pauses[WEIR_PAUSE_TURN].count, rows[i].long_turns);
        assert_int_equal(pauses[WEIR_PAUSE_TURN].total_ns, pauses[WEIR_PAUSE_TURN].longest_ns);
        if (rows[i].long_turns)
            assert_in_range(pauses[WEIR_PAUSE_TURN].longest_ns, 250000000, 250100000);
        assert_int_equal(weir_group_long_turns(g, &t, 1), 0); /* nobody takes pictures here */
        end(c.sim);
    }
}

static void an_armed_timer_is_a_leak(void **state) {
    (void)state;
    struct clock c = {.sim = world(2, 1)};
    c.loop = weir_group_loop(weir_sim_group(c.sim), 0);
    assert_int_equal(weir_loop_post(c.loop, arm, &c), 0);
    assert_int_equal(weir_sim_run(c.sim, 10, NULL, NULL), 0);
    weir_group_stop(weir_sim_group(c.sim), 0);
    assert_int_equal(weir_group_join(weir_sim_group(c.sim)), 0);
    assert_int_equal(weir_sim_free(c.sim), 1);
}

/* --- loops ----------------------------------------------------------------------------------- */

struct ring {
    struct weir_group *group;
    unsigned left;
    uint64_t order;
};

static void hop(struct weir_loop *l, void *user) {
    struct ring *r = user;
    unsigned next = (weir_loop_index(l) + 1) % weir_group_loops(r->group);
    r->order = r->order * 31 + weir_loop_index(l) + weir_loop_now(l);
    if (r->left && --r->left)
        assert_int_equal(weir_loop_post(weir_group_loop(r->group, next), hop, r), 0);
}

static bool around(void *user) {
    return ((struct ring *)user)->left == 0;
}

static uint64_t ring(uint64_t seed) {
    struct weir_sim *s = world(seed, 3);
    struct ring r = {.group = weir_sim_group(s), .left = 100};
    assert_int_equal(weir_loop_post(weir_group_loop(r.group, 0), hop, &r), 0);
    assert_int_equal(weir_sim_run(s, 1000, around, &r), 1);
    end(s);
    return r.order;
}

static void posts_reach_sleeping_loops_and_replay(void **state) {
    (void)state;
    assert_int_equal(ring(5), ring(5));
    assert_int_not_equal(ring(5), ring(6));
}

static void the_group_runs_until_it_is_stopped(void **state) {
    (void)state;
    struct weir_sim *s = world(1, 4);
    assert_int_equal(weir_group_start(weir_sim_group(s)), 0);
    weir_group_stop(weir_sim_group(s), 10);
    assert_int_equal(weir_group_run(weir_sim_group(s)), 0);
    struct ring r = {.group = weir_sim_group(s)};
    assert_int_equal(weir_loop_post(weir_group_loop(r.group, 0), hop, &r), WEIR_ESTOPPED);
    assert_int_equal(weir_sim_free(s), 0);
}

/* --- peers ----------------------------------------------------------------------------------- */

static bool ended(void *user) {
    return weir_sim_peer_state(user) != 0;
}

static void raw_peers_talk_to_each_other(void **state) {
    (void)state;
    struct weir_sim *s = world(3, 1);
    const uint8_t *got;
    struct weir_sim_peer *l = weir_sim_listen(s, "10.0.0.1:80");
    assert_null(weir_sim_listen(s, "10.0.0.1:80"));
    struct weir_sim_peer *a = weir_sim_dial(s, "10.0.0.1:80"),
                         *lost = weir_sim_dial(s, "10.0.0.2:80");
    assert_int_equal(weir_sim_peer_send(a, "hello", 5), 0);
    weir_sim_peer_shutdown(a);
    assert_int_equal(weir_sim_run(s, 1000, ended, lost), 1);
    assert_int_equal(weir_sim_peer_state(lost), WEIR_EREFUSED);
    assert_int_equal(weir_sim_run(s, 10, NULL, NULL), 0);
    struct weir_sim_peer *b = weir_sim_accept(l);
    assert_non_null(b);
    assert_int_equal(weir_sim_run(s, 1000, ended, b), 1);
    assert_int_equal(weir_sim_peer_got(b, &got), 5);
    assert_memory_equal(got, "hello", 5);
    assert_int_equal(weir_sim_peer_sent(a), 5);
    weir_sim_peer_read(a, 0, 0);
    weir_sim_peer_reset_at(b, 2);
    assert_int_equal(weir_sim_peer_send(b, "bye", 3), 0);
    assert_int_equal(weir_sim_run(s, 1000, ended, b), 1);
    weir_sim_peer_read(a, 1, 100);
    assert_int_equal(weir_sim_run(s, 1000, ended, a), 1);
    assert_int_equal(weir_sim_peer_state(a), WEIR_ERESET);
    weir_sim_peer_close(l);
    weir_sim_peer_reset(a);
    assert_int_not_equal(weir_sim_trace(s), 0);
    end(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(faults_have_names),
        cmocka_unit_test(a_timer_fires_in_virtual_time),
        cmocka_unit_test(nothing_to_wait_for_is_said),
        cmocka_unit_test(burnt_time_is_the_loops_busy_time),
        cmocka_unit_test(long_turns_are_counted),
        cmocka_unit_test(an_armed_timer_is_a_leak),
        cmocka_unit_test(posts_reach_sleeping_loops_and_replay),
        cmocka_unit_test(the_group_runs_until_it_is_stopped),
        cmocka_unit_test(raw_peers_talk_to_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
