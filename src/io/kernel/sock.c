/* Life of a socket, from a descriptor to its CLOSED. */
#include "base/assert.h"
#include "io/kernel/kernel.h"
#include "os/entropy.h"
#include "os/error.h"
#include "os/event.h"
#include "os/listener.h"
#include "os/sock.h"
#include "os/sockopt.h"
#include <errno.h>

enum { BACKLOG = 4096 };

int weir__kernel_init(struct weir__kernel *k, const char **why) {
    *why = "eventfd failed";
    k->bell = weir__os_event_new();
    if (k->bell < 0)
        return k->bell;
    *why = "getrandom failed";
    k->n_entropy = ARRAY_LEN(k->entropy);
    return weir__os_entropy(k->entropy, sizeof k->entropy);
}

void weir__kernel_fini(struct weir__kernel *k) {
    k->io.receiving = NULL;
    weir_slice_release(&k->hot);
    if (k->bell >= 0)
        weir__os_close(k->bell);
    k->bell = -1;
}

int weir__kernel_sock_new(struct weir__kernel *k, size_t bytes, int fd, unsigned flags, void *user,
                          struct weir__kernel_sock **out) {
    struct weir__kernel_sock *s = weir_mem_new(k->io.mem, bytes);
    if (!s)
        return WEIR_ENOMEM;
    s->base.ref = weir__io_slot_new(k->io.slots, s);
    if (!s->base.ref) {
        weir_mem_free(s);
        return WEIR_ENOMEM;
    }
    s->base.user = user;
    s->fd = fd;
    s->flags = (uint16_t)flags;
    weir__io_count(&k->io.stats.opened, 1);
    *out = s;
    return 0;
}

void weir__kernel_drop_inbox(struct weir__kernel_sock *s) {
    weir_slice_release(&s->inbox->buf);
    s->inbox->at = s->inbox->n;
}

void weir__kernel_forget(struct weir__kernel *k, struct weir__kernel_sock *s) {
    if (unlikely(s->flags & WEIR__KERNEL_DGRAM) && s->inbox) {
        weir__kernel_drop_inbox(s);
        weir_mem_free(s->inbox);
    }
    weir__io_slot_free(k->io.slots, s->base.ref);
    weir_mem_free(s);
    weir__io_count(&k->io.stats.closed, 1);
}

void weir__kernel_close_fd(struct weir__kernel_sock *s) {
    if (!(s->flags & WEIR__KERNEL_FOREIGN)) {
        if (s->flags & WEIR__KERNEL_RESET)
            count_if(weir__os_set_linger0(s->fd) < 0);
        weir__os_close(s->fd);
    }
    s->fd = -1;
}

void weir__kernel_abandon(struct weir__kernel *k, struct weir__kernel_sock *s) {
    if (s->fd >= 0 && !(s->flags & WEIR__KERNEL_FOREIGN))
        weir__os_close(s->fd);
    weir__kernel_forget(k, s);
}

/* --- beginnings ------------------------------------------------------------------------------ */

static int inbox_new(struct weir__kernel *k, struct weir__kernel_sock *s, bool gro) {
    int rc = weir__os_dgram_setup(s->fd, gro);
    if (rc < 0)
        return weir__os_error(rc);
    s->inbox = weir_mem_new(k->io.mem, sizeof *s->inbox);
    if (!s->inbox)
        return WEIR_ENOMEM;
    s->inbox->ip = rc;
    return 0;
}

/* The descriptor, or an error. */
static int listener_fd(const struct weir__io_listen *o) {
    if (o->handle >= 0) {
        int rc = weir__os_listener_adopt((int)o->handle, o->datagram);
        if (rc < 0)
            return rc == -EINVAL ? WEIR_EINVAL : weir__os_error(rc);
        return (int)o->handle;
    }
    struct weir__os_listener l = {.addr = o->addr,
                                  .backlog = o->backlog ? o->backlog : BACKLOG,
                                  .claim_ms = o->claim_ms,
                                  .reuse_port = o->reuse_port,
                                  .steer = o->steer,
                                  .n_steer = o->n_steer,
                                  .datagram = o->datagram,
                                  .options = o->options};
    int fd = weir__os_listener_open(&l);
    return fd < 0 ? weir__os_error(fd) : fd;
}

int weir__kernel_listen(struct weir__kernel *k, size_t bytes, const struct weir__io_listen *o,
                        void *user, struct weir__kernel_sock **out) {
    int fd = listener_fd(o);
    if (fd < 0)
        return fd;
    unsigned flags = o->datagram ? WEIR__KERNEL_DGRAM : WEIR__KERNEL_LISTENER;
    struct weir__kernel_sock *s;
    int rc = weir__kernel_sock_new(k, bytes, fd, flags, user, &s);
    if (rc == 0 && o->datagram) {
        rc = inbox_new(k, s, o->gro);
        if (rc < 0)
            weir__kernel_forget(k, s);
    }
    if (rc == 0)
        *out = s;
    else if (o->handle < 0)
        weir__os_close(fd);
    return rc;
}

int weir__kernel_connect(struct weir__kernel *k, size_t bytes, unsigned flags,
                         const struct weir__io_connect *o, void *user,
                         struct weir__kernel_sock **out, int *ended) {
    int fd = weir__os_socket(&o->addr, SOCK_STREAM);
    if (fd < 0)
        return weir__os_error(fd);
    struct weir__kernel_sock *s;
    int rc = weir__os_error(weir__os_sock_apply(fd, o->options, false));
    if (rc >= 0)
        rc = weir__kernel_sock_new(k, bytes, fd, flags | WEIR__KERNEL_APART, user, &s);
    if (rc < 0) {
        weir__os_close(fd);
        return rc;
    }
    s->busy = WEIR__IO_CONNECT;
    *out = s;
    rc = weir__os_connect(fd, &o->addr);
    *ended = weir__os_error(rc);
    return rc == -EINPROGRESS;
}

/* --- ends ------------------------------------------------------------------------------------ */

void weir__kernel_end(struct weir__kernel *k, struct weir__kernel_sock *s, unsigned op, int code) {
    check(weir__kernel_armed(s) & op);
    if (!s->ended)
        weir__base_fifo_push(&k->done, &s->done);
    s->ended |= (uint8_t)op;
    if (op == WEIR__IO_RECV)
        s->recv_code = code;
    else if (op == WEIR__IO_SEND)
        s->send_code = code;
    else if (op < WEIR__KERNEL_UNPINNED)
        s->code = code;
    if (op == WEIR__IO_SEND && code < 0 && !(s->flags & WEIR__KERNEL_DGRAM))
        s->flags |= WEIR__KERNEL_FAILED;
    if (op == WEIR__IO_CONNECT && code == 0)
        s->flags &= (uint16_t)~WEIR__KERNEL_APART;
}

static void yield_recv(struct weir__kernel_sock *s, struct weir__io_done *out) {
    out->kind = s->flags & WEIR__KERNEL_DGRAM ? WEIR__IO_DGRAM : WEIR__IO_RECEIVED;
    out->code = s->recv_code;
    if (s->flags & WEIR__KERNEL_FDS_IN) {
        out->kind = WEIR__IO_FDS;
        out->count = out->code ? 0 : s->fds_in->n;
        s->flags &= (uint16_t)~WEIR__KERNEL_FDS_IN;
    }
}

struct weir__kernel_sock *weir__kernel_yield(struct weir__kernel *k, struct weir__io_done *out) {
    struct weir__kernel_sock *s = container_of(k->done.first, struct weir__kernel_sock, done);
    unsigned op = s->ended & -(unsigned)s->ended;
    s->ended &= (uint8_t)~op;
    s->busy &= (uint8_t)~op;
    if (!s->ended)
        weir__base_fifo_pop(&k->done);
    *out = (struct weir__io_done){
        .user = s->base.user, .code = s->code, .last = true, .handle = -1};
    switch (op) {
    case WEIR__IO_ACCEPT: out->kind = WEIR__IO_ACCEPTED; break;
    case WEIR__IO_CONNECT: out->kind = WEIR__IO_CONNECTED; break;
    case WEIR__IO_RECV: yield_recv(s, out); break;
    case WEIR__IO_SEND:
        out->kind = WEIR__IO_SENT;
        out->code = s->send_code;
        out->count = s->sent;
        weir__kernel_send_clear(s);
        break;
    case WEIR__IO_WATCH:
        out->kind = WEIR__IO_WATCHED;
        out->handle = (intptr_t)s->sent;
        break;
    case WEIR__KERNEL_UNPINNED:
        out->kind = WEIR__IO_UNPINNED;
        out->last = false;
        out->code = 0;
        break;
    default:
        out->kind = WEIR__IO_CLOSED;
        out->code = 0;
        break;
    }
    return s;
}

int weir__kernel_eof_code(const struct weir__kernel_sock *s) {
    bool by_peer = s->flags & WEIR__KERNEL_FAILED && s->send_code != WEIR_ECANCELLED &&
                   s->send_code != WEIR_ETRUNCATED;
    return by_peer ? s->send_code : WEIR__IO_EOF;
}
