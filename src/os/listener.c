#include "os/listener.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/sock.h"
#include "os/sockopt.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>

enum { CLAIM_STEP_NS = 5 * 1000 * 1000 };

/* A path whose owner died refuses connections but still occupies the name. */
static bool clear_dead_path(const struct weir_addr *a) {
    if (a->kind != WEIR__ADDR_UNIX || a->path_len == 0 || a->path[0] == 0)
        return false;
    int fd = weir__os_socket(a, SOCK_STREAM);
    if (fd < 0)
        return false;
    int rc = weir__os_connect(fd, a);
    weir__os_close(fd);
    char path[WEIR__ADDR_PATH_MAX + 1];
    memcpy(path, a->path, a->path_len);
    path[a->path_len] = 0;
    return rc == -ECONNREFUSED && weir__os_file_unlink(path) == 0;
}

static int options(int fd, const struct weir__os_listener *l, bool share) {
    bool ip = l->addr.kind != WEIR__ADDR_UNIX;
    int rc = ip ? weir__os_set_reuseaddr(fd, true) : 0;
    if (rc >= 0 && share && ip)
        rc = weir__os_set_reuseport(fd, true);
    return rc < 0 ? rc : weir__os_sock_apply(fd, l->options, !l->datagram);
}

static int bound(const struct weir__os_listener *l, bool share) {
    int fd = weir__os_socket(&l->addr, l->datagram ? SOCK_DGRAM : SOCK_STREAM);
    if (fd < 0)
        return fd;
    int rc = options(fd, l, share);
    if (rc >= 0)
        rc = weir__os_bind(fd, &l->addr);
    if (rc == -EADDRINUSE && clear_dead_path(&l->addr))
        rc = weir__os_bind(fd, &l->addr);
    if (rc >= 0)
        return fd;
    weir__os_close(fd);
    return rc;
}

static int claim(const struct weir__os_listener *l) {
    uint64_t until = weir__os_clock_mono() + (uint64_t)l->claim_ms * 1000000;
    for (;;) {
        int fd = bound(l, false);
        if (fd >= 0)
            return weir__os_close(fd);
        if (fd != -EADDRINUSE || weir__os_clock_mono() >= until)
            return fd;
        weir__os_clock_sleep(CLAIM_STEP_NS);
    }
}

int weir__os_listener_open(const struct weir__os_listener *l) {
    bool fixed = l->addr.kind != WEIR__ADDR_UNIX && l->addr.port != 0;
    if (l->claim_ms && fixed) {
        int rc = claim(l);
        if (rc < 0)
            return rc;
    }
    int fd = bound(l, l->reuse_port);
    if (fd < 0 || l->datagram)
        return fd;
    int rc = weir__os_listen(fd, l->backlog);
    if (rc >= 0 && l->steer)
        rc = weir__os_sock_steer(fd, l->steer, l->n_steer);
    if (rc >= 0)
        return fd;
    weir__os_close(fd);
    return rc;
}

int weir__os_listener_adopt(int fd, bool datagram) {
    bool listens = false;
    int type = weir__os_sock_type(fd, &listens);
    if (type < 0)
        return type == -ENOTSOCK ? -EINVAL : type;
    bool fits = datagram ? type == SOCK_DGRAM : type == SOCK_STREAM && listens;
    return fits ? weir__os_set_nonblock(fd) : -EINVAL;
}

int weir__os_listener_queued(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) > 0 && p.revents & POLLIN ? 1 : 0;
}

/* The kernel keeps both in fields that mean something else on a connection. */
int weir__os_listener_queue(int fd, uint32_t *depth, uint32_t *depth_max) {
    struct tcp_info info;
    socklen_t n = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) < 0)
        return -errno;
    if (info.tcpi_state != TCP_LISTEN)
        return -EOPNOTSUPP;
    *depth = info.tcpi_unacked;
    *depth_max = info.tcpi_sacked;
    return 0;
}

/* The list is that of accept(2), "Error handling". */
bool weir__os_accept_skips(int rc) {
    switch (-rc) {
    case ECONNABORTED:
    case EPROTO:
    case EPERM:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH: return true;
    default: return false;
    }
}
