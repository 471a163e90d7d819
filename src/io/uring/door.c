/* The io_uring door: making it, waiting, and pulling completions. */
#include "io/uring/uring.h"
#include "io/uring/door.h"
#include "base/assert.h"
#include "base/rng.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "os/error.h"
#include "os/event.h"
#include "os/listener.h"
#include "os/sock.h"
#include <errno.h>
#include <poll.h>

static int start(struct weir__io *io) {
    struct weir__uring *d = weir__uring_of(io);
    int rc = weir__uring_ring_enable(&d->ring);
    d->started = rc >= 0;
    if (rc < 0)
        return weir__os_error(rc);
    return weir__uring_ring_refill(&d->ring, d->io.mem) ? 0 : WEIR_ENOMEM;
}

static bool can_yield(const struct weir__uring *d) {
    return !weir__base_fifo_empty(&d->done) || !weir__base_list_empty(&d->ready) ||
           weir__uring_ring_peek(&d->ring);
}

/* Nothing completes any more: what waits for its completion ends here, and everything else when it
 * is closed, which no longer needs the kernel. */
static void give_up(struct weir__uring *d, struct weir__uring_sock *s) {
    unsigned waits = s->busy & WEIR__URING_CLOSED || s->flags & WEIR__URING_STOP
                         ? s->kernel & weir__uring_armed(s)
                         : 0;
    s->kernel = s->cancel = s->todo = 0;
    for (; waits; waits &= waits - 1)
        weir__uring_end(d, s, waits & -waits, WEIR_ECANCELLED);
    weir__uring_settle(d, s);
}

static int broken(struct weir__uring *d, int rc) {
    d->broken = true;
    weir__uring_ring_fini(&d->ring);
    weir__base_list_each(l, &d->all) give_up(d, container_of(l, struct weir__uring_sock, all));
    return weir__os_error(rc);
}

static int64_t timeout(uint64_t until_ns) {
    if (until_ns == UINT64_MAX)
        return -1;
    uint64_t now = weir__os_clock_mono();
    return until_ns > now ? (int64_t)(until_ns - now) : 0;
}

static int wait(struct weir__io *io, uint64_t until_ns) {
    struct weir__uring *d = weir__uring_of(io);
    weir__io_count(&d->io.stats.waits, 1);
    int rc = weir__uring_flush(d);
    if (rc < 0 && rc != -EINTR)
        return broken(d, rc);
    /* What did not get into the ring, the bell's poll before all, would not end a sleep. */
    if (until_ns == 0 || !weir__base_list_empty(&d->work) || !d->bell_armed || can_yield(d))
        return 0;
    int64_t ns = timeout(until_ns);
    if (ns == 0)
        return 0;
    weir__io_count(&d->io.stats.sleeps, 1);
    rc = weir__uring_ring_enter(&d->ring, ns);
    return rc < 0 && rc != -ETIME && rc != -EINTR ? broken(d, rc) : 1;
}

static void submit(struct weir__io *io) {
    struct weir__uring *d = weir__uring_of(io);
    if (!weir__base_list_empty(&d->work) || weir__uring_ring_unsubmitted(&d->ring))
        weir__uring_flush(d); /* an error shows again at the next wait */
}

static bool yield(struct weir__uring *d, struct weir__io_done *out) {
    struct weir__uring_sock *s = container_of(d->done.first, struct weir__uring_sock, done);
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
        out->kind = s->flags & WEIR__URING_DGRAM ? WEIR__IO_DGRAM : WEIR__IO_RECEIVED;
        out->code = s->recv_code;
        if (s->flags & WEIR__URING_FDS_IN) {
            out->kind = WEIR__IO_FDS;
            out->count = out->code ? 0 : s->fds_in->n;
            s->flags &= (uint16_t)~WEIR__URING_FDS_IN;
        }
        if (s->over_code) { /* the end became known behind this last */
            s->recv_code = s->over_code;
            s->over_code = 0;
        }
        break;
    case WEIR__IO_SEND:
        out->kind = WEIR__IO_SENT;
        out->code = s->send_code;
        out->count = s->sent;
        weir__uring_send_clear(s);
        break;
    case WEIR__IO_WATCH:
        out->kind = WEIR__IO_WATCHED;
        out->handle = (intptr_t)s->sent;
        break;
    default:
        out->kind = WEIR__IO_CLOSED;
        out->code = 0;
        weir__uring_forget(d, s);
        break;
    }
    return true;
}

static void watched(struct weir__uring *d, struct weir__uring_sock *s, int res) {
    bool dead = res < 0 || res & (POLLERR | POLLHUP | POLLNVAL);
    s->sent = (dead || res & POLLIN ? WEIR__IO_WATCH_READ : 0) |
              (dead || res & POLLOUT ? WEIR__IO_WATCH_WRITE : 0);
    if (weir__uring_armed(s) & WEIR__IO_WATCH)
        weir__uring_end(d, s, WEIR__IO_WATCH, res < 0 ? weir__os_error(res) : 0);
}

/* A poll that failed says nothing about the connection. */
static void connected(struct weir__uring *d, struct weir__uring_sock *s, int res) {
    if (weir__uring_armed(s) & WEIR__IO_CONNECT)
        weir__uring_end(d, s, WEIR__IO_CONNECT,
                        weir__os_error(res < 0 ? res : weir__os_sock_error(s->fd)));
}

static bool complete(struct weir__uring *d, const struct uring_cqe *e, struct weir__io_done *out) {
    bool got = false;
    if (e->user_data == WEIR__URING_BELL) {
        d->bell_armed = false;
        weir__os_event_drain(d->bell);
        return false;
    }
    if (e->user_data == 0) /* a cancel; its target tells how it went */
        return false;
    struct weir__uring_sock *s = weir__io_token_get(e->user_data);
    if (count_if(!s)) {
        weir__io_count(&d->io.stats.stale, 1);
        return false;
    }
    unsigned op = weir__io_token_kind(e->user_data);
    s->kernel &= (uint8_t)~op;
    s->cancel &= (uint8_t)~op;
    switch (op) {
    case WEIR__IO_ACCEPT: got = weir__uring_accepted(d, s, e->res, out); break;
    case WEIR__IO_CONNECT: connected(d, s, e->res); break;
    case WEIR__IO_RECV: got = weir__uring_received(d, s, e, out); break;
    case WEIR__IO_SEND: weir__uring_sent(d, s, e->res); break;
    default: watched(d, s, e->res); break;
    }
    weir__uring_settle(d, s);
    return got;
}

static bool next(struct weir__io *io, struct weir__io_done *out) {
    struct weir__uring *d = weir__uring_of(io);
    for (;;) {
        if (!weir__base_fifo_empty(&d->done))
            return yield(d, out);
        struct weir__base_link *l = weir__base_list_pop_front(&d->ready);
        if (l) {
            if (weir__uring_unpark(d, container_of(l, struct weir__uring_sock, ready), out))
                return true;
            continue;
        }
        const struct uring_cqe *at = weir__uring_ring_peek(&d->ring);
        if (!at)
            return false;
        struct uring_cqe e = *at;
        weir__uring_ring_pop(&d->ring);
        weir__io_count(&d->io.stats.events, 1);
        if (complete(d, &e, out))
            return true;
    }
}

static void wake(struct weir__io *io) {
    weir__os_event_signal(weir__uring_of(io)->bell);
}

static uint64_t now(struct weir__io *io) {
    (void)io;
    return weir__os_clock_mono();
}

static uint64_t entropy(struct weir__io *io) {
    uint64_t x;
    if (count_if(weir__os_entropy(&x, sizeof x) < 0)) {
        x = weir__os_clock_mono() ^ (uintptr_t)io;
        x = weir__base_splitmix(&x);
    }
    return x;
}

static void drop(struct weir__io *io, intptr_t handle) {
    (void)io;
    weir__os_close((int)handle);
}

static int shutdown_write(struct weir__io *io, struct weir__io_sock *ws) {
    (void)io;
    struct weir__uring_sock *s = weir__uring_sock_of(ws);
    int rc = weir__uring_refused(s, WEIR__IO_SEND, WEIR__URING_NO_SEND);
    if (rc < 0)
        return rc;
    s->flags |= WEIR__URING_SHUT;
    rc = weir__os_shutdown_write(s->fd);
    return rc == -ENOTCONN ? WEIR_ERESET : weir__os_error(rc); /* the peer was faster */
}

static int set_crypto(struct weir__io *io, struct weir__io_sock *ws,
                      const struct weir__io_crypto *keys) {
    (void)io;
    struct weir__uring_sock *s = weir__uring_sock_of(ws);
    int rc = weir__uring_refused(s, keys->tx ? WEIR__IO_SEND : WEIR__IO_RECV,
                                 keys->tx ? WEIR__URING_NO_SEND : WEIR__URING_NO_STREAM);
    if (rc == 0 && !keys->tx && (s->kernel & WEIR__IO_RECV || s->parked.n))
        rc = WEIR_EBUG; /* what a cancelled receive may still bring is no record */
    if (rc < 0)
        return rc;
    rc = weir__os_set_crypto(s->fd, keys->tx, keys->info, keys->bytes);
    if (rc == -EOPNOTSUPP || rc == -EINVAL)
        return rc == -EINVAL ? WEIR_EINVAL : WEIR_ENOTSUP;
    return weir__os_error(rc);
}

static int local(struct weir__io *io, struct weir__io_sock *ws, struct weir_addr *out) {
    (void)io;
    int rc = weir__uring_refused(weir__uring_sock_of(ws), 0, 0);
    return rc < 0 ? rc : weir__os_error(weir__os_local(weir__uring_sock_of(ws)->fd, out));
}

static int peer(struct weir__io *io, struct weir__io_sock *ws, struct weir_addr *out) {
    (void)io;
    int rc = weir__uring_refused(weir__uring_sock_of(ws), 0, WEIR__URING_APART);
    return rc < 0 ? rc : weir__os_error(weir__os_peer(weir__uring_sock_of(ws)->fd, out));
}

static int64_t unsent(struct weir__io *io, struct weir__io_sock *ws) {
    (void)io;
    uint32_t bytes = 0;
    int rc = weir__uring_refused(weir__uring_sock_of(ws), 0, WEIR__URING_APART);
    if (rc == 0)
        rc = weir__os_error(weir__os_unsent(weir__uring_sock_of(ws)->fd, &bytes));
    return rc < 0 ? rc : (int64_t)bytes;
}

static int64_t parked(struct weir__io *io, struct weir__io_sock *ws) {
    (void)io;
    struct weir__uring_sock *s = weir__uring_sock_of(ws);
    int rc = weir__uring_refused(s, 0, 0);
    if (rc < 0)
        return rc;
    return s->flags & WEIR__URING_DGRAM ? s->inbox->n - s->inbox->at
                                        : (int64_t)s->parked.n + (s->parked_fd >= 0);
}

static intptr_t handle(struct weir__io *io, struct weir__io_sock *ws) {
    (void)io;
    int rc = weir__uring_refused(weir__uring_sock_of(ws), 0, 0);
    return rc < 0 ? rc : weir__uring_sock_of(ws)->fd;
}

static int queued(struct weir__io *io, struct weir__io_sock *ws) {
    (void)io;
    struct weir__uring_sock *s = weir__uring_sock_of(ws);
    return s->fd >= 0 && s->flags & WEIR__URING_LISTENER ? weir__os_listener_queued(s->fd) : 0;
}

/* What is left when the door broke: nobody can pull these sockets' terminals any more. The ring is
 * gone before their memory is. */
static void abandon(struct weir__uring *d) {
    must(d->broken || !d->started || weir__base_list_empty(&d->all));
    weir__base_list_each(l, &d->all) {
        struct weir__uring_sock *s = container_of(l, struct weir__uring_sock, all);
        if (s->fd >= 0 && !(s->flags & WEIR__URING_FOREIGN))
            weir__os_close(s->fd);
        if (s->parked_fd >= 0)
            weir__os_close(s->parked_fd);
        weir_slice_release(&s->parked);
        weir__uring_send_clear(s);
        weir__uring_forget(d, s);
    }
}

static void door_free(struct weir__io *io) {
    struct weir__uring *d = weir__uring_of(io);
    weir__uring_ring_fini(&d->ring);
    abandon(d);
    weir_slice_release(&d->hot);
    if (d->bell >= 0)
        weir__os_close(d->bell);
    weir_mem_free(d);
}

static const struct weir__io_ops uring_ops = {
    .name = "uring",
    .free = door_free,
    .listen = weir__uring_listen,
    .attach = weir__uring_attach,
    .connect = weir__uring_connect,
    .drop = drop,
    .accept_arm = weir__uring_accept_arm,
    .recv_arm = weir__uring_recv_arm,
    .send = weir__uring_send,
    .send_zc = weir__uring_send, /* copies */
    .send_file = weir__uring_send_file,
    .recv_dgram_arm = weir__uring_recv_dgram_arm,
    .send_dgram = weir__uring_send_dgram,
    .send_fds = weir__uring_send_fds,
    .recv_fds = weir__uring_recv_fds,
    .watch = weir__uring_watch,
    .cancel = weir__uring_cancel,
    .close = weir__uring_close,
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
    .next = next,
    .submit = submit,
    .wake = wake,
    .now = now,
    .entropy = entropy,
};

int weir__uring_new(const struct weir__io_config *c, struct weir__io **out, const char **why) {
    const char *unused;
    if (!why)
        why = &unused;
    *why = "no memory for the door";
    struct weir__uring *d = weir_mem_new(c->mem, sizeof *d);
    if (!d)
        return WEIR_ENOMEM;
    d->io = (struct weir__io){.ops = &uring_ops, .mem = c->mem, .slots = c->slots};
    d->bell = -1;
    weir__base_list_init(&d->ready);
    weir__base_list_init(&d->work);
    weir__base_list_init(&d->all);
    int rc = weir__uring_ring_init(&d->ring, why);
    if (rc >= 0) {
        *why = "eventfd failed";
        rc = d->bell = weir__os_event_new();
    }
    if (rc < 0) {
        door_free(&d->io);
        return rc == -EMFILE || rc == -ENFILE ? WEIR_EFDS : WEIR_ENOTSUP;
    }
    *why = "";
    *out = &d->io;
    return 0;
}
