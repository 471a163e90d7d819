/* The ops that are one system call and have no terminal. */
#include "base/assert.h"
#include "base/rng.h"
#include "io/kernel/kernel.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "os/error.h"
#include "os/event.h"
#include "os/listener.h"
#include "os/sock.h"
#include <errno.h>

void weir__kernel_drop(struct weir__io *io, intptr_t handle) {
    (void)io;
    weir__os_close((int)handle);
}

int weir__kernel_shutdown(struct weir__io *io, struct weir__io_sock *ws) {
    (void)io;
    struct weir__kernel_sock *s = weir__kernel_sock_of(ws);
    int rc = weir__kernel_refused(s, WEIR__IO_SEND, WEIR__KERNEL_NO_SEND);
    if (rc < 0)
        return rc;
    s->flags |= WEIR__KERNEL_SHUT;
    rc = weir__os_shutdown_write(s->fd);
    return rc == -ENOTCONN ? WEIR_ERESET : weir__os_error(rc); /* the peer was faster */
}

int weir__kernel_set_crypto(struct weir__io *io, struct weir__io_sock *ws,
                            const struct weir__io_crypto *keys) {
    (void)io;
    struct weir__kernel_sock *s = weir__kernel_sock_of(ws);
    int rc = weir__kernel_refused(s, keys->tx ? WEIR__IO_SEND : WEIR__IO_RECV,
                                  keys->tx ? WEIR__KERNEL_NO_SEND : WEIR__KERNEL_NO_STREAM);
    if (rc < 0)
        return rc;
    rc = weir__os_set_crypto(s->fd, keys->tx, keys->info, keys->bytes);
    if (rc == -EOPNOTSUPP || rc == -EINVAL)
        return rc == -EINVAL ? WEIR_EINVAL : WEIR_ENOTSUP;
    return weir__os_error(rc);
}

int weir__kernel_local(struct weir__io *io, struct weir__io_sock *ws, struct weir_addr *out) {
    (void)io;
    const struct weir__kernel_sock *s = weir__kernel_sock_of(ws);
    int rc = weir__kernel_refused(s, 0, 0);
    return rc < 0 ? rc : weir__os_error(weir__os_local(s->fd, out));
}

int weir__kernel_peer(struct weir__io *io, struct weir__io_sock *ws, struct weir_addr *out) {
    (void)io;
    const struct weir__kernel_sock *s = weir__kernel_sock_of(ws);
    int rc = weir__kernel_refused(s, 0, WEIR__KERNEL_APART);
    return rc < 0 ? rc : weir__os_error(weir__os_peer(s->fd, out));
}

int64_t weir__kernel_unsent(struct weir__io *io, struct weir__io_sock *ws) {
    (void)io;
    const struct weir__kernel_sock *s = weir__kernel_sock_of(ws);
    uint32_t bytes = 0;
    int rc = weir__kernel_refused(s, 0, WEIR__KERNEL_APART);
    if (rc == 0)
        rc = weir__os_error(weir__os_unsent(s->fd, &bytes));
    return rc < 0 ? rc : (int64_t)bytes;
}

intptr_t weir__kernel_handle(struct weir__io *io, struct weir__io_sock *ws) {
    (void)io;
    const struct weir__kernel_sock *s = weir__kernel_sock_of(ws);
    int rc = weir__kernel_refused(s, 0, 0);
    return rc < 0 ? rc : s->fd;
}

int weir__kernel_queued(struct weir__io *io, struct weir__io_sock *ws) {
    (void)io;
    const struct weir__kernel_sock *s = weir__kernel_sock_of(ws);
    return s->fd >= 0 && s->flags & WEIR__KERNEL_LISTENER ? weir__os_listener_queued(s->fd) : 0;
}

void weir__kernel_wake(struct weir__io *io) {
    weir__os_event_signal(weir__kernel_of(io)->bell);
}

uint64_t weir__kernel_now(struct weir__io *io) {
    (void)io;
    return weir__os_clock_mono();
}

int64_t weir__kernel_timeout(uint64_t until_ns) {
    if (until_ns == UINT64_MAX)
        return -1;
    uint64_t now = weir__os_clock_mono();
    return until_ns > now ? (int64_t)(until_ns - now) : 0;
}

uint64_t weir__kernel_entropy(struct weir__io *io) {
    struct weir__kernel *k = weir__kernel_of(io);
    if (k->n_entropy == 0) {
        k->n_entropy = ARRAY_LEN(k->entropy);
        /* Without the kernel's help the last numbers are stirred: unpredictable still, only not
         * fresh. */
        if (count_if(weir__os_entropy(k->entropy, sizeof k->entropy) < 0))
            for (unsigned i = 0; i < ARRAY_LEN(k->entropy); i++)
                k->entropy[i] = weir__base_splitmix(&k->entropy[i]);
    }
    return k->entropy[--k->n_entropy];
}
