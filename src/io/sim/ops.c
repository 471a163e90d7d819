/* What a loop may ask: every op checks its arguments against the contract, so that a caller's
 * mistake shows here first. */
#include "io/sim/net.h"
#include "base/assert.h"
#include "io/gather.h"

static struct weir__iosim_door *door_of(struct weir__io *io) {
    return container_of(io, struct weir__iosim_door, io);
}

static struct weir__iosim_sock *sock_of(struct weir__io_sock *s) {
    return container_of(s, struct weir__iosim_sock, base);
}

static struct weir__iosim_end *end_of(const struct weir__iosim_sock *s) {
    return s->file ? s->file->end : NULL;
}

static struct weir__iosim_port *port_of(const struct weir__iosim_sock *s) {
    return s->file ? s->file->port : NULL;
}

/* --- opening --------------------------------------------------------------------------------- */

/* A handle and a socket for a fresh file; on failure the file is closed. */
static int open_file(struct weir__iosim_door *d, struct weir__iosim_file *f, void *user,
                     struct weir__iosim_sock **out) {
    intptr_t handle = weir__iosim_handle_new(d->net, f);
    int rc = weir__iosim_sock_new(d, f, handle, user, out);
    if (rc < 0)
        weir__iosim_handle_close(d->net, handle, false);
    return rc;
}

static int sim_listen(struct weir__io *io, const struct weir__io_listen *o, void *user,
                      struct weir__io_sock **out) {
    struct weir__iosim_door *d = door_of(io);
    struct weir__iosim_sock *s;
    int rc;
    if (o->steer)
        return WEIR_ENOTSUP; /* there are no CPUs */
    if (o->handle >= 0) {
        struct weir__iosim_file *f = weir__iosim_handle_file(d->net, o->handle);
        if (!f || !f->port || f->port->datagram != o->datagram)
            return WEIR_EINVAL;
        rc = weir__iosim_sock_new(d, f, o->handle, user, &s);
    } else {
        struct weir__iosim_port *p;
        if (weir__iosim_handles_full(d->net))
            return WEIR_EFDS;
        rc = weir__iosim_port_new(d->net, o, &p);
        if (rc < 0)
            return rc;
        rc = open_file(d, weir__iosim_file_new(d->net, NULL, p), user, &s);
    }
    if (rc == 0)
        *out = &s->base;
    return rc;
}

static int sim_attach(struct weir__io *io, intptr_t handle, void *user,
                      struct weir__io_sock **out) {
    struct weir__iosim_door *d = door_of(io);
    struct weir__iosim_file *f = weir__iosim_handle_file(d->net, handle);
    struct weir__iosim_sock *s;
    if (!f || !f->end || f->end->owner)
        return WEIR_EINVAL;
    int rc = weir__iosim_sock_new(d, f, handle, user, &s);
    if (rc == 0)
        *out = &s->base;
    return rc;
}

static int sim_connect(struct weir__io *io, const struct weir__io_connect *o, void *user,
                       struct weir__io_sock **out) {
    struct weir__iosim_door *d = door_of(io);
    struct weir__iosim_sock *s;
    if (o->addr.kind == WEIR__ADDR_NONE)
        return WEIR_EINVAL;
    if (weir__iosim_handles_full(d->net))
        return WEIR_EFDS;
    struct weir__iosim_stream *st = weir__iosim_stream_new(d->net);
    weir__iosim_connect(st, &o->addr);
    int rc = open_file(d, weir__iosim_file_new(d->net, &st->end[0], NULL), user, &s);
    if (rc < 0)
        return rc;
    must(weir__iosim_sock_arm(s, WEIR__IOSIM_OP_CONNECT) == 0);
    *out = &s->base;
    return 0;
}

static void sim_drop(struct weir__io *io, intptr_t handle) {
    weir__iosim_handle_close(door_of(io)->net, handle, false);
}

/* --- submitting ------------------------------------------------------------------------------ */

static int sim_accept_arm(struct weir__io *io, struct weir__io_sock *sock, int64_t credit) {
    struct weir__iosim_sock *s = sock_of(sock);
    (void)io;
    if (s->closing)
        return WEIR_EGONE;
    struct weir__iosim_port *p = port_of(s);
    if (!p || p->datagram || credit == 0)
        return WEIR_EBUG;
    int rc = weir__iosim_sock_arm(s, WEIR__IOSIM_OP_ACCEPT);
    if (rc < 0)
        return rc;
    s->accept_credit = credit;
    weir__iosim_sock_hold(s);
    return 0;
}

static int sim_recv_arm(struct weir__io *io, struct weir__io_sock *sock, int64_t credit) {
    struct weir__iosim_sock *s = sock_of(sock);
    (void)io;
    if (s->closing)
        return WEIR_EGONE;
    if (!end_of(s) || !s->connected || credit == 0)
        return WEIR_EBUG;
    int rc = weir__iosim_sock_arm(s, WEIR__IOSIM_OP_RECV);
    if (rc < 0)
        return rc;
    s->recv_credit = credit;
    s->plain = true;
    weir__iosim_sock_hold(s);
    return 0;
}

static bool chain_fits(const struct weir_chain *c) {
    unsigned n = 0;
    for (const struct weir_part *p = c->first; p; p = p->next) {
        if (!p->slice.p || ++n > WEIR__IO_SEND_SLICES_MAX)
            return false;
    }
    return c->bytes > 0 && c->bytes <= WEIR__IO_SEND_BYTES_MAX;
}

static int start_send(struct weir__iosim_sock *s, uint64_t bytes) {
    int rc = weir__iosim_sock_arm(s, WEIR__IOSIM_OP_SEND);
    if (rc < 0)
        return rc;
    s->send_bytes = bytes;
    s->sent_bytes = 0;
    s->send = NULL;
    s->send_file = NULL;
    s->send_fds = NULL;
    s->may_pin = false;
    weir__io_count(&s->door->io.stats.sends, 1);
    return 0;
}

static int may_send(const struct weir__iosim_sock *s) {
    if (s->closing)
        return WEIR_EGONE;
    if (!end_of(s) || !s->connected || s->shut || s->armed & WEIR__IO_SEND)
        return WEIR_EBUG;
    return s->send_failed ? WEIR_ERESET : 0;
}

static void go(struct weir__iosim_sock *s) {
    weir__iosim_sock_push(s);
    if (weir__iosim_sock_live(s, WEIR__IOSIM_OP_SEND))
        weir__io_count(&s->door->io.stats.partial_sends, 1);
}

static int sim_send(struct weir__io *io, struct weir__io_sock *sock, const struct weir_chain *c) {
    struct weir__iosim_sock *s = sock_of(sock);
    (void)io;
    int rc = may_send(s);
    if (rc == 0 && !chain_fits(c))
        rc = WEIR_EBUG;
    if (rc == 0)
        rc = start_send(s, c->bytes);
    if (rc < 0)
        return rc;
    s->send = c;
    go(s);
    return 0;
}

static int sim_send_zc(struct weir__io *io, struct weir__io_sock *sock,
                       const struct weir_chain *c) {
    struct weir__iosim_sock *s = sock_of(sock);
    int rc = sim_send(io, sock, c);
    if (rc < 0)
        return rc;
    s->may_pin = true;
    s->zc_number++;
    s->zc_hash = weir__iosim_chain_hash(c);
    return 0;
}

static int sim_send_file(struct weir__io *io, struct weir__io_sock *sock, struct weir_file *f,
                         uint64_t off, uint64_t n) {
    struct weir__iosim_sock *s = sock_of(sock);
    (void)io;
    int rc = may_send(s);
    if (rc == 0 && n == 0)
        rc = WEIR_EBUG;
    if (rc == 0)
        rc = start_send(s, n);
    if (rc < 0)
        return rc;
    s->send_file = f;
    s->send_off = off;
    go(s);
    return 0;
}

static int sim_recv_dgram_arm(struct weir__io *io, struct weir__io_sock *sock, size_t bytes_max) {
    struct weir__iosim_sock *s = sock_of(sock);
    (void)io;
    if (s->closing)
        return WEIR_EGONE;
    if (!s->datagram || bytes_max > WEIR__IO_RECV_BYTES)
        return WEIR_EBUG;
    int rc = weir__iosim_sock_arm(s, WEIR__IOSIM_OP_RECV);
    if (rc < 0)
        return rc;
    s->dgram_bytes_max = bytes_max ? bytes_max : WEIR__IO_RECV_BYTES;
    weir__iosim_sock_hold(s);
    return 0;
}

static int sim_send_dgram(struct weir__io *io, struct weir__io_sock *sock,
                          const struct weir__io_message *m, unsigned n) {
    struct weir__iosim_sock *s = sock_of(sock);
    (void)io;
    if (s->closing)
        return WEIR_EGONE;
    if (!s->datagram || !weir__io_messages_fit(m, n, port_of(s)->addr.kind != WEIR__ADDR_UNIX))
        return WEIR_EBUG;
    int rc = start_send(s, n);
    if (rc == 0)
        weir__iosim_sock_end_later(s, WEIR__IOSIM_OP_SEND, weir__iosim_dgrams_out(s, m, n));
    return rc;
}

static bool is_unix_stream(const struct weir__iosim_sock *s) {
    const struct weir__iosim_end *e = end_of(s);
    return e && s->connected && e->local.kind == WEIR__ADDR_UNIX;
}

static int sim_send_fds(struct weir__io *io, struct weir__io_sock *sock,
                        const struct weir__io_fds *m) {
    struct weir__iosim_sock *s = sock_of(sock);
    (void)io;
    int rc = may_send(s);
    if (rc == 0 && (!is_unix_stream(s) || !weir__io_fds_fit(m)))
        rc = WEIR_EBUG;
    for (unsigned i = 0; rc == 0 && i < m->n_handles; i++)
        if (!weir__iosim_handle_file(s->door->net, m->handles[i]))
            rc = WEIR_EBUG;
    if (rc == 0)
        rc = start_send(s, m->n);
    if (rc < 0)
        return rc;
    s->send_fds = m;
    go(s);
    return 0;
}

static int sim_recv_fds(struct weir__io *io, struct weir__io_sock *sock, struct weir__io_fds *m) {
    struct weir__iosim_sock *s = sock_of(sock);
    (void)io;
    if (s->closing)
        return WEIR_EGONE;
    if (!is_unix_stream(s) || s->plain || m->n == 0)
        return WEIR_EBUG;
    int rc = weir__iosim_sock_arm(s, WEIR__IOSIM_OP_RECV);
    if (rc < 0)
        return rc;
    s->recv_fds = m;
    m->n_handles = 0;
    weir__iosim_sock_hold(s);
    return 0;
}

static int sim_watch(struct weir__io *io, intptr_t fd, unsigned mask, void *user,
                     struct weir__io_sock **out) {
    (void)io, (void)fd, (void)mask, (void)user, (void)out;
    return WEIR_ENOTSUP;
}

static void sim_cancel(struct weir__io *io, struct weir__io_sock *sock, unsigned what) {
    (void)io;
    weir__iosim_sock_cancel(sock_of(sock), what);
}

static void sim_close(struct weir__io *io, struct weir__io_sock *sock, bool abort) {
    (void)io;
    weir__iosim_sock_close(sock_of(sock), abort);
}

/* --- synchronous ----------------------------------------------------------------------------- */

static int sim_shutdown(struct weir__io *io, struct weir__io_sock *sock) {
    struct weir__iosim_sock *s = sock_of(sock);
    struct weir__iosim_end *e = end_of(s);
    (void)io;
    if (s->closing)
        return WEIR_EGONE;
    if (!e || !s->connected || s->armed & WEIR__IO_SEND)
        return WEIR_EBUG;
    if (s->send_failed)
        return WEIR_ERESET;
    s->shut = true;
    weir__iosim_end_fin(e);
    return 0;
}

static int sim_set_crypto(struct weir__io *io, struct weir__io_sock *sock,
                          const struct weir__io_crypto *keys) {
    struct weir__iosim_sock *s = sock_of(sock);
    (void)io;
    if (s->closing)
        return WEIR_EGONE;
    if (!end_of(s) || !s->connected || s->armed & (keys->tx ? WEIR__IO_SEND : WEIR__IO_RECV))
        return WEIR_EBUG;
    return WEIR_ENOTSUP; /* there is no kernel */
}

static int sim_local(struct weir__io *io, struct weir__io_sock *sock, struct weir_addr *out) {
    struct weir__iosim_sock *s = sock_of(sock);
    (void)io;
    if (s->closing)
        return WEIR_EGONE;
    *out = s->file->port ? s->file->port->addr : s->file->end->local;
    return 0;
}

static int sim_peer(struct weir__io *io, struct weir__io_sock *sock, struct weir_addr *out) {
    struct weir__iosim_sock *s = sock_of(sock);
    (void)io;
    if (s->closing)
        return WEIR_EGONE;
    if (s->file->port || !s->connected)
        return WEIR_EBUG;
    *out = weir__iosim_end_other(s->file->end)->local;
    return 0;
}

static int64_t sim_unsent(struct weir__io *io, struct weir__io_sock *sock) {
    struct weir__iosim_sock *s = sock_of(sock);
    struct weir__iosim_end *e = end_of(s);
    (void)io;
    if (s->closing)
        return WEIR_EGONE;
    return e && s->connected ? (int64_t)e->transit : WEIR_EBUG;
}

static int64_t sim_parked(struct weir__io *io, struct weir__io_sock *sock) {
    struct weir__iosim_sock *s = sock_of(sock);
    struct weir__iosim_end *e = end_of(s);
    (void)io;
    if (s->closing)
        return WEIR_EGONE;
    return e ? (int64_t)e->parked : s->n_parked;
}

static intptr_t sim_handle(struct weir__io *io, struct weir__io_sock *sock) {
    (void)io;
    return sock_of(sock)->closing ? WEIR_EGONE : sock_of(sock)->handle;
}

static int sim_queued(struct weir__io *io, struct weir__io_sock *sock) {
    (void)io;
    struct weir__iosim_sock *s = sock_of(sock);
    return s->file && s->file->port && !s->file->port->datagram && s->file->port->queued > 0;
}

const struct weir__io_ops weir__iosim_ops = {
    .name = "sim",
    .free = weir__iosim_door_free,
    .listen = sim_listen,
    .attach = sim_attach,
    .connect = sim_connect,
    .drop = sim_drop,
    .accept_arm = sim_accept_arm,
    .recv_arm = sim_recv_arm,
    .send = sim_send,
    .send_zc = sim_send_zc,
    .send_file = sim_send_file,
    .recv_dgram_arm = sim_recv_dgram_arm,
    .send_dgram = sim_send_dgram,
    .send_fds = sim_send_fds,
    .recv_fds = sim_recv_fds,
    .watch = sim_watch,
    .cancel = sim_cancel,
    .close = sim_close,
    .shutdown = sim_shutdown,
    .set_crypto = sim_set_crypto,
    .local = sim_local,
    .peer = sim_peer,
    .unsent = sim_unsent,
    .parked = sim_parked,
    .handle = sim_handle,
    .queued = sim_queued,
    .start = weir__iosim_door_start,
    .wait = weir__iosim_door_wait,
    .next = weir__iosim_door_next,
    .submit = NULL,
    .wake = weir__iosim_door_wake,
    .now = weir__iosim_door_now,
    .entropy = weir__iosim_door_entropy,
};
