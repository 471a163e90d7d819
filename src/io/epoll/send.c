/* Sending. What the socket does not take at once stays in flight: the caller keeps the chain, the
 * door keeps its place in it. */
#include "base/assert.h"
#include "io/epoll/door.h"
#include "io/gather.h"
#include "os/error.h"
#include "os/sock.h"
#include <errno.h>

static void finish(struct weir__epoll *d, struct weir__epoll_sock *s, int code) {
    weir__kernel_count_sent(&d->k, s->k.sent);
    weir__epoll_end(d, s, WEIR__IO_SEND, code);
}

static ssize_t epoll_send_parts(const struct weir__kernel_sock *k) {
    struct iovec iov[WEIR__IO_SEND_SLICES_MAX];
    int n = weir__io_gather(k->part, k->skip, iov, WEIR__IO_SEND_SLICES_MAX);
    return n == 1 ? weir__os_send(k->fd, iov[0].iov_base, iov[0].iov_len, false)
                  : weir__os_sendv(k->fd, iov, (unsigned)n, false);
}

/* Level-triggered, a short write may wait for the next report; an edge comes only after EAGAIN. */
static int pump_chain(struct weir__kernel_sock *k) {
    do {
        ssize_t r = epoll_send_parts(k);
        if (r == -EAGAIN)
            return WEIR__KERNEL_BLOCKED;
        if (r <= 0)
            return r ? weir__os_error((int)r) : WEIR_ETRUNCATED;
        weir__kernel_advance(k, (size_t)r);
    } while (k->sent < k->total && k->flags & WEIR__EPOLL_EDGE);
    return k->sent < k->total ? WEIR__KERNEL_BLOCKED : 0;
}

/* A file whose step was cut short is blocked; an edge, again, comes only after EAGAIN. */
static int pump(struct weir__epoll *d, struct weir__kernel_sock *k) {
    unsigned calls = WEIR__KERNEL_DGRAM | WEIR__KERNEL_FDS_OUT | WEIR__KERNEL_FILE;
    k->flags &= (uint16_t)~WEIR__EPOLL_GO_ON;
    if (!(k->flags & calls))
        return pump_chain(k);
    for (;;) {
        uint64_t before = k->sent;
        int rc = weir__kernel_pump(&d->k, k);
        bool cut = rc == WEIR__KERNEL_BLOCKED && k->flags & WEIR__KERNEL_FILE && k->sent > before;
        if (!cut || !(k->flags & WEIR__EPOLL_EDGE))
            return rc;
    }
}

/* The socket is full: the kernel has to say when it is not. */
static void await_room(struct weir__epoll *d, struct weir__epoll_sock *s) {
    int rc = weir__epoll_interest(d, s);
    if (rc < 0)
        finish(d, s, rc);
}

/* What came of a pump; 0: the send is over. */
static void go_on(struct weir__epoll *d, struct weir__epoll_sock *s, int rc) {
    if (rc == WEIR__KERNEL_YIELDS) {
        s->k.flags |= WEIR__EPOLL_GO_ON;
        weir__epoll_again(d, s);
    } else if (rc == WEIR__KERNEL_BLOCKED) {
        await_room(d, s);
    } else {
        finish(d, s, rc);
    }
}

void weir__epoll_send_on(struct weir__epoll *d, struct weir__epoll_sock *s) {
    int rc = pump(d, &s->k);
    weir__io_count(&d->k.io.stats.other_calls, rc > 0);
    go_on(d, s, rc);
}

/* A send that did not go whole at once: r is what the first call said. */
static WEIR_NOINLINE int keep(struct weir__epoll *d, struct weir__epoll_sock *s,
                              const struct weir_chain *c, ssize_t r) {
    weir__kernel_send_begin(&s->k, c->first, c->bytes);
    if (r > 0)
        weir__kernel_advance(&s->k, (size_t)r);
    if (s->k.sent == s->k.total) {
        finish(d, s, 0);
    } else if (r < 0 && r != -EAGAIN) {
        finish(d, s, weir__os_error((int)r));
    } else {
        weir__io_count(&d->k.io.stats.partial_sends, 1);
        if (s->k.flags & WEIR__EPOLL_EDGE && r > 0)
            weir__epoll_send_on(d, s);
        else
            await_room(d, s);
    }
    return 0;
}

/* What came of the first call. */
WEIR_INLINE int sent(struct weir__epoll *d, struct weir__epoll_sock *s, const struct weir_chain *c,
                     ssize_t r) {
    if (unlikely(r != (ssize_t)c->bytes || d->defer))
        return keep(d, s, c, r);
    weir__kernel_count_sent(&d->k, c->bytes);
    return 1;
}

/* Apart from the hot path, which needs no kilobyte of stack. */
static WEIR_NOINLINE int send_gather(struct weir__epoll *d, struct weir__epoll_sock *s,
                                     const struct weir_chain *c) {
    struct iovec iov[WEIR__IO_SEND_SLICES_MAX];
    int n = weir__io_gather(c->first, 0, iov, WEIR__IO_SEND_SLICES_MAX);
    return n < 0 ? WEIR_EBUG : sent(d, s, c, weir__os_sendv(s->k.fd, iov, (unsigned)n, false));
}

int weir__epoll_send(struct weir__io *io, struct weir__io_sock *ws, const struct weir_chain *c) {
    struct weir__epoll *d = weir__epoll_of(io);
    struct weir__epoll_sock *s = weir__epoll_sock_of(ws);
    int rc = weir__kernel_refused(&s->k, WEIR__IO_SEND, WEIR__KERNEL_NO_SEND);
    if (unlikely(rc < 0 || weir__kernel_outside(c)))
        return rc < 0 ? rc : WEIR_EBUG;
    if (unlikely(c->first != c->last || !c->first->slice.p))
        return send_gather(d, s, c);
    return sent(d, s, c, weir__os_send(s->k.fd, c->first->slice.p, c->first->slice.n, false));
}

/* A send that is no chain, begun: as far as it goes at once. */
static int first_go(struct weir__io *io, struct weir__io_sock *ws, int rc) {
    struct weir__epoll *d = weir__epoll_of(io);
    struct weir__epoll_sock *s = weir__epoll_sock_of(ws);
    if (rc < 0)
        return rc;
    rc = pump(d, &s->k);
    if (rc == 0 && !d->defer) {
        s->k.busy &= (uint8_t)~WEIR__IO_SEND;
        weir__kernel_count_sent(&d->k, s->k.sent);
        weir__kernel_send_clear(&s->k);
        return 1;
    }
    if (rc > 0)
        weir__io_count(&d->k.io.stats.partial_sends, 1);
    go_on(d, s, rc);
    return 0;
}

int weir__epoll_send_file(struct weir__io *io, struct weir__io_sock *ws, struct weir_file *f,
                          uint64_t off, uint64_t n) {
    return first_go(io, ws, weir__kernel_send_file(weir__kernel_sock_of(ws), f, off, n));
}

int weir__epoll_send_dgram(struct weir__io *io, struct weir__io_sock *ws,
                           const struct weir__io_message *m, unsigned n) {
    return first_go(io, ws, weir__kernel_send_dgram(weir__kernel_sock_of(ws), m, n));
}

int weir__epoll_send_fds(struct weir__io *io, struct weir__io_sock *ws,
                         const struct weir__io_fds *m) {
    return first_go(io, ws, weir__kernel_send_fds(weir__kernel_sock_of(ws), m));
}
