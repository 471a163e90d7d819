/* Birth, the drain, and the close protocol. The states are drawn in chan.h. */
#include "chan/chan.h"
#include <stddef.h>

static void on_drain(struct weir__loop_dirty *d);
static void on_stop(struct weir__loop_member *m, bool abort);
static void on_bury(struct weir__loop_grave *g);

void weir__chan_dirty(struct weir_chan *ch) {
    if (!ch->dirty.queued && ch->state != WEIR__CHAN_DEAD)
        weir__loop_dirty_mark(ch->loop, &ch->dirty);
}

/* --- birth -------------------------------------------------------------------------------- */

static struct weir_chan *chan_new(struct weir__chan_plan *p) {
    struct weir_chan *ch = weir_mem_new(p->loop->mem, p->bytes);
    if (!ch)
        return NULL;
    ch->sink.done = weir__chan_on_io;
    ch->loop = p->loop;
    ch->io = p->loop->io;
    ch->mem = p->loop->mem;
    ch->plan = p;
    ch->read_while_full = p->limits.read_while_full;
    ch->read_idle_ms = p->limits.read_idle_ms;
    ch->credit = -1;
    ch->batch = p->limits.batch_bytes ? p->limits.batch_bytes : WEIR__CHAN_BATCH_MIN;
    ch->linger_left = 1 << 20;
    ch->dirty.drain = on_drain;
    ch->member.stop = on_stop;
    p->refs++;
    return ch;
}

static void chan_drop(struct weir_chan *ch) { /* one that nobody has seen */
    weir__chan_plan_release(ch->plan);
    weir_mem_free(ch);
}

static void chan_join(struct weir_chan *ch) {
    ch->ref = ch->sock->ref;
    weir__loop_member_add(ch->loop, &ch->member);
    weir__loop_add(&ch->loop->counters.channels, 1);
}

static void lay_pipeline(struct weir_chan *ch) {
    const struct weir__chan_plan *p = ch->plan;
    uint8_t *at = (uint8_t *)ch + ((sizeof *ch + 15) & ~(size_t)15);
    for (unsigned i = 0; i < p->n_stages; i++) {
        struct weir_ctx *c = weir__chan_ctx_init(at, ch, p->stages[i].handler,
                                                 p->stages[i].account);
        c->prev = ch->tail;
        *(ch->tail ? &ch->tail->next : &ch->head) = c;
        ch->tail = c;
        at += weir__chan_ctx_bytes(p->stages[i].handler);
    }
}

static bool may_open(const struct weir_chan *ch) {
    return ch->state == WEIR__CHAN_OPEN || (ch->late && weir__chan_live(ch));
}

/* Opens the handlers, socket side first. One that refuses ends the channel; those behind it are
 * never opened, and never closed. */
static void open_from(struct weir_chan *ch, struct weir_ctx *c) {
    const struct weir__chan_plan *p = ch->plan;
    while (ch->n_opened < p->n_stages && !ch->openings_held && may_open(ch)) {
        struct weir_ctx *next = c->next;
        int rc = weir__chan_ctx_open(c, p->stages[ch->n_opened++].config);
        if (unlikely(rc < 0)) {
            weir__chan_close(ch, rc, false);
            weir__chan_not_late(ch);
            return;
        }
        c = next;
    }
}

static void open_channel(struct weir_chan *ch) {
    ch->state = WEIR__CHAN_OPEN;
    weir__loop_add(&ch->loop->counters.opened, 1);
    weir__chan_idle_begin(ch);
    open_from(ch, ch->head);
}

void weir__chan_hold_openings(struct weir_chan *ch) {
    ch->openings_held = 1;
}

/* What is open comes first, and what was inserted is open: the first that is not is the next stage.
 */
void weir__chan_open_rest(struct weir_chan *ch) {
    struct weir_ctx *c = ch->head;
    ch->openings_held = 0;
    while (c && c->opened)
        c = c->next;
    if (c)
        open_from(ch, c);
}

/* The loop ends, but this one was let in and never heard, and its request may be with the kernel
 * already: the drain waits for the first bytes and their answer, a moment. */
static void hold_late(struct weir_chan *ch) {
    ch->late = 1;
    ch->holds++;
    weir__chan_deadline_set(ch, WEIR__CHAN_DL_LATE, WEIR__CHAN_LATE_MS);
}

void weir__chan_not_late(struct weir_chan *ch) {
    if (!ch->late)
        return;
    ch->late = 0;
    ch->holds--;
    weir__chan_dirty(ch);
}

int weir__chan_accept(struct weir__chan_plan *p, intptr_t handle) {
    struct weir_chan *ch = chan_new(p);
    if (!ch)
        return WEIR_ENOMEM;
    int rc = ch->io->ops->attach(ch->io, handle, &ch->sink, &ch->sock);
    if (rc < 0) {
        chan_drop(ch);
        return rc;
    }
    lay_pipeline(ch);
    chan_join(ch);
    WEIR_PROBE_ACCEPT(ch->loop->env.index, ch->ref);
    open_channel(ch);
    if (likely(ch->state == WEIR__CHAN_OPEN))
        weir__chan_arm_read(ch);
    return 0;
}

int weir__chan_connect(struct weir__chan_plan *p, const struct weir_addr *to, uint32_t connect_ms,
                       const struct weir_socket_options *options,
                       void (*fn)(struct weir_chan *ch, int status, void *user), void *user) {
    struct weir_chan *ch = chan_new(p);
    if (!ch)
        return WEIR_ENOMEM;
    struct weir__io_connect o = {.addr = *to, .options = options};
    int rc = ch->io->ops->connect(ch->io, &o, &ch->sink, &ch->sock);
    if (rc < 0) {
        chan_drop(ch);
        return rc;
    }
    lay_pipeline(ch);
    chan_join(ch);
    ch->connected = fn;
    ch->connected_user = user;
    if (!connect_ms)
        connect_ms = 10000;
    weir__chan_deadline_set(ch, WEIR__CHAN_DL_STAGE,
                            connect_ms < INT32_MAX / 2 ? connect_ms : INT32_MAX / 2);
    return 0;
}

struct caller { /* of connect */
    void (*fn)(struct weir_chan *ch, int status, void *user);
    void *user;
};

/* The counters begin in the same place: taken before a handler can stage. */
static struct caller take_caller(struct weir_chan *ch) {
    struct caller c = {ch->connected, ch->connected_user};
    ch->staged = 0;
    ch->pins = NULL;
    return c;
}

/* Exactly once. */
static void tell_connected(struct weir_chan *ch, struct caller c, int status) {
    if (c.fn)
        c.fn(status < 0 ? NULL : ch, status, c.user);
}

static void on_connected(struct weir_chan *ch, int code) {
    if (ch->state != WEIR__CHAN_CONNECTING)
        return;
    if (code < 0) {
        weir__chan_close(ch, code, true);
        return;
    }
    weir__chan_deadline_clear(ch, WEIR__CHAN_DL_STAGE);
    struct caller c = take_caller(ch);
    open_channel(ch);
    if (ch->state == WEIR__CHAN_OPEN)
        tell_connected(ch, c, 0);
    else
        tell_connected(ch, c, ch->why ? ch->why : WEIR_ECANCELLED);
    weir__chan_dirty(ch);
}

/* --- the end ------------------------------------------------------------------------------ */

static void ask_door_to_close(struct weir_chan *ch, bool abort) {
    ch->state = WEIR__CHAN_CLOSING;
    ch->aborted = abort;
    weir_timer_disarm(&ch->timer);
    weir_chain_fini(&ch->queue);
    ch->io->ops->close(ch->io, ch->sock, abort);
}

void weir__chan_close(struct weir_chan *ch, int why, bool abort) {
    if (!ch->why)
        ch->why = why;
    switch (ch->state) {
    case WEIR__CHAN_CONNECTING:
        ask_door_to_close(ch, true);
        tell_connected(ch, take_caller(ch), ch->why ? ch->why : WEIR_ECANCELLED);
        return;
    case WEIR__CHAN_OPEN:
        if (!abort && !ch->write_dead && !ch->drain_told) {
            ch->drain_told = 1;
            weir__chan_event_all(ch, WEIR_EVENT_DRAIN, NULL);
            if (ch->state != WEIR__CHAN_OPEN)
                return; /* an event handler went further */
        }
        if (abort || ch->write_dead) {
            ask_door_to_close(ch, true);
            return;
        }
        ch->state = WEIR__CHAN_DRAINING;
        weir__chan_deadline_set(ch, WEIR__CHAN_DL_STAGE, ch->plan->limits.drain_ms);
        weir__chan_dirty(ch);
        return;
    case WEIR__CHAN_DRAINING:
    case WEIR__CHAN_LINGER:
        if (abort)
            ask_door_to_close(ch, true);
        return;
    case WEIR__CHAN_CLOSING:
        if (abort && !ch->aborted) {
            ch->aborted = 1;
            ch->io->ops->close(ch->io, ch->sock, true);
        }
        return;
    default: return;
    }
}

/* Everything accepted is with the transport: say so to the peer, once. */
static void shut_write_side(struct weir_chan *ch) {
    if (ch->write_shut || ch->write_dead)
        return;
    ch->write_shut = 1;
    int rc = ch->io->ops->shutdown(ch->io, ch->sock);
    if (rc < 0)
        weir__chan_close(ch, rc, true);
}

static void settle_end(struct weir_chan *ch) {
    if (ch->state == WEIR__CHAN_DRAINING) {
        if (!weir__chan_sent_all(ch) || (!ch->write_dead && (ch->pull_ready || ch->holds)))
            return;
        shut_write_side(ch);
        if (ch->state != WEIR__CHAN_DRAINING)
            return;
        ch->state = WEIR__CHAN_LINGER;
        weir__chan_deadline_set(ch, WEIR__CHAN_DL_STAGE, ch->plan->limits.linger_ms);
    }
    if (ch->state == WEIR__CHAN_LINGER && (ch->paused & WEIR__CHAN_PAUSE_EOF))
        ask_door_to_close(ch, false);
}

static void settle_open(struct weir_chan *ch) {
    if (unlikely(ch->shut_asked && !ch->write_shut && weir__chan_sent_all(ch) && !ch->pull_ready))
        shut_write_side(ch);
    if (unlikely(ch->unwritable && !ch->read_while_full &&
                 ch->queue.bytes > ch->plan->limits.low_bytes))
        ch->paused |= WEIR__CHAN_PAUSE_OUTPUT;
    else
        ch->paused &= (uint8_t)~WEIR__CHAN_PAUSE_OUTPUT;
    if (unlikely(ch->write_shut && (ch->paused & WEIR__CHAN_PAUSE_EOF) && !ch->eof_pending))
        weir__chan_close(
            ch, 0, false); /* both directions have ended: there is nothing left to be open for */
}

void weir__chan_settle(struct weir_chan *ch) {
    if (likely(weir__chan_is_settled(ch)))
        return;
    if (weir__chan_live(ch))
        settle_open(ch);
    if (ch->state != WEIR__CHAN_OPEN)
        settle_end(ch);
    if (likely(ch->state < WEIR__CHAN_CLOSING && ch->state != WEIR__CHAN_CONNECTING))
        weir__chan_arm_read(ch);
}

/* Not while it stands on the dirty list: the drain comes back here then. */
static void bury_when_clean(struct weir_chan *ch) {
    if (ch->dirty.queued || ch->buried)
        return;
    ch->buried = 1;
    weir_timer_disarm(&ch->timer);
    ch->grave.bury = on_bury;
    weir__loop_bury(ch->loop, &ch->grave);
}

/* The door has let go: nothing of ours is anywhere else. */
static void on_closed(struct weir_chan *ch) {
    check(ch->state == WEIR__CHAN_CLOSING);
    WEIR_PROBE_CLOSE(ch->loop->env.index, ch->ref, ch->why);
    ch->state = WEIR__CHAN_DEAD;
    ch->sock = NULL;
    weir_chain_fini(&ch->inflight);
    check(!ch->pins || !ch->pins->list); /* every notice comes before CLOSED */
    weir__chan_pins_free(ch);
    weir__chan_close_ctxs(ch);
    if (unlikely(ch->jobs != NULL))
        weir__chan_end_jobs(ch);
    check(ch->leftover == 0 && ch->queue.bytes == 0 && ch->staged == 0);
    weir__loop_member_remove(ch->loop, &ch->member);
    weir__loop_add(&ch->loop->counters.channels, (uint64_t)-1);
    weir__loop_add(&ch->loop->counters.closed, 1);
    bury_when_clean(ch);
}

static void on_bury(struct weir__loop_grave *g) {
    struct weir_chan *ch = container_of(g, struct weir_chan, grave);
    weir_chain_fini(&ch->queue);
    weir__chan_plan_release(ch->plan);
    weir_mem_free(ch->jobs);
    weir_mem_free(ch->origin);
    weir_mem_free(ch);
}

static void on_stop(struct weir__loop_member *m, bool abort) {
    struct weir_chan *ch = container_of(m, struct weir_chan, member);
    if (!abort && ch->state == WEIR__CHAN_OPEN && !ch->heard && !ch->late)
        hold_late(ch);
    weir__chan_close(ch, ch->state == WEIR__CHAN_CONNECTING || abort ? WEIR_ESTOPPED : 0, abort);
}

/* --- what the loop calls ------------------------------------------------------------------ */

void weir__chan_on_other(struct weir_chan *ch, struct weir__io_done *d) {
    switch (d->kind) {
    case WEIR__IO_SENT: weir__chan_on_sent(ch, d); break;
    case WEIR__IO_UNPINNED: weir__chan_on_unpinned(ch, d); break;
    case WEIR__IO_CONNECTED: on_connected(ch, d->code); break;
    case WEIR__IO_CLOSED: on_closed(ch); break;
    default: (void)count_if(true); break;
    }
}

static void on_drain(struct weir__loop_dirty *d) {
    struct weir_chan *ch = container_of(d, struct weir_chan, dirty);
    if (unlikely(ch->state == WEIR__CHAN_DEAD)) {
        bury_when_clean(ch);
        return;
    }
    if (ch->state == WEIR__CHAN_CONNECTING || ch->state == WEIR__CHAN_CLOSING)
        return;
    weir__chan_invariants(ch);
    weir__chan_marks(ch);
    if (ch->offer || ch->eof_pending) {
        ch->offer = 0;
        weir__chan_offer(ch);
    }
    weir__chan_pull(ch);
    weir__chan_flush(ch);
    if (ch->state < WEIR__CHAN_CLOSING)
        weir__chan_settle(ch);
}

void weir__chan_invariants(const struct weir_chan *ch) {
    (void)ch;
#ifdef WEIR_CHECKED
    uint64_t leftover = 0;
    unsigned stalls = 0;
    for (const struct weir_ctx *c = ch->head; c; c = c->next) {
        leftover += c->in.bytes;
        stalls += c->stalled;
        must(c->chan == ch && !c->removed);
        must(c->next ? c->next->prev == c : ch->tail == c);
    }
    must(leftover == ch->leftover && stalls == ch->stalls);
    must(!ch->write_dead || (!ch->queue.bytes && !ch->inflight.bytes));
    must(!ch->cancelling || ch->armed);
    weir__mem_chain_invariants(&ch->queue);
    weir__mem_chain_invariants(&ch->inflight);
#endif
}

/* --- public ------------------------------------------------------------------------------- */

void weir_chan_close(struct weir_chan *ch, enum weir_close how) {
    weir__chan_close(ch, how == WEIR_ABORT ? WEIR_ECANCELLED : 0, how == WEIR_ABORT);
}

void weir_chan_read_while_full(struct weir_chan *ch, bool yes) {
    ch->read_while_full = yes;
    weir__chan_dirty(ch);
}

void weir_chan_fail(struct weir_chan *ch, int why) {
    weir__chan_close(ch, why, false);
}

struct weir_loop *weir_chan_loop(const struct weir_chan *ch) {
    return ch->loop;
}

struct weir_ctx *weir_chan_head(struct weir_chan *ch) {
    return ch->head;
}

struct weir_ctx *weir_chan_ctx(struct weir_chan *ch, const struct weir_handler *h) {
    for (struct weir_ctx *c = ch->head; c; c = c->next)
        if (c->handler == h)
            return c;
    return NULL;
}

void weir__chan_set_origin(struct weir_chan *ch, struct weir__chan_origin *o) {
    must(!ch->origin);
    ch->origin = o;
}

struct weir__chan_origin *weir__chan_origin(const struct weir_chan *ch) {
    return ch->origin;
}

int weir__chan_socket_peer(struct weir_chan *ch, struct weir_addr *out) {
    return ch->sock ? ch->io->ops->peer(ch->io, ch->sock, out) : WEIR_EGONE;
}

static int tell_address(int rc, const struct weir_addr *a, char *text, size_t cap) {
    if (rc >= 0)
        weir__base_addr_format(a, text, cap);
    return rc < 0 ? rc : 0;
}

int weir_chan_local(struct weir_chan *ch, char *text, size_t cap) {
    struct weir_addr a;
    if (ch->origin && ch->origin->local.kind)
        return tell_address(0, &ch->origin->local, text, cap);
    int rc = ch->sock ? ch->io->ops->local(ch->io, ch->sock, &a) : WEIR_EGONE;
    return tell_address(rc, &a, text, cap);
}

int weir_chan_peer(struct weir_chan *ch, char *text, size_t cap) {
    if (ch->origin && ch->origin->peer.kind)
        return tell_address(0, &ch->origin->peer, text, cap);
    return weir_chan_proxy_peer(ch, text, cap);
}

int weir_chan_proxy_peer(struct weir_chan *ch, char *text, size_t cap) {
    struct weir_addr a;
    int rc = weir__chan_socket_peer(ch, &a);
    return tell_address(rc, &a, text, cap);
}

struct weir_chan *weir__chan_of_ref(uint64_t ref) {
    struct weir__io_sock *sock = weir__io_slot_get(ref);
    if (!sock)
        return NULL;
    struct weir__loop_sink *sink = sock->user;
    return sink->done == weir__chan_on_io ? container_of(sink, struct weir_chan, sink) : NULL;
}
