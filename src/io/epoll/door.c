/* The epoll door: making it, waiting, and pulling completions. */
#include "io/epoll/epoll.h"
#include "io/epoll/door.h"
#include "base/assert.h"
#include "os/epoll.h"
#include "os/error.h"
#include "os/sock.h"
#include <errno.h>

/* Marks an event whose write half has been served; the kernel never reports this bit. */
#define SERVED_OUT EPOLLONESHOT

static int start(struct weir__io *io) {
    (void)io; /* the door may be used by any one thread */
    return 0;
}

static int poll_events(struct weir__epoll *d, int64_t timeout_ns) {
    int n = weir__os_epoll_wait(d->ep, d->events, WEIR__EPOLL_EVENTS, timeout_ns);
    d->at = 0;
    d->n = n < 0 ? 0 : n;
    weir__io_count(&d->k.io.stats.waits, 1);
    weir__io_count(&d->k.io.stats.events, (uint64_t)d->n);
    return n;
}

static int broken(struct weir__epoll *d, int rc) {
    d->broken = true;
    return weir__os_error(rc);
}

/* One system call, whether there is something or not: a look before the sleep would tell the two
 * apart, and cost every quiet turn a second call. */
static int wait(struct weir__io *io, uint64_t until_ns) {
    struct weir__epoll *d = weir__epoll_of(io);
    d->goes = WEIR__EPOLL_AGAIN;
    if (unlikely(d->at < d->n))
        return 0;
    bool pending = !weir__base_fifo_empty(&d->k.done) || !weir__base_list_empty(&d->again);
    int64_t ns = pending || until_ns == 0 ? 0 : weir__kernel_timeout(until_ns);
    int n = poll_events(d, ns);
    if (unlikely(n < 0))
        return broken(d, n);
    weir__io_count(&d->k.io.stats.sleeps, ns != 0);
    return ns != 0;
}

static bool yield(struct weir__epoll *d, struct weir__io_done *out) {
    struct weir__kernel_sock *k = weir__kernel_yield(&d->k, out);
    if (out->kind == WEIR__IO_CLOSED)
        weir__kernel_forget(&d->k, k);
    return true;
}

/* Newer kernels show HUP on a socket that is still connecting; only OUT and ERR say that it is
 * over. */
static void connect_event(struct weir__epoll *d, struct weir__epoll_sock *s, uint32_t bits) {
    if (bits & (EPOLLOUT | EPOLLERR))
        weir__epoll_end(d, s, WEIR__IO_CONNECT, weir__os_error(weir__os_sock_error(s->k.fd)));
}

static void watch_event(struct weir__epoll *d, struct weir__epoll_sock *s, uint32_t bits) {
    bool dead = bits & (EPOLLERR | EPOLLHUP);
    s->k.sent = (dead || bits & EPOLLIN ? WEIR__IO_WATCH_READ : 0) |
                (dead || bits & EPOLLOUT ? WEIR__IO_WATCH_WRITE : 0);
    weir__epoll_end(d, s, WEIR__IO_WATCH, 0);
    weir__epoll_narrow(d, s, true);
}

static bool listener_event(struct weir__epoll *d, struct weir__epoll_sock *s,
                           struct weir__io_done *out) {
    bool drained = true, got = false;
    if (weir__kernel_armed(&s->k) & WEIR__IO_ACCEPT)
        got = weir__epoll_accept(d, s, out, &drained);
    else
        weir__epoll_narrow(d, s, false);
    if (drained) {
        d->at++;
        d->accepts = 0;
    }
    return got;
}

static bool socket_event(struct weir__epoll *d, struct weir__epoll_sock *s, struct epoll_event *ev,
                         struct weir__io_done *out) {
    uint32_t bits = ev->events;
    unsigned armed = weir__kernel_armed(&s->k);
    bool dead = bits & (EPOLLERR | EPOLLHUP);
    if (s->k.flags & WEIR__KERNEL_LISTENER)
        return listener_event(d, s, out);
    if (bits & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        s->k.flags |= WEIR__EPOLL_ENDING;
    if (s->k.flags & WEIR__EPOLL_EDGE && bits & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        s->k.flags |= WEIR__EPOLL_READABLE;
    if (armed & WEIR__IO_SEND && (dead || bits & EPOLLOUT) && !(bits & SERVED_OUT)) {
        ev->events = bits | SERVED_OUT; /* its terminal, if any, comes before the read half */
        weir__epoll_send_on(d, s);
        return false;
    }
    d->at++;
    if (armed & WEIR__IO_CONNECT)
        connect_event(d, s, bits);
    else if (armed & WEIR__IO_WATCH)
        watch_event(d, s, bits);
    else if (armed & WEIR__IO_RECV && (dead || bits & (EPOLLIN | EPOLLRDHUP)))
        return weir__epoll_receive(d, s, out);
    else if (!(bits & SERVED_OUT) || dead)
        weir__epoll_narrow(d, s, dead);
    return false;
}

static bool event(struct weir__epoll *d, struct weir__io_done *out) {
    struct epoll_event *ev = &d->events[d->at];
    struct weir__epoll_sock *s = weir__io_token_get(ev->data.u64);
    if (s)
        return socket_event(d, s, ev, out);
    d->at++;
    d->accepts = 0;
    weir__io_count(&d->k.io.stats.stale, ev->data.u64 != 0);
    return false;
}

/* The next socket that wants another go; a socket with both halves to do queues once more. */
static bool second_go(struct weir__epoll *d, struct weir__io_done *out) {
    struct weir__base_link *l = weir__base_list_pop_front(&d->again);
    struct weir__epoll_sock *s = container_of(l, struct weir__epoll_sock, again);
    unsigned armed = weir__kernel_armed(&s->k);
    d->goes--;
    if (armed & WEIR__IO_SEND && s->k.flags & WEIR__EPOLL_GO_ON) {
        weir__epoll_send_on(d, s);
        if (armed & WEIR__IO_RECV)
            weir__epoll_again(d, s);
        return false;
    }
    return armed & WEIR__IO_RECV && weir__epoll_receive(d, s, out);
}

bool weir__epoll_next_slow(struct weir__epoll *d, struct weir__io_done *out) {
    for (;;) {
        if (!weir__base_fifo_empty(&d->k.done))
            return yield(d, out);
        if (d->at < d->n) {
            if (event(d, out))
                return true;
        } else if (weir__base_list_empty(&d->again) || d->goes == 0) {
            return false;
        } else if (second_go(d, out)) {
            return true;
        }
    }
}

static int64_t parked(struct weir__io *io, struct weir__io_sock *ws) {
    (void)io;
    const struct weir__epoll_sock *s = weir__epoll_sock_of(ws);
    int rc = weir__kernel_refused(&s->k, 0, 0);
    if (rc < 0 || !(s->k.flags & WEIR__KERNEL_DGRAM))
        return rc; /* what nobody asked for is still in the kernel */
    return s->k.inbox->n - s->k.inbox->at;
}

/* What is left when the door broke: nobody can pull these sockets' terminals any more. */
static void abandon(struct weir__epoll *d) {
    struct weir__kernel_sock *k;
    while ((k = weir__io_slots_any(d->k.io.slots))) {
        must(d->broken);
        weir__kernel_abandon(&d->k, k);
    }
}

static void door_free(struct weir__io *io) {
    struct weir__epoll *d = weir__epoll_of(io);
    abandon(d);
    weir__kernel_fini(&d->k);
    if (d->ep >= 0)
        weir__os_close(d->ep);
    weir_mem_free(d);
}

static const struct weir__io_ops epoll_ops = {
    .name = "epoll",
    .free = door_free,
    .listen = weir__epoll_listen,
    .attach = weir__epoll_attach,
    .connect = weir__epoll_connect,
    .drop = weir__kernel_drop,
    .accept_arm = weir__epoll_accept_arm,
    .recv_arm = weir__epoll_recv_arm,
    .send = weir__epoll_send,
    .send_zc = weir__epoll_send, /* copies */
    .send_file = weir__epoll_send_file,
    .recv_dgram_arm = weir__epoll_recv_dgram_arm,
    .send_dgram = weir__epoll_send_dgram,
    .send_fds = weir__epoll_send_fds,
    .recv_fds = weir__epoll_recv_fds,
    .watch = weir__epoll_watch,
    .cancel = weir__epoll_cancel,
    .close = weir__epoll_close,
    .shutdown = weir__kernel_shutdown,
    .set_crypto = weir__kernel_set_crypto,
    .local = weir__kernel_local,
    .peer = weir__kernel_peer,
    .unsent = weir__kernel_unsent,
    .parked = parked,
    .handle = weir__kernel_handle,
    .queued = weir__kernel_queued,
    .start = start,
    .wait = wait,
    .next = weir__epoll_next,
    .wake = weir__kernel_wake,
    .now = weir__kernel_now,
    .entropy = weir__kernel_entropy,
};

static int open_kernel_side(struct weir__epoll *d, const char **why) {
    *why = "epoll_create1 failed";
    d->ep = weir__os_epoll_new();
    if (d->ep < 0)
        return d->ep;
    int rc = weir__kernel_init(&d->k, why);
    if (rc < 0)
        return rc;
    *why = "epoll_ctl failed";
    return weir__os_epoll_add(d->ep, d->k.bell, EPOLLIN | EPOLLET, 0);
}

int weir__epoll_new(const struct weir__io_config *c, struct weir__io **out, const char **why) {
    const char *unused;
    if (!why)
        why = &unused;
    *why = "no memory for the door";
    struct weir__epoll *d = weir_mem_new(c->mem, sizeof *d);
    if (!d)
        return WEIR_ENOMEM;
    d->k.io = (struct weir__io){
        .ops = &epoll_ops, .mem = c->mem, .slots = c->slots, .sends_inline = !c->defer};
    d->edge = c->edge;
    d->defer = c->defer;
    d->heeded = c->edge ? ~(uint32_t)EPOLLOUT : ~(uint32_t)0;
    d->ep = d->k.bell = -1;
    weir__base_list_init(&d->again);
    int rc = open_kernel_side(d, why);
    if (rc < 0) {
        door_free(&d->k.io);
        return weir__os_error(rc);
    }
    *why = "";
    *out = &d->k.io;
    return 0;
}
