/* The io contract: receiving, credit, parking, the end of a stream, datagrams. */
#include "unit/io/rig.h"

static void bytes_come_and_go(void **state) {
    struct rig *r = *state;
    int peer, user;
    for (int tcp = 0; tcp < 2; tcp++) {
        struct weir__io_sock *s = open_pair(r, tcp, &user, &peer);
        assert_int_equal(r->ops->recv_arm(r->io, s, -1), 0);
        for (int i = 0; i < 5; i++) {
            put(peer, "hello", 5);
            receive(r, &user, "hello", 5);
        }
        struct weir_chain c = {0};
        assert_int_equal(weir_chain_write(r->mem, &c, "world", 5), 0);
        int rc = r->ops->send(r->io, s, &c);
        assert_int_equal(rc, r->io->sends_inline ? 1 : 0);
        if (rc == 0) {
            struct weir__io_done d;
            expect(r, &user, WEIR__IO_SENT, &d);
            assert_true(d.last && d.code == 0 && d.count == 5);
        }
        char got[5];
        assert_int_equal(recv(peer, got, 5, MSG_WAITALL), 5);
        assert_memory_equal(got, "world", 5);
        weir_chain_fini(&c);
        r->ops->close(r->io, s, false);
        expect_last(r, &user, WEIR__IO_RECEIVED, WEIR_ECANCELLED);
        expect_last(r, &user, WEIR__IO_CLOSED, 0);
        close(peer);
    }
}

static void credit_is_never_exceeded(void **state) {
    struct rig *r = *state;
    int peer, user;
    struct weir__io_sock *s = open_pair(r, true, &user, &peer);
    put(peer, "abcdefgh", 8);
    assert_int_equal(r->ops->recv_arm(r->io, s, 3), 0);
    receive(r, &user, "abc", 3);
    expect_last(r, &user, WEIR__IO_RECEIVED, WEIR__IO_CREDIT);
    quiet(r);
    assert_int_equal(r->ops->recv_arm(r->io, s, 2), 0);
    receive(r, &user, "de", 2);
    expect_last(r, &user, WEIR__IO_RECEIVED, WEIR__IO_CREDIT);
    close(peer); /* exactly the credit that is left: CREDIT first, the end with the next arm */
    assert_int_equal(r->ops->recv_arm(r->io, s, 3), 0);
    receive(r, &user, "fgh", 3);
    expect_last(r, &user, WEIR__IO_RECEIVED, WEIR__IO_CREDIT);
    assert_int_equal(r->ops->recv_arm(r->io, s, 1), 0);
    expect_last(r, &user, WEIR__IO_RECEIVED, WEIR__IO_EOF);
    closed(r, s);
}

static void data_then_eof_and_eof_again(void **state) {
    struct rig *r = *state;
    int peer, user;
    struct weir__io_sock *s = open_pair(r, true, &user, &peer);
    put(peer, "tail", 4);
    shutdown(peer, SHUT_WR);
    assert_int_equal(r->ops->recv_arm(r->io, s, -1), 0);
    receive(r, &user, "tail", 4);
    expect_last(r, &user, WEIR__IO_RECEIVED, WEIR__IO_EOF);
    quiet(r);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(r->ops->recv_arm(r->io, s, -1), 0);
        expect_last(r, &user, WEIR__IO_RECEIVED, WEIR__IO_EOF);
    }
    closed(r, s);
    close(peer);
}

static void reset_comes_after_the_bytes_before_it(void **state) {
    struct rig *r = *state;
    int peer, user;
    struct weir__io_sock *s = open_pair(r, true, &user, &peer);
    put(peer, "last words", 10);
    struct linger l = {.l_onoff = 1};
    setsockopt(peer, SOL_SOCKET, SO_LINGER, &l, sizeof l);
    close(peer);
    assert_int_equal(r->ops->recv_arm(r->io, s, -1), 0);
    receive(r, &user, "last words", 10);
    expect_last(r, &user, WEIR__IO_RECEIVED, WEIR_ERESET);
    assert_int_equal(r->ops->recv_arm(r->io, s, -1), 0);
    expect_last(r, &user, WEIR__IO_RECEIVED, WEIR_ERESET);
    closed(r, s);
}

static void many_bytes_come_in_order_while_slices_are_held(void **state) {
    struct rig *r = *state;
    int peer, user;
    enum { N = 400 * 1024 };
    struct weir__io_sock *s = open_pair(r, true, &user, &peer);
    fcntl(peer, F_SETFL, O_NONBLOCK);
    static uint8_t bytes[N];
    for (size_t i = 0; i < N; i++)
        bytes[i] = pattern(i);
    struct weir_chain held = {0};
    assert_int_equal(r->ops->recv_arm(r->io, s, -1), 0);
    for (size_t sent = 0; held.bytes < N;) {
        ssize_t k = sent < N ? send(peer, bytes + sent, N - sent, MSG_NOSIGNAL) : 0;
        sent += k > 0 ? (size_t)k : 0;
        struct weir__io_done d;
        expect(r, &user, WEIR__IO_RECEIVED, &d);
        assert_false(d.last);
        assert_true(d.slice.n <= WEIR__IO_RECV_BYTES);
        assert_int_equal(weir_chain_add(r->mem, &held, &d.slice), 0);
    }
    assert_int_equal(held.bytes, N);
    static uint8_t back[N];
    assert_int_equal(weir_chain_read(&held, 0, back, N), 0);
    assert_memory_equal(back, bytes, N);
    weir_chain_fini(&held);
    r->ops->close(r->io, s, true);
    expect_last(r, &user, WEIR__IO_RECEIVED, WEIR_ECANCELLED);
    expect_last(r, &user, WEIR__IO_CLOSED, 0);
    close(peer);
}

static void cancel_then_bytes_then_arm(void **state) {
    struct rig *r = *state;
    int peer, user;
    struct weir__io_sock *s = open_pair(r, false, &user, &peer);
    assert_int_equal(r->ops->recv_arm(r->io, s, -1), 0);
    quiet(r);
    r->ops->cancel(r->io, s, WEIR__IO_RECV);
    assert_int_equal(r->ops->recv_arm(r->io, s, -1), WEIR_EBUG); /* until its last was pulled */
    put(peer, "later", 5);
    expect_last(r, &user, WEIR__IO_RECEIVED, WEIR_ECANCELLED);
    quiet(r);
    assert_int_equal(r->ops->recv_arm(r->io, s, -1), 0);
    receive(r, &user, "later", 5);
    r->ops->cancel(r->io, s, WEIR__IO_RECV);
    expect_last(r, &user, WEIR__IO_RECEIVED, WEIR_ECANCELLED);
    closed(r, s);
    close(peer);
}

/* The bytes are there, and on io_uring already received, when the arm is cancelled. */
static void bytes_that_lost_against_cancel_come_with_the_next_arm(void **state) {
    struct rig *r = *state;
    int peer, user;
    struct weir__io_sock *s = open_pair(r, false, &user, &peer);
    assert_int_equal(r->ops->recv_arm(r->io, s, -1), 0);
    quiet(r);
    put(peer, "parked", 6);
    assert_true(r->ops->wait(r->io, r->ops->now(r->io) + WAIT_NS) >= 0);
    r->ops->cancel(r->io, s, WEIR__IO_RECV);
    expect_last(r, &user, WEIR__IO_RECEIVED, WEIR_ECANCELLED);
    quiet(r);
    shutdown(peer, SHUT_WR);
    assert_int_equal(r->ops->recv_arm(r->io, s, 2), 0);
    receive(r, &user, "pa", 2);
    expect_last(r, &user, WEIR__IO_RECEIVED, WEIR__IO_CREDIT);
    assert_int_equal(r->ops->recv_arm(r->io, s, -1), 0);
    receive(r, &user, "rked", 4);
    expect_last(r, &user, WEIR__IO_RECEIVED, WEIR__IO_EOF);
    assert_int_equal(r->ops->parked(r->io, s), 0);
    closed(r, s);
    close(peer);
}

static void cancel_of_nothing_does_nothing(void **state) {
    struct rig *r = *state;
    int peer, user;
    struct weir__io_sock *s = open_pair(r, false, &user, &peer);
    r->ops->cancel(r->io, s, WEIR__IO_RECV | WEIR__IO_SEND);
    quiet(r);
    assert_int_equal(r->ops->recv_arm(r->io, s, -1), 0);
    r->ops->cancel(r->io, s, WEIR__IO_SEND);
    put(peer, "x", 1);
    receive(r, &user, "x", 1);
    r->ops->cancel(r->io, s, WEIR__IO_RECV);
    expect_last(r, &user, WEIR__IO_RECEIVED, WEIR_ECANCELLED);
    closed(r, s);
    close(peer);
}

static void a_receive_without_memory_waits_for_the_next_arm(void **state) {
    struct rig *r = *state;
    int peer, user;
    struct weir__io_sock *s = open_pair(r, true, &user, &peer);
    weir__mem_fail(r->mem, 1, true);
    put(peer, "patience", 8);
    assert_int_equal(r->ops->recv_arm(r->io, s, -1), 0);
    struct weir__io_done d;
    expect(r, &user, WEIR__IO_RECEIVED, &d);
    weir__mem_fail(r->mem, 0, false);
    if (d.last) { /* a door with buffers in the kernel has some left */
        assert_int_equal(d.code, WEIR_ENOMEM);
        assert_true(r->io->stats.no_buffer > 0);
        quiet(r);
        assert_int_equal(r->ops->recv_arm(r->io, s, -1), 0);
        receive(r, &user, "patience", 8);
    } else {
        weir_slice_release(&d.slice);
    }
    r->ops->cancel(r->io, s, WEIR__IO_RECV);
    expect_last(r, &user, WEIR__IO_RECEIVED, WEIR_ECANCELLED);
    closed(r, s);
    close(peer);
}

static void with_nothing_armed_nothing_is_reported(void **state) {
    struct rig *r = *state;
    int peer, user;
    struct weir__io_sock *s = open_pair(r, true, &user, &peer);
    put(peer, "unasked", 7);
    quiet(r);
    assert_int_equal(r->ops->recv_arm(r->io, s, 7), 0);
    receive(r, &user, "unasked", 7);
    expect_last(r, &user, WEIR__IO_RECEIVED, WEIR__IO_CREDIT);
    struct linger l = {.l_onoff = 1};
    setsockopt(peer, SOL_SOCKET, SO_LINGER, &l, sizeof l);
    close(peer);
    quiet(r); /* also no spinning: a dead socket that nobody asks about leaves the poll set */
    uint64_t events = r->io->stats.events;
    quiet(r);
    assert_int_equal(r->io->stats.events, events);
    closed(r, s);
}

static void datagrams_keep_their_borders(void **state) {
    struct rig *r = *state;
    int ua, ub;
    struct weir__io_listen o = {.handle = -1, .datagram = true};
    struct weir__io_sock *a, *b;
    struct weir_addr at, from;
    assert_int_equal(weir__base_addr_parse("127.0.0.1:0", &o.addr, NULL), 0);
    assert_int_equal(r->ops->listen(r->io, &o, &ua, &a), 0);
    assert_int_equal(r->ops->listen(r->io, &o, &ub, &b), 0);
    assert_int_equal(r->ops->local(r->io, a, &at), 0);
    assert_int_equal(r->ops->local(r->io, b, &from), 0);
    assert_int_equal(r->ops->recv_dgram_arm(r->io, a, 0), 0);
    for (int i = 0; i < 3; i++) {
        struct weir__io_message m = {.to = at};
        assert_int_equal(weir_chain_write(r->mem, &m.chain, "datagram", 8 - (size_t)i), 0);
        if (r->ops->send_dgram(r->io, b, &m, 1) == 0)
            expect_last(r, &ub, WEIR__IO_SENT, 0);
        weir_chain_fini(&m.chain);
    }
    for (int i = 0; i < 3; i++) {
        struct weir__io_done d;
        expect(r, &ua, WEIR__IO_DGRAM, &d);
        assert_false(d.last);
        assert_int_equal(d.slice.n, 8 - i);
        assert_memory_equal(d.slice.p, "datagram", d.slice.n);
        assert_true(weir__base_addr_equal(&d.peer, &from));
        weir_slice_release(&d.slice);
    }
    r->ops->cancel(r->io, a, WEIR__IO_RECV);
    expect_last(r, &ua, WEIR__IO_DGRAM, WEIR_ECANCELLED);
    closed(r, a);
    closed(r, b);
}

int main(void) {
    const struct CMUnitTest cases[] = {
        CASE(bytes_come_and_go),
        CASE(credit_is_never_exceeded),
        CASE(data_then_eof_and_eof_again),
        CASE(reset_comes_after_the_bytes_before_it),
        CASE(many_bytes_come_in_order_while_slices_are_held),
        CASE(cancel_then_bytes_then_arm),
        CASE(bytes_that_lost_against_cancel_come_with_the_next_arm),
        CASE(cancel_of_nothing_does_nothing),
        CASE(a_receive_without_memory_waits_for_the_next_arm),
        CASE(with_nothing_armed_nothing_is_reported),
        CASE(datagrams_keep_their_borders),
    };
    return run_cases(cases, sizeof cases / sizeof *cases);
}
