/* The io contract: connections, identity, waiting, foreign descriptors, and system calls that fail.
 */
#include "io/epoll/epoll.h"
#include "unit/io/rig.h"

static void connect_accept_and_talk(void **state) {
    struct rig *r = *state;
    int lu, cu, su;
    struct weir__io_connect to = {0};
    struct weir__io_sock *c, *s, *l = listener(r, &lu, &to.addr);
    assert_int_equal(r->ops->accept_arm(r->io, l, 1), 0);
    assert_int_equal(r->ops->accept_arm(r->io, l, 1), WEIR_EBUG);
    assert_int_equal(r->ops->connect(r->io, &to, &cu, &c), 0);
    assert_int_equal(r->ops->recv_arm(r->io, c, -1), WEIR_EBUG);
    intptr_t handle = -1;
    bool connected = false, credit = false;
    while (handle < 0 || !connected || !credit) {
        struct weir__io_done d;
        assert_true(pull(r, &d));
        if (d.kind == WEIR__IO_CONNECTED) {
            assert_true(d.user == &cu && d.last && d.code == 0);
            connected = true;
        } else {
            assert_true(d.kind == WEIR__IO_ACCEPTED && d.user == &lu);
            if (d.last)
                assert_int_equal(d.code, WEIR__IO_CREDIT);
            else
                handle = d.handle;
            credit |= d.last;
        }
    }
    assert_int_equal(r->ops->attach(r->io, handle, &su, &s), 0);
    struct weir_addr a, b;
    assert_int_equal(r->ops->local(r->io, c, &a), 0);
    assert_int_equal(r->ops->peer(r->io, s, &b), 0);
    assert_true(weir__base_addr_equal(&a, &b));
    struct weir_chain bytes = {0};
    assert_int_equal(weir_chain_write(r->mem, &bytes, "ping", 4), 0);
    assert_int_equal(r->ops->recv_arm(r->io, s, 4), 0);
    int rc = r->ops->send(r->io, c, &bytes);
    if (rc == 0)
        expect_last(r, &cu, WEIR__IO_SENT, 0);
    receive(r, &su, "ping", 4);
    expect_last(r, &su, WEIR__IO_RECEIVED, WEIR__IO_CREDIT);
    weir_chain_fini(&bytes);
    closed(r, c);
    closed(r, s);
    closed(r, l);
}

static void a_refused_connect_says_so(void **state) {
    struct rig *r = *state;
    int lu, cu;
    struct weir__io_connect to = {0};
    struct weir__io_sock *c, *l = listener(r, &lu, &to.addr);
    closed(r, l);
    assert_int_equal(r->ops->connect(r->io, &to, &cu, &c), 0);
    expect_last(r, &cu, WEIR__IO_CONNECTED, WEIR_EREFUSED);
    closed(r, c);
    assert_int_equal(weir__base_addr_parse("unix:@weir-nobody-listens-here", &to.addr, NULL), 0);
    assert_int_equal(r->ops->connect(r->io, &to, &cu, &c), 0);
    expect_last(r, &cu, WEIR__IO_CONNECTED, WEIR_EREFUSED);
    closed(r, c);
}

static void cancelled_accepts_wait_in_the_backlog(void **state) {
    struct rig *r = *state;
    int lu, cu;
    struct weir__io_connect to = {0};
    struct weir__io_sock *c, *l = listener(r, &lu, &to.addr);
    assert_int_equal(r->ops->accept_arm(r->io, l, -1), 0);
    quiet(r);
    r->ops->cancel(r->io, l, WEIR__IO_ACCEPT);
    expect_last(r, &lu, WEIR__IO_ACCEPTED, WEIR_ECANCELLED);
    assert_int_equal(r->ops->connect(r->io, &to, &cu, &c), 0);
    expect_last(r, &cu, WEIR__IO_CONNECTED, 0);
    quiet(r);
    assert_int_equal(r->ops->accept_arm(r->io, l, -1), 0);
    struct weir__io_done d;
    expect(r, &lu, WEIR__IO_ACCEPTED, &d);
    assert_true(!d.last && d.handle >= 0);
    r->ops->drop(r->io, d.handle);
    closed(r, c);
    r->ops->close(r->io, l, false);
    expect_last(r, &lu, WEIR__IO_ACCEPTED, WEIR_ECANCELLED);
    expect_last(r, &lu, WEIR__IO_CLOSED, 0);
}

static int dial_blocking(const struct weir_addr *to) {
    struct sockaddr_storage name;
    socklen_t len = weir__os_addr_to_sys(to, &name);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&name, len), 0);
    return fd;
}

/* One cancel comes before the door has looked at the client, the other one after. */
static void a_cancel_loses_no_connection(void **state) {
    struct rig *r = *state;
    int user;
    for (int looked = 0; looked < 2; looked++) {
        struct weir_addr at;
        struct weir__io_sock *l = listener(r, &user, &at);
        assert_int_equal(r->ops->accept_arm(r->io, l, -1), 0);
        quiet(r);
        int client = dial_blocking(&at);
        if (looked)
            assert_true(r->ops->wait(r->io, 0) >= 0);
        r->ops->cancel(r->io, l, WEIR__IO_ACCEPT);
        expect_last(r, &user, WEIR__IO_ACCEPTED, WEIR_ECANCELLED);
        assert_int_equal(r->ops->parked(r->io, l) + r->ops->queued(r->io, l), 1);
        quiet(r);
        assert_int_equal(r->ops->accept_arm(r->io, l, 1), 0);
        struct weir__io_done d;
        expect(r, &user, WEIR__IO_ACCEPTED, &d);
        assert_true(!d.last && d.handle >= 0);
        assert_int_equal(send((int)d.handle, "x", 1, MSG_NOSIGNAL), 1);
        r->ops->drop(r->io, d.handle);
        expect_last(r, &user, WEIR__IO_ACCEPTED, WEIR__IO_CREDIT);
        char byte;
        assert_int_equal(recv(client, &byte, 1, 0), 1);
        assert_int_equal(r->ops->parked(r->io, l) + r->ops->queued(r->io, l), 0);
        closed(r, l);
        close(client);
    }
}

static void a_closed_listener_keeps_no_connection(void **state) {
    struct rig *r = *state;
    int user;
    struct weir_addr at;
    struct weir__io_sock *l = listener(r, &user, &at);
    assert_int_equal(r->ops->accept_arm(r->io, l, -1), 0);
    quiet(r);
    int client = dial_blocking(&at);
    assert_true(r->ops->wait(r->io, 0) >= 0);
    r->ops->close(r->io, l, false);
    expect_last(r, &user, WEIR__IO_ACCEPTED, WEIR_ECANCELLED);
    expect_last(r, &user, WEIR__IO_CLOSED, 0);
    char byte;
    assert_true(recv(client, &byte, 1, 0) <= 0);
    close(client);
}

/* More than any door takes at once, then one that comes alone. */
static void a_full_backlog_is_taken_whole(void **state) {
    enum { CROWD = 50, CREDIT = 20 };
    struct rig *r = *state;
    int user, client[CROWD + 1];
    struct weir_addr at;
    struct weir__io_done d;
    struct weir__io_sock *l = listener(r, &user, &at);
    assert_int_equal(r->ops->queued(r->io, l), 0);
    for (int i = 0; i < CROWD; i++)
        client[i] = dial_blocking(&at);
    for (int i = 0; i <= CROWD; i++) {
        if (i == 0)
            assert_int_equal(r->ops->accept_arm(r->io, l, CREDIT), 0);
        if (i == CREDIT) {
            expect_last(r, &user, WEIR__IO_ACCEPTED, WEIR__IO_CREDIT);
            quiet(r);
            assert_int_equal(r->ops->queued(r->io, l), 1);
            assert_int_equal(r->ops->accept_arm(r->io, l, -1), 0);
        }
        if (i == CROWD) {
            quiet(r);
            assert_int_equal(r->ops->queued(r->io, l), 0);
            client[i] = dial_blocking(&at);
        }
        expect(r, &user, WEIR__IO_ACCEPTED, &d);
        assert_true(!d.last && d.handle >= 0);
        r->ops->drop(r->io, d.handle);
        if (i == CREDIT + 3) { /* while it takes them, and again */
            r->ops->cancel(r->io, l, WEIR__IO_ACCEPT);
            expect_last(r, &user, WEIR__IO_ACCEPTED, WEIR_ECANCELLED);
            assert_int_equal(r->ops->accept_arm(r->io, l, -1), 0);
        }
    }
    assert_int_equal(r->io->stats.accepts, CROWD + 1);
    r->ops->close(r->io, l, false);
    expect_last(r, &user, WEIR__IO_ACCEPTED, WEIR_ECANCELLED);
    expect_last(r, &user, WEIR__IO_CLOSED, 0);
    for (int i = 0; i <= CROWD; i++)
        close(client[i]);
}

static void only_what_listens_is_inherited(void **state) {
    struct rig *r = *state;
    int user, pipes[2];
    struct weir__io_sock *l;
    struct weir__io_listen o = {0};
    assert_int_equal(pipe(pipes), 0);
    int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int none[] = {pipes[0], udp, tcp};
    for (int i = 0; i < 3; i++) {
        o.handle = none[i];
        assert_int_equal(r->ops->listen(r->io, &o, &user, &l), WEIR_EINVAL);
    }
    o.handle = tcp;
    assert_int_equal(listen(tcp, 1), 0);
    assert_int_equal(r->ops->listen(r->io, &o, &user, &l), 0);
    assert_true(fcntl(tcp, F_GETFL) & O_NONBLOCK);
    closed(r, l);
    o.handle = udp;
    o.datagram = true;
    assert_int_equal(r->ops->listen(r->io, &o, &user, &l), 0);
    closed(r, l);
    close(pipes[0]);
    close(pipes[1]);
}

static void one_claims_the_address_and_others_join(void **state) {
    struct rig *r = *state;
    int user;
    struct weir_addr at;
    struct weir__io_sock *a, *b = NULL, *l = listener(r, &user, &at);
    struct weir__io_listen o = {.handle = -1, .addr = at, .claim_ms = 1, .reuse_port = true};
    assert_int_equal(r->ops->listen(r->io, &o, &user, &b), WEIR_EINUSE);
    closed(r, l);
    assert_int_equal(r->ops->listen(r->io, &o, &user, &a), 0);
    assert_int_equal(r->ops->listen(r->io, &o, &user, &b), WEIR_EINUSE);
    o.claim_ms = 0;
    assert_int_equal(r->ops->listen(r->io, &o, &user, &b), 0);
    closed(r, a);
    closed(r, b);
}

/* Runs in a child, whose limit may fall. */
static int out_of_descriptors(const struct variant *v) {
    struct rig rig, *r = &rig;
    if (rig_open(r, v) < 0)
        return 1;
    int user;
    struct weir__io_connect to = {0};
    struct weir__io_sock *l = listener(r, &user, &to.addr);
    struct sockaddr_storage name;
    socklen_t len = weir__os_addr_to_sys(&to.addr, &name);
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(client, (struct sockaddr *)&name, len), 0);
    struct rlimit before, now;
    getrlimit(RLIMIT_NOFILE, &before);
    now = before;
    now.rlim_cur = (rlim_t)client + 1; /* the next descriptor would be client + 1 */
    for (int fd = 0; fd < client; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            dup2(client, fd);
    setrlimit(RLIMIT_NOFILE, &now);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(r->ops->accept_arm(r->io, l, -1), 0);
        expect_last(r, &user, WEIR__IO_ACCEPTED, WEIR_EFDS);
        quiet(r);
    }
    uint64_t events = r->io->stats.events;
    quiet(r);
    assert_int_equal(r->io->stats.events, events);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(r->ops->accept_arm(r->io, l, 1), 0);
    struct weir__io_done d;
    expect(r, &user, WEIR__IO_ACCEPTED, &d);
    assert_true(!d.last && d.handle >= 0);
    return 0;
}

static void out_of_descriptors_ends_the_arm(void **state) {
    const struct variant *v = ((struct rig *)*state)->v;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(out_of_descriptors(v));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_descriptor_number_used_again_gets_no_old_event(void **state) {
    struct rig *r = *state;
    int pa, pb, pc, ua, ub, uc;
    struct weir__io_sock *a = open_pair(r, false, &ua, &pa), *b = open_pair(r, false, &ub, &pb);
    assert_int_equal(r->ops->recv_arm(r->io, a, -1), 0);
    assert_int_equal(r->ops->recv_arm(r->io, b, -1), 0);
    quiet(r);
    put(pa, "a", 1);
    put(pb, "b", 1);
    struct weir__io_done d;
    assert_true(pull(r, &d));
    struct weir__io_sock *other = d.user == &ua ? b : a;
    weir_slice_release(&d.slice);
    void *other_user = other->user;
    r->ops->close(r->io, other, false);
    struct weir__io_sock *c = open_pair(r, false, &uc, &pc);
    assert_int_equal(r->ops->recv_arm(r->io, c, -1), 0);
    expect(r, other_user, WEIR__IO_RECEIVED, &d);
    assert_true(d.last);
    expect_last(r, other_user, WEIR__IO_CLOSED, 0);
    quiet(r);
    if (!r->v->uring)
        assert_int_equal(r->io->stats.stale, 1);
    put(pc, "c", 1);
    receive(r, &uc, "c", 1);
    struct weir__io_sock *left[] = {other == a ? b : a, c};
    for (int i = 0; i < 2; i++) {
        void *user = left[i]->user;
        r->ops->close(r->io, left[i], false);
        expect_last(r, user, WEIR__IO_RECEIVED, WEIR_ECANCELLED);
        expect_last(r, user, WEIR__IO_CLOSED, 0);
    }
    close(pa);
    close(pb);
    close(pc);
}

static void wake_ends_one_wait(void **state) {
    struct rig *r = *state;
    r->ops->wake(r->io);
    r->ops->wake(r->io);
    assert_true(r->ops->wait(r->io, UINT64_MAX) >= 0);
    struct weir__io_done d;
    assert_false(r->ops->next(r->io, &d));
    /* What is left of the two rings may end one more, and a ring of an earlier case that the kernel
     * is still taking apart some; a wake that is never consumed ends all. */
    uint64_t until = r->ops->now(r->io) + 1000 * 1000;
    int slept = 0;
    for (int i = 0; i < 32 && r->ops->now(r->io) < until; i++)
        slept = r->ops->wait(r->io, until);
    assert_int_equal(slept, 1);
    assert_true(r->ops->now(r->io) >= until);
}

static void wait_does_not_sleep_while_next_could_yield(void **state) {
    struct rig *r = *state;
    int peer, user;
    struct weir__io_sock *s = open_pair(r, false, &user, &peer);
    r->ops->close(r->io, s, false);
    assert_int_equal(r->ops->wait(r->io, UINT64_MAX), 0);
    expect_last(r, &user, WEIR__IO_CLOSED, 0);
    close(peer);
    s = open_pair(r, false, &user, &peer);
    assert_int_equal(r->ops->recv_arm(r->io, s, -1), 0);
    quiet(r);
    put(peer, "x", 1);
    assert_true(r->ops->wait(r->io, UINT64_MAX) >= 0);
    receive(r, &user, "x", 1);
    r->ops->cancel(r->io, s, WEIR__IO_RECV);
    expect_last(r, &user, WEIR__IO_RECEIVED, WEIR_ECANCELLED);
    closed(r, s);
    close(peer);
}

static void entropy_differs(void **state) {
    struct rig *r = *state;
    uint64_t before = 0;
    for (int i = 0; i < 100; i++) {
        uint64_t x = r->ops->entropy(r->io);
        assert_int_not_equal(x, before);
        before = x;
    }
}

static void a_foreign_descriptor_is_watched_once(void **state) {
    struct rig *r = *state;
    int user, pipes[2];
    assert_int_equal(pipe(pipes), 0);
    struct weir__io_sock *w;
    assert_int_equal(r->ops->watch(r->io, pipes[0], WEIR__IO_WATCH_READ, &user, &w), 0);
    quiet(r);
    assert_int_equal(write(pipes[1], "x", 1), 1);
    struct weir__io_done d;
    expect(r, &user, WEIR__IO_WATCHED, &d);
    assert_true(d.last && d.code == 0);
    assert_int_equal(d.handle, WEIR__IO_WATCH_READ);
    quiet(r);
    closed(r, w);
    assert_int_equal(r->ops->watch(r->io, pipes[1], WEIR__IO_WATCH_WRITE, &user, &w), 0);
    expect(r, &user, WEIR__IO_WATCHED, &d);
    assert_int_equal(d.handle, WEIR__IO_WATCH_WRITE);
    closed(r, w);
    assert_int_equal(read(pipes[0], &(char){0}, 1), 1);
    assert_int_equal(r->ops->watch(r->io, pipes[0], WEIR__IO_WATCH_READ, &user, &w), 0);
    r->ops->cancel(r->io, w, WEIR__IO_WATCH);
    close(pipes[0]);
    expect_last(r, &user, WEIR__IO_WATCHED, WEIR_ECANCELLED);
    closed(r, w);
    close(pipes[1]);
}

static void opening_fails_cleanly(void **state) {
    struct rig *r = *state;
    static const enum weir__os_kind kinds[] = {WEIR__OS_SOCKET, WEIR__OS_BIND, WEIR__OS_LISTEN,
                                               WEIR__OS_SOCKOPT};
    struct weir__os_fault f;
    int user;
    struct weir__io_sock *s;
    struct weir__io_listen o = {.handle = -1};
    assert_int_equal(weir__base_addr_parse("127.0.0.1:0", &o.addr, NULL), 0);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        plan(&f, kinds[i], EMFILE);
        assert_int_equal(r->ops->listen(r->io, &o, &user, &s), WEIR_EFDS);
        assert_int_equal(f.hit, 1);
    }
    weir__os_fault_set(NULL);
    for (uint64_t nth = 1; nth < 2; nth++) {
        weir__mem_fail(r->mem, nth, false);
        assert_int_equal(r->ops->listen(r->io, &o, &user, &s), WEIR_ENOMEM);
    }
    struct weir__io_connect to = {.addr = o.addr};
    plan(&f, WEIR__OS_SOCKET, EMFILE);
    assert_int_equal(r->ops->connect(r->io, &to, &user, &s), WEIR_EFDS);
    assert_int_equal(r->io->stats.opened, 0);
}

static void arming_without_kernel_memory_ends_like_no_buffer(void **state) {
    struct rig *r = *state;
    int peer, user;
    if (r->v->uring)
        return;
    struct weir__os_fault f;
    struct weir__io_sock *s = open_pair(r, true, &user, &peer);
    put(peer, "x", 1);
    plan(&f, WEIR__OS_EPOLL_SET, ENOMEM);
    assert_int_equal(r->ops->recv_arm(r->io, s, 1), 0);
    expect_last(r, &user, WEIR__IO_RECEIVED, WEIR_ENOMEM);
    assert_int_equal(r->ops->recv_arm(r->io, s, 1), 0);
    receive(r, &user, "x", 1);
    expect_last(r, &user, WEIR__IO_RECEIVED, WEIR__IO_CREDIT);
    closed(r, s);
    close(peer);
}

static void an_aborted_client_does_not_stop_the_listener(void **state) {
    struct rig *r = *state;
    int lu, cu;
    if (r->v->uring)
        return;
    struct weir__os_fault f;
    struct weir__io_connect to = {0};
    struct weir__io_sock *c, *l = listener(r, &lu, &to.addr);
    assert_int_equal(r->ops->connect(r->io, &to, &cu, &c), 0);
    expect_last(r, &cu, WEIR__IO_CONNECTED, 0);
    plan(&f, WEIR__OS_ACCEPT, ECONNABORTED);
    assert_int_equal(r->ops->accept_arm(r->io, l, 1), 0);
    struct weir__io_done d;
    expect(r, &lu, WEIR__IO_ACCEPTED, &d);
    assert_false(d.last);
    assert_int_equal(f.hit, 1);
    r->ops->drop(r->io, d.handle);
    expect_last(r, &lu, WEIR__IO_ACCEPTED, WEIR__IO_CREDIT);
    closed(r, c);
    closed(r, l);
}

/* Every transfer is cut to a few bytes: nothing is lost, doubled or waited for in vain. */
static void transfers_that_are_always_cut_arrive_whole(void **state) {
    struct rig *r = *state;
    int peer, user;
    enum { PARTS = 7, EACH = 501 };
    struct weir__os_fault f = {.kind = WEIR__OS_SEND, .nth = 1, .persist = true, .short_max = 37};
    struct weir__io_sock *s = open_pair(r, true, &user, &peer);
    struct weir_chain c = {0};
    fill(r, &c, PARTS, EACH);
    weir__os_fault_set(&f);
    assert_int_equal(r->ops->send(r->io, s, &c), 0);
    struct weir__io_done d;
    if (!drain_all(r, peer, PARTS * EACH, &d))
        assert_true(pull(r, &d));
    assert_true(d.kind == WEIR__IO_SENT && d.code == 0 && d.count == PARTS * EACH);
    /* A kernel never cuts a receive; edge-triggered doors rely on it: short means drained. */
    f.kind = r->v->edge ? WEIR__OS_KINDS : WEIR__OS_RECV;
    put(peer, "cut into single bytes", 21);
    f.short_max = 1;
    assert_int_equal(r->ops->recv_arm(r->io, s, 21), 0);
    receive(r, &user, "cut into single bytes", 21);
    expect_last(r, &user, WEIR__IO_RECEIVED, WEIR__IO_CREDIT);
    weir__os_fault_set(NULL);
    weir_chain_fini(&c);
    closed(r, s);
    close(peer);
}

static void a_broken_wait_leaves_a_door_that_can_be_freed(void **state) {
    struct rig *r = *state;
    int peer, user;
    if (r->v->uring)
        return;
    struct weir__os_fault f;
    struct weir__io_sock *s = open_pair(r, true, &user, &peer);
    assert_int_equal(r->ops->recv_arm(r->io, s, -1), 0);
    plan(&f, WEIR__OS_EPOLL_WAIT, EBADF);
    assert_true(r->ops->wait(r->io, UINT64_MAX) < 0);
    r->ops->free(r->io);
    char byte;
    assert_int_equal(recv(peer, &byte, 1, 0), 0);
    close(peer);
    assert_int_equal(slots.used, 0);
    struct weir__io_config c = {.mem = r->mem, .slots = &slots};
    assert_int_equal(weir__epoll_new(&c, &r->io, NULL), 0);
}

static void making_a_door_fails_cleanly(void **state) {
    struct rig *r = *state;
    struct weir__io_config c = {.mem = r->mem, .slots = &slots};
    static const enum weir__os_kind kinds[] = {WEIR__OS_EPOLL_NEW, WEIR__OS_EVENT,
                                               WEIR__OS_EPOLL_SET, WEIR__OS_ENTROPY};
    struct weir__os_fault f;
    struct weir__io *io;
    const char *why;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        plan(&f, kinds[i], EMFILE);
        assert_int_equal(weir__epoll_new(&c, &io, &why), WEIR_EFDS);
        assert_true(strlen(why) > 0);
    }
    weir__os_fault_set(NULL);
    weir__mem_fail(r->mem, 1, false);
    assert_int_equal(weir__epoll_new(&c, &io, &why), WEIR_ENOMEM);
}

int main(void) {
    const struct CMUnitTest cases[] = {
        CASE(connect_accept_and_talk),
        CASE(a_refused_connect_says_so),
        CASE(cancelled_accepts_wait_in_the_backlog),
        CASE(a_cancel_loses_no_connection),
        CASE(a_closed_listener_keeps_no_connection),
        CASE(a_full_backlog_is_taken_whole),
        CASE(only_what_listens_is_inherited),
        CASE(one_claims_the_address_and_others_join),
        CASE(out_of_descriptors_ends_the_arm),
        CASE(a_descriptor_number_used_again_gets_no_old_event),
        CASE(wake_ends_one_wait),
        CASE(wait_does_not_sleep_while_next_could_yield),
        CASE(entropy_differs),
        CASE(a_foreign_descriptor_is_watched_once),
        CASE(opening_fails_cleanly),
        CASE(arming_without_kernel_memory_ends_like_no_buffer),
        CASE(an_aborted_client_does_not_stop_the_listener),
        CASE(transfers_that_are_always_cut_arrive_whole),
        CASE(a_broken_wait_leaves_a_door_that_can_be_freed),
        CASE(making_a_door_fails_cleanly),
    };
    return run_cases(cases, sizeof cases / sizeof *cases);
}
