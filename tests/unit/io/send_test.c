/* The io contract: sending chains and files, close and cancel while they are in flight. */
#include "unit/io/rig.h"

static void a_gather_of_64_slices_goes_whole(void **state) {
    struct rig *r = *state;
    int peer, user;
    enum { PARTS = WEIR__IO_SEND_SLICES_MAX, EACH = WEIR__IO_SEND_BYTES_MAX / PARTS };
    struct weir__io_sock *s = open_pair(r, true, &user, &peer);
    struct weir_chain c = {0};
    fill(r, &c, PARTS, EACH);
    int rc = r->ops->send(r->io, s, &c);
    assert_true(rc == 0 || rc == 1);
    struct weir__io_done d;
    bool done = drain_all(r, peer, PARTS * EACH, &d);
    if (rc == 0) {
        if (!done)
            assert_true(pull(r, &d));
        assert_true(d.kind == WEIR__IO_SENT && d.last && d.code == 0);
        assert_int_equal(d.count, PARTS * EACH);
    }
    weir_chain_fini(&c);
    closed(r, s);
    close(peer);
}

/* Sends the chain until one send does not finish; how many did. */
static size_t block_send(struct rig *r, struct weir__io_sock *s, const struct weir_chain *c) {
    for (size_t whole = 0;; whole++) {
        int rc = r->ops->send(r->io, s, c);
        assert_true(rc >= 0);
        bool done = rc == 1;
        uint64_t until = r->ops->now(r->io) + WAIT_NS / 20;
        while (!done && r->ops->now(r->io) < until) {
            struct weir__io_done d;
            assert_true(r->ops->wait(r->io, until) >= 0);
            done = r->ops->next(r->io, &d);
            if (done)
                assert_true(d.kind == WEIR__IO_SENT && d.code == 0);
        }
        if (!done)
            return whole;
    }
}

static void a_send_that_blocks_stays_in_flight(void **state) {
    struct rig *r = *state;
    int peer, user;
    enum { PARTS = 61, EACH = 4099 };
    struct weir__io_sock *s = open_pair(r, false, &user, &peer);
    struct weir_chain c = {0};
    struct weir__io_done d;
    fill(r, &c, PARTS, EACH);
    size_t whole = block_send(r, s, &c);
    assert_int_equal(r->ops->send(r->io, s, &c), WEIR_EBUG);
    assert_int_equal(r->ops->shutdown(r->io, s), WEIR_EBUG);
    quiet(r);
    bool done = false;
    for (size_t i = 0; i <= whole; i++)
        done |= drain_all(r, peer, PARTS * EACH, &d);
    if (!done)
        assert_true(pull(r, &d));
    assert_true(d.kind == WEIR__IO_SENT && d.last && d.code == 0);
    assert_int_equal(d.count, PARTS * EACH);
    weir_chain_fini(&c);
    closed(r, s);
    close(peer);
}

static void close_lets_a_send_run_to_its_end(void **state) {
    struct rig *r = *state;
    int peer, user;
    enum { PARTS = 10, EACH = 16384 };
    struct weir__io_sock *s = open_pair(r, false, &user, &peer);
    struct weir_chain c = {0};
    fill(r, &c, PARTS, EACH);
    assert_int_equal(r->ops->recv_arm(r->io, s, -1), 0);
    size_t whole = block_send(r, s, &c);
    r->ops->close(r->io, s, false);
    r->ops->close(r->io, s, false);
    expect_last(r, &user, WEIR__IO_RECEIVED, WEIR_ECANCELLED);
    quiet(r);
    assert_int_equal(r->ops->recv_arm(r->io, s, -1), WEIR_EGONE);
    struct weir__io_done d, first = {0};
    int n_done = 0;
    for (size_t i = 0; i <= whole; i++) {
        size_t got = 0;
        while (got < PARTS * EACH) {
            got += drain(peer, got, PARTS * EACH - got);
            assert_true(r->ops->wait(r->io, 0) >= 0);
            for (; r->ops->next(r->io, &d); n_done++)
                if (n_done == 0)
                    first = d;
        }
    }
    for (; n_done < 2; n_done++) {
        assert_true(pull(r, &d));
        if (n_done == 0)
            first = d;
    }
    assert_true(first.kind == WEIR__IO_SENT && first.last && first.code == 0);
    assert_int_equal(first.count, PARTS * EACH);
    assert_true(d.kind == WEIR__IO_CLOSED && d.user == &user && n_done == 2);
    char byte;
    assert_int_equal(recv(peer, &byte, 1, 0), 0);
    weir_chain_fini(&c);
    close(peer);
}

static void abort_ends_everything(void **state) {
    struct rig *r = *state;
    int peer, user;
    for (int twice = 0; twice < 2; twice++) {
        struct weir__io_sock *s = open_pair(r, true, &user, &peer);
        struct weir_chain c = {0};
        fill(r, &c, 10, 16384);
        assert_int_equal(r->ops->recv_arm(r->io, s, -1), 0);
        block_send(r, s, &c);
        if (twice)
            r->ops->close(r->io, s, false);
        r->ops->close(r->io, s, true);
        assert_int_equal(r->ops->recv_arm(r->io, s, -1), WEIR_EGONE);
        assert_int_equal(r->ops->send(r->io, s, &c), WEIR_EGONE);
        assert_int_equal(r->ops->shutdown(r->io, s), WEIR_EGONE);
        struct weir_addr a;
        assert_int_equal(r->ops->local(r->io, s, &a), WEIR_EGONE);
        bool sent = false, received = false;
        for (int i = 0; i < 2; i++) {
            struct weir__io_done d;
            assert_true(pull(r, &d));
            assert_true(d.last);
            sent |= d.kind == WEIR__IO_SENT;
            received |= d.kind == WEIR__IO_RECEIVED;
            if (d.kind == WEIR__IO_SENT)
                assert_true(d.code < 0 && d.count < c.bytes);
        }
        assert_true(sent && received);
        expect_last(r, &user, WEIR__IO_CLOSED, 0);
        char buf[65536];
        ssize_t k;
        while ((k = recv(peer, buf, sizeof buf, 0)) > 0)
            continue;
        assert_true(k < 0 && errno == ECONNRESET);
        weir_chain_fini(&c);
        close(peer);
    }
}

static void a_cancelled_send_ends_and_the_stream_is_dead(void **state) {
    struct rig *r = *state;
    int peer, user;
    struct weir__io_sock *s = open_pair(r, false, &user, &peer);
    struct weir_chain c = {0};
    fill(r, &c, 10, 16384);
    block_send(r, s, &c);
    r->ops->cancel(r->io, s, WEIR__IO_SEND);
    struct weir__io_done d;
    expect(r, &user, WEIR__IO_SENT, &d);
    assert_true(d.last && d.code < 0 && d.count < c.bytes);
    assert_int_equal(r->ops->send(r->io, s, &c), WEIR_ERESET);
    assert_int_equal(r->ops->shutdown(r->io, s), WEIR_ERESET);
    put(peer, "in", 2);
    assert_int_equal(r->ops->recv_arm(r->io, s, 2), 0);
    receive(r, &user, "in", 2);
    expect_last(r, &user, WEIR__IO_RECEIVED, WEIR__IO_CREDIT);
    weir_chain_fini(&c);
    closed(r, s);
    close(peer);
}

static void an_error_that_a_send_met_is_not_an_eof(void **state) {
    struct rig *r = *state;
    int peer, user;
    struct weir__io_sock *s = open_pair(r, true, &user, &peer);
    struct linger l = {.l_onoff = 1};
    setsockopt(peer, SOL_SOCKET, SO_LINGER, &l, sizeof l);
    close(peer);
    struct pollfd reset = {.fd = door_fd};
    assert_int_equal(poll(&reset, 1, PATIENCE * 1000), 1);
    struct weir_chain c = {0};
    assert_int_equal(weir_chain_write(r->mem, &c, "too late", 8), 0);
    assert_int_equal(r->ops->send(r->io, s, &c), 0);
    struct weir__io_done d;
    expect(r, &user, WEIR__IO_SENT, &d);
    assert_true(d.last && d.count == 0);
    assert_int_equal(d.code, WEIR_ERESET);
    assert_int_equal(r->ops->send(r->io, s, &c), WEIR_ERESET);
    assert_int_equal(r->ops->recv_arm(r->io, s, -1), 0);
    expect_last(r, &user, WEIR__IO_RECEIVED, WEIR_ERESET);
    weir_chain_fini(&c);
    closed(r, s);
}

static void shutdown_ends_our_side_only(void **state) {
    struct rig *r = *state;
    int peer, user;
    struct weir__io_sock *s = open_pair(r, true, &user, &peer);
    struct weir_chain c = {0};
    assert_int_equal(weir_chain_write(r->mem, &c, "bye", 3), 0);
    if (r->ops->send(r->io, s, &c) == 0)
        expect_last(r, &user, WEIR__IO_SENT, 0);
    assert_int_equal(r->ops->shutdown(r->io, s), 0);
    assert_int_equal(r->ops->send(r->io, s, &c), WEIR_EBUG);
    char got[4];
    assert_int_equal(recv(peer, got, 4, MSG_WAITALL), 3);
    put(peer, "more", 4);
    assert_int_equal(r->ops->recv_arm(r->io, s, 4), 0);
    receive(r, &user, "more", 4);
    expect_last(r, &user, WEIR__IO_RECEIVED, WEIR__IO_CREDIT);
    weir_chain_fini(&c);
    closed(r, s);
    close(peer);
}

static void what_is_outside_the_contract_is_refused(void **state) {
    struct rig *r = *state;
    int peer, user;
    struct weir__io_sock *s = open_pair(r, false, &user, &peer);
    struct weir_chain c = {0};
    assert_int_equal(r->ops->send(r->io, s, &c), WEIR_EBUG);
    fill(r, &c, 65, 10);
    assert_int_equal(r->ops->send(r->io, s, &c), WEIR_EBUG);
    weir_chain_fini(&c);
    fill(r, &c, 5, 65536);
    assert_int_equal(r->ops->send(r->io, s, &c), WEIR_EBUG);
    weir_chain_fini(&c);
    assert_int_equal(r->ops->recv_arm(r->io, s, 0), WEIR_EBUG);
    assert_int_equal(r->ops->accept_arm(r->io, s, -1), WEIR_EBUG);
    assert_int_equal(r->ops->recv_dgram_arm(r->io, s, 0), WEIR_EBUG);
    assert_int_equal(r->ops->recv_arm(r->io, s, -1), 0);
    assert_int_equal(r->ops->recv_arm(r->io, s, -1), WEIR_EBUG);
    r->ops->cancel(r->io, s, WEIR__IO_RECV);
    expect_last(r, &user, WEIR__IO_RECEIVED, WEIR_ECANCELLED);
    closed(r, s);
    close(peer);
}

static struct weir_file *patterned_file(struct rig *r, size_t n) {
    int fd = memfd_create("patterned", MFD_CLOEXEC);
    uint8_t *bytes = malloc(n);
    for (size_t i = 0; i < n; i++)
        bytes[i] = pattern(i);
    assert_int_equal(write(fd, bytes, n), (ssize_t)n);
    free(bytes);
    return weir_file_new(r->mem, fd, n);
}

static void a_file_goes_out_whole_or_says_where_it_ended(void **state) {
    struct rig *r = *state;
    int peer, user;
    enum { N = 700 * 1000 };
    struct weir__io_sock *s = open_pair(r, true, &user, &peer);
    struct weir_file *f = patterned_file(r, N);
    int rc = r->ops->send_file(r->io, s, f, 0, N);
    assert_true(rc >= 0);
    struct weir__io_done d;
    bool done = drain_all(r, peer, N, &d);
    if (rc == 0) {
        if (!done)
            assert_true(pull(r, &d));
        assert_true(d.kind == WEIR__IO_SENT && d.code == 0 && d.count == N);
    }
    assert_int_equal(r->ops->send_file(r->io, s, f, N - 100, 200), 0);
    expect(r, &user, WEIR__IO_SENT, &d);
    assert_true(d.last && d.count == 100);
    assert_int_equal(d.code, WEIR_ETRUNCATED);
    assert_int_equal(r->ops->send_file(r->io, s, f, 0, 1), WEIR_ERESET);
    weir_file_release(f);
    closed(r, s);
    close(peer);
}

int main(void) {
    const struct CMUnitTest cases[] = {
        CASE(a_gather_of_64_slices_goes_whole),
        CASE(a_send_that_blocks_stays_in_flight),
        CASE(close_lets_a_send_run_to_its_end),
        CASE(abort_ends_everything),
        CASE(a_cancelled_send_ends_and_the_stream_is_dead),
        CASE(an_error_that_a_send_met_is_not_an_eof),
        CASE(shutdown_ends_our_side_only),
        CASE(what_is_outside_the_contract_is_refused),
        CASE(a_file_goes_out_whole_or_says_where_it_ended),
    };
    return run_cases(cases, sizeof cases / sizeof *cases);
}
