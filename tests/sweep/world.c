#include "sweep/world.h"
#include "base/assert.h"
#include "io/epoll/epoll.h"
#include "io/uring/uring.h"
#include "mem/pool.h"
#include "os/clock.h"
#include "sweep/sweep.h"
#include <stdio.h>
#include <string.h>

enum {
    LIMIT_MS = 8000, /* of the world's time: whoever is not done by then gives up */
    LOOKS = 3,       /* looks without work after which the doors may sleep */
    NAPS = 2,        /* and sleeps after which time jumps */
    LAST_NAPS = 100, /* before nothing is believed to come any more */
    NAP_NS = 30000,
    GRACES = 10,
    BROKEN_GRACES = 100, /* behind a ring that broke, which a busy kernel leaves lying */
    GRACE_NS = 20000000,
    STOP_MS = 50,
};

/* --- a door in the world's time --------------------------------------------------------------- */

static struct side *side_of(struct weir__io *io) {
    return container_of(io->ops, struct side, ops);
}

static uint64_t now(struct weir__io *io) {
    struct side *s = side_of(io);
    return s->door->now(io) + s->world->skew_ns;
}

static int wait(struct weir__io *io, uint64_t until_ns) {
    struct side *s = side_of(io);
    return s->door->wait(io, until_ns && s->nap ? s->door->now(io) + NAP_NS : 0);
}

static int door_new(struct side *s, const char *door) {
    struct weir__io_config c = {.mem = s->mem, .slots = &s->inbox->slots};
    const char *why;
    c.edge = !strcmp(door, "et");
    int rc = !strcmp(door, "uring") ? weir__uring_new(&c, &s->io, &why)
                                    : weir__epoll_new(&c, &s->io, &why);
    if (rc < 0) {
        s->io = NULL;
        return rc;
    }
    s->door = s->io->ops;
    s->ops = *s->door;
    s->ops.now = now;
    s->ops.wait = wait;
    s->io->ops = &s->ops;
    return 0;
}

/* --- opening and closing ---------------------------------------------------------------------- */

static int loop_new(struct side *s, const char *door) {
    static const struct weir__loop_world world; /* nothing to start: the scenario turns the loops */
    s->mem = weir__mem_pool_new(door);
    s->inbox = weir__loop_inbox_get();
    s->group = weir__loop_group_new(&world, NULL);
    if (!s->mem || !s->inbox || !s->group)
        return WEIR_ENOMEM;
    weir__mem_enter(s->mem);
    int rc = door_new(s, door);
    if (rc < 0)
        return rc;
    struct weir__loop_env env = {.io = s->io, .mem = s->mem, .inbox = s->inbox, .group = s->group};
    rc = weir__loop_new(&env, &s->loop);
    if (rc < 0) {
        s->loop = NULL;
        return rc;
    }
    s->group->n_loops = 1;
    s->group->loops[0] = s->loop;
    return 0;
}

static void side_broke(struct side *s, int rc) {
    s->error = rc;
    s->ended = true;
    s->stuck = !weir__loop_abandon(s->loop);
    if (s->stuck)
        sweep_finding("a loop that broke with %s cannot be freed", weir_errname(rc));
}

static void side_start(struct side *s) {
    weir__loop_enter(s->loop);
    int rc = weir__loop_start(s->loop);
    if (rc < 0)
        side_broke(s, rc);
    weir__loop_enter(NULL);
}

static void side_free(struct side *s) {
    if (s->stuck)
        return;
    if (s->group)
        weir__loop_group_disown(s->group);
    weir__mem_enter(s->mem);
    if (s->loop)
        weir__loop_free(s->loop);
    if (s->io) {
        s->io->ops = s->door;
        s->door->free(s->io);
    }
    weir__mem_enter(NULL);
    if (s->group)
        weir__loop_group_free(s->group);
    if (s->inbox) {
        if (s->inbox->slots.used)
            sweep_finding("%u slots are left", s->inbox->slots.used);
        weir__loop_inbox_put(s->inbox);
    }
    uint64_t left = s->mem ? weir__mem_pool_free(s->mem) : 0;
    if (left)
        sweep_finding("%llu things are left in a pool", (unsigned long long)left);
}

int world_open(struct world *w, const char *door) {
    *w = (struct world){0};
    int rc = 0;
    for (unsigned i = 0; i < SIDES && rc == 0; i++) {
        w->side[i].world = w;
        rc = loop_new(&w->side[i], door);
        weir__mem_enter(NULL);
    }
    for (unsigned i = 0; i < SIDES; i++) {
        struct side *s = &w->side[i];
        if (rc == 0) {
            side_start(s);
            continue;
        }
        if (s->loop) { /* never turned: ended as a group that never starts ends it */
            weir__loop_enter(s->loop);
            s->stuck = !weir__loop_abandon(s->loop);
            weir__loop_enter(NULL);
        }
        side_free(s);
    }
    w->limit_ns = rc ? 0 : w->side[0].ops.now(w->side[0].io) + LIMIT_MS * UINT64_C(1000000);
    return rc;
}

static bool ended(const struct world *w) {
    return w->side[SERVER].ended && w->side[CLIENT].ended;
}

static void check_side(struct side *s) {
    struct weir__io_stats *n = &s->io->stats;
    if (!s->ended)
        sweep_finding("a loop does not end");
    if (s->error == 0 && n->opened != n->closed)
        sweep_finding("the door opened %llu sockets and closed %llu", (unsigned long long)n->opened,
                      (unsigned long long)n->closed);
    if (s->ended && s->loop->counters.channels)
        sweep_finding("%llu channels are left", (unsigned long long)s->loop->counters.channels);
}

int world_close(struct world *w, int rc) {
    if (w->stalled)
        sweep_finding("somebody waits for ever");
    if (w->late)
        sweep_gave_up();
    w->stalled = w->late = false;
    for (unsigned i = 0; i < SIDES; i++)
        weir__loop_stop(w->side[i].loop, STOP_MS);
    w->limit_ns = w->side[0].ops.now(w->side[0].io) + LIMIT_MS * UINT64_C(1000000);
    world_until(w, ended(w));
    for (unsigned i = 0; i < SIDES; i++) {
        check_side(&w->side[i]);
        if (!w->side[i].ended)
            return rc;
    }
    for (unsigned i = 0; i < SIDES; i++) {
        side_free(&w->side[i]);
        rc = rc < 0 ? rc : w->side[i].error;
    }
    return rc;
}

/* --- turning ---------------------------------------------------------------------------------- */

/* True: it did something. */
static bool turn(struct side *s, bool nap) {
    if (s->ended)
        return false;
    s->nap = nap;
    struct weir_loop *before = weir__loop_enter(s->loop);
    int rc = weir__loop_turn(s->loop);
    if (rc < 0)
        side_broke(s, rc);
    else
        s->ended = rc == 0;
    weir__loop_enter(before);
    bool busy = s->ended || s->loop->worked != s->worked || weir__loop_deadline(s->loop) == 0;
    s->worked = s->loop->worked;
    return busy;
}

static uint64_t next_deadline(const struct world *w) {
    uint64_t next = UINT64_MAX;
    for (unsigned i = 0; i < SIDES; i++) {
        uint64_t at = w->side[i].ended ? UINT64_MAX : weir__loop_deadline(w->side[i].loop);
        next = at < next ? at : next;
    }
    return next;
}

/* Nothing moved for a while: time jumps to what comes next, or nothing comes. */
static bool jump(struct world *w) {
    struct weir__io *io = w->side[0].io;
    uint64_t at = w->side[0].ops.now(io), next = next_deadline(w);
    if (next == UINT64_MAX) {
        w->stalled = w->idle > LOOKS + LAST_NAPS && !ended(w);
        return !w->stalled;
    }
    w->idle = 0;
    if (next > at)
        w->skew_ns += next - at;
    return true;
}

/* The kernel has times of its own: it delays acknowledgements, and takes a closed ring apart, with
 * its sockets, when it comes to it. */
static bool grace(struct world *w) {
    bool broken = w->side[SERVER].error || w->side[CLIENT].error;
    if (w->graces == (broken ? BROKEN_GRACES : GRACES) ||
        (!broken && !w->stalled && sweep_persists()))
        return false;
    w->graces++;
    w->limit_ns += LIMIT_MS * UINT64_C(1000000);
    w->idle = 0;
    w->stalled = w->late = false;
    weir__os_clock_sleep(GRACE_NS);
    return true;
}

bool world_step(struct world *w) {
    bool nap = w->idle >= LOOKS;
    bool busy = turn(&w->side[SERVER], nap);
    busy |= turn(&w->side[CLIENT], nap);
    w->idle = busy ? 0 : w->idle + 1;
    w->late = w->side[0].ops.now(w->side[0].io) > w->limit_ns;
    if (ended(w) || w->late)
        return w->late && !ended(w) && grace(w);
    return w->idle < LOOKS + NAPS || jump(w) || grace(w);
}

void world_settle(struct world *w) {
    for (unsigned quiet = 0; quiet < LOOKS + 1; quiet++) {
        bool busy = turn(&w->side[SERVER], false);
        busy |= turn(&w->side[CLIENT], false);
        if (busy)
            quiet = 0;
    }
    w->idle = 0;
}

void world_wait_ms(struct world *w, uint64_t ms) {
    struct weir__io *io = w->side[0].io;
    uint64_t end = w->side[0].ops.now(io) + ms * 1000000;
    while (w->side[0].ops.now(io) < end) {
        world_settle(w);
        uint64_t next = next_deadline(w), at = w->side[0].ops.now(io);
        next = next < end ? next : end;
        if (next > at)
            w->skew_ns += next - at;
    }
    world_settle(w);
}

/* --- ends ------------------------------------------------------------------------------------- */

static struct end *of(struct weir_ctx *c) {
    return *(struct end **)weir_ctx_state(c);
}

static int fill(struct weir_mem *m, struct weir_chain *c, uint64_t n, bool whole) {
    static const uint8_t zeros[10000]; /* flights end inside a piece */
    struct weir_slice s;
    int rc = 0;
    if (whole) {
        rc = weir_slice_new(m, n, &s);
        if (rc < 0)
            return rc;
        memset(s.p, 0, n);
        rc = weir_chain_add(m, c, &s);
        if (rc < 0)
            weir_slice_release(&s);
        return rc;
    }
    for (uint64_t cut; rc == 0 && n; n -= cut) {
        cut = n < sizeof zeros ? n : sizeof zeros;
        rc = weir_chain_write(m, c, zeros, cut);
    }
    return rc;
}

int end_send(struct end *e, uint64_t n) {
    struct weir_chain c = {0};
    int rc = e->ctx ? fill(weir_ctx_mem(e->ctx), &c, n, e->whole) : WEIR_EGONE;
    if (rc == 0)
        rc = weir_ctx_send(e->ctx, &c);
    weir_chain_fini(&c);
    return rc;
}

static int send_text(struct end *e, const char *text) {
    struct weir_chain c = {0};
    int rc = weir_chain_write(weir_ctx_mem(e->ctx), &c, text, strlen(text));
    if (rc == 0)
        rc = weir_ctx_send(e->ctx, &c);
    weir_chain_fini(&c);
    return rc;
}

static int send_file(struct end *e) {
    struct weir_chain c = {0};
    int rc = weir_chain_add_file(weir_ctx_mem(e->ctx), &c, e->file, 0, e->send);
    if (rc == 0)
        rc = weir_ctx_send(e->ctx, &c);
    weir_chain_fini(&c);
    return rc;
}

static int send_first(struct end *e) {
    if (e->proxy)
        return send_text(e, "PROXY TCP4 10.0.0.1 10.0.0.2 1000 80\r\nhello");
    if (e->file)
        return send_file(e);
    return e->send ? end_send(e, e->send) : 0;
}

static int on_open(struct weir_ctx *c, const void *config) {
    struct end *e = *(struct end **)weir_ctx_state(c) = (struct end *)(uintptr_t)config;
    e->ctx = c;
    e->opens++;
    e->ref = weir_chan_ref(weir_ctx_chan(c));
    if (e->credit)
        weir_chan_credit(weir_ctx_chan(c), e->credit < 0 ? 0 : e->credit);
    int rc = send_first(e);
    if (rc == 0 && e->shut)
        weir_chan_shutdown(weir_ctx_chan(c));
    if (rc < 0) { /* its close is not owed */
        e->ctx = NULL;
        e->closes++;
        e->why = e->why ? e->why : rc;
    }
    return rc < 0 ? rc : 0;
}

static int on_read(struct weir_ctx *c, struct weir_chain *in) {
    struct end *e = of(c);
    e->got += in->bytes;
    if (e->echo) {
        int rc = weir_ctx_send(c, in);
        return rc < 0 ? rc : 0;
    }
    weir_chain_drop(in, in->bytes);
    if (e->want && e->got >= e->want && !e->stay)
        weir_chan_close(weir_ctx_chan(c), WEIR_DRAIN);
    return 0;
}

static void on_eof(struct weir_ctx *c, bool clean) {
    (void)clean;
    of(c)->eofs++;
}

static void on_event(struct weir_ctx *c, int what, const void *data) {
    (void)data;
    of(c)->idles += what == WEIR_EVENT_IDLE;
}

static void on_close(struct weir_ctx *c, int why) {
    struct end *e = of(c);
    e->closes++;
    e->why = e->why ? e->why : why;
    if (e->ctx == c)
        e->ctx = NULL;
}

const struct weir_handler end_handler = {
    .name = "end",
    .state_size = sizeof(struct end *),
    .open = on_open,
    .read = on_read,
    .eof = on_eof,
    .event = on_event,
    .close = on_close,
};

static unsigned stages_of(struct end *e, struct weir_stage *out) {
    unsigned n = 0;
    if (e->only) {
        out[0] = *e->only;
        return 1;
    }
    if (e->front)
        out[n++] = *e->front;
    out[n++] = (struct weir_stage){&end_handler, e};
    return n;
}

int end_serve(struct world *w, unsigned who, struct end *e) {
    struct weir_stage stages[2];
    struct weir_server_options o = {.size = sizeof o, .stages = stages, .limits = e->limits};
    struct weir_server *server;
    e->world = w;
    e->who = who;
    o.address = w->address[0] ? w->address : "127.0.0.1:0";
    o.n_stages = stages_of(e, stages);
    o.socket.sndbuf_bytes = e->sndbuf_bytes;
    int rc = weir_serve(w->side[who].group, &o, &server);
    if (rc >= 0) {
        snprintf(w->address, sizeof w->address, "%s", weir_server_address(server));
        return 0;
    }
    if (!weir_server_why(w->side[who].group)[0])
        sweep_finding("weir_serve failed with %s and does not say why", weir_errname(rc));
    return rc;
}

static void answered(struct weir_chan *ch, int status, void *user) {
    struct end *e = user;
    e->answers++;
    e->chan = ch;
    if (status < 0)
        e->status = status;
}

int end_dial(struct world *w, unsigned who, struct end *e) {
    struct weir_stage stages[2];
    struct weir_client_options o = {.size = sizeof o,
                                    .address = w->address,
                                    .stages = stages,
                                    .connect_ms = e->connect_ms,
                                    .limits = e->limits};
    e->world = w;
    e->who = who;
    o.n_stages = stages_of(e, stages);
    struct weir_loop *before = weir__loop_enter(w->side[who].loop);
    int rc = w->side[who].ended ? WEIR_ESTOPPED : weir_connect(w->side[who].loop, &o, answered, e);
    weir__loop_enter(before);
    if (rc >= 0)
        e->dials++;
    else
        e->status = rc;
    return rc;
}

void end_close(struct end *e, enum weir_close how) {
    struct weir_loop *before = weir__loop_enter(e->world->side[e->who].loop);
    if (e->ctx)
        weir_chan_close(weir_ctx_chan(e->ctx), how);
    weir__loop_enter(before);
}

bool end_over(const struct end *e) {
    return e->dials == e->answers && e->opens == e->closes;
}

int end_result(const struct end *e) {
    if (e->status < 0)
        return e->status;
    if (e->why < 0)
        return e->why;
    return e->got < e->want ? WEIR_ETRUNCATED : 0;
}

int end_talk(struct world *w, struct end *s, struct end *c) {
    int rc = end_serve(w, SERVER, s);
    if (rc >= 0)
        rc = end_dial(w, CLIENT, c);
    if (rc < 0)
        return rc;
    world_until(w, end_over(c));
    return end_result(c);
}
