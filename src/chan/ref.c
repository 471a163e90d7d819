/* Refs: what other threads may do to a channel. A send travels in a node of its own; a close uses
 * the slot's own node, so that it never fails for want of memory, and waits on arrival for what its
 * thread had sent before (loop.c, run_inbox). */
#include "chan/chan.h"
#include "mem/raw.h"

struct weir_ref weir_chan_ref(const struct weir_chan *ch) {
    return (struct weir_ref){ch->ref};
}

struct weir_chan *weir_chan_find(struct weir_loop *l, struct weir_ref r) {
    if (weir__io_slot_owner(r.v) != l->inbox)
        return NULL;
    struct weir_chan *ch = weir__chan_of_ref(r.v);
    return ch && ch->state < WEIR__CHAN_CLOSING && ch->state != WEIR__CHAN_CONNECTING ? ch : NULL;
}

struct sent {
    struct weir__loop_node node;
    uint64_t ref;
    struct weir_chain out;
};

static void send_arrive(struct weir_loop *l, struct weir__loop_node *n) {
    struct sent *s = container_of(n, struct sent, node);
    struct weir_chan *ch = weir_chan_find(l, (struct weir_ref){s->ref});
    if (!ch || weir__chan_send_from(ch, NULL, &s->out) < 0) {
        weir_chain_fini(&s->out);
        weir__loop_add(&l->counters.dropped_dead, 1);
    }
    weir__mem_raw_free(s);
}

int weir_send(struct weir_ref r, struct weir_chain *out) {
    struct weir__loop_inbox *inbox = weir__io_slot_owner(r.v);
    if (!inbox)
        return WEIR_EGONE;
    if (!out->bytes) {
        weir_chain_fini(out);
        return 0;
    }
    struct sent *s = weir__mem_raw_new(sizeof *s); /* the parts' pool may be anybody's */
    if (!s)
        return WEIR_ENOMEM;
    weir_chain_share(out);
    s->node.run = send_arrive;
    s->ref = r.v;
    s->out = *out;
    if (weir__loop_inbox_push(inbox, &s->node) < 0) {
        weir__mem_raw_free(s);
        return WEIR_EGONE;
    }
    *out = (struct weir_chain){0};
    return 0;
}

/* --- close -------------------------------------------------------------------------------- */

static void close_run(struct weir_loop *l, struct weir__loop_node *n) {
    struct weir_chan *ch = container_of(n, struct weir_chan, closer);
    (void)l;
    enum weir_close how = (enum weir_close)(ch->closer_how - 1);
    ch->closer_how = 0;
    weir_chan_close(ch, how);
}

static void close_arrive(struct weir_loop *l, struct weir__loop_node *n) {
    struct weir__io_slot *slot = container_of((void *(*)[2])(void *)n, struct weir__io_slot,
                                              inbox_link);
    uint64_t wanted = atomic_exchange(&slot->close_wanted, 0);
    uint64_t generation = atomic_load_explicit(&slot->generation, memory_order_relaxed);
    struct weir__io_sock *sock = slot->object;
    struct weir_chan *ch = wanted >> 2 == generation && sock ? weir__chan_of_ref(sock->ref) : NULL;
    if (!ch) {
        weir__loop_add(&l->counters.dropped_dead, 1);
        return;
    }
    uint8_t how = (uint8_t)(wanted & 3);
    if (!ch->closer_how) {
        ch->closer.run = close_run;
        weir__loop_closer(l, &ch->closer);
    }
    if (how > ch->closer_how)
        ch->closer_how = how;
}

/* true: the caller must link the slot. A newer generation replaces an older one, an abort replaces
 * a drain. */
static bool want_close(struct weir__io_slot *slot, uint64_t wanted) {
    uint64_t old = atomic_load(&slot->close_wanted);
    do {
        if (old >= wanted)
            return false;
    } while (!atomic_compare_exchange_weak(&slot->close_wanted, &old, wanted));
    return old == 0;
}

/* The loop has ended. Takes the request back, unless a newer one stands there by now (the inbox was
 * opened again): that one is owed. */
static bool give_up(struct weir__io_slot *slot, uint64_t wanted) {
    return atomic_compare_exchange_strong(&slot->close_wanted, &wanted, 0);
}

int weir_close(struct weir_ref r, enum weir_close how) {
    struct weir__loop_inbox *inbox = weir__io_slot_owner(r.v);
    struct weir__io_slot *slot = weir__io_slot_at(r.v);
    uint64_t wanted = (r.v >> WEIR__IO_SLOT_BITS) << 2 | ((uint64_t)how + 1);
    if (!inbox || !slot)
        return WEIR_EGONE;
    if (!want_close(slot, wanted))
        return 0;
    struct weir__loop_node *n = (struct weir__loop_node *)(void *)slot->inbox_link;
    n->run = close_arrive;
    while (weir__loop_inbox_push(inbox, n) < 0)
        if (give_up(slot, wanted))
            return WEIR_EGONE;
    return 0;
}
