/* What a caller wants sent, as the kernel takes it, and whether it is within the contract. */
#ifndef WEIR_IO_GATHER_H
#define WEIR_IO_GATHER_H
#include "base/compiler.h"
#include "io/io.h"
#include <sys/uio.h>

/* The parts from p on, less the first `skip` bytes: how many, or -1 when there are more than max or
 * one is a file region. */
static inline int weir__io_gather(const struct weir_part *p, size_t skip, struct iovec *iov,
                                  int max) {
    int n = 0;
    for (; p; p = p->next, skip = 0) {
        if (unlikely(!p->slice.p || n == max))
            return -1;
        iov[n++] = (struct iovec){p->slice.p + skip, p->slice.n - skip};
    }
    return n;
}

/* Whether n messages are within the contract of send_dgram; udp: of a socket that can cut them. */
bool weir__io_messages_fit(const struct weir__io_message *m, unsigned n, bool udp);
/* The same of send_fds. */
bool weir__io_fds_fit(const struct weir__io_fds *m);

#endif
