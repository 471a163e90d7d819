/* Taking in: stream bytes, datagrams, connections, handles.
 *
 * Every receive goes to one buffer of the door. When nobody holds a slice of it any more it is used
 * again from its start, so that a loop which consumes what it gets allocates nothing and stays in
 * the cache. */
#include "base/assert.h"
#include "io/epoll/door.h"
#include "os/error.h"
#include "os/listener.h"
#include "os/sock.h"
#include <errno.h>

/* When epoll has no memory for the socket, its op ends like one without a buffer. */
static int arm(struct weir__epoll *d, struct weir__epoll_sock *s, unsigned op, int64_t credit) {
    s->k.credit = credit < 0 ? INT64_MAX : credit;
    s->k.busy |= (uint8_t)op;
    int rc = weir__epoll_interest(d, s);
    if (unlikely(rc < 0))
        weir__epoll_end(d, s, op, rc);
    return 0;
}

int weir__epoll_accept_arm(struct weir__io *io, struct weir__io_sock *ws, int64_t credit) {
    struct weir__epoll_sock *s = weir__epoll_sock_of(ws);
    int rc = weir__kernel_refused(&s->k, WEIR__IO_ACCEPT, 0);
    if (rc < 0)
        return rc;
    if (!(s->k.flags & WEIR__KERNEL_LISTENER) || credit == 0)
        return WEIR_EBUG;
    return arm(weir__epoll_of(io), s, WEIR__IO_ACCEPT, credit);
}

int weir__epoll_recv_arm(struct weir__io *io, struct weir__io_sock *ws, int64_t credit) {
    struct weir__epoll *d = weir__epoll_of(io);
    struct weir__epoll_sock *s = weir__epoll_sock_of(ws);
    int rc = weir__kernel_refused(&s->k, WEIR__IO_RECV, WEIR__KERNEL_NO_STREAM);
    if (unlikely(rc < 0 || credit == 0))
        return rc < 0 ? rc : WEIR_EBUG;
    if (unlikely(s->k.flags & WEIR__KERNEL_OVER)) {
        s->k.busy |= WEIR__IO_RECV;
        weir__epoll_end(d, s, WEIR__IO_RECV, s->k.recv_code);
        return 0;
    }
    arm(d, s, WEIR__IO_RECV, credit);
    if (s->k.flags & WEIR__EPOLL_READABLE)
        weir__epoll_again(d, s);
    return 0;
}

int weir__epoll_recv_dgram_arm(struct weir__io *io, struct weir__io_sock *ws, size_t bytes_max) {
    struct weir__epoll *d = weir__epoll_of(io);
    struct weir__epoll_sock *s = weir__epoll_sock_of(ws);
    int rc = weir__kernel_refused(&s->k, WEIR__IO_RECV, 0);
    if (rc < 0)
        return rc;
    if (!(s->k.flags & WEIR__KERNEL_DGRAM) || bytes_max > WEIR__IO_RECV_BYTES)
        return WEIR_EBUG;
    s->k.inbox->bytes_max = bytes_max ? bytes_max : WEIR__IO_RECV_BYTES;
    arm(d, s, WEIR__IO_RECV, -1);
    if (s->k.inbox->at < s->k.inbox->n)
        weir__epoll_again(d, s);
    return 0;
}

int weir__epoll_recv_fds(struct weir__io *io, struct weir__io_sock *ws, struct weir__io_fds *m) {
    struct weir__epoll *d = weir__epoll_of(io);
    struct weir__epoll_sock *s = weir__epoll_sock_of(ws);
    int rc = weir__kernel_refused(&s->k, WEIR__IO_RECV, WEIR__KERNEL_NO_STREAM);
    if (rc == 0 && (m->n == 0 || weir__os_is_unix(s->k.fd) == 0))
        rc = WEIR_EBUG;
    if (rc < 0)
        return rc;
    s->k.fds_in = m;
    m->n_handles = 0;
    s->k.flags |= WEIR__KERNEL_FDS_IN;
    s->k.busy |= WEIR__IO_RECV;
    if (s->k.flags & WEIR__KERNEL_OVER)
        weir__epoll_end(d, s, WEIR__IO_RECV, s->k.recv_code);
    else if ((rc = weir__epoll_interest(d, s)) < 0)
        weir__epoll_end(d, s, WEIR__IO_RECV, rc);
    else if (s->k.flags & WEIR__EPOLL_READABLE)
        weir__epoll_again(d, s);
    return 0;
}

static void received_last(struct weir__epoll *d, struct weir__epoll_sock *s, int code) {
    if (code == WEIR_ENOMEM) /* the kernel's, and it passes: what is there is still there */
        s->k.flags |= WEIR__EPOLL_READABLE;
    else if (!(s->k.flags & WEIR__KERNEL_DGRAM))
        s->k.flags |= WEIR__KERNEL_OVER;
    weir__epoll_end(d, s, WEIR__IO_RECV, code);
}

/* Only EAGAIN leaves the arm standing. */
static WEIR_NOINLINE void receive_nothing(struct weir__epoll *d, struct weir__epoll_sock *s,
                                          ssize_t r) {
    s->k.flags &= (uint16_t)~WEIR__EPOLL_READABLE;
    weir__io_count(&d->k.io.stats.other_calls, 1);
    if (r != -EAGAIN)
        received_last(d, s, r ? weir__os_error((int)r) : weir__kernel_eof_code(&s->k));
}

/* As many datagrams as the buffer holds; false: nothing came, or the op has ended. */
static bool fill_inbox(struct weir__epoll *d, struct weir__epoll_sock *s) {
    int n = weir__kernel_fill_inbox(&d->k, &s->k);
    if (weir__os_dgram_skips(n)) {
        weir__io_count(&d->k.io.stats.dgrams_lost, 1);
        weir__epoll_again(d, s);
    } else if (n <= 0) {
        receive_nothing(d, s, n);
    }
    return n > 0;
}

static bool receive_dgram(struct weir__epoll *d, struct weir__epoll_sock *s,
                          struct weir__io_done *out) {
    if (s->k.inbox->at == s->k.inbox->n && !fill_inbox(d, s))
        return false;
    weir__kernel_take_dgram(&d->k, &s->k, out);
    weir__epoll_again(d, s);
    return true;
}

static bool receive_fds(struct weir__epoll *d, struct weir__epoll_sock *s) {
    int rc = weir__kernel_take_fds(&d->k, &s->k);
    if (rc == WEIR__KERNEL_AGAIN)
        s->k.flags &= (uint16_t)~WEIR__EPOLL_READABLE;
    else if (rc == 0 || rc == WEIR_ETOOBIG)
        weir__epoll_end(d, s, WEIR__IO_RECV, rc);
    else
        received_last(d, s, rc);
    return false;
}

/* After r of at most n bytes: does the socket hold more, as far as we know? */
WEIR_INLINE bool more_follows(struct weir__epoll_sock *s, size_t r, size_t n) {
    if (r == n)
        return true;
    if (!(s->k.flags & WEIR__EPOLL_EDGE))
        return false;
    if (s->k.flags & WEIR__EPOLL_ENDING)
        return true;
    s->k.flags &= (uint16_t)~WEIR__EPOLL_READABLE;
    return false;
}

WEIR_INLINE bool receive_stream(struct weir__epoll *d, struct weir__epoll_sock *s,
                                struct weir__io_done *out) {
    if (unlikely(!weir__kernel_room(&d->k, WEIR__EPOLL_REST_MIN))) {
        weir__epoll_end(d, s, WEIR__IO_RECV, WEIR_ENOMEM);
        return false;
    }
    size_t n = d->k.hot.n - d->k.used;
    if (unlikely(s->k.credit < (int64_t)n))
        n = (size_t)s->k.credit;
    ssize_t r = weir__os_recv(s->k.fd, d->k.hot.p + d->k.used, n);
    if (unlikely(r <= 0)) {
        receive_nothing(d, s, r);
        return false;
    }
    out->user = s->k.base.user;
    out->kind = WEIR__IO_RECEIVED;
    out->code = 0;
    out->last = false;
    weir__mem_buf_ref(d->k.hot.buf);
    out->slice = (struct weir_slice){d->k.hot.p + d->k.used, (size_t)r, d->k.hot.buf};
    d->k.used += (size_t)r;
    weir__io_count(&d->k.io.stats.receives, 1);
    weir__io_count(&d->k.io.stats.received_bytes, (uint64_t)r);
    s->k.credit -= r;
    out->more = more_follows(s, (size_t)r, n);
    if (unlikely(s->k.credit == 0)) {
        out->more = false;
        weir__epoll_end(d, s, WEIR__IO_RECV, WEIR__IO_CREDIT);
    } else if (unlikely(out->more)) {
        weir__epoll_again(d, s);
    }
    return true;
}

bool weir__epoll_receive(struct weir__epoll *d, struct weir__epoll_sock *s,
                         struct weir__io_done *out) {
    if (likely(!(s->k.flags & (WEIR__KERNEL_DGRAM | WEIR__KERNEL_FDS_IN))))
        return receive_stream(d, s, out);
    return s->k.flags & WEIR__KERNEL_DGRAM ? receive_dgram(d, s, out) : receive_fds(d, s);
}

/* The one event of the hot path: bytes for a stream that waits for nothing else. NULL: it is
 * another one. Nobody has ended, so what is busy is armed. */
WEIR_INLINE struct weir__epoll_sock *plain_event(struct weir__epoll *d) {
    struct epoll_event *ev = &d->events[d->at];
    struct weir__epoll_sock *s = weir__io_token_get(ev->data.u64);
    if (unlikely(!s || s->k.busy != WEIR__IO_RECV) ||
        unlikely(s->k.flags & (WEIR__KERNEL_DGRAM | WEIR__KERNEL_FDS_IN)) ||
        unlikely((ev->events & d->heeded) != EPOLLIN))
        return NULL;
    check(!s->k.ended);
    d->at++;
    if (s->k.flags & WEIR__EPOLL_EDGE)
        s->k.flags |= WEIR__EPOLL_READABLE;
    return s;
}

/* The usual case in one function; an event that brought nothing is for the other half. */
static WEIR_NOINLINE bool next_event(struct weir__epoll *d, struct weir__io_done *out) {
    struct weir__epoll_sock *s = plain_event(d);
    return likely(s && receive_stream(d, s, out)) || weir__epoll_next_slow(d, out);
}

bool weir__epoll_next(struct weir__io *io, struct weir__io_done *out) {
    struct weir__epoll *d = weir__epoll_of(io);
    if (likely(d->at < d->n && weir__base_fifo_empty(&d->k.done)))
        return next_event(d, out);
    return weir__epoll_next_slow(d, out);
}

bool weir__epoll_accept(struct weir__epoll *d, struct weir__epoll_sock *s,
                        struct weir__io_done *out, bool *drained) {
    int fd = weir__os_accept(s->k.fd, NULL);
    *drained = ++d->accepts >= WEIR__EPOLL_ACCEPTS;
    weir__io_count(&d->k.io.stats.other_calls, fd < 0);
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
    weir__io_count(&d->k.io.stats.accepts, 1);
    *out = (struct weir__io_done){.user = s->k.base.user, .kind = WEIR__IO_ACCEPTED, .handle = fd};
    if (--s->k.credit == 0) {
        *drained = true;
        weir__epoll_end(d, s, WEIR__IO_ACCEPT, WEIR__IO_CREDIT);
    }
    return true;
}
