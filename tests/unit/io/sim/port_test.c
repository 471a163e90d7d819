#include "world.h"

static struct weir__io_done connect_result(struct world *w, const char *at) {
    struct weir__io_sock *s;
    assert_int_equal(connect_to(w, 1, at, NULL, &s), 0);
    struct weir__io_done d = pulled(w, 1);
    assert_int_equal(d.kind, WEIR__IO_CONNECTED);
    close_now(w, 1, s, false);
    return d;
}

static void nobody_listening_is_refused(void **state) {
    (void)state;
    struct world w;
    world_open(&w, NULL);
    assert_int_equal(connect_result(&w, "10.0.0.1:9").code, WEIR_EREFUSED);
    assert_int_equal(world_close(&w), 0);
}

static void a_full_backlog_is_tried_again_and_then_times_out(void **state) {
    (void)state;
    struct world w;
    struct weir__iosim_options o = {.seed = 3, .backlog_max = 1};
    uint64_t faults[WEIR__IOSIM_FAULTS];
    world_open(&w, &o);
    struct weir__io_sock *l = listen_on(&w, 0, "10.0.0.1:80");
    assert_int_equal(connect_result(&w, "10.0.0.1:80").code, 0);
    assert_int_equal(connect_result(&w, "10.0.0.1:80").code, WEIR_ETIMEDOUT);
    weir__iosim_faults(w.net, faults);
    assert_int_equal(faults[WEIR__IOSIM_BACKLOG_FULL], 6);
    close_now(&w, 0, l, false);
    assert_int_equal(world_close(&w), 0);
}

static void an_address_is_used_once_unless_all_share_it(void **state) {
    (void)state;
    struct world w;
    world_open(&w, NULL);
    const struct weir__io_ops *ops = w.io[0]->ops;
    struct weir__io_listen o = {.addr = addr("10.0.0.1:80"), .handle = -1, .reuse_port = true};
    struct weir__io_sock *a, *b, *c;
    assert_int_equal(ops->listen(w.io[0], &o, NULL, &a), 0);
    assert_int_equal(ops->listen(w.io[1], &o, NULL, &b), 0);
    o.claim_ms = 1000;
    assert_int_equal(ops->listen(w.io[0], &o, NULL, &c), WEIR_EINUSE);
    o.claim_ms = 0;
    o.reuse_port = false;
    assert_int_equal(ops->listen(w.io[0], &o, NULL, &c), WEIR_EINUSE);
    o.addr = addr("*:80");
    assert_int_equal(ops->listen(w.io[0], &o, NULL, &c), WEIR_EINUSE);
    o.addr = addr("10.0.0.1:0");
    assert_int_equal(ops->listen(w.io[0], &o, NULL, &c), 0);
    struct weir_addr at;
    assert_int_equal(ops->local(w.io[0], c, &at), 0);
    assert_int_not_equal(at.port, 0);
    close_now(&w, 0, a, false);
    close_now(&w, 1, b, false);
    close_now(&w, 0, c, false);
    assert_int_equal(world_close(&w), 0);
}

static void shared_listeners_all_get_some(void **state) {
    (void)state;
    struct world w;
    world_open(&w, NULL);
    struct weir__io_listen o = {.addr = addr("10.0.0.1:80"), .handle = -1, .reuse_port = true};
    struct weir__io_sock *l[DOORS];
    int n[DOORS] = {0};
    for (int i = 0; i < DOORS; i++) {
        assert_int_equal(w.io[i]->ops->listen(w.io[i], &o, NULL, &l[i]), 0);
        assert_int_equal(w.io[i]->ops->accept_arm(w.io[i], l[i], -1), 0);
    }
    for (int i = 0; i < 100; i++)
        weir__iosim_dial(w.net, &o.addr);
    run_dry(&w);
    for (int i = 0; i < DOORS; i++) {
        struct weir__io_done d;
        for (; w.io[i]->ops->next(w.io[i], &d); n[i]++)
            w.io[i]->ops->drop(w.io[i], d.handle);
        close_now(&w, i, l[i], false);
    }
    assert_int_equal(n[0] + n[1], 100);
    assert_in_range(n[0], 20, 80);
    assert_int_equal(world_close(&w), 0);
}

static void closing_a_listener_resets_its_queue(void **state) {
    (void)state;
    struct world w;
    world_open(&w, NULL);
    struct weir_addr at = addr("10.0.0.1:80");
    struct weir__io_sock *l = listen_on(&w, 0, "10.0.0.1:80");
    struct weir__iosim_peer *p = weir__iosim_dial(w.net, &at);
    run_dry(&w);
    assert_int_equal(weir__iosim_peer_state(p), 0);
    close_now(&w, 0, l, false);
    run_dry(&w);
    assert_int_equal(weir__iosim_peer_state(p), WEIR_ERESET);
    assert_int_equal(world_close(&w), 0);
}

static void handles_run_out_and_come_back(void **state) {
    (void)state;
    struct world w;
    struct weir__iosim_options o = {.seed = 5, .emfile_at = 2};
    world_open(&w, &o);
    const struct weir__io_ops *ops = w.io[0]->ops;
    struct weir_addr at = addr("10.0.0.1:80");
    struct weir__io_sock *l = listen_on(&w, 0, "10.0.0.1:80"), *s;
    weir__iosim_dial(w.net, &at);
    struct weir__iosim_peer *second = weir__iosim_dial(w.net, &at);
    run_dry(&w);
    assert_int_equal(ops->accept_arm(w.io[0], l, -1), 0);
    struct weir__io_done d = pulled(&w, 0);
    assert_false(d.last);
    intptr_t handle = d.handle;
    d = pulled(&w, 0);
    assert_true(d.last);
    assert_int_equal(d.code, WEIR_EFDS);
    assert_int_equal(connect_to(&w, 1, "10.0.0.1:80", NULL, &s), WEIR_EFDS);
    ops->drop(w.io[0], handle);
    assert_int_equal(ops->accept_arm(w.io[0], l, 1), 0); /* who waited is still there */
    d = pulled(&w, 0);
    assert_false(d.last);
    assert_int_equal(weir__iosim_peer_state(second), 0);
    ops->drop(w.io[0], d.handle);
    close_now(&w, 0, l, false);
    assert_int_equal(world_close(&w), 0);
}

/* --- datagrams ------------------------------------------------------------------------------- */

static struct weir__io_sock *bind_on(struct world *w, int d, const char *at) {
    struct weir__io_listen o = {.addr = addr(at), .handle = -1, .datagram = true};
    struct weir__io_sock *s;
    assert_int_equal(w->io[d]->ops->listen(w->io[d], &o, NULL, &s), 0);
    return s;
}

static unsigned exchange(const struct weir__iosim_options *o, unsigned n, bool *ordered) {
    struct world w;
    world_open(&w, o);
    struct weir__io_sock *a = bind_on(&w, 0, "10.0.0.1:5"), *b = bind_on(&w, 1, "10.0.0.2:6");
    struct weir_addr to = addr("10.0.0.2:6"), from = addr("10.0.0.1:5");
    for (unsigned i = 0; i < n; i++) {
        struct weir__io_message m = {.to = to};
        fill(w.mem[0], &m.chain, i, 1 + i % 40);
        assert_int_equal(w.io[0]->ops->send_dgram(w.io[0], a, &m, 1), 0);
        struct weir__io_done d = pulled(&w, 0);
        assert_int_equal(d.kind, WEIR__IO_SENT);
        assert_int_equal(d.count, 1);
        weir_chain_fini(&m.chain);
    }
    assert_int_equal(w.io[1]->ops->recv_dgram_arm(w.io[1], b, 0), 0);
    run_dry(&w);
    struct weir__io_done d;
    unsigned got = 0;
    for (uint64_t expected = 0; w.io[1]->ops->next(w.io[1], &d); got++) {
        assert_int_equal(d.kind, WEIR__IO_DGRAM);
        assert_true(weir__base_addr_equal(&d.peer, &from));
        if (d.slice.n != 1 + expected % 40)
            *ordered = false;
        expected++;
        weir_slice_release(&d.slice);
    }
    close_now(&w, 0, a, false);
    close_now(&w, 1, b, false);
    assert_int_equal(world_close(&w), 0);
    return got;
}

static void datagrams_keep_their_edges_and_arrive_in_order(void **state) {
    (void)state;
    bool ordered = true;
    assert_int_equal(exchange(NULL, 100, &ordered), 100);
    assert_true(ordered);
}

static void datagrams_are_lost_and_overtaken_when_asked(void **state) {
    (void)state;
    bool ordered = true;
    struct weir__iosim_options lossy = {.seed = 2, .loss_ppm = 300000},
                               mixed = {.seed = 2, .reorder_ppm = 500000};
    assert_in_range(exchange(&lossy, 100, &ordered), 50, 90);
    ordered = true;
    assert_int_equal(exchange(&mixed, 100, &ordered), 100);
    assert_false(ordered);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_listening_is_refused),
        cmocka_unit_test(a_full_backlog_is_tried_again_and_then_times_out),
        cmocka_unit_test(an_address_is_used_once_unless_all_share_it),
        cmocka_unit_test(shared_listeners_all_get_some),
        cmocka_unit_test(closing_a_listener_resets_its_queue),
        cmocka_unit_test(handles_run_out_and_come_back),
        cmocka_unit_test(datagrams_keep_their_edges_and_arrive_in_order),
        cmocka_unit_test(datagrams_are_lost_and_overtaken_when_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
