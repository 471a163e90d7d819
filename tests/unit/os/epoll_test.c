#include "os/epoll.h"
#include "os/clock.h"
#include "os/event.h"
#include "os/fault.h"
#include "os/sock.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void events_carry_their_data(void **state) {
    (void)state;
    struct epoll_event e[4];
    int ep = weir__os_epoll_new(), bell = weir__os_event_new();
    const uint64_t token = UINT64_C(0xfedcba9876543210);
    assert_true(ep >= 0 && bell >= 0);
    assert_int_equal(weir__os_epoll_add(ep, bell, EPOLLIN, token), 0);
    assert_int_equal(weir__os_epoll_add(ep, bell, EPOLLIN, token), -EEXIST);
    assert_int_equal(weir__os_epoll_wait(ep, e, 4, 0), 0);
    weir__os_event_signal(bell);
    assert_int_equal(weir__os_epoll_wait(ep, e, 4, -1), 1);
    assert_true(e[0].data.u64 == token && e[0].events == EPOLLIN);
    assert_int_equal(weir__os_epoll_mod(ep, bell, EPOLLIN | EPOLLOUT, 7), 0);
    assert_int_equal(weir__os_epoll_wait(ep, e, 4, 1000000000), 1);
    assert_true(e[0].data.u64 == 7 && (e[0].events & EPOLLOUT));
    assert_int_equal(weir__os_epoll_del(ep, bell), 0);
    assert_int_equal(weir__os_epoll_del(ep, bell), -ENOENT);
    assert_int_equal(weir__os_epoll_wait(ep, e, 4, 0), 0);
    weir__os_close(bell);
    weir__os_close(ep);
}

static void waits_at_least_the_time_given(void **state) {
    (void)state;
    struct epoll_event e;
    int ep = weir__os_epoll_new();
    uint64_t start = weir__os_clock_mono();
    assert_int_equal(weir__os_epoll_wait(ep, &e, 1, 300000), 0);
    assert_true(weir__os_clock_mono() - start >= 300000);
    weir__os_close(ep);
}

/* An old kernel: whole milliseconds, rounded up, never shorter. */
static void without_pwait2_it_rounds_up(void **state) {
    (void)state;
    struct epoll_event e;
    int ep = weir__os_epoll_new();
    struct weir__os_fault f = {.kind = WEIR__OS_EPOLL_WAIT, .nth = 1, .error = ENOSYS};
    weir__os_fault_set(&f);
    uint64_t start = weir__os_clock_mono();
    assert_int_equal(weir__os_epoll_wait(ep, &e, 1, 1000001), 0);
    assert_true(weir__os_clock_mono() - start >= 1900000);
    weir__os_fault_set(NULL);
    assert_int_equal(f.hit, 1);
    weir__os_close(ep);
}

static void failures_come_through(void **state) {
    (void)state;
    struct epoll_event e;
    struct weir__os_fault f = {.kind = WEIR__OS_ANY, .nth = 1, .error = EMFILE, .persist = true};
    weir__os_fault_set(&f);
    assert_int_equal(weir__os_epoll_new(), -EMFILE);
    assert_int_equal(weir__os_event_new(), -EMFILE);
    assert_int_equal(weir__os_epoll_add(-1, 0, 0, 0), -EMFILE);
    assert_int_equal(weir__os_epoll_wait(-1, &e, 1, 0), -EMFILE);
    f.error = EINTR;
    assert_int_equal(weir__os_epoll_wait(-1, &e, 1, 0), 0);
    weir__os_fault_set(NULL);
    assert_int_equal(weir__os_epoll_wait(-1, &e, 1, 0), -EBADF);
    assert_int_equal(weir__os_epoll_wait(-1, &e, 1, 5), -EBADF);
    assert_int_equal(weir__os_epoll_add(-1, 0, EPOLLIN, 0), -EBADF);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_carry_their_data),
        cmocka_unit_test(waits_at_least_the_time_given),
        cmocka_unit_test(without_pwait2_it_rounds_up),
        cmocka_unit_test(failures_come_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
