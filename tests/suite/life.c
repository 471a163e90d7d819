/* Idleness, dead refs, slots that are used again. */
#include "suite/suite.h"
#include <string.h>

static void silence_closes(struct pair *p) {
    struct actor s = {.limits = {.idle_ms = 30}}, c = {0};
    link_up(p, &s, &c);
    expect_end(p, &s, "open; close EIDLE", &c, "open; eof clean; close 0");
    pair_close(p);
}

static void stay_once(struct actor *a, int what) {
    if (what == WEIR_EVENT_IDLE && a->goal++ == 0)
        weir_chan_touch(weir_ctx_chan(a->ctx));
}

static void a_handler_is_asked_first(struct pair *p) {
    struct actor s = {
        .handler = &actor_event_handler, .event = stay_once, .limits = {.idle_ms = 30}};
    struct actor c = {0};
    link_up(p, &s, &c);
    expect_end(p, &s, "open; idle; idle; drain; close EIDLE", &c, "open; eof clean; close 0");
    pair_close(p);
}

static void traffic_postpones_idleness(struct pair *p) {
    struct actor s = {.limits = {.idle_ms = 50}}, c = {0};
    link_up(p, &s, &c);
    for (int i = 0; i < 10; i++) {
        pair_wait_ms(p, 30);
        say(i % 2 ? &s : &c, "x");
    }
    expect(&s, "open; read 5 'xxxxx'");
    pair_wait_ms(p, 80);
    expect_end(p, &s, "open; read 5 'xxxxx'; close EIDLE", &c,
               "open; read 5 'xxxxx'; eof clean; close 0");
    pair_close(p);
}

static void a_dead_ref_stays_dead(struct pair *p) {
    struct actor s = {0}, c = {0};
    link_up(p, &s, &c);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; eof clean; close 0", &c, "open; close 0");
    pair_act_as(p, SERVER);
    struct weir_chain out = {0};
    demand(p, weir_chain_write(p->side[SERVER].mem, &out, "x", 1) == 0);
    demand(p, weir_send(s.ref, &out) == WEIR_EGONE && out.bytes == 1);
    demand(p, weir_close(s.ref, WEIR_ABORT) == WEIR_EGONE);
    demand(p, weir_chan_find(p->side[SERVER].loop, s.ref) == NULL);
    weir_chain_fini(&out);
    weir__loop_enter(NULL);
    pair_close(p);
}

/* One connection after the other: slots and descriptors are used again, and an old ref never means
 * the new one. */
static void slots_are_used_again(struct pair *p) {
    struct actor s = {0}, c = {0};
    struct weir_ref old = {0};
    unsigned reused = 0;
    serve(p, SERVER, &s);
    for (unsigned i = 1; i <= 60; i++) {
        dial(p, CLIENT, &c);
        until(p, s.opens == i && c.opens == i && c.answers == i);
        reused += (old.v & WEIR__IO_SLOT_MASK) == (s.ref.v & WEIR__IO_SLOT_MASK);
        demand(p, old.v != s.ref.v);
        demand(p, !old.v || weir_close(old, WEIR_ABORT) == WEIR_EGONE);
        demand(p, weir_chan_find(p->side[SERVER].loop, s.ref) != NULL);
        pair_settle(p);
        demand(p, s.closes == i - 1);
        old = s.ref;
        close_it(i % 2 ? &c : &s, i % 3 ? WEIR_DRAIN : WEIR_ABORT);
        until(p, s.closes == i && c.closes == i);
    }
    demand(p, reused > 0);
    pair_close(p);
}

/* A close that is under way when its channel ends and its slot starts again must not touch the next
 * one. */
static void a_late_close_misses(struct pair *p) {
    struct actor s = {0}, c = {0};
    link_up(p, &s, &c);
    demand(p, weir_close(s.ref, WEIR_DRAIN) == 0);
    close_it(&s, WEIR_ABORT);
    until(p, s.closes == 1 && c.closes == 1);
    dial(p, CLIENT, &c);
    until(p, s.opens == 2 && c.answers == 2);
    pair_settle(p);
    demand(p, s.closes == 1 && c.closes == 1);
    demand(p, weir_close(s.ref, WEIR_ABORT) == 0);
    until(p, s.closes == 2 && c.closes == 2);
    demand(p, s.why == WEIR_ECANCELLED && c.why == WEIR_ERESET);
    pair_close(p);
}

static void addresses(struct pair *p) {
    struct actor s = {0}, c = {0};
    char a[128], b[128];
    link_up(p, &s, &c);
    demand(p, weir_chan_peer(weir_ctx_chan(c.ctx), a, sizeof a) == 0);
    demand(p, !strcmp(a, p->address));
    demand(p, weir_chan_local(weir_ctx_chan(c.ctx), a, sizeof a) == 0);
    demand(p, weir_chan_peer(weir_ctx_chan(s.ctx), b, sizeof b) == 0);
    demand(p, !strcmp(a, b));
    pair_close(p);
}

const struct suite_case suite_life[] = {
    {"life.silence_closes", silence_closes, ANYWHERE, {0}},
    {"life.idle_event", a_handler_is_asked_first, ANYWHERE, {0}},
    {"life.traffic_postpones_idle", traffic_postpones_idleness, SIM_ONLY, {0}},
    {"life.dead_ref", a_dead_ref_stays_dead, ANYWHERE, {0}},
    {"life.slots_used_again", slots_are_used_again, ANYWHERE, {0}},
    {"life.late_close_misses", a_late_close_misses, RESETS, {0}},
    {"life.addresses", addresses, ANYWHERE, {0}},
    {0},
};
