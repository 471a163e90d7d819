/* From wishes to requests: door.work lists the sockets that have something for the ring. */
#include "io/uring/door.h"
#include "io/uring/pin.h"
#include <errno.h>
#include <poll.h>

void weir__uring_todo(struct weir__uring *d, struct weir__uring_sock *s, unsigned op) {
    s->todo |= (uint8_t)op;
    if (!weir__base_linked(&s->work))
        weir__base_list_push_back(&d->work, &s->work);
}

void weir__uring_undo(struct weir__uring *d, struct weir__uring_sock *s, unsigned op) {
    s->todo &= (uint8_t)~op;
    s->cancel |= (uint8_t)(s->kernel & op);
    if (s->cancel && !weir__base_linked(&s->work))
        weir__base_list_push_back(&d->work, &s->work);
}

static uint64_t token_of(const struct weir__uring_sock *s, unsigned op) {
    return op == WEIR__IO_SEND ? weir__uring_pin_token(s) : weir__io_token(s->k.base.ref, op);
}

static void prepare_poll(struct uring_sqe *e, unsigned events) {
    e->opcode = OP_POLL_ADD;
    e->op_flags = events;
}

static void prepare_accept(const struct weir__uring *d, const struct weir__uring_sock *s,
                           struct uring_sqe *e) {
    bool endless = s->k.credit > INT64_MAX / 2;
    e->opcode = OP_ACCEPT;
    e->op_flags = SOCK_NONBLOCK | SOCK_CLOEXEC;
    e->ioprio = endless && d->has & WEIR__URING_MULTI_ACCEPT ? ACCEPT_MULTISHOT : 0;
}

static void prepare_recv(const struct weir__uring *d, struct weir__uring_sock *s,
                         struct uring_sqe *e) {
    bool endless = s->k.credit > INT64_MAX / 2;
    if (unlikely(s->k.flags & (WEIR__KERNEL_DGRAM | WEIR__KERNEL_FDS_IN))) {
        s->k.door |= WEIR__URING_POLLED;
        prepare_poll(e, POLLIN);
        return;
    }
    e->opcode = OP_RECV;
    e->flags = SQE_BUFFER_SELECT;
    if (likely(endless && d->has & WEIR__URING_MULTI_RECV && !(s->k.door & WEIR__URING_FLOODS))) {
        e->ioprio = RECV_MULTISHOT; /* not behind a poll: on unix sockets that one misses the end */
        e->len = d->has & WEIR__URING_FAIR_RECV ? d->buffers.bytes : 0;
        s->k.door |= WEIR__URING_MULTI;
    } else {
        e->ioprio = s->k.door & WEIR__URING_EMPTY ? RECVSEND_POLL_FIRST : 0;
        e->len = s->k.credit < d->buffers.bytes ? (uint32_t)s->k.credit : d->buffers.bytes;
        s->k.door &= ~(uint32_t)WEIR__URING_MULTI;
    }
}

/* false: its vectors have to wait. */
static bool prepare(struct weir__uring *d, struct weir__uring_sock *s, unsigned op,
                    struct uring_sqe *e) {
    e->fd = s->k.fd;
    e->user_data = weir__io_token(s->k.base.ref, op);
    switch (op) {
    case WEIR__IO_ACCEPT: prepare_accept(d, s, e); break;
    case WEIR__IO_RECV: prepare_recv(d, s, e); break;
    case WEIR__IO_SEND: return weir__uring_prepare_send(d, s, e);
    default: prepare_poll(e, (unsigned)s->k.credit); break; /* connect, watch */
    }
    return true;
}

static void count(struct weir__uring *d, const struct uring_sqe *e) {
    static const uint8_t kinds[OPS] = {
        [OP_ACCEPT] = WEIR__IO_REQUEST_ACCEPT,     [OP_RECV] = WEIR__IO_REQUEST_RECV,
        [OP_SEND] = WEIR__IO_REQUEST_SEND,         [OP_SENDMSG] = WEIR__IO_REQUEST_SEND,
        [OP_SEND_ZC] = WEIR__IO_REQUEST_ZERO_COPY, [OP_SENDMSG_ZC] = WEIR__IO_REQUEST_ZERO_COPY,
        [OP_POLL_ADD] = WEIR__IO_REQUEST_POLL,     [OP_ASYNC_CANCEL] = WEIR__IO_REQUEST_CANCEL,
    };
    weir__io_count(&d->k.io.stats.requests[kinds[e->opcode]], 1);
}

int weir__uring_enter(struct weir__uring *d, int64_t timeout_ns) {
    uint32_t before = __atomic_load_n(d->ring.cq_tail, __ATOMIC_RELAXED);
    int rc = weir__uring_ring_enter(&d->ring, timeout_ns);
    d->brought = before != __atomic_load_n(d->ring.cq_tail, __ATOMIC_RELAXED);
    if (unlikely(rc < 0 && rc != -EINTR && rc != -ETIME))
        d->failed = rc; /* told once: the next wait breaks */
    d->batch++;
    if (!weir__uring_ring_unsubmitted(&d->ring)) /* the kernel has its own copies now */
        d->vectors.n_msgs = d->vectors.n_iovs = 0;
    return rc;
}

/* Room for one more entry, if need be by handing over what is there. */
static struct uring_sqe *entry(struct weir__uring *d, int *rc) {
    struct uring_sqe *e = weir__uring_ring_sqe(&d->ring);
    if (unlikely(!e)) {
        *rc = weir__uring_enter(d, 0);
        e = *rc < 0 ? NULL : weir__uring_ring_sqe(&d->ring);
    }
    return e;
}

/* An entry of one op; false: the ring takes no more now. */
static bool issue_op(struct weir__uring *d, struct weir__uring_sock *s, unsigned op, int *rc) {
    for (unsigned go = 0; go < 2; go++) {
        struct uring_sqe *e = entry(d, rc);
        if (!e)
            return false;
        if (likely(prepare(d, s, op, e))) {
            s->todo &= (uint8_t)~op;
            s->kernel |= (uint8_t)op;
            count(d, e);
            return true;
        }
        d->ring.tail--; /* not used */
        *rc = weir__uring_enter(d, 0);
        if (*rc < 0)
            return false;
    }
    return false;
}

/* false: the ring takes no more now. */
static bool issue(struct weir__uring *d, struct weir__uring_sock *s, int *rc) {
    while (s->todo)
        if (!issue_op(d, s, s->todo & -(unsigned)s->todo, rc))
            return false;
    for (s->cancel &= s->kernel; s->cancel; s->cancel &= (uint8_t)(s->cancel - 1)) {
        struct uring_sqe *e = entry(d, rc);
        if (!e)
            return false;
        e->opcode = OP_ASYNC_CANCEL;
        e->fd = -1;
        e->addr = token_of(s, s->cancel & -(unsigned)s->cancel);
        count(d, e);
    }
    return true;
}

static void arm_bell(struct weir__uring *d, int *rc) {
    struct uring_sqe *e = entry(d, rc);
    if (!e)
        return;
    prepare_poll(e, POLLIN);
    e->len = POLL_MULTISHOT;
    e->fd = d->k.bell;
    e->user_data = WEIR__URING_BELL;
    d->bell_armed = true;
    count(d, e);
}

bool weir__uring_refill(struct weir__uring *d) {
    d->k.io.receiving = NULL; /* it may be let go of */
    return weir__uring_buffers_refill(&d->buffers, d->k.io.mem);
}

int weir__uring_fill(struct weir__uring *d) {
    int rc = 0;
    if (unlikely(d->broken || d->failed))
        return d->broken ? -EBADF : d->failed;
    if (unlikely(d->buffers.spent))
        weir__uring_refill(d);
    while (!weir__base_list_empty(&d->work)) {
        struct weir__base_link *l = weir__base_list_first(&d->work);
        if (!issue(d, container_of(l, struct weir__uring_sock, work), &rc))
            break;
        weir__base_list_remove(l);
    }
    if (unlikely(!d->bell_armed))
        arm_bell(d, &rc);
    return rc;
}
