/* Sending. What the socket does not take at once stays in flight: the caller keeps the chain, the
 * door keeps its place in it. */
#include "base/assert.h"
#include "io/epoll/door.h"
#include "mem/file.h"
#include "os/error.h"
#include "os/sock.h"
#include <errno.h>
#include <limits.h>

enum { OUTSIDE = INT_MIN }; /* no errno: the chain is outside the contract */

/* The unsent parts as iovecs: how many, or -1 when the chain is outside the contract. */
static int gather(const struct weir_part *p, size_t skip, struct iovec *iov) {
    int n = 0;
    for (; p; p = p->next, skip = 0) {
        if (unlikely(!p->slice.p || n == WEIR__IO_SEND_SLICES_MAX))
            return -1;
        iov[n++] = (struct iovec){p->slice.p + skip, p->slice.n - skip};
    }
    return n;
}

WEIR_INLINE void count_sent(struct weir__epoll *d, uint64_t bytes) {
    weir__io_count(&d->io.stats.sends, 1);
    weir__io_count(&d->io.stats.sent_bytes, bytes);
}

static void finish(struct weir__epoll *d, struct weir__epoll_sock *s, int code) {
    count_sent(d, s->sent);
    weir__epoll_end(d, s, WEIR__IO_SEND, code);
}

void weir__epoll_send_clear(struct weir__epoll_sock *s) {
    if (s->flags & WEIR__EPOLL_DGRAM)
        weir_mem_free(s->to);
    s->to = NULL;
    s->file.file = NULL;
    s->part = NULL;
    s->flags &= (uint16_t)~WEIR__EPOLL_GO_ON;
}

static void advance(struct weir__epoll_sock *s, size_t n) {
    s->sent += n;
    for (n += s->skip; s->part && n >= s->part->slice.n; s->part = s->part->next)
        n -= s->part->slice.n;
    s->skip = n;
}

static ssize_t send_parts(struct weir__epoll_sock *s) {
    struct iovec iov[WEIR__IO_SEND_SLICES_MAX];
    int n = gather(s->part, s->skip, iov);
    return n == 1 ? weir__os_send(s->fd, iov[0].iov_base, iov[0].iov_len, false)
                  : weir__os_sendv(s->fd, iov, (unsigned)n, false);
}

/* One step of a file; a long one gives way to the other sockets after each. */
static ssize_t send_step(struct weir__epoll_sock *s) {
    uint64_t left = s->total - s->sent;
    size_t n = left < WEIR__EPOLL_FILE_STEP ? (size_t)left : WEIR__EPOLL_FILE_STEP;
    ssize_t r = weir__os_sendfile(s->fd, (int)s->file.file->handle, s->file.off + s->sent, n);
    if (r == (ssize_t)n)
        s->flags |= WEIR__EPOLL_GO_ON;
    return r;
}

static ssize_t send_to(struct weir__epoll_sock *s, const struct weir_addr *to) {
    struct iovec iov[WEIR__IO_SEND_SLICES_MAX];
    struct sockaddr_storage name;
    struct msghdr m = {.msg_name = &name, .msg_iov = iov};
    m.msg_namelen = weir__os_addr_to_sys(to, &name);
    m.msg_iovlen = (size_t)gather(s->part, 0, iov);
    return weir__os_sendmsg(s->fd, &m, 0);
}

/* Sends until all is gone, the socket is full, or it failed; false: still in flight. */
static bool pump(struct weir__epoll *d, struct weir__epoll_sock *s, int *code) {
    *code = 0;
    s->flags &= (uint16_t)~WEIR__EPOLL_GO_ON;
    while (s->sent < s->total) {
        ssize_t r = s->file.file ? send_step(s) : send_parts(s);
        if (r == -EAGAIN)
            return false;
        if (r <= 0) {
            *code = r ? weir__os_error((int)r) : WEIR_ETRUNCATED;
            return true;
        }
        if (s->file.file)
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
    if (s->flags & WEIR__EPOLL_DGRAM) {
        ssize_t r = send_to(s, s->to);
        if (r == -EAGAIN)
            return;
        s->sent = r < 0 ? 0 : (uint64_t)r;
        finish(d, s, r < 0 ? weir__os_error((int)r) : 0);
    } else if (pump(d, s, &code)) {
        finish(d, s, code);
    } else {
        await_room(d, s);
    }
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

/* Apart from the hot path, which needs no kilobyte of stack. */
static WEIR_NOINLINE ssize_t send_gather(int fd, const struct weir_part *first) {
    struct iovec iov[WEIR__IO_SEND_SLICES_MAX];
    int n = gather(first, 0, iov);
    return n < 0 ? OUTSIDE : weir__os_sendv(fd, iov, (unsigned)n, false);
}

static bool outside(const struct weir_chain *c) {
    return c->bytes == 0 || c->bytes > WEIR__IO_SEND_BYTES_MAX;
}

int weir__epoll_send(struct weir__io *io, struct weir__io_sock *ws, const struct weir_chain *c) {
    struct weir__epoll *d = weir__epoll_of(io);
    struct weir__epoll_sock *s = weir__epoll_sock_of(ws);
    int rc = weir__epoll_refused(s, WEIR__IO_SEND, WEIR__EPOLL_NO_SEND);
    if (unlikely(rc < 0 || outside(c)))
        return rc < 0 ? rc : WEIR_EBUG;
    ssize_t r = likely(c->first == c->last && c->first->slice.p)
                    ? weir__os_send(s->fd, c->first->slice.p, c->first->slice.n, false)
                    : send_gather(s->fd, c->first);
    if (unlikely(r == OUTSIDE))
        return WEIR_EBUG;
    if (likely(r == (ssize_t)c->bytes && !d->defer)) {
        count_sent(d, c->bytes);
        return 1;
    }
    return keep(d, s, c, r);
}

int weir__epoll_send_file(struct weir__io *io, struct weir__io_sock *ws, struct weir_file *f,
                          uint64_t off, uint64_t n) {
    struct weir__epoll *d = weir__epoll_of(io);
    struct weir__epoll_sock *s = weir__epoll_sock_of(ws);
    int rc = weir__epoll_refused(s, WEIR__IO_SEND, WEIR__EPOLL_NO_SEND);
    if (rc < 0 || n == 0)
        return rc < 0 ? rc : WEIR_EBUG;
    s->file = (struct weir__epoll_file){.file = f, .off = off};
    s->sent = 0;
    s->total = n;
    s->busy |= WEIR__IO_SEND;
    int code;
    if (!pump(d, s, &code)) {
        weir__io_count(&d->io.stats.partial_sends, 1);
        await_room(d, s);
    } else if (code == 0 && !d->defer) {
        s->busy &= (uint8_t)~WEIR__IO_SEND;
        count_sent(d, n);
        weir__epoll_send_clear(s);
        return 1;
    } else {
        finish(d, s, code);
    }
    return 0;
}

int weir__epoll_send_dgram(struct weir__io *io, struct weir__io_sock *ws,
                           const struct weir_addr *to, const struct weir_chain *c) {
    struct weir__epoll *d = weir__epoll_of(io);
    struct weir__epoll_sock *s = weir__epoll_sock_of(ws);
    struct iovec iov[WEIR__IO_SEND_SLICES_MAX];
    int rc = weir__epoll_refused(s, WEIR__IO_SEND, 0);
    if (rc < 0)
        return rc;
    if (outside(c) || !(s->flags & WEIR__EPOLL_DGRAM) || gather(c->first, 0, iov) < 0)
        return WEIR_EBUG;
    s->part = c->first;
    s->total = c->bytes;
    ssize_t r = send_to(s, to);
    if (r == (ssize_t)c->bytes && !d->defer) {
        count_sent(d, c->bytes);
        return 1;
    }
    s->busy |= WEIR__IO_SEND;
    s->sent = r < 0 ? 0 : (uint64_t)r;
    if (r == -EAGAIN)
        s->to = weir_mem_new(d->io.mem, sizeof *s->to);
    if (r != -EAGAIN) {
        finish(d, s, r < 0 ? weir__os_error((int)r) : 0);
    } else if (s->to) {
        *s->to = *to;
        await_room(d, s);
    } else { /* a datagram that finds neither room nor memory is lost, as any may be */
        finish(d, s, WEIR_ENOMEM);
    }
    return 0;
}
