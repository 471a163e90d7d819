/* Clients with channels of our own, and what reaches channels from other loops: messages, closes,
 * aborts, and refs of channels that are long gone. */
#include "sim/engine.h"

enum { GHOST_US = 1000 };

/* Everything is said and heard: the client goes, unless the server does. */
static void check_done(struct conn *c) {
    struct end *e = c->client;
    if (!e || e->closed || e->draining || !c->said)
        return;
    if (c->kind == HALF && !c->shut) {
        c->shut = true;
        e->shut = true;
        weir_chan_shutdown(weir_ctx_chan(e->ctx));
    }
    if (e->got < e->n_expect || c->server_ends)
        return;
    c->shut = true;
    if (engine_chance(c->run, 2)) {
        weir_chan_close(weir_ctx_chan(e->ctx), WEIR_DRAIN);
    } else {
        engine_deeds[DEED_FOREIGN_CLOSE]++;
        (void)weir_close(e->ref, WEIR_DRAIN);
    }
}

/* Behind the last message on its way from the other loop. */
static void said_away(struct weir_loop *l, void *conn) {
    struct conn *c = conn;
    (void)l;
    c->said = true;
    check_done(c);
}

/* --- sending --------------------------------------------------------------------------------- */

static size_t message_at(const struct conn *c, unsigned i) {
    return i ? c->message_end[i - 1] : 0;
}

static void pace_due(struct weir_timer *t);

static void send_own(struct conn *c) {
    struct end *e = c->client;
    while (c->sent < c->n_messages && !e->closed && !e->draining && weir_ctx_room(e->ctx) > 0) {
        size_t at = message_at(c, c->sent), n = c->message_end[c->sent] - at;
        DEMAND(at == e->sent, "conn %u: a message is out of order", c->id);
        if (engine_end_write(e, c->data, n) < 0)
            return;
        c->sent++;
        if (engine_chance(c->run, 4)) {
            engine_end_later(e, 1000 * engine_draw(c->run, 4), pace_due);
            return;
        }
    }
    c->said = c->sent == c->n_messages;
    check_done(c);
}

static void pace_due(struct weir_timer *t) {
    struct end *e = container_of(t, struct end, timer);
    engine_end_look(e);
    send_own(e->conn);
}

/* On another loop: a few messages through the ref, then itself again. */
static void send_away(struct weir_loop *l, void *conn) {
    struct conn *c = conn;
    unsigned n = 1 + (unsigned)engine_draw(c->run, 4);
    for (; n && c->sent < c->n_messages; n--) {
        struct weir_chain out = {0};
        size_t at = message_at(c, c->sent);
        engine_chain(l, &out, c->data + at, c->message_end[c->sent] - at);
        if (weir_send(c->client->ref, &out) < 0) {
            weir_chain_fini(&out);
            return;
        }
        engine_deeds[DEED_FOREIGN_SEND]++;
        c->sent++;
    }
    if (c->sent < c->n_messages) {
        (void)weir_loop_post(l, send_away, c);
    } else if (c->habit == AWAY_CLOSE) {
        engine_deeds[DEED_FOREIGN_CLOSE]++;
        (void)weir_close(c->client->ref, WEIR_DRAIN);
    } else {
        (void)weir_loop_post(c->loop, said_away, c);
    }
}

/* --- the handler ----------------------------------------------------------------------------- */

static int client_open(struct weir_ctx *c, const void *config) {
    struct conn *k = (struct conn *)(uintptr_t)config;
    struct end *e = engine_end_open(k->run, c, k->kind, true);
    DEMAND(!k->client, "conn %u opened twice", k->id);
    k->client = e;
    e->conn = k;
    e->own_only = k->habit == OWN;
    e->expect = k->reply;
    e->n_expect = k->n_reply;
    if (k->habit == OWN || k->habit == HASTY)
        send_own(k);
    else
        (void)weir_loop_post(k->other, send_away, k);
    return 0;
}

static int client_read(struct weir_ctx *c, struct weir_chain *in) {
    struct end *e = engine_end_of(c);
    engine_end_look(e);
    engine_end_take(e, in, in->bytes, NULL);
    check_done(e->conn);
    return 0;
}

static void client_eof(struct weir_ctx *c, bool clean) {
    engine_end_eof(engine_end_of(c), clean);
}

static void client_writable(struct weir_ctx *c, bool yes) {
    struct end *e = engine_end_of(c);
    engine_end_writable(e, yes);
    if (yes && (e->conn->habit == OWN || e->conn->habit == HASTY))
        send_own(e->conn);
}

static void client_event(struct weir_ctx *c, int what, const void *data) {
    (void)data;
    engine_end_event(engine_end_of(c), what);
}

static void client_close(struct weir_ctx *c, int why) {
    engine_end_close(engine_end_of(c), why);
}

static const struct weir_handler handler = {
    .name = "client",
    .state_size = sizeof(struct end *),
    .open = client_open,
    .read = client_read,
    .eof = client_eof,
    .writable = client_writable,
    .event = client_event,
    .close = client_close,
};

static void on_connect(struct weir_chan *ch, int status, void *user) {
    struct conn *c = user;
    const struct run *r = c->run;
    DEMAND(!c->answered, "conn %u: connect answered twice", c->id);
    DEMAND((status == 0) == (ch != NULL), "conn %u: connect answers %d and a channel %p", c->id,
           status, (void *)ch);
    DEMAND(status == 0 || r->storm || r->scarce || r->halted || c->breaks,
           "conn %u: connect answers %s", c->id, weir_errname(status));
    DEMAND((status == 0) == (c->client != NULL), "conn %u: connect answers %d, opened %d", c->id,
           status, c->client != NULL);
    engine_deeds[DEED_TIMED_OUT] += status == WEIR_ETIMEDOUT;
    c->answered = true;
    c->status = status;
}

static void begin(struct weir_loop *l, void *conn) {
    struct conn *c = conn;
    const struct run *r = c->run;
    struct weir_stage line[] = {{&handler, c}};
    char address[ADDRESS_MAX];
    engine_address(c->kind, address);
    struct weir_client_options o = {
        .size = sizeof o,
        .address = address,
        .stages = line,
        .n_stages = 1,
        .limits = r->limits,
        .connect_ms = c->habit == HASTY ? 1 + (uint32_t)engine_draw(c->run, 3) : 0};
    int rc = weir_connect(l, &o, on_connect, c);
    DEMAND(rc == 0 || r->scarce || r->halted, "conn %u: connect refuses: %s", c->id,
           weir_errname(rc));
    if (rc < 0) {
        c->answered = true;
        c->status = rc;
    }
}

void engine_client_begin_here(struct conn *c, struct weir_loop *l) {
    c->begun = true;
    c->loop = l;
    begin(l, c);
}

void engine_client_begin(struct conn *c) {
    if (weir_loop_post(c->loop, begin, c) < 0) {
        DEMAND(c->run->halted, "conn %u: a running loop takes no post", c->id);
        c->answered = true;
        c->status = WEIR_ESTOPPED;
    }
}

/* --- refs ------------------------------------------------------------------------------------ */

/* A message that must never arrive anywhere, and an abort that must never hit a neighbour. */
static void poke_dead(struct run *r, struct weir_loop *l) {
    struct weir_ref ref = r->dead[engine_draw(r, r->n_dead)];
    struct weir_chain out = {0};
    engine_deeds[DEED_DEAD_REF]++;
    engine_chain(l, &out, r->noise, 16);
    DEMAND(weir_send(ref, &out) == WEIR_EGONE, "a dead ref takes a message");
    weir_chain_fini(&out);
    DEMAND(weir_close(ref, WEIR_ABORT) == WEIR_EGONE, "a dead ref takes a close");
    DEMAND(!weir_chan_find(l, ref), "a dead ref finds a channel");
}

/* Now and then another loop aborts a channel that may be aborted; a haunted one in every turn, so
 * that aborts are still under way when it has died and its slot has the next one. */
static void abort_away(struct weir_loop *l, void *conn) {
    struct conn *c = conn;
    engine_deeds[DEED_FOREIGN_ABORT]++;
    if (weir_close(c->server->ref, WEIR_ABORT) == 0 && c->habit == HAUNTED)
        (void)weir_loop_post(l, abort_away, c);
}

static void haunt(struct conn *c) {
    bool may = c->habit == HAUNTED || c->habit == ABORTED;
    if (!may || !c->server || c->acted || weir_sim_now(c->run->sim) < c->act_ns)
        return;
    c->acted = true;
    (void)weir_loop_post(c->other, abort_away, c);
}

static void ghosts(struct weir_timer *t) {
    struct run *r = container_of(t, struct run, ghosts);
    for (unsigned i = 0; i < 4 && r->n_dead; i++)
        poke_dead(r, t->loop);
    for (unsigned i = 0; i < r->n_conns; i++)
        haunt(&r->conns[i]);
    weir_timer_arm(t->loop, t, weir_loop_now(t->loop) + UINT64_C(1000) * GHOST_US, ghosts);
}

static void ghosts_begin(struct weir_loop *l, void *run) {
    struct run *r = run;
    weir_timer_arm(l, &r->ghosts, weir_loop_now(l), ghosts);
}

static void ghosts_end(struct weir_loop *l, void *run) {
    struct run *r = run;
    (void)l;
    weir_timer_disarm(&r->ghosts);
}

static void ghosts_both(struct weir_loop *l, void *run) {
    ghosts_begin(l, run);
    DEMAND(weir_loop_on_stop(l, ghosts_end, run) == 0, "no memory for a stopper");
}

void engine_ghosts(struct run *r) {
    DEMAND(weir_loop_post(weir_group_loop(r->group, 0), ghosts_both, r) == 0,
           "a loop takes no post");
}
