/* Sending. The kernel sends whole gathers (MSG_WAITALL); where it still stops short, the door goes
 * on from there. */
#include "base/assert.h"
#include "io/uring/door.h"
#include "io/gather.h"
#include "mem/file.h"
#include "os/dgram.h"
#include "os/error.h"
#include "os/sock.h"
#include <errno.h>
#include <poll.h>

enum { BATCH_PARTS = 256 }; /* of the datagrams of one system call */

static bool outside(const struct weir_chain *c) {
    struct iovec iov[WEIR__IO_SEND_SLICES_MAX];
    return c->bytes == 0 || c->bytes > WEIR__IO_SEND_BYTES_MAX ||
           weir__io_gather(c->first, 0, iov, WEIR__IO_SEND_SLICES_MAX) < 0;
}

void weir__uring_send_clear(struct weir__uring_sock *s) {
    weir_mem_free(s->gather);
    s->gather = NULL;
    s->file.file = NULL;
    s->part = NULL;
    s->flags &= (uint16_t) ~(WEIR__URING_STOP | WEIR__URING_BY_CALL);
}

static void finish(struct weir__uring *d, struct weir__uring_sock *s, int code) {
    weir__io_count(&d->io.stats.sends, 1);
    weir__io_count(&d->io.stats.sent_bytes, s->sent);
    weir__uring_end(d, s, WEIR__IO_SEND, code);
}

void weir__uring_prepare_send(struct weir__uring *d, struct weir__uring_sock *s,
                              struct uring_sqe *e) {
    if (s->flags & WEIR__URING_BY_CALL) {
        e->opcode = OP_POLL_ADD;
        e->op_flags = POLLOUT;
        return;
    }
    if (s->part->next && !s->gather)
        s->gather = weir_mem_new(d->io.mem, sizeof *s->gather);
    if (s->part->next && s->gather) {
        struct weir__uring_gather *g = s->gather;
        g->msg.msg_iov = g->iov;
        g->msg.msg_iovlen = (size_t)weir__io_gather(s->part, s->skip, g->iov,
                                                    WEIR__IO_SEND_SLICES_MAX);
        e->opcode = OP_SENDMSG;
        e->addr = (uintptr_t)&g->msg;
        e->len = 1;
    } else { /* one part, also when there is no memory to name them all */
        e->opcode = OP_SEND;
        e->addr = (uintptr_t)(s->part->slice.p + s->skip);
        e->len = (uint32_t)(s->part->slice.n - s->skip);
    }
    e->op_flags = MSG_NOSIGNAL | MSG_WAITALL;
    e->ioprio = s->flags & WEIR__URING_FULL ? RECVSEND_POLL_FIRST : 0;
}

static void advance(struct weir__uring_sock *s, size_t n) {
    s->sent += n;
    for (n += s->skip; s->part && n >= s->part->slice.n; s->part = s->part->next)
        n -= s->part->slice.n;
    s->skip = n;
}

/* A step of the file; the rest when the socket has room again, which for a fast peer is at once. */
static void send_step(struct weir__uring *d, struct weir__uring_sock *s) {
    uint64_t left = s->total - s->sent;
    size_t n = left < WEIR__URING_FILE_STEP ? (size_t)left : WEIR__URING_FILE_STEP;
    ssize_t r = weir__os_sendfile(s->fd, (int)s->file.file->handle, s->file.off + s->sent, n);
    if (r > 0)
        s->sent += (uint64_t)r;
    if (s->sent == s->total)
        finish(d, s, 0);
    else if (r > 0 || r == -EAGAIN)
        weir__uring_todo(d, s, WEIR__IO_SEND);
    else
        finish(d, s, r ? weir__os_error((int)r) : WEIR_ETRUNCATED);
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

static void dgrams_step(struct weir__uring *d, struct weir__uring_sock *s) {
    while (s->sent < s->total) {
        int r = send_batch(s->fd, s->messages + s->sent, s->total - s->sent);
        if (r == -EAGAIN && s->inbox->ip) {
            weir__uring_todo(d, s, WEIR__IO_SEND);
            return;
        }
        if (r == -EAGAIN) /* the peer's queue is full, and no poll tells about that one */
            r = -ENOBUFS;
        if (weir__os_dgram_skips(r)) {
            weir__io_count(&d->io.stats.dgrams_lost, 1);
            r = 1;
        }
        if (r <= 0) {
            finish(d, s, weir__os_error(r));
            return;
        }
        s->sent += (uint64_t)r;
    }
    finish(d, s, 0);
}

static void fds_step(struct weir__uring *d, struct weir__uring_sock *s) {
    const struct weir__io_fds *m = s->fds_out;
    int fds[WEIR__IO_HANDLES_MAX];
    for (unsigned i = 0; i < m->n_handles; i++)
        fds[i] = (int)m->handles[i];
    ssize_t r = weir__os_send_fds(s->fd, fds, m->n_handles, m->data, m->n);
    if (r > 0)
        s->sent = (uint64_t)r;
    if (r == -EAGAIN)
        weir__uring_todo(d, s, WEIR__IO_SEND);
    else
        finish(d, s, r < 0 ? weir__os_error((int)r) : 0);
}

static void step(struct weir__uring *d, struct weir__uring_sock *s) {
    s->flags |= WEIR__URING_BY_CALL;
    if (s->file.file)
        send_step(d, s);
    else if (s->flags & WEIR__URING_DGRAM)
        dgrams_step(d, s);
    else
        fds_step(d, s);
}

static void sent_bytes(struct weir__uring *d, struct weir__uring_sock *s, int res) {
    s->flags &= (uint16_t)~WEIR__URING_FULL;
    if (res > 0)
        advance(s, (size_t)res);
    if (s->sent == s->total) {
        finish(d, s, 0);
        return;
    }
    weir__io_count(&d->io.stats.partial_sends, 1);
    if (s->flags & WEIR__URING_STOP || res == -ECANCELED) {
        finish(d, s, WEIR_ECANCELLED);
    } else if (res > 0 || res == -EINTR) {
        weir__uring_todo(d, s, WEIR__IO_SEND);
    } else if (res == -EAGAIN) {
        s->flags |= WEIR__URING_FULL;
        weir__uring_todo(d, s, WEIR__IO_SEND);
    } else {
        finish(d, s, res ? weir__os_error(res) : WEIR_EIO);
    }
}

void weir__uring_sent(struct weir__uring *d, struct weir__uring_sock *s, int res) {
    if (likely(!(s->flags & WEIR__URING_BY_CALL)))
        sent_bytes(d, s, res);
    else if (s->flags & WEIR__URING_STOP)
        finish(d, s, WEIR_ECANCELLED);
    else
        step(d, s);
}

static void begin(struct weir__uring_sock *s, const struct weir_part *first, uint64_t total) {
    s->part = first;
    s->skip = 0;
    s->sent = 0;
    s->total = total;
    s->busy |= WEIR__IO_SEND;
}

int weir__uring_send(struct weir__io *io, struct weir__io_sock *ws, const struct weir_chain *c) {
    struct weir__uring_sock *s = weir__uring_sock_of(ws);
    int rc = weir__uring_refused(s, WEIR__IO_SEND, WEIR__URING_NO_SEND);
    if (unlikely(rc < 0 || outside(c)))
        return rc < 0 ? rc : WEIR_EBUG;
    begin(s, c->first, c->bytes);
    weir__uring_todo(weir__uring_of(io), s, WEIR__IO_SEND);
    return 0;
}

int weir__uring_send_file(struct weir__io *io, struct weir__io_sock *ws, struct weir_file *f,
                          uint64_t off, uint64_t n) {
    struct weir__uring_sock *s = weir__uring_sock_of(ws);
    int rc = weir__uring_refused(s, WEIR__IO_SEND, WEIR__URING_NO_SEND);
    if (rc < 0 || n == 0)
        return rc < 0 ? rc : WEIR_EBUG;
    begin(s, NULL, n);
    s->file = (struct weir__uring_file){f, off};
    step(weir__uring_of(io), s);
    return 0;
}

int weir__uring_send_dgram(struct weir__io *io, struct weir__io_sock *ws,
                           const struct weir__io_message *m, unsigned n) {
    struct weir__uring_sock *s = weir__uring_sock_of(ws);
    int rc = weir__uring_refused(s, WEIR__IO_SEND, 0);
    if (rc < 0)
        return rc;
    if (!(s->flags & WEIR__URING_DGRAM) || !weir__io_messages_fit(m, n, s->inbox->ip))
        return WEIR_EBUG;
    begin(s, NULL, n);
    s->messages = m;
    step(weir__uring_of(io), s);
    return 0;
}

int weir__uring_send_fds(struct weir__io *io, struct weir__io_sock *ws,
                         const struct weir__io_fds *m) {
    struct weir__uring_sock *s = weir__uring_sock_of(ws);
    int rc = weir__uring_refused(s, WEIR__IO_SEND, WEIR__URING_NO_SEND);
    if (rc < 0)
        return rc;
    if (!weir__io_fds_fit(m) || weir__os_is_unix(s->fd) == 0)
        return WEIR_EBUG;
    begin(s, NULL, m->n);
    s->fds_out = m;
    step(weir__uring_of(io), s);
    return 0;
}
