#include "os/epoll.h"
#include "os/fault.h"
#include "os/raw.h"
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

int weir__os_epoll_new(void) {
    int rc = weir__os_fault(WEIR__OS_EPOLL_NEW, NULL);
    if (rc < 0)
        return rc;
    rc = epoll_create1(EPOLL_CLOEXEC);
    return rc < 0 ? -errno : rc;
}

static int control(int ep, int op, int fd, uint32_t events, uint64_t data) {
    struct epoll_event e = {.events = events, .data.u64 = data};
    int rc = weir__os_fault(WEIR__OS_EPOLL_SET, NULL);
    if (rc < 0)
        return rc;
    return epoll_ctl(ep, op, fd, &e) < 0 ? -errno : 0;
}

int weir__os_epoll_add(int ep, int fd, uint32_t events, uint64_t data) {
    return control(ep, EPOLL_CTL_ADD, fd, events, data);
}

int weir__os_epoll_mod(int ep, int fd, uint32_t events, uint64_t data) {
    return control(ep, EPOLL_CTL_MOD, fd, events, data);
}

int weir__os_epoll_del(int ep, int fd) {
    return control(ep, EPOLL_CTL_DEL, fd, 0, 0);
}

/* For kernels before 5.11, which count in milliseconds. */
static int wait_ms(int ep, struct epoll_event *out, int max, int64_t timeout_ns) {
    int64_t ms = timeout_ns / 1000000 + (timeout_ns % 1000000 != 0);
    return (int)weir__os_raw(SYS_epoll_pwait, ep, (long)out, max, ms > INT_MAX ? INT_MAX : ms, 0,
                             0);
}

/* A look, or a wait without end (-1), needs no fraction of a millisecond, and is by far the most
 * frequent call. */
static int wait_plain(int ep, struct epoll_event *out, int max, int ms) {
    int rc = weir__os_fault(WEIR__OS_EPOLL_WAIT, NULL);
    if (likely(rc == 0))
        rc = (int)weir__os_raw(SYS_epoll_pwait, ep, (long)out, max, ms, 0, 0);
    return unlikely(rc == -EINTR) ? 0 : rc;
}

int weir__os_epoll_wait(int ep, struct epoll_event *out, int max, int64_t timeout_ns) {
    if (timeout_ns <= 0)
        return wait_plain(ep, out, max, timeout_ns < 0 ? -1 : 0);
    /* What the kernel lacks does not change while we run: asked once, and only a cache. */
    static atomic_bool no_pwait2;
    struct timespec t = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
    int rc = weir__os_fault(WEIR__OS_EPOLL_WAIT, NULL);
    if (rc == 0 && !atomic_load_explicit(&no_pwait2, memory_order_relaxed)) {
        rc = (int)weir__os_raw(SYS_epoll_pwait2, ep, (long)out, max, (long)&t, 0, 0);
        if (unlikely(rc == -ENOSYS))
            atomic_store_explicit(&no_pwait2, true, memory_order_relaxed);
    } else if (rc == 0) {
        rc = -ENOSYS;
    }
    if (unlikely(rc == -ENOSYS))
        rc = wait_ms(ep, out, max, timeout_ns);
    return rc == -EINTR ? 0 : rc;
}
