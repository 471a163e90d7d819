#include "os/fault.h"
#include "os/sock.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

static int set(int fd, int level, int name, const void *value, socklen_t len) {
    int rc = weir__os_fault(WEIR__OS_SOCKOPT, NULL);
    if (rc < 0)
        return rc;
    return setsockopt(fd, level, name, value, len) < 0 ? -errno : 0;
}

static int set_int(int fd, int level, int name, int value) {
    return set(fd, level, name, &value, sizeof value);
}

static int get_int(int fd, int level, int name, int *value) {
    socklen_t len = sizeof *value;
    int rc = weir__os_fault(WEIR__OS_SOCKOPT, NULL);
    if (rc < 0)
        return rc;
    return getsockopt(fd, level, name, value, &len) < 0 ? -errno : 0;
}

int weir__os_sock_error(int fd) {
    int error = 0, rc = get_int(fd, SOL_SOCKET, SO_ERROR, &error);
    return rc < 0 ? rc : -error;
}

int weir__os_set_nonblock(int fd) {
    int rc = weir__os_fault(WEIR__OS_SOCKOPT, NULL);
    if (rc < 0)
        return rc;
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

int weir__os_set_nodelay(int fd, bool on) {
    return set_int(fd, IPPROTO_TCP, TCP_NODELAY, on);
}

int weir__os_set_reuseaddr(int fd, bool on) {
    return set_int(fd, SOL_SOCKET, SO_REUSEADDR, on);
}

int weir__os_set_reuseport(int fd, bool on) {
    return set_int(fd, SOL_SOCKET, SO_REUSEPORT, on);
}

int weir__os_set_keepalive(int fd, unsigned idle_s, unsigned interval_s, unsigned count) {
    int rc = set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, (int)idle_s);
    if (rc == 0)
        rc = set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, (int)interval_s);
    if (rc == 0)
        rc = set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, (int)count);
    return rc < 0 ? rc : set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

int weir__os_set_user_timeout(int fd, unsigned ms) {
    return set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)ms);
}

int weir__os_set_linger0(int fd) {
    struct linger l = {.l_onoff = 1};
    return set(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l);
}

int weir__os_set_sndbuf(int fd, int bytes) {
    return set_int(fd, SOL_SOCKET, SO_SNDBUF, bytes);
}

int weir__os_set_rcvbuf(int fd, int bytes) {
    return set_int(fd, SOL_SOCKET, SO_RCVBUF, bytes);
}

int weir__os_set_notsent_lowat(int fd, unsigned bytes) {
    return set_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, (int)bytes);
}

int weir__os_get_sndbuf(int fd) {
    int bytes = 0, rc = get_int(fd, SOL_SOCKET, SO_SNDBUF, &bytes);
    return rc < 0 ? rc : bytes;
}

int weir__os_get_rcvbuf(int fd) {
    int bytes = 0, rc = get_int(fd, SOL_SOCKET, SO_RCVBUF, &bytes);
    return rc < 0 ? rc : bytes;
}

int weir__os_sock_type(int fd, bool *listens) {
    int type = 0, accepts = 0;
    int rc = get_int(fd, SOL_SOCKET, SO_TYPE, &type);
    if (rc == 0)
        rc = get_int(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts);
    *listens = accepts != 0;
    return rc < 0 ? rc : type;
}
