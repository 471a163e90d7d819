/* Taking in. What comes while nobody waits is parked, and is the first thing of the next arm. */
#include "base/assert.h"
#include "io/uring/door.h"
#include "mem/chain.h"
#include "os/error.h"
#include <errno.h>
#include <poll.h>

static void again_if_armed(struct weir__uring *d, struct weir__uring_sock *s) {
    if (weir__uring_armed(s, WEIR__IO_RECV))
        weir__uring_todo(d, s, WEIR__IO_RECV);
}

/* A send may have met the socket's error since the end became known; once told it stays as it was.
 */
void weir__uring_end_over(struct weir__uring *d, struct weir__uring_sock *s) {
    if (s->over_code == WEIR__IO_EOF && !(s->k.door & WEIR__URING_TOLD))
        s->over_code = weir__kernel_eof_code(&s->k);
    s->k.door |= WEIR__URING_TOLD;
    weir__uring_end(d, s, WEIR__IO_RECV, s->over_code);
}

/* What follows a delivery: the end that is known, more that is parked, or a request. */
static void go_on(struct weir__uring *d, struct weir__uring_sock *s) {
    if (s->k.credit == 0)
        weir__uring_end(d, s, WEIR__IO_RECV, WEIR__IO_CREDIT);
    else if (s->parked.bytes)
        weir__uring_ready(d, s);
    else if (s->k.flags & WEIR__KERNEL_OVER)
        weir__uring_end_over(d, s);
    else if (!(s->kernel & WEIR__IO_RECV))
        weir__uring_todo(d, s, WEIR__IO_RECV);
}

static void deliver(struct weir__uring_sock *s, struct weir_slice slice,
                    struct weir__io_done *out) {
    out->user = s->k.base.user;
    out->kind = WEIR__IO_RECEIVED;
    out->code = 0;
    out->last = false;
    out->more = !(s->k.door & WEIR__URING_EMPTY);
    out->slice = slice;
    s->k.credit -= (int64_t)slice.n;
}

/* At most the credit of the first parked part. */
static bool unpark(struct weir__uring *d, struct weir__uring_sock *s, struct weir__io_done *out) {
    struct weir_part *p = s->parked.first;
    size_t n = p->slice.n;
    if (s->k.credit < (int64_t)n)
        n = (size_t)s->k.credit;
    if (n == p->slice.n) {
        p = weir__mem_chain_unlink(&s->parked);
        deliver(s, p->slice, out);
        weir__mem_part_free(p);
    } else {
        deliver(s, weir_slice_ref(p->slice, 0, n), out);
        weir__mem_chain_drop(&s->parked, n);
    }
    go_on(d, s);
    return true;
}

static bool unpark_dgram(struct weir__uring *d, struct weir__uring_sock *s,
                         struct weir__io_done *out) {
    struct weir__kernel_inbox *in = s->k.inbox;
    if (in->at == in->n)
        return false;
    weir__kernel_take_dgram(&d->k, &s->k, out);
    if (in->at < in->n)
        weir__uring_ready(d, s);
    else
        weir__uring_todo(d, s, WEIR__IO_RECV);
    return true;
}

bool weir__uring_unpark(struct weir__uring *d, struct weir__uring_sock *s,
                        struct weir__io_done *out) {
    if (!weir__uring_armed(s, WEIR__IO_RECV))
        return false;
    if (s->k.flags & WEIR__KERNEL_DGRAM)
        return unpark_dgram(d, s, out);
    return s->parked.bytes && unpark(d, s, out);
}

/* A send in flight meets a reset first, and the kernel reports that only once: what is left for the
 * receive looks like an orderly end. */
static bool was_reset(const struct weir__uring_sock *s) {
    struct pollfd p = {.fd = s->k.fd};
    return weir__uring_armed(s, WEIR__IO_SEND) && poll(&p, 1, 0) == 1 &&
           p.revents & (POLLHUP | POLLERR);
}

/* Receiving has ended for good; what is parked comes first. */
static void over(struct weir__uring *d, struct weir__uring_sock *s, int code) {
    s->k.flags |= WEIR__KERNEL_OVER;
    s->over_code = code;
    if (weir__uring_armed(s, WEIR__IO_RECV) && !s->parked.bytes)
        weir__uring_end_over(d, s);
}

static void receive_failed(struct weir__uring *d, struct weir__uring_sock *s, int res) {
    int code = res ? weir__os_error(res) : weir__kernel_eof_code(&s->k);
    if (code == WEIR__IO_EOF && was_reset(s))
        code = WEIR_ERESET;
    if (code != WEIR_ENOMEM)
        over(d, s, code);
    else if (weir__uring_armed(s, WEIR__IO_RECV)) /* the kernel's, and it passes */
        weir__uring_end(d, s, WEIR__IO_RECV, code);
}

static void no_buffers(struct weir__uring *d, struct weir__uring_sock *s) {
    weir__io_count(&d->k.io.stats.starved, 1);
    if (s->batch != d->batch) /* others had them all; one that floods is no reason to have more */
        weir__uring_buffers_short(&d->buffers);
    if (weir__uring_refill(d)) {
        again_if_armed(d, s);
    } else if (weir__uring_armed(s, WEIR__IO_RECV)) {
        weir__io_count(&d->k.io.stats.no_buffer, 1);
        weir__uring_end(d, s, WEIR__IO_RECV, WEIR_ENOMEM);
    }
}

/* --- receives that are polls ------------------------------------------------------------------ */

static bool dgram_there(struct weir__uring *d, struct weir__uring_sock *s,
                        struct weir__io_done *out) {
    weir__io_count(&d->k.io.stats.other_calls, 1);
    int n = weir__kernel_fill_inbox(&d->k, &s->k);
    if (n > 0)
        return unpark_dgram(d, s, out);
    weir__io_count(&d->k.io.stats.dgrams_lost, weir__os_dgram_skips(n));
    if (n == -EAGAIN || weir__os_dgram_skips(n))
        weir__uring_todo(d, s, WEIR__IO_RECV);
    else
        weir__uring_end(d, s, WEIR__IO_RECV, weir__os_error(n));
    return false;
}

static void fds_there(struct weir__uring *d, struct weir__uring_sock *s) {
    weir__io_count(&d->k.io.stats.other_calls, 1);
    int rc = weir__kernel_take_fds(&d->k, &s->k);
    if (rc == WEIR__KERNEL_AGAIN)
        weir__uring_todo(d, s, WEIR__IO_RECV);
    else if (rc == 0 || rc == WEIR_ETOOBIG)
        weir__uring_end(d, s, WEIR__IO_RECV, rc);
    else
        over(d, s, rc);
}

/* A poll of an arm that was cancelled tells nothing that a later one would not find. */
static WEIR_NOINLINE bool polled(struct weir__uring *d, struct weir__uring_sock *s,
                                 struct weir__io_done *out) {
    s->k.door &= ~(uint32_t)WEIR__URING_POLLED;
    if (!weir__uring_armed(s, WEIR__IO_RECV))
        return false;
    if (s->k.flags & WEIR__KERNEL_DGRAM)
        return dgram_there(d, s, out);
    if (s->k.flags & WEIR__KERNEL_FDS_IN)
        fds_there(d, s);
    else
        weir__uring_todo(d, s, WEIR__IO_RECV);
    return false;
}

/* --- receives that bring bytes ---------------------------------------------------------------- */

/* Nobody waits for it, or something older does: it is parked. A request that goes on is stopped
 * when it brings what nobody wants. */
static WEIR_NOINLINE bool park(struct weir__uring *d, struct weir__uring_sock *s,
                               struct weir_slice slice, struct weir__io_done *out) {
    if (s->k.busy & WEIR__KERNEL_CLOSED || s->k.flags & WEIR__KERNEL_OVER) {
        weir_slice_release(&slice);
        return false;
    }
    struct weir_part *p = weir__mem_part_new(d->k.io.mem);
    struct weir_slice fitting;
    /* Little should not pin the buffer that it came in. Failing to copy is only less frugal. */
    if (slice.n < weir__mem_slice_capacity(slice) / 4 &&
        weir_slice_copy(d->k.io.mem, slice.p, slice.n, &fitting) >= 0) {
        weir_slice_release(&slice);
        slice = fitting;
    }
    if (count_if(!p)) { /* bytes are lost: nothing may come after them */
        weir_slice_release(&slice);
        weir__uring_undo(d, s, WEIR__IO_RECV);
        over(d, s, WEIR_EIO);
        return false;
    }
    p->slice = slice;
    weir__mem_chain_link(&s->parked, p);
    if (weir__uring_armed(s, WEIR__IO_RECV))
        return unpark(d, s, out);
    weir__io_count(&d->k.io.stats.parked, slice.n);
    weir__uring_undo(d, s, WEIR__IO_RECV);
    return false;
}

/* Who has more than a buffer takes gets a request per piece, hence one piece per turn, until a
 * small piece is all there was: else one connection could have the whole ring of buffers at once,
 * and it would wait, parked, for who reads slowly. */
static void note_rest(struct weir__uring *d, struct weir__uring_sock *s, size_t n, bool more) {
    s->batch = d->batch;
    if (more)
        s->k.door &= ~(uint32_t)WEIR__URING_EMPTY;
    else
        s->k.door |= WEIR__URING_EMPTY;
    if (unlikely(more && n > d->buffers.bytes / 2)) {
        s->k.door |= WEIR__URING_FLOODS;
        if (s->k.door & WEIR__URING_MULTI)
            weir__uring_undo(d, s, WEIR__IO_RECV);
    } else if (!more && n < d->buffers.bytes / 4) {
        s->k.door &= ~(uint32_t)WEIR__URING_FLOODS;
    }
}

static bool received_bytes(struct weir__uring *d, struct weir__uring_sock *s,
                           const struct uring_cqe *e, struct weir__io_done *out) {
    size_t n = (size_t)e->res;
    struct weir_slice slice = weir__uring_buffers_take(&d->buffers, e->flags, n);
    d->k.io.receiving = slice.buf;
    weir__io_count(&d->k.io.stats.receives, 1);
    weir__io_count(&d->k.io.stats.received_bytes, n);
    note_rest(d, s, n, e->flags & CQE_SOCK_NONEMPTY);
    if (unlikely(!weir__uring_armed(s, WEIR__IO_RECV) || s->parked.bytes ||
                 s->k.credit < (int64_t)n || s->k.flags & WEIR__KERNEL_OVER))
        return park(d, s, slice, out);
    deliver(s, slice, out);
    if (unlikely(!(e->flags & CQE_MORE) || s->k.credit == 0))
        go_on(d, s);
    return true;
}

bool weir__uring_received(struct weir__uring *d, struct weir__uring_sock *s,
                          const struct uring_cqe *e, struct weir__io_done *out) {
    if (unlikely(s->k.door & WEIR__URING_POLLED))
        return polled(d, s, out);
    if (likely(e->res > 0 && e->flags & CQE_BUFFER))
        return received_bytes(d, s, e, out);
    switch (-e->res) {
    case ENOBUFS: no_buffers(d, s); break;
    case EAGAIN: s->k.door |= WEIR__URING_EMPTY; /* fallthrough */
    case EINTR:
    case ECANCELED: again_if_armed(d, s); break;
    default: receive_failed(d, s, e->res); break;
    }
    return false;
}
