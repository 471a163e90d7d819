/* Life of a socket at the epoll door, and what the kernel is asked to report of it. */
#include "base/assert.h"
#include "io/epoll/door.h"
#include "os/epoll.h"
#include "os/error.h"

enum { TOKEN_KIND = 1 };

static uint32_t wanted(const struct weir__epoll_sock *s) {
    unsigned armed = weir__kernel_armed(&s->k);
    uint32_t events = 0;
    if (armed & (WEIR__IO_RECV | WEIR__IO_ACCEPT))
        events |= EPOLLIN;
    if (armed & (WEIR__IO_SEND | WEIR__IO_CONNECT))
        events |= EPOLLOUT;
    if (armed & WEIR__IO_WATCH)
        events |= (uint32_t)s->k.credit;
    return events;
}

static int set_events(struct weir__epoll *d, struct weir__epoll_sock *s, uint32_t events) {
    uint64_t token = weir__io_token(s->k.base.ref, TOKEN_KIND);
    weir__io_count(&d->k.io.stats.control_calls, 1);
    int rc = s->k.flags & WEIR__EPOLL_REGISTERED
                 ? weir__os_epoll_mod(d->ep, s->k.fd, events, token)
                 : weir__os_epoll_add(d->ep, s->k.fd, events, token);
    if (rc < 0)
        return weir__os_error(rc);
    s->k.flags |= WEIR__EPOLL_REGISTERED;
    s->k.door = events;
    return 0;
}

static void leave(struct weir__epoll *d, struct weir__epoll_sock *s) {
    if (!(s->k.flags & WEIR__EPOLL_REGISTERED))
        return;
    weir__io_count(&d->k.io.stats.control_calls, 1);
    weir__os_epoll_del(d->ep, s->k.fd);
    s->k.flags &= (uint16_t)~WEIR__EPOLL_REGISTERED;
    s->k.door = 0;
}

int weir__epoll_interest(struct weir__epoll *d, struct weir__epoll_sock *s) {
    uint32_t events = wanted(s);
    if (likely((s->k.door & events) == events && s->k.flags & WEIR__EPOLL_REGISTERED))
        return 0;
    if (s->k.flags & WEIR__EPOLL_EDGE)
        events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    return set_events(d, s, events);
}

void weir__epoll_narrow(struct weir__epoll *d, struct weir__epoll_sock *s, bool dead) {
    if (dead && !weir__kernel_armed(&s->k))
        leave(d, s);
    else if (!(s->k.flags & WEIR__EPOLL_EDGE) && count_if(set_events(d, s, wanted(s)) < 0))
        leave(d, s);
}

/* The descriptor goes when nothing is armed any more; CLOSED follows what is already queued. */
static void finish_close(struct weir__epoll *d, struct weir__epoll_sock *s) {
    /* The kernel keeps a registration as long as any copy of the descriptor lives, ours or one that
     * was handed over. */
    leave(d, s);
    if (weir__base_linked(&s->again))
        weir__base_list_remove(&s->again);
    weir__kernel_close_fd(&s->k);
    weir__epoll_end(d, s, WEIR__KERNEL_CLOSED, 0);
}

void weir__epoll_end(struct weir__epoll *d, struct weir__epoll_sock *s, unsigned op, int code) {
    weir__kernel_end(&d->k, &s->k, op, code);
    if (unlikely(weir__kernel_armed(&s->k) == WEIR__KERNEL_CLOSED) && s->k.fd >= 0)
        finish_close(d, s);
}

void weir__epoll_again(struct weir__epoll *d, struct weir__epoll_sock *s) {
    if (!weir__base_linked(&s->again))
        weir__base_list_push_back(&d->again, &s->again);
}

static unsigned stream_flags(const struct weir__epoll *d) {
    return d->edge ? WEIR__EPOLL_EDGE : 0;
}

int weir__epoll_listen(struct weir__io *io, const struct weir__io_listen *o, void *user,
                       struct weir__io_sock **out) {
    struct weir__kernel_sock *s;
    int rc = weir__kernel_listen(weir__kernel_of(io), sizeof(struct weir__epoll_sock), o, user, &s);
    if (rc == 0)
        *out = &s->base;
    return rc;
}

int weir__epoll_attach(struct weir__io *io, intptr_t handle, void *user,
                       struct weir__io_sock **out) {
    struct weir__epoll *d = weir__epoll_of(io);
    struct weir__kernel_sock *s;
    int rc = weir__kernel_sock_new(&d->k, sizeof(struct weir__epoll_sock), (int)handle,
                                   stream_flags(d), user, &s);
    if (rc == 0)
        *out = &s->base;
    return rc;
}

int weir__epoll_connect(struct weir__io *io, const struct weir__io_connect *o, void *user,
                        struct weir__io_sock **out) {
    struct weir__epoll *d = weir__epoll_of(io);
    struct weir__kernel_sock *k;
    int ended;
    int rc = weir__kernel_connect(&d->k, sizeof(struct weir__epoll_sock), stream_flags(d), o, user,
                                  &k, &ended);
    if (rc < 0)
        return rc;
    struct weir__epoll_sock *s = weir__epoll_sock_of(&k->base);
    if (rc == 0)
        weir__epoll_end(d, s, WEIR__IO_CONNECT, ended);
    else if ((rc = weir__epoll_interest(d, s)) < 0) {
        weir__kernel_abandon(&d->k, k);
        return rc;
    }
    *out = &k->base;
    return 0;
}

int weir__epoll_watch(struct weir__io *io, intptr_t fd, unsigned mask, void *user,
                      struct weir__io_sock **out) {
    struct weir__epoll *d = weir__epoll_of(io);
    uint32_t events = (mask & WEIR__IO_WATCH_READ ? EPOLLIN : 0) |
                      (mask & WEIR__IO_WATCH_WRITE ? EPOLLOUT : 0);
    if (!events || fd < 0)
        return WEIR_EBUG;
    struct weir__kernel_sock *k;
    int rc = weir__kernel_sock_new(&d->k, sizeof(struct weir__epoll_sock), (int)fd,
                                   WEIR__KERNEL_FOREIGN, user, &k);
    if (rc < 0)
        return rc;
    k->busy = WEIR__IO_WATCH;
    k->credit = events;
    rc = weir__epoll_interest(d, weir__epoll_sock_of(&k->base));
    if (rc < 0) {
        weir__kernel_forget(&d->k, k);
        return rc;
    }
    *out = &k->base;
    return 0;
}

void weir__epoll_cancel(struct weir__io *io, struct weir__io_sock *ws, unsigned ops) {
    struct weir__epoll *d = weir__epoll_of(io);
    struct weir__epoll_sock *s = weir__epoll_sock_of(ws);
    for (unsigned left = ops & weir__kernel_armed(&s->k); left; left &= left - 1)
        weir__epoll_end(d, s, left & -left, WEIR_ECANCELLED);
    if (s->k.flags & WEIR__KERNEL_FOREIGN && ops & WEIR__IO_WATCH)
        leave(d, s);
}

void weir__epoll_close(struct weir__io *io, struct weir__io_sock *ws, bool abort) {
    struct weir__epoll *d = weir__epoll_of(io);
    struct weir__epoll_sock *s = weir__epoll_sock_of(ws);
    if (s->k.fd < 0) /* its descriptor is closed already */
        return;
    if (abort)
        s->k.flags |= WEIR__KERNEL_RESET;
    s->k.busy |= WEIR__KERNEL_CLOSED;
    unsigned ops = weir__kernel_armed(&s->k) & ~(unsigned)(abort ? 0 : WEIR__IO_SEND);
    if (s->k.flags & WEIR__KERNEL_DGRAM)
        weir__kernel_drop_inbox(&s->k);
    weir__epoll_cancel(io, ws, ops & ~(unsigned)WEIR__KERNEL_CLOSED);
    if (weir__kernel_armed(&s->k) == WEIR__KERNEL_CLOSED && s->k.fd >= 0)
        finish_close(d, s);
}
