#include "os/sock.h"
#include "os/fault.h"
#include "os/file.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>

struct pair {
    int listener, client, server;
    struct weir_addr at, peer;
};

static void readable(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 10000), 1);
}

static int listener_at(const char *text, struct weir_addr *at) {
    assert_int_equal(weir__base_addr_parse(text, at, NULL), 0);
    int fd = weir__os_socket(at, SOCK_STREAM);
    assert_true(fd >= 0);
    assert_int_equal(weir__os_bind(fd, at), 0);
    assert_int_equal(weir__os_listen(fd, 16), 0);
    assert_int_equal(weir__os_local(fd, at), 0);
    return fd;
}

static struct pair connected(const char *text) {
    struct pair p;
    p.listener = listener_at(text, &p.at);
    p.client = weir__os_socket(&p.at, SOCK_STREAM);
    int rc = weir__os_connect(p.client, &p.at);
    assert_true(rc == 0 || rc == -EINPROGRESS);
    readable(p.listener);
    p.server = weir__os_accept(p.listener, &p.peer);
    assert_true(p.server >= 0);
    assert_int_equal(weir__os_sock_error(p.client), 0);
    return p;
}

static void hang_up(struct pair *p) {
    assert_int_equal(weir__os_close(p->client), 0);
    assert_int_equal(weir__os_close(p->server), 0);
    assert_int_equal(weir__os_close(p->listener), 0);
}

static void flags_are_set(int fd) {
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

static void talk(const char *text) {
    struct pair p = connected(text);
    struct weir_addr a;
    char buf[32];
    flags_are_set(p.listener);
    flags_are_set(p.client);
    flags_are_set(p.server);
    assert_int_equal(weir__os_accept(p.listener, NULL), -EAGAIN);
    assert_int_equal(weir__os_local(p.client, &a), 0);
    assert_true(a.kind == WEIR__ADDR_UNIX || weir__base_addr_equal(&a, &p.peer));
    assert_int_equal(weir__os_peer(p.client, &a), 0);
    assert_true(weir__base_addr_equal(&a, &p.at));
    assert_int_equal(weir__os_recv(p.server, buf, sizeof buf), -EAGAIN);
    assert_int_equal(weir__os_send(p.client, "hel", 3, false), 3);
    const struct iovec parts[] = {{"lo ", 3}, {NULL, 0}, {"weir", 4}};
    assert_int_equal(weir__os_sendv(p.client, parts, 3, false), 7);
    for (size_t got = 0; got < 10;) {
        readable(p.server);
        ssize_t n = weir__os_recv(p.server, buf + got, sizeof buf - got);
        assert_true(n > 0);
        got += (size_t)n;
    }
    assert_memory_equal(buf, "hello weir", 10);
    assert_int_equal(weir__os_shutdown_write(p.client), 0);
    readable(p.server);
    assert_int_equal(weir__os_recv(p.server, buf, sizeof buf), 0);
    hang_up(&p);
}

static void talks_over_ip4(void **state) {
    (void)state;
    talk("127.0.0.1:0");
}

static void talks_over_ip6(void **state) {
    (void)state;
    struct weir_addr a;
    weir__base_addr_parse("[::1]:0", &a, NULL);
    int fd = weir__os_socket(&a, SOCK_STREAM);
    if (fd < 0 || weir__os_bind(fd, &a) < 0)
        skip();
    close(fd);
    talk("[::1]:0");
}

static void talks_over_unix(void **state) {
    (void)state;
    char text[64];
    snprintf(text, sizeof text, "unix:@weir-sock-test-%d", (int)getpid());
    talk(text);
    snprintf(text, sizeof text, "unix:/tmp/weir-sock-test-%d", (int)getpid());
    talk(text);
    assert_int_equal(weir__os_file_unlink(text + 5), 0);
}

static void kernel_form_and_back(void **state) {
    (void)state;
    static const char *const texts[] = {"1.2.3.4:567", "[fe80::1%3]:99", "unix:/tmp/x", "unix:@y"};
    struct sockaddr_storage s;
    struct weir_addr a, b;
    for (size_t i = 0; i < 4; i++) {
        weir__base_addr_parse(texts[i], &a, NULL);
        weir__os_addr_from_sys(&s, weir__os_addr_to_sys(&a, &s), &b);
        assert_true(weir__base_addr_equal(&a, &b));
    }
    assert_int_equal(weir__os_addr_to_sys(&(struct weir_addr){0}, &s), 0);
    weir__os_addr_from_sys(&s, 0, &b);
    assert_int_equal(b.kind, WEIR__ADDR_NONE);
    s.ss_family = AF_NETLINK;
    weir__os_addr_from_sys(&s, sizeof s, &b);
    assert_int_equal(b.kind, WEIR__ADDR_NONE);
}

static void refused_and_in_use_say_so(void **state) {
    (void)state;
    struct weir_addr a;
    int listener = listener_at("127.0.0.1:0", &a);
    int other = weir__os_socket(&a, SOCK_STREAM);
    assert_int_equal(weir__os_bind(other, &a), -EADDRINUSE);
    weir__os_close(listener);
    int rc = weir__os_connect(other, &a);
    if (rc == -EINPROGRESS) {
        struct pollfd p = {.fd = other, .events = POLLOUT};
        poll(&p, 1, 10000);
        rc = weir__os_sock_error(other);
    }
    assert_int_equal(rc, -ECONNREFUSED);
    weir__os_close(other);
    assert_int_equal(weir__os_close(other), -EBADF);
}

static void a_dead_peer_raises_no_signal(void **state) {
    (void)state;
    int fds[2];
    const struct iovec part = {"x", 1};
    assert_int_equal(weir__os_socketpair(SOCK_STREAM, fds), 0);
    flags_are_set(fds[0]);
    weir__os_close(fds[1]);
    assert_int_equal(weir__os_send(fds[0], "x", 1, true), -EPIPE);
    assert_int_equal(weir__os_sendv(fds[0], &part, 1, true), -EPIPE);
    weir__os_close(fds[0]);
}

/* The kernel may have its own TLS; it knows no keys of zeros. */
static void keys_that_are_none_are_refused(void **state) {
    (void)state;
    static const uint8_t info[40];
    int fds[2];
    struct pair p = connected("127.0.0.1:0");
    for (int tx = 0; tx < 2; tx++) {
        int rc = weir__os_set_crypto(p.client, tx, info, sizeof info);
        assert_true(rc == -EOPNOTSUPP || rc == -EINVAL);
    }
    assert_int_equal(weir__os_is_unix(p.client), 0);
    hang_up(&p);
    assert_int_equal(weir__os_socketpair(SOCK_STREAM, fds), 0);
    assert_int_equal(weir__os_is_unix(fds[0]), 1);
    assert_int_equal(weir__os_set_crypto(fds[0], true, info, sizeof info), -EOPNOTSUPP);
    weir__os_close(fds[0]);
    weir__os_close(fds[1]);
    assert_int_equal(weir__os_is_unix(fds[0]), -EBADF);
}

static void sendfile_sends_a_range(void **state) {
    (void)state;
    char name[64], buf[32];
    int fds[2];
    snprintf(name, sizeof name, "/tmp/weir-sendfile-test-%d", (int)getpid());
    int file = weir__os_file_open(AT_FDCWD, name, O_RDWR | O_CREAT | O_TRUNC);
    weir__os_file_unlink(name);
    assert_int_equal(weir__os_file_write(file, "0123456789", 10), 10);
    assert_int_equal(weir__os_socketpair(SOCK_STREAM, fds), 0);
    assert_int_equal(weir__os_sendfile(fds[0], file, 3, 4), 4);
    assert_int_equal(weir__os_recv(fds[1], buf, sizeof buf), 4);
    assert_memory_equal(buf, "3456", 4);
    assert_int_equal(weir__os_sendfile(fds[0], file, 8, 100), 2);
    assert_int_equal(weir__os_sendfile(fds[0], file, 10, 100), 0);
    weir__os_close(file);
    weir__os_close(fds[0]);
    weir__os_close(fds[1]);
}

static void unsent_counts_what_waits(void **state) {
    (void)state;
    struct pair p = connected("127.0.0.1:0");
    uint32_t n = 1;
    assert_int_equal(weir__os_unsent(p.client, &n), 0);
    assert_int_equal(n, 0);
    while (weir__os_send(p.client, "0123456789abcdef", 16, false) > 0)
        continue;
    assert_int_equal(weir__os_unsent(p.client, &n), 0);
    assert_true(n > 0);
    hang_up(&p);
}

static void descriptors_travel(void **state) {
    (void)state;
    int fds[2], inner[2], got_fds[2] = {-1, -1};
    unsigned got;
    char buf[8];
    assert_int_equal(weir__os_socketpair(SOCK_STREAM, fds), 0);
    assert_int_equal(weir__os_socketpair(SOCK_STREAM, inner), 0);
    assert_int_equal(weir__os_recv_fds(fds[1], got_fds, 2, &got, buf, sizeof buf), -EAGAIN);
    assert_int_equal(weir__os_send_fds(fds[0], inner, 2, "ab", 2), 2);
    assert_int_equal(weir__os_recv_fds(fds[1], got_fds, 2, &got, buf, sizeof buf), 2);
    assert_int_equal(got, 2);
    assert_memory_equal(buf, "ab", 2);
    assert_true(fcntl(got_fds[0], F_GETFD) & FD_CLOEXEC);
    assert_int_equal(weir__os_send(got_fds[0], "q", 1, false), 1);
    assert_int_equal(weir__os_recv(inner[1], buf, sizeof buf), 1);
    assert_int_equal(weir__os_send_fds(fds[0], NULL, 0, "c", 1), 1);
    assert_int_equal(weir__os_recv_fds(fds[1], got_fds + 0, 0, &got, buf, sizeof buf), 1);
    assert_int_equal(got, 0);
    assert_int_equal(weir__os_send_fds(fds[0], inner, WEIR__OS_FDS_MAX + 1, "c", 1), -EINVAL);
    assert_int_equal(weir__os_send_fds(fds[0], inner, 1, "", 0), -EINVAL);
    for (int i = 0; i < 2; i++) {
        weir__os_close(got_fds[i]);
        weir__os_close(fds[i]);
        weir__os_close(inner[i]);
    }
}

static void too_many_descriptors_leak_nothing(void **state) {
    (void)state;
    int fds[2], inner[2], one;
    unsigned got;
    char buf[8];
    assert_int_equal(weir__os_socketpair(SOCK_STREAM, fds), 0);
    assert_int_equal(weir__os_socketpair(SOCK_STREAM, inner), 0);
    assert_int_equal(weir__os_send_fds(fds[0], inner, 2, "ab", 2), 2);
    assert_int_equal(weir__os_recv_fds(fds[1], &one, 1, &got, buf, sizeof buf), -EMSGSIZE);
    assert_int_equal(got, 0);
    int next = dup(fds[0]);
    assert_int_equal(next, inner[1] + 1);
    close(next);
    assert_int_equal(fcntl(inner[1] + 2, F_GETFD), -1);
    for (int i = 0; i < 2; i++) {
        weir__os_close(fds[i]);
        weir__os_close(inner[i]);
    }
}

static void datagrams_keep_their_edges(void **state) {
    (void)state;
    struct weir_addr at, from;
    struct sockaddr_storage to, s;
    char buf[16], out[] = "dgram";
    weir__base_addr_parse("127.0.0.1:0", &at, NULL);
    int a = weir__os_socket(&at, SOCK_DGRAM), b = weir__os_socket(&at, SOCK_DGRAM);
    assert_int_equal(weir__os_bind(a, &at), 0);
    assert_int_equal(weir__os_bind(b, &at), 0);
    assert_int_equal(weir__os_local(b, &at), 0);
    struct iovec part = {out, 5};
    struct msghdr m = {.msg_name = &to, .msg_iov = &part, .msg_iovlen = 1};
    m.msg_namelen = weir__os_addr_to_sys(&at, &to);
    assert_int_equal(weir__os_sendmsg(a, &m, 0), 5);
    readable(b);
    part = (struct iovec){buf, sizeof buf};
    m = (struct msghdr){.msg_name = &s, .msg_namelen = sizeof s, .msg_iov = &part, .msg_iovlen = 1};
    assert_int_equal(weir__os_recvmsg(b, &m, 0), 5);
    weir__os_addr_from_sys(&s, m.msg_namelen, &from);
    assert_int_equal(weir__os_local(a, &at), 0);
    assert_true(weir__base_addr_equal(&from, &at));
    assert_int_equal(weir__os_recvmsg(b, &m, 0), -EAGAIN);
    weir__os_close(a);
    weir__os_close(b);
}

static void short_sends_cut_at_every_byte(void **state) {
    (void)state;
    const struct iovec parts[] = {{"abc", 3}, {"", 0}, {"defg", 4}, {"h", 1}};
    int fds[2];
    char buf[16];
    assert_int_equal(weir__os_socketpair(SOCK_STREAM, fds), 0);
    for (size_t cut = 1; cut <= 9; cut++) {
        struct weir__os_fault f = {.kind = WEIR__OS_SEND, .nth = 1, .short_max = cut};
        weir__os_fault_set(&f);
        ssize_t want = cut < 8 ? (ssize_t)cut : 8;
        assert_int_equal(weir__os_sendv(fds[0], parts, 4, false), want);
        weir__os_fault_set(NULL);
        assert_int_equal(weir__os_recv(fds[1], buf, sizeof buf), want);
        assert_memory_equal(buf, "abcdefgh", (size_t)want);
    }
    struct weir__os_fault f = {.kind = WEIR__OS_ANY, .nth = 1, .persist = true, .short_max = 2};
    weir__os_fault_set(&f);
    assert_int_equal(weir__os_send(fds[0], "xyz", 3, false), 2);
    assert_int_equal(weir__os_recv(fds[1], buf, sizeof buf), 2);
    weir__os_fault_set(NULL);
    weir__os_close(fds[0]);
    weir__os_close(fds[1]);
}

/* Each call answers with the planned errno and touches no descriptor. */
static void every_call_can_be_made_to_fail(void **state) {
    (void)state;
    struct weir_addr a;
    struct msghdr m = {0};
    const struct iovec part = {"x", 1};
    int fds[2], one = 0;
    unsigned got;
    uint32_t unsent;
    bool listens;
    char buf[4];
    weir__base_addr_parse("127.0.0.1:0", &a, NULL);
    struct weir__os_fault f = {.kind = WEIR__OS_ANY, .nth = 1, .error = ENFILE, .persist = true};
    weir__os_fault_set(&f);
    const ssize_t all[] = {
        weir__os_socket(&a, SOCK_STREAM),
        weir__os_socketpair(SOCK_STREAM, fds),
        weir__os_bind(-1, &a),
        weir__os_listen(-1, 1),
        weir__os_accept(-1, NULL),
        weir__os_connect(-1, &a),
        weir__os_local(-1, &a),
        weir__os_peer(-1, &a),
        weir__os_sock_error(-1),
        weir__os_shutdown_write(-1),
        weir__os_recv(-1, buf, 4),
        weir__os_send(-1, "x", 1, false),
        weir__os_sendv(-1, &part, 1, false),
        weir__os_sendmsg(-1, &m, 0),
        weir__os_recvmsg(-1, &m, 0),
        weir__os_sendfile(-1, -1, 0, 1),
        weir__os_unsent(-1, &unsent),
        weir__os_send_fds(-1, &one, 1, "x", 1),
        weir__os_recv_fds(-1, &one, 1, &got, buf, 4),
        weir__os_set_nodelay(-1, true),
        weir__os_set_keepalive(-1, 1, 1, 1),
        weir__os_get_sndbuf(-1),
        weir__os_sock_type(-1, &listens),
    };
    weir__os_fault_set(NULL);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        assert_int_equal(all[i], -ENFILE);
}

static void real_errors_are_negative(void **state) {
    (void)state;
    struct weir_addr a = {0};
    uint32_t unsent;
    char buf[4];
    const struct iovec part = {"x", 1};
    struct msghdr m = {0};
    assert_int_equal(weir__os_socket(&a, SOCK_STREAM), -EAFNOSUPPORT);
    weir__base_addr_parse("127.0.0.1:0", &a, NULL);
    assert_int_equal(weir__os_bind(-1, &a), -EBADF);
    assert_int_equal(weir__os_listen(-1, 1), -EBADF);
    assert_int_equal(weir__os_accept(-1, NULL), -EBADF);
    assert_int_equal(weir__os_connect(-1, &a), -EBADF);
    assert_int_equal(weir__os_local(-1, &a), -EBADF);
    assert_int_equal(weir__os_peer(-1, &a), -EBADF);
    assert_int_equal(weir__os_shutdown_write(-1), -EBADF);
    assert_int_equal(weir__os_recv(-1, buf, 4), -EBADF);
    assert_int_equal(weir__os_send(-1, "x", 1, false), -EBADF);
    assert_int_equal(weir__os_sendv(-1, &part, 1, false), -EBADF);
    assert_int_equal(weir__os_recvmsg(-1, &m, 0), -EBADF);
    assert_int_equal(weir__os_sendfile(-1, -1, 0, 1), -EBADF);
    assert_int_equal(weir__os_unsent(-1, &unsent), -EBADF);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(talks_over_ip4),
        cmocka_unit_test(talks_over_ip6),
        cmocka_unit_test(talks_over_unix),
        cmocka_unit_test(kernel_form_and_back),
        cmocka_unit_test(refused_and_in_use_say_so),
        cmocka_unit_test(a_dead_peer_raises_no_signal),
        cmocka_unit_test(keys_that_are_none_are_refused),
        cmocka_unit_test(sendfile_sends_a_range),
        cmocka_unit_test(unsent_counts_what_waits),
        cmocka_unit_test(descriptors_travel),
        cmocka_unit_test(too_many_descriptors_leak_nothing),
        cmocka_unit_test(datagrams_keep_their_edges),
        cmocka_unit_test(short_sends_cut_at_every_byte),
        cmocka_unit_test(every_call_can_be_made_to_fail),
        cmocka_unit_test(real_errors_are_negative),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
