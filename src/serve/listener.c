#include "serve/listener.h"
#include <stdio.h>

static const struct weir__io_ops *ops_of(const struct weir__serve_listener *s) {
    return s->loop->io->ops;
}

static void accept_again(struct weir__serve_listener *s, int64_t credit,
                         enum weir__serve_state state) {
    s->state = state;
    if (ops_of(s)->accept_arm(s->loop->io, s->sock, credit) < 0)
        weir__serve_listener_close(s);
}

void weir__serve_listener_close(struct weir__serve_listener *s) {
    if (s->state == WEIR__SERVE_UNUSED || s->state == WEIR__SERVE_CLOSED)
        return;
    weir_timer_disarm(&s->retry);
    s->state = WEIR__SERVE_CLOSING;
    ops_of(s)->close(s->loop->io, s->sock, true);
}

/* --- the wall -------------------------------------------------------------------------------- */

static void retry(struct weir_timer *t) {
    struct weir__serve_listener *s = container_of(t, struct weir__serve_listener, retry);
    accept_again(s, -1, WEIR__SERVE_OPEN);
}

static void say(struct weir_server *server, int code, const char *what_follows) {
    char line[WEIR__ADDR_TEXT_MAX + 160];
    snprintf(line, sizeof line, "%s: cannot accept (%s); %s", server->address, weir_strerror(code),
             what_follows);
    weir__loop_group_log(server->group, line);
}

/* One line per burst and server, whichever of its loops meets the wall first. */
static void report(struct weir_server *server, const struct weir_loop *l, int code,
                   const char *what_follows) {
    int64_t now = (int64_t)l->now_ns;
    int64_t last = (int64_t)atomic_exchange(&server->wall_ns, (uint64_t)now);
    if (!last || now - last >= (int64_t)WEIR__SERVE_QUIET_MS * 1000000)
        say(server, code, what_follows);
}

static const char again[] = "clients wait, and it tries again";

/* The wall: what time can mend. */
static bool is_wall(int code) {
    return code == WEIR_EFDS || code == WEIR_ENOMEM;
}

static void wall(struct weir__serve_listener *s, int code) {
    weir__loop_add(&s->loop->counters.refused_fds, 1);
    report(s->server, s->loop, code, again);
    s->state = WEIR__SERVE_WALL;
    weir__loop_timer_in(s->loop, &s->retry, WEIR__SERVE_RETRY_MS, retry);
}

/* --- the queue of one that ends -------------------------------------------------------------- */

/* Nobody in the kernel's queue means that everybody is with us: a channel, or a handle that the
 * cancel finds parked. */
static void look(struct weir_timer *t) {
    struct weir__serve_listener *s = container_of(t, struct weir__serve_listener, retry);
    if (ops_of(s)->queued(s->loop->io, s->sock) > 0) {
        weir__loop_timer_in(s->loop, &s->retry, WEIR__SERVE_LOOK_MS, look);
        return;
    }
    s->state = WEIR__SERVE_CANCELLING;
    ops_of(s)->cancel(s->loop->io, s->sock, WEIR__IO_ACCEPT);
}

/* Accepting goes on meanwhile. */
static void look_soon(struct weir__serve_listener *s) {
    s->state = WEIR__SERVE_EMPTYING;
    weir__loop_timer_in(s->loop, &s->retry, 0, look);
}

/* --- completions ----------------------------------------------------------------------------- */

void weir__serve_admit(struct weir_server *server, struct weir__chan_plan *plan, intptr_t handle) {
    struct weir_loop *l = plan->loop;
    int rc = weir__chan_accept(plan, handle);
    if (likely(rc >= 0))
        return;
    l->io->ops->drop(l->io, handle);
    (void)count_if(rc != WEIR_EFDS);
    if (rc == WEIR_EFDS) {
        weir__loop_add(&l->counters.refused_fds, 1);
        report(server, l, rc, again);
    }
}

static void accepted(struct weir__serve_listener *s, intptr_t handle) {
    if (!s->seats || !weir__serve_hand(s, handle))
        weir__serve_admit(s->server, s->plan, handle);
}

/* No later try would end otherwise: the descriptor listens no more, or never did. */
static void lost(struct weir__serve_listener *s, int code) {
    weir__loop_add(&s->loop->counters.listeners_lost, 1);
    say(s->server, code, "the listener is closed");
    weir__serve_listener_close(s);
}

static void failed(struct weir__serve_listener *s, int code) {
    if (!is_wall(code)) {
        lost(s, code);
    } else if (s->state == WEIR__SERVE_OPEN) {
        wall(s, code);
    } else {
        report(s->server, s->loop, code, "it ends, and its queue is given up");
        weir__serve_listener_close(s);
    }
}

/* Cancelled: what the door had accepted by then comes first, then who has queued up since. */
static void go_on(struct weir__serve_listener *s) {
    int64_t parked = ops_of(s)->parked(s->loop->io, s->sock);
    if (parked > 0) {
        accept_again(s, parked, WEIR__SERVE_PARKED);
    } else if (ops_of(s)->queued(s->loop->io, s->sock) > 0) {
        look_soon(s);
        accept_again(s, -1, WEIR__SERVE_EMPTYING);
    } else {
        weir__serve_listener_close(s);
    }
}

static void ended(struct weir__serve_listener *s, int code) {
    switch (s->state) {
    case WEIR__SERVE_OPEN:
    case WEIR__SERVE_EMPTYING: failed(s, code); break;
    case WEIR__SERVE_CANCELLING:
    case WEIR__SERVE_PARKED:
        if (code < 0 && code != WEIR_ECANCELLED)
            failed(s, code);
        else
            go_on(s);
        break;
    default: break;
    }
}

static void closed(struct weir__serve_listener *s) {
    s->state = WEIR__SERVE_CLOSED;
    s->sock = NULL;
    weir__serve_seats_end(s);
    weir__chan_plan_release(s->plan);
    s->plan = NULL;
    weir__loop_member_remove(s->loop, &s->member);
    weir__loop_add(&s->loop->counters.listeners, (uint64_t)-1);
}

static void done(struct weir__loop_sink *sink, struct weir__io_done *d) {
    struct weir__serve_listener *s = container_of(sink, struct weir__serve_listener, sink);
    if (d->kind == WEIR__IO_CLOSED)
        closed(s);
    else if (d->last)
        ended(s, d->code);
    else
        accepted(s, d->handle);
}

/* --- the end --------------------------------------------------------------------------------- */

static void stop(struct weir__loop_member *m, bool abort) {
    struct weir__serve_listener *s = container_of(m, struct weir__serve_listener, member);
    if (abort || s->state == WEIR__SERVE_NEW || s->state == WEIR__SERVE_WALL) {
        weir__serve_listener_close(s);
    } else if (s->state == WEIR__SERVE_OPEN) {
        look_soon(s);
    }
}

/* --- the beginning --------------------------------------------------------------------------- */

static void arm(struct weir_loop *l, struct weir__loop_node *n) {
    (void)l;
    struct weir__serve_listener *s = container_of(n, struct weir__serve_listener, arm);
    if (s->state == WEIR__SERVE_NEW)
        accept_again(s, -1, WEIR__SERVE_OPEN);
}

int weir__serve_listener_open(struct weir__serve_listener *s, struct weir_loop *l,
                              struct weir__chan_plan *plan, const struct weir__io_listen *o) {
    s->sink.done = done;
    s->member.stop = stop;
    s->arm.run = arm;
    s->loop = l;
    int rc = l->io->ops->listen(l->io, o, &s->sink, &s->sock);
    if (rc < 0)
        return rc;
    s->plan = plan;
    s->state = WEIR__SERVE_NEW;
    weir__loop_member_add(l, &s->member);
    weir__loop_add(&l->counters.listeners, 1);
    rc = weir__loop_inbox_push(l->inbox, &s->arm);
    if (rc < 0)
        weir__serve_listener_close(s);
    return 0;
}

void weir__serve_listener_each(struct weir_loop *l,
                               void (*fn)(struct weir__serve_listener *s, void *user), void *user) {
    weir__base_list_each(link, &l->members) {
        struct weir__loop_member *m = container_of(link, struct weir__loop_member, link);
        struct weir__serve_listener *s = container_of(m, struct weir__serve_listener, member);
        if (m->stop == stop && s->state == WEIR__SERVE_OPEN)
            fn(s, user);
    }
}
