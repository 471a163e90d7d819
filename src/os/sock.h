/* Sockets. Every result is >= 0 or a negative errno; EINTR is handled here. All sockets are
 * close-on-exec and non-blocking, and no send raises SIGPIPE. */
#ifndef WEIR_OS_SOCK_H
#define WEIR_OS_SOCK_H
#include "os/fault.h"
#include "os/raw.h"
#include "base/addr.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

enum { WEIR__OS_FDS_MAX = 64, WEIR__OS_PARTS_MAX = 64 };

/* The kernel's form of an address; returns its length, 0 for WEIR__ADDR_NONE. */
socklen_t weir__os_addr_to_sys(const struct weir_addr *a, struct sockaddr_storage *out);
/* An address of another family, and an unnamed unix one, becomes WEIR__ADDR_NONE (unix: with that
 * kind and no path). */
void weir__os_addr_from_sys(const struct sockaddr_storage *s, socklen_t len, struct weir_addr *out);

/* A socket of the address's family; type SOCK_STREAM, SOCK_DGRAM ... IPv6 sockets are v6-only. */
int weir__os_socket(const struct weir_addr *a, int type);
int weir__os_socketpair(int type, int out[2]);
int weir__os_bind(int fd, const struct weir_addr *a);
int weir__os_listen(int fd, int backlog);
/* peer may be NULL. */
int weir__os_accept(int fd, struct weir_addr *peer);
/* 0: connected; -EINPROGRESS: writability tells, then weir__os_sock_error. An interrupted connect
 * goes on: -EINPROGRESS. */
int weir__os_connect(int fd, const struct weir_addr *a);
int weir__os_local(int fd, struct weir_addr *out);
int weir__os_peer(int fd, struct weir_addr *out);
/* Takes the pending error: 0 or that error, negative. */
int weir__os_sock_error(int fd);
int weir__os_shutdown_write(int fd);
/* Never retried: the descriptor is gone whatever it says. */
int weir__os_close(int fd);

/* Under a plan of faults, and again after a signal. */
WEIR_COLD ssize_t weir__os_recv_slow(int fd, void *buf, size_t n);
WEIR_COLD ssize_t weir__os_send_slow(int fd, const void *buf, size_t n, int flags);

/* 0 from recv: end of stream. */
WEIR_INLINE ssize_t weir__os_recv(int fd, void *buf, size_t n) {
    ssize_t rc = -EINTR;
    if (likely(!weir__os_plan))
        rc = weir__os_raw(SYS_recvfrom, fd, (long)buf, (long)n, 0, 0, 0);
    return likely(rc != -EINTR) ? rc : weir__os_recv_slow(fd, buf, n);
}

WEIR_INLINE ssize_t weir__os_send(int fd, const void *buf, size_t n, bool more) {
    int flags = MSG_NOSIGNAL | (more ? MSG_MORE : 0);
    ssize_t rc = -EINTR;
    if (likely(!weir__os_plan))
        rc = weir__os_raw(SYS_sendto, fd, (long)buf, (long)n, flags, 0, 0);
    return likely(rc != -EINTR) ? rc : weir__os_send_slow(fd, buf, n, flags);
}

/* n parts of at most WEIR__OS_PARTS_MAX; empty parts are fine. */
ssize_t weir__os_sendv(int fd, const struct iovec *parts, unsigned n, bool more);
/* Messages with addresses and control data. flags beside MSG_NOSIGNAL and MSG_DONTWAIT. */
ssize_t weir__os_sendmsg(int fd, const struct msghdr *m, int flags);
ssize_t weir__os_recvmsg(int fd, struct msghdr *m, int flags);
/* Copies from in at off, whose file position stays. 0: the file is shorter than that. */
ssize_t weir__os_sendfile(int fd, int in, uint64_t off, size_t n);

/* For descriptors from elsewhere; all of ours are born so. */
int weir__os_set_nonblock(int fd);
int weir__os_set_nodelay(int fd, bool on);
int weir__os_set_reuseaddr(int fd, bool on);
int weir__os_set_reuseport(int fd, bool on);
/* idle_s before the first probe, one every interval_s, dead after `count` without answer. */
int weir__os_set_keepalive(int fd, unsigned idle_s, unsigned interval_s, unsigned count);
int weir__os_set_user_timeout(int fd, unsigned ms);
/* The next close sends a reset. */
int weir__os_set_linger0(int fd);
int weir__os_set_sndbuf(int fd, int bytes);
int weir__os_set_rcvbuf(int fd, int bytes);
int weir__os_set_notsent_lowat(int fd, unsigned bytes);
int weir__os_get_sndbuf(int fd);
int weir__os_get_rcvbuf(int fd);
/* 1: a unix socket, 0: another. */
int weir__os_is_unix(int fd);
/* The kernel makes (tx) or opens this stream's TLS records from here on; info: its struct
 * tls12_crypto_info_... -EOPNOTSUPP: it cannot. */
int weir__os_set_crypto(int fd, bool tx, const void *info, size_t bytes);
/* SOCK_STREAM ..., and whether it listens: for descriptors that were inherited. */
int weir__os_sock_type(int fd, bool *listens);

/* Bytes in the send queue that the peer has not acknowledged. */
int weir__os_unsent(int fd, uint32_t *bytes);

/* One message with len >= 1 bytes and n <= WEIR__OS_FDS_MAX descriptors over a unix socket; the
 * descriptors stay the caller's. */
ssize_t weir__os_send_fds(int fd, const int *fds, unsigned n, const void *data, size_t len);
/* Receives at most max descriptors (close-on-exec; caller owns them; those beyond max are closed
 * and -EMSGSIZE returned). */
ssize_t weir__os_recv_fds(int fd, int *fds, unsigned max, unsigned *got, void *data, size_t cap);

#endif
