/* Opening, arming, cancelling, closing at the io_uring door. */
#include "base/assert.h"
#include "io/uring/door.h"
#include "os/error.h"
#include "os/listener.h"
#include "os/sock.h"
#include "os/sockopt.h"
#include <errno.h>
#include <poll.h>

enum { BACKLOG = 4096 };

void weir__uring_end(struct weir__uring *d, struct weir__uring_sock *s, unsigned op, int code) {
    check(weir__uring_armed(s) & op);
    if (!s->ended)
        weir__base_fifo_push(&d->done, &s->done);
    s->ended |= (uint8_t)op;
    if (op == WEIR__IO_RECV)
        s->recv_code = code;
    else if (op == WEIR__IO_SEND)
        s->send_code = code;
    else if (op != WEIR__URING_CLOSED)
        s->code = code;
    if (op == WEIR__IO_SEND && code < 0 && !(s->flags & WEIR__URING_DGRAM))
        s->flags |= WEIR__URING_FAILED;
    if (op == WEIR__IO_CONNECT && code == 0)
        s->flags &= (uint16_t)~WEIR__URING_APART;
    weir__uring_settle(d, s);
}

void weir__uring_settle(struct weir__uring *d, struct weir__uring_sock *s) {
    if (weir__uring_armed(s) != WEIR__URING_CLOSED || s->todo || s->kernel || s->fd < 0)
        return;
    struct weir__base_link *links[] = {&s->ready, &s->work};
    for (unsigned i = 0; i < ARRAY_LEN(links); i++)
        if (weir__base_linked(links[i]))
            weir__base_list_remove(links[i]);
    if (!(s->flags & WEIR__URING_FOREIGN)) {
        if (s->flags & WEIR__URING_RESET)
            count_if(weir__os_set_linger0(s->fd) < 0);
        weir__os_close(s->fd);
    }
    s->fd = -1;
    weir__uring_end(d, s, WEIR__URING_CLOSED, 0);
}

static int sock_new(struct weir__uring *d, int fd, unsigned flags, void *user,
                    struct weir__uring_sock **out) {
    struct weir__uring_sock *s = weir_mem_new(d->io.mem, sizeof *s);
    if (!s)
        return WEIR_ENOMEM;
    s->base.ref = weir__io_slot_new(d->io.slots, s);
    if (!s->base.ref) {
        weir_mem_free(s);
        return WEIR_ENOMEM;
    }
    s->base.user = user;
    s->fd = fd;
    s->parked_fd = -1;
    s->flags = (uint16_t)flags;
    weir__base_list_push_back(&d->all, &s->all);
    weir__io_count(&d->io.stats.opened, 1);
    *out = s;
    return 0;
}

void weir__uring_forget(struct weir__uring *d, struct weir__uring_sock *s) {
    if (unlikely(s->flags & WEIR__URING_DGRAM) && s->inbox) {
        weir_slice_release(&s->inbox->buf);
        weir_mem_free(s->inbox);
    }
    weir__base_list_remove(&s->all);
    weir__io_slot_free(d->io.slots, s->base.ref);
    weir_mem_free(s);
    weir__io_count(&d->io.stats.closed, 1);
}

static int inbox_new(struct weir__uring *d, struct weir__uring_sock *s,
                     const struct weir__io_listen *o) {
    int rc = weir__os_dgram_setup(s->fd, o->gro);
    if (rc < 0)
        return weir__os_error(rc);
    s->inbox = weir_mem_new(d->io.mem, sizeof *s->inbox);
    if (!s->inbox)
        return WEIR_ENOMEM;
    s->inbox->ip = rc;
    return 0;
}

int weir__uring_listen(struct weir__io *io, const struct weir__io_listen *o, void *user,
                       struct weir__io_sock **out) {
    int fd = (int)o->handle;
    if (fd < 0) {
        fd = weir__os_listener_open(
            &(struct weir__os_listener){.addr = o->addr,
                                        .backlog = o->backlog ? o->backlog : BACKLOG,
                                        .claim_ms = o->claim_ms,
                                        .reuse_port = o->reuse_port,
                                        .steer = o->steer,
                                        .n_steer = o->n_steer,
                                        .datagram = o->datagram,
                                        .options = o->options});
        if (fd < 0)
            return weir__os_error(fd);
    } else {
        int adopted = weir__os_listener_adopt(fd, o->datagram);
        if (adopted < 0)
            return adopted == -EINVAL ? WEIR_EINVAL : weir__os_error(adopted);
    }
    struct weir__uring_sock *s;
    unsigned flags = o->datagram ? WEIR__URING_DGRAM : WEIR__URING_LISTENER;
    int rc = sock_new(weir__uring_of(io), fd, flags, user, &s);
    if (rc >= 0 && o->datagram) {
        rc = inbox_new(weir__uring_of(io), s, o);
        if (rc < 0)
            weir__uring_forget(weir__uring_of(io), s);
    }
    if (rc >= 0)
        *out = &s->base;
    else if (o->handle < 0)
        weir__os_close(fd);
    return rc;
}

int weir__uring_attach(struct weir__io *io, intptr_t handle, void *user,
                       struct weir__io_sock **out) {
    struct weir__uring_sock *s;
    int rc = sock_new(weir__uring_of(io), (int)handle, 0, user, &s);
    if (rc >= 0)
        *out = &s->base;
    return rc;
}

int weir__uring_connect(struct weir__io *io, const struct weir__io_connect *o, void *user,
                        struct weir__io_sock **out) {
    struct weir__uring *d = weir__uring_of(io);
    int fd = weir__os_socket(&o->addr, SOCK_STREAM);
    if (fd < 0)
        return weir__os_error(fd);
    struct weir__uring_sock *s;
    int rc = weir__os_error(weir__os_sock_apply(fd, o->options, false));
    if (rc >= 0)
        rc = sock_new(d, fd, WEIR__URING_APART, user, &s);
    if (rc < 0) {
        weir__os_close(fd);
        return rc;
    }
    s->busy = WEIR__IO_CONNECT;
    s->credit = POLLOUT;
    rc = weir__os_connect(fd, &o->addr);
    if (rc == -EINPROGRESS)
        weir__uring_todo(d, s, WEIR__IO_CONNECT);
    else
        weir__uring_end(d, s, WEIR__IO_CONNECT, weir__os_error(rc));
    *out = &s->base;
    return 0;
}

int weir__uring_watch(struct weir__io *io, intptr_t fd, unsigned mask, void *user,
                      struct weir__io_sock **out) {
    struct weir__uring *d = weir__uring_of(io);
    int events = (mask & WEIR__IO_WATCH_READ ? POLLIN : 0) |
                 (mask & WEIR__IO_WATCH_WRITE ? POLLOUT : 0);
    if (!events || fd < 0)
        return WEIR_EBUG;
    struct weir__uring_sock *s;
    int rc = sock_new(d, (int)fd, WEIR__URING_FOREIGN, user, &s);
    if (rc < 0)
        return rc;
    s->busy = WEIR__IO_WATCH;
    s->credit = events;
    weir__uring_todo(d, s, WEIR__IO_WATCH);
    weir__uring_flush(d); /* from here on the kernel holds the file, whatever its number names */
    *out = &s->base;
    return 0;
}

static bool has_parked(const struct weir__uring_sock *s, unsigned op) {
    if (op == WEIR__IO_ACCEPT)
        return s->parked_fd >= 0;
    return s->parked.n > 0 || (s->flags & WEIR__URING_DGRAM && s->inbox->at < s->inbox->n);
}

/* A request for an armed op, unless one of an earlier arm is still there or something is parked for
 * it. */
static void arm(struct weir__uring *d, struct weir__uring_sock *s, unsigned op, int64_t credit) {
    s->credit = credit < 0 ? INT64_MAX : credit;
    s->busy |= (uint8_t)op;
    bool parked = has_parked(s, op);
    if (parked && !weir__base_linked(&s->ready))
        weir__base_list_push_back(&d->ready, &s->ready);
    else if (!parked && op == WEIR__IO_RECV && s->flags & WEIR__URING_OVER)
        weir__uring_end(d, s, op, s->recv_code);
    else if (!parked && !(s->kernel & op))
        weir__uring_todo(d, s, op);
}

int weir__uring_accept_arm(struct weir__io *io, struct weir__io_sock *ws, int64_t credit) {
    struct weir__uring_sock *s = weir__uring_sock_of(ws);
    int rc = weir__uring_refused(s, WEIR__IO_ACCEPT, 0);
    if (rc < 0)
        return rc;
    if (!(s->flags & WEIR__URING_LISTENER) || credit == 0)
        return WEIR_EBUG;
    arm(weir__uring_of(io), s, WEIR__IO_ACCEPT, credit);
    return 0;
}

int weir__uring_recv_arm(struct weir__io *io, struct weir__io_sock *ws, int64_t credit) {
    struct weir__uring_sock *s = weir__uring_sock_of(ws);
    int rc = weir__uring_refused(s, WEIR__IO_RECV, WEIR__URING_NO_STREAM);
    if (rc < 0 || credit == 0)
        return rc < 0 ? rc : WEIR_EBUG;
    arm(weir__uring_of(io), s, WEIR__IO_RECV, credit);
    return 0;
}

int weir__uring_recv_dgram_arm(struct weir__io *io, struct weir__io_sock *ws, size_t bytes_max) {
    struct weir__uring_sock *s = weir__uring_sock_of(ws);
    int rc = weir__uring_refused(s, WEIR__IO_RECV, 0);
    if (rc < 0)
        return rc;
    if (!(s->flags & WEIR__URING_DGRAM) || bytes_max > WEIR__IO_RECV_BYTES)
        return WEIR_EBUG;
    s->inbox->bytes_max = bytes_max ? bytes_max : WEIR__IO_RECV_BYTES;
    arm(weir__uring_of(io), s, WEIR__IO_RECV, -1);
    return 0;
}

int weir__uring_recv_fds(struct weir__io *io, struct weir__io_sock *ws, struct weir__io_fds *m) {
    struct weir__uring_sock *s = weir__uring_sock_of(ws);
    int rc = weir__uring_refused(s, WEIR__IO_RECV, WEIR__URING_NO_STREAM);
    if (rc < 0)
        return rc;
    if (m->n == 0 || s->parked.n || weir__os_is_unix(s->fd) == 0)
        return WEIR_EBUG;
    s->fds_in = m;
    s->flags |= WEIR__URING_FDS_IN;
    m->n_handles = 0;
    arm(weir__uring_of(io), s, WEIR__IO_RECV, -1);
    return 0;
}

/* What was sent, and whether somebody was accepted, is known only from the completion; every other
 * op ends here and now. */
static void cancel_one(struct weir__uring *d, struct weir__uring_sock *s, unsigned op) {
    bool in_kernel = s->kernel & op;
    bool later = in_kernel && op & (WEIR__IO_SEND | WEIR__IO_ACCEPT);
    if (later || op == WEIR__IO_SEND)
        s->flags |= WEIR__URING_STOP;
    if (op != WEIR__IO_RECV || !in_kernel)
        weir__uring_undo(d, s, op);
    if (!later)
        weir__uring_end(d, s, op, WEIR_ECANCELLED);
    if (op == WEIR__IO_WATCH)
        weir__uring_flush(d);
}

void weir__uring_cancel(struct weir__io *io, struct weir__io_sock *ws, unsigned ops) {
    struct weir__uring_sock *s = weir__uring_sock_of(ws);
    for (unsigned left = ops & weir__uring_armed(s); left; left &= left - 1)
        cancel_one(weir__uring_of(io), s, left & -left);
}

void weir__uring_close(struct weir__io *io, struct weir__io_sock *ws, bool abort) {
    struct weir__uring *d = weir__uring_of(io);
    struct weir__uring_sock *s = weir__uring_sock_of(ws);
    if (s->fd < 0)
        return;
    if (abort)
        s->flags |= WEIR__URING_RESET;
    s->busy |= WEIR__URING_CLOSED;
    unsigned ops = WEIR__IO_ACCEPT | WEIR__IO_CONNECT | WEIR__IO_RECV | WEIR__IO_WATCH |
                   (abort ? WEIR__IO_SEND : 0);
    weir_slice_release(&s->parked);
    if (s->flags & WEIR__URING_DGRAM) {
        weir_slice_release(&s->inbox->buf);
        s->inbox->at = s->inbox->n;
    }
    if (s->parked_fd >= 0)
        weir__os_close(s->parked_fd);
    s->parked_fd = -1;
    weir__uring_cancel(io, ws, ops);
    weir__uring_undo(d, s, s->kernel & ops);
    weir__uring_settle(d, s);
}
