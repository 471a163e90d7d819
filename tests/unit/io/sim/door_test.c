#include "world.h"

static void a_wait_says_whether_it_would_sleep(void **state) {
    (void)state;
    struct world w;
    world_open(&w, NULL);
    struct weir__io *io = w.io[0];
    uint64_t now = io->ops->now(io);
    assert_int_equal(io->ops->wait(io, 0), 0);
    assert_int_equal(io->ops->wait(io, now), 0);
    assert_int_equal(io->ops->wait(io, now + 1000), 1);
    assert_int_equal(weir__iosim_until(io), now + 1000);
    weir__iosim_sleep(io);
    weir__iosim_advance(w.net, now + 1000);
    assert_int_equal(io->ops->wait(io, 0), 1); /* it slept before this call */
    assert_int_equal(io->ops->wait(io, 0), 0);
    assert_false(weir__iosim_due(io));
    io->ops->wake(io);
    assert_true(weir__iosim_due(io));
    assert_int_equal(io->ops->wait(io, UINT64_MAX), 0); /* the wake is used up here */
    assert_int_equal(io->ops->wait(io, UINT64_MAX), 1);
    assert_int_equal(world_close(&w), 0);
}

static void no_send_ends_in_the_turn_it_was_made(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct world w;
        struct weir__io_sock *s[3];
        struct weir_chain c = {0};
        struct weir__io_done d;
        struct weir__iosim_options o = {.seed = seed};
        world_open(&w, &o);
        connected(&w, "10.0.0.1:80", s);
        assert_false(w.io[1]->sends_inline);
        fill(w.mem[1], &c, 0, 1);
        assert_int_equal(w.io[1]->ops->send(w.io[1], s[1], &c), 0);
        assert_false(w.io[1]->ops->next(w.io[1], &d));
        assert_int_equal(pulled(&w, 1).kind, WEIR__IO_SENT);
        weir_chain_fini(&c);
        close_now(&w, 0, s[0], true);
        close_now(&w, 1, s[1], true);
        close_now(&w, 0, s[2], true);
        assert_int_equal(world_close(&w), 0);
    }
}

static void sockets_end_in_any_order(void **state) {
    (void)state;
    enum { N = 8 };
    int first[N] = {0}, marks[N];
    struct weir_addr at = addr("10.0.0.1:80");
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct world w;
        struct weir__iosim_options o = {.seed = seed};
        world_open(&w, &o);
        assert_non_null(weir__iosim_peer_listen(w.net, &at));
        struct weir__io_sock *s[N];
        for (int i = 0; i < N; i++)
            assert_int_equal(connect_to(&w, 0, "10.0.0.1:80", &marks[i], &s[i]), 0);
        run_dry(&w);
        for (int i = 0; i < N; i++) {
            struct weir__io_done d = pulled(&w, 0);
            if (i == 0)
                first[(int *)d.user - marks]++;
        }
        for (int i = 0; i < N; i++)
            close_now(&w, 0, s[i], true);
        assert_int_equal(world_close(&w), 0);
    }
    for (int i = 0; i < N; i++)
        assert_in_range(first[i], 1, 50);
}

static void before_start_a_close_ends_at_once(void **state) {
    (void)state;
    struct world w;
    struct weir__io *io;
    struct weir__io_done d;
    world_open(&w, NULL);
    struct weir__io_config c = {.mem = w.mem[0], .slots = slots_of(0)};
    assert_int_equal(weir__iosim_door_new(w.net, &c, &io), 0);
    struct weir__io_listen o = {.addr = addr("10.0.0.1:80"), .handle = -1};
    struct weir__io_sock *s;
    assert_int_equal(io->ops->listen(io, &o, NULL, &s), 0);
    io->ops->close(io, s, false);
    assert_true(io->ops->next(io, &d));
    assert_int_equal(d.kind, WEIR__IO_CLOSED);
    assert_false(io->ops->next(io, &d));
    io->ops->free(io);
    assert_int_equal(world_close(&w), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_says_whether_it_would_sleep),
        cmocka_unit_test(no_send_ends_in_the_turn_it_was_made),
        cmocka_unit_test(sockets_end_in_any_order),
        cmocka_unit_test(before_start_a_close_ends_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
