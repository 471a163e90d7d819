#include "world.h"
#include "io/sim/net.h"

static struct weir__iosim_stream *established(struct world *w) {
    struct weir__iosim_stream *st = weir__iosim_stream_new(w->net);
    st->end[0].up = st->end[1].up = true;
    return st;
}

static size_t put(struct weir__iosim_end *e, uint64_t left) {
    size_t n = weir__iosim_end_cut(e, left);
    if (n)
        weir__iosim_end_put(e, weir__iosim_seg_new(e->stream->net, n));
    return n;
}

static void close_both(struct weir__iosim_stream *st) {
    weir__iosim_end_close(&st->end[0], false);
    weir__iosim_end_close(&st->end[1], false);
}

static void the_window_fills_and_is_given_back_by_reading(void **state) {
    (void)state;
    struct world w;
    struct weir__iosim_options o = {.seed = 1, .window_bytes = 5000, .segment_max = 1000};
    uint8_t out[5000];
    size_t n, sent = 0;
    world_open(&w, &o);
    struct weir__iosim_stream *st = established(&w);
    while ((n = put(&st->end[0], 9000 - sent)))
        sent += n;
    assert_int_equal(sent, 5000);
    assert_int_equal(st->end[0].transit, 5000);
    run_dry(&w);
    assert_int_equal(st->end[0].transit, 0);
    assert_int_equal(st->end[1].in_bytes, 5000);
    assert_int_equal(put(&st->end[0], 1), 0); /* arrived is not read */
    assert_int_equal(weir__iosim_end_take(&st->end[1], out, 3000), 3000);
    assert_int_equal(put(&st->end[0], 1), 0); /* and the window takes its time to come back */
    run_dry(&w);
    assert_int_equal(st->end[0].used, 2000);
    assert_true(put(&st->end[0], 1) > 0);
    close_both(st);
    assert_int_equal(world_close(&w), 0);
}

static void parked_bytes_open_the_window_once(void **state) {
    (void)state;
    struct world w;
    struct weir__iosim_options o = {.seed = 1, .window_bytes = 5000};
    uint8_t out[5000];
    size_t n, sent = 0;
    world_open(&w, &o);
    struct weir__iosim_stream *st = established(&w);
    while ((n = put(&st->end[0], 5000 - sent)))
        sent += n;
    run_dry(&w);
    while (!weir__iosim_end_park(&st->end[1]))
        ;
    run_dry(&w);
    uint64_t parked = st->end[1].parked;
    assert_int_equal(st->end[0].used, 5000 - parked);
    assert_int_equal(weir__iosim_end_take(&st->end[1], out, sizeof out), 5000);
    run_dry(&w);
    assert_int_equal(st->end[1].parked, 0);
    assert_int_equal(st->end[0].used, 0);
    close_both(st);
    assert_int_equal(world_close(&w), 0);
}

static void order_holds_within_a_direction(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct world w;
        struct weir__iosim_options o = {.seed = seed, .delay_us_max = 100000};
        uint8_t out[200];
        world_open(&w, &o);
        struct weir__iosim_stream *st = established(&w);
        for (int i = 0; i < 200; i++) {
            struct weir__iosim_seg *seg = weir__iosim_seg_new(w.net, 1);
            seg->data[0] = (uint8_t)i;
            weir__iosim_end_put(&st->end[0], seg);
        }
        weir__iosim_end_fin(&st->end[0]);
        run_dry(&w);
        assert_true(st->end[1].in_fin);
        assert_int_equal(weir__iosim_end_take(&st->end[1], out, 200), 200);
        for (int i = 0; i < 200; i++)
            assert_int_equal(out[i], i);
        close_both(st);
        assert_int_equal(world_close(&w), 0);
    }
}

static void a_reset_may_overtake_and_then_takes_the_rest_with_it(void **state) {
    (void)state;
    int cut = 0, whole = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct world w;
        struct weir__iosim_options o = {.seed = seed};
        world_open(&w, &o);
        struct weir__iosim_stream *st = established(&w);
        for (int i = 0; i < 10; i++)
            weir__iosim_end_put(&st->end[0], weir__iosim_seg_new(w.net, 1));
        weir__iosim_end_close(&st->end[0], true);
        run_dry(&w);
        assert_int_equal(st->end[1].error, WEIR_ERESET);
        assert_false(st->end[1].in_fin);
        assert_in_range(st->end[1].in_bytes, 0, 10);
        *(st->end[1].in_bytes < 10 ? &cut : &whole) += 1;
        weir__iosim_end_close(&st->end[1], false);
        assert_int_equal(world_close(&w), 0);
    }
    assert_true(cut > 10 && whole > 10);
}

static void bytes_for_a_closed_end_are_answered_with_a_reset(void **state) {
    (void)state;
    struct world w;
    uint64_t faults[WEIR__IOSIM_FAULTS];
    world_open(&w, NULL);
    struct weir__iosim_stream *st = established(&w);
    weir__iosim_end_close(&st->end[1], false);
    run_dry(&w);
    assert_true(st->end[0].in_fin);
    weir__iosim_end_put(&st->end[0], weir__iosim_seg_new(w.net, 1));
    run_dry(&w);
    assert_int_equal(st->end[0].error, WEIR_ERESET);
    weir__iosim_faults(w.net, faults);
    assert_int_equal(faults[WEIR__IOSIM_RESET_LATE], 1);
    weir__iosim_end_close(&st->end[0], false);
    assert_int_equal(world_close(&w), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_window_fills_and_is_given_back_by_reading),
        cmocka_unit_test(parked_bytes_open_the_window_once),
        cmocka_unit_test(order_holds_within_a_direction),
        cmocka_unit_test(a_reset_may_overtake_and_then_takes_the_rest_with_it),
        cmocka_unit_test(bytes_for_a_closed_end_are_answered_with_a_reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
