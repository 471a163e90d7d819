#include "os/sock.h"
#include "os/fault.h"
#include "os/raw.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/un.h>
#include <unistd.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

enum { SOCK_FLAGS = SOCK_NONBLOCK | SOCK_CLOEXEC };

/* The kernel's TLS: headers of older distributions end before it. */
enum { ULP_OPTION = 31, TLS_LEVEL = 282, TLS_TX_OPTION = 1, TLS_RX_OPTION = 2 };

static int result(int rc) {
    return rc < 0 ? -errno : rc;
}

socklen_t weir__os_addr_to_sys(const struct weir_addr *a, struct sockaddr_storage *out) {
    memset(out, 0, sizeof *out);
    if (a->kind == WEIR__ADDR_IP4) {
        struct sockaddr_in *in = (struct sockaddr_in *)out;
        in->sin_family = AF_INET;
        in->sin_port = htons(a->port);
        memcpy(&in->sin_addr, a->ip4, sizeof a->ip4);
        return sizeof *in;
    }
    if (a->kind == WEIR__ADDR_IP6) {
        struct sockaddr_in6 *in = (struct sockaddr_in6 *)out;
        in->sin6_family = AF_INET6;
        in->sin6_port = htons(a->port);
        in->sin6_scope_id = a->scope;
        memcpy(&in->sin6_addr, a->ip6, sizeof a->ip6);
        return sizeof *in;
    }
    if (a->kind == WEIR__ADDR_UNIX) {
        struct sockaddr_un *un = (struct sockaddr_un *)out;
        un->sun_family = AF_UNIX;
        memcpy(un->sun_path, a->path, a->path_len);
        return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + a->path_len);
    }
    return 0;
}

void weir__os_addr_from_sys(const struct sockaddr_storage *s, socklen_t len,
                            struct weir_addr *out) {
    memset(out, 0, sizeof *out);
    if (len < sizeof s->ss_family)
        return;
    if (s->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)s;
        out->kind = WEIR__ADDR_IP4;
        out->port = ntohs(in->sin_port);
        memcpy(out->ip4, &in->sin_addr, sizeof out->ip4);
    } else if (s->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)s;
        out->kind = WEIR__ADDR_IP6;
        out->port = ntohs(in->sin6_port);
        out->scope = in->sin6_scope_id;
        memcpy(out->ip6, &in->sin6_addr, sizeof out->ip6);
    } else if (s->ss_family == AF_UNIX) {
        const struct sockaddr_un *un = (const struct sockaddr_un *)s;
        size_t n = len - offsetof(struct sockaddr_un, sun_path);
        n = n < WEIR__ADDR_PATH_MAX ? n : WEIR__ADDR_PATH_MAX;
        if (n && un->sun_path[0])
            n = strnlen(un->sun_path, n);
        out->kind = WEIR__ADDR_UNIX;
        out->path_len = (uint8_t)n;
        memcpy(out->path, un->sun_path, n);
    }
}

int weir__os_socket(const struct weir_addr *a, int type) {
    static const int family[] = {[WEIR__ADDR_NONE] = AF_UNSPEC,
                                 [WEIR__ADDR_IP4] = AF_INET,
                                 [WEIR__ADDR_IP6] = AF_INET6,
                                 [WEIR__ADDR_UNIX] = AF_UNIX};
    int rc = weir__os_fault(WEIR__OS_SOCKET, NULL), on = 1;
    if (rc < 0)
        return rc;
    int fd = socket(family[a->kind], type | SOCK_FLAGS, 0);
    if (fd < 0)
        return -errno;
    if (a->kind == WEIR__ADDR_IP6 &&
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) < 0) {
        rc = -errno;
        close(fd);
        return rc;
    }
    return fd;
}

int weir__os_socketpair(int type, int out[2]) {
    int rc = weir__os_fault(WEIR__OS_SOCKPAIR, NULL);
    return rc < 0 ? rc : result(socketpair(AF_UNIX, type | SOCK_FLAGS, 0, out));
}

int weir__os_bind(int fd, const struct weir_addr *a) {
    struct sockaddr_storage s;
    int rc = weir__os_fault(WEIR__OS_BIND, NULL);
    return rc < 0 ? rc : result(bind(fd, (struct sockaddr *)&s, weir__os_addr_to_sys(a, &s)));
}

int weir__os_listen(int fd, int backlog) {
    int rc = weir__os_fault(WEIR__OS_LISTEN, NULL);
    return rc < 0 ? rc : result(listen(fd, backlog));
}

int weir__os_accept(int fd, struct weir_addr *peer) {
    struct sockaddr_storage s;
    socklen_t len = sizeof s;
    int rc;
    do {
        rc = weir__os_fault(WEIR__OS_ACCEPT, NULL);
        if (rc == 0)
            rc = result(accept4(fd, (struct sockaddr *)&s, &len, SOCK_FLAGS));
    } while (rc == -EINTR);
    if (rc < 0)
        return rc;
    if (peer)
        weir__os_addr_from_sys(&s, len, peer);
    return rc;
}

int weir__os_connect(int fd, const struct weir_addr *a) {
    struct sockaddr_storage s;
    int rc = weir__os_fault(WEIR__OS_CONNECT, NULL);
    if (rc < 0)
        return rc;
    rc = result(connect(fd, (struct sockaddr *)&s, weir__os_addr_to_sys(a, &s)));
    return rc == -EINTR ? -EINPROGRESS : rc;
}

int weir__os_local(int fd, struct weir_addr *out) {
    struct sockaddr_storage s;
    socklen_t len = sizeof s;
    int rc = weir__os_fault(WEIR__OS_SOCKNAME, NULL);
    if (rc < 0)
        return rc;
    if (getsockname(fd, (struct sockaddr *)&s, &len) < 0)
        return -errno;
    weir__os_addr_from_sys(&s, len, out);
    return 0;
}

int weir__os_peer(int fd, struct weir_addr *out) {
    struct sockaddr_storage s;
    socklen_t len = sizeof s;
    int rc = weir__os_fault(WEIR__OS_SOCKNAME, NULL);
    if (rc < 0)
        return rc;
    if (getpeername(fd, (struct sockaddr *)&s, &len) < 0)
        return -errno;
    weir__os_addr_from_sys(&s, len, out);
    return 0;
}

int weir__os_shutdown_write(int fd) {
    int rc = weir__os_fault(WEIR__OS_SHUTDOWN, NULL);
    return rc < 0 ? rc : result(shutdown(fd, SHUT_WR));
}

int weir__os_close(int fd) {
    return result(close(fd));
}

static ssize_t send_message(int fd, const struct msghdr *m, int flags) {
    ssize_t rc;
    do
        rc = weir__os_raw(SYS_sendmsg, fd, (long)m, flags | MSG_NOSIGNAL | MSG_DONTWAIT, 0, 0, 0);
    while (unlikely(rc == -EINTR));
    return rc;
}

/* Copies the parts that hold the first `bytes` bytes; returns how many. */
static unsigned cut_parts(const struct iovec *parts, unsigned n, size_t bytes, struct iovec *out) {
    unsigned i;
    for (i = 0; i < n && bytes > 0; i++) {
        out[i] = parts[i];
        if (out[i].iov_len > bytes)
            out[i].iov_len = bytes;
        bytes -= out[i].iov_len;
    }
    return i;
}

static size_t count_bytes(const struct iovec *parts, unsigned n) {
    size_t bytes = 0;
    for (unsigned i = 0; i < n; i++)
        bytes += parts[i].iov_len;
    return bytes;
}

ssize_t weir__os_recv_slow(int fd, void *buf, size_t n) {
    ssize_t rc;
    do {
        rc = weir__os_fault(WEIR__OS_RECV, &n);
        if (rc == 0)
            rc = weir__os_raw(SYS_recvfrom, fd, (long)buf, (long)n, 0, 0, 0);
    } while (rc == -EINTR);
    return rc;
}

ssize_t weir__os_send_slow(int fd, const void *buf, size_t n, int flags) {
    ssize_t rc;
    do {
        rc = weir__os_fault(WEIR__OS_SEND, &n);
        if (rc == 0)
            rc = weir__os_raw(SYS_sendto, fd, (long)buf, (long)n, flags, 0, 0);
    } while (rc == -EINTR);
    return rc;
}

ssize_t weir__os_sendv(int fd, const struct iovec *parts, unsigned n, bool more) {
    struct iovec cut[WEIR__OS_PARTS_MAX];
    struct msghdr m = {.msg_iov = (struct iovec *)parts, .msg_iovlen = n};
    if (unlikely(weir__os_plan != NULL)) {
        size_t all = count_bytes(parts, n), bytes = all;
        int rc = weir__os_fault(WEIR__OS_SEND, &bytes);
        if (rc < 0 && rc != -EINTR) /* interrupted: tried again, here */
            return rc;
        if (bytes < all) {
            m.msg_iovlen = cut_parts(parts, n, bytes, cut);
            m.msg_iov = cut;
        }
    }
    return send_message(fd, &m, more ? MSG_MORE : 0);
}

ssize_t weir__os_sendmsg(int fd, const struct msghdr *m, int flags) {
    ssize_t rc;
    do {
        rc = weir__os_fault(WEIR__OS_SEND, NULL);
        if (rc == 0)
            rc = send_message(fd, m, flags);
    } while (rc == -EINTR);
    return rc;
}

static ssize_t recv_message(int fd, struct msghdr *m, int flags, enum weir__os_kind kind) {
    ssize_t rc;
    do {
        rc = weir__os_fault(kind, NULL);
        if (rc == 0 && (rc = recvmsg(fd, m, flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) < 0)
            rc = -errno;
    } while (rc == -EINTR);
    return rc;
}

ssize_t weir__os_recvmsg(int fd, struct msghdr *m, int flags) {
    return recv_message(fd, m, flags, WEIR__OS_RECV);
}

ssize_t weir__os_sendfile(int fd, int in, uint64_t off, size_t n) {
    off_t at = (off_t)off;
    ssize_t rc;
    do {
        rc = weir__os_fault(WEIR__OS_SENDFILE, &n);
        if (rc == 0 && (rc = sendfile(fd, in, &at, n)) < 0)
            rc = -errno;
    } while (rc == -EINTR);
    return rc;
}

int weir__os_is_unix(int fd) {
    int domain = 0, rc = weir__os_fault(WEIR__OS_SOCKOPT, NULL);
    socklen_t len = sizeof domain;
    if (rc < 0)
        return rc;
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 ? -errno : domain == AF_UNIX;
}

int weir__os_set_crypto(int fd, bool tx, const void *info, size_t bytes) {
    int rc = weir__os_fault(WEIR__OS_SOCKOPT, NULL);
    if (rc < 0)
        return rc;
    rc = result(setsockopt(fd, IPPROTO_TCP, ULP_OPTION, "tls", sizeof "tls" - 1));
    if (rc == -ENOENT || rc == -ENOPROTOOPT) /* no such module, no such option */
        return -EOPNOTSUPP;
    if (rc < 0 && rc != -EEXIST) /* the other direction brought it */
        return rc;
    rc = weir__os_fault(WEIR__OS_SOCKOPT, NULL);
    return rc < 0 ? rc
                  : result(setsockopt(fd, TLS_LEVEL, tx ? TLS_TX_OPTION : TLS_RX_OPTION, info,
                                      (socklen_t)bytes));
}

int weir__os_unsent(int fd, uint32_t *bytes) {
    int n = 0, rc = weir__os_fault(WEIR__OS_SOCKOPT, NULL);
    if (rc < 0)
        return rc;
    if (ioctl(fd, SIOCOUTQ, &n) < 0)
        return -errno;
    *bytes = (uint32_t)n;
    return 0;
}

union fds_control { /* aligned for the header it starts with */
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int) * WEIR__OS_FDS_MAX)];
};

ssize_t weir__os_send_fds(int fd, const int *fds, unsigned n, const void *data, size_t len) {
    union fds_control control;
    struct iovec part = {.iov_base = (void *)data, .iov_len = len};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    int rc = weir__os_fault(WEIR__OS_FDS, NULL);
    if (rc < 0)
        return rc;
    if (n > WEIR__OS_FDS_MAX || len == 0)
        return -EINVAL;
    if (n > 0) {
        memset(&control, 0, sizeof control);
        m.msg_control = &control;
        m.msg_controllen = CMSG_SPACE(sizeof(int) * n);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * n);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * n);
    }
    return send_message(fd, &m, 0);
}

/* Moves the descriptors of one control message to fds; what does not fit is closed. Returns how
 * many there were. */
static unsigned take_fds(struct cmsghdr *c, int *fds, unsigned max, unsigned got) {
    unsigned n = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    for (unsigned i = 0; i < n; i++) {
        int one;
        memcpy(&one, CMSG_DATA(c) + i * sizeof one, sizeof one);
        if (got + i < max)
            fds[got + i] = one;
        else
            close(one);
    }
    return n;
}

ssize_t weir__os_recv_fds(int fd, int *fds, unsigned max, unsigned *got, void *data, size_t cap) {
    union fds_control control;
    struct iovec part = {.iov_base = data, .iov_len = cap};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control};
    unsigned all = 0;
    *got = 0;
    m.msg_controllen = sizeof control;
    ssize_t rc = recv_message(fd, &m, 0, WEIR__OS_FDS);
    if (rc < 0)
        return rc;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
            all += take_fds(c, fds, max, all);
    if (all <= max && !(m.msg_flags & MSG_CTRUNC)) {
        *got = all;
        return rc;
    }
    for (unsigned i = 0; i < all && i < max; i++)
        close(fds[i]);
    return -EMSGSIZE;
}
