/* Output: queue, marks, one batch in flight, its terminal. The four counters are in docs/adr/0001.
 */
#include "chan/chan.h"

enum { BATCH_MIN = WEIR__CHAN_BATCH_MIN, BATCH_MAX = WEIR__IO_SEND_BYTES_MAX, GROW_AFTER = 2 };

static uint64_t pinned_held(const struct weir_chan *ch) {
    const struct weir__chan_pins *p = weir__chan_pinned(ch);
    return p ? p->held : 0;
}

uint64_t weir__chan_held(const struct weir_chan *ch) {
    return weir__mem_chain_capacity(&ch->queue) + weir__mem_chain_capacity(&ch->inflight) +
           pinned_held(ch);
}

/* Walking the chains costs. As long as four times the bytes is below the limit it can hardly be
 * reached, since what waits is compacted; every 64th send looks exactly, so that many small
 * overshoots cannot add up unseen. */
static bool over_held(struct weir_chan *ch, const struct weir_chain *out) {
    uint64_t bytes = ch->queue.bytes + ch->inflight.bytes + out->bytes + pinned_held(ch);
    if (likely(bytes * 4 <= ch->plan->limits.held_max && (++ch->unwalked & 63)))
        return false;
    return weir__chan_held(ch) + weir__mem_chain_capacity(out) > ch->plan->limits.held_max;
}

/* What will wait must not pin much more than it says. Failing to copy is not an error: it is only
 * less frugal. */
static void slim(struct weir_chan *ch, struct weir_chain *out) {
    if (weir__mem_chain_capacity(out) > 4 * out->bytes + 4096)
        (void)weir__mem_chain_compact(ch->mem, out);
}

/* Something waits already, or it is large. */
WEIR_NOINLINE int weir__chan_queue_more(struct weir_chan *ch, struct weir_chain *out) {
    if (unlikely(over_held(ch, out))) {
        ch->unwritable = 1;
        weir__chan_dirty(ch);
        return WEIR_EFULL;
    }
    WEIR_PROBE_WRITE(ch->ref, out->bytes);
    slim(ch, out);
    weir__mem_chain_append(&ch->queue, out);
    if (unlikely(ch->queue.bytes >= ch->plan->limits.high_bytes))
        ch->unwritable = 1;
    if (unlikely(!ch->in_batch || ch->unwritable))
        weir__chan_dirty(ch);
    return 0;
}

static bool is_file(const struct weir_part *p) {
    return p->file != NULL;
}

/* The bytes of the next gather: whole parts up to the batch, at most 64, no file region; a first
 * part larger than that is cut. */
static uint64_t gather_bytes(const struct weir_chan *ch) {
    uint64_t limit = ch->batch, bytes = 0;
    unsigned parts = 0;
    for (const struct weir_part *p = ch->queue.first; p && !is_file(p); p = p->next) {
        if (bytes + p->slice.n > limit || parts++ == WEIR__IO_SEND_SLICES_MAX)
            break;
        bytes += p->slice.n;
        if (bytes == ch->queue.bytes)
            break;
    }
    return bytes ? bytes : limit;
}

static WEIR_NOINLINE int fill_part(struct weir_chan *ch) {
    const struct weir_part *p = ch->queue.first;
    ch->file_flight = is_file(p);
    uint64_t n = is_file(p) ? p->slice.n : gather_bytes(ch);
    if (n < ch->queue.bytes || ch->file_flight)
        return weir_chain_move(ch->mem, &ch->inflight, &ch->queue, n);
    weir__chan_all_aboard(ch);
    return 0;
}

static int fill_flight(struct weir_chan *ch) {
    if (!weir__chan_queue_is_small(ch, ch->batch))
        return fill_part(ch);
    weir__chan_all_aboard(ch);
    return 0;
}

static bool goes_uncopied(struct weir_chan *ch) {
    uint32_t least = ch->plan->limits.zero_copy_bytes;
    return unlikely(least != 0) && ch->inflight.bytes >= least &&
           ch->io->ops->send_zc != ch->io->ops->send && weir__chan_pin_prepare(ch);
}

static int hand_over(struct weir_chan *ch) {
    if (likely(!ch->file_flight))
        return (goes_uncopied(ch) ? ch->io->ops->send_zc : ch->io->ops->send)(ch->io, ch->sock,
                                                                              &ch->inflight);
    const struct weir_part *p = ch->inflight.first;
    return ch->io->ops->send_file(ch->io, ch->sock, p->file, p->file_off, p->slice.n);
}

/* Batches double after two whose terminal came before a wait that slept, and fall back when one did
 * not. */
static void adapt_batch(struct weir_chan *ch, bool at_once) {
    if (ch->plan->limits.batch_bytes)
        return; /* fixed */
    if (!at_once) {
        ch->batch = BATCH_MIN;
        ch->batch_streak = 0;
    } else if (++ch->batch_streak >= GROW_AFTER && ch->batch < BATCH_MAX) {
        ch->batch *= 2;
        ch->batch_streak = 0;
    }
}

WEIR_INLINE void flight_over(struct weir_chan *ch, uint64_t bytes, bool at_once) {
    ch->written_ns = ch->loop->now_ns;
    if (unlikely(bytes >= ch->batch))
        adapt_batch(ch, at_once);
    weir__mem_chain_fini(&ch->inflight);
    ch->file_flight = 0;
    if (unlikely(ch->queue.bytes || ch->unusual || ch->state != WEIR__CHAN_OPEN))
        weir__chan_dirty(ch);
}

/* The stream cannot be written any more. What the peer sent before is still read, so that data
 * comes before the error. */
static void write_failed(struct weir_chan *ch, int code) {
    weir_chain_fini(&ch->inflight);
    weir_chain_fini(&ch->queue);
    ch->file_flight = 0;
    ch->write_dead = 1;
    ch->unwritable = ch->announced = ch->pull_ready = 0;
    ch->paused &= (uint8_t)~WEIR__CHAN_PAUSE_OUTPUT;
    if (!ch->why)
        ch->why = code;
    bool ours = code == WEIR_ETRUNCATED; /* not the peer's doing: it has nothing to tell about it */
    if (ours || ch->state != WEIR__CHAN_OPEN || (ch->paused & ~WEIR__CHAN_PAUSE_STALL)) {
        weir__chan_close(ch, code, true);
        return;
    }
    ch->offer = 1; /* a reader that waited for room waits no longer */
    weir__chan_deadline_set(ch, WEIR__CHAN_DL_STAGE, ch->plan->limits.linger_ms);
    weir__chan_dirty(ch);
}

void weir__chan_flying(struct weir_chan *ch, int rc) {
    if (rc < 0)
        write_failed(ch, rc);
    else
        ch->flight_slept = (uint32_t)ch->loop->slept;
}

void weir__chan_flush(struct weir_chan *ch) {
    if (!ch->queue.bytes || ch->inflight.bytes)
        return;
    if (unlikely(ch->state != WEIR__CHAN_OPEN && ch->state != WEIR__CHAN_DRAINING))
        return;
    int rc = fill_flight(ch);
    if (unlikely(rc < 0)) {
        weir__chan_close(ch, rc, true);
        return;
    }
    WEIR_PROBE_FLUSH(ch->ref, ch->inflight.bytes);
    rc = hand_over(ch);
    if (rc == 1)
        flight_over(ch, ch->inflight.bytes, true);
    else
        weir__chan_flying(ch, rc);
}

void weir__chan_on_sent(struct weir_chan *ch, struct weir__io_done *d) {
    uint64_t bytes = ch->inflight.bytes;
    if (unlikely(d->pinned))
        weir__chan_pin(ch, d->handle);
    if (ch->state == WEIR__CHAN_CLOSING) {
        weir_chain_fini(&ch->inflight);
        return;
    }
    if (likely(d->code == 0))
        flight_over(ch, bytes, (uint32_t)ch->loop->slept == ch->flight_slept);
    else
        write_failed(ch, d->code);
}

static void tell_writable(struct weir_chan *ch, bool yes) {
    for (struct weir_ctx *c = ch->head, *next; c && ch->state == WEIR__CHAN_OPEN; c = next) {
        next = c->next;
        if (!c->handler->writable || !c->opened)
            continue;
        weir__chan_enter(c);
        c->handler->writable(c, yes);
        weir__chan_leave(ch);
    }
}

static bool below_low(const struct weir_chan *ch) {
    if (ch->queue.bytes > ch->plan->limits.low_bytes)
        return false;
    uint64_t bytes = ch->queue.bytes + ch->inflight.bytes + pinned_held(ch);
    return bytes * 8 <= ch->plan->limits.held_max ||
           weir__chan_held(ch) <= ch->plan->limits.held_max / 2;
}

void weir__chan_marks(struct weir_chan *ch) {
    if (likely(!ch->unwritable) || !weir__chan_live(ch))
        return;
    if (below_low(ch)) {
        ch->unwritable = ch->announced = 0;
        tell_writable(ch, true);
        ch->offer = 1;
    }
    /* Also when it was filled again from inside the callback, whatever the door took meanwhile. */
    if (ch->unwritable && !ch->announced && !below_low(ch)) {
        ch->announced = 1;
        tell_writable(ch, false);
    }
}

static struct weir_ctx *next_puller(struct weir_ctx *c) {
    while (c && !(c->handler->pull && c->opened))
        c = c->next;
    return c;
}

static int64_t pull_ctx(struct weir_ctx *c, uint64_t room) {
    if (!c)
        return 0;
    struct weir_chan *ch = c->chan;
    weir__chan_enter(c);
    ch->pulling++;
    int64_t n = c->handler->pull(c, room);
    ch->pulling--;
    weir__chan_leave(ch);
    return n;
}

static bool may_pull(const struct weir_chan *ch) {
    return ch->pull_ready && !ch->inflight.bytes && !ch->write_dead && !ch->write_shut &&
           (ch->state == WEIR__CHAN_OPEN || ch->state == WEIR__CHAN_DRAINING);
}

/* At most a batch in all: a filter may keep what it was given, so the queue alone does not tell. */
void weir__chan_pull(struct weir_chan *ch) {
    uint64_t limit = ch->batch, pulled = 0;
    while (may_pull(ch) && ch->queue.bytes < limit && pulled < limit) {
        int64_t n = pull_ctx(next_puller(ch->head), limit - ch->queue.bytes);
        if (n <= 0)
            ch->pull_ready = 0;
        if (n < 0)
            weir__chan_close(ch, (int)n, ch->state == WEIR__CHAN_DRAINING);
        pulled += n > 0 ? (uint64_t)n : 0;
    }
    if (may_pull(ch) && !ch->queue.bytes)
        weir__chan_dirty(ch);
}

int64_t weir_ctx_pull(struct weir_ctx *c, uint64_t room) {
    return pull_ctx(next_puller(c->next), room);
}

void weir_ctx_ready(struct weir_ctx *c) {
    c->chan->pull_ready = 1;
    weir__chan_dirty(c->chan);
}

int64_t weir_ctx_room(const struct weir_ctx *c) {
    const struct weir_chan *ch = c->chan;
    return ch->unwritable ? 0 : (int64_t)ch->plan->limits.high_bytes - (int64_t)ch->queue.bytes;
}

void weir_ctx_stage(struct weir_ctx *c, int64_t delta) {
    check(delta >= 0 || c->chan->staged >= (uint64_t)-delta);
    c->chan->staged += (uint64_t)delta;
}

void weir_chan_flush(struct weir_chan *ch) {
    weir__chan_flush(ch);
}

void weir_chan_shutdown(struct weir_chan *ch) {
    ch->shut_asked = 1;
    weir__chan_dirty(ch);
}

void weir_chan_counters(const struct weir_chan *ch, struct weir_chan_counters *out) {
    const struct weir__chan_pins *pins = weir__chan_pinned(ch);
    *out = (struct weir_chan_counters){
        .staged = ch->staged,
        .queued = ch->queue.bytes,
        .inflight = ch->inflight.bytes,
        .pinned = pins ? pins->bytes : 0,
        .held = weir__chan_held(ch),
        .leftover = ch->leftover,
    };
}
