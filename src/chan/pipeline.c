/* The pipeline: contexts in a row from the socket to the tail, bytes in both directions, contexts
 * that come and go. */
#include "chan/chan.h"

struct weir_ctx *weir__chan_ctx_init(void *where, struct weir_chan *ch,
                                     const struct weir_handler *h,
                                     struct weir__loop_handler *account) {
    struct weir_ctx *c = where; /* zeroed */
    c->chan = ch;
    c->handler = h;
    c->account = account;
    c->want = 1;
    return c;
}

int weir__chan_ctx_open(struct weir_ctx *c, const void *config) {
    int rc = 0;
    if (c->handler->open) {
        weir__chan_enter(c);
        rc = c->handler->open(c, config);
        weir__chan_leave(c->chan);
    }
    if (rc < 0)
        return rc; /* it refused: nothing else of it is ever called */
    c->opened = 1;
    c->chan->read_dones = (uint16_t)(c->chan->read_dones + (c->handler->read_done != NULL));
    c->chan->writers = (uint16_t)(c->chan->writers + (c->handler->write != NULL));
    return 0;
}

static void close_ctx(struct weir_ctx *c, int why) {
    if (!c->opened)
        return;
    c->opened = 0;
    c->chan->read_dones = (uint16_t)(c->chan->read_dones - (c->handler->read_done != NULL));
    c->chan->writers = (uint16_t)(c->chan->writers - (c->handler->write != NULL));
    if (!c->handler->close)
        return;
    weir__chan_enter(c);
    c->handler->close(c, why);
    weir__chan_leave(c->chan);
}

struct inserted { /* a context that does not lie in its channel, and may end before it */
    struct weir__loop_grave grave;
    alignas(16) struct weir_ctx ctx;
};

static void bury_ctx(struct weir__loop_grave *g) {
    weir_mem_free(container_of(g, struct inserted, grave));
}

static void unlink_ctx(struct weir_ctx *c) {
    struct weir_chan *ch = c->chan;
    *(c->prev ? &c->prev->next : &ch->head) = c->next;
    *(c->next ? &c->next->prev : &ch->tail) = c->prev;
    c->removed = 1;
    if (c->inserted)
        weir__loop_bury(ch->loop, &container_of(c, struct inserted, ctx)->grave);
}

/* From the tail to the socket, so that a handler's close may still look at what is in front of it.
 */
void weir__chan_close_ctxs(struct weir_chan *ch) {
    struct weir_ctx *c;
    while ((c = ch->tail)) {
        close_ctx(c, ch->why);
        weir__chan_drop_leftover(c);
        unlink_ctx(c);
    }
}

static void event_from(struct weir_ctx *c, int what, const void *data) {
    for (struct weir_ctx *next; c; c = next) {
        next = c->next;
        if (!c->handler->event || !weir__chan_callable(c))
            continue;
        weir__chan_enter(c);
        c->handler->event(c, what, data);
        weir__chan_leave(c->chan);
    }
}

void weir__chan_event_all(struct weir_chan *ch, int what, const void *data) {
    event_from(ch->head, what, data);
}

void weir_ctx_notify(struct weir_ctx *c, int what, const void *data) {
    event_from(c->next, what, data);
}

int weir_ctx_forward(struct weir_ctx *c, struct weir_chain *in) {
    struct weir_chan *ch = c->chan;
    if (unlikely(!weir__chan_live(ch)))
        return WEIR_EGONE;
    struct weir_ctx *to = weir__chan_next_reader(c->next);
    if (odd_if(!to)) { /* nobody behind reads: the bytes are for nobody */
        weir_chain_fini(in);
        return 0;
    }
    ch->leftover += in->bytes;
    if (unlikely(to->reading))
        to->offered += in->bytes;
    weir_chain_append(&to->in, in);
    weir__chan_read_ctx(to);
    return 0;
}

static int send_filtered(struct weir_chan *ch, struct weir_ctx *c, struct weir_chain *out) {
    while (c && !(c->handler->write && c->opened))
        c = c->prev;
    if (!c)
        return weir__chan_queue(ch, out);
    weir__chan_enter(c);
    int rc = c->handler->write(c, out);
    weir__chan_leave(ch);
    return rc;
}

static WEIR_NOINLINE int send_slowly(struct weir_chan *ch, struct weir_ctx *c,
                                     struct weir_chain *out) {
    if (!weir__chan_sendable(ch))
        return WEIR_EGONE;
    if (!out->bytes) {
        weir_chain_fini(out);
        return 0;
    }
    return ch->writers ? send_filtered(ch, c, out) : weir__chan_queue(ch, out);
}

/* c: the first context in front of the sender. */
WEIR_INLINE int send_in_front(struct weir_chan *ch, struct weir_ctx *c, struct weir_chain *out) {
    if (likely(ch->state == WEIR__CHAN_OPEN && ch->in_batch && !(ch->unusual | ch->writers)) &&
        likely(out->bytes) && likely(weir__chan_queue_first(ch, out)))
        return 0;
    return send_slowly(ch, c, out);
}

int weir__chan_send_from(struct weir_chan *ch, struct weir_ctx *from, struct weir_chain *out) {
    return send_in_front(ch, from ? from->prev : ch->tail, out);
}

int weir_ctx_send(struct weir_ctx *c, struct weir_chain *out) {
    return send_in_front(c->chan, c->prev, out);
}

static void link_behind(struct weir_ctx *c, struct weir_ctx *n) {
    n->prev = c;
    n->next = c->next;
    *(c->next ? &c->next->prev : &c->chan->tail) = n;
    c->next = n;
}

int weir_ctx_insert_next(struct weir_ctx *c, const struct weir_handler *h, const void *config) {
    struct weir_chan *ch = c->chan;
    if (ch->state >= WEIR__CHAN_CLOSING)
        return WEIR_EGONE;
    struct inserted *box = weir_mem_new(ch->mem, sizeof *box + h->state_size);
    if (!box)
        return WEIR_ENOMEM;
    struct weir_ctx *n = weir__chan_ctx_init(&box->ctx, ch, h,
                                             weir__loop_intern(&ch->loop->account, h->name));
    n->inserted = 1;
    box->grave.bury = bury_ctx;
    link_behind(c, n);
    int rc = weir__chan_ctx_open(n, config);
    if (rc < 0) {
        weir__chan_drop_leftover(n);
        unlink_ctx(n);
        return rc;
    }
    return 0;
}

void weir_ctx_remove(struct weir_ctx *c) {
    struct weir_chan *ch = c->chan;
    if (!weir__chan_callable(c))
        return; /* it is being closed or was removed before */
    close_ctx(c, 0);
    if (c->reading) { /* its read is still on the stack: what it took so far */
        ch->leftover -= c->offered - c->in.bytes;
        c->offered = c->in.bytes;
    }
    struct weir_ctx *to = weir__chan_next_reader(c->next);
    if (c->in.bytes && to) {
        if (to->reading)
            to->offered += c->in.bytes;
        weir_chain_append(&to->in, &c->in); /* what c left is newer than what it passed on */
        ch->offer = 1;
    }
    weir__chan_drop_leftover(c);
    unlink_ctx(c);
    weir__chan_dirty(ch);
}

void weir_ctx_want(struct weir_ctx *c, size_t bytes) {
    bytes = bytes ? bytes : 1;
    if (likely(c->want == bytes))
        return;
    c->want = bytes;
    if (unlikely(!c->reading && c->in.bytes))
        weir_ctx_wake(c); /* what it left may be enough now, or no longer a stall */
}

void weir_ctx_wake(struct weir_ctx *c) {
    c->chan->offer = 1;
    weir__chan_dirty(c->chan);
}

void weir_ctx_hold(struct weir_ctx *c) {
    c->chan->holds++;
}

void weir_ctx_unhold(struct weir_ctx *c) {
    must(c->chan->holds > 0);
    if (--c->chan->holds == 0)
        weir__chan_dirty(c->chan);
}

void *weir_ctx_state(struct weir_ctx *c) {
    return c->state;
}

struct weir_mem *weir_ctx_mem(struct weir_ctx *c) {
    return c->chan->mem;
}

struct weir_chan *weir_ctx_chan(struct weir_ctx *c) {
    return c->chan;
}

struct weir_loop *weir_ctx_loop(struct weir_ctx *c) {
    return c->chan->loop;
}
