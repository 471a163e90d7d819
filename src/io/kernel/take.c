/* Receives that are system calls: datagrams, and messages with handles. */
#include "base/assert.h"
#include "io/kernel/kernel.h"
#include "os/error.h"
#include "os/sock.h"
#include <errno.h>

bool weir__kernel_new_hot(struct weir__kernel *k) {
    struct weir_slice fresh;
    if (weir_slice_new(k->io.mem, WEIR__IO_RECV_BYTES, &fresh) < 0) {
        weir__io_count(&k->io.stats.no_buffer, 1);
        return false;
    }
    weir_slice_release(&k->hot);
    k->hot = fresh;
    k->io.receiving = fresh.buf;
    k->used = 0;
    return true;
}

int weir__kernel_fill_inbox(struct weir__kernel *k, struct weir__kernel_sock *s) {
    struct weir__kernel_inbox *in = s->inbox;
    in->stride = in->bytes_max;
    if (!weir__kernel_room(k, in->stride))
        return -ENOMEM;
    unsigned max = (unsigned)((k->hot.n - k->used) / in->stride);
    int n = weir__os_dgram_recv(s->fd, in->ip, k->hot.p + k->used, in->stride, max, in->got);
    if (n > 0) {
        size_t bytes = (size_t)(n - 1) * in->stride + in->got[n - 1].n;
        in->buf = weir_slice_ref(k->hot, k->used, bytes);
        in->at = 0;
        in->n = (unsigned)n;
        k->used += bytes;
    }
    return n;
}

void weir__kernel_take_dgram(struct weir__kernel *k, struct weir__kernel_sock *s,
                             struct weir__io_done *out) {
    struct weir__kernel_inbox *in = s->inbox;
    const struct weir__os_dgram *g = &in->got[in->at];
    size_t n = g->n < in->bytes_max ? g->n : in->bytes_max; /* it may have waited for another arm */
    *out = (struct weir__io_done){.user = s->base.user,
                                  .kind = WEIR__IO_DGRAM,
                                  .truncated = g->truncated || n < g->n,
                                  .ecn = g->ecn,
                                  .segment_bytes = g->segment_bytes,
                                  .handle = -1,
                                  .peer = g->peer};
    if (n)
        out->slice = weir_slice_ref(in->buf, in->at * in->stride, n);
    if (++in->at == in->n)
        weir_slice_release(&in->buf);
    weir__io_count(&k->io.stats.receives, 1);
    weir__io_count(&k->io.stats.received_bytes, n);
}

int weir__kernel_take_fds(struct weir__kernel *k, struct weir__kernel_sock *s) {
    struct weir__io_fds *m = s->fds_in;
    int fds[WEIR__IO_HANDLES_MAX];
    unsigned n = 0;
    ssize_t r = weir__os_recv_fds(s->fd, fds, WEIR__IO_HANDLES_MAX, &n, m->data, m->n);
    if (r == -EAGAIN)
        return WEIR__KERNEL_AGAIN;
    if (r == -EMSGSIZE)
        return WEIR_ETOOBIG;
    if (r <= 0)
        return r ? weir__os_error((int)r) : weir__kernel_eof_code(s);
    m->n = (size_t)r;
    m->n_handles = n;
    for (unsigned i = 0; i < n; i++)
        m->handles[i] = fds[i];
    weir__io_count(&k->io.stats.receives, 1);
    weir__io_count(&k->io.stats.received_bytes, (uint64_t)r);
    return 0;
}
