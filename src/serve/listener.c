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

/* One line per burst and server, whichever of its loops meets the wall first. */
static void report(struct weir__serve_listener *s, int code) {
    int64_t now = (int64_t)s->loop->now_ns;
    int64_t last = (int64_t)atomic_exchange(&s->server->wall_ns, (uint64_t)now);
    if (last && now - last < (int64_t)WEIR__SERVE_QUIET_MS * 1000000)
        return;
    char line[WEIR__ADDR_TEXT_MAX + 160];
    snprintf(line, sizeof line, "%s: cannot accept (%s); clients wait, next try every %d ms",
             s->server->address, weir_strerror(code), WEIR__SERVE_RETRY_MS);
    weir__loop_group_log(s->server->group, line);
}

static void wall(struct weir__serve_listener *s, int code) {
    weir__loop_add(&s->loop->counters.refused_fds, 1);
    report(s, code);
    s->state = WEIR__SERVE_WALL;
    weir__loop_timer_in(s->loop, &s->retry, WEIR__SERVE_RETRY_MS, retry);
}

/* --- completions ----------------------------------------------------------------------------- */

static void accepted(struct weir__serve_listener *s, intptr_t handle) {
    s->taken++;
    int rc = weir__chan_accept(s->plan, handle);
    if (rc >= 0)
        return;
    ops_of(s)->drop(s->loop->io, handle);
    (void)count_if(rc != WEIR_EFDS);
    if (rc == WEIR_EFDS) {
        weir__loop_add(&s->loop->counters.refused_fds, 1);
        report(s, rc);
    }
}

static void ended(struct weir__serve_listener *s, int code) {
    int64_t parked = 0;
    switch (s->state) {
    case WEIR__SERVE_OPEN: wall(s, code); break;
    case WEIR__SERVE_CANCELLING: parked = ops_of(s)->parked(s->loop->io, s->sock); break;
    default: break;
    }
    if (parked > 0)
        accept_again(s, parked, WEIR__SERVE_PARKED);
    else if (s->state != WEIR__SERVE_WALL && s->state != WEIR__SERVE_CLOSING)
        weir__serve_listener_close(s);
}

static void closed(struct weir__serve_listener *s) {
    s->state = WEIR__SERVE_CLOSED;
    s->sock = NULL;
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

/* Runs after a turn's dispatch, so what the kernel had queued at its beginning has been accepted by
 * now. */
static void look(struct weir_loop *l, struct weir__loop_node *n) {
    struct weir__serve_listener *s = container_of(n, struct weir__serve_listener, look);
    if (s->state != WEIR__SERVE_EMPTYING)
        return;
    if (s->taken && ++s->turns < WEIR__SERVE_EMPTY_TURNS) {
        s->taken = 0;
        weir__loop_task(l, n);
        return;
    }
    s->state = WEIR__SERVE_CANCELLING;
    ops_of(s)->cancel(l->io, s->sock, WEIR__IO_ACCEPT);
}

static void stop(struct weir__loop_member *m, bool abort) {
    struct weir__serve_listener *s = container_of(m, struct weir__serve_listener, member);
    if (abort || s->state == WEIR__SERVE_NEW || s->state == WEIR__SERVE_WALL) {
        weir__serve_listener_close(s);
    } else if (s->state == WEIR__SERVE_OPEN) {
        s->state = WEIR__SERVE_EMPTYING;
        s->turns = s->taken = 0;
        s->look.run = look;
        weir__loop_task(s->loop, &s->look);
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
