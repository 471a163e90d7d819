/* The embedded channel: a loop with a door of its own that has exactly one socket and no kernel.
 * Bytes pushed in are received, sends are kept for reading, and the clock moves when it is told to.
 * Everything above is the real thing. */
#include "chan/chan.h"
#include "mem/pool.h"
#include "mem/raw.h"

enum { TERMINAL_RECV = 1, TERMINAL_SENT = 2, TERMINAL_CLOSED = 4 };

struct door {
    struct weir__io io;
    struct weir__io_sock sock; /* ref 0: none */
    struct weir_chain in, out;
    const struct weir_chain *sending;
    int64_t credit;
    uint64_t now_ns, chance;
    int recv_code;
    uint8_t terminals; /* queued, by bit; yielded lowest first */
    bool attached, armed, recv_ended, eof, hold, closing, shut;
};

/* Its jobs run inside submit; their results come with the next look into the inbox. */
static int work_submit(struct weir__loop_workers *p, struct weir__loop_work *w) {
    (void)p;
    w->run(w);
    weir__loop_work_over(w, 0);
    return 0;
}

static void work_nothing(struct weir__loop_workers *p, struct weir_loop *l) {
    (void)p, (void)l;
}

static const struct weir__loop_workers_ops work_ops = {
    .submit = work_submit, .cancel = work_nothing, .await = work_nothing};

struct weir_embedded {
    struct door door;
    struct weir__loop_workers workers;
    struct weir_loop *loop, *before;
    struct weir__loop_inbox *inbox;
    struct weir_mem *mem, *mem_before;
    struct weir__chan_plan *plan;
    struct weir_chan *chan;
    struct weir_ref ref;
    int why;
    bool opened;
};

static struct door *of(struct weir__io *io) {
    return container_of(io, struct door, io);
}

/* --- the door ----------------------------------------------------------------------------- */

static int door_attach(struct weir__io *io, intptr_t handle, void *user,
                       struct weir__io_sock **out) {
    struct door *d = of(io);
    (void)handle;
    d->sock.ref = weir__io_slot_new(io->slots, &d->sock);
    if (!d->sock.ref)
        return WEIR_ENOMEM;
    d->sock.user = user;
    d->attached = true;
    *out = &d->sock;
    return 0;
}

static int door_recv_arm(struct weir__io *io, struct weir__io_sock *s, int64_t credit) {
    struct door *d = of(io);
    (void)s;
    if (d->closing)
        return WEIR_EGONE;
    if (d->armed || credit == 0)
        return WEIR_EBUG;
    d->armed = true;
    d->recv_ended = false;
    d->credit = credit;
    return 0;
}

static void take_all(struct door *d, const struct weir_chain *c) {
    for (const struct weir_part *p = c->first; p; p = p->next) {
        struct weir_slice copy = weir_slice_ref(p->slice, 0, p->slice.n);
        if (count_if(weir_chain_add(d->io.mem, &d->out, &copy) < 0))
            weir_slice_release(&copy);
    }
}

static int door_send(struct weir__io *io, struct weir__io_sock *s, const struct weir_chain *c) {
    struct door *d = of(io);
    (void)s;
    if (d->closing)
        return WEIR_EGONE;
    if (d->sending || d->shut || !c->bytes)
        return WEIR_EBUG;
    take_all(d, c);
    if (!d->hold)
        return 1;
    d->sending = c;
    return 0;
}

static int door_send_file(struct weir__io *io, struct weir__io_sock *s, struct weir_file *f,
                          uint64_t off, uint64_t n) {
    (void)io, (void)s, (void)f, (void)off, (void)n;
    return WEIR_ENOTSUP;
}

static void end_recv(struct door *d, int code) {
    if (!d->armed || d->recv_ended)
        return;
    d->recv_ended = true;
    d->recv_code = code;
    d->terminals |= TERMINAL_RECV;
}

static void door_cancel(struct weir__io *io, struct weir__io_sock *s, unsigned ops) {
    (void)s;
    if (ops & WEIR__IO_RECV)
        end_recv(of(io), WEIR_ECANCELLED);
}

static void door_close(struct weir__io *io, struct weir__io_sock *s, bool abort) {
    struct door *d = of(io);
    door_cancel(io, s, WEIR__IO_RECV);
    if (d->sending && abort)
        d->terminals |= TERMINAL_SENT;
    d->closing = true;
    d->terminals |= TERMINAL_CLOSED;
}

static int door_shutdown(struct weir__io *io, struct weir__io_sock *s) {
    struct door *d = of(io);
    (void)s;
    d->shut = true;
    return 0;
}

static int door_address(struct weir__io *io, struct weir__io_sock *s, struct weir_addr *out) {
    (void)io, (void)s;
    *out = (struct weir_addr){.kind = WEIR__ADDR_UNIX, .path_len = 9, .path = "embedded"};
    return 0;
}

static int64_t door_zero(struct weir__io *io, struct weir__io_sock *s) {
    (void)io, (void)s;
    return 0;
}

static bool yield_terminal(struct door *d, struct weir__io_done *out) {
    *out = (struct weir__io_done){.user = d->sock.user, .last = true};
    if (d->terminals & TERMINAL_RECV) {
        d->terminals &= (uint8_t)~TERMINAL_RECV;
        d->armed = false;
        out->kind = WEIR__IO_RECEIVED;
        out->code = d->recv_code;
    } else if (d->terminals & TERMINAL_SENT) {
        d->terminals &= (uint8_t)~TERMINAL_SENT;
        out->kind = WEIR__IO_SENT;
        out->count = d->sending->bytes;
        out->code = d->closing ? WEIR_ECANCELLED : 0;
        d->sending = NULL;
    } else {
        if (d->sending)
            return false; /* closing in order: the send comes to its own end first */
        d->terminals = 0;
        out->kind = WEIR__IO_CLOSED;
        d->attached = false;
        weir__io_slot_free(d->io.slots, d->sock.ref);
    }
    return true;
}

static bool yield_bytes(struct door *d, struct weir__io_done *out) {
    uint64_t n = d->in.first->slice.n;
    if (d->credit > 0 && n > (uint64_t)d->credit)
        n = (uint64_t)d->credit;
    *out = (struct weir__io_done){.user = d->sock.user, .kind = WEIR__IO_RECEIVED};
    if (weir_chain_take(d->io.mem, &d->in, n, &out->slice) < 0) {
        end_recv(d, WEIR_ENOMEM);
        return yield_terminal(d, out);
    }
    if (d->credit > 0 && (d->credit -= (int64_t)n) == 0)
        end_recv(d, WEIR__IO_CREDIT);
    return true;
}

static bool door_next(struct weir__io *io, struct weir__io_done *out) {
    struct door *d = of(io);
    if (d->terminals)
        return yield_terminal(d, out);
    if (!d->armed || d->recv_ended)
        return false;
    if (d->in.bytes)
        return yield_bytes(d, out);
    if (!d->eof)
        return false;
    end_recv(d, WEIR__IO_EOF);
    return yield_terminal(d, out);
}

static int door_wait(struct weir__io *io, uint64_t until_ns) {
    (void)io, (void)until_ns; /* time only moves in weir_embedded_advance */
    return 0;
}

static void door_wake(struct weir__io *io) {
    (void)io;
}

static uint64_t door_now(struct weir__io *io) {
    return of(io)->now_ns;
}

static uint64_t door_entropy(struct weir__io *io) {
    return of(io)->chance += UINT64_C(0x9e3779b97f4a7c15);
}

static const struct weir__io_ops door_ops = {
    .name = "embedded",
    .attach = door_attach,
    .recv_arm = door_recv_arm,
    .send = door_send,
    .send_zc = door_send, /* copies */
    .send_file = door_send_file,
    .cancel = door_cancel,
    .close = door_close,
    .shutdown = door_shutdown,
    .local = door_address,
    .peer = door_address,
    .unsent = door_zero,
    .parked = door_zero,
    .wait = door_wait,
    .next = door_next,
    .wake = door_wake,
    .now = door_now,
    .entropy = door_entropy,
};

/* --- the channel -------------------------------------------------------------------------- */

/* A reader in front of all others would change what is tested, so the end is seen from behind: the
 * last stage of the pipeline. */
static void note_close(struct weir_ctx *c, int why);
static int note_open(struct weir_ctx *c, const void *config);
static const struct weir_handler note = {
    .name = "(embedded)", .state_size = sizeof(void *), .open = note_open, .close = note_close};

static int note_open(struct weir_ctx *c, const void *config) {
    struct weir_embedded *e = (struct weir_embedded *)(uintptr_t)config;
    *(struct weir_embedded **)weir_ctx_state(c) = e;
    e->chan = weir_ctx_chan(c);
    e->opened = true;
    return 0;
}

static void note_close(struct weir_ctx *c, int why) {
    struct weir_embedded *e = *(struct weir_embedded **)weir_ctx_state(c);
    e->chan = NULL;
    e->why = why;
}

static int build(struct weir_embedded *e, const struct weir_stage *stages, unsigned n,
                 const struct weir_limits *limits) {
    struct weir_stage *all = weir__mem_raw_new((n + 1) * sizeof *all);
    if (!all)
        return WEIR_ENOMEM;
    all[0] = (struct weir_stage){&note, e};
    for (unsigned i = 0; i < n; i++)
        all[i + 1] = stages[i];
    int rc = weir__chan_plan_new(e->loop, all, n + 1, limits, &e->plan);
    weir__mem_raw_free(all);
    if (rc < 0)
        return rc;
    rc = weir__chan_accept(e->plan, 0);
    if (rc < 0)
        return rc;
    weir__loop_settle(e->loop);
    if (e->chan && e->chan->state == WEIR__CHAN_OPEN)
        return 0;
    int why = e->chan ? e->chan->why : e->why;
    return why ? why : WEIR_ECANCELLED;
}

static int world(struct weir_embedded *e) {
    e->before = weir__loop_current;
    e->mem_before = weir__mem_current;
    e->mem = weir__mem_pool_new("embedded");
    e->inbox = weir__loop_inbox_get();
    if (!e->mem || !e->inbox)
        return WEIR_ENOMEM;
    e->door.io = (struct weir__io){
        .ops = &door_ops, .mem = e->mem, .slots = &e->inbox->slots, .sends_inline = true};
    e->door.now_ns = UINT64_C(1000000000);
    e->workers.ops = &work_ops;
    struct weir__loop_env env = {
        .io = &e->door.io, .mem = e->mem, .inbox = e->inbox, .workers = &e->workers};
    int rc = weir__loop_new(&env, &e->loop);
    if (rc < 0)
        return rc;
    weir__loop_enter(e->loop);
    return 0;
}

int weir_embedded_new(const struct weir_stage *stages, unsigned n_stages,
                      const struct weir_limits *limits, struct weir_embedded **out) {
    struct weir_embedded *e = weir__mem_raw_new(sizeof *e);
    *out = NULL;
    if (!e)
        return WEIR_ENOMEM;
    int rc = world(e);
    if (rc >= 0)
        rc = build(e, stages, n_stages, limits);
    if (rc < 0) {
        weir_embedded_free(e);
        return rc;
    }
    *out = e;
    return 0;
}

struct weir_chan *weir_embedded_chan(struct weir_embedded *e) {
    return e->chan;
}

int weir_embedded_push(struct weir_embedded *e, const void *data, size_t n) {
    if (!e->chan || e->door.eof)
        return WEIR_EGONE;
    int rc = weir_chain_write(e->mem, &e->door.in, data, n);
    if (rc < 0)
        return rc;
    weir__loop_settle(e->loop);
    return 0;
}

void weir_embedded_eof(struct weir_embedded *e) {
    e->door.eof = true;
    weir__loop_settle(e->loop);
}

void weir_embedded_hold(struct weir_embedded *e, bool hold) {
    e->door.hold = hold;
    if (!hold && e->door.sending)
        e->door.terminals |= TERMINAL_SENT;
    weir__loop_settle(e->loop);
}

void weir_embedded_advance(struct weir_embedded *e, uint32_t ms) {
    weir__loop_settle(
        e->loop); /* what was asked for since the last call, closes and posts among it */
    for (uint32_t i = 0; i < ms; i++) {
        e->door.now_ns += 1000000;
        if (weir__loop_deadline(e->loop) <= e->door.now_ns)
            weir__loop_settle(e->loop);
    }
}

const uint8_t *weir_embedded_out(struct weir_embedded *e, size_t *n) {
    *n = (size_t)e->door.out.bytes;
    return weir_chain_peek(e->mem, &e->door.out, *n);
}

int weir_embedded_state(const struct weir_embedded *e) {
    return e->chan ? 1 : e->why;
}

int weir_embedded_free(struct weir_embedded *e) {
    uint64_t leaks = 0;
    if (e->loop) {
        weir_embedded_hold(e, false);
        weir__loop_stop(e->loop, 0);
        while (weir__loop_turn(e->loop) > 0)
            ;
        weir_chain_fini(&e->door.in);
        weir_chain_fini(&e->door.out);
        weir__loop_free(e->loop);
        weir__loop_current = e->before;
    }
    if (e->plan)
        weir__chan_plan_release(e->plan);
    if (e->inbox)
        weir__loop_inbox_put(e->inbox);
    if (e->mem)
        leaks = weir__mem_pool_free(e->mem);
    weir__mem_enter(e->mem_before);
    weir__mem_raw_free(e);
    return (int)leaks;
}
