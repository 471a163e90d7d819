/* The servers' handlers, one kind each. All of them check what they read and what becomes of what
 * they send in engine_end.c. */
#include "sim/engine.h"

enum { IDLE_MS = 400, WANT_FRAME = 2 };

static int server_open(struct weir_ctx *c, const void *config) {
    const struct role *role = config;
    struct end *e = engine_end_open(role->run, c, role->kind, false);
    if (role->kind == FILTER || role->kind == HOLD)
        e->own_only = false;
    weir_ctx_want(c, HEAD);
    return 0;
}

/* Who is it? The head stays in: it is part of what is echoed. */
static void know(struct end *e, const struct weir_chain *in) {
    struct run *r = e->run;
    uint8_t head[HEAD];
    if (e->conn)
        return;
    DEMAND(in->bytes >= HEAD, "a server is offered %d bytes of a head", (int)in->bytes);
    DEMAND(weir_chain_read(in, 0, head, HEAD) == 0, "a head cannot be read");
    DEMAND(head[0] == 0xc0 && head[3] == 0x0d && (head[1] ^ head[2]) == 0xff &&
               head[1] < r->n_conns,
           "a stream begins with other bytes than were sent");
    struct conn *c = &r->conns[head[1]];
    DEMAND(!c->server && c->kind == e->kind, "conn %u was served twice", c->id);
    c->server = e;
    e->conn = c;
    e->expect = c->data;
    e->n_expect = c->n_data;
    weir_ctx_want(e->ctx, 0);
}

static void server_eof(struct weir_ctx *c, bool clean) {
    engine_end_eof(engine_end_of(c), clean);
}

static void server_writable(struct weir_ctx *c, bool yes) {
    engine_end_writable(engine_end_of(c), yes);
}

static void server_event(struct weir_ctx *c, int what, const void *data) {
    (void)data;
    engine_end_event(engine_end_of(c), what);
}

static void server_close(struct weir_ctx *c, int why) {
    engine_end_close(engine_end_of(c), why);
}

static void done_when_whole(struct end *e) {
    if (e->conn && e->conn->server_ends && e->got == e->n_expect)
        weir_chan_close(weir_ctx_chan(e->ctx), WEIR_DRAIN);
}

/* --- echoes ---------------------------------------------------------------------------------- */

static bool must_leave(const struct end *e) {
    return e->run->limits.read_while_full && weir_ctx_room(e->ctx) <= 0;
}

static int echo_some(struct end *e, struct weir_chain *in, size_t n) {
    struct weir_chain out = {0};
    engine_end_take(e, in, n, &out);
    (void)engine_end_send(e, &out);
    return 0;
}

static int echo_read(struct weir_ctx *c, struct weir_chain *in) {
    struct end *e = engine_end_of(c);
    engine_end_look(e);
    know(e, in);
    if (must_leave(e))
        return 0;
    echo_some(e, in, in->bytes);
    if (e->kind != IDLE)
        done_when_whole(e);
    return 0;
}

static int framed_read(struct weir_ctx *c, struct weir_chain *in) {
    struct end *e = engine_end_of(c);
    uint64_t n;
    engine_end_look(e);
    know(e, in);
    if (e->got == 0) {
        echo_some(e, in, HEAD);
        weir_ctx_want(c, WANT_FRAME);
    }
    while (in->bytes >= WANT_FRAME && weir_ctx_room(c) > 0) {
        DEMAND(weir_chain_get_be(in, 0, WANT_FRAME, &n) == 0, "a length cannot be read");
        weir_ctx_want(c, n + WANT_FRAME);
        if (in->bytes < n + WANT_FRAME)
            return 0;
        echo_some(e, in, n + WANT_FRAME);
        weir_ctx_want(c, WANT_FRAME);
    }
    done_when_whole(e);
    return 0;
}

static void stall_wake(struct weir_timer *t) {
    struct end *e = container_of(t, struct end, timer);
    engine_end_look(e);
    weir_ctx_wake(e->ctx);
}

static int stall_read(struct weir_ctx *c, struct weir_chain *in) {
    struct end *e = engine_end_of(c);
    engine_end_look(e);
    know(e, in);
    if (weir_ctx_room(c) <= 0)
        return 0; /* it is offered again when writable */
    size_t n = engine_draw(e->run, in->bytes + 1);
    if (n > PIECE_MAX)
        n = PIECE_MAX;
    if (n == 0 || engine_chance(e->run, 3)) {
        engine_deeds[DEED_STALLED]++;
        uint64_t ms = engine_draw(e->run, engine_chance(e->run, 8) ? 150 : 4);
        engine_end_later(e, 1000 * ms, stall_wake);
        return 0;
    }
    echo_some(e, in, n);
    done_when_whole(e);
    return 0;
}

/* --- credit ---------------------------------------------------------------------------------- */

static void credit_tick(struct weir_timer *t);

/* left: bytes that have come and were not taken; they are not counted against the new credit. */
static void grant(struct end *e, uint64_t left) {
    struct run *r = e->run;
    static const int64_t some[] = {0, 1, 7, 100, 1000, 0, -1};
    e->credit = some[engine_draw(r, ARRAY_LEN(some))];
    e->counting = true;
    e->seen = e->got + left; /* from here on the credit counts */
    engine_deeds[DEED_PAUSED] += e->credit == 0;
    weir_chan_credit(weir_ctx_chan(e->ctx), e->credit);
    e->settled = e->credit < 0 && engine_chance(r, 2); /* no limit any more, for good */
    if (!e->settled)
        engine_end_later(e, 1000 * (1 + engine_draw(r, 3)), credit_tick);
}

static void credit_count(struct end *e, uint64_t left) {
    uint64_t came = e->got + left - e->seen;
    if (!e->counting || e->credit < 0)
        return;
    DEMAND(came <= (uint64_t)e->credit, "conn %d (credit): %llu bytes came on a credit of %lld",
           e->conn ? (int)e->conn->id : -1, (unsigned long long)came, (long long)e->credit);
}

static void credit_tick(struct weir_timer *t) {
    struct end *e = container_of(t, struct end, timer);
    struct weir_chan_counters n;
    engine_end_look(e);
    weir_chan_counters(weir_ctx_chan(e->ctx), &n);
    credit_count(e, n.leftover);
    if (!e->draining && !e->settled)
        grant(e, n.leftover);
}

static int credit_open(struct weir_ctx *c, const void *config) {
    int rc = server_open(c, config);
    grant(engine_end_of(c), 0);
    return rc;
}

static int credit_read(struct weir_ctx *c, struct weir_chain *in) {
    struct end *e = engine_end_of(c);
    engine_end_look(e);
    know(e, in);
    credit_count(e, in->bytes);
    if (must_leave(e))
        return 0;
    echo_some(e, in, in->bytes);
    if (!e->settled && engine_chance(e->run, 3))
        grant(e, in->bytes);
    done_when_whole(e);
    return 0;
}

/* --- filters --------------------------------------------------------------------------------- */

struct front {
    struct run *run;
    struct weir_ctx *filter; /* behind it, or NULL */
};

struct filter {
    struct front *front;
    struct weir_ctx *ctx;
    struct weir_timer timer;
};

static int filter_open(struct weir_ctx *c, const void *config) {
    struct filter *f = weir_ctx_state(c);
    f->front = (struct front *)(uintptr_t)config;
    f->ctx = c;
    if (engine_chance(f->front->run, 6))
        return WEIR_EFULL;
    f->front->filter = c;
    engine_deeds[DEED_FILTERED]++;
    return 0;
}

static void filter_close(struct weir_ctx *c, int why) {
    struct filter *f = weir_ctx_state(c);
    (void)why;
    DEMAND(f->front->filter == c, "a filter that is not in was closed");
    f->front->filter = NULL;
    weir_timer_disarm(&f->timer);
}

static void filter_tick(struct weir_timer *t) {
    struct filter *f = container_of(t, struct filter, timer);
    if (engine_chance(f->front->run, 2))
        weir_ctx_remove(f->ctx);
    else
        weir_ctx_wake(f->ctx);
}

static int filter_read(struct weir_ctx *c, struct weir_chain *in) {
    struct filter *f = weir_ctx_state(c);
    struct run *r = f->front->run;
    struct weir_chain some = {0};
    uint64_t n = engine_draw(r, in->bytes + 1);
    if (engine_chance(r, 20)) {
        weir_ctx_remove(c); /* with all it has */
        return 0;
    }
    if (n == 0) {
        weir_timer_arm(weir_ctx_loop(c), &f->timer, weir_loop_now(weir_ctx_loop(c)) + 500000,
                       filter_tick);
        return 0;
    }
    DEMAND(weir_chain_move(weir_ctx_mem(c), &some, in, n) == 0, "no memory for a cut");
    if (weir_ctx_forward(c, &some) < 0)
        weir_chain_fini(&some);
    return 0;
}

static int filter_write(struct weir_ctx *c, struct weir_chain *out) {
    return weir_ctx_send(c, out);
}

static const struct weir_handler filter = {
    .name = "filter",
    .state_size = sizeof(struct filter),
    .open = filter_open,
    .read = filter_read,
    .write = filter_write,
    .close = filter_close,
};

static int front_open(struct weir_ctx *c, const void *config) {
    struct front *f = weir_ctx_state(c);
    f->run = ((const struct role *)config)->run;
    return 0;
}

static int front_read(struct weir_ctx *c, struct weir_chain *in) {
    struct front *f = weir_ctx_state(c);
    if (!f->filter && engine_chance(f->run, 3)) {
        int rc = weir_ctx_insert_next(c, &filter, f);
        DEMAND(rc == 0 || rc == WEIR_EFULL, "a filter does not go in: %s", weir_errname(rc));
        DEMAND((rc == 0) == (f->filter != NULL), "a filter that refused is in");
    }
    if (weir_ctx_forward(c, in) < 0)
        weir_chain_fini(in);
    return 0;
}

const struct weir_handler engine_front = {
    .name = "front",
    .state_size = sizeof(struct front),
    .open = front_open,
    .read = front_read,
};

/* --- answers --------------------------------------------------------------------------------- */

static int sink(struct end *e, struct weir_chain *in) {
    engine_end_look(e);
    know(e, in);
    engine_end_take(e, in, in->bytes, NULL);
    return 0;
}

static size_t left(const struct end *e) {
    return e->conn ? e->conn->n_reply - e->sent : 0;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static void end_output(struct end *e) {
    struct weir_chan *ch = weir_ctx_chan(e->ctx);
    if (engine_chance(e->run, 2)) {
        weir_chan_shutdown(ch);
        e->shut = true;
        struct weir_chain late = {0};
        engine_chain(weir_ctx_loop(e->ctx), &late, e->run->noise, 3);
        (void)engine_end_send(e, &late);
    }
    weir_chan_close(ch, WEIR_DRAIN);
}

/* Up to the mark, most often exactly. HALF and PUSH end the channel behind it. */
static void push(struct end *e) {
    int64_t room;
    if (e->draining)
        return;
    while (left(e) && (room = weir_ctx_room(e->ctx)) > 0) {
        size_t n = least(least(left(e), (size_t)room), PIECE_MAX);
        if (engine_chance(e->run, 8))
            n = 1 + engine_draw(e->run, n);
        if (engine_end_write(e, e->conn->reply, n) < 0)
            return;
    }
    if (e->conn && !left(e) && (e->eof || (e->kind == PUSH && e->conn->server_ends)))
        end_output(e);
}

static void push_writable(struct weir_ctx *c, bool yes) {
    struct end *e = engine_end_of(c);
    engine_end_writable(e, yes);
    if (yes && (e->kind == PUSH || e->eof))
        push(e);
}

static int push_read(struct weir_ctx *c, struct weir_chain *in) {
    struct end *e = engine_end_of(c);
    sink(e, in);
    if (e->kind == PUSH)
        push(e);
    return 0;
}

static void push_eof(struct weir_ctx *c, bool clean) {
    struct end *e = engine_end_of(c);
    engine_end_eof(e, clean);
    if (!e->conn)
        weir_chan_close(weir_ctx_chan(c), WEIR_DRAIN);
    else
        push(e);
}

static void hold(struct end *e, bool yes) {
    if (e->held == yes)
        return;
    e->held = yes;
    if (yes)
        weir_ctx_hold(e->ctx);
    else
        weir_ctx_unhold(e->ctx);
}

static int source_read(struct weir_ctx *c, struct weir_chain *in) {
    struct end *e = engine_end_of(c);
    bool first = !e->conn;
    sink(e, in);
    if (first) {
        hold(e, true);
        weir_ctx_ready(c);
    }
    return 0;
}

static void source_ready(struct weir_timer *t) {
    struct end *e = container_of(t, struct end, timer);
    engine_end_look(e);
    weir_ctx_ready(e->ctx);
}

static int64_t source_pull(struct weir_ctx *c, uint64_t room) {
    struct end *e = engine_end_of(c);
    struct weir_chan_counters n;
    engine_end_look(e);
    weir_chan_counters(weir_ctx_chan(c), &n);
    DEMAND(n.inflight == 0, "conn %u (source): pulled while bytes are in flight", e->conn->id);
    if (!left(e)) {
        hold(e, false);
        if (e->conn->server_ends)
            weir_chan_close(weir_ctx_chan(c), WEIR_DRAIN);
        return 0;
    }
    if (engine_chance(e->run, 5)) {
        engine_end_later(e, 1000 * engine_draw(e->run, 3), source_ready);
        return 0;
    }
    size_t bytes = least(least(left(e), PIECE_MAX), room + 100);
    int rc = engine_end_write(e, e->conn->reply, bytes);
    return rc < 0 ? rc : (int64_t)bytes;
}

static void write_held(struct end *e) {
    engine_end_look(e);
    while (left(e)) {
        int rc = engine_end_write(e, e->conn->reply, least(left(e), 500));
        DEMAND(rc == 0 || e->run->storm || e->run->halted || e->conn->breaks,
               "conn %u (hold): held, and a send answers %s", e->conn->id, weir_errname(rc));
        if (rc < 0)
            break;
    }
}

static void hold_answer(struct weir_timer *t) {
    struct end *e = container_of(t, struct end, timer);
    write_held(e);
    hold(e, false);
}

/* A worker allows the answer. */
struct leave {
    struct weir_job job;
    struct run *run;
    bool ran;
};

static void leave_run(struct weir_job *j) {
    struct leave *v = container_of(j, struct leave, job);
    DEMAND(!v->ran, "hold: a job runs twice");
    v->ran = true;
}

static void leave_done(struct weir_ctx *c, struct weir_job *j, int status) {
    struct leave *v = container_of(j, struct leave, job);
    engine_job_done(v->run, status, v->ran);
    DEMAND(c || status < 0, "hold: a job is back in no channel");
    if (status == 0)
        write_held(engine_end_of(c));
    weir_mem_free(v);
}

static bool offload_answer(struct end *e) {
    struct leave *v = weir_mem_new(weir_ctx_mem(e->ctx), sizeof *v);
    DEMAND(v, "no memory for a job");
    *v = (struct leave){.job = {.run = leave_run, .done = leave_done}, .run = e->run};
    int rc = weir_ctx_offload(e->ctx, &v->job, e->got % 2 ? WEIR_ORDERED : WEIR_UNORDERED);
    if (rc == 0) {
        engine_job_taken(e->run);
        return true;
    }
    DEMAND(e->run->weather.job_enomem_ppm || e->run->halted || e->run->storm || e->conn->breaks,
           "conn %u (hold): a job is refused: %s", e->conn->id, weir_errname(rc));
    engine_deeds[DEED_JOB_REFUSED]++;
    weir_mem_free(v);
    return false;
}

static int hold_read(struct weir_ctx *c, struct weir_chain *in) {
    struct end *e = engine_end_of(c);
    hold(e, true);
    sink(e, in);
    if (e->got == e->n_expect) {
        if (e->run->offloads && offload_answer(e))
            hold(e, false); /* its job holds from here on */
        else
            engine_end_later(e, 1000 * engine_draw(e->run, 20), hold_answer);
        weir_chan_close(weir_ctx_chan(c), WEIR_DRAIN);
    }
    return 0;
}

void engine_foreign(struct weir_loop *l, void *conn) {
    struct conn *c = conn;
    struct weir_chain out = {0};
    size_t n = least(c->n_reply - c->told, 1 + engine_draw(c->run, PIECE_MAX));
    engine_deeds[DEED_FOREIGN_SEND]++;
    if (n == 0) {
        engine_deeds[DEED_FOREIGN_CLOSE]++;
        (void)weir_close(c->server->ref, WEIR_DRAIN);
        return;
    }
    engine_chain(l, &out, c->reply + c->told, n);
    if (weir_send(c->server->ref, &out) < 0) {
        weir_chain_fini(&out);
        return;
    }
    c->told += n;
    if (engine_chance(c->run, 2))
        engine_foreign(l, c);
    else
        (void)weir_loop_post(l, engine_foreign, c);
}

static int foreign_read(struct weir_ctx *c, struct weir_chain *in) {
    struct end *e = engine_end_of(c);
    bool first = !e->conn;
    sink(e, in);
    if (first)
        (void)weir_loop_post(e->conn->other, engine_foreign, e->conn);
    return 0;
}

static void foreign_eof(struct weir_ctx *c, bool clean) {
    struct end *e = engine_end_of(c);
    engine_end_eof(e, clean);
    if (!e->conn)
        weir_chan_close(weir_ctx_chan(c), WEIR_DRAIN);
}

/* --- refusals and silence -------------------------------------------------------------------- */

static int refuse_read(struct weir_ctx *c, struct weir_chain *in) {
    (void)c, (void)in;
    engine_fail("a channel that was refused is read");
}

static int refuser_open(struct weir_ctx *c, const void *config) {
    (void)c, (void)config;
    return WEIR_EFULL;
}
static const struct weir_handler refuser = {.name = "refuser", .open = refuser_open};

static int never_open(struct weir_ctx *c, const void *config) {
    (void)c, (void)config;
    engine_fail("a handler behind a refusal was opened");
}

static void never_close(struct weir_ctx *c, int why) {
    (void)c, (void)why;
    engine_fail("a handler that never opened was closed");
}
static const struct weir_handler never = {
    .name = "never", .open = never_open, .close = never_close};

static void idle_event(struct weir_ctx *c, int what, const void *data) {
    struct end *e = engine_end_of(c);
    server_event(c, what, data);
    if (what != WEIR_EVENT_IDLE)
        return;
    uint64_t silent = weir_loop_now(weir_ctx_loop(c)) - e->last_ns;
    DEMAND(silent >= (IDLE_MS - 2) * UINT64_C(1000000), "conn %d (idle): idle after %llu ns",
           e->conn ? (int)e->conn->id : -1, (unsigned long long)silent);
    if (engine_chance(e->run, 3))
        weir_chan_touch(weir_ctx_chan(c));
}

/* --- all of them ----------------------------------------------------------------------------- */

static const struct weir_handler lines[KINDS] = {
    [ECHO] =
        {
            .name = "echo",
            .state_size = sizeof(struct end *),
            .open = server_open,
            .read = echo_read,
            .writable = server_writable,
            .event = server_event,
            .close = server_close,
        },
    [FRAMED] =
        {
            .name = "framed",
            .state_size = sizeof(struct end *),
            .open = server_open,
            .read = framed_read,
            .eof = server_eof,
            .writable = server_writable,
            .event = server_event,
            .close = server_close,
        },
    [SOURCE] =
        {
            .name = "source",
            .state_size = sizeof(struct end *),
            .open = server_open,
            .read = source_read,
            .eof = server_eof,
            .pull = source_pull,
            .writable = server_writable,
            .event = server_event,
            .close = server_close,
        },
    [STALL] =
        {
            .name = "stall",
            .state_size = sizeof(struct end *),
            .open = server_open,
            .read = stall_read,
            .eof = server_eof,
            .writable = server_writable,
            .event = server_event,
            .close = server_close,
        },
    [CREDIT] =
        {
            .name = "credit",
            .state_size = sizeof(struct end *),
            .open = credit_open,
            .read = credit_read,
            .eof = server_eof,
            .writable = server_writable,
            .event = server_event,
            .close = server_close,
        },
    [HALF] =
        {
            .name = "half",
            .state_size = sizeof(struct end *),
            .open = server_open,
            .read = push_read,
            .eof = push_eof,
            .writable = push_writable,
            .event = server_event,
            .close = server_close,
        },
    [FILTER] =
        {
            .name = "filter",
            .state_size = sizeof(struct end *),
            .open = server_open,
            .read = echo_read,
            .eof = server_eof,
            .writable = server_writable,
            .event = server_event,
            .close = server_close,
        },
    [PUSH] =
        {
            .name = "push",
            .state_size = sizeof(struct end *),
            .open = server_open,
            .read = push_read,
            .eof = push_eof,
            .writable = push_writable,
            .event = server_event,
            .close = server_close,
        },
    [HOLD] =
        {
            .name = "hold",
            .state_size = sizeof(struct end *),
            .open = server_open,
            .read = hold_read,
            .eof = server_eof,
            .writable = server_writable,
            .event = server_event,
            .close = server_close,
        },
    [FOREIGN] =
        {
            .name = "foreign",
            .state_size = sizeof(struct end *),
            .open = server_open,
            .read = foreign_read,
            .eof = foreign_eof,
            .writable = server_writable,
            .event = server_event,
            .close = server_close,
        },
    [REFUSE] =
        {
            .name = "refuse",
            .state_size = sizeof(struct end *),
            .open = server_open,
            .read = refuse_read,
            .eof = server_eof,
            .writable = server_writable,
            .event = server_event,
            .close = server_close,
        },
    [IDLE] =
        {
            .name = "idle",
            .state_size = sizeof(struct end *),
            .open = server_open,
            .read = echo_read,
            .eof = server_eof,
            .writable = server_writable,
            .event = idle_event,
            .close = server_close,
        },
};

static void serve(struct run *r, enum kind k) {
    struct weir_stage stages[3];
    struct weir_server *server;
    char address[ADDRESS_MAX];
    unsigned n = 0;
    r->roles[k] = (struct role){r, k};
    if (k == FILTER)
        stages[n++] = (struct weir_stage){&engine_front, &r->roles[k]};
    stages[n++] = (struct weir_stage){&lines[k], &r->roles[k]};
    if (k == REFUSE) {
        stages[n++] = (struct weir_stage){&refuser, NULL};
        stages[n++] = (struct weir_stage){&never, NULL};
    }
    engine_address(k, address);
    struct weir_server_options o = {.size = sizeof o,
                                    .address = address,
                                    .stages = stages,
                                    .n_stages = n,
                                    .limits = r->limits,
                                    .placement = r->seed % 3 == 0 ? WEIR_HANDOFF : WEIR_REUSEPORT};
    o.limits.half_open = k == HALF || k == PUSH || k == FOREIGN;
    o.limits.idle_ms = k == IDLE ? IDLE_MS : 0;
    DEMAND(weir_serve(r->group, &o, &server) == 0, "%s", weir_server_why(r->group));
}

void engine_serve(struct run *r) {
    for (unsigned k = 0; k < KINDS; k++)
        if (k != RAW && k != LINKD)
            serve(r, (enum kind)k);
}
