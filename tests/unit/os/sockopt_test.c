#include "os/fault.h"
#include "os/error.h"
#include "os/listener.h"
#include "os/sock.h"
#include "os/sockopt.h"
#include "weir/error.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static int tcp(void) {
    struct weir_addr a;
    weir__base_addr_parse("127.0.0.1:0", &a, NULL);
    int fd = weir__os_socket(&a, SOCK_STREAM);
    assert_true(fd >= 0);
    return fd;
}

static int option(int fd, int level, int name) {
    int v = -1;
    socklen_t len = sizeof v;
    assert_int_equal(getsockopt(fd, level, name, &v, &len), 0);
    return v;
}

static void options_reach_the_kernel(void **state) {
    (void)state;
    int fd = tcp();
    struct linger l;
    socklen_t len = sizeof l;
    assert_int_equal(weir__os_set_nodelay(fd, true), 0);
    assert_true(option(fd, IPPROTO_TCP, TCP_NODELAY) != 0);
    assert_int_equal(weir__os_set_nodelay(fd, false), 0);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_NODELAY), 0);
    assert_int_equal(weir__os_set_reuseaddr(fd, true), 0);
    assert_true(option(fd, SOL_SOCKET, SO_REUSEADDR) != 0);
    assert_int_equal(weir__os_set_reuseport(fd, true), 0);
    assert_true(option(fd, SOL_SOCKET, SO_REUSEPORT) != 0);
    assert_int_equal(weir__os_set_keepalive(fd, 30, 5, 3), 0);
    assert_true(option(fd, SOL_SOCKET, SO_KEEPALIVE) != 0);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 30);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPINTVL), 5);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPCNT), 3);
    assert_int_equal(weir__os_set_user_timeout(fd, 1500), 0);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 1500);
    assert_int_equal(weir__os_set_notsent_lowat(fd, 16384), 0);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT), 16384);
    assert_int_equal(weir__os_set_linger0(fd), 0);
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &len), 0);
    assert_true(l.l_onoff && l.l_linger == 0);
    weir__os_close(fd);
}

static void buffer_sizes_can_be_asked(void **state) {
    (void)state;
    int fd = tcp();
    assert_int_equal(weir__os_set_sndbuf(fd, 8192), 0);
    assert_int_equal(weir__os_get_sndbuf(fd), 16384); /* the kernel doubles it, see socket(7) */
    assert_int_equal(weir__os_set_rcvbuf(fd, 8192), 0);
    assert_int_equal(weir__os_get_rcvbuf(fd), 16384);
    weir__os_close(fd);
}

static void an_inherited_socket_says_what_it_is(void **state) {
    (void)state;
    int fd = tcp();
    bool listens;
    assert_int_equal(weir__os_sock_type(fd, &listens), SOCK_STREAM);
    assert_false(listens);
    assert_int_equal(weir__os_listen(fd, 1), 0);
    assert_int_equal(weir__os_sock_type(fd, &listens), SOCK_STREAM);
    assert_true(listens);
    weir__os_close(fd);
    assert_int_equal(weir__os_sock_type(-1, &listens), -EBADF);
}

static void keepalive_stops_at_the_first_failure(void **state) {
    (void)state;
    int fd = tcp();
    for (uint32_t nth = 1; nth <= 5; nth++) {
        struct weir__os_fault f = {.kind = WEIR__OS_SOCKOPT, .nth = nth, .error = EPERM};
        weir__os_fault_set(&f);
        int rc = weir__os_set_keepalive(fd, 30, 5, 3);
        weir__os_fault_set(NULL);
        assert_int_equal(rc, nth <= 4 ? -EPERM : 0);
        assert_int_equal(option(fd, SOL_SOCKET, SO_KEEPALIVE) != 0, nth > 4);
    }
    weir__os_close(fd);
    assert_int_equal(weir__os_set_nodelay(fd, true), -EBADF);
    assert_int_equal(weir__os_get_rcvbuf(fd), -EBADF);
}

/* --- the policy ------------------------------------------------------------------------------ */

static void nothing_asked_means_the_defaults(void **state) {
    (void)state;
    static const struct weir_socket_options zero;
    for (unsigned i = 0; i < 2; i++) {
        int fd = tcp(), sndbuf = option(fd, SOL_SOCKET, SO_SNDBUF);
        assert_int_equal(weir__os_sock_apply(fd, i ? &zero : NULL, i == 0), 0);
        assert_true(option(fd, IPPROTO_TCP, TCP_NODELAY) != 0);
        assert_true(option(fd, SOL_SOCKET, SO_KEEPALIVE) != 0);
        assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 60);
        assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPINTVL), 15);
        assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPCNT), 4);
        assert_int_equal(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
        assert_int_equal(option(fd, SOL_SOCKET, SO_SNDBUF), sndbuf);
        weir__os_close(fd);
    }
}

static const struct weir_socket_options everything = {
    .nagle = true,
    .keepalive_idle_s = 30,
    .keepalive_interval_s = 5,
    .keepalive_count = 3,
    .user_timeout_ms = 1500,
    .rcvbuf_bytes = 65536,
    .sndbuf_bytes = 32768,
    .notsent_lowat_bytes = 16384,
    .fastopen_max = 7,
};

static void assert_everything(int fd, bool listener) {
    struct weir_socket_options got;
    assert_int_equal(weir__os_sock_effective(fd, listener, &got), 0);
    assert_true(got.nagle);
    assert_false(got.no_keepalive);
    assert_int_equal(got.keepalive_idle_s, 30);
    assert_int_equal(got.keepalive_interval_s, 5);
    assert_int_equal(got.keepalive_count, 3);
    assert_int_equal(got.user_timeout_ms, 1500);
    assert_int_equal(got.rcvbuf_bytes, 65536);
    assert_int_equal(got.sndbuf_bytes, 32768);
    assert_int_equal(got.notsent_lowat_bytes, 16384);
}

static int listener_with(const struct weir_socket_options *o, bool share, struct weir_addr *at) {
    struct weir__os_listener l = {.addr = *at, .backlog = 64, .reuse_port = share, .options = o};
    int fd = weir__os_listener_open(&l);
    assert_true(fd >= 0);
    assert_int_equal(weir__os_local(fd, at), 0);
    return fd;
}

static int accepted_from(int listener, const struct weir_addr *at, int *client) {
    struct pollfd p = {.fd = listener, .events = POLLIN};
    *client = weir__os_socket(at, SOCK_STREAM);
    int rc = weir__os_connect(*client, at);
    assert_true(rc == 0 || rc == -EINPROGRESS);
    assert_int_equal(poll(&p, 1, 20000), 1);
    int fd = weir__os_accept(listener, NULL);
    assert_true(fd >= 0);
    return fd;
}

/* The reason why accepting costs no call per option. */
static void accepted_sockets_inherit_everything(void **state) {
    (void)state;
    struct weir_addr at;
    int client;
    weir__base_addr_parse("127.0.0.1:0", &at, NULL);
    int listener = listener_with(&everything, false, &at);
    assert_everything(listener, true);
    assert_int_equal(option(listener, IPPROTO_TCP, TCP_FASTOPEN), 7);
    int fd = accepted_from(listener, &at, &client);
    assert_everything(fd, false);
    weir__os_close(fd);
    weir__os_close(client);
    weir__os_close(listener);
}

static void a_client_opens_fast_and_probes_not_when_told(void **state) {
    (void)state;
    struct weir_socket_options o = everything, got;
    int fd = tcp();
    o.no_keepalive = true;
    assert_int_equal(weir__os_sock_apply(fd, &o, false), 0);
    assert_int_equal(weir__os_sock_effective(fd, false, &got), 0);
    assert_true(got.no_keepalive);
    assert_int_equal(got.fastopen_max, 1);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_FASTOPEN), 0);
    weir__os_close(fd);
}

static void a_refused_option_has_a_name(void **state) {
    (void)state;
    const struct {
        struct weir_socket_options o;
        int code;
        const char *text;
    } bad[] = {
        {{.keepalive_idle_s = 32768}, WEIR_ESOCKOPT(WEIR_SOCKET_KEEPALIVE_IDLE), "TCP_KEEPIDLE"},
        {{.keepalive_interval_s = UINT32_MAX},
         WEIR_ESOCKOPT(WEIR_SOCKET_KEEPALIVE_INTERVAL),
         "TCP_KEEPINTVL"},
        {{.keepalive_count = 128}, WEIR_ESOCKOPT(WEIR_SOCKET_KEEPALIVE_COUNT), "TCP_KEEPCNT"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int fd = tcp(), rc = weir__os_sock_apply(fd, &bad[i].o, true);
        assert_int_equal(rc, bad[i].code);
        assert_int_equal(weir__os_error(rc), bad[i].code);
        assert_non_null(strstr(weir_strerror(rc), bad[i].text));
        assert_string_equal(weir_errname(rc), "ESOCKOPT");
        assert_int_equal(weir_severity(rc), WEIR_SEV_SYSTEM);
        weir__os_close(fd);
    }
    assert_int_equal(weir__os_sock_apply(-1, NULL, true), -EBADF);
}

/* In the order in which they are set: buffers, nodelay, the rest. */
static void every_call_can_fail(void **state) {
    (void)state;
    static const enum weir_socket_option order[] = {
        WEIR_SOCKET_RCVBUF,          WEIR_SOCKET_SNDBUF,
        WEIR_SOCKET_NODELAY,         WEIR_SOCKET_USER_TIMEOUT,
        WEIR_SOCKET_NOTSENT_LOWAT,   WEIR_SOCKET_FASTOPEN,
        WEIR_SOCKET_KEEPALIVE_IDLE,  WEIR_SOCKET_KEEPALIVE_INTERVAL,
        WEIR_SOCKET_KEEPALIVE_COUNT, WEIR_SOCKET_KEEPALIVE,
    };
    int fd = tcp();
    for (uint32_t nth = 1; nth <= 11; nth++) {
        struct weir__os_fault f = {.kind = WEIR__OS_SOCKOPT, .nth = nth, .error = EPERM};
        weir__os_fault_set(&f);
        int rc = weir__os_sock_apply(fd, &everything, true);
        weir__os_fault_set(NULL);
        assert_int_equal(rc, nth <= 10 ? WEIR_ESOCKOPT((int)order[nth - 1]) : 0);
    }
    struct weir__os_fault f = {.kind = WEIR__OS_SOCKOPT, .nth = 4, .error = ENOMEM};
    weir__os_fault_set(&f);
    assert_int_equal(weir__os_sock_apply(fd, &everything, true), -ENOMEM);
    weir__os_fault_set(NULL);
    struct weir_socket_options got;
    for (uint32_t nth = 1; nth <= 12; nth++) {
        f = (struct weir__os_fault){.kind = WEIR__OS_SOCKOPT, .nth = nth, .error = EPERM};
        weir__os_fault_set(&f);
        int rc = weir__os_sock_effective(fd, true, &got);
        weir__os_fault_set(NULL);
        assert_int_equal(rc, nth <= 11 ? -EPERM : 0);
    }
    weir__os_close(fd);
}

static void other_sockets_take_the_buffers_only(void **state) {
    (void)state;
    struct weir_addr at;
    int pair[2];
    weir__base_addr_parse("127.0.0.1:0", &at, NULL);
    assert_int_equal(weir__os_socketpair(SOCK_STREAM, pair), 0);
    int udp = weir__os_socket(&at, SOCK_DGRAM);
    const int fds[] = {pair[0], udp};
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(weir__os_sock_apply(fds[i], &everything, false), 0);
        assert_int_equal(weir__os_get_sndbuf(fds[i]), 65536);
        assert_int_equal(option(fds[i], SOL_SOCKET, SO_KEEPALIVE), 0);
    }
    weir__os_close(pair[0]);
    weir__os_close(pair[1]);
    weir__os_close(udp);
}

/* --- steering -------------------------------------------------------------------------------- */

static bool waits(int listener) {
    return weir__os_listener_queued(listener) == 1;
}

/* On loopback the CPU of the client receives too. */
static void connections_come_to_the_listener_of_their_cpu(void **state) {
    (void)state;
    cpu_set_t all, one;
    unsigned cpus[2], n = 0;
    struct weir_addr at;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE && n < 2; cpu++)
        if (CPU_ISSET(cpu, &all))
            cpus[n++] = cpu;
    if (n < 2)
        skip();
    weir__base_addr_parse("127.0.0.1:0", &at, NULL);
    unsigned order[2] = {cpus[1], cpus[0]}; /* not what the kernel would do by number */
    int listeners[2] = {listener_with(NULL, true, &at), listener_with(NULL, true, &at)};
    assert_int_equal(weir__os_sock_steer(listeners[0], order, 2), 0);
    for (unsigned i = 0; i < 40; i++) {
        int client;
        CPU_ZERO(&one);
        CPU_SET(order[i % 2], &one);
        assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
        int fd = accepted_from(listeners[i % 2], &at, &client);
        assert_false(waits(listeners[1 - i % 2]));
        weir__os_close(fd);
        weir__os_close(client);
    }
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    weir__os_close(listeners[0]);
    weir__os_close(listeners[1]);
}

static void steering_has_limits(void **state) {
    (void)state;
    static const unsigned cpus[WEIR__OS_STEER_MAX + 1];
    struct weir_addr at;
    weir__base_addr_parse("127.0.0.1:0", &at, NULL);
    int fd = listener_with(NULL, true, &at);
    assert_int_equal(weir__os_sock_steer(fd, cpus, 0), -EINVAL);
    assert_int_equal(weir__os_sock_steer(fd, cpus, WEIR__OS_STEER_MAX + 1), -EINVAL);
    assert_int_equal(weir__os_sock_steer(fd, cpus, WEIR__OS_STEER_MAX), 0);
    struct weir__os_fault f = {.kind = WEIR__OS_SOCKOPT, .nth = 1, .error = ENOPROTOOPT};
    weir__os_fault_set(&f);
    int rc = weir__os_sock_steer(fd, cpus, 1);
    weir__os_fault_set(NULL);
    assert_int_equal(weir__os_error(rc), WEIR_ENOTSUP);
    weir__os_close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_reach_the_kernel),
        cmocka_unit_test(buffer_sizes_can_be_asked),
        cmocka_unit_test(an_inherited_socket_says_what_it_is),
        cmocka_unit_test(keepalive_stops_at_the_first_failure),
        cmocka_unit_test(nothing_asked_means_the_defaults),
        cmocka_unit_test(accepted_sockets_inherit_everything),
        cmocka_unit_test(a_client_opens_fast_and_probes_not_when_told),
        cmocka_unit_test(a_refused_option_has_a_name),
        cmocka_unit_test(every_call_can_fail),
        cmocka_unit_test(other_sockets_take_the_buffers_only),
        cmocka_unit_test(connections_come_to_the_listener_of_their_cpu),
        cmocka_unit_test(steering_has_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
