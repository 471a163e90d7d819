/* Opening a bound socket: claiming an address, sharing it, and clearing away what a dead process
 * left in the file system. */
#ifndef WEIR_OS_LISTENER_H
#define WEIR_OS_LISTENER_H
#include "base/addr.h"
#include "weir/socket.h"
#include <stdbool.h>
#include <stdint.h>

struct weir__os_listener {
    struct weir_addr addr;
    int backlog;
    /* > 0: first bind alone, without SO_REUSEPORT, retried so long; fixed ports only */
    uint32_t claim_ms;
    bool reuse_port;
    bool datagram;                             /* bound only, not listening */
    const struct weir_socket_options *options; /* NULL: defaults */
    const unsigned *steer; /* n_steer CPUs, as weir__os_sock_steer; NULL: the kernel picks */
    unsigned n_steer;
};

/* The descriptor, a negative errno or WEIR_ESOCKOPT; -EADDRINUSE: somebody else listens there.
 * Blocks for at most claim_ms. A unix path where nobody answers any more is removed first.
 * Connections accepted here inherit the options. */
int weir__os_listener_open(const struct weir__os_listener *l);

/* Makes a descriptor from elsewhere one of ours: it must listen (datagram: be a datagram socket),
 * and blocks no more. 0; -EINVAL: it is something else, and unchanged. */
int weir__os_listener_adopt(int fd, bool datagram);

/* 1: an accept would not block, 0: nobody waits. */
int weir__os_listener_queued(int fd);
/* How many wait in its queue, and how many fit. Of TCP: otherwise -EOPNOTSUPP. */
int weir__os_listener_queue(int fd, uint32_t *depth, uint32_t *depth_max);

/* Whether an error of accept belongs to the one connection that was coming in, not to the listener:
 * go on with the next. */
bool weir__os_accept_skips(int rc);

#endif
