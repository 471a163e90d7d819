/* Input: from the door into the first reader, leftovers, the end of the stream, and when to read at
 * all. */
#include "chan/chan.h"

static WEIR_NOINLINE void set_stalled(struct weir_ctx *c, bool stalled) {
    struct weir_chan *ch = c->chan;
    if (c->stalled == stalled)
        return;
    c->stalled = stalled;
    ch->stalls = (uint16_t)(stalled ? ch->stalls + 1 : ch->stalls - 1);
    if (ch->stalls)
        ch->paused |= WEIR__CHAN_PAUSE_STALL;
    else
        ch->paused &= (uint8_t)~WEIR__CHAN_PAUSE_STALL;
}

/* One call: its answer, and how many bytes it took. */
WEIR_INLINE int read_once(struct weir_chan *ch, struct weir_ctx *c, uint64_t *took) {
    c->offered = c->in.bytes;
    weir__loop_frame_enter(&ch->loop->account, c->account, ch->ref);
    c->reading = 1;
    int rc = c->handler->read(c, &c->in);
    c->reading = 0;
    weir__chan_leave(ch);
    check(c->in.bytes <= c->offered);
    *took = c->offered - c->in.bytes;
    ch->leftover -= *took;
    weir__loop_add(&c->account->bytes, *took);
    return rc;
}

/* Its read runs, and sees the new bytes when its loop below looks again; or it is not open yet: its
 * neighbour sends from inside open, and its own comes first. */
static WEIR_NOINLINE void not_now(struct weir_ctx *c) {
    if (!c->reading)
        weir_ctx_wake(c);
}

/* Calls c's read while it takes and has at least what it wants. */
WEIR_INLINE void read_on(struct weir_chan *ch, struct weir_ctx *c) {
    if (unlikely(c->reading || !c->opened)) {
        not_now(c);
        return;
    }
    while (c->in.bytes >= c->want) {
        uint64_t took;
        int rc = read_once(ch, c, &took);
        if (unlikely(rc < 0)) {
            weir__chan_close(ch, rc, false);
            return;
        }
        if (unlikely(c->removed) || unlikely(!weir__chan_live(ch)))
            return;
        if (unlikely(took == 0)) {
            set_stalled(c, c->in.bytes >= c->want);
            return;
        }
    }
    if (unlikely(c->stalled))
        set_stalled(c, false);
}

void weir__chan_read_ctx(struct weir_ctx *c) {
    read_on(c->chan, c);
}

void weir__chan_drop_leftover(struct weir_ctx *c) {
    c->chan->leftover -= c->in.bytes;
    c->offered = 0;
    weir_chain_fini(&c->in);
    set_stalled(c, false);
}

/* A leftover must not pin a whole receive buffer for a few bytes. Failing to copy is not an error:
 * it is only less frugal. */
static void compact_leftovers(struct weir_chan *ch) {
    for (struct weir_ctx *c = ch->head; c; c = c->next)
        if (c->in.bytes)
            (void)weir__mem_chain_compact(ch->mem, &c->in);
}

static void tell_read_done(struct weir_chan *ch) {
    for (struct weir_ctx *c = ch->head, *next; c; c = next) {
        next = c->next;
        if (!c->handler->read_done || !weir__chan_callable(c))
            continue;
        weir__chan_enter(c);
        c->handler->read_done(c);
        weir__chan_leave(ch);
    }
}

WEIR_INLINE void end_of_batch(struct weir_chan *ch, bool more) {
    if (unlikely(ch->read_dones))
        tell_read_done(ch);
    ch->in_batch = 0;
    if (unlikely(ch->leftover))
        compact_leftovers(ch);
    if (more && !ch->paused && !ch->unwritable) {
        weir__chan_dirty(ch); /* the next slice is on its way: flush with it, or in the drain */
        return;
    }
    if (likely(weir__chan_is_settled(ch)) && likely(weir__chan_flush_small(ch)))
        return;
    weir__chan_flush(ch);
    weir__chan_settle(ch);
}

static void charge_credit(struct weir_chan *ch, uint64_t n) {
    ch->credit -= (int64_t)n;
    if (ch->credit <= 0) {
        ch->credit = 0;
        ch->paused |= WEIR__CHAN_PAUSE_CREDIT;
    }
}

/* Nobody reads, or there is no memory for a link: bytes that cannot be kept end the channel. */
static WEIR_NOINLINE void not_taken(struct weir_chan *ch, struct weir__io_done *d, int why) {
    weir_slice_release(&d->slice);
    weir__chan_close(ch, why, true);
}

WEIR_INLINE void on_bytes(struct weir_chan *ch, struct weir__io_done *d, bool more) {
    struct weir_ctx *c = weir__chan_next_reader(ch->head);
    uint64_t n = d->slice.n;
    if (count_if(!c)) {
        not_taken(ch, d, WEIR_EBUG);
        return;
    }
    WEIR_PROBE_READ(ch->ref, n);
    ch->read_ns = ch->loop->now_ns;
    if (unlikely(ch->credit > 0))
        charge_credit(ch, n);
    struct weir_part *part = weir__mem_part_new(ch->mem);
    if (unlikely(!part)) {
        not_taken(ch, d, WEIR_ENOMEM);
        return;
    }
    part->slice = d->slice;
    weir__mem_chain_link(&c->in, part);
    ch->leftover += n;
    ch->in_batch = ch->heard = 1;
    read_on(ch, c);
    end_of_batch(ch, more);
}

/* More follows at once; or draining, but a handler holds, or the channel came late. */
static void on_rare_bytes(struct weir_chan *ch, struct weir__io_done *d) {
    bool more = d->more, open = ch->state == WEIR__CHAN_OPEN;
    on_bytes(ch, d, more);
    if (!open && !more)
        weir__chan_not_late(ch);
}

/* Past OPEN bytes have no reader: they are dropped, and lingering ends when the peer sends more
 * than it should. */
static void on_unwanted(struct weir_chan *ch, struct weir__io_done *d) {
    uint32_t n = (uint32_t)d->slice.n;
    WEIR_PROBE_READ(ch->ref, d->slice.n);
    weir_slice_release(&d->slice);
    if (ch->state != WEIR__CHAN_LINGER)
        return;
    if (n >= ch->linger_left)
        weir__chan_close(ch, 0, true);
    else
        ch->linger_left -= n;
}

static void on_last(struct weir_chan *ch, int code) {
    ch->armed = ch->cancelling = 0;
    if (ch->state == WEIR__CHAN_CLOSING)
        return;
    switch (code) {
    case WEIR__IO_EOF:
        ch->paused |= WEIR__CHAN_PAUSE_EOF;
        ch->eof_pending = ch->eof_clean = 1;
        weir__chan_not_late(ch);
        break;
    case WEIR__IO_CREDIT:
    case WEIR_ECANCELLED: break;
    case WEIR_ENOMEM:
        ch->paused |= WEIR__CHAN_PAUSE_BUFFERS;
        weir__chan_deadline_set(ch, WEIR__CHAN_DL_BUFFERS, 10);
        break;
    default: weir__chan_close(ch, code, true); return;
    }
    weir__chan_offer(ch);
    weir__chan_dirty(ch);
}

static WEIR_NOINLINE void on_rare(struct weir_chan *ch, struct weir__io_done *d) {
    if (d->kind != WEIR__IO_RECEIVED)
        weir__chan_on_other(ch, d);
    else if (d->last)
        on_last(ch, d->code);
    else if (weir__chan_live(ch))
        on_rare_bytes(ch, d);
    else
        on_unwanted(ch, d);
}

/* Bytes for an open channel take the short way: to its handler and out again, all in here. */
void weir__chan_on_io(struct weir__loop_sink *s, struct weir__io_done *d) {
    struct weir_chan *ch = container_of(s, struct weir_chan, sink);
    if (likely(d->kind == WEIR__IO_RECEIVED) && likely(!d->last) && likely(!d->more) &&
        likely(ch->state == WEIR__CHAN_OPEN))
        on_bytes(ch, d, false);
    else
        on_rare(ch, d);
}

/* The end waits, handler by handler, until all before it was taken. Bytes below `want` can never be
 * taken: they make it unclean. */
static void offer_eof(struct weir_chan *ch) {
    for (struct weir_ctx *c = ch->head, *next; c; c = next) {
        next = c->next;
        if (c->eof_seen)
            continue;
        if (c->in.bytes >= c->want || c->reading)
            return;
        if (c->in.bytes) {
            ch->eof_clean = 0;
            weir__chan_drop_leftover(c);
        }
        c->eof_seen = 1;
        if (!c->handler->eof || !weir__chan_callable(c))
            continue;
        weir__chan_enter(c);
        c->handler->eof(c, ch->eof_clean);
        weir__chan_leave(ch);
        if (!weir__chan_live(ch))
            return;
        next = c->removed ? ch->head : c->next;
    }
    ch->eof_pending = 0;
    if (!ch->plan->limits.half_open)
        weir__chan_close(ch, 0, false);
}

void weir__chan_offer(struct weir_chan *ch) {
    for (struct weir_ctx *c = ch->head; c && weir__chan_live(ch); c = c->next)
        if (c->in.bytes && c->handler->read && weir__chan_callable(c))
            weir__chan_read_ctx(c);
    if (ch->eof_pending && weir__chan_live(ch))
        offer_eof(ch);
}

static bool reading_wanted(const struct weir_chan *ch) {
    if (weir__chan_live(ch))
        return !ch->paused;
    if (ch->state == WEIR__CHAN_DRAINING || ch->state == WEIR__CHAN_LINGER)
        return !(ch->paused & (WEIR__CHAN_PAUSE_EOF | WEIR__CHAN_PAUSE_BUFFERS));
    return false;
}

void weir__chan_arm_read(struct weir_chan *ch) {
    bool want = reading_wanted(ch);
    if (likely(
            want ==
            ch->armed)) /* also while a cancel is under way: its last completion comes back here */
        return;
    if (!want) {
        if (!ch->cancelling) {
            ch->cancelling = 1;
            ch->io->ops->cancel(ch->io, ch->sock, WEIR__IO_RECV);
        }
        return;
    }
    int64_t credit = weir__chan_live(ch) ? ch->credit : -1;
    int rc = ch->io->ops->recv_arm(ch->io, ch->sock, credit);
    ch->armed = rc == 0;
    if (count_if(rc < 0))
        weir__chan_close(ch, rc, true);
}

void weir_chan_credit(struct weir_chan *ch, int64_t bytes) {
    bool was_unlimited = ch->credit < 0;
    ch->credit = bytes < 0 ? -1 : bytes;
    if (bytes == 0)
        ch->paused |= WEIR__CHAN_PAUSE_CREDIT;
    else
        ch->paused &= (uint8_t)~WEIR__CHAN_PAUSE_CREDIT;
    if (ch->armed && !ch->cancelling && !(was_unlimited && bytes < 0)) {
        ch->cancelling = 1; /* the arm has the old credit: it ends, and the next one gets the new */
        ch->io->ops->cancel(ch->io, ch->sock, WEIR__IO_RECV);
    }
    if (bytes != 0)
        ch->offer = 1;
    weir__chan_dirty(ch);
}
