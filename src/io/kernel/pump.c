/* Sends that are system calls: whole chains at once, files, datagrams, handles. */
#include "base/assert.h"
#include "io/gather.h"
#include "io/kernel/kernel.h"
#include "mem/file.h"
#include "os/error.h"
#include "os/sock.h"
#include <errno.h>

enum { BATCH_PARTS = 256 }; /* of the datagrams of one system call */

void weir__kernel_send_begin(struct weir__kernel_sock *s, const struct weir_part *first,
                             uint64_t total) {
    s->part = first;
    s->skip = 0;
    s->sent = 0;
    s->total = total;
    s->busy |= WEIR__IO_SEND;
}

void weir__kernel_advance(struct weir__kernel_sock *s, size_t n) {
    s->sent += n;
    for (n += s->skip; s->part && n >= s->part->slice.n; s->part = s->part->next)
        n -= s->part->slice.n;
    s->skip = n;
}

void weir__kernel_send_clear(struct weir__kernel_sock *s) {
    s->part = NULL;
    s->flags &= (uint16_t) ~(WEIR__KERNEL_FDS_OUT | WEIR__KERNEL_FILE);
}

/* Apart from the hot path, which needs no kilobyte of stack. */
static WEIR_NOINLINE ssize_t send_gather(int fd, const struct weir_part *first) {
    struct iovec iov[WEIR__IO_SEND_SLICES_MAX];
    int n = weir__io_gather(first, 0, iov, WEIR__IO_SEND_SLICES_MAX);
    return n < 0 ? WEIR__KERNEL_ODD : weir__os_sendv(fd, iov, (unsigned)n, false);
}

ssize_t weir__kernel_send_chain(int fd, const struct weir_chain *c) {
    return likely(c->first == c->last && c->first->slice.p)
               ? weir__os_send(fd, c->first->slice.p, c->first->slice.n, false)
               : send_gather(fd, c->first);
}

/* One step; a long file gives way to the other sockets after each. */
static int pump_file(struct weir__kernel_sock *s) {
    uint64_t left = s->total - s->sent;
    size_t n = left < WEIR__KERNEL_FILE_STEP ? (size_t)left : WEIR__KERNEL_FILE_STEP;
    ssize_t r = weir__os_sendfile(s->fd, (int)s->file->handle, s->off + s->sent, n);
    if (r == -EAGAIN)
        return WEIR__KERNEL_BLOCKED;
    if (r <= 0)
        return r ? weir__os_error((int)r) : WEIR_ETRUNCATED;
    s->sent += (uint64_t)r;
    if (s->sent == s->total)
        return 0;
    return r == (ssize_t)n ? WEIR__KERNEL_YIELDS : WEIR__KERNEL_BLOCKED;
}

/* The next few datagrams: how many the kernel took. */
static int send_batch(int fd, const struct weir__io_message *m, uint64_t n) {
    struct weir__os_dgram_out out[WEIR__OS_DGRAMS_OUT_MAX];
    struct iovec iov[BATCH_PARTS];
    int used = 0;
    unsigned i = 0;
    for (; i < n && i < WEIR__OS_DGRAMS_OUT_MAX; i++) {
        int parts = weir__io_gather(m[i].chain.first, 0, iov + used, BATCH_PARTS - used);
        if (parts < 0) /* with the next call */
            break;
        out[i] = (struct weir__os_dgram_out){&m[i].to, iov + used, (unsigned)parts,
                                             m[i].segment_bytes};
        used += parts;
    }
    return weir__os_dgram_send(fd, out, i);
}

static int pump_dgrams(struct weir__kernel *k, struct weir__kernel_sock *s) {
    while (s->sent < s->total) {
        int r = send_batch(s->fd, s->messages + s->sent, s->total - s->sent);
        if (r == -EAGAIN && s->inbox->ip)
            return WEIR__KERNEL_BLOCKED;
        if (r == -EAGAIN) /* the peer's queue is full, and no poll tells about that one */
            r = -ENOBUFS;
        if (weir__os_dgram_skips(r)) {
            weir__io_count(&k->io.stats.dgrams_lost, 1);
            r = 1;
        }
        if (r <= 0)
            return weir__os_error(r);
        s->sent += (uint64_t)r;
    }
    return 0;
}

static int pump_fds(struct weir__kernel_sock *s) {
    const struct weir__io_fds *m = s->fds_out;
    int fds[WEIR__IO_HANDLES_MAX];
    for (unsigned i = 0; i < m->n_handles; i++)
        fds[i] = (int)m->handles[i];
    ssize_t r = weir__os_send_fds(s->fd, fds, m->n_handles, m->data, m->n);
    if (r == -EAGAIN)
        return WEIR__KERNEL_BLOCKED;
    if (r > 0)
        s->sent = (uint64_t)r;
    return r < 0 ? weir__os_error((int)r) : 0;
}

int weir__kernel_pump(struct weir__kernel *k, struct weir__kernel_sock *s) {
    if (s->flags & WEIR__KERNEL_DGRAM)
        return pump_dgrams(k, s);
    return s->flags & WEIR__KERNEL_FDS_OUT ? pump_fds(s) : pump_file(s);
}

int weir__kernel_send_file(struct weir__kernel_sock *s, struct weir_file *f, uint64_t off,
                           uint64_t n) {
    int rc = weir__kernel_refused(s, WEIR__IO_SEND, WEIR__KERNEL_NO_SEND);
    if (rc < 0 || n == 0)
        return rc < 0 ? rc : WEIR_EBUG;
    weir__kernel_send_begin(s, NULL, n);
    s->file = f;
    s->off = off;
    s->flags |= WEIR__KERNEL_FILE;
    return 0;
}

int weir__kernel_send_dgram(struct weir__kernel_sock *s, const struct weir__io_message *m,
                            unsigned n) {
    int rc = weir__kernel_refused(s, WEIR__IO_SEND, 0);
    if (rc < 0)
        return rc;
    if (!(s->flags & WEIR__KERNEL_DGRAM) || !weir__io_messages_fit(m, n, s->inbox->ip))
        return WEIR_EBUG;
    weir__kernel_send_begin(s, NULL, n);
    s->messages = m;
    return 0;
}

int weir__kernel_send_fds(struct weir__kernel_sock *s, const struct weir__io_fds *m) {
    int rc = weir__kernel_refused(s, WEIR__IO_SEND, WEIR__KERNEL_NO_SEND);
    if (rc < 0)
        return rc;
    if (!weir__io_fds_fit(m) || weir__os_is_unix(s->fd) == 0)
        return WEIR_EBUG;
    weir__kernel_send_begin(s, NULL, m->n);
    s->fds_out = m;
    s->flags |= WEIR__KERNEL_FDS_OUT;
    return 0;
}
