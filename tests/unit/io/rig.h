/* The rig of the io tests: one door, plain sockets of the test as its peers, and tables of cases
 * that run on epoll level-triggered, edge-triggered, level-triggered with deferred sends, and
 * io_uring where the machine has it, with all its features and with fewer. */
#ifndef WEIR_TESTS_UNIT_IO_RIG_H
#define WEIR_TESTS_UNIT_IO_RIG_H
#include "io/epoll/epoll.h"
#include "io/uring/uring.h"
#include "io/io.h"
#include "mem/pool.h"
#include "os/error.h"
#include "os/fault.h"
#include "os/sock.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { WAIT_NS = 1000 * 1000 * 1000, PATIENCE = 10 };

struct variant {
    const char *name;
    bool uring, edge, defer;
    unsigned without; /* of the features of io_uring */
};

struct rig {
    const struct variant *v;
    struct weir_mem *mem;
    struct weir__io *io;
    const struct weir__io_ops *ops;
};

static struct weir__io_slots slots;
static const struct variant variants[] = {
    {"epoll lt", false, false, false, 0},
    {"epoll et", false, true, false, 0},
    {"epoll lt defer", false, false, true, 0},
    {"uring", true, false, false, 0},
    {"uring, sends by request", true, false, true, 0},
    {"uring, plain buffers", true, false, false, WEIR__URING_INC_BUFFERS | WEIR__URING_FAIR_RECV},
    {"uring, with nothing", true, false, true, WEIR__URING_FEATURES},
};

static inline int rig_open(struct rig *r, const struct variant *v) {
    const char *why = "?";
    r->v = v;
    r->mem = weir__mem_pool_new("test");
    weir__mem_enter(r->mem);
    struct weir__io_config c = {.mem = r->mem,
                                .slots = &slots,
                                .edge = v->edge,
                                .defer = v->defer,
                                .uring_without = v->without};
    int rc = v->uring ? weir__uring_new(&c, &r->io, &why) : weir__epoll_new(&c, &r->io, &why);
    if (rc < 0) {
        print_message("%s: not here: %s\n", v->name, why);
        weir__mem_enter(NULL);
        assert_int_equal(weir__mem_pool_free(r->mem), 0);
        return rc;
    }
    r->ops = r->io->ops;
    assert_int_equal(r->ops->start(r->io), 0);
    return 0;
}

static inline void rig_close(struct rig *r) {
    assert_int_equal(r->io->stats.opened, r->io->stats.closed);
    r->ops->free(r->io);
    weir__mem_enter(NULL);
    assert_int_equal(weir__mem_pool_free(r->mem), 0);
    assert_int_equal(slots.used, 0);
}

static inline int setup(void **state) {
    static struct rig rig;
    if (rig_open(&rig, *state) < 0)
        return -1;
    *state = &rig;
    return 0;
}

static inline int teardown(void **state) {
    weir__os_fault_set(NULL);
    rig_close(*state);
    return 0;
}

/* --- pulling --- */

static inline bool pull(struct rig *r, struct weir__io_done *d) {
    for (int i = 0; i < PATIENCE; i++) {
        if (r->ops->submit)
            r->ops->submit(r->io);
        if (r->ops->next(r->io, d))
            return true;
        assert_true(r->ops->wait(r->io, r->ops->now(r->io) + WAIT_NS) >= 0);
    }
    return false;
}

static inline void expect(struct rig *r, void *user, enum weir__io_kind kind,
                          struct weir__io_done *d) {
    assert_true(pull(r, d));
    assert_int_equal(d->kind, kind);
    assert_ptr_equal(d->user, user);
}

static inline void expect_last(struct rig *r, void *user, enum weir__io_kind kind, int code) {
    struct weir__io_done d;
    expect(r, user, kind, &d);
    assert_true(d.last);
    assert_int_equal(d.code, code);
}

/* Looks as often as any door needs to have seen what the kernel already knows. */
static inline void quiet(struct rig *r) {
    struct weir__io_done d;
    for (int i = 0; i < 5; i++) {
        if (r->ops->submit)
            r->ops->submit(r->io);
        assert_false(r->ops->next(r->io, &d));
        assert_true(r->ops->wait(r->io, 0) >= 0);
    }
    assert_false(r->ops->next(r->io, &d));
}

static inline void closed(struct rig *r, struct weir__io_sock *s) {
    uint64_t ref = s->ref;
    void *user = s->user;
    r->ops->close(r->io, s, false);
    expect_last(r, user, WEIR__IO_CLOSED, 0);
    assert_null(weir__io_slot_get(ref));
}

/* Receives until n bytes are there; they must be `want` from its offset on. */
static inline void receive(struct rig *r, void *user, const char *want, size_t n) {
    for (size_t got = 0; got < n;) {
        struct weir__io_done d;
        expect(r, user, WEIR__IO_RECEIVED, &d);
        assert_false(d.last);
        assert_true(d.slice.n > 0 && d.slice.n <= n - got);
        assert_memory_equal(d.slice.p, want + got, d.slice.n);
        got += d.slice.n;
        weir_slice_release(&d.slice);
    }
}

/* --- peers --- */

static inline void set_blocking(int fd) {
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
}

static inline void tcp_pair(int out[2]) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(l, (struct sockaddr *)&a, len), 0);
    assert_int_equal(listen(l, 1), 0);
    assert_int_equal(getsockname(l, (struct sockaddr *)&a, &len), 0);
    out[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(out[1], (struct sockaddr *)&a, len), 0);
    out[0] = accept4(l, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    assert_true(out[0] >= 0);
    close(l);
}

static int door_fd; /* of the socket that open_pair made last */

/* A socket of the door and a blocking descriptor of the test at the other end. Between unix sockets
 * whatever one side did is there for the other at once; TCP may take a moment, also on loopback. */
static inline struct weir__io_sock *open_pair(struct rig *r, bool tcp, void *user, int *peer) {
    int fds[2];
    if (tcp)
        tcp_pair(fds);
    else
        assert_int_equal(weir__os_socketpair(SOCK_STREAM, fds), 0);
    set_blocking(fds[1]);
    *peer = fds[1];
    door_fd = fds[0];
    struct weir__io_sock *s;
    assert_int_equal(r->ops->attach(r->io, fds[0], user, &s), 0);
    assert_ptr_equal(s->user, user);
    return s;
}

static inline void put(int peer, const char *text, size_t n) {
    assert_int_equal(send(peer, text, n, MSG_NOSIGNAL), (ssize_t)n);
}

static inline uint8_t pattern(size_t i) {
    return (uint8_t)(i * 31 + (i >> 8));
}

/* A chain of `parts` slices of `each` patterned bytes. */
static inline void fill(struct rig *r, struct weir_chain *c, unsigned parts, size_t each) {
    size_t at = 0;
    for (unsigned i = 0; i < parts; i++) {
        struct weir_slice s;
        assert_int_equal(weir_slice_new(r->mem, each, &s), 0);
        for (size_t k = 0; k < each; k++)
            s.p[k] = pattern(at++);
        assert_int_equal(weir_chain_add(r->mem, c, &s), 0);
    }
}

/* Reads up to n bytes without blocking and checks them; how many. */
static inline size_t drain(int peer, size_t from, size_t n) {
    uint8_t buf[16384];
    size_t got = 0;
    while (got < n) {
        size_t want = n - got < sizeof buf ? n - got : sizeof buf;
        ssize_t k = recv(peer, buf, want, MSG_DONTWAIT);
        if (k <= 0)
            break;
        for (ssize_t i = 0; i < k; i++)
            assert_int_equal(buf[i], pattern(from + got + (size_t)i));
        got += (size_t)k;
    }
    return got;
}

/* Reads n bytes at the peer, turning the door until they came; *d is the completion that came
 * meanwhile, if any. */
static inline bool drain_all(struct rig *r, int peer, size_t n, struct weir__io_done *d) {
    bool got_done = false;
    uint64_t until = r->ops->now(r->io) + (uint64_t)PATIENCE * WAIT_NS;
    for (size_t got = 0; got < n;) {
        got += drain(peer, got, n - got);
        assert_true(r->ops->now(r->io) < until);
        if (!got_done && r->ops->next(r->io, d))
            got_done = true;
        assert_true(r->ops->wait(r->io, 0) >= 0);
    }
    return got_done;
}

static inline struct weir__io_sock *listener(struct rig *r, void *user, struct weir_addr *at) {
    struct weir__io_listen o = {.handle = -1};
    struct weir__io_sock *l;
    assert_int_equal(weir__base_addr_parse("127.0.0.1:0", &o.addr, NULL), 0);
    assert_int_equal(r->ops->listen(r->io, &o, user, &l), 0);
    assert_int_equal(r->ops->local(r->io, l, at), 0);
    assert_int_not_equal(at->port, 0);
    return l;
}

static inline void plan(struct weir__os_fault *f, enum weir__os_kind kind, int error) {
    *f = (struct weir__os_fault){.kind = kind, .nth = 1, .error = error};
    weir__os_fault_set(f);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* Runs a table of CASEs, one group per door; without io_uring its rows are left out, with one line
 * that says so. */
static inline int run_cases(const struct CMUnitTest *cases, size_t n) {
    static int inbox;
    struct CMUnitTest rows[32];
    struct rig probe;
    int failed = 0;
    weir__io_slots_init(&slots, &inbox);
    bool have_uring = rig_open(&probe, &variants[3]) == 0;
    if (have_uring)
        rig_close(&probe);
    assert_true(n <= sizeof rows / sizeof rows[0]);
    for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++) {
        for (size_t i = 0; i < n; i++) {
            rows[i] = cases[i];
            rows[i].initial_state = (void *)&variants[v];
        }
        if (!variants[v].uring || have_uring)
            failed += _cmocka_run_group_tests(variants[v].name, rows, n, NULL, NULL);
    }
    return failed;
}

#endif
