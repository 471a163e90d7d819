/* What loops do beside connections: timers, tasks, other threads, pipelines that change, and a door
 * used without channels. */
#include "sweep/rooms.h"
#include "sweep/world.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- timers and tasks ------------------------------------------------------------------------- */

struct clockwork {
    struct weir_timer timer;
    unsigned fired, posted, stopped;
};

static void on_timer(struct weir_timer *t) {
    struct clockwork *c = (struct clockwork *)(void *)t;
    if (++c->fired < 3)
        weir_timer_arm(t->loop, t, weir_loop_now(t->loop) + 10000000, on_timer);
}

static void on_post(struct weir_loop *l, void *user) {
    struct clockwork *c = user;
    c->posted++;
    if (c->posted == 1 && weir_loop_post(l, on_post, c) < 0)
        c->posted++;
}

static void on_stop(struct weir_loop *l, void *user) {
    (void)l;
    ((struct clockwork *)user)->stopped++;
}

static int timers(const char *door) {
    struct world w;
    struct clockwork c = {0};
    int rc = world_open(&w, door);
    if (rc < 0)
        return rc;
    struct weir_loop *l = w.side[CLIENT].loop, *before = weir__loop_enter(l);
    for (unsigned i = 0; i < 40; i++) /* doors fetch it in advance */
        (void)weir__loop_entropy(l);
    weir_timer_arm(l, &c.timer, weir_loop_now(l) + 5000000, on_timer);
    rc = weir_loop_on_stop(l, on_stop, &c);
    unsigned stops = rc == 0;
    weir__loop_enter(before);
    if (rc == 0)
        rc = weir_loop_post(l, on_post, &c); /* from a thread that is no loop's */
    world_until(&w, rc < 0 || (c.fired == 3 && c.posted >= 2) || w.side[CLIENT].ended);
    bool broke = w.side[CLIENT].ended;
    rc = world_close(&w, rc);
    if (!broke && c.stopped != stops)
        sweep_finding("told %u times of %u that the loop stops", c.stopped, stops);
    return rc;
}

/* --- from elsewhere --------------------------------------------------------------------------- */

/* A thread with a pool of its own sends and closes by reference. */
static int foreign(const char *door) {
    struct world w;
    struct end s = {.echo = true}, c = {.want = 4000, .stay = true};
    struct weir_chain out = {0};
    static const uint8_t bytes[2000];
    int rc = world_open(&w, door);
    if (rc < 0)
        return rc;
    rc = end_serve(&w, SERVER, &s);
    if (rc == 0)
        rc = end_dial(&w, CLIENT, &c);
    if (rc == 0)
        world_until(&w, c.answers && (s.opens || end_over(&c)));
    struct weir_mem *m = weir_mem_open("foreign");
    rc = rc < 0 ? rc : m ? c.status : WEIR_ENOMEM;
    for (unsigned i = 0; i < 2 && rc == 0; i++) {
        rc = weir_chain_write(m, &out, bytes, sizeof bytes);
        if (rc == 0)
            rc = weir_send(c.ref, &out);
        weir_chain_fini(&out);
    }
    world_until(&w, rc < 0 || c.got >= 4000 || end_over(&c));
    if (rc == 0)
        rc = weir_close(c.ref, WEIR_DRAIN);
    world_until(&w, rc < 0 || end_over(&c));
    rc = world_close(&w, rc < 0 ? rc : end_result(&c));
    weir_mem_close(m);
    return rc;
}

/* --- pipelines -------------------------------------------------------------------------------- */

static int pass(struct weir_ctx *c, struct weir_chain *in) {
    int rc = weir_ctx_forward(c, in);
    return rc < 0 ? rc : 0;
}

static int pass_out(struct weir_ctx *c, struct weir_chain *out) {
    return weir_ctx_send(c, out);
}

static int pass_open(struct weir_ctx *c, const void *config) {
    (void)config;
    *(void **)weir_ctx_state(c) = weir_mem_new(weir_ctx_mem(c), 100);
    return *(void **)weir_ctx_state(c) ? 0 : WEIR_ENOMEM;
}

static void pass_close(struct weir_ctx *c, int why) {
    (void)why;
    weir_mem_free(*(void **)weir_ctx_state(c));
}

static const struct weir_handler passing = {.name = "passing",
                                            .state_size = sizeof(void *),
                                            .open = pass_open,
                                            .read = pass,
                                            .write = pass_out,
                                            .close = pass_close};

/* The first bytes change the pipeline around them. */
static int insert_read(struct weir_ctx *c, struct weir_chain *in) {
    int rc = weir_ctx_insert_next(c, &passing, NULL);
    if (rc >= 0)
        rc = weir_ctx_forward(c, in);
    if (rc < 0)
        return rc;
    weir_ctx_remove(c);
    return 0;
}

static const struct weir_handler inserting = {
    .name = "inserting", .state_size = 8, .read = insert_read};

static int pipeline(const char *door) {
    struct world w;
    struct weir_stage front = {&inserting, NULL};
    struct end s = {.echo = true, .front = &front},
               c = {.send = 2000, .want = 2000, .front = &front};
    int rc = world_open(&w, door);
    return rc < 0 ? rc : world_close(&w, end_talk(&w, &s, &c));
}

/* --- a door without channels ------------------------------------------------------------------ */

/* As world_open; and the client's loop has started, so that its door may be used directly. */
static int raw_open(struct world *w, const char *door) {
    int rc = world_open(w, door);
    if (rc < 0 || !w->side[CLIENT].ended)
        return rc;
    rc = world_close(w, 0);
    return rc < 0 ? rc : WEIR_ENOMEM;
}

struct raw {
    struct weir__loop_sink sink;
    struct weir__io_sock *sock;
    bool closed, watched;
    unsigned got, sent;
    int code;
};

static void on_raw(struct weir__loop_sink *sink, struct weir__io_done *d) {
    struct raw *r = container_of(sink, struct raw, sink);
    if (d->code < 0 && d->code != WEIR_ECANCELLED && r->code == 0)
        r->code = d->code;
    if (d->kind == WEIR__IO_CLOSED)
        r->closed = true;
    else if (d->kind == WEIR__IO_WATCHED)
        r->watched = true;
    else if (d->kind == WEIR__IO_SENT)
        r->sent++;
    else if (d->kind == WEIR__IO_DGRAM && !d->last)
        r->got++;
    weir_slice_release(&d->slice);
}

static void raw_close(struct world *w, struct raw *r) {
    struct weir__io *io = w->side[CLIENT].io;
    if (!r->sock || w->side[CLIENT].ended)
        return;
    struct weir_loop *before = weir__loop_enter(w->side[CLIENT].loop);
    io->ops->close(io, r->sock, true);
    weir__loop_enter(before);
    world_until(w, r->closed || w->side[CLIENT].ended);
    if (!r->closed && !w->side[CLIENT].ended)
        sweep_finding("a socket never closes");
}

static int watch(const char *door) {
    struct world w;
    struct raw r = {.sink = {on_raw}};
    int rc = raw_open(&w, door);
    if (rc < 0)
        return rc;
    struct weir__io *io = w.side[CLIENT].io;
    struct weir_loop *before = weir__loop_enter(w.side[CLIENT].loop);
    int pipes[2];
    if (pipe2(pipes, O_CLOEXEC | O_NONBLOCK) < 0)
        sweep_finding("no pipe");
    rc = io->ops->watch(io, pipes[0], WEIR__IO_WATCH_READ, &r.sink, &r.sock);
    weir__loop_enter(before);
    if (rc == 0) {
        world_settle(&w);
        if (write(pipes[1], "x", 1) != 1)
            sweep_finding("the pipe takes nothing");
        world_until(&w, r.watched || w.side[CLIENT].ended);
        rc = r.code;
    }
    raw_close(&w, &r);
    rc = world_close(&w, rc);
    close(pipes[0]);
    close(pipes[1]);
    return rc;
}

/* --- datagrams -------------------------------------------------------------------------------- */

static int datagram_socket(struct world *w, const char *address, struct raw *r,
                           struct weir_addr *at) {
    struct weir__io *io = w->side[CLIENT].io;
    struct weir__io_listen o = {.handle = -1, .datagram = true};
    int rc = weir__base_addr_parse(address, &o.addr, NULL);
    r->sink.done = on_raw;
    if (rc == 0)
        rc = io->ops->listen(io, &o, &r->sink, &r->sock);
    if (rc < 0) {
        r->sock = NULL;
        return rc;
    }
    rc = io->ops->local(io, r->sock, at);
    return rc < 0 ? rc : io->ops->recv_dgram_arm(io, r->sock, 2000);
}

static int send_datagrams(struct world *w, struct raw *r, const struct weir_addr *to,
                          struct weir__io_message *m, unsigned n) {
    static const uint8_t bytes[600];
    struct weir__io *io = w->side[CLIENT].io;
    int rc = 0;
    for (unsigned i = 0; i < n && rc == 0; i++) {
        m[i].to = *to;
        rc = weir_chain_write(w->side[CLIENT].mem, &m[i].chain, bytes, sizeof bytes);
    }
    return rc < 0 ? rc : io->ops->send_dgram(io, r->sock, m, n);
}

/* Three of one socket to another; the network may lose them, this machine has no reason to. */
static int datagrams_between(const char *door, const char *address) {
    struct world w;
    struct raw from = {0}, to = {0};
    struct weir__io_message m[3] = {0};
    struct weir_addr from_at, to_at;
    int rc = raw_open(&w, door);
    if (rc < 0)
        return rc;
    struct weir_loop *before = weir__loop_enter(w.side[CLIENT].loop);
    rc = datagram_socket(&w, address, &to, &to_at);
    if (rc == 0)
        rc = datagram_socket(&w, address, &from, &from_at);
    if (rc == 0)
        rc = send_datagrams(&w, &from, &to_at, m, 3);
    weir__loop_enter(before);
    if (rc >= 0) {
        from.sent += rc > 0;
        world_until(&w, (from.sent && to.got == 3) || from.code || to.code ||
                            w.side[CLIENT].ended || (from.sent && w.idle > 2));
        rc = from.code ? from.code : to.code;
    }
    raw_close(&w, &from);
    raw_close(&w, &to);
    before = weir__loop_enter(w.side[CLIENT].loop);
    for (unsigned i = 0; i < 3; i++)
        weir_chain_fini(&m[i].chain);
    weir__loop_enter(before);
    return world_close(&w, rc);
}

static int datagrams(const char *door) {
    return datagrams_between(door, "127.0.0.1:0");
}

static int datagrams6(const char *door) {
    return datagrams_between(door, "[::1]:0");
}

/* --- descriptors ------------------------------------------------------------------------------ */

static void on_fds(struct weir__loop_sink *sink, struct weir__io_done *d) {
    struct raw *r = container_of(sink, struct raw, sink);
    r->got += d->kind == WEIR__IO_FDS;
    if (d->kind != WEIR__IO_FDS || d->code != WEIR__IO_EOF)
        on_raw(sink, d);
}

static int pass_fds(const char *door) {
    struct world w;
    struct raw from = {.sink = {on_raw}}, to = {.sink = {on_fds}};
    struct weir__io_fds out = {.data = "hello", .n = 5, .n_handles = 2, .handles = {0, 1}};
    char text[16];
    struct weir__io_fds in = {.data = text, .n = sizeof text};
    int pair[2];
    int rc = raw_open(&w, door);
    if (rc < 0)
        return rc;
    struct weir__io *io = w.side[CLIENT].io;
    struct weir_loop *before = weir__loop_enter(w.side[CLIENT].loop);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        sweep_finding("no pair of sockets");
    rc = io->ops->attach(io, pair[0], &from.sink, &from.sock);
    if (rc < 0)
        close(pair[0]);
    int rc2 = io->ops->attach(io, pair[1], &to.sink, &to.sock);
    if (rc2 < 0)
        close(pair[1]);
    rc = rc < 0 ? rc : rc2;
    if (rc >= 0)
        rc = io->ops->recv_fds(io, to.sock, &in);
    if (rc >= 0)
        rc = io->ops->send_fds(io, from.sock, &out);
    weir__loop_enter(before);
    if (rc >= 0) {
        world_until(&w, to.got || from.code || to.code || w.side[CLIENT].ended);
        rc = from.code ? from.code : to.code;
    }
    for (unsigned i = 0; to.got && i < in.n_handles; i++)
        close((int)in.handles[i]);
    raw_close(&w, &from);
    raw_close(&w, &to);
    return world_close(&w, rc);
}

const struct sweep_scenario sweep_loops[] = {
    {"timers", timers, .variants = sweep_doors},
    {"foreign", foreign, .variants = sweep_doors},
    {"pipeline", pipeline, .variants = sweep_doors},
    {"watch", watch, .variants = sweep_doors},
    {"datagrams", datagrams, .variants = sweep_doors},
    {"datagrams6", datagrams6, .variants = sweep_doors},
    {"pass_fds", pass_fds, .variants = sweep_doors},
    {0},
};
