/* Zero-copy sends. SENT ends a flight as always, and the next one may follow at once; only the
 * memory stays, in a record of its own, until the door says that nobody reads it any more.
 *
 *   spare ---- SENT, pinned ----> list ---- UNPINNED ----> released
 *
 * The record exists before the send begins: a pin that cannot be remembered must not happen. */
#include "chan/chan.h"

/* Half of the limit at most is pinned. What is beyond goes the usual way and waits in flight, where
 * it holds the sender back, instead of running into the limit. */
static bool has_room(const struct weir_chan *ch, const struct weir__chan_pins *p) {
    return p->held + weir__mem_chain_capacity(&ch->inflight) <= ch->plan->limits.held_max / 2;
}

bool weir__chan_pin_prepare(struct weir_chan *ch) {
    if (!ch->pins)
        ch->pins = weir_mem_new(ch->mem, sizeof *ch->pins);
    if (!ch->pins || !has_room(ch, ch->pins))
        return false;
    if (!ch->pins->spare)
        ch->pins->spare = weir_mem_new(ch->mem, sizeof *ch->pins->spare);
    return ch->pins->spare != NULL;
}

void weir__chan_pin(struct weir_chan *ch, intptr_t number) {
    must(ch->pins && ch->pins->spare);
    struct weir__chan_pins *p = ch->pins;
    struct weir__chan_pin *pin = p->spare;
    p->spare = NULL;
    *pin = (struct weir__chan_pin){.next = p->list,
                                   .chain = ch->inflight,
                                   .held = weir__mem_chain_capacity(&ch->inflight),
                                   .number = number};
    ch->inflight = (struct weir_chain){0};
    p->list = pin;
    p->bytes += pin->chain.bytes;
    p->held += pin->held;
}

static void release(struct weir__chan_pins *p, struct weir__chan_pin **at) {
    struct weir__chan_pin *pin = *at;
    *at = pin->next;
    p->bytes -= pin->chain.bytes;
    p->held -= pin->held;
    weir_chain_fini(&pin->chain);
    weir_mem_free(pin);
}

static struct weir__chan_pin **find(struct weir__chan_pins *p, intptr_t number) {
    struct weir__chan_pin **at = &p->list;
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    return at;
}

void weir__chan_on_unpinned(struct weir_chan *ch, const struct weir__io_done *d) {
    struct weir__chan_pins *p = ch->pins;
    struct weir__chan_pin **at = p ? find(p, d->handle) : NULL;
    if (count_if(!at || !*at))
        return;
    release(p, at);
    if (!p->list && !ch->inflight.bytes)
        weir__chan_pins_free(ch);
    if (ch->unwritable)
        weir__chan_dirty(ch); /* its memory may have been what was too much */
}

void weir__chan_pins_free(struct weir_chan *ch) {
    struct weir__chan_pins *p = ch->pins;
    if (!p)
        return;
    while (p->list)
        release(p, &p->list);
    check(p->bytes == 0 && p->held == 0);
    weir_mem_free(p->spare);
    weir_mem_free(p);
    ch->pins = NULL;
}

const struct weir__chan_pins *weir__chan_pinned(const struct weir_chan *ch) {
    return ch->state == WEIR__CHAN_CONNECTING ? NULL : ch->pins;
}
