/* Life of a socket at the epoll door, and what the kernel is asked to report of it. */
#include "base/assert.h"
#include "io/epoll/door.h"
#include "os/epoll.h"
#include "os/error.h"
#include "os/listener.h"
#include "os/sock.h"
#include "os/sockopt.h"
#include <errno.h>

enum { BACKLOG = 4096, TOKEN_KIND = 1 };

static uint32_t wanted(const struct weir__epoll_sock *s) {
    unsigned armed = weir__epoll_armed(s);
    uint32_t events = 0;
    if (armed & (WEIR__IO_RECV | WEIR__IO_ACCEPT))
        events |= EPOLLIN;
    if (armed & (WEIR__IO_SEND | WEIR__IO_CONNECT))
        events |= EPOLLOUT;
    if (armed & WEIR__IO_WATCH)
        events |= (uint32_t)s->credit;
    return events;
}

static int set_events(struct weir__epoll *d, struct weir__epoll_sock *s, uint32_t events) {
    uint64_t token = weir__io_token(s->base.ref, TOKEN_KIND);
    weir__io_count(&d->io.stats.control_calls, 1);
    int rc = s->flags & WEIR__EPOLL_REGISTERED ? weir__os_epoll_mod(d->ep, s->fd, events, token)
                                               : weir__os_epoll_add(d->ep, s->fd, events, token);
    if (rc < 0)
        return weir__os_error(rc);
    s->flags |= WEIR__EPOLL_REGISTERED;
    s->events = events;
    return 0;
}

static void leave(struct weir__epoll *d, struct weir__epoll_sock *s) {
    if (!(s->flags & WEIR__EPOLL_REGISTERED))
        return;
    weir__io_count(&d->io.stats.control_calls, 1);
    weir__os_epoll_del(d->ep, s->fd);
    s->flags &= (uint16_t)~WEIR__EPOLL_REGISTERED;
    s->events = 0;
}

int weir__epoll_interest(struct weir__epoll *d, struct weir__epoll_sock *s) {
    uint32_t events = wanted(s);
    if (likely((s->events & events) == events && s->flags & WEIR__EPOLL_REGISTERED))
        return 0;
    if (s->flags & WEIR__EPOLL_EDGE)
        events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    return set_events(d, s, events);
}

void weir__epoll_narrow(struct weir__epoll *d, struct weir__epoll_sock *s, bool dead) {
    if (dead && !weir__epoll_armed(s))
        leave(d, s);
    else if (!(s->flags & WEIR__EPOLL_EDGE) && count_if(set_events(d, s, wanted(s)) < 0))
        leave(d, s);
}

/* The descriptor goes when nothing is armed any more; CLOSED follows what is already queued. */
static void finish_close(struct weir__epoll *d, struct weir__epoll_sock *s) {
    /* The kernel keeps a registration as long as any copy of the descriptor lives, ours or one that
     * was handed over. */
    leave(d, s);
    if (weir__base_linked(&s->again))
        weir__base_list_remove(&s->again);
    if (!(s->flags & WEIR__EPOLL_FOREIGN)) {
        if (s->flags & WEIR__EPOLL_RESET)
            count_if(weir__os_set_linger0(s->fd) < 0);
        weir__os_close(s->fd);
    }
    s->fd = -1;
    weir__epoll_end(d, s, WEIR__EPOLL_CLOSED, 0);
}

void weir__epoll_end(struct weir__epoll *d, struct weir__epoll_sock *s, unsigned op, int code) {
    check(weir__epoll_armed(s) & op);
    if (!s->ended)
        weir__base_fifo_push(&d->done, &s->done);
    s->ended |= (uint8_t)op;
    if (op == WEIR__IO_RECV)
        s->recv_code = code;
    else if (op == WEIR__IO_SEND)
        s->send_code = code;
    else if (op != WEIR__EPOLL_CLOSED)
        s->code = code;
    if (op == WEIR__IO_SEND && code < 0 && !(s->flags & WEIR__EPOLL_DGRAM))
        s->flags |= WEIR__EPOLL_FAILED;
    if (op == WEIR__IO_CONNECT && code == 0)
        s->flags &= (uint16_t)~WEIR__EPOLL_APART;
    if (unlikely(weir__epoll_armed(s) == WEIR__EPOLL_CLOSED) && s->fd >= 0)
        finish_close(d, s);
}

void weir__epoll_again(struct weir__epoll *d, struct weir__epoll_sock *s) {
    if (!weir__base_linked(&s->again))
        weir__base_list_push_back(&d->again, &s->again);
}

static int sock_new(struct weir__epoll *d, int fd, unsigned flags, void *user,
                    struct weir__epoll_sock **out) {
    struct weir__epoll_sock *s = weir_mem_new(d->io.mem, sizeof *s);
    if (!s)
        return WEIR_ENOMEM;
    s->base.ref = weir__io_slot_new(d->io.slots, s);
    if (!s->base.ref) {
        weir_mem_free(s);
        return WEIR_ENOMEM;
    }
    s->base.user = user;
    s->fd = fd;
    s->flags = (uint16_t)flags;
    weir__io_count(&d->io.stats.opened, 1);
    *out = s;
    return 0;
}

void weir__epoll_forget(struct weir__epoll *d, struct weir__epoll_sock *s) {
    if (unlikely(s->flags & WEIR__EPOLL_DGRAM) && s->inbox) {
        weir_slice_release(&s->inbox->buf);
        weir_mem_free(s->inbox);
    }
    weir__io_slot_free(d->io.slots, s->base.ref);
    weir_mem_free(s);
    weir__io_count(&d->io.stats.closed, 1);
}

static unsigned stream_flags(const struct weir__epoll *d) {
    return d->edge ? WEIR__EPOLL_EDGE : 0;
}

static int inbox_new(struct weir__epoll *d, struct weir__epoll_sock *s,
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

int weir__epoll_listen(struct weir__io *io, const struct weir__io_listen *o, void *user,
                       struct weir__io_sock **out) {
    struct weir__epoll *d = weir__epoll_of(io);
    int fd = (int)o->handle, rc;
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
        rc = weir__os_listener_adopt(fd, o->datagram);
        if (rc < 0)
            return rc == -EINVAL ? WEIR_EINVAL : weir__os_error(rc);
    }
    struct weir__epoll_sock *s;
    rc = sock_new(d, fd, o->datagram ? WEIR__EPOLL_DGRAM : WEIR__EPOLL_LISTENER, user, &s);
    if (rc == 0 && o->datagram) {
        rc = inbox_new(d, s, o);
        if (rc < 0)
            weir__epoll_forget(d, s);
    }
    if (rc < 0) {
        if (o->handle < 0)
            weir__os_close(fd);
        return rc;
    }
    *out = &s->base;
    return 0;
}

int weir__epoll_attach(struct weir__io *io, intptr_t handle, void *user,
                       struct weir__io_sock **out) {
    struct weir__epoll *d = weir__epoll_of(io);
    struct weir__epoll_sock *s;
    int rc = sock_new(d, (int)handle, stream_flags(d), user, &s);
    if (rc >= 0)
        *out = &s->base;
    return rc;
}

int weir__epoll_connect(struct weir__io *io, const struct weir__io_connect *o, void *user,
                        struct weir__io_sock **out) {
    struct weir__epoll *d = weir__epoll_of(io);
    int fd = weir__os_socket(&o->addr, SOCK_STREAM);
    if (fd < 0)
        return weir__os_error(fd);
    struct weir__epoll_sock *s;
    int rc = weir__os_error(weir__os_sock_apply(fd, o->options, false));
    if (rc >= 0)
        rc = sock_new(d, fd, stream_flags(d) | WEIR__EPOLL_APART, user, &s);
    if (rc < 0) {
        weir__os_close(fd);
        return rc;
    }
    s->busy = WEIR__IO_CONNECT;
    rc = weir__os_connect(fd, &o->addr);
    if (rc == -EINPROGRESS)
        rc = weir__epoll_interest(d, s);
    else
        weir__epoll_end(d, s, WEIR__IO_CONNECT, weir__os_error(rc)), rc = 0;
    if (rc < 0) {
        weir__epoll_forget(d, s);
        weir__os_close(fd);
        return rc;
    }
    *out = &s->base;
    return 0;
}

int weir__epoll_watch(struct weir__io *io, intptr_t fd, unsigned mask, void *user,
                      struct weir__io_sock **out) {
    struct weir__epoll *d = weir__epoll_of(io);
    uint32_t events = (mask & WEIR__IO_WATCH_READ ? EPOLLIN : 0) |
                      (mask & WEIR__IO_WATCH_WRITE ? EPOLLOUT : 0);
    if (!events || fd < 0)
        return WEIR_EBUG;
    struct weir__epoll_sock *s;
    int rc = sock_new(d, (int)fd, WEIR__EPOLL_FOREIGN, user, &s);
    if (rc < 0)
        return rc;
    s->busy = WEIR__IO_WATCH;
    s->credit = events;
    rc = weir__epoll_interest(d, s);
    if (rc < 0) {
        weir__epoll_forget(d, s);
        return rc;
    }
    *out = &s->base;
    return 0;
}

void weir__epoll_cancel(struct weir__io *io, struct weir__io_sock *ws, unsigned ops) {
    struct weir__epoll *d = weir__epoll_of(io);
    struct weir__epoll_sock *s = weir__epoll_sock_of(ws);
    for (unsigned left = ops & weir__epoll_armed(s); left; left &= left - 1)
        weir__epoll_end(d, s, left & -left, WEIR_ECANCELLED);
    if (s->flags & WEIR__EPOLL_FOREIGN && ops & WEIR__IO_WATCH)
        leave(d, s);
}

void weir__epoll_close(struct weir__io *io, struct weir__io_sock *ws, bool abort) {
    struct weir__epoll *d = weir__epoll_of(io);
    struct weir__epoll_sock *s = weir__epoll_sock_of(ws);
    if (s->fd < 0) /* its descriptor is closed already */
        return;
    if (abort)
        s->flags |= WEIR__EPOLL_RESET;
    s->busy |= WEIR__EPOLL_CLOSED;
    unsigned ops = weir__epoll_armed(s) & ~(unsigned)(abort ? 0 : WEIR__IO_SEND);
    if (s->flags & WEIR__EPOLL_DGRAM) {
        weir_slice_release(&s->inbox->buf);
        s->inbox->at = s->inbox->n;
    }
    weir__epoll_cancel(io, ws, ops & ~(unsigned)WEIR__EPOLL_CLOSED);
    if (weir__epoll_armed(s) == WEIR__EPOLL_CLOSED && s->fd >= 0)
        finish_close(d, s);
}
