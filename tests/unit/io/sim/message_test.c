#include "world.h"

static struct weir__io_sock *bind_on(struct world *w, int d, const char *at, bool gro) {
    struct weir__io_listen o = {.handle = -1, .datagram = true, .gro = gro};
    struct weir__io_sock *s;
    o.addr.kind = WEIR__ADDR_UNIX; /* without a name */
    if (at)
        o.addr = addr(at);
    assert_int_equal(w->io[d]->ops->listen(w->io[d], &o, NULL, &s), 0);
    return s;
}

static void send_all(struct world *w, struct weir__io_sock *s, struct weir__io_message *m,
                     unsigned n) {
    for (unsigned done = 0; done < n;) {
        assert_int_equal(w->io[0]->ops->send_dgram(w->io[0], s, m + done, n - done), 0);
        struct weir__io_done d = pulled(w, 0);
        assert_true(d.kind == WEIR__IO_SENT && d.last);
        assert_int_equal(d.code, d.count == n - done ? 0 : WEIR_ENOMEM);
        done += (unsigned)d.count;
    }
}

/* Datagrams of one length join, the shorter one at the end; every seed keeps the order. */
static void equal_datagrams_may_join(void **state) {
    (void)state;
    enum { N = 10, EACH = 50, LAST = 7 };
    unsigned joined = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct world w;
        struct weir__iosim_options o = {.seed = seed, .enomem_ppm = 50000};
        struct weir__io_message m[N] = {0};
        world_open(&w, &o);
        struct weir__io_sock *a = bind_on(&w, 0, "10.0.0.1:5", false);
        struct weir__io_sock *b = bind_on(&w, 1, "10.0.0.2:6", true);
        for (unsigned i = 0; i < N; i++) {
            m[i].to = addr("10.0.0.2:6");
            fill(w.mem[0], &m[i].chain, i * EACH, i + 1 < N ? EACH : LAST);
        }
        send_all(&w, a, m, N);
        assert_int_equal(w.io[1]->ops->recv_dgram_arm(w.io[1], b, 0), 0);
        for (uint64_t at = 0; at < (N - 1) * EACH + LAST;) {
            struct weir__io_done d = pulled(&w, 1);
            if (d.last) {
                assert_int_equal(d.code, WEIR_ENOMEM);
                assert_int_equal(w.io[1]->ops->recv_dgram_arm(w.io[1], b, 0), 0);
                continue;
            }
            assert_int_equal(d.segment_bytes, d.slice.n > EACH ? EACH : 0);
            joined += d.segment_bytes > 0;
            same(d.slice.p, d.slice.n, at);
            at += d.slice.n;
            weir_slice_release(&d.slice);
        }
        for (unsigned i = 0; i < N; i++)
            weir_chain_fini(&m[i].chain);
        close_now(&w, 0, a, false);
        close_now(&w, 1, b, false);
        assert_int_equal(world_close(&w), 0);
    }
    assert_true(joined > 20);
}

static void a_message_is_cut_into_segments(void **state) {
    (void)state;
    struct world w;
    world_open(&w, NULL);
    struct weir__io_sock *a = bind_on(&w, 0, "10.0.0.1:5", false);
    struct weir__io_sock *b = bind_on(&w, 1, "10.0.0.2:6", false);
    struct weir__io_message m = {.to = addr("10.0.0.2:6"), .segment_bytes = 100};
    fill(w.mem[0], &m.chain, 0, 250);
    send_all(&w, a, &m, 1);
    weir_chain_fini(&m.chain);
    assert_int_equal(w.io[1]->ops->recv_dgram_arm(w.io[1], b, 0), 0);
    for (uint64_t at = 0; at < 250; at += 100) {
        struct weir__io_done d = pulled(&w, 1);
        assert_int_equal(d.slice.n, at < 200 ? 100 : 50);
        same(d.slice.p, d.slice.n, at);
        weir_slice_release(&d.slice);
    }
    close_now(&w, 0, a, false);
    close_now(&w, 1, b, false);
    assert_int_equal(world_close(&w), 0);
}

static void nameless_sockets_get_different_names(void **state) {
    (void)state;
    struct world w;
    struct weir_addr at[2];
    world_open(&w, NULL);
    struct weir__io_sock *s[2];
    for (int i = 0; i < 2; i++) {
        s[i] = bind_on(&w, 0, NULL, false);
        assert_int_equal(w.io[0]->ops->local(w.io[0], s[i], &at[i]), 0);
        assert_true(at[i].kind == WEIR__ADDR_UNIX && at[i].path_len > 0 && !at[i].path[0]);
    }
    assert_false(weir__base_addr_equal(&at[0], &at[1]));
    close_now(&w, 0, s[0], false);
    close_now(&w, 0, s[1], false);
    assert_int_equal(world_close(&w), 0);
}

/* --- handles --------------------------------------------------------------------------------- */

static char room[64];

static struct weir__io_fds pass(struct world *w, struct weir__io_sock *s[3], intptr_t handle) {
    struct weir__io_fds out = {.data = "take", .n = 4, .n_handles = 1, .handles = {handle}};
    struct weir__io_fds in = {.data = room, .n = sizeof room};
    assert_int_equal(w->io[1]->ops->send_fds(w->io[1], s[1], &out), 0);
    struct weir__io_done d = pulled(w, 1);
    assert_true(d.kind == WEIR__IO_SENT && d.code == 0 && d.count == 4);
    assert_int_equal(w->io[0]->ops->recv_fds(w->io[0], s[0], &in), 0);
    d = pulled(w, 0);
    assert_true(d.kind == WEIR__IO_FDS && d.code == 0 && d.count == 4);
    assert_memory_equal(room, "take", 4);
    assert_int_equal(in.n_handles, 1);
    assert_int_not_equal(in.handles[0], handle);
    return in;
}

static void close_all(struct world *w, struct weir__io_sock *s[3]) {
    close_now(w, 0, s[0], false);
    close_now(w, 1, s[1], false);
    close_now(w, 0, s[2], false);
}

/* Both holders of a listener accept from its one queue. */
static void a_listener_is_shared(void **state) {
    (void)state;
    struct world w;
    struct weir__io_sock *s[3], *mine, *theirs, *c;
    world_open(&w, NULL);
    connected(&w, "unix:@way", s);
    mine = listen_on(&w, 1, "10.0.0.9:80");
    struct weir__io_fds in = pass(&w, s, w.io[1]->ops->handle(w.io[1], mine));
    struct weir__io_listen o = {.handle = in.handles[0], .datagram = true};
    assert_int_equal(w.io[0]->ops->listen(w.io[0], &o, NULL, &theirs), WEIR_EINVAL);
    o.datagram = false;
    assert_int_equal(w.io[0]->ops->listen(w.io[0], &o, NULL, &theirs), 0);
    for (int who = 0; who < 2; who++) {
        struct weir__io_sock *l = who ? mine : theirs;
        assert_int_equal(w.io[who]->ops->accept_arm(w.io[who], l, 1), 0);
        assert_int_equal(connect_to(&w, 1, "10.0.0.9:80", NULL, &c), 0);
        struct weir__io_done d;
        do { /* at door 1 the CONNECTED too, in either order */
            d = pulled(&w, who);
        } while (d.kind != WEIR__IO_ACCEPTED);
        w.io[who]->ops->drop(w.io[who], d.handle);
        close_now(&w, 1, c, true);
        if (who == 0)
            close_now(&w, 0, theirs, false);
    }
    close_now(&w, 1, mine, false);
    close_all(&w, s);
    assert_int_equal(world_close(&w), 0);
}

static void a_stream_has_one_holder_at_a_time(void **state) {
    (void)state;
    struct world w;
    struct weir__io_sock *s[3], *t[3], *again;
    world_open(&w, NULL);
    connected(&w, "unix:@way", s);
    connected(&w, "10.0.0.1:80", t);
    struct weir__io_fds in = pass(&w, s, w.io[1]->ops->handle(w.io[1], t[1]));
    assert_int_equal(w.io[0]->ops->attach(w.io[0], in.handles[0], NULL, &again), WEIR_EINVAL);
    close_now(&w, 1, t[1], false);
    assert_int_equal(w.io[0]->ops->attach(w.io[0], in.handles[0], NULL, &again), 0);
    struct weir_chain c = {0};
    fill(w.mem[0], &c, 0, 10);
    assert_int_equal(w.io[0]->ops->send(w.io[0], t[0], &c), 0);
    assert_int_equal(pulled(&w, 0).kind, WEIR__IO_SENT);
    weir_chain_fini(&c);
    assert_int_equal(w.io[0]->ops->recv_arm(w.io[0], again, 10), 0);
    for (uint64_t at = 0; at < 10;) {
        struct weir__io_done d = pulled(&w, 0);
        assert_int_equal(d.kind, WEIR__IO_RECEIVED);
        same(d.slice.p, d.slice.n, at);
        at += d.slice.n;
        weir_slice_release(&d.slice);
    }
    close_now(&w, 0, again, false);
    close_now(&w, 0, t[0], false);
    close_now(&w, 0, t[2], false);
    close_all(&w, s);
    assert_int_equal(world_close(&w), 0);
}

static void handles_that_nobody_takes_are_closed(void **state) {
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        struct world w;
        struct weir__io_sock *s[3];
        world_open(&w, NULL);
        connected(&w, "unix:@way", s);
        struct weir__io_sock *l = listen_on(&w, 1, "10.0.0.9:80");
        struct weir__io_fds out = {.data = "take", .n = 4, .n_handles = 1};
        out.handles[0] = w.io[1]->ops->handle(w.io[1], l);
        assert_int_equal(w.io[1]->ops->send_fds(w.io[1], s[1], &out), 0);
        assert_int_equal(pulled(&w, 1).kind, WEIR__IO_SENT);
        close_now(&w, 1, l, false);
        if (plain) { /* a plain receive drops them */
            assert_int_equal(w.io[0]->ops->recv_arm(w.io[0], s[0], 4), 0);
            struct weir__io_done d;
            do {
                d = pulled(&w, 0);
                weir_slice_release(&d.slice);
            } while (!d.last);
            struct weir__io_fds in = {.data = room, .n = sizeof room};
            assert_int_equal(w.io[0]->ops->recv_fds(w.io[0], s[0], &in), WEIR_EBUG);
            close_now(&w, 0, listen_on(&w, 0, "10.0.0.9:80"), false); /* the address is free */
        }
        close_all(&w, s);
        assert_int_equal(world_close(&w), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_datagrams_may_join),
        cmocka_unit_test(a_message_is_cut_into_segments),
        cmocka_unit_test(nameless_sockets_get_different_names),
        cmocka_unit_test(a_listener_is_shared),
        cmocka_unit_test(a_stream_has_one_holder_at_a_time),
        cmocka_unit_test(handles_that_nobody_takes_are_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
