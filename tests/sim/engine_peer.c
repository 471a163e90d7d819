/* Raw peers: the other ends that need no loop, with good manners and bad. */
#include "sim/engine.h"
#include <string.h>

void engine_peer_begin(struct conn *c) {
    char address[ADDRESS_MAX];
    engine_address(c->kind, address);
    c->peer = weir_sim_dial(c->run->sim, address);
    DEMAND(c->peer, "conn %u: no peer", c->id);
    switch (c->habit) {
    case SLOW: weir_sim_peer_read(c->peer, 20 + (uint32_t)engine_draw(c->run, 400), 1000); break;
    case NEVER:
        engine_deeds[DEED_NEVER_READ]++;
        weir_sim_peer_read(c->peer, 0, 0);
        break;
    case LEAVE:
    case LATE: weir_sim_peer_read(c->peer, 0, 0); break;
    case VANISH:
        weir_sim_peer_reset_at(c->peer, c->cut_at);
        engine_deeds[DEED_VANISHED]++;
        break;
    default: break;
    }
    if (c->habit == STEPS)
        return;
    (void)weir_sim_peer_send(c->peer, c->data, c->n_data);
    c->sent = c->n_messages;
    if (c->habit != EARLY && c->habit != TRUNCATE && c->kind != HALF)
        return;
    engine_deeds[c->habit == TRUNCATE ? DEED_TRUNCATED : DEED_SHUT_EARLY]++;
    c->shut = true;
    weir_sim_peer_shutdown(c->peer);
}

static void step(struct conn *c) {
    size_t at = c->sent ? c->message_end[c->sent - 1] : 0;
    if (weir_sim_peer_send(c->peer, c->data + at, c->message_end[c->sent] - at) == 0)
        c->sent++;
    if (c->sent == c->n_messages && c->kind == HALF) {
        c->shut = true;
        weir_sim_peer_shutdown(c->peer);
    }
}

void engine_peer_tick(struct conn *c) {
    const uint8_t *got;
    uint64_t now = weir_sim_now(c->run->sim);
    if (!c->peer)
        return;
    int state = weir_sim_peer_state(c->peer);
    if (state < 0 && !c->reset_ns)
        c->reset_ns = now;
    if (c->habit == STEPS && state == 0 && c->sent < c->n_messages && engine_chance(c->run, 3))
        step(c);
    if (c->habit == LATE && !c->resumed && now > c->act_ns) {
        c->resumed = true;
        weir_sim_peer_read(c->peer, 1, 0);
    }
    if (c->habit == LEAVE && !c->acted && now > c->act_ns) {
        c->acted = true;
        engine_deeds[DEED_LEFT]++;
        weir_sim_peer_close(c->peer);
    }
    bool heard = !c->server_ends && weir_sim_peer_got(c->peer, &got) >= c->n_reply;
    if (!c->shut && (state == 1 || (heard && c->sent == c->n_messages))) {
        c->shut = true;
        weir_sim_peer_shutdown(c->peer);
    }
}

bool engine_peer_done(const struct conn *c) {
    return c->habit == NEVER || c->acted || weir_sim_peer_state(c->peer) != 0;
}

void engine_peer_verdict(const struct conn *c) {
    const struct run *r = c->run;
    const uint8_t *got;
    size_t n = weir_sim_peer_got(c->peer, &got);
    int state = weir_sim_peer_state(c->peer);
    DEMAND(n <= c->n_reply, "conn %u (%s): %zu bytes came back, of %zu", c->id,
           engine_kind_names[c->kind], n, c->n_reply);
    DEMAND(n == 0 || !memcmp(got, c->reply, n), "conn %u (%s): other bytes came back", c->id,
           engine_kind_names[c->kind]);
    if (r->storm || r->halt || c->breaks)
        return;
    if (state < 0 && !c->server) {
        DEMAND(r->scarce || c->kind == REFUSE, "conn %u (%s): it does not come up: %s", c->id,
               engine_kind_names[c->kind], weir_errname(state));
        return;
    }
    DEMAND(n == c->n_reply, "conn %u (%s, %s): %zu bytes came back, not %zu", c->id,
           engine_kind_names[c->kind], engine_habit_names[c->habit], n, c->n_reply);
    DEMAND(state == 1, "conn %u (%s, %s): it ended with %s, not in order", c->id,
           engine_kind_names[c->kind], engine_habit_names[c->habit], weir_errname(state));
}

/* --- a raw server ---------------------------------------------------------------------------- */

/* Takes whoever comes, says everything at once in an uneven way, and ends. */
void engine_raw_tick(struct run *r) {
    struct weir_sim_peer *p;
    while ((p = weir_sim_accept(r->raw))) {
        size_t half = engine_draw(r, RAW_BYTES);
        (void)weir_sim_peer_send(p, r->noise, half);
        (void)weir_sim_peer_send(p, r->noise + half, RAW_BYTES - half);
        if (engine_chance(r, 2))
            weir_sim_peer_read(p, 0, 0);
        weir_sim_peer_shutdown(p);
    }
}
