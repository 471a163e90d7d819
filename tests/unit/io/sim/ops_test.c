#include "world.h"
#include "mem/file.h"

static const struct weir__io_ops *ops_of(struct world *w, int d) {
    return w->io[d]->ops;
}

static void close_all(struct world *w, struct weir__io_sock *s[3]) {
    close_now(w, 0, s[0], false);
    close_now(w, 1, s[1], false);
    close_now(w, 0, s[2], false);
    assert_int_equal(world_close(w), 0);
}

static void arguments_outside_the_contract_are_refused(void **state) {
    (void)state;
    struct world w;
    struct weir__io_sock *s[3], *x;
    struct weir_chain c = {0};
    world_open(&w, NULL);
    connected(&w, "10.0.0.1:80", s);
    const struct weir__io_ops *ops = ops_of(&w, 0);
    struct weir__io *io = w.io[0];
    assert_int_equal(ops->recv_arm(io, s[0], 0), WEIR_EBUG);
    assert_int_equal(ops->recv_arm(io, s[2], 1), WEIR_EBUG);
    assert_int_equal(ops->accept_arm(io, s[2], 0), WEIR_EBUG);
    assert_int_equal(ops->accept_arm(io, s[0], 1), WEIR_EBUG);
    assert_int_equal(ops->recv_dgram_arm(io, s[0], 0), WEIR_EBUG);
    assert_int_equal(ops->send(io, s[0], &c), WEIR_EBUG);
    for (int i = 0; i < 65; i++) {
        struct weir_slice one = {(uint8_t *)(uintptr_t) "x", 1, NULL};
        assert_int_equal(weir_chain_add(w.mem[0], &c, &one), 0);
    }
    assert_int_equal(ops->send(io, s[0], &c), WEIR_EBUG);
    weir_chain_drop(&c, 1);
    assert_int_equal(ops->send(io, s[0], &c), 0);
    assert_int_equal(ops->send(io, s[0], &c), WEIR_EBUG);
    assert_int_equal(ops->shutdown(io, s[0]), WEIR_EBUG);
    assert_int_equal(pulled(&w, 0).kind, WEIR__IO_SENT);
    assert_int_equal(ops->watch(io, 0, WEIR__IO_WATCH_READ, NULL, &x), WEIR_ENOTSUP);
    assert_int_equal(ops->attach(io, 77, NULL, &x), WEIR_EINVAL);
    assert_int_equal(ops->attach(io, ops->handle(io, s[0]), NULL, &x), WEIR_EINVAL);
    weir_chain_fini(&c);
    close_all(&w, s);
}

static void after_close_everything_is_gone(void **state) {
    (void)state;
    struct world w;
    struct weir__io_sock *s[3];
    struct weir_chain c = {0};
    struct weir_addr a;
    world_open(&w, NULL);
    connected(&w, "10.0.0.1:80", s);
    fill(w.mem[1], &c, 0, 10);
    struct weir__io *io = w.io[1];
    assert_int_equal(io->ops->recv_arm(io, s[1], -1), 0);
    io->ops->close(io, s[1], false);
    assert_int_equal(io->ops->recv_arm(io, s[1], -1), WEIR_EGONE);
    assert_int_equal(io->ops->send(io, s[1], &c), WEIR_EGONE);
    assert_int_equal(io->ops->shutdown(io, s[1]), WEIR_EGONE);
    assert_int_equal(io->ops->local(io, s[1], &a), WEIR_EGONE);
    assert_int_equal(io->ops->peer(io, s[1], &a), WEIR_EGONE);
    assert_int_equal(io->ops->parked(io, s[1]), WEIR_EGONE);
    assert_int_equal(io->ops->unsent(io, s[1]), WEIR_EGONE);
    struct weir__io_done d = pulled(&w, 1);
    assert_true(d.last && d.kind == WEIR__IO_RECEIVED);
    assert_int_equal(pulled(&w, 1).kind, WEIR__IO_CLOSED);
    weir_chain_fini(&c);
    close_now(&w, 0, s[0], false);
    close_now(&w, 0, s[2], false);
    assert_int_equal(world_close(&w), 0);
}

/* close(false) lets the send end by itself; close(true) on top of it does not. */
static void a_send_in_flight_outlives_a_close_but_not_an_abort(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct world w;
        struct weir__io_sock *s[3];
        struct weir_chain c = {0};
        struct weir__io_done d;
        struct weir__iosim_options o = {.seed = seed, .window_bytes = 1000};
        world_open(&w, &o);
        connected(&w, "10.0.0.1:80", s);
        fill(w.mem[1], &c, 0, 5000);
        assert_int_equal(w.io[1]->ops->send(w.io[1], s[1], &c), 0);
        w.io[1]->ops->close(w.io[1], s[1], false);
        assert_false(pull(&w, 1, &d)); /* nobody reads */
        if (seed % 2) {
            w.io[1]->ops->close(w.io[1], s[1], true);
        } else {
            assert_int_equal(w.io[0]->ops->recv_arm(w.io[0], s[0], 5000), 0);
            for (uint64_t got = 0; got < 5000; got += d.slice.n, weir_slice_release(&d.slice)) {
                d = pulled(&w, 0);
                same(d.slice.p, d.slice.n, got);
            }
        }
        d = pulled(&w, 1);
        assert_int_equal(d.kind, WEIR__IO_SENT);
        assert_int_equal(d.code, seed % 2 ? WEIR_ECANCELLED : 0);
        assert_int_equal(d.count, seed % 2 ? 1000 : 5000);
        assert_int_equal(pulled(&w, 1).kind, WEIR__IO_CLOSED);
        weir_chain_fini(&c);
        close_now(&w, 0, s[0], false);
        close_now(&w, 0, s[2], false);
        assert_int_equal(world_close(&w), 0);
    }
}

static void what_a_cancel_parks_comes_first_and_never_over_the_credit(void **state) {
    (void)state;
    int seen = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct world w;
        struct weir__io_sock *s[3];
        struct weir__iosim_options o = {.seed = seed, .enomem_ppm = 1000000};
        world_open(&w, &o);
        connected(&w, "10.0.0.1:80", s);
        struct weir_chain c = {0};
        fill(w.mem[1], &c, 0, 3000);
        assert_int_equal(w.io[1]->ops->send(w.io[1], s[1], &c), 0);
        run_dry(&w);
        struct weir__io *io = w.io[0];
        assert_int_equal(io->ops->recv_arm(io, s[0], -1), 0);
        io->ops->cancel(io, s[0], WEIR__IO_RECV);
        struct weir__io_done d = pulled(&w, 0);
        assert_int_equal(d.code, WEIR_ECANCELLED);
        int64_t parked = io->ops->parked(io, s[0]);
        assert_in_range(parked, 0, 3000);
        if (parked > 5) {
            seen++;
            assert_int_equal(io->ops->recv_arm(io, s[0], 5), 0);
            for (uint64_t got = 0; got < 5; got += d.slice.n, weir_slice_release(&d.slice)) {
                d = pulled(&w, 0); /* parked bytes need no buffer, so this arm never starves */
                assert_false(d.last);
                same(d.slice.p, d.slice.n, got);
            }
            assert_int_equal(pulled(&w, 0).code, WEIR__IO_CREDIT);
            assert_int_equal(io->ops->parked(io, s[0]), parked - 5);
        }
        weir_chain_fini(&c);
        close_all(&w, s);
    }
    assert_true(seen > 10);
}

static void parked_connections_come_first_or_go_with_the_listener(void **state) {
    (void)state;
    int seen = 0;
    struct weir_addr at = addr("10.0.0.1:80");
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct world w;
        struct weir__iosim_options o = {.seed = seed};
        world_open(&w, &o);
        struct weir__io *io = w.io[0];
        struct weir__io_sock *l = listen_on(&w, 0, "10.0.0.1:80");
        for (int i = 0; i < 5; i++)
            weir__iosim_dial(w.net, &at);
        run_dry(&w);
        assert_int_equal(io->ops->accept_arm(io, l, -1), 0);
        io->ops->cancel(io, l, WEIR__IO_ACCEPT);
        struct weir__io_done d = pulled(&w, 0);
        assert_true(d.last);
        assert_int_equal(d.code, WEIR_ECANCELLED);
        int64_t parked = io->ops->parked(io, l);
        seen += parked > 0;
        if (seed % 2 && parked) {
            assert_int_equal(io->ops->accept_arm(io, l, 1), 0);
            d = pulled(&w, 0);
            assert_false(d.last);
            assert_int_equal(io->ops->parked(io, l), parked - 1);
            io->ops->drop(io, d.handle);
        }
        close_now(&w, 0, l, false);
        assert_int_equal(world_close(&w), 0);
    }
    assert_true(seen > 10);
}

static void files_are_sent_and_found_shorter(void **state) {
    (void)state;
    struct world w;
    struct weir__io_sock *s[3];
    static uint8_t bytes[5000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 31 ^ i >> 8);
    world_open(&w, NULL);
    connected(&w, "10.0.0.1:80", s);
    struct weir__io *io = w.io[1];
    struct weir_file *f = weir__mem_file_new(w.mem[1], -1, sizeof bytes, NULL, NULL);
    weir__iosim_file_content(w.net, f, bytes, sizeof bytes);
    assert_int_equal(io->ops->send_file(io, s[1], f, 100, 4000), 0);
    struct weir__io_done d = pulled(&w, 1);
    assert_int_equal(d.code, 0);
    assert_int_equal(d.count, 4000);
    assert_int_equal(w.io[0]->ops->recv_arm(w.io[0], s[0], 4000), 0);
    for (uint64_t got = 0; got < 4000; got += d.slice.n, weir_slice_release(&d.slice)) {
        d = pulled(&w, 0);
        same(d.slice.p, d.slice.n, 100 + got);
    }
    assert_int_equal(pulled(&w, 0).code, WEIR__IO_CREDIT);
    weir__iosim_file_content(w.net, f, bytes, 1000);
    assert_int_equal(io->ops->send_file(io, s[1], f, 100, 4000), 0);
    d = pulled(&w, 1);
    assert_int_equal(d.code, WEIR_ETRUNCATED);
    assert_int_equal(d.count, 900);
    assert_int_equal(io->ops->send_file(io, s[1], f, 100, 4000), WEIR_ERESET);
    weir__iosim_file_forget(w.net, f);
    weir_file_release(f);
    close_all(&w, s);
}

static void addresses_match_from_both_sides(void **state) {
    (void)state;
    struct world w;
    struct weir__io_sock *s[3];
    struct weir_addr a, b;
    world_open(&w, NULL);
    connected(&w, "10.0.0.1:80", s);
    assert_int_equal(w.io[0]->ops->peer(w.io[0], s[0], &a), 0);
    assert_int_equal(w.io[1]->ops->local(w.io[1], s[1], &b), 0);
    assert_true(weir__base_addr_equal(&a, &b));
    assert_int_equal(w.io[0]->ops->local(w.io[0], s[0], &a), 0);
    assert_int_equal(w.io[1]->ops->peer(w.io[1], s[1], &b), 0);
    assert_true(weir__base_addr_equal(&a, &b));
    close_all(&w, s);
}

static void no_memory_opens_nothing(void **state) {
    (void)state;
    struct world w;
    struct weir__io_sock *s;
    struct weir__io_listen o = {.addr = addr("10.0.0.1:80"), .handle = -1};
    world_open(&w, NULL);
    weir__mem_fail(w.mem[0], 1, true);
    assert_int_equal(w.io[0]->ops->listen(w.io[0], &o, NULL, &s), WEIR_ENOMEM);
    assert_int_equal(connect_to(&w, 0, "10.0.0.1:80", NULL, &s), WEIR_ENOMEM);
    weir__mem_fail(w.mem[0], 0, false);
    run_dry(&w);
    assert_int_equal(weir__iosim_open(w.net), 0);
    assert_int_equal(world_close(&w), 0);
}

static void what_is_left_open_is_counted(void **state) {
    (void)state;
    struct world w;
    struct weir__io_sock *s[3];
    world_open(&w, NULL);
    connected(&w, "10.0.0.1:80", s);
    assert_int_equal(w.io[1]->ops->recv_arm(w.io[1], s[1], -1), 0);
    close_now(&w, 0, s[2], false);
    assert_int_equal(world_close(&w), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_outside_the_contract_are_refused),
        cmocka_unit_test(after_close_everything_is_gone),
        cmocka_unit_test(a_send_in_flight_outlives_a_close_but_not_an_abort),
        cmocka_unit_test(what_a_cancel_parks_comes_first_and_never_over_the_credit),
        cmocka_unit_test(parked_connections_come_first_or_go_with_the_listener),
        cmocka_unit_test(files_are_sent_and_found_shorter),
        cmocka_unit_test(addresses_match_from_both_sides),
        cmocka_unit_test(no_memory_opens_nothing),
        cmocka_unit_test(what_is_left_open_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
