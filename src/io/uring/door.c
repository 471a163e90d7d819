/* The io_uring door: making it, waiting, and pulling completions. */
#include "io/uring/door.h"
#include "base/assert.h"
#include "io/uring/pin.h"
#include "io/uring/uring.h"
#include "os/error.h"
#include "os/sock.h"
#include <errno.h>
#include <poll.h>

static int start(struct weir__io *io) {
    struct weir__uring *d = weir__uring_of(io);
    int rc = weir__uring_ring_enable(&d->ring, ~d->has);
    d->started = rc >= 0;
    if (rc < 0)
        return weir__os_error(rc);
    (void)weir__uring_refill(d); /* without memory now, receives end like those without later */
    return 0;
}

static bool can_yield(const struct weir__uring *d) {
    return !weir__base_fifo_empty(&d->k.done) || !weir__base_list_empty(&d->ready) ||
           weir__uring_ring_peek(&d->ring);
}

/* Nothing completes any more: what waits for its completion ends here, and everything else when it
 * is closed, which no longer needs the kernel. */
static void give_up(void *object, void *user) {
    struct weir__uring *d = user;
    struct weir__uring_sock *s = object;
    unsigned waits = s->k.busy & WEIR__KERNEL_CLOSED || s->k.door & WEIR__URING_STOP
                         ? (s->kernel | s->todo) & weir__kernel_armed(&s->k)
                         : 0;
    if (s->pins && s->pins->used &&
        s->k.fd >= 0) { /* the kernel still has its bytes: not for long */
        s->k.flags |= WEIR__KERNEL_RESET;
        weir__kernel_close_fd(&s->k);
    }
    s->kernel = s->cancel = s->todo = 0;
    weir__uring_pin_forget(d, s);
    for (; waits; waits &= waits - 1)
        weir__uring_end(d, s, waits & -waits, WEIR_ECANCELLED);
    weir__uring_settle(d, s);
}

static int broken(struct weir__uring *d, int rc) {
    d->broken = true;
    weir__uring_ring_fini(&d->ring);
    weir__io_slots_each(d->k.io.slots, give_up, d);
    return weir__os_error(rc);
}

static void publish(struct weir__uring *d) {
    struct weir__io_stats *s = &d->k.io.stats;
    atomic_store_explicit(&s->enters, d->ring.enters, memory_order_relaxed);
    atomic_store_explicit(&s->overflows, d->ring.overflows, memory_order_relaxed);
}

/* Only a kernel that takes buffers when it is entered, and not before, lets some be taken back. */
static void before_sleep(struct weir__uring *d) {
    weir__io_count(&d->k.io.stats.sleeps, 1);
    if (!(d->has & WEIR__URING_DEFER))
        return;
    d->k.io.receiving = NULL;
    weir__uring_buffers_sleep(&d->buffers);
}

/* One system call for what is to be submitted and for the sleep. */
static int wait(struct weir__io *io, uint64_t until_ns) {
    struct weir__uring *d = weir__uring_of(io);
    weir__io_count(&io->stats.waits, 1);
    int rc = weir__uring_fill(d);
    if (unlikely(rc < 0 && rc != -EINTR))
        return broken(d, rc);
    /* What did not get into the ring, the bell's poll before all, would not end a sleep. */
    bool look = until_ns == 0 || !weir__base_list_empty(&d->work) || !d->bell_armed || can_yield(d);
    int64_t ns = look ? 0 : weir__kernel_timeout(until_ns);
    if (ns == 0 && !d->brought && !weir__uring_ring_stirs(&d->ring))
        return 0;
    if (ns != 0)
        before_sleep(d);
    rc = weir__uring_enter(d, ns);
    publish(d);
    if (unlikely(rc < 0 && rc != -ETIME && rc != -EINTR))
        return broken(d, rc);
    return ns != 0;
}

static void submit(struct weir__io *io) {
    struct weir__uring *d = weir__uring_of(io);
    if (likely(weir__base_list_empty(&d->work) && !weir__uring_ring_unsubmitted(&d->ring)))
        return;
    if (weir__uring_fill(d) >= 0)
        weir__uring_enter(d, 0); /* an error is for the next wait */
}

static bool yield(struct weir__uring *d, struct weir__io_done *out) {
    struct weir__uring_sock *s = weir__uring_sock_of(&weir__kernel_yield(&d->k, out)->base);
    if (out->kind == WEIR__IO_SENT) {
        weir__uring_pin_sent(s, out);
        weir__uring_send_clear(s);
        if (unlikely(s->pins))
            weir__uring_settle(d, s);
    } else if (out->kind == WEIR__IO_UNPINNED) {
        weir__uring_pin_freed(d, s, out);
        weir__uring_settle(d, s);
    } else if (out->kind == WEIR__IO_CLOSED) {
        weir__uring_forget(d, s);
    }
    return true;
}

static void watched(struct weir__uring *d, struct weir__uring_sock *s, int res) {
    bool dead = res < 0 || res & (POLLERR | POLLHUP | POLLNVAL);
    s->k.sent = (dead || res & POLLIN ? WEIR__IO_WATCH_READ : 0) |
                (dead || res & POLLOUT ? WEIR__IO_WATCH_WRITE : 0);
    if (weir__uring_armed(s, WEIR__IO_WATCH))
        weir__uring_end(d, s, WEIR__IO_WATCH, res < 0 ? weir__os_error(res) : 0);
}

/* Newer kernels show HUP on a socket that is still connecting; only OUT and ERR say that it is
 * over. */
static void connected(struct weir__uring *d, struct weir__uring_sock *s, int res) {
    if (!weir__uring_armed(s, WEIR__IO_CONNECT))
        return;
    if (res >= 0 && !(res & (POLLOUT | POLLERR)))
        weir__uring_todo(d, s, WEIR__IO_CONNECT);
    else
        weir__uring_end(d, s, WEIR__IO_CONNECT,
                        weir__os_error(res < 0 ? res : weir__os_sock_error(s->k.fd)));
}

/* Of the socket itself: 0 a cancel, whose target tells how it went. */
static WEIR_NOINLINE bool no_socket(struct weir__uring *d, const struct uring_cqe *e) {
    if (e->user_data == WEIR__URING_BELL) {
        d->bell_armed = e->flags & CQE_MORE;
        return false;
    }
    if (e->res > 0 && e->flags & CQE_BUFFER) { /* the offsets behind it count */
        struct weir_slice lost = weir__uring_buffers_take(&d->buffers, e->flags, (size_t)e->res);
        weir_slice_release(&lost);
    }
    weir__io_count(&d->k.io.stats.stale, e->user_data != 0);
    return false;
}

static bool complete(struct weir__uring *d, const struct uring_cqe *e, struct weir__io_done *out) {
    unsigned op = weir__io_token_kind(e->user_data);
    struct weir__uring_sock *s = op == WEIR__URING_BELL_KIND || op == 0
                                     ? NULL
                                     : weir__io_token_get(e->user_data);
    bool got = false;
    if (unlikely(!s))
        return no_socket(d, e);
    bool numbered = op >= WEIR__URING_ZC_KIND;
    if (unlikely(numbered)) {
        op = WEIR__IO_SEND;
        if (!weir__uring_pin_completed(d, s, e)) {
            weir__uring_settle(d, s);
            return false;
        }
    }
    if (numbered || !(e->flags & CQE_MORE)) {
        s->kernel &= (uint8_t)~op;
        s->cancel &= (uint8_t)~op;
    }
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

static bool unpark(struct weir__uring *d, struct weir__io_done *out) {
    struct weir__base_link *l = weir__base_list_pop_front(&d->ready);
    struct weir__uring_sock *s = container_of(l, struct weir__uring_sock, ready);
    return s->k.flags & WEIR__KERNEL_LISTENER ? weir__uring_accept_more(d, s, out)
                                              : weir__uring_unpark(d, s, out);
}

static bool next(struct weir__io *io, struct weir__io_done *out) {
    struct weir__uring *d = weir__uring_of(io);
    for (;;) {
        if (unlikely(!weir__base_fifo_empty(&d->k.done)))
            return yield(d, out);
        if (unlikely(!weir__base_list_empty(&d->ready))) {
            if (unpark(d, out))
                return true;
            continue;
        }
        const struct uring_cqe *at = weir__uring_ring_peek(&d->ring);
        if (!at)
            return false;
        struct uring_cqe e = *at;
        weir__uring_ring_pop(&d->ring);
        weir__io_count(&io->stats.events, 1);
        if (likely(complete(d, &e, out)))
            return true;
    }
}

static int set_crypto(struct weir__io *io, struct weir__io_sock *ws,
                      const struct weir__io_crypto *keys) {
    struct weir__uring_sock *s = weir__uring_sock_of(ws);
    int rc = weir__kernel_refused(&s->k, keys->tx ? WEIR__IO_SEND : WEIR__IO_RECV,
                                  keys->tx ? WEIR__KERNEL_NO_SEND : WEIR__KERNEL_NO_STREAM);
    if (rc == 0 && !keys->tx && (s->kernel & WEIR__IO_RECV || s->parked.bytes))
        return WEIR_EBUG; /* what a cancelled receive may still bring is no record */
    return weir__kernel_set_crypto(io, ws, keys);
}

static int64_t parked(struct weir__io *io, struct weir__io_sock *ws) {
    (void)io;
    const struct weir__uring_sock *s = weir__uring_sock_of(ws);
    int rc = weir__kernel_refused(&s->k, 0, 0);
    if (rc < 0)
        return rc;
    if (s->k.flags & WEIR__KERNEL_LISTENER)
        return s->strays ? s->strays->n : 0;
    return s->k.flags & WEIR__KERNEL_DGRAM ? s->k.inbox->n - s->k.inbox->at
                                           : (int64_t)s->parked.bytes;
}

/* What is left when the door broke: nobody can pull these sockets' terminals any more. The ring is
 * gone before their memory is. */
static void abandon(struct weir__uring *d) {
    struct weir__uring_sock *s;
    while ((s = weir__io_slots_any(d->k.io.slots))) {
        must(d->broken || !d->started);
        if (s->k.fd >= 0 && !(s->k.flags & WEIR__KERNEL_FOREIGN))
            weir__os_close(s->k.fd);
        weir__uring_forget(d, s);
    }
}

static void door_free(struct weir__io *io) {
    struct weir__uring *d = weir__uring_of(io);
    weir__uring_ring_fini(&d->ring);
    abandon(d);
    weir__uring_buffers_fini(&d->buffers);
    weir__kernel_fini(&d->k);
    weir_mem_free(d);
}

static const struct weir__io_ops uring_ops = {
    .name = "uring",
    .free = door_free,
    .listen = weir__uring_listen,
    .attach = weir__uring_attach,
    .connect = weir__uring_connect,
    .drop = weir__kernel_drop,
    .accept_arm = weir__uring_accept_arm,
    .recv_arm = weir__uring_recv_arm,
    .send = weir__uring_send,
    .send_zc = weir__uring_send_zc,
    .send_file = weir__uring_send_file,
    .recv_dgram_arm = weir__uring_recv_dgram_arm,
    .send_dgram = weir__uring_send_dgram,
    .send_fds = weir__uring_send_fds,
    .recv_fds = weir__uring_recv_fds,
    .watch = weir__uring_watch,
    .cancel = weir__uring_cancel,
    .close = weir__uring_close,
    .shutdown = weir__kernel_shutdown,
    .set_crypto = set_crypto,
    .local = weir__kernel_local,
    .peer = weir__kernel_peer,
    .unsent = weir__kernel_unsent,
    .parked = parked,
    .handle = weir__kernel_handle,
    .queued = weir__kernel_queued,
    .start = start,
    .wait = wait,
    .next = next,
    .submit = submit,
    .wake = weir__kernel_wake,
    .now = weir__kernel_now,
    .entropy = weir__kernel_entropy,
};

static int open_kernel_side(struct weir__uring *d, unsigned without, const char **why) {
    int rc = weir__uring_probe(without, &d->has, why);
    if (rc < 0)
        return rc;
    rc = weir__uring_ring_init(&d->ring, without, why);
    if (rc >= 0)
        rc = weir__uring_buffers_init(&d->buffers, &d->ring, d->has & WEIR__URING_INC_BUFFERS, why);
    if (rc >= 0)
        rc = weir__kernel_init(&d->k, why);
    if (rc >= 0)
        return 0;
    return rc == -EMFILE || rc == -ENFILE ? WEIR_EFDS : WEIR_ENOTSUP;
}

int weir__uring_new(const struct weir__io_config *c, struct weir__io **out, const char **why) {
    const char *unused;
    if (!why)
        why = &unused;
    *why = "no memory for the door";
    struct weir__uring *d = weir_mem_new(c->mem, sizeof *d);
    if (!d)
        return WEIR_ENOMEM;
    d->k.io = (struct weir__io){.ops = &uring_ops, .mem = c->mem, .slots = c->slots, .rings = true};
    d->k.bell = -1;
    weir__base_list_init(&d->ready);
    weir__base_list_init(&d->work);
    d->ring.fd = -1;
    int rc = open_kernel_side(d, c->uring_without, why);
    if (rc < 0) {
        door_free(&d->k.io);
        return rc;
    }
    d->k.io.sends_inline = d->has & WEIR__URING_SYNC_SEND && !c->defer;
    *why = "";
    *out = &d->k.io;
    return 0;
}
