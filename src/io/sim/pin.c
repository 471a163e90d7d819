/* Zero-copy sends: the seed says which are pinned and when each lets go. Until then nobody may
 * change their bytes, which is asserted.
 *
 *   SENT (pinned) ---> pins --- EV_UNPIN ---> unpinned --- next() ---> UNPINNED */
#include "io/sim/net.h"
#include "base/assert.h"

enum { PATIENCE = 8 }; /* latencies that a notice takes at most */

uint64_t weir__iosim_chain_hash(const struct weir_chain *c) {
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (const struct weir_part *p = c->first; p; p = p->next)
        for (size_t i = 0; i < p->slice.n; i++)
            h = (h ^ p->slice.p[i]) * UINT64_C(0x100000001b3);
    return h;
}

static void append(struct weir__iosim_pin **list, struct weir__iosim_pin *pin) {
    while (*list)
        list = &(*list)->next;
    pin->next = NULL;
    *list = pin;
}

void weir__iosim_pin(struct weir__iosim_sock *s, struct weir__io_done *out) {
    struct weir__iosim_net *net = s->door->net;
    s->may_pin = false;
    must(weir__iosim_chain_hash(s->send) == s->zc_hash);
    if (weir__iosim_coin(net, 3))
        return;
    struct weir__iosim_pin *pin = weir__iosim_alloc(net, sizeof *pin);
    pin->number = s->zc_number;
    pin->chain = *s->send;
    pin->hash = s->zc_hash;
    append(&s->pins, pin);
    out->pinned = true;
    out->handle = pin->number;
    uint64_t wait_ns = weir__iosim_latency_ns(net) * (weir__iosim_draw(net, PATIENCE) + 1);
    s->events++;
    weir__iosim_at(
        net, net->now_ns + wait_ns,
        (struct weir__iosim_event){.kind = WEIR__IOSIM_EV_UNPIN, .object = s, .n = pin->number});
}

void weir__iosim_pin_event(struct weir__iosim_sock *s, uint32_t number) {
    struct weir__iosim_pin **at = &s->pins;
    while ((*at)->number != number)
        at = &(*at)->next;
    struct weir__iosim_pin *pin = *at;
    *at = pin->next;
    append(&s->unpinned, pin);
    weir__iosim_door_terminal(s, true);
}

void weir__iosim_pin_yield(struct weir__iosim_sock *s, struct weir__io_done *out) {
    struct weir__iosim_pin *pin = s->unpinned;
    must(weir__iosim_chain_hash(&pin->chain) == pin->hash);
    s->unpinned = pin->next;
    out->kind = WEIR__IO_UNPINNED;
    out->handle = pin->number;
    out->copied = weir__iosim_coin(s->door->net, 8);
    weir_mem_free(pin);
}

static void free_list(struct weir__iosim_pin *pin) {
    while (pin) {
        struct weir__iosim_pin *next = pin->next;
        weir_mem_free(pin);
        pin = next;
    }
}

void weir__iosim_pins_free(struct weir__iosim_sock *s) {
    free_list(s->pins);
    free_list(s->unpinned);
    s->pins = s->unpinned = NULL;
}
