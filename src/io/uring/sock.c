/* Opening, arming, cancelling, closing at the io_uring door. */
#include "base/assert.h"
#include "io/uring/door.h"
#include "io/uring/pin.h"
#include "os/sock.h"
#include <poll.h>

void weir__uring_end(struct weir__uring *d, struct weir__uring_sock *s, unsigned op, int code) {
    weir__kernel_end(&d->k, &s->k, op, code);
    weir__uring_settle(d, s);
}

void weir__uring_settle(struct weir__uring *d, struct weir__uring_sock *s) {
    unsigned left = weir__kernel_armed(&s->k) & ~(unsigned)WEIR__KERNEL_UNPINNED;
    if (likely(left != WEIR__KERNEL_CLOSED || s->todo || s->kernel))
        return;
    /* A peer that takes nothing keeps what is pinned, until its connection is gone. */
    bool pinned = s->pins && s->pins->used;
    if (pinned && !(s->k.flags & WEIR__KERNEL_RESET))
        return;
    struct weir__base_link *links[] = {&s->ready, &s->work};
    for (unsigned i = 0; i < ARRAY_LEN(links); i++)
        if (weir__base_linked(links[i]))
            weir__base_list_remove(links[i]);
    if (s->k.fd >= 0)
        weir__kernel_close_fd(&s->k);
    if (!pinned)
        weir__uring_end(d, s, WEIR__KERNEL_CLOSED, 0);
}

void weir__uring_ready(struct weir__uring *d, struct weir__uring_sock *s) {
    if (!weir__base_linked(&s->ready))
        weir__base_list_push_back(&d->ready, &s->ready);
}

static void unpark_all(struct weir__uring_sock *s) {
    if (s->k.flags & WEIR__KERNEL_LISTENER)
        weir__uring_drop_strays(s);
    else
        weir_chain_fini(&s->parked);
}

void weir__uring_forget(struct weir__uring *d, struct weir__uring_sock *s) {
    unpark_all(s);
    weir_mem_free(s->pins);
    weir__kernel_forget(&d->k, &s->k);
}

/* --- opening --------------------------------------------------------------------------------- */

int weir__uring_listen(struct weir__io *io, const struct weir__io_listen *o, void *user,
                       struct weir__io_sock **out) {
    struct weir__kernel_sock *s;
    int rc = weir__kernel_listen(weir__kernel_of(io), sizeof(struct weir__uring_sock), o, user, &s);
    if (rc == 0)
        *out = &s->base;
    return rc;
}

int weir__uring_attach(struct weir__io *io, intptr_t handle, void *user,
                       struct weir__io_sock **out) {
    struct weir__kernel_sock *s;
    int rc = weir__kernel_sock_new(weir__kernel_of(io), sizeof(struct weir__uring_sock),
                                   (int)handle, 0, user, &s);
    if (rc == 0)
        *out = &s->base;
    return rc;
}

int weir__uring_connect(struct weir__io *io, const struct weir__io_connect *o, void *user,
                        struct weir__io_sock **out) {
    struct weir__uring *d = weir__uring_of(io);
    struct weir__kernel_sock *k;
    int ended;
    int rc = weir__kernel_connect(&d->k, sizeof(struct weir__uring_sock), 0, o, user, &k, &ended);
    if (rc < 0)
        return rc;
    struct weir__uring_sock *s = weir__uring_sock_of(&k->base);
    k->credit = POLLOUT;
    if (rc == 1)
        weir__uring_todo(d, s, WEIR__IO_CONNECT);
    else
        weir__uring_end(d, s, WEIR__IO_CONNECT, ended);
    *out = &k->base;
    return 0;
}

int weir__uring_watch(struct weir__io *io, intptr_t fd, unsigned mask, void *user,
                      struct weir__io_sock **out) {
    struct weir__uring *d = weir__uring_of(io);
    int events = (mask & WEIR__IO_WATCH_READ ? POLLIN : 0) |
                 (mask & WEIR__IO_WATCH_WRITE ? POLLOUT : 0);
    if (!events || fd < 0)
        return WEIR_EBUG;
    struct weir__kernel_sock *s;
    int rc = weir__kernel_sock_new(&d->k, sizeof(struct weir__uring_sock), (int)fd,
                                   WEIR__KERNEL_FOREIGN, user, &s);
    if (rc < 0)
        return rc;
    s->busy = WEIR__IO_WATCH;
    s->credit = events;
    weir__uring_todo(d, weir__uring_sock_of(&s->base), WEIR__IO_WATCH);
    if (weir__uring_fill(d) >= 0)
        weir__uring_enter(d,
                          0); /* from here on the kernel holds the file, whatever its number is */
    *out = &s->base;
    return 0;
}

/* --- arming ---------------------------------------------------------------------------------- */

static bool has_parked(const struct weir__uring_sock *s) {
    if (s->k.flags & WEIR__KERNEL_LISTENER)
        return s->strays && s->strays->n > 0;
    if (s->k.flags & WEIR__KERNEL_DGRAM)
        return s->k.inbox->at < s->k.inbox->n;
    return s->parked.bytes > 0;
}

/* A request for an armed op, unless one of an earlier arm is still there or something is parked for
 * it. */
static void arm(struct weir__uring *d, struct weir__uring_sock *s, unsigned op, int64_t credit) {
    s->k.credit = credit < 0 ? INT64_MAX : credit;
    s->k.busy |= (uint8_t)op;
    if (has_parked(s))
        weir__uring_ready(d, s);
    else if (s->k.flags & WEIR__KERNEL_OVER)
        weir__uring_end_over(d, s);
    else if (!(s->kernel & op))
        weir__uring_todo(d, s, op);
}

int weir__uring_accept_arm(struct weir__io *io, struct weir__io_sock *ws, int64_t credit) {
    struct weir__uring_sock *s = weir__uring_sock_of(ws);
    int rc = weir__kernel_refused(&s->k, WEIR__IO_ACCEPT, 0);
    if (rc < 0)
        return rc;
    if (!(s->k.flags & WEIR__KERNEL_LISTENER) || credit == 0)
        return WEIR_EBUG;
    arm(weir__uring_of(io), s, WEIR__IO_ACCEPT, credit);
    return 0;
}

int weir__uring_recv_arm(struct weir__io *io, struct weir__io_sock *ws, int64_t credit) {
    struct weir__uring *d = weir__uring_of(io);
    struct weir__uring_sock *s = weir__uring_sock_of(ws);
    int rc = weir__kernel_refused(&s->k, WEIR__IO_RECV, WEIR__KERNEL_NO_STREAM);
    if (rc < 0 || credit == 0)
        return rc < 0 ? rc : WEIR_EBUG;
    arm(d, s, WEIR__IO_RECV, credit);
    /* What an earlier arm without end still brings is parked, but it should not bring more. */
    if (credit > 0 && s->kernel & WEIR__IO_RECV && s->k.door & WEIR__URING_MULTI)
        weir__uring_undo(d, s, WEIR__IO_RECV);
    return 0;
}

int weir__uring_recv_dgram_arm(struct weir__io *io, struct weir__io_sock *ws, size_t bytes_max) {
    struct weir__uring_sock *s = weir__uring_sock_of(ws);
    int rc = weir__kernel_refused(&s->k, WEIR__IO_RECV, 0);
    if (rc < 0)
        return rc;
    if (!(s->k.flags & WEIR__KERNEL_DGRAM) || bytes_max > WEIR__IO_RECV_BYTES)
        return WEIR_EBUG;
    s->k.inbox->bytes_max = bytes_max ? bytes_max : WEIR__IO_RECV_BYTES;
    arm(weir__uring_of(io), s, WEIR__IO_RECV, -1);
    return 0;
}

int weir__uring_recv_fds(struct weir__io *io, struct weir__io_sock *ws, struct weir__io_fds *m) {
    struct weir__uring_sock *s = weir__uring_sock_of(ws);
    int rc = weir__kernel_refused(&s->k, WEIR__IO_RECV, WEIR__KERNEL_NO_STREAM);
    if (rc < 0)
        return rc;
    if (m->n == 0 || s->parked.bytes || weir__os_is_unix(s->k.fd) == 0)
        return WEIR_EBUG;
    s->k.fds_in = m;
    s->k.flags |= WEIR__KERNEL_FDS_IN;
    m->n_handles = 0;
    arm(weir__uring_of(io), s, WEIR__IO_RECV, -1);
    return 0;
}

/* --- ending ---------------------------------------------------------------------------------- */

/* What was sent, and whether somebody was accepted, is known only from the completion; every other
 * op ends here and now. */
static void cancel_one(struct weir__uring *d, struct weir__uring_sock *s, unsigned op) {
    bool in_kernel = s->kernel & op;
    bool later = in_kernel && op & (WEIR__IO_SEND | WEIR__IO_ACCEPT);
    if (later || op == WEIR__IO_SEND)
        s->k.door |= WEIR__URING_STOP;
    if (op != WEIR__IO_RECV || !in_kernel)
        weir__uring_undo(d, s, op);
    if (!later && op == WEIR__IO_SEND)
        weir__kernel_count_sent(&d->k, s->k.sent);
    if (!later)
        weir__uring_end(d, s, op, WEIR_ECANCELLED);
    if (op == WEIR__IO_WATCH && weir__uring_fill(d) >= 0)
        weir__uring_enter(d, 0); /* its owner may close the descriptor now */
}

void weir__uring_cancel(struct weir__io *io, struct weir__io_sock *ws, unsigned ops) {
    struct weir__uring_sock *s = weir__uring_sock_of(ws);
    ops &= WEIR__KERNEL_UNPINNED - 1;
    for (unsigned left = ops & weir__kernel_armed(&s->k); left; left &= left - 1)
        cancel_one(weir__uring_of(io), s, left & -left);
}

void weir__uring_close(struct weir__io *io, struct weir__io_sock *ws, bool abort) {
    struct weir__uring *d = weir__uring_of(io);
    struct weir__uring_sock *s = weir__uring_sock_of(ws);
    if (s->k.fd < 0)
        return;
    if (abort)
        s->k.flags |= WEIR__KERNEL_RESET;
    s->k.busy |= WEIR__KERNEL_CLOSED;
    unsigned ops = WEIR__IO_ACCEPT | WEIR__IO_CONNECT | WEIR__IO_RECV | WEIR__IO_WATCH |
                   (abort || d->broken ? WEIR__IO_SEND : 0);
    unpark_all(s);
    if (s->k.flags & WEIR__KERNEL_DGRAM)
        weir__kernel_drop_inbox(&s->k);
    weir__uring_cancel(io, ws, ops);
    weir__uring_undo(d, s, s->kernel & ops);
    weir__uring_settle(d, s);
}
