#include "world.h"

static uint8_t data[30000];

/* A dialled peer and the socket that accepted it. */
static struct weir__iosim_peer *dialled(struct world *w, struct weir__io_sock **out,
                                        struct weir__io_sock **listener) {
    struct weir_addr at = addr("10.0.0.1:80");
    const struct weir__io_ops *ops = w->io[0]->ops;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 31 ^ i >> 8);
    *listener = listen_on(w, 0, "10.0.0.1:80");
    assert_int_equal(ops->accept_arm(w->io[0], *listener, 1), 0);
    struct weir__iosim_peer *p = weir__iosim_dial(w->net, &at);
    intptr_t handle = pulled(w, 0).handle;
    assert_int_equal(pulled(w, 0).code, WEIR__IO_CREDIT);
    assert_int_equal(ops->attach(w->io[0], handle, NULL, out), 0);
    return p;
}

/* Receives until the last of the arm: its code. */
static int drain(struct world *w, struct weir__io_sock *s, uint64_t *got) {
    assert_int_equal(w->io[0]->ops->recv_arm(w->io[0], s, -1), 0);
    for (;;) {
        struct weir__io_done d = pulled(w, 0);
        if (d.last)
            return d.code;
        same(d.slice.p, d.slice.n, *got);
        *got += d.slice.n;
        weir_slice_release(&d.slice);
    }
}

static void finish(struct world *w, struct weir__io_sock *s, struct weir__io_sock *l) {
    close_now(w, 0, s, false);
    close_now(w, 0, l, false);
    assert_int_equal(world_close(w), 0);
}

static void bytes_then_end(void **state) {
    (void)state;
    struct world w;
    struct weir__io_sock *s, *l;
    uint64_t got = 0;
    world_open(&w, NULL);
    struct weir__iosim_peer *p = dialled(&w, &s, &l);
    assert_int_equal(weir__iosim_peer_send(p, data, sizeof data), 0);
    weir__iosim_peer_shutdown(p);
    assert_int_equal(weir__iosim_peer_send(p, data, 1), WEIR_EGONE);
    assert_int_equal(drain(&w, s, &got), WEIR__IO_EOF);
    assert_int_equal(got, sizeof data);
    assert_int_equal(drain(&w, s, &got), WEIR__IO_EOF); /* latched */
    finish(&w, s, l);
}

static void a_reset_comes_behind_what_arrived(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct world w;
        struct weir__io_sock *s, *l;
        uint64_t got = 0;
        struct weir__iosim_options o = {.seed = seed};
        world_open(&w, &o);
        struct weir__iosim_peer *p = dialled(&w, &s, &l);
        weir__iosim_peer_reset_at(p, 7000);
        weir__iosim_peer_send(p, data, sizeof data);
        assert_int_equal(drain(&w, s, &got), WEIR_ERESET);
        assert_int_equal(weir__iosim_peer_sent(p), 7000);
        assert_in_range(got, 0, 7000);
        assert_int_equal(weir__iosim_peer_state(p), WEIR_ERESET);
        assert_int_equal(drain(&w, s, &got), WEIR_ERESET);
        finish(&w, s, l);
    }
}

static void send_all(struct world *w, struct weir__io_sock *s, struct weir_chain *c) {
    fill(w->mem[0], c, 0, sizeof data);
    assert_int_equal(w->io[0]->ops->send(w->io[0], s, c), 0);
}

static void who_does_not_read_stops_the_sender(void **state) {
    (void)state;
    struct world w;
    struct weir__io_sock *s, *l;
    struct weir__io_done d;
    struct weir_chain c = {0};
    const uint8_t *bytes;
    struct weir__iosim_options o = {.seed = 9, .window_bytes = 4000};
    world_open(&w, &o);
    struct weir__iosim_peer *p = dialled(&w, &s, &l);
    weir__iosim_peer_read(p, 0, 0);
    send_all(&w, s, &c);
    assert_false(pull(&w, 0, &d));
    assert_int_equal(weir__iosim_peer_got(p, &bytes), 0);
    assert_int_equal(w.io[0]->ops->unsent(w.io[0], s), 0); /* acknowledged, unread */
    weir__iosim_peer_read(p, 100, 500);
    uint64_t before = weir__iosim_now(w.net);
    d = pulled(&w, 0);
    assert_int_equal(d.kind, WEIR__IO_SENT);
    assert_int_equal(d.code, 0);
    assert_int_equal(d.count, sizeof data);
    assert_true(weir__iosim_now(w.net) - before >= 500000 * (sizeof data - 4000) / 100);
    run_dry(&w);
    assert_int_equal(weir__iosim_peer_got(p, &bytes), sizeof data);
    same(bytes, sizeof data, 0);
    weir_chain_fini(&c);
    finish(&w, s, l);
}

static void a_reset_fails_the_send_and_what_comes_after(void **state) {
    (void)state;
    struct world w;
    struct weir__io_sock *s, *l;
    struct weir_chain c = {0};
    uint64_t got = 0;
    struct weir__iosim_options o = {.seed = 9, .window_bytes = 4000};
    world_open(&w, &o);
    struct weir__iosim_peer *p = dialled(&w, &s, &l);
    weir__iosim_peer_read(p, 0, 0);
    send_all(&w, s, &c);
    run_dry(&w);
    weir__iosim_peer_reset(p);
    struct weir__io_done d = pulled(&w, 0);
    assert_int_equal(d.kind, WEIR__IO_SENT);
    assert_int_equal(d.code, WEIR_ERESET);
    assert_int_equal(d.count, 4000);
    assert_int_equal(w.io[0]->ops->send(w.io[0], s, &c), WEIR_ERESET);
    assert_int_equal(w.io[0]->ops->shutdown(w.io[0], s), WEIR_ERESET);
    assert_int_equal(drain(&w, s, &got), WEIR_ERESET);
    weir_chain_fini(&c);
    finish(&w, s, l);
}

static void closing_with_unread_input_resets(void **state) {
    (void)state;
    struct world w;
    struct weir__io_sock *s, *l;
    world_open(&w, NULL);
    struct weir__iosim_peer *p = dialled(&w, &s, &l), *q;
    weir__iosim_peer_send(p, "x", 1);
    run_dry(&w);
    close_now(&w, 0, s, false);
    run_dry(&w);
    assert_int_equal(weir__iosim_peer_state(p), WEIR_ERESET);
    close_now(&w, 0, l, false);
    q = dialled(&w, &s, &l);
    close_now(&w, 0, s, false);
    run_dry(&w);
    assert_int_equal(weir__iosim_peer_state(q), 1);
    close_now(&w, 0, l, false);
    assert_int_equal(world_close(&w), 0);
}

static void a_raw_listener_takes_clients(void **state) {
    (void)state;
    struct world w;
    struct weir_addr at = addr("10.0.0.9:7");
    struct weir__io_sock *s;
    struct weir_chain c = {0};
    const uint8_t *bytes;
    world_open(&w, NULL);
    struct weir__iosim_peer *l = weir__iosim_peer_listen(w.net, &at);
    assert_non_null(l);
    assert_null(weir__iosim_peer_listen(w.net, &at));
    assert_null(weir__iosim_peer_accept(l));
    assert_int_equal(connect_to(&w, 0, "10.0.0.9:7", NULL, &s), 0);
    assert_int_equal(w.io[0]->ops->recv_arm(w.io[0], s, -1), WEIR_EBUG); /* not connected yet */
    assert_int_equal(pulled(&w, 0).code, 0);
    struct weir__iosim_peer *p = weir__iosim_peer_accept(l);
    assert_non_null(p);
    send_all(&w, s, &c);
    assert_int_equal(pulled(&w, 0).kind, WEIR__IO_SENT);
    assert_int_equal(w.io[0]->ops->shutdown(w.io[0], s), 0);
    assert_int_equal(w.io[0]->ops->send(w.io[0], s, &c), WEIR_EBUG);
    run_dry(&w);
    assert_int_equal(weir__iosim_peer_got(p, &bytes), sizeof data);
    assert_int_equal(weir__iosim_peer_state(p), 1);
    weir__iosim_peer_close(l);
    close_now(&w, 0, s, false);
    weir_chain_fini(&c);
    assert_int_equal(world_close(&w), 0);
}

static void bandwidth_takes_time(void **state) {
    (void)state;
    struct world w;
    struct weir__io_sock *s, *l;
    uint64_t got = 0;
    struct weir__iosim_options o = {.seed = 4, .bytes_per_s = 100000};
    world_open(&w, &o);
    struct weir__iosim_peer *p = dialled(&w, &s, &l);
    uint64_t before = weir__iosim_now(w.net);
    weir__iosim_peer_send(p, data, sizeof data);
    weir__iosim_peer_shutdown(p);
    assert_int_equal(drain(&w, s, &got), WEIR__IO_EOF);
    uint64_t took = weir__iosim_now(w.net) - before;
    assert_in_range(took, 300000000, 310000000);
    finish(&w, s, l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_then_end),
        cmocka_unit_test(a_reset_comes_behind_what_arrived),
        cmocka_unit_test(who_does_not_read_stops_the_sender),
        cmocka_unit_test(a_reset_fails_the_send_and_what_comes_after),
        cmocka_unit_test(closing_with_unread_input_resets),
        cmocka_unit_test(a_raw_listener_takes_clients),
        cmocka_unit_test(bandwidth_takes_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
