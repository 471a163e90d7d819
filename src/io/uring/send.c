/* Sending. A send is tried by system call first, where that is cheaper than a request and its
 * completion; the ring takes what the socket does not. There the kernel sends whole gathers
 * (MSG_WAITALL); where it still stops short, the door goes on from there. */
#include "base/assert.h"
#include "io/gather.h"
#include "io/uring/door.h"
#include "io/uring/pin.h"
#include "os/error.h"
#include <errno.h>
#include <poll.h>

static bool by_call(const struct weir__uring_sock *s) {
    return s->k.flags & (WEIR__KERNEL_FILE | WEIR__KERNEL_FDS_OUT | WEIR__KERNEL_DGRAM);
}

void weir__uring_send_clear(struct weir__uring_sock *s) {
    s->k.door &= ~(uint32_t)WEIR__URING_STOP;
}

static void finish(struct weir__uring *d, struct weir__uring_sock *s, int code) {
    weir__kernel_count_sent(&d->k, s->k.sent);
    weir__uring_end(d, s, WEIR__IO_SEND, code);
}

/* --- requests -------------------------------------------------------------------------------- */

static bool prepare_gather(struct weir__uring *d, struct weir__uring_sock *s, struct uring_sqe *e) {
    struct weir__uring_vectors *v = &d->vectors;
    if (v->n_msgs == WEIR__URING_MSGS || v->n_iovs + WEIR__IO_SEND_SLICES_MAX > WEIR__URING_IOVS)
        return false;
    struct msghdr *m = &v->msgs[v->n_msgs++];
    struct iovec *iov = &v->iovs[v->n_iovs];
    int n = weir__io_gather(s->k.part, s->k.skip, iov, WEIR__IO_SEND_SLICES_MAX);
    v->n_iovs += (unsigned)n;
    *m = (struct msghdr){.msg_iov = iov, .msg_iovlen = (size_t)n};
    e->opcode = OP_SENDMSG;
    e->addr = (uintptr_t)m;
    e->len = 1;
    return true;
}

bool weir__uring_prepare_send(struct weir__uring *d, struct weir__uring_sock *s,
                              struct uring_sqe *e) {
    if (by_call(s)) {
        e->opcode = OP_POLL_ADD;
        e->op_flags = POLLOUT;
        return true;
    }
    if (!s->k.part->next) {
        e->opcode = OP_SEND;
        e->addr = (uintptr_t)(s->k.part->slice.p + s->k.skip);
        e->len = (uint32_t)(s->k.part->slice.n - s->k.skip);
    } else if (!prepare_gather(d, s, e)) {
        return false;
    }
    e->op_flags = MSG_NOSIGNAL | MSG_WAITALL;
    e->ioprio = s->k.door & WEIR__URING_FULL ? RECVSEND_POLL_FIRST : 0;
    weir__uring_pin_prepare(d, s, e);
    return true;
}

static void sent_bytes(struct weir__uring *d, struct weir__uring_sock *s, int res) {
    s->k.door &= ~(uint32_t)WEIR__URING_FULL;
    if (res > 0)
        weir__kernel_advance(&s->k, (size_t)res);
    if (s->k.sent == s->k.total) {
        finish(d, s, 0);
        return;
    }
    weir__io_count(&d->k.io.stats.partial_sends, 1);
    if (s->k.door & WEIR__URING_STOP || res == -ECANCELED) {
        finish(d, s, WEIR_ECANCELLED);
    } else if (res > 0 || res == -EINTR || weir__uring_pin_gives_up(s, res)) {
        weir__uring_todo(d, s, WEIR__IO_SEND);
    } else if (res == -EAGAIN) {
        s->k.door |= WEIR__URING_FULL;
        weir__uring_todo(d, s, WEIR__IO_SEND);
    } else {
        finish(d, s, res ? weir__os_error(res) : WEIR_EIO);
    }
}

/* --- by system call -------------------------------------------------------------------------- */

static void step(struct weir__uring *d, struct weir__uring_sock *s) {
    weir__io_count(&d->k.io.stats.other_calls, 1);
    int rc = weir__kernel_pump(&d->k, &s->k);
    if (rc > 0)
        weir__uring_todo(d, s, WEIR__IO_SEND); /* when there is room, which may be at once */
    else
        finish(d, s, rc);
}

void weir__uring_sent(struct weir__uring *d, struct weir__uring_sock *s, int res) {
    if (likely(!by_call(s)))
        sent_bytes(d, s, res);
    else if (s->k.door & WEIR__URING_STOP)
        finish(d, s, WEIR_ECANCELLED);
    else
        step(d, s);
}

/* A send that did not go whole at once: r is what the call said. */
static WEIR_NOINLINE int keep(struct weir__uring *d, struct weir__uring_sock *s,
                              const struct weir_chain *c, ssize_t r) {
    weir__kernel_send_begin(&s->k, c->first, c->bytes);
    if (r < 0 && r != -EAGAIN) {
        finish(d, s, weir__os_error((int)r));
        return 0;
    }
    if (r > 0)
        weir__kernel_advance(&s->k, (size_t)r);
    weir__io_count(&d->k.io.stats.partial_sends, 1);
    s->k.door |= WEIR__URING_FULL;
    weir__uring_todo(d, s, WEIR__IO_SEND);
    return 0;
}

/* It has more parts than a send may have, or a file region. */
static bool is_odd(const struct weir_chain *c) {
    struct iovec iov[WEIR__IO_SEND_SLICES_MAX];
    return weir__io_gather(c->first, 0, iov, WEIR__IO_SEND_SLICES_MAX) < 0;
}

static int send_requested(struct weir__uring *d, struct weir__uring_sock *s,
                          const struct weir_chain *c) {
    weir__kernel_send_begin(&s->k, c->first, c->bytes);
    weir__uring_todo(d, s, WEIR__IO_SEND);
    return 0;
}

int weir__uring_send(struct weir__io *io, struct weir__io_sock *ws, const struct weir_chain *c) {
    struct weir__uring *d = weir__uring_of(io);
    struct weir__uring_sock *s = weir__uring_sock_of(ws);
    int rc = weir__kernel_refused(&s->k, WEIR__IO_SEND, WEIR__KERNEL_NO_SEND);
    if (unlikely(rc < 0 || weir__kernel_outside(c)))
        return rc < 0 ? rc : WEIR_EBUG;
    if (!io->sends_inline)
        return is_odd(c) ? WEIR_EBUG : send_requested(d, s, c);
    weir__io_count(&io->stats.other_calls, 1);
    ssize_t r = weir__kernel_send_chain(s->k.fd, c);
    if (likely(r == (ssize_t)c->bytes)) {
        weir__kernel_count_sent(&d->k, c->bytes);
        return 1;
    }
    return r == WEIR__KERNEL_ODD ? WEIR_EBUG : keep(d, s, c, r);
}

int weir__uring_send_zc(struct weir__io *io, struct weir__io_sock *ws, const struct weir_chain *c) {
    struct weir__uring *d = weir__uring_of(io);
    struct weir__uring_sock *s = weir__uring_sock_of(ws);
    int rc = weir__kernel_refused(&s->k, WEIR__IO_SEND, WEIR__KERNEL_NO_SEND);
    if (rc < 0 || weir__kernel_outside(c) || is_odd(c) || !weir__uring_pin_begin(d, s, c))
        return weir__uring_send(io, ws, c);
    return send_requested(d, s, c);
}

/* A send that is no chain, begun: as far as it goes at once. */
static int first_step(struct weir__io *io, struct weir__io_sock *ws, int rc) {
    if (rc == 0)
        step(weir__uring_of(io), weir__uring_sock_of(ws));
    return rc;
}

int weir__uring_send_file(struct weir__io *io, struct weir__io_sock *ws, struct weir_file *f,
                          uint64_t off, uint64_t n) {
    return first_step(io, ws, weir__kernel_send_file(weir__kernel_sock_of(ws), f, off, n));
}

int weir__uring_send_dgram(struct weir__io *io, struct weir__io_sock *ws,
                           const struct weir__io_message *m, unsigned n) {
    return first_step(io, ws, weir__kernel_send_dgram(weir__kernel_sock_of(ws), m, n));
}

int weir__uring_send_fds(struct weir__io *io, struct weir__io_sock *ws,
                         const struct weir__io_fds *m) {
    return first_step(io, ws, weir__kernel_send_fds(weir__kernel_sock_of(ws), m));
}
