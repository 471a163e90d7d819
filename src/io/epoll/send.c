/* Sending. What the socket does not take at once stays in flight: the caller keeps the chain, the
 * door keeps its place in it. */
#include "base/assert.h"
#include "io/epoll/door.h"
#include "io/gather.h"
#include "mem/file.h"
#include "os/dgram.h"
#include "os/error.h"
#include "os/sock.h"
#include <errno.h>

enum { BATCH_PARTS = 256 }; /* of the datagrams of one system call */

WEIR_INLINE void count_sent(struct weir__epoll *d, uint64_t bytes) {
    weir__io_count(&d->io.stats.sends, 1);
    weir__io_count(&d->io.stats.sent_bytes, bytes);
}

static void finish(struct weir__epoll *d, struct weir__epoll_sock *s, int code) {
    count_sent(d, s->sent);
    weir__epoll_end(d, s, WEIR__IO_SEND, code);
}

void weir__epoll_send_clear(struct weir__epoll_sock *s) {
    s->part = NULL;
    s->flags &= (uint16_t) ~(WEIR__EPOLL_GO_ON | WEIR__EPOLL_FDS_OUT | WEIR__EPOLL_FILE);
}

static void advance(struct weir__epoll_sock *s, size_t n) {
    s->sent += n;
    for (n += s->skip; s->part && n >= s->part->slice.n; s->part = s->part->next)
        n -= s->part->slice.n;
    s->skip = n;
}

static ssize_t epoll_send_parts(struct weir__epoll_sock *s) {
    struct iovec iov[WEIR__IO_SEND_SLICES_MAX];
    int n = weir__io_gather(s->part, s->skip, iov, WEIR__IO_SEND_SLICES_MAX);
    return n == 1 ? weir__os_send(s->fd, iov[0].iov_base, iov[0].iov_len, false)
                  : weir__os_sendv(s->fd, iov, (unsigned)n, false);
}

/* One step of a file; a long one gives way to the other sockets after each. */
static ssize_t send_step(struct weir__epoll_sock *s) {
    uint64_t left = s->total - s->sent;
    size_t n = left < WEIR__EPOLL_FILE_STEP ? (size_t)left : WEIR__EPOLL_FILE_STEP;
    ssize_t r = weir__os_sendfile(s->fd, (int)s->file->handle, s->off + s->sent, n);
    if (r == (ssize_t)n)
        s->flags |= WEIR__EPOLL_GO_ON;
    return r;
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

/* true: all of them were taken, or one failed; false: the rest waits for room. */
static bool pump_dgrams(struct weir__epoll *d, struct weir__epoll_sock *s, int *code) {
    *code = 0;
    while (s->sent < s->total) {
        int r = send_batch(s->fd, s->messages + s->sent, s->total - s->sent);
        if (r == -EAGAIN && s->inbox->ip)
            return false;
        if (r == -EAGAIN) /* the peer's queue is full, and epoll does not tell about that one */
            r = -ENOBUFS;
        if (weir__os_dgram_skips(r)) {
            weir__io_count(&d->io.stats.dgrams_lost, 1);
            r = 1;
        }
        if (r <= 0) {
            *code = weir__os_error(r);
            return true;
        }
        s->sent += (uint64_t)r;
    }
    return true;
}

static bool pump_fds(struct weir__epoll_sock *s, int *code) {
    const struct weir__io_fds *m = s->fds_out;
    int fds[WEIR__IO_HANDLES_MAX];
    for (unsigned i = 0; i < m->n_handles; i++)
        fds[i] = (int)m->handles[i];
    ssize_t r = weir__os_send_fds(s->fd, fds, m->n_handles, m->data, m->n);
    if (r > 0)
        s->sent = (uint64_t)r;
    *code = r < 0 ? weir__os_error((int)r) : 0;
    return r != -EAGAIN;
}

/* Sends until all is gone, the socket is full, or it failed; false: still in flight. */
static bool pump_stream(struct weir__epoll *d, struct weir__epoll_sock *s, int *code) {
    *code = 0;
    s->flags &= (uint16_t)~WEIR__EPOLL_GO_ON;
    bool file = s->flags & WEIR__EPOLL_FILE;
    while (s->sent < s->total) {
        ssize_t r = file ? send_step(s) : epoll_send_parts(s);
        if (r == -EAGAIN)
            return false;
        if (r <= 0) {
            *code = r ? weir__os_error((int)r) : WEIR_ETRUNCATED;
            return true;
        }
        if (file)
            s->sent += (uint64_t)r;
        else
            advance(s, (size_t)r);
        if (s->sent == s->total)
            break;
        if (s->flags & WEIR__EPOLL_GO_ON) {
            weir__epoll_again(d, s);
            return false;
        }
        /* Level-triggered, a short write may wait for the next report; an edge comes only after
         * EAGAIN. */
        if (!(s->flags & WEIR__EPOLL_EDGE))
            return false;
    }
    return true;
}

static bool pump(struct weir__epoll *d, struct weir__epoll_sock *s, int *code) {
    if (s->flags & WEIR__EPOLL_DGRAM)
        return pump_dgrams(d, s, code);
    return s->flags & WEIR__EPOLL_FDS_OUT ? pump_fds(s, code) : pump_stream(d, s, code);
}

/* The socket is full: the kernel has to say when it is not. */
static void await_room(struct weir__epoll *d, struct weir__epoll_sock *s) {
    if (s->flags & WEIR__EPOLL_GO_ON)
        return;
    int rc = weir__epoll_interest(d, s);
    if (rc < 0)
        finish(d, s, rc);
}

void weir__epoll_send_on(struct weir__epoll *d, struct weir__epoll_sock *s) {
    int code;
    if (pump(d, s, &code))
        finish(d, s, code);
    else
        await_room(d, s);
}

/* A send that did not go whole at once: r is what the first call said. */
static WEIR_NOINLINE int keep(struct weir__epoll *d, struct weir__epoll_sock *s,
                              const struct weir_chain *c, ssize_t r) {
    s->busy |= WEIR__IO_SEND;
    s->part = c->first;
    s->skip = 0;
    s->sent = 0;
    s->total = c->bytes;
    if (r > 0)
        advance(s, (size_t)r);
    if (s->sent == s->total) {
        finish(d, s, 0);
    } else if (r < 0 && r != -EAGAIN) {
        finish(d, s, weir__os_error((int)r));
    } else {
        weir__io_count(&d->io.stats.partial_sends, 1);
        if (s->flags & WEIR__EPOLL_EDGE && r > 0)
            weir__epoll_send_on(d, s);
        else
            await_room(d, s);
    }
    return 0;
}

static bool outside(const struct weir_chain *c) {
    return c->bytes == 0 || c->bytes > WEIR__IO_SEND_BYTES_MAX;
}

/* What came of the first call. */
WEIR_INLINE int sent(struct weir__epoll *d, struct weir__epoll_sock *s, const struct weir_chain *c,
                     ssize_t r) {
    if (unlikely(r != (ssize_t)c->bytes || d->defer))
        return keep(d, s, c, r);
    count_sent(d, c->bytes);
    return 1;
}

/* Apart from the hot path, which needs no kilobyte of stack. */
static WEIR_NOINLINE int send_gather(struct weir__epoll *d, struct weir__epoll_sock *s,
                                     const struct weir_chain *c) {
    struct iovec iov[WEIR__IO_SEND_SLICES_MAX];
    int n = weir__io_gather(c->first, 0, iov, WEIR__IO_SEND_SLICES_MAX);
    return n < 0 ? WEIR_EBUG : sent(d, s, c, weir__os_sendv(s->fd, iov, (unsigned)n, false));
}

int weir__epoll_send(struct weir__io *io, struct weir__io_sock *ws, const struct weir_chain *c) {
    struct weir__epoll *d = weir__epoll_of(io);
    struct weir__epoll_sock *s = weir__epoll_sock_of(ws);
    int rc = weir__epoll_refused(s, WEIR__IO_SEND, WEIR__EPOLL_NO_SEND);
    if (unlikely(rc < 0 || outside(c)))
        return rc < 0 ? rc : WEIR_EBUG;
    if (unlikely(c->first != c->last || !c->first->slice.p))
        return send_gather(d, s, c);
    return sent(d, s, c, weir__os_send(s->fd, c->first->slice.p, c->first->slice.n, false));
}

/* A send that is no chain, begun: as far as it goes at once. */
static int first_go(struct weir__epoll *d, struct weir__epoll_sock *s, uint64_t total) {
    int code;
    s->sent = 0;
    s->total = total;
    s->busy |= WEIR__IO_SEND;
    if (!pump(d, s, &code)) {
        weir__io_count(&d->io.stats.partial_sends, 1);
        await_room(d, s);
    } else if (code == 0 && !d->defer) {
        s->busy &= (uint8_t)~WEIR__IO_SEND;
        count_sent(d, s->sent);
        weir__epoll_send_clear(s);
        return 1;
    } else {
        finish(d, s, code);
    }
    return 0;
}

int weir__epoll_send_file(struct weir__io *io, struct weir__io_sock *ws, struct weir_file *f,
                          uint64_t off, uint64_t n) {
    struct weir__epoll_sock *s = weir__epoll_sock_of(ws);
    int rc = weir__epoll_refused(s, WEIR__IO_SEND, WEIR__EPOLL_NO_SEND);
    if (rc < 0 || n == 0)
        return rc < 0 ? rc : WEIR_EBUG;
    s->file = f;
    s->off = off;
    s->flags |= WEIR__EPOLL_FILE;
    return first_go(weir__epoll_of(io), s, n);
}

int weir__epoll_send_dgram(struct weir__io *io, struct weir__io_sock *ws,
                           const struct weir__io_message *m, unsigned n) {
    struct weir__epoll_sock *s = weir__epoll_sock_of(ws);
    int rc = weir__epoll_refused(s, WEIR__IO_SEND, 0);
    if (rc < 0)
        return rc;
    if (!(s->flags & WEIR__EPOLL_DGRAM) || !weir__io_messages_fit(m, n, s->inbox->ip))
        return WEIR_EBUG;
    s->messages = m;
    return first_go(weir__epoll_of(io), s, n);
}

int weir__epoll_send_fds(struct weir__io *io, struct weir__io_sock *ws,
                         const struct weir__io_fds *m) {
    struct weir__epoll_sock *s = weir__epoll_sock_of(ws);
    int rc = weir__epoll_refused(s, WEIR__IO_SEND, WEIR__EPOLL_NO_SEND);
    if (rc < 0)
        return rc;
    if (!weir__io_fds_fit(m) || weir__os_is_unix(s->fd) == 0)
        return WEIR_EBUG;
    s->fds_out = m;
    s->flags |= WEIR__EPOLL_FDS_OUT;
    return first_go(weir__epoll_of(io), s, m->n);
}
