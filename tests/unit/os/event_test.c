#include "os/event.h"
#include "os/sock.h"
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static int rings(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0);
}

static void many_rings_are_one(void **state) {
    (void)state;
    int fd = weir__os_event_new();
    assert_int_equal(weir__os_event_drain(fd), 0);
    assert_int_equal(rings(fd), 0);
    for (int i = 0; i < 1000; i++)
        weir__os_event_signal(fd);
    assert_int_equal(rings(fd), 1);
    assert_int_equal(weir__os_event_drain(fd), 1);
    assert_int_equal(rings(fd), 0);
    assert_int_equal(weir__os_event_drain(fd), 0);
    weir__os_close(fd);
    assert_int_equal(weir__os_event_drain(fd), -EBADF);
}

static void a_ring_keeps_errno(void **state) {
    (void)state;
    errno = 77;
    weir__os_event_signal(-1);
    assert_int_equal(errno, 77);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_rings_are_one),
        cmocka_unit_test(a_ring_keeps_errno),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
