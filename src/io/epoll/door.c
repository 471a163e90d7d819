/* The epoll door: making it, waiting, and pulling completions. */
#include "io/epoll/epoll.h"
#include "io/epoll/door.h"
#include "base/assert.h"
#include "base/rng.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "os/epoll.h"
#include "os/error.h"
#include "os/event.h"
#include "os/listener.h"
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
    weir__io_count(&d->io.stats.waits, 1);
    weir__io_count(&d->io.stats.events, (uint64_t)d->n);
    return n;
}

static int broken(struct weir__epoll *d, int rc) {
    d->broken = true;
    return weir__os_error(rc);
}

static int64_t timeout(uint64_t until_ns) {
    if (until_ns == UINT64_MAX)
        return -1;
    uint64_t now = weir__os_clock_mono();
    return until_ns > now ? (int64_t)(until_ns - now) : 0;
}

/* One system call, whether there is something or not: a look before the sleep would tell the two
 * apart, and cost every quiet turn a second call. */
static int wait(struct weir__io *io, uint64_t until_ns) {
    struct weir__epoll *d = weir__epoll_of(io);
    d->goes = WEIR__EPOLL_AGAIN;
    if (unlikely(d->at < d->n))
        return 0;
    bool pending = !weir__base_fifo_empty(&d->done) || !weir__base_list_empty(&d->again);
    int64_t ns = pending || until_ns == 0 ? 0 : timeout(until_ns);
    int n = poll_events(d, ns);
    if (unlikely(n < 0))
        return broken(d, n);
    weir__io_count(&d->io.stats.sleeps, ns != 0);
    return ns != 0;
}

/* The first ended op of the first socket with one. */
static bool yield(struct weir__epoll *d, struct weir__io_done *out) {
    struct weir__epoll_sock *s = container_of(d->done.first, struct weir__epoll_sock, done);
    unsigned op = s->ended & -(unsigned)s->ended;
    s->ended &= (uint8_t)~op;
    s->busy &= (uint8_t)~op;
    if (!s->ended)
        weir__base_fifo_pop(&d->done);
    *out = (struct weir__io_done){
        .user = s->base.user, .code = s->code, .last = true, .handle = -1};
    switch (op) {
    case WEIR__IO_ACCEPT: out->kind = WEIR__IO_ACCEPTED; break;
    case WEIR__IO_CONNECT: out->kind = WEIR__IO_CONNECTED; break;
    case WEIR__IO_RECV:
        out->kind = s->flags & WEIR__EPOLL_DGRAM ? WEIR__IO_DGRAM : WEIR__IO_RECEIVED;
        out->code = s->recv_code;
        if (s->flags & WEIR__EPOLL_FDS_IN) {
            out->kind = WEIR__IO_FDS;
            out->count = out->code ? 0 : s->fds_in->n;
            s->flags &= (uint16_t)~WEIR__EPOLL_FDS_IN;
        }
        break;
    case WEIR__IO_SEND:
        out->kind = WEIR__IO_SENT;
        out->code = s->send_code;
        out->count = s->sent;
        weir__epoll_send_clear(s);
        break;
    case WEIR__IO_WATCH:
        out->kind = WEIR__IO_WATCHED;
        out->handle = (intptr_t)s->sent;
        break;
    default:
        out->kind = WEIR__IO_CLOSED;
        out->code = 0;
        weir__epoll_forget(d, s);
        break;
    }
    return true;
}

/* Newer kernels show HUP on a socket that is still connecting; only OUT and ERR say that it is
 * over. */
static void connect_event(struct weir__epoll *d, struct weir__epoll_sock *s, uint32_t bits) {
    if (bits & (EPOLLOUT | EPOLLERR))
        weir__epoll_end(d, s, WEIR__IO_CONNECT, weir__os_error(weir__os_sock_error(s->fd)));
}

static void watch_event(struct weir__epoll *d, struct weir__epoll_sock *s, uint32_t bits) {
    bool dead = bits & (EPOLLERR | EPOLLHUP);
    s->sent = (dead || bits & EPOLLIN ? WEIR__IO_WATCH_READ : 0) |
              (dead || bits & EPOLLOUT ? WEIR__IO_WATCH_WRITE : 0);
    weir__epoll_end(d, s, WEIR__IO_WATCH, 0);
    weir__epoll_narrow(d, s, true);
}

static bool listener_event(struct weir__epoll *d, struct weir__epoll_sock *s,
                           struct weir__io_done *out) {
    bool drained = true, got = false;
    if (weir__epoll_armed(s) & WEIR__IO_ACCEPT)
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
    unsigned armed = weir__epoll_armed(s);
    bool dead = bits & (EPOLLERR | EPOLLHUP);
    if (s->flags & WEIR__EPOLL_LISTENER)
        return listener_event(d, s, out);
    if (bits & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        s->flags |= WEIR__EPOLL_ENDING;
    if (s->flags & WEIR__EPOLL_EDGE && bits & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        s->flags |= WEIR__EPOLL_READABLE;
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
    weir__io_count(&d->io.stats.stale, ev->data.u64 != 0);
    return false;
}

/* The next socket that wants another go; a socket with both halves to do queues once more. */
static bool second_go(struct weir__epoll *d, struct weir__io_done *out) {
    struct weir__base_link *l = weir__base_list_pop_front(&d->again);
    struct weir__epoll_sock *s = container_of(l, struct weir__epoll_sock, again);
    unsigned armed = weir__epoll_armed(s);
    d->goes--;
    if (armed & WEIR__IO_SEND && s->flags & WEIR__EPOLL_GO_ON) {
        weir__epoll_send_on(d, s);
        if (armed & WEIR__IO_RECV)
            weir__epoll_again(d, s);
        return false;
    }
    return armed & WEIR__IO_RECV && weir__epoll_receive(d, s, out);
}

bool weir__epoll_next_slow(struct weir__epoll *d, struct weir__io_done *out) {
    for (;;) {
        if (!weir__base_fifo_empty(&d->done))
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

static void wake(struct weir__io *io) {
    weir__os_event_signal(weir__epoll_of(io)->bell);
}

static uint64_t now(struct weir__io *io) {
    (void)io;
    return weir__os_clock_mono();
}

static uint64_t entropy(struct weir__io *io) {
    struct weir__epoll *d = weir__epoll_of(io);
    if (d->n_entropy == 0) {
        d->n_entropy = ARRAY_LEN(d->entropy);
        /* Without the kernel's help the last numbers are stirred: unpredictable still, only not
         * fresh. */
        if (count_if(weir__os_entropy(d->entropy, sizeof d->entropy) < 0))
            for (unsigned i = 0; i < ARRAY_LEN(d->entropy); i++)
                d->entropy[i] = weir__base_splitmix(&d->entropy[i]);
    }
    return d->entropy[--d->n_entropy];
}

static void drop(struct weir__io *io, intptr_t handle) {
    (void)io;
    weir__os_close((int)handle);
}

static int shutdown_write(struct weir__io *io, struct weir__io_sock *ws) {
    (void)io;
    struct weir__epoll_sock *s = weir__epoll_sock_of(ws);
    int rc = weir__epoll_refused(s, WEIR__IO_SEND, WEIR__EPOLL_NO_SEND);
    if (rc < 0)
        return rc;
    s->flags |= WEIR__EPOLL_SHUT;
    rc = weir__os_shutdown_write(s->fd);
    return rc == -ENOTCONN ? WEIR_ERESET : weir__os_error(rc); /* the peer was faster */
}

static int set_crypto(struct weir__io *io, struct weir__io_sock *ws,
                      const struct weir__io_crypto *keys) {
    (void)io;
    struct weir__epoll_sock *s = weir__epoll_sock_of(ws);
    int rc = weir__epoll_refused(s, keys->tx ? WEIR__IO_SEND : WEIR__IO_RECV,
                                 keys->tx ? WEIR__EPOLL_NO_SEND : WEIR__EPOLL_NO_STREAM);
    if (rc < 0)
        return rc;
    rc = weir__os_set_crypto(s->fd, keys->tx, keys->info, keys->bytes);
    if (rc == -EOPNOTSUPP || rc == -EINVAL)
        return rc == -EINVAL ? WEIR_EINVAL : WEIR_ENOTSUP;
    return weir__os_error(rc);
}

static int local(struct weir__io *io, struct weir__io_sock *ws, struct weir_addr *out) {
    (void)io;
    int rc = weir__epoll_refused(weir__epoll_sock_of(ws), 0, 0);
    return rc < 0 ? rc : weir__os_error(weir__os_local(weir__epoll_sock_of(ws)->fd, out));
}

static int peer(struct weir__io *io, struct weir__io_sock *ws, struct weir_addr *out) {
    (void)io;
    int rc = weir__epoll_refused(weir__epoll_sock_of(ws), 0, WEIR__EPOLL_APART);
    return rc < 0 ? rc : weir__os_error(weir__os_peer(weir__epoll_sock_of(ws)->fd, out));
}

static int64_t unsent(struct weir__io *io, struct weir__io_sock *ws) {
    (void)io;
    uint32_t bytes = 0;
    int rc = weir__epoll_refused(weir__epoll_sock_of(ws), 0, WEIR__EPOLL_APART);
    if (rc == 0)
        rc = weir__os_error(weir__os_unsent(weir__epoll_sock_of(ws)->fd, &bytes));
    return rc < 0 ? rc : (int64_t)bytes;
}

static int64_t parked(struct weir__io *io, struct weir__io_sock *ws) {
    (void)io;
    const struct weir__epoll_sock *s = weir__epoll_sock_of(ws);
    int rc = weir__epoll_refused(s, 0, 0);
    if (rc < 0 || !(s->flags & WEIR__EPOLL_DGRAM))
        return rc; /* what nobody asked for is still in the kernel */
    return s->inbox->n - s->inbox->at;
}

static intptr_t handle(struct weir__io *io, struct weir__io_sock *ws) {
    (void)io;
    int rc = weir__epoll_refused(weir__epoll_sock_of(ws), 0, 0);
    return rc < 0 ? rc : weir__epoll_sock_of(ws)->fd;
}

static int queued(struct weir__io *io, struct weir__io_sock *ws) {
    (void)io;
    struct weir__epoll_sock *s = weir__epoll_sock_of(ws);
    return s->fd >= 0 && s->flags & WEIR__EPOLL_LISTENER ? weir__os_listener_queued(s->fd) : 0;
}

/* What is left when the door broke: nobody can pull these sockets' terminals any more. */
static void abandon(struct weir__epoll *d) {
    struct weir__epoll_sock *s;
    while ((s = weir__io_slots_any(d->io.slots))) {
        must(d->broken);
        if (s->fd >= 0 && !(s->flags & WEIR__EPOLL_FOREIGN))
            weir__os_close(s->fd);
        weir__epoll_send_clear(s);
        weir__epoll_forget(d, s);
    }
}

static void door_free(struct weir__io *io) {
    struct weir__epoll *d = weir__epoll_of(io);
    abandon(d);
    weir_slice_release(&d->hot);
    if (d->bell >= 0)
        weir__os_close(d->bell);
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
    .drop = drop,
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
    .shutdown = shutdown_write,
    .set_crypto = set_crypto,
    .local = local,
    .peer = peer,
    .unsent = unsent,
    .parked = parked,
    .handle = handle,
    .queued = queued,
    .start = start,
    .wait = wait,
    .next = weir__epoll_next,
    .wake = wake,
    .now = now,
    .entropy = entropy,
};

static int open_kernel_side(struct weir__epoll *d, const char **why) {
    *why = "epoll_create1 failed";
    d->ep = weir__os_epoll_new();
    if (d->ep < 0)
        return d->ep;
    *why = "eventfd failed";
    d->bell = weir__os_event_new();
    if (d->bell < 0)
        return d->bell;
    *why = "epoll_ctl failed";
    int rc = weir__os_epoll_add(d->ep, d->bell, EPOLLIN | EPOLLET, 0);
    if (rc < 0)
        return rc;
    *why = "getrandom failed";
    d->n_entropy = ARRAY_LEN(d->entropy);
    return weir__os_entropy(d->entropy, sizeof d->entropy);
}

int weir__epoll_new(const struct weir__io_config *c, struct weir__io **out, const char **why) {
    const char *unused;
    if (!why)
        why = &unused;
    *why = "no memory for the door";
    struct weir__epoll *d = weir_mem_new(c->mem, sizeof *d);
    if (!d)
        return WEIR_ENOMEM;
    d->io = (struct weir__io){
        .ops = &epoll_ops, .mem = c->mem, .slots = c->slots, .sends_inline = !c->defer};
    d->edge = c->edge;
    d->defer = c->defer;
    d->heeded = c->edge ? ~(uint32_t)EPOLLOUT : ~(uint32_t)0;
    d->ep = d->bell = -1;
    weir__base_list_init(&d->again);
    int rc = open_kernel_side(d, why);
    if (rc < 0) {
        door_free(&d->io);
        return weir__os_error(rc);
    }
    *why = "";
    *out = &d->io;
    return 0;
}
