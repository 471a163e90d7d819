/* Datagrams, several per system call. Results are >= 0 or a negative errno. */
#ifndef WEIR_OS_DGRAM_H
#define WEIR_OS_DGRAM_H
#include "base/addr.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum { WEIR__OS_DGRAMS_MAX = 16, WEIR__OS_DGRAMS_OUT_MAX = 32 };

struct weir__os_dgram { /* one that came */
    struct weir_addr peer;
    uint32_t n;
    uint16_t segment_bytes; /* several of that length, the last may be shorter; 0: one */
    uint8_t ecn;
    bool truncated;
};

struct weir__os_dgram_out {
    const struct weir_addr *to;
    const struct iovec *parts;
    unsigned n_parts;
    uint16_t segment_bytes; /* > 0: cut into datagrams of that length; UDP only */
};

/* Has the kernel tell the ECN bits of what comes, and with gro join datagrams; where it knows
 * neither, they stay 0. 1: an IP socket; 0: another, which has no such things. */
int weir__os_dgram_setup(int fd, bool gro);
/* At most max (and WEIR__OS_DGRAMS_MAX) datagrams; the i-th is at buf + i * each. ip: what setup
 * said. How many. */
int weir__os_dgram_recv(int fd, bool ip, uint8_t *buf, size_t each, unsigned max,
                        struct weir__os_dgram *out);
/* At most WEIR__OS_DGRAMS_OUT_MAX of n, in order. How many the kernel took, at least one. */
int weir__os_dgram_send(int fd, const struct weir__os_dgram_out *m, unsigned n);
/* Whether an error belongs to the peer of one datagram, not to the socket: go on. */
bool weir__os_dgram_skips(int rc);

#endif
