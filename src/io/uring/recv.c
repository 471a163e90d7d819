/* Taking in. What comes while nobody waits is parked, and is the first thing of the next arm. */
#include "base/assert.h"
#include "io/uring/door.h"
#include "mem/chain.h"
#include "os/dgram.h"
#include "os/error.h"
#include "os/listener.h"
#include "os/sock.h"
#include <errno.h>
#include <poll.h>

static bool armed(const struct weir__uring_sock *s, unsigned op) {
    return weir__uring_armed(s) & op;
}

static void again_if_armed(struct weir__uring *d, struct weir__uring_sock *s, unsigned op) {
    if (armed(s, op))
        weir__uring_todo(d, s, op);
}

static bool deliver_bytes(struct weir__uring *d, struct weir__uring_sock *s,
                          struct weir__io_done *out) {
    size_t n = (int64_t)s->parked.n <= s->credit ? s->parked.n : (size_t)s->credit;
    *out = (struct weir__io_done){.user = s->base.user, .kind = WEIR__IO_RECEIVED, .handle = -1};
    if (n == s->parked.n) {
        out->slice = s->parked;
        s->parked = (struct weir_slice){0};
    } else {
        out->slice = weir_slice_ref(s->parked, 0, n);
        s->parked.p += n;
        s->parked.n -= n;
    }
    s->credit -= (int64_t)n;
    if (s->credit == 0) {
        weir__uring_end(d, s, WEIR__IO_RECV, WEIR__IO_CREDIT);
    } else if (s->flags & WEIR__URING_OVER) {
        weir__uring_end(d, s, WEIR__IO_RECV, s->recv_code);
    } else {
        out->more = !(s->flags & WEIR__URING_EMPTY);
        weir__uring_todo(d, s, WEIR__IO_RECV);
    }
    return true;
}

static bool deliver_handle(struct weir__uring *d, struct weir__uring_sock *s, int fd,
                           struct weir__io_done *out) {
    *out = (struct weir__io_done){.user = s->base.user, .kind = WEIR__IO_ACCEPTED, .handle = fd};
    if (--s->credit == 0) {
        weir__uring_end(d, s, WEIR__IO_ACCEPT, WEIR__IO_CREDIT);
    } else if (++s->accepts < WEIR__URING_ACCEPTS) {
        if (!weir__base_linked(&s->ready)) /* who comes seldom comes alone */
            weir__base_list_push_back(&d->ready, &s->ready);
    } else {
        s->accepts = 0;
        weir__uring_todo(d, s, WEIR__IO_ACCEPT);
    }
    return true;
}

static bool deliver_dgram(struct weir__uring *d, struct weir__uring_sock *s,
                          struct weir__io_done *out) {
    struct weir__uring_inbox *in = s->inbox;
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
    weir__io_count(&d->io.stats.receives, 1);
    weir__io_count(&d->io.stats.received_bytes, n);
    if (++in->at < in->n) {
        if (!weir__base_linked(&s->ready))
            weir__base_list_push_back(&d->ready, &s->ready);
    } else {
        weir_slice_release(&in->buf);
        weir__uring_todo(d, s, WEIR__IO_RECV);
    }
    return true;
}

bool weir__uring_unpark(struct weir__uring *d, struct weir__uring_sock *s,
                        struct weir__io_done *out) {
    if (s->flags & WEIR__URING_DGRAM)
        return armed(s, WEIR__IO_RECV) && s->inbox->at < s->inbox->n && deliver_dgram(d, s, out);
    if (armed(s, WEIR__IO_RECV) && s->parked.n)
        return deliver_bytes(d, s, out);
    if (!armed(s, WEIR__IO_ACCEPT) || (s->kernel | s->todo) & WEIR__IO_ACCEPT)
        return false;
    int fd = s->parked_fd;
    s->parked_fd = -1;
    if (fd >= 0)
        return deliver_handle(d, s, fd, out);
    return weir__uring_accepted(d, s, weir__os_accept(s->fd, NULL), out);
}

/* A send in flight meets a reset first, and the kernel reports that only once: what is left for the
 * receive looks like an orderly end. */
static bool was_reset(const struct weir__uring_sock *s) {
    struct pollfd p = {.fd = s->fd};
    return armed(s, WEIR__IO_SEND) && poll(&p, 1, 0) == 1 && p.revents & (POLLHUP | POLLERR);
}

static void over(struct weir__uring *d, struct weir__uring_sock *s, int code) {
    if (code == WEIR_ENOMEM) { /* the kernel's, and it passes: what is there is still there */
        if (armed(s, WEIR__IO_RECV))
            weir__uring_end(d, s, WEIR__IO_RECV, code);
        return;
    }
    if (code == WEIR__IO_EOF && s->flags & WEIR__URING_FAILED && s->send_code != WEIR_ECANCELLED &&
        s->send_code != WEIR_ETRUNCATED)
        code = s->send_code; /* the kernel reports a socket's error once, and the send had it */
    else if (code == WEIR__IO_EOF && was_reset(s))
        code = WEIR_ERESET;
    s->flags |= WEIR__URING_OVER;
    if (armed(s, WEIR__IO_RECV))
        weir__uring_end(d, s, WEIR__IO_RECV, code);
    else if (!(s->ended & WEIR__IO_RECV))
        s->recv_code = code;
    else
        s->over_code = code;
}

/* Makes room for at least n bytes at door.used. */
static bool room(struct weir__uring *d, size_t n) {
    if (weir__mem_buf_exclusive(d->hot)) {
        d->used = 0;
        return true;
    }
    if (d->hot.n - d->used >= n)
        return true;
    weir_slice_release(&d->hot);
    d->used = 0;
    return weir_slice_new(d->io.mem, WEIR__IO_RECV_BYTES, &d->hot) >= 0;
}

/* As many datagrams as the buffer holds. */
static bool received_dgram(struct weir__uring *d, struct weir__uring_sock *s,
                           struct weir__io_done *out) {
    struct weir__uring_inbox *in = s->inbox;
    in->stride = in->bytes_max;
    if (!room(d, in->stride)) {
        weir__io_count(&d->io.stats.no_buffer, 1);
        weir__uring_end(d, s, WEIR__IO_RECV, WEIR_ENOMEM);
        return false;
    }
    int n = weir__os_dgram_recv(s->fd, in->ip, d->hot.p + d->used, in->stride,
                                (unsigned)((d->hot.n - d->used) / in->stride), in->got);
    if (n > 0) {
        size_t bytes = (size_t)(n - 1) * in->stride + in->got[n - 1].n;
        in->buf = weir_slice_ref(d->hot, d->used, bytes);
        d->used += bytes;
        in->at = 0;
        in->n = (unsigned)n;
        return deliver_dgram(d, s, out);
    }
    weir__io_count(&d->io.stats.dgrams_lost, weir__os_dgram_skips(n));
    if (n == -EAGAIN || weir__os_dgram_skips(n))
        weir__uring_todo(d, s, WEIR__IO_RECV);
    else
        weir__uring_end(d, s, WEIR__IO_RECV, weir__os_error(n));
    return false;
}

static void received_fds(struct weir__uring *d, struct weir__uring_sock *s) {
    struct weir__io_fds *m = s->fds_in;
    int fds[WEIR__IO_HANDLES_MAX];
    unsigned n = 0;
    ssize_t r = weir__os_recv_fds(s->fd, fds, WEIR__IO_HANDLES_MAX, &n, m->data, m->n);
    if (r == -EAGAIN) {
        weir__uring_todo(d, s, WEIR__IO_RECV);
    } else if (r == -EMSGSIZE) {
        weir__uring_end(d, s, WEIR__IO_RECV, WEIR_ETOOBIG);
    } else if (r <= 0) {
        over(d, s, r ? weir__os_error((int)r) : WEIR__IO_EOF);
    } else {
        m->n = (size_t)r;
        m->n_handles = n;
        for (unsigned i = 0; i < n; i++)
            m->handles[i] = fds[i];
        weir__io_count(&d->io.stats.receives, 1);
        weir__io_count(&d->io.stats.received_bytes, (uint64_t)r);
        weir__uring_end(d, s, WEIR__IO_RECV, 0);
    }
}

/* A poll of an arm that was cancelled tells nothing that a later one would not find. */
static WEIR_NOINLINE bool polled(struct weir__uring *d, struct weir__uring_sock *s,
                                 struct weir__io_done *out) {
    s->flags &= (uint16_t)~WEIR__URING_POLLED;
    if (!armed(s, WEIR__IO_RECV))
        return false;
    if (s->flags & WEIR__URING_DGRAM)
        return received_dgram(d, s, out);
    if (s->flags & WEIR__URING_FDS_IN)
        received_fds(d, s);
    else
        weir__uring_todo(d, s, WEIR__IO_RECV);
    return false;
}

static bool received_bytes(struct weir__uring *d, struct weir__uring_sock *s,
                           const struct uring_cqe *e, struct weir__io_done *out) {
    size_t n = (size_t)e->res;
    s->parked = weir__uring_ring_take(&d->ring, d->io.mem, e->flags >> CQE_BUFFER_SHIFT, n);
    weir__io_count(&d->io.stats.receives, 1);
    weir__io_count(&d->io.stats.received_bytes, n);
    if (e->flags & CQE_SOCK_NONEMPTY)
        s->flags &= (uint16_t)~WEIR__URING_EMPTY;
    else
        s->flags |= WEIR__URING_EMPTY;
    if (armed(s, WEIR__IO_RECV))
        return deliver_bytes(d, s, out);
    if (s->busy & WEIR__URING_CLOSED)
        weir_slice_release(&s->parked);
    else
        weir__io_count(&d->io.stats.parked, n);
    return false;
}

bool weir__uring_received(struct weir__uring *d, struct weir__uring_sock *s,
                          const struct uring_cqe *e, struct weir__io_done *out) {
    if (unlikely(s->flags & WEIR__URING_POLLED))
        return polled(d, s, out);
    if (e->res > 0 && e->flags & CQE_BUFFER)
        return received_bytes(d, s, e, out);
    switch (-e->res) {
    case 0: over(d, s, WEIR__IO_EOF); break;
    case ENOBUFS:
        if (weir__uring_ring_refill(&d->ring, d->io.mem)) {
            again_if_armed(d, s, WEIR__IO_RECV);
        } else if (armed(s, WEIR__IO_RECV)) {
            weir__io_count(&d->io.stats.no_buffer, 1);
            weir__uring_end(d, s, WEIR__IO_RECV, WEIR_ENOMEM);
        }
        break;
    case EAGAIN: s->flags |= WEIR__URING_EMPTY; /* fallthrough */
    case EINTR:
    case ECANCELED: again_if_armed(d, s, WEIR__IO_RECV); break;
    default: over(d, s, weir__os_error(e->res)); break;
    }
    return false;
}

/* The kernel may have been quicker than the cancel. */
static void accept_cancelled(struct weir__uring *d, struct weir__uring_sock *s, int res) {
    if (res >= 0 && s->busy & WEIR__URING_CLOSED) {
        weir__os_close(res);
    } else if (res >= 0) {
        s->parked_fd = res;
        weir__io_count(&d->io.stats.parked, 1);
    }
    s->flags &= (uint16_t)~WEIR__URING_STOP;
    weir__uring_end(d, s, WEIR__IO_ACCEPT, WEIR_ECANCELLED);
}

bool weir__uring_accepted(struct weir__uring *d, struct weir__uring_sock *s, int res,
                          struct weir__io_done *out) {
    check(armed(s, WEIR__IO_ACCEPT));
    weir__io_count(&d->io.stats.accepts, res >= 0);
    if (s->flags & WEIR__URING_STOP) {
        accept_cancelled(d, s, res);
        return false;
    }
    if (res >= 0)
        return deliver_handle(d, s, res, out);
    s->accepts = 0;
    bool goes_on = res == -ECANCELED || res == -EAGAIN || res == -EINTR;
    if (goes_on || weir__os_accept_skips(res)) {
        weir__uring_todo(d, s, WEIR__IO_ACCEPT);
    } else {
        int code = weir__os_error(res);
        weir__uring_end(d, s, WEIR__IO_ACCEPT, code == WEIR_ENOMEM ? WEIR_EFDS : code);
    }
    return false;
}
