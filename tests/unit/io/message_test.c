/* The io contract: datagrams, messages with handles, socket options, keys - and how each of them
 * fails. What never fails is in tests/suite. */
#include "unit/io/rig.h"
#include "os/sockopt.h"
#include <netinet/tcp.h>

static struct weir__io_sock *bind_at(struct rig *r, const char *text, void *user,
                                     struct weir_addr *at) {
    struct weir__io_listen o = {.handle = -1, .datagram = true};
    struct weir__io_sock *s;
    o.addr.kind = WEIR__ADDR_UNIX; /* without a path: a name of the kernel's choice */
    if (text)
        assert_int_equal(weir__base_addr_parse(text, &o.addr, NULL), 0);
    assert_int_equal(r->ops->listen(r->io, &o, user, &s), 0);
    assert_int_equal(r->ops->local(r->io, s, at), 0);
    return s;
}

static struct weir__io_message message(struct rig *r, const struct weir_addr *to, size_t n) {
    struct weir__io_message m = {.to = *to};
    fill(r, &m.chain, 1, n);
    return m;
}

static void expect_dgram(struct rig *r, void *user, size_t n) {
    struct weir__io_done d;
    expect(r, user, WEIR__IO_DGRAM, &d);
    assert_false(d.last);
    assert_int_equal(d.slice.n, n);
    weir_slice_release(&d.slice);
}

static void a_datagram_that_finds_no_room_waits_for_it(void **state) {
    struct rig *r = *state;
    int ua, ub;
    struct weir_addr at, from;
    struct weir__os_fault f;
    struct weir__io_sock *a = bind_at(r, "127.0.0.1:0", &ua, &at);
    struct weir__io_sock *b = bind_at(r, "127.0.0.1:0", &ub, &from);
    struct weir__io_message m[2] = {message(r, &at, 10), message(r, &at, 20)};
    plan(&f, WEIR__OS_SEND, EAGAIN);
    assert_int_equal(r->ops->send_dgram(r->io, b, m, 2), 0);
    assert_int_equal(f.hit, 1);
    assert_int_equal(r->ops->send_dgram(r->io, b, m, 2), WEIR_EBUG);
    struct weir__io_done d;
    expect(r, &ub, WEIR__IO_SENT, &d);
    assert_true(d.last && d.code == 0 && d.count == 2);
    assert_int_equal(r->ops->recv_dgram_arm(r->io, a, 0), 0);
    expect_dgram(r, &ua, 10);
    expect_dgram(r, &ua, 20);
    for (int i = 0; i < 2; i++)
        weir_chain_fini(&m[i].chain);
    closed(r, b);
    r->ops->close(r->io, a, false);
    expect_last(r, &ua, WEIR__IO_DGRAM, WEIR_ECANCELLED);
    expect_last(r, &ua, WEIR__IO_CLOSED, 0);
}

static void a_datagram_in_flight_is_cancelled(void **state) {
    struct rig *r = *state;
    int ua, ub;
    struct weir_addr at, from;
    struct weir__io_sock *a = bind_at(r, "127.0.0.1:0", &ua, &at);
    struct weir__io_sock *b = bind_at(r, "127.0.0.1:0", &ub, &from);
    struct weir__io_message m = message(r, &at, 10);
    struct weir__os_fault f = {.kind = WEIR__OS_SEND, .nth = 1, .error = EAGAIN, .persist = true};
    weir__os_fault_set(&f);
    assert_int_equal(r->ops->send_dgram(r->io, b, &m, 1), 0);
    r->ops->cancel(r->io, b, WEIR__IO_SEND);
    struct weir__io_done d;
    expect(r, &ub, WEIR__IO_SENT, &d);
    assert_true(d.last && d.code == WEIR_ECANCELLED && d.count == 0);
    weir__os_fault_set(NULL);
    int rc = r->ops->send_dgram(r->io, b, &m, 1); /* and the socket lives */
    if (rc == 0)
        expect_last(r, &ub, WEIR__IO_SENT, 0);
    else
        assert_int_equal(rc, 1);
    weir_chain_fini(&m.chain);
    closed(r, a);
    closed(r, b);
}

static void an_error_ends_the_send_where_it_stands(void **state) {
    struct rig *r = *state;
    static const struct {
        int error, code;
    } errors[] = {{ENOBUFS, WEIR_ENOMEM}, {EMSGSIZE, WEIR_ETOOBIG}, {EIO, WEIR_EIO}};
    int ua, ub;
    struct weir_addr at, from;
    struct weir__io_sock *a = bind_at(r, "127.0.0.1:0", &ua, &at);
    struct weir__io_sock *b = bind_at(r, "127.0.0.1:0", &ub, &from);
    struct weir__io_message m = message(r, &at, 10);
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        struct weir__os_fault f;
        struct weir__io_done d;
        plan(&f, WEIR__OS_SEND, errors[i].error);
        assert_int_equal(r->ops->send_dgram(r->io, b, &m, 1), 0);
        expect(r, &ub, WEIR__IO_SENT, &d);
        assert_true(d.last && d.count == 0);
        assert_int_equal(d.code, errors[i].code);
    }
    weir_chain_fini(&m.chain);
    closed(r, a);
    closed(r, b);
}

/* What the kernel reports of a peer is no end of the socket. */
static void a_peers_error_is_counted_and_passed_over(void **state) {
    struct rig *r = *state;
    int ua, ub;
    struct weir_addr at, from;
    struct weir__os_fault f;
    struct weir__io_sock *a = bind_at(r, "127.0.0.1:0", &ua, &at);
    struct weir__io_sock *b = bind_at(r, "127.0.0.1:0", &ub, &from);
    struct weir__io_message m[2] = {message(r, &at, 10), message(r, &at, 20)};
    plan(&f, WEIR__OS_SEND, EHOSTUNREACH); /* the first is lost, the other goes */
    int rc = r->ops->send_dgram(r->io, b, m, 2);
    if (rc == 0)
        expect_last(r, &ub, WEIR__IO_SENT, 0);
    assert_true(rc == 0 || rc == 1);
    assert_int_equal(r->io->stats.dgrams_lost, 1);
    plan(&f, WEIR__OS_RECV, ECONNREFUSED);
    assert_int_equal(r->ops->recv_dgram_arm(r->io, a, 0), 0);
    expect_dgram(r, &ua, 20);
    assert_int_equal(f.hit, 1);
    assert_int_equal(r->io->stats.dgrams_lost, 2);
    weir__os_fault_set(NULL);
    quiet(r);
    plan(&f, WEIR__OS_RECV, ENOMEM);
    rc = r->ops->send_dgram(r->io, b, m, 1);
    if (rc == 0)
        expect_last(r, &ub, WEIR__IO_SENT, 0);
    expect_last(r, &ua, WEIR__IO_DGRAM, WEIR_ENOMEM);
    assert_int_equal(r->ops->recv_dgram_arm(r->io, a, 0), 0);
    expect_dgram(r, &ua, 10);
    for (int i = 0; i < 2; i++)
        weir_chain_fini(&m[i].chain);
    r->ops->cancel(r->io, a, WEIR__IO_RECV);
    expect_last(r, &ua, WEIR__IO_DGRAM, WEIR_ECANCELLED);
    closed(r, a);
    closed(r, b);
}

static void without_memory_datagrams_stay_in_the_kernel(void **state) {
    struct rig *r = *state;
    int ua, ub;
    struct weir_addr at, from;
    struct weir__io_sock *a = bind_at(r, NULL, &ua, &at);
    struct weir__io_sock *b = bind_at(r, NULL, &ub, &from);
    struct weir__io_message m[2] = {message(r, &at, 10), message(r, &at, 20)};
    int rc = r->ops->send_dgram(r->io, b, m, 2);
    if (rc == 0)
        expect_last(r, &ub, WEIR__IO_SENT, 0);
    for (int i = 0; i < 2; i++)
        weir_chain_fini(&m[i].chain);
    weir__mem_fail(r->mem, 1, true);
    assert_int_equal(r->ops->recv_dgram_arm(r->io, a, 0), 0);
    expect_last(r, &ua, WEIR__IO_DGRAM, WEIR_ENOMEM);
    weir__mem_fail(r->mem, 0, false);
    quiet(r);
    assert_int_equal(r->ops->recv_dgram_arm(r->io, a, 0), 0);
    expect_dgram(r, &ua, 10);
    expect_dgram(r, &ua, 20);
    r->ops->close(r->io, a, true);
    expect_last(r, &ua, WEIR__IO_DGRAM, WEIR_ECANCELLED);
    expect_last(r, &ua, WEIR__IO_CLOSED, 0);
    closed(r, b);
}

static void binding_fails_cleanly(void **state) {
    struct rig *r = *state;
    int user;
    struct weir__io_listen o = {.handle = -1, .datagram = true};
    struct weir__io_sock *s;
    struct weir__os_fault f = {.kind = WEIR__OS_SOCKOPT, .error = EMFILE};
    assert_int_equal(weir__base_addr_parse("127.0.0.1:0", &o.addr, NULL), 0);
    for (uint32_t nth = 1;; nth++) { /* one of them is the door's own */
        f.nth = nth;
        f.hit = f.seen = 0;
        weir__os_fault_set(&f);
        int rc = r->ops->listen(r->io, &o, &user, &s);
        weir__os_fault_set(NULL);
        if (rc == 0)
            break;
        assert_true(rc < 0 && f.hit == 1);
    }
    closed(r, s);
    for (uint64_t nth = 1; nth <= 2; nth++) {
        weir__mem_fail(r->mem, nth, false);
        assert_int_equal(r->ops->listen(r->io, &o, &user, &s), WEIR_ENOMEM);
    }
    weir__mem_fail(r->mem, 0, false);
}

/* --- handles --------------------------------------------------------------------------------- */

static char text[100];

static struct weir__io_fds room_for(void) {
    return (struct weir__io_fds){.data = text, .n = sizeof text};
}

static int open_fds(void) {
    int n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* Sends n copies of fd in one message, as a foreign program may. */
static void put_fds(int peer, int fd, unsigned n) {
    static union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int) * 200)];
    } control;
    struct iovec part = {"x", 1};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = CMSG_SPACE(sizeof(int) * n)};
    memset(&control, 0, sizeof control);
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * n);
    for (unsigned i = 0; i < n; i++)
        memcpy(CMSG_DATA(c) + i * sizeof fd, &fd, sizeof fd);
    assert_int_equal(sendmsg(peer, &m, MSG_NOSIGNAL), 1);
}

static void too_many_handles_are_all_closed(void **state) {
    struct rig *r = *state;
    int peer, user;
    struct weir__io_sock *s = open_pair(r, false, &user, &peer);
    struct weir__io_fds in = room_for();
    int before = open_fds();
    put_fds(peer, peer, WEIR__IO_HANDLES_MAX + 1);
    assert_int_equal(r->ops->recv_fds(r->io, s, &in), 0);
    expect_last(r, &user, WEIR__IO_FDS, WEIR_ETOOBIG);
    assert_int_equal(in.n_handles, 0);
    assert_int_equal(open_fds(), before);
    put_fds(peer, peer, 2);
    in = room_for();
    assert_int_equal(r->ops->recv_fds(r->io, s, &in), 0);
    struct weir__io_done d;
    expect(r, &user, WEIR__IO_FDS, &d);
    assert_true(d.last && d.code == 0 && d.count == 1 && in.n_handles == 2);
    for (int i = 0; i < 2; i++) {
        assert_true(fcntl((int)in.handles[i], F_GETFD) & FD_CLOEXEC);
        r->ops->drop(r->io, in.handles[i]);
    }
    closed(r, s);
    close(peer);
}

static void a_message_with_handles_waits_for_room(void **state) {
    struct rig *r = *state;
    int peer, user;
    struct weir__os_fault f;
    struct weir__io_sock *s = open_pair(r, false, &user, &peer);
    struct weir__io_fds out = {.data = "take", .n = 4, .n_handles = 1, .handles = {door_fd}};
    plan(&f, WEIR__OS_FDS, EAGAIN);
    assert_int_equal(r->ops->send_fds(r->io, s, &out), 0);
    assert_int_equal(r->ops->shutdown(r->io, s), WEIR_EBUG);
    struct weir__io_done d;
    expect(r, &user, WEIR__IO_SENT, &d);
    assert_true(d.last && d.code == 0 && d.count == 4);
    int fds[2];
    unsigned n;
    assert_int_equal(weir__os_recv_fds(peer, fds, 2, &n, text, sizeof text), 4);
    assert_int_equal(n, 1);
    close(fds[0]);
    plan(&f, WEIR__OS_FDS, EIO);
    assert_int_equal(r->ops->send_fds(r->io, s, &out), 0);
    expect_last(r, &user, WEIR__IO_SENT, WEIR_EIO);
    assert_int_equal(r->ops->send_fds(r->io, s, &out), WEIR_ERESET);
    closed(r, s);
    close(peer);
}

static void a_message_without_a_peer_fails(void **state) {
    struct rig *r = *state;
    int peer, user;
    struct weir__io_sock *s = open_pair(r, false, &user, &peer);
    struct weir__io_fds out = {.data = "take", .n = 4}, in = room_for();
    close(peer);
    assert_int_equal(r->ops->send_fds(r->io, s, &out), 0);
    expect_last(r, &user, WEIR__IO_SENT, WEIR_ERESET);
    assert_int_equal(r->ops->recv_fds(r->io, s, &in), 0);
    struct weir__io_done d;
    expect(r, &user, WEIR__IO_FDS, &d);
    assert_true(d.last && (d.code == WEIR_ERESET || d.code == WEIR__IO_EOF));
    closed(r, s);
}

/* A poll that the kernel still has of a cancelled recv_fds is none for the bytes that follow. */
static void bytes_after_a_cancelled_message(void **state) {
    struct rig *r = *state;
    int peer, user;
    struct weir__io_sock *s = open_pair(r, false, &user, &peer);
    struct weir__io_fds in = room_for();
    assert_int_equal(r->ops->recv_fds(r->io, s, &in), 0);
    quiet(r);
    r->ops->cancel(r->io, s, WEIR__IO_RECV);
    expect_last(r, &user, WEIR__IO_FDS, WEIR_ECANCELLED);
    put(peer, "plain", 5);
    assert_int_equal(r->ops->recv_arm(r->io, s, 5), 0);
    receive(r, &user, "plain", 5);
    expect_last(r, &user, WEIR__IO_RECEIVED, WEIR__IO_CREDIT);
    closed(r, s);
    close(peer);
}

static void receiving_a_message_fails(void **state) {
    struct rig *r = *state;
    int peer, user;
    struct weir__os_fault f;
    struct weir__io_sock *s = open_pair(r, false, &user, &peer);
    struct weir__io_fds in = room_for();
    put(peer, "x", 1);
    plan(&f, WEIR__OS_FDS, EIO);
    assert_int_equal(r->ops->recv_fds(r->io, s, &in), 0);
    expect_last(r, &user, WEIR__IO_FDS, WEIR_EIO);
    closed(r, s);
    close(peer);
    if (r->v->uring)
        return;
    s = open_pair(r, false, &user, &peer);
    plan(&f, WEIR__OS_EPOLL_SET, ENOMEM);
    assert_int_equal(r->ops->recv_fds(r->io, s, &in), 0);
    expect_last(r, &user, WEIR__IO_FDS, WEIR_ENOMEM);
    closed(r, s);
    close(peer);
}

/* --- options and keys ------------------------------------------------------------------------ */

static int nodelay(struct rig *r, struct weir__io_sock *s) {
    int on = -1;
    socklen_t len = sizeof on;
    intptr_t fd = r->ops->handle(r->io, s);
    assert_int_equal(getsockopt((int)fd, IPPROTO_TCP, TCP_NODELAY, &on, &len), 0);
    return on != 0;
}

static void both_ends_have_their_options(void **state) {
    struct rig *r = *state;
    static const struct weir_socket_options slow = {.nagle = true};
    int lu, cu, su;
    for (int nagle = 0; nagle < 2; nagle++) {
        struct weir__io_listen o = {.handle = -1, .options = nagle ? &slow : NULL};
        struct weir__io_connect to = {.options = o.options};
        struct weir__io_sock *l, *c, *s;
        struct weir__io_done d;
        assert_int_equal(weir__base_addr_parse("127.0.0.1:0", &o.addr, NULL), 0);
        assert_int_equal(r->ops->listen(r->io, &o, &lu, &l), 0);
        assert_int_equal(r->ops->local(r->io, l, &to.addr), 0);
        assert_int_equal(r->ops->connect(r->io, &to, &cu, &c), 0);
        expect_last(r, &cu, WEIR__IO_CONNECTED, 0);
        assert_int_equal(r->ops->accept_arm(r->io, l, 1), 0);
        expect(r, &lu, WEIR__IO_ACCEPTED, &d);
        assert_int_equal(r->ops->attach(r->io, d.handle, &su, &s), 0);
        expect_last(r, &lu, WEIR__IO_ACCEPTED, WEIR__IO_CREDIT);
        assert_int_equal(nodelay(r, c), !nagle);
        assert_int_equal(nodelay(r, s), !nagle);
        closed(r, l);
        closed(r, c);
        closed(r, s);
    }
}

static void an_option_that_is_refused_refuses_the_socket(void **state) {
    struct rig *r = *state;
    struct weir__os_fault f;
    struct weir__io_sock *s;
    struct weir__io_connect to = {0};
    int user, before = open_fds();
    assert_int_equal(weir__base_addr_parse("127.0.0.1:1", &to.addr, NULL), 0);
    plan(&f, WEIR__OS_SOCKOPT, EINVAL);
    assert_int_equal(r->ops->connect(r->io, &to, &user, &s), WEIR_ESOCKOPT(WEIR_SOCKET_NODELAY));
    assert_int_equal(open_fds(), before);
    assert_int_equal(r->io->stats.opened, 0);
}

static void keys_are_refused_without_damage(void **state) {
    struct rig *r = *state;
    static const uint8_t info[40];
    struct weir__io_crypto keys = {.tx = true, .info = info, .bytes = sizeof info};
    int peer, user;
    struct weir__os_fault f;
    struct weir__io_sock *s = open_pair(r, true, &user, &peer);
    plan(&f, WEIR__OS_SOCKOPT, EOPNOTSUPP);
    assert_int_equal(r->ops->set_crypto(r->io, s, &keys), WEIR_ENOTSUP);
    plan(&f, WEIR__OS_SOCKOPT, EINVAL);
    assert_int_equal(r->ops->set_crypto(r->io, s, &keys), WEIR_EINVAL);
    plan(&f, WEIR__OS_SOCKOPT, ENOMEM);
    assert_int_equal(r->ops->set_crypto(r->io, s, &keys), WEIR_ENOMEM);
    keys.tx = false;
    assert_int_equal(r->ops->recv_arm(r->io, s, 5), 0);
    assert_int_equal(r->ops->set_crypto(r->io, s, &keys), WEIR_EBUG);
    put(peer, "plain", 5);
    receive(r, &user, "plain", 5);
    expect_last(r, &user, WEIR__IO_RECEIVED, WEIR__IO_CREDIT);
    closed(r, s);
    close(peer);
}

int main(void) {
    const struct CMUnitTest cases[] = {
        CASE(a_datagram_that_finds_no_room_waits_for_it),
        CASE(a_datagram_in_flight_is_cancelled),
        CASE(an_error_ends_the_send_where_it_stands),
        CASE(a_peers_error_is_counted_and_passed_over),
        CASE(without_memory_datagrams_stay_in_the_kernel),
        CASE(binding_fails_cleanly),
        CASE(too_many_handles_are_all_closed),
        CASE(a_message_with_handles_waits_for_room),
        CASE(a_message_without_a_peer_fails),
        CASE(bytes_after_a_cancelled_message),
        CASE(receiving_a_message_fails),
        CASE(both_ends_have_their_options),
        CASE(an_option_that_is_refused_refuses_the_socket),
        CASE(keys_are_refused_without_damage),
    };
    return run_cases(cases, sizeof cases / sizeof *cases);
}
