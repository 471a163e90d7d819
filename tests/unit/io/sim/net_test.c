#include "world.h"

static void time_moves_only_when_told(void **state) {
    (void)state;
    struct world w;
    world_open(&w, NULL);
    uint64_t start = weir__iosim_now(w.net);
    assert_int_equal(weir__iosim_next_ns(w.net), UINT64_MAX);
    weir__iosim_advance(w.net, start + 500);
    assert_int_equal(w.io[0]->ops->now(w.io[0]), start + 500);
    weir__iosim_advance(w.net, start); /* never backwards */
    assert_int_equal(weir__iosim_now(w.net), start + 500);
    assert_int_equal(world_close(&w), 0);
}

static void burning_moves_the_clock_and_runs_nothing(void **state) {
    (void)state;
    struct world w;
    struct weir_addr at = addr("10.0.0.1:80");
    world_open(&w, NULL);
    uint64_t start = weir__iosim_now(w.net);
    struct weir__iosim_peer *p = weir__iosim_dial(w.net, &at);
    weir__iosim_burn(w.net, 1000000);
    assert_int_equal(weir__iosim_now(w.net), start + 1000000000);
    assert_int_equal(weir__iosim_peer_state(p), 0);
    assert_true(weir__iosim_next_ns(w.net) < weir__iosim_now(w.net));
    run_dry(&w);
    assert_int_equal(weir__iosim_peer_state(p), WEIR_EREFUSED);
    assert_int_equal(world_close(&w), 0);
}

static void a_seed_is_one_sequence(void **state) {
    (void)state;
    uint64_t drawn[2][100];
    for (int k = 0; k < 2; k++) {
        struct world w;
        struct weir__iosim_options o = {.seed = 77};
        world_open(&w, &o);
        for (int i = 0; i < 100; i += 2) {
            drawn[k][i] = weir__iosim_draw(w.net, 1000);
            drawn[k][i + 1] = w.io[i / 2 % 2]->ops->entropy(w.io[i / 2 % 2]);
            assert_in_range(drawn[k][i], 0, 999);
        }
        assert_int_equal(world_close(&w), 0);
    }
    assert_memory_equal(drawn[0], drawn[1], sizeof drawn[0]);
}

static void every_fault_has_a_name_and_starts_at_zero(void **state) {
    (void)state;
    struct world w;
    uint64_t faults[WEIR__IOSIM_FAULTS];
    world_open(&w, NULL);
    weir__iosim_faults(w.net, faults);
    for (int i = 0; i < WEIR__IOSIM_FAULTS; i++) {
        assert_non_null(weir__iosim_fault_name((enum weir__iosim_fault)i));
        assert_int_equal(faults[i], 0);
    }
    assert_null(weir__iosim_fault_name(WEIR__IOSIM_FAULTS));
    assert_int_equal(world_close(&w), 0);
}

static void what_is_on_its_way_at_the_end_is_freed(void **state) {
    (void)state;
    struct world w;
    struct weir_addr at = addr("10.0.0.1:80");
    world_open(&w, NULL);
    assert_non_null(weir__iosim_peer_listen(w.net, &at));
    struct weir__iosim_peer *p = weir__iosim_dial(w.net, &at);
    weir__iosim_peer_send(p, "some bytes", 10);
    weir__iosim_advance(w.net, weir__iosim_next_ns(w.net));
    weir__iosim_advance(w.net, weir__iosim_next_ns(w.net));
    assert_int_equal(world_close(&w), 0); /* net_free asserts that its own memory is back */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_moves_only_when_told),
        cmocka_unit_test(burning_moves_the_clock_and_runs_nothing),
        cmocka_unit_test(a_seed_is_one_sequence),
        cmocka_unit_test(every_fault_has_a_name_and_starts_at_zero),
        cmocka_unit_test(what_is_on_its_way_at_the_end_is_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
