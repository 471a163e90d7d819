#include "os/fault.h"
#include "os/sock.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_reach_the_kernel),
        cmocka_unit_test(buffer_sizes_can_be_asked),
        cmocka_unit_test(an_inherited_socket_says_what_it_is),
        cmocka_unit_test(keepalive_stops_at_the_first_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
