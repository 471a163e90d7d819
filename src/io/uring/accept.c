/* Connections. With a credit that has an end a request brings one, and more are looked for by
 * system call; without end one request brings them all. */
#include "base/assert.h"
#include "io/uring/door.h"
#include "os/error.h"
#include "os/listener.h"
#include "os/sock.h"
#include <errno.h>
#include <string.h>

/* Without memory for its number a connection is as lost as in a backlog that is full. */
static void park(struct weir__uring *d, struct weir__uring_sock *s, int fd) {
    struct weir__uring_strays *a = s->strays;
    if (!a || a->n == a->n_max) {
        unsigned n_max = a ? 2 * a->n_max : 12;
        struct weir__uring_strays *more = weir_mem_alloc(
            d->k.io.mem, sizeof *more + n_max * sizeof more->fds[0]);
        if (count_if(!more)) {
            weir__os_close(fd);
            return;
        }
        more->n = a ? a->n : 0;
        more->n_max = n_max;
        if (a)
            memcpy(more->fds, a->fds, a->n * sizeof a->fds[0]);
        weir_mem_free(a);
        s->strays = a = more;
    }
    a->fds[a->n++] = fd;
    weir__io_count(&d->k.io.stats.parked, 1);
}

/* The oldest one. */
static int unpark(struct weir__uring_sock *s) {
    struct weir__uring_strays *a = s->strays;
    if (!a || a->n == 0)
        return -1;
    int fd = a->fds[0];
    memmove(a->fds, a->fds + 1, --a->n * sizeof a->fds[0]);
    return fd;
}

void weir__uring_drop_strays(struct weir__uring_sock *s) {
    for (int fd; (fd = unpark(s)) >= 0;)
        weir__os_close(fd);
    weir_mem_free(s->strays);
    s->strays = NULL;
}

static bool deliver(struct weir__uring *d, struct weir__uring_sock *s, int fd,
                    struct weir__io_done *out) {
    *out = (struct weir__io_done){.user = s->k.base.user, .kind = WEIR__IO_ACCEPTED, .handle = fd};
    if (--s->k.credit == 0) {
        weir__uring_end(d, s, WEIR__IO_ACCEPT, WEIR__IO_CREDIT);
    } else if (s->strays && s->strays->n) {
        weir__uring_ready(d, s);
    } else if (s->kernel & WEIR__IO_ACCEPT) {
        return true; /* which goes on by itself */
    } else if (++s->accepts < WEIR__URING_ACCEPTS) {
        weir__uring_ready(d, s); /* who comes seldom comes alone */
    } else {
        s->accepts = 0;
        weir__uring_todo(d, s, WEIR__IO_ACCEPT);
    }
    return true;
}

/* The kernel may have been quicker than the cancel. */
static void accept_cancelled(struct weir__uring *d, struct weir__uring_sock *s, int res) {
    if (res >= 0 && s->k.busy & WEIR__KERNEL_CLOSED)
        weir__os_close(res);
    else if (res >= 0)
        park(d, s, res);
    if (s->kernel & WEIR__IO_ACCEPT)
        return; /* more may come */
    s->k.door &= ~(uint32_t)WEIR__URING_STOP;
    weir__uring_end(d, s, WEIR__IO_ACCEPT, WEIR_ECANCELLED);
}

bool weir__uring_accepted(struct weir__uring *d, struct weir__uring_sock *s, int res,
                          struct weir__io_done *out) {
    check(weir__uring_armed(s, WEIR__IO_ACCEPT));
    weir__io_count(&d->k.io.stats.accepts, res >= 0);
    if (s->k.door & WEIR__URING_STOP) {
        accept_cancelled(d, s, res);
        return false;
    }
    if (res >= 0)
        return deliver(d, s, res, out);
    s->accepts = 0;
    bool goes_on = res == -ECANCELED || res == -EAGAIN || res == -EINTR;
    if (goes_on || weir__os_accept_skips(res)) {
        if (!(s->kernel & WEIR__IO_ACCEPT))
            weir__uring_todo(d, s, WEIR__IO_ACCEPT);
    } else {
        int code = weir__os_error(res);
        weir__uring_end(d, s, WEIR__IO_ACCEPT, code == WEIR_ENOMEM ? WEIR_EFDS : code);
    }
    return false;
}

bool weir__uring_accept_more(struct weir__uring *d, struct weir__uring_sock *s,
                             struct weir__io_done *out) {
    if (!weir__uring_armed(s, WEIR__IO_ACCEPT))
        return false;
    int fd = unpark(s);
    if (fd >= 0)
        return deliver(d, s, fd, out);
    if ((s->kernel | s->todo) & WEIR__IO_ACCEPT)
        return false;
    weir__io_count(&d->k.io.stats.other_calls, 1);
    return weir__uring_accepted(d, s, weir__os_accept(s->k.fd, NULL), out);
}
