/* From wishes to requests: door.work lists the sockets that have something for the ring. */
#include "io/uring/door.h"
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

static void prepare_poll(struct uring_sqe *e, unsigned events) {
    e->opcode = OP_POLL_ADD;
    e->op_flags = events;
}

static void prepare_recv(struct weir__uring_sock *s, struct uring_sqe *e) {
    if (s->flags & (WEIR__URING_DGRAM | WEIR__URING_FDS_IN)) {
        s->flags |= WEIR__URING_POLLED;
        prepare_poll(e, POLLIN);
        return;
    }
    e->opcode = OP_RECV;
    e->flags = SQE_BUFFER_SELECT;
    e->ioprio = s->flags & WEIR__URING_EMPTY ? RECVSEND_POLL_FIRST : 0;
    e->len = s->credit < WEIR__URING_BUF_BYTES ? (uint32_t)s->credit : WEIR__URING_BUF_BYTES;
}

static void prepare(struct weir__uring *d, struct weir__uring_sock *s, unsigned op,
                    struct uring_sqe *e) {
    e->fd = s->fd;
    e->user_data = weir__io_token(s->base.ref, op);
    switch (op) {
    case WEIR__IO_ACCEPT:
        e->opcode = OP_ACCEPT;
        e->op_flags = SOCK_NONBLOCK | SOCK_CLOEXEC;
        break;
    case WEIR__IO_RECV: prepare_recv(s, e); break;
    case WEIR__IO_SEND: weir__uring_prepare_send(d, s, e); break;
    default: prepare_poll(e, (unsigned)s->credit); break; /* connect, watch */
    }
}

/* Room for one more entry, if need be by handing over what is there. */
static struct uring_sqe *entry(struct weir__uring *d, int *rc) {
    struct uring_sqe *e = weir__uring_ring_sqe(&d->ring);
    if (unlikely(!e)) {
        *rc = weir__uring_ring_enter(&d->ring, 0);
        e = *rc < 0 ? NULL : weir__uring_ring_sqe(&d->ring);
    }
    return e;
}

/* false: the ring takes no more now. */
static bool issue(struct weir__uring *d, struct weir__uring_sock *s, int *rc) {
    while (s->todo) {
        unsigned op = s->todo & -(unsigned)s->todo;
        struct uring_sqe *e = entry(d, rc);
        if (!e)
            return false;
        s->todo &= (uint8_t)~op;
        s->kernel |= (uint8_t)op;
        prepare(d, s, op, e);
    }
    for (s->cancel &= s->kernel; s->cancel; s->cancel &= (uint8_t)(s->cancel - 1)) {
        struct uring_sqe *e = entry(d, rc);
        if (!e)
            return false;
        e->opcode = OP_ASYNC_CANCEL;
        e->fd = -1;
        e->addr = weir__io_token(s->base.ref, s->cancel & -(unsigned)s->cancel);
    }
    return true;
}

int weir__uring_flush(struct weir__uring *d) {
    int rc = 0;
    if (unlikely(d->broken))
        return -EBADF;
    while (!weir__base_list_empty(&d->work)) {
        struct weir__base_link *l = weir__base_list_first(&d->work);
        if (!issue(d, container_of(l, struct weir__uring_sock, work), &rc))
            break;
        weir__base_list_remove(l);
    }
    if (!d->bell_armed) {
        struct uring_sqe *e = entry(d, &rc);
        if (e) {
            prepare_poll(e, POLLIN);
            e->fd = d->bell;
            e->user_data = WEIR__URING_BELL;
            d->bell_armed = true;
        }
    }
    if (rc >= 0) {
        weir__io_count(&d->io.stats.control_calls, 1);
        rc = weir__uring_ring_enter(&d->ring, 0);
    }
    return rc;
}
