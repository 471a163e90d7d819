/* Taking in: stream bytes, datagrams, connections, handles.
 *
 * Every receive goes to one buffer of the door. When nobody holds a slice of it any more it is used
 * again from its start, so that a loop which consumes what it gets allocates nothing and stays in
 * the cache. */
#include "base/assert.h"
#include "io/epoll/door.h"
#include "mem/chain.h"
#include "os/dgram.h"
#include "os/error.h"
#include "os/listener.h"
#include "os/sock.h"
#include <errno.h>

/* When epoll has no memory for the socket, its op ends like one without a buffer. */
static int arm(struct weir__epoll *d, struct weir__epoll_sock *s, unsigned op, int64_t credit) {
    s->credit = credit < 0 ? INT64_MAX : credit;
    s->busy |= (uint8_t)op;
    int rc = weir__epoll_interest(d, s);
    if (unlikely(rc < 0))
        weir__epoll_end(d, s, op, rc);
    return 0;
}

int weir__epoll_accept_arm(struct weir__io *io, struct weir__io_sock *ws, int64_t credit) {
    struct weir__epoll_sock *s = weir__epoll_sock_of(ws);
    int rc = weir__epoll_refused(s, WEIR__IO_ACCEPT, 0);
    if (rc < 0)
        return rc;
    if (!(s->flags & WEIR__EPOLL_LISTENER) || credit == 0)
        return WEIR_EBUG;
    return arm(weir__epoll_of(io), s, WEIR__IO_ACCEPT, credit);
}

int weir__epoll_recv_arm(struct weir__io *io, struct weir__io_sock *ws, int64_t credit) {
    struct weir__epoll *d = weir__epoll_of(io);
    struct weir__epoll_sock *s = weir__epoll_sock_of(ws);
    int rc = weir__epoll_refused(s, WEIR__IO_RECV, WEIR__EPOLL_NO_STREAM);
    if (unlikely(rc < 0 || credit == 0))
        return rc < 0 ? rc : WEIR_EBUG;
    if (unlikely(s->flags & WEIR__EPOLL_OVER)) {
        s->busy |= WEIR__IO_RECV;
        weir__epoll_end(d, s, WEIR__IO_RECV, s->recv_code);
        return 0;
    }
    arm(d, s, WEIR__IO_RECV, credit);
    if (s->flags & WEIR__EPOLL_READABLE)
        weir__epoll_again(d, s);
    return 0;
}

int weir__epoll_recv_dgram_arm(struct weir__io *io, struct weir__io_sock *ws, size_t bytes_max) {
    struct weir__epoll *d = weir__epoll_of(io);
    struct weir__epoll_sock *s = weir__epoll_sock_of(ws);
    int rc = weir__epoll_refused(s, WEIR__IO_RECV, 0);
    if (rc < 0)
        return rc;
    if (!(s->flags & WEIR__EPOLL_DGRAM) || bytes_max > WEIR__IO_RECV_BYTES)
        return WEIR_EBUG;
    s->inbox->bytes_max = bytes_max ? bytes_max : WEIR__IO_RECV_BYTES;
    arm(d, s, WEIR__IO_RECV, -1);
    if (s->inbox->at < s->inbox->n)
        weir__epoll_again(d, s);
    return 0;
}

int weir__epoll_recv_fds(struct weir__io *io, struct weir__io_sock *ws, struct weir__io_fds *m) {
    struct weir__epoll *d = weir__epoll_of(io);
    struct weir__epoll_sock *s = weir__epoll_sock_of(ws);
    int rc = weir__epoll_refused(s, WEIR__IO_RECV, WEIR__EPOLL_NO_STREAM);
    if (rc == 0 && (m->n == 0 || weir__os_is_unix(s->fd) == 0))
        rc = WEIR_EBUG;
    if (rc < 0)
        return rc;
    s->fds_in = m;
    m->n_handles = 0;
    s->flags |= WEIR__EPOLL_FDS_IN;
    s->busy |= WEIR__IO_RECV;
    if (s->flags & WEIR__EPOLL_OVER)
        weir__epoll_end(d, s, WEIR__IO_RECV, s->recv_code);
    else if ((rc = weir__epoll_interest(d, s)) < 0)
        weir__epoll_end(d, s, WEIR__IO_RECV, rc);
    else if (s->flags & WEIR__EPOLL_READABLE)
        weir__epoll_again(d, s);
    return 0;
}

/* Makes room for at least `least` bytes at door.used. */
static WEIR_NOINLINE bool new_hot(struct weir__epoll *d) {
    struct weir_slice fresh;
    if (weir_slice_new(d->io.mem, WEIR__IO_RECV_BYTES, &fresh) < 0) {
        weir__io_count(&d->io.stats.no_buffer, 1);
        return false;
    }
    weir_slice_release(&d->hot);
    d->hot = fresh;
    d->io.receiving = fresh.buf;
    d->used = 0;
    return true;
}

WEIR_INLINE bool room(struct weir__epoll *d, size_t least) {
    if (likely(weir__mem_buf_exclusive(d->hot))) {
        d->used = 0;
        return true;
    }
    return d->hot.n - d->used >= least || new_hot(d);
}

/* Only EAGAIN leaves the arm standing. */
static WEIR_NOINLINE void receive_nothing(struct weir__epoll *d, struct weir__epoll_sock *s,
                                          ssize_t r) {
    s->flags &= (uint16_t)~WEIR__EPOLL_READABLE;
    if (r == -EAGAIN)
        return;
    int code = r ? weir__os_error((int)r) : WEIR__IO_EOF;
    if (r == 0 && s->flags & WEIR__EPOLL_FAILED && s->send_code != WEIR_ECANCELLED &&
        s->send_code != WEIR_ETRUNCATED)
        code = s->send_code; /* the kernel reports a socket's error once, and the send had it */
    if (code == WEIR_ENOMEM) /* the kernel's, and it passes: what is there is still there */
        s->flags |= WEIR__EPOLL_READABLE;
    else if (!(s->flags & WEIR__EPOLL_DGRAM))
        s->flags |= WEIR__EPOLL_OVER;
    weir__epoll_end(d, s, WEIR__IO_RECV, code);
}

/* As many datagrams as the buffer holds; false: nothing came, or the op has ended. */
static bool fill_inbox(struct weir__epoll *d, struct weir__epoll_sock *s) {
    struct weir__epoll_inbox *in = s->inbox;
    in->stride = in->bytes_max;
    if (!room(d, in->stride)) {
        weir__epoll_end(d, s, WEIR__IO_RECV, WEIR_ENOMEM);
        return false;
    }
    unsigned max = (unsigned)((d->hot.n - d->used) / in->stride);
    int n = weir__os_dgram_recv(s->fd, in->ip, d->hot.p + d->used, in->stride, max, in->got);
    if (n > 0) {
        size_t bytes = (size_t)(n - 1) * in->stride + in->got[n - 1].n;
        in->buf = weir_slice_ref(d->hot, d->used, bytes);
        in->at = 0;
        in->n = (unsigned)n;
        d->used += bytes;
    } else if (weir__os_dgram_skips(n)) {
        weir__io_count(&d->io.stats.dgrams_lost, 1);
        weir__epoll_again(d, s);
    } else {
        receive_nothing(d, s, n);
    }
    return n > 0;
}

static bool receive_dgram(struct weir__epoll *d, struct weir__epoll_sock *s,
                          struct weir__io_done *out) {
    struct weir__epoll_inbox *in = s->inbox;
    if (in->at == in->n && !fill_inbox(d, s))
        return false;
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
    weir__io_count(&d->io.stats.receives, 1);
    weir__io_count(&d->io.stats.received_bytes, n);
    weir__epoll_again(d, s);
    return true;
}

static bool receive_fds(struct weir__epoll *d, struct weir__epoll_sock *s) {
    struct weir__io_fds *m = s->fds_in;
    int fds[WEIR__IO_HANDLES_MAX];
    unsigned n = 0;
    ssize_t r = weir__os_recv_fds(s->fd, fds, WEIR__IO_HANDLES_MAX, &n, m->data, m->n);
    if (r == -EMSGSIZE) {
        weir__epoll_end(d, s, WEIR__IO_RECV, WEIR_ETOOBIG);
    } else if (r <= 0) {
        receive_nothing(d, s, r);
    } else {
        m->n = (size_t)r;
        m->n_handles = n;
        for (unsigned i = 0; i < n; i++)
            m->handles[i] = fds[i];
        weir__io_count(&d->io.stats.receives, 1);
        weir__io_count(&d->io.stats.received_bytes, (uint64_t)r);
        weir__epoll_end(d, s, WEIR__IO_RECV, 0);
    }
    return false;
}

/* After r of at most n bytes: does the socket hold more, as far as we know? */
WEIR_INLINE bool more_follows(struct weir__epoll_sock *s, size_t r, size_t n) {
    if (r == n)
        return true;
    if (!(s->flags & WEIR__EPOLL_EDGE))
        return false;
    if (s->flags & WEIR__EPOLL_ENDING)
        return true;
    s->flags &= (uint16_t)~WEIR__EPOLL_READABLE;
    return false;
}

WEIR_INLINE bool receive_stream(struct weir__epoll *d, struct weir__epoll_sock *s,
                                struct weir__io_done *out) {
    if (unlikely(!room(d, WEIR__EPOLL_REST_MIN))) {
        weir__epoll_end(d, s, WEIR__IO_RECV, WEIR_ENOMEM);
        return false;
    }
    size_t n = d->hot.n - d->used;
    if (unlikely(s->credit < (int64_t)n))
        n = (size_t)s->credit;
    ssize_t r = weir__os_recv(s->fd, d->hot.p + d->used, n);
    if (unlikely(r <= 0)) {
        receive_nothing(d, s, r);
        return false;
    }
    out->user = s->base.user;
    out->kind = WEIR__IO_RECEIVED;
    out->code = 0;
    out->last = false;
    weir__mem_buf_ref(d->hot.buf);
    out->slice = (struct weir_slice){d->hot.p + d->used, (size_t)r, d->hot.buf};
    d->used += (size_t)r;
    weir__io_count(&d->io.stats.receives, 1);
    weir__io_count(&d->io.stats.received_bytes, (uint64_t)r);
    s->credit -= r;
    out->more = more_follows(s, (size_t)r, n);
    if (unlikely(s->credit == 0)) {
        out->more = false;
        weir__epoll_end(d, s, WEIR__IO_RECV, WEIR__IO_CREDIT);
    } else if (unlikely(out->more)) {
        weir__epoll_again(d, s);
    }
    return true;
}

bool weir__epoll_receive(struct weir__epoll *d, struct weir__epoll_sock *s,
                         struct weir__io_done *out) {
    if (likely(!(s->flags & (WEIR__EPOLL_DGRAM | WEIR__EPOLL_FDS_IN))))
        return receive_stream(d, s, out);
    return s->flags & WEIR__EPOLL_DGRAM ? receive_dgram(d, s, out) : receive_fds(d, s);
}

/* The one event of the hot path: bytes for a stream that waits for nothing else. NULL: it is
 * another one. Nobody has ended, so what is busy is armed. */
WEIR_INLINE struct weir__epoll_sock *plain_event(struct weir__epoll *d) {
    struct epoll_event *ev = &d->events[d->at];
    struct weir__epoll_sock *s = weir__io_token_get(ev->data.u64);
    if (unlikely(!s || s->busy != WEIR__IO_RECV) ||
        unlikely(s->flags & (WEIR__EPOLL_DGRAM | WEIR__EPOLL_FDS_IN)) ||
        unlikely((ev->events & d->heeded) != EPOLLIN))
        return NULL;
    check(!s->ended);
    d->at++;
    if (s->flags & WEIR__EPOLL_EDGE)
        s->flags |= WEIR__EPOLL_READABLE;
    return s;
}

/* The usual case in one function; an event that brought nothing is for the other half. */
static WEIR_NOINLINE bool next_event(struct weir__epoll *d, struct weir__io_done *out) {
    struct weir__epoll_sock *s = plain_event(d);
    return likely(s && receive_stream(d, s, out)) || weir__epoll_next_slow(d, out);
}

bool weir__epoll_next(struct weir__io *io, struct weir__io_done *out) {
    struct weir__epoll *d = weir__epoll_of(io);
    if (likely(d->at < d->n && weir__base_fifo_empty(&d->done)))
        return next_event(d, out);
    return weir__epoll_next_slow(d, out);
}

bool weir__epoll_accept(struct weir__epoll *d, struct weir__epoll_sock *s,
                        struct weir__io_done *out, bool *drained) {
    int fd = weir__os_accept(s->fd, NULL);
    *drained = ++d->accepts >= WEIR__EPOLL_ACCEPTS;
    if (fd < 0 && weir__os_accept_skips(fd))
        return false;
    if (fd < 0) {
        *drained = true;
        if (fd != -EAGAIN) {
            int code = weir__os_error(fd);
            weir__epoll_end(d, s, WEIR__IO_ACCEPT, code == WEIR_ENOMEM ? WEIR_EFDS : code);
            weir__epoll_narrow(d, s, false);
        }
        return false;
    }
    weir__io_count(&d->io.stats.accepts, 1);
    *out = (struct weir__io_done){.user = s->base.user, .kind = WEIR__IO_ACCEPTED, .handle = fd};
    if (--s->credit == 0) {
        *drained = true;
        weir__epoll_end(d, s, WEIR__IO_ACCEPT, WEIR__IO_CREDIT);
    }
    return true;
}
