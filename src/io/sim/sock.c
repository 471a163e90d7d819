/* One socket's ops and how they end; whatever ends an op first wins.
 *
 *              arm           decided           event           next()
 *   op:  idle -----> armed ----------> ending -------> ended ----------> idle
 *                     | |                                ^
 *                     | +---------- decided now ---------+
 *                     | cancel
 *                     +--------> cancelling -- lands --> as decided
 *
 *                close              all ops ended                event            next()
 *   socket: open -----> closing --------------------> file closed -----> CLOSED ----------> freed
 *                       every op is cancelled */
#include "io/sim/net.h"
#include "base/assert.h"
#include <string.h>

enum { CLOSED_BIT = 1 << 7 };
#define BIT(op) ((uint8_t)(1U << (op)))

_Static_assert(1 << WEIR__IOSIM_OP_ACCEPT == WEIR__IO_ACCEPT &&
                   1 << WEIR__IOSIM_OP_CONNECT == WEIR__IO_CONNECT &&
                   1 << WEIR__IOSIM_OP_RECV == WEIR__IO_RECV &&
                   1 << WEIR__IOSIM_OP_SEND == WEIR__IO_SEND,
               "an op is the number of its bit in the contract");

static void add_event(struct weir__iosim_sock *s, struct weir__iosim_event e) {
    struct weir__iosim_net *net = s->door->net;
    e.object = s;
    s->events++;
    weir__iosim_at(net, net->now_ns + weir__iosim_latency_ns(net), e);
}

int weir__iosim_sock_new(struct weir__iosim_door *d, struct weir__iosim_file *f, intptr_t handle,
                         void *user, struct weir__iosim_sock **out) {
    struct weir__iosim_sock *s = weir_mem_new(d->io.mem, sizeof *s);
    if (!s)
        return WEIR_ENOMEM;
    s->base.ref = weir__io_slot_new(d->io.slots, s);
    if (!s->base.ref) {
        weir_mem_free(s);
        return WEIR_ENOMEM;
    }
    s->base.user = user;
    s->door = d;
    s->file = f;
    s->handle = handle;
    s->serial = ++d->net->serial;
    if (f->port) {
        weir__base_list_push_back(&f->port->socks, &s->port_link);
        s->datagram = f->port->datagram;
    } else {
        f->end->owner_kind = WEIR__IOSIM_SOCK;
        f->end->owner = s;
        s->connected = f->end->up;
    }
    weir__base_list_push_back(&d->all, &s->door_link);
    d->socks++;
    d->net->socks++;
    weir__io_count(&d->io.stats.opened, 1);
    *out = s;
    return 0;
}

void weir__iosim_sock_free(struct weir__iosim_sock *s) {
    struct weir__iosim_door *d = s->door;
    must(!s->file && !s->events && !s->ended && !s->ready_at && !s->terminal_at);
    weir__io_slot_free(d->io.slots, s->base.ref);
    weir__base_list_remove(&s->door_link);
    weir__io_count(&d->io.stats.closed, 1);
    weir_mem_free(s->parked);
    weir__iosim_pins_free(s);
    d->socks--;
    d->net->socks--;
    weir_mem_free(s);
}

static void close_file(struct weir__iosim_sock *s) {
    struct weir__iosim_file *f = s->file;
    if (f->port) {
        weir__base_list_remove(&s->port_link);
    } else { /* it lives on when the other side of a hand-over has it too */
        f->end->owner_kind = WEIR__IOSIM_NOBODY;
        f->end->owner = NULL;
    }
    s->file = NULL;
    weir__iosim_handle_close(s->door->net, s->handle, s->abort);
}

static void drop_parked(struct weir__iosim_sock *s) {
    for (uint32_t i = 0; i < s->n_parked; i++)
        weir__iosim_handle_close(s->door->net, s->parked[i], false);
    s->n_parked = 0;
}

void weir__iosim_sock_forget(struct weir__iosim_sock *s) {
    struct weir__iosim_net *net = s->door->net;
    for (size_t i = 0; i < net->events.n; i++)
        if (net->events.at[i].object == s)
            net->events.at[i].object = NULL;
    weir__iosim_door_ready(s, false);
    weir__iosim_door_terminal(s, false);
    s->events = s->ended = 0;
    net->leaked++;
    drop_parked(s);
    if (s->file)
        close_file(s);
    weir__iosim_sock_free(s);
}

int weir__iosim_sock_arm(struct weir__iosim_sock *s, enum weir__iosim_op op) {
    if (s->closing)
        return WEIR_EGONE;
    if (s->armed & BIT(op))
        return WEIR_EBUG;
    s->armed |= BIT(op);
    s->arm[op]++;
    return 0;
}

/* --- endings --------------------------------------------------------------------------------- */

/* A closing socket goes on when nothing is armed any more that has not ended, no event names it,
 * and it is known whether its last send is pinned. Before start nothing is late. */
static void settle(struct weir__iosim_sock *s) {
    if (!s->closing || s->events || s->closed || s->may_pin || (s->armed & ~s->ended))
        return;
    if (s->file) {
        close_file(s);
        if (s->door->started) {
            add_event(s, (struct weir__iosim_event){.kind = WEIR__IOSIM_EV_CLOSED});
            return;
        }
    }
    s->closed = true;
    s->ended |= CLOSED_BIT;
    weir__iosim_door_terminal(s, true);
}

static void decide(struct weir__iosim_sock *s, enum weir__iosim_op op, int code) {
    must(weir__iosim_sock_live(s, op));
    if (s->cancelling & BIT(op))
        weir__iosim_fault(s->door->net, code == WEIR_ECANCELLED ? WEIR__IOSIM_CANCEL_WON
                                                                : WEIR__IOSIM_CANCEL_LOST);
    s->cancelling &= (uint8_t)~BIT(op);
    s->code[op] = code;
    if (op == WEIR__IOSIM_OP_SEND && code < 0 && !s->datagram)
        s->send_failed = true;
    if (op == WEIR__IOSIM_OP_RECV &&
        (code == WEIR__IO_EOF ||
         (code < 0 && code != WEIR_ENOMEM && code != WEIR_ECANCELLED && code != WEIR_ETOOBIG)))
        s->latched = code;
}

void weir__iosim_sock_end(struct weir__iosim_sock *s, enum weir__iosim_op op, int code) {
    decide(s, op, code);
    s->ended |= BIT(op);
    weir__iosim_door_terminal(s, true);
    weir__iosim_sock_look(s);
    settle(s);
}

void weir__iosim_sock_end_later(struct weir__iosim_sock *s, enum weir__iosim_op op, int code) {
    decide(s, op, code);
    s->ending |= BIT(op);
    weir__iosim_fault(s->door->net, WEIR__IOSIM_LATE);
    add_event(s, (struct weir__iosim_event){.kind = WEIR__IOSIM_EV_TERMINAL, .op = (uint8_t)op});
    weir__iosim_sock_look(s);
}

int weir__iosim_sock_over(const struct weir__iosim_sock *s) {
    const struct weir__iosim_end *e = s->file->end;
    if (s->latched)
        return s->latched;
    return e->in_fin && !(s->send_failed && e->error) ? WEIR__IO_EOF : e->error;
}

static void count_parked(struct weir__iosim_sock *s, uint64_t n) {
    if (n)
        weir__iosim_fault(s->door->net, WEIR__IOSIM_PARKED);
    weir__io_count(&s->door->io.stats.parked, n);
}

/* The kernel had accepted some of what waits before it heard of the cancel. */
static void park_accepted(struct weir__iosim_sock *s) {
    struct weir__iosim_net *net = s->door->net;
    struct weir__iosim_port *p = s->file->port;
    uint64_t n = weir__iosim_draw(net, p->queued + 1), done = 0;
    for (; done < n && !weir__iosim_handles_full(net); done++) {
        struct weir__iosim_file *f = weir__iosim_file_new(net, weir__iosim_port_pop(p), NULL);
        s->parked = weir__iosim_room(net, s->parked, s->n_parked, &s->cap_parked);
        s->parked[s->n_parked++] = weir__iosim_handle_new(net, f);
    }
    count_parked(s, done);
}

/* What the arm had been given without yielding it is parked, and comes first with the next arm. */
static void land(struct weir__iosim_sock *s, enum weir__iosim_op op) {
    struct weir__iosim_end *e = s->file->end;
    int code = WEIR_ECANCELLED;
    if (op == WEIR__IOSIM_OP_ACCEPT && !s->closing) {
        park_accepted(s);
    } else if (op == WEIR__IOSIM_OP_RECV && e) {
        uint64_t before = e->parked;
        if (!e->in_bytes && weir__iosim_sock_over(s) && weir__iosim_coin(s->door->net, 2))
            code = weir__iosim_sock_over(s);
        else if (!s->closing && !s->recv_fds && weir__iosim_end_park(e))
            count_parked(s, e->parked - before);
    }
    weir__iosim_sock_end(s, op, code);
}

void weir__iosim_sock_cancel(struct weir__iosim_sock *s, unsigned ops) {
    for (int i = 0; i < WEIR__IOSIM_OPS; i++) {
        enum weir__iosim_op op = (enum weir__iosim_op)i;
        if (!(ops & BIT(op)) || !(s->armed & BIT(op)))
            continue;
        if (!weir__iosim_sock_live(s, op)) {
            weir__iosim_fault(s->door->net, WEIR__IOSIM_CANCEL_LOST);
            continue;
        }
        if (s->cancelling & BIT(op))
            continue;
        s->cancelling |= BIT(op);
        if (weir__iosim_coin(s->door->net, 2))
            land(s, op);
        else
            add_event(s, (struct weir__iosim_event){
                             .kind = WEIR__IOSIM_EV_CANCEL, .op = (uint8_t)op, .n = s->arm[op]});
    }
    weir__iosim_sock_look(s);
}

void weir__iosim_sock_close(struct weir__iosim_sock *s, bool abort) {
    unsigned ops = WEIR__IO_ACCEPT | WEIR__IO_CONNECT | WEIR__IO_RECV;
    if (s->closing && (s->abort || !abort))
        return;
    s->closing = true;
    s->abort = abort;
    drop_parked(s);
    weir__iosim_sock_cancel(s, abort ? ops | WEIR__IO_SEND : ops);
    if (!s->closed)
        settle(s);
}

void weir__iosim_sock_event(const struct weir__iosim_event *e) {
    struct weir__iosim_sock *s = e->object;
    enum weir__iosim_op op = (enum weir__iosim_op)e->op;
    if (!s) /* forgotten */
        return;
    s->events--;
    switch (e->kind) {
    case WEIR__IOSIM_EV_TERMINAL:
        s->ending &= (uint8_t)~BIT(op);
        s->ended |= BIT(op);
        weir__iosim_door_terminal(s, true);
        break;
    case WEIR__IOSIM_EV_CANCEL:
        if (s->arm[op] == e->n && weir__iosim_sock_live(s, op))
            land(s, op);
        break;
    case WEIR__IOSIM_EV_READY:
        s->held = false;
        weir__iosim_sock_look(s);
        break;
    case WEIR__IOSIM_EV_UNPIN: weir__iosim_pin_event(s, e->n); break;
    case WEIR__IOSIM_EV_CLOSED: break; /* settle goes on */
    }
    settle(s);
}

/* --- sending --------------------------------------------------------------------------------- */

static bool push_one(struct weir__iosim_sock *s, struct weir__iosim_end *e) {
    size_t n = weir__iosim_end_cut(e, s->send_bytes - s->sent_bytes);
    if (!n)
        return false;
    struct weir__iosim_seg *seg = weir__iosim_seg_new(s->door->net, n);
    if (s->send) {
        must(weir_chain_read(s->send, s->sent_bytes, seg->data, n) == 0);
    } else {
        size_t there = weir__iosim_file_read(s->door->net, s->send_file,
                                             s->send_off + s->sent_bytes, seg->data, n);
        if (there == 0) {
            weir__iosim_seg_free(s->door->net, seg);
            weir__iosim_sock_end_later(s, WEIR__IOSIM_OP_SEND, WEIR_ETRUNCATED);
            return false;
        }
        seg->n = (uint32_t)(n = there);
    }
    weir__iosim_end_put(e, seg);
    s->sent_bytes += n;
    weir__io_count(&s->door->io.stats.sent_bytes, n);
    return true;
}

void weir__iosim_sock_push(struct weir__iosim_sock *s) {
    struct weir__iosim_end *e = s->file ? s->file->end : NULL;
    if (!e || !weir__iosim_sock_live(s, WEIR__IOSIM_OP_SEND))
        return;
    if (e->error) {
        weir__iosim_sock_end_later(s, WEIR__IOSIM_OP_SEND, e->error);
        return;
    }
    while (s->sent_bytes < s->send_bytes)
        if (!(s->send_fds ? weir__iosim_fds_out(s, e) : push_one(s, e)))
            return;
    weir__iosim_sock_end_later(s, WEIR__IOSIM_OP_SEND, 0);
}

/* --- receiving ------------------------------------------------------------------------------- */

static bool something(const struct weir__iosim_sock *s) {
    uint8_t armed = s->armed & (uint8_t) ~(s->ending | s->ended | s->cancelling);
    if (!s->file || s->held || s->closing)
        return false;
    const struct weir__iosim_port *p = s->file->port;
    const struct weir__iosim_end *e = s->file->end;
    if (armed & BIT(WEIR__IOSIM_OP_ACCEPT) && (p->queue || s->n_parked))
        return true;
    if (!(armed & BIT(WEIR__IOSIM_OP_RECV)))
        return false;
    return p ? p->dgrams != NULL : e->in_bytes || e->in_fin || e->error;
}

void weir__iosim_sock_look(struct weir__iosim_sock *s) {
    weir__iosim_door_ready(s, something(s));
}

void weir__iosim_sock_hold(struct weir__iosim_sock *s) {
    if (!s->held && something(s) && weir__iosim_coin(s->door->net, 3)) {
        s->held = true;
        weir__iosim_fault(s->door->net, WEIR__IOSIM_HELD);
        add_event(s, (struct weir__iosim_event){.kind = WEIR__IOSIM_EV_READY});
    }
    weir__iosim_sock_look(s);
}

void weir__iosim_sock_up(struct weir__iosim_sock *s, int code) {
    if (weir__iosim_sock_live(s, WEIR__IOSIM_OP_CONNECT))
        weir__iosim_sock_end(s, WEIR__IOSIM_OP_CONNECT, code);
}

static bool fail(struct weir__iosim_sock *s, enum weir__iosim_op op, int code) {
    weir__iosim_sock_end(s, op, code);
    return false; /* it is a terminal now, and next() takes those first */
}

bool weir__iosim_sock_no_buffer(struct weir__iosim_sock *s) {
    weir__iosim_fault(s->door->net, WEIR__IOSIM_ENOMEM);
    weir__io_count(&s->door->io.stats.no_buffer, 1);
    return fail(s, WEIR__IOSIM_OP_RECV, WEIR_ENOMEM);
}

static intptr_t accepted(struct weir__iosim_sock *s) {
    struct weir__iosim_net *net = s->door->net;
    if (!s->n_parked)
        return weir__iosim_handle_new(
            net, weir__iosim_file_new(net, weir__iosim_port_pop(s->file->port), NULL));
    intptr_t handle = s->parked[0];
    memmove(s->parked, s->parked + 1, --s->n_parked * sizeof *s->parked);
    return handle;
}

static bool accept_one(struct weir__iosim_sock *s, struct weir__io_done *out) {
    if (!s->n_parked && weir__iosim_handles_full(s->door->net))
        return fail(s, WEIR__IOSIM_OP_ACCEPT, WEIR_EFDS);
    out->kind = WEIR__IO_ACCEPTED;
    out->handle = accepted(s);
    weir__io_count(&s->door->io.stats.accepts, 1);
    if (s->accept_credit > 0 && --s->accept_credit == 0)
        weir__iosim_sock_end(s, WEIR__IOSIM_OP_ACCEPT, WEIR__IO_CREDIT);
    return true;
}

/* How much one RECEIVED carries: any part of what is there, now and then all of it. */
static size_t receive_cut(struct weir__iosim_sock *s, const struct weir__iosim_end *e) {
    struct weir__iosim_net *net = s->door->net;
    uint64_t n = e->in_bytes < net->opt.segment_max ? e->in_bytes : net->opt.segment_max;
    if (s->recv_credit >= 0 && n > (uint64_t)s->recv_credit)
        n = (uint64_t)s->recv_credit;
    if (weir__iosim_coin(net, 2))
        n = weir__iosim_draw(net, n) + 1;
    if (n < e->in_bytes)
        weir__iosim_fault(net, WEIR__IOSIM_CUT);
    return (size_t)n;
}

static bool hint(struct weir__iosim_net *net, bool truth) {
    if (!weir__iosim_coin(net, 8))
        return truth;
    weir__iosim_fault(net, WEIR__IOSIM_HINT);
    return !truth;
}

static bool receive_one(struct weir__iosim_sock *s, struct weir__io_done *out) {
    struct weir__iosim_net *net = s->door->net;
    struct weir__iosim_end *e = s->file->end;
    if (!e->in_bytes)
        return fail(s, WEIR__IOSIM_OP_RECV, weir__iosim_sock_over(s));
    bool starve = weir__base_rng_chance_ppm(&net->rng, net->opt.enomem_ppm);
    if (starve && !e->parked) /* parked bytes have their buffer already */
        return weir__iosim_sock_no_buffer(s);
    size_t n = receive_cut(s, e);
    if (weir_slice_new(s->door->io.mem, n, &out->slice) < 0)
        return weir__iosim_sock_no_buffer(s);
    must(weir__iosim_end_take(e, out->slice.p, n) == n);
    out->kind = WEIR__IO_RECEIVED;
    out->more = hint(net, e->in_bytes > 0);
    weir__io_count(&s->door->io.stats.receives, 1);
    weir__io_count(&s->door->io.stats.received_bytes, n);
    if (s->recv_credit >= 0 && (s->recv_credit -= (int64_t)n) == 0)
        weir__iosim_sock_end(s, WEIR__IOSIM_OP_RECV, WEIR__IO_CREDIT);
    return true;
}

bool weir__iosim_sock_receive(struct weir__iosim_sock *s, struct weir__io_done *out) {
    bool got = false;
    if (something(s))
        got = s->recv_fds               ? weir__iosim_fds_one(s)
              : !s->file->port          ? receive_one(s, out)
              : s->file->port->datagram ? weir__iosim_dgram_one(s, out)
                                        : accept_one(s, out);
    weir__iosim_sock_look(s);
    return got;
}

/* --- yielding -------------------------------------------------------------------------------- */

static enum weir__io_kind kind_of(const struct weir__iosim_sock *s, enum weir__iosim_op op) {
    switch (op) {
    case WEIR__IOSIM_OP_ACCEPT: return WEIR__IO_ACCEPTED;
    case WEIR__IOSIM_OP_CONNECT: return WEIR__IO_CONNECTED;
    case WEIR__IOSIM_OP_SEND: return WEIR__IO_SENT;
    default: return s->recv_fds ? WEIR__IO_FDS : s->datagram ? WEIR__IO_DGRAM : WEIR__IO_RECEIVED;
    }
}

static enum weir__iosim_op pick(struct weir__iosim_sock *s) {
    uint64_t n = 0;
    enum weir__iosim_op chosen = WEIR__IOSIM_OPS;
    for (int i = 0; i < WEIR__IOSIM_OPS; i++)
        if (s->ended & BIT(i) && weir__iosim_draw(s->door->net, ++n) == 0)
            chosen = (enum weir__iosim_op)i;
    return chosen;
}

void weir__iosim_sock_yield(struct weir__iosim_sock *s, struct weir__io_done *out) {
    enum weir__iosim_op op = pick(s);
    out->last = true;
    if (s->unpinned && (op == WEIR__IOSIM_OPS || weir__iosim_coin(s->door->net, 2))) {
        weir__iosim_pin_yield(s, out);
        weir__iosim_door_terminal(s, s->ended || s->unpinned);
        return;
    }
    if (op == WEIR__IOSIM_OPS) {
        must(s->ended == CLOSED_BIT);
        out->kind = WEIR__IO_CLOSED;
        s->ended = 0;
        weir__iosim_door_terminal(s, false);
        weir__iosim_sock_free(s);
        return;
    }
    out->kind = kind_of(s, op);
    out->code = s->code[op];
    s->ended &= (uint8_t)~BIT(op);
    s->armed &= (uint8_t)~BIT(op);
    if (op == WEIR__IOSIM_OP_CONNECT && !out->code)
        s->connected = true;
    if (op == WEIR__IOSIM_OP_SEND) {
        out->count = s->sent_bytes;
        if (s->may_pin) {
            weir__iosim_pin(s, out);
            settle(s);
        }
        s->send = NULL;
        s->send_file = NULL;
        s->send_fds = NULL;
    }
    if (op == WEIR__IOSIM_OP_RECV && s->recv_fds) {
        out->count = out->code ? 0 : s->recv_fds->n;
        s->recv_fds = NULL;
    }
    weir__iosim_door_terminal(s, s->ended || s->unpinned);
}
