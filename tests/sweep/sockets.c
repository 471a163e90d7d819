/* A door used directly, without channels: foreign descriptors, accepting, datagrams, descriptors
 * that are passed on, sends without a copy. */
#include "sweep/rooms.h"
#include "sweep/world.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

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
    uint64_t bytes; /* that came */
    int code;
};

static void on_raw(struct weir__loop_sink *sink, struct weir__io_done *d) {
    struct raw *r = container_of(sink, struct raw, sink);
    r->bytes += d->slice.n;
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

/* --- accepting -------------------------------------------------------------------------------- */

enum { CALLERS = 3 };

struct door_keeper {
    struct raw raw;
    struct weir__io *io;
    bool over; /* nobody is accepted any more */
};

/* The first is enough; who came with it stays for the next arm. */
static void on_caller(struct weir__loop_sink *sink, struct weir__io_done *d) {
    struct raw *r = container_of(sink, struct raw, sink);
    struct door_keeper *k = container_of(r, struct door_keeper, raw);
    if (d->kind == WEIR__IO_ACCEPTED && d->handle >= 0) {
        k->io->ops->drop(k->io, d->handle);
        if (++r->got == 1 && !d->last)
            k->io->ops->cancel(k->io, r->sock, WEIR__IO_ACCEPT);
    }
    k->over |= d->kind == WEIR__IO_ACCEPTED && d->last;
    on_raw(sink, d);
}

static void call_at(const struct weir_addr *at, int callers[CALLERS]) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    to.sin_port = htons(at->port);
    sweep_aside(true);
    for (unsigned i = 0; i < CALLERS; i++) {
        callers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(callers[i], (struct sockaddr *)&to, sizeof to) < 0 && errno != EINTR)
            sweep_finding("nobody listens");
    }
    sweep_aside(false);
}

static int arm_accept(struct world *w, struct door_keeper *k) {
    struct weir_loop *before = weir__loop_enter(w->side[CLIENT].loop);
    int rc = w->side[CLIENT].ended ? WEIR_ESTOPPED : k->io->ops->accept_arm(k->io, k->raw.sock, -1);
    weir__loop_enter(before);
    k->over = false;
    return rc;
}

/* All of them come, but for those that there is no memory for. */
static int accept_some(struct world *w, struct door_keeper *k, const struct weir_addr *at) {
    int callers[CALLERS];
    int rc = arm_accept(w, k);
    if (rc < 0)
        return rc;
    world_settle(w);
    call_at(at, callers);
    world_until(w, k->over || w->side[CLIENT].ended || w->idle > 2);
    if (k->over && k->raw.code == 0)
        rc = arm_accept(w, k);
    world_until(w, k->raw.got == CALLERS || k->over || w->side[CLIENT].ended || w->idle > 2);
    for (unsigned i = 0; i < CALLERS; i++)
        close(callers[i]);
    return rc < 0 ? rc : k->raw.code;
}

static int accept_cancelled(const char *door) {
    struct world w;
    struct door_keeper k = {.raw.sink = {on_caller}};
    struct weir__io_listen o = {.handle = -1};
    struct weir_addr at;
    int rc = raw_open(&w, door);
    if (rc < 0)
        return rc;
    k.io = w.side[CLIENT].io;
    struct weir_loop *before = weir__loop_enter(w.side[CLIENT].loop);
    rc = weir__base_addr_parse("127.0.0.1:0", &o.addr, NULL);
    if (rc == 0)
        rc = k.io->ops->listen(k.io, &o, &k.raw.sink, &k.raw.sock);
    if (rc == 0)
        rc = k.io->ops->local(k.io, k.raw.sock, &at);
    weir__loop_enter(before);
    if (rc >= 0)
        rc = accept_some(&w, &k, &at);
    raw_close(&w, &k.raw);
    return world_close(&w, rc);
}

/* --- datagrams -------------------------------------------------------------------------------- */

enum { BATCH_MAX = 40 };

struct batch { /* what one socket sends to another */
    const char *address;
    unsigned n;
    uint16_t bytes, segment_bytes; /* of each message; > 0: it is cut into datagrams */
};

static int datagram_socket(struct world *w, const struct batch *b, struct raw *r,
                           struct weir_addr *at) {
    struct weir__io *io = w->side[CLIENT].io;
    struct weir__io_listen o = {.handle = -1, .datagram = true, .gro = b->segment_bytes > 0};
    int rc = weir__base_addr_parse(b->address, &o.addr, NULL);
    r->sink.done = on_raw;
    if (rc == 0)
        rc = io->ops->listen(io, &o, &r->sink, &r->sock);
    if (rc < 0) {
        r->sock = NULL;
        return rc;
    }
    rc = io->ops->local(io, r->sock, at);
    return rc < 0 ? rc : io->ops->recv_dgram_arm(io, r->sock, b->segment_bytes ? 0 : 2000);
}

static int send_datagrams(struct world *w, struct raw *r, const struct weir_addr *to,
                          struct weir__io_message *m, const struct batch *b) {
    static const uint8_t bytes[UINT16_MAX];
    struct weir__io *io = w->side[CLIENT].io;
    int rc = 0;
    for (unsigned i = 0; i < b->n && rc == 0; i++) {
        m[i].to = *to;
        m[i].segment_bytes = b->segment_bytes;
        rc = weir_chain_write(w->side[CLIENT].mem, &m[i].chain, bytes, b->bytes);
    }
    return rc < 0 ? rc : io->ops->send_dgram(io, r->sock, m, b->n);
}

/* From one socket to another; the network may lose them, this machine has no reason to. */
static int datagrams_between(const char *door, const struct batch *b) {
    struct world w;
    struct raw from = {0}, to = {0};
    struct weir__io_message m[BATCH_MAX] = {0};
    struct weir_addr from_at, to_at;
    int rc = raw_open(&w, door);
    if (rc < 0)
        return rc;
    struct weir_loop *before = weir__loop_enter(w.side[CLIENT].loop);
    rc = datagram_socket(&w, b, &to, &to_at);
    if (rc == 0)
        rc = datagram_socket(&w, b, &from, &from_at);
    if (rc == 0)
        rc = send_datagrams(&w, &from, &to_at, m, b);
    weir__loop_enter(before);
    if (rc >= 0) {
        from.sent += rc > 0;
        world_until(&w, (from.sent && to.bytes == (uint64_t)b->n * b->bytes) || from.code ||
                            to.code || w.side[CLIENT].ended || (from.sent && w.idle > 2));
        rc = from.code ? from.code : to.code;
    }
    raw_close(&w, &from);
    raw_close(&w, &to);
    before = weir__loop_enter(w.side[CLIENT].loop);
    for (unsigned i = 0; i < b->n; i++)
        weir_chain_fini(&m[i].chain);
    weir__loop_enter(before);
    return world_close(&w, rc);
}

static int datagrams(const char *door) {
    return datagrams_between(door, &(struct batch){"127.0.0.1:0", .n = 3, .bytes = 600});
}

static int datagrams6(const char *door) {
    return datagrams_between(door, &(struct batch){"[::1]:0", .n = 3, .bytes = 600});
}

/* More than one system call sends or receives. */
static int datagram_batch(const char *door) {
    return datagrams_between(door, &(struct batch){"127.0.0.1:0", .n = BATCH_MAX, .bytes = 600});
}

/* Cut by the kernel, and joined by it again. */
static int datagram_segments(const char *door) {
    return datagrams_between(
        door, &(struct batch){"127.0.0.1:0", .n = 3, .bytes = 5100, .segment_bytes = 500});
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

/* --- sends without a copy --------------------------------------------------------------------- */

enum { PINS = 10, PIN_BYTES = 40000, NOT_PINNED = -1 };

struct pinning {
    struct raw raw;
    unsigned next; /* the send that is under way, or comes next */
    unsigned waiting;
    struct weir_chain chain[PINS];
    intptr_t number[PINS];
};

static void let_go(struct pinning *p, intptr_t number) {
    for (unsigned i = 0; i < p->next; i++) {
        if (p->number[i] != number)
            continue;
        p->number[i] = NOT_PINNED;
        weir_chain_fini(&p->chain[i]);
        p->waiting--;
        return;
    }
    sweep_finding("a notice comes for nothing");
}

static void went(struct pinning *p, bool pinned, intptr_t number) {
    if (pinned)
        p->number[p->next] = number;
    else
        weir_chain_fini(&p->chain[p->next]);
    p->waiting += pinned;
    p->next++;
}

static void on_pinning(struct weir__loop_sink *sink, struct weir__io_done *d) {
    struct pinning *p = container_of(container_of(sink, struct raw, sink), struct pinning, raw);
    if (d->kind == WEIR__IO_UNPINNED)
        let_go(p, d->handle);
    else if (d->kind == WEIR__IO_SENT)
        went(p, d->pinned, d->handle);
    else if (d->kind == WEIR__IO_CLOSED && p->waiting)
        sweep_finding("closed with %u notices to come", p->waiting);
    on_raw(sink, d);
}

static void tcp_pair(int pair[2]) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    sweep_aside(true);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pair[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&at, len) < 0 || listen(fd, 1) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) < 0 ||
        connect(pair[0], (struct sockaddr *)&at, len) < 0 ||
        fcntl(pair[0], F_SETFL, O_NONBLOCK) < 0)
        sweep_finding("no pair of sockets");
    pair[1] = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    close(fd);
    sweep_aside(false);
}

static int attach_both(struct weir__io *io, struct raw *from, struct raw *to) {
    struct raw *both[] = {from, to};
    int pair[2], rc = 0;
    tcp_pair(pair);
    for (unsigned i = 0; i < 2; i++) {
        int taken = io->ops->attach(io, pair[i], &both[i]->sink, &both[i]->sock);
        if (taken < 0)
            close(pair[i]);
        rc = rc < 0 ? rc : taken;
    }
    return rc < 0 ? rc : io->ops->recv_arm(io, to->sock, -1);
}

/* 0: its SENT follows, or has come. */
static int submit_one(struct world *w, struct pinning *p) {
    static const uint8_t bytes[PIN_BYTES];
    struct weir__io *io = w->side[CLIENT].io;
    struct weir_loop *before = weir__loop_enter(w->side[CLIENT].loop);
    int rc = weir_chain_write(w->side[CLIENT].mem, &p->chain[p->next], bytes, sizeof bytes);
    if (rc == 0)
        rc = io->ops->send_zc(io, p->raw.sock, &p->chain[p->next]);
    if (rc == 1)
        went(p, false, 0);
    weir__loop_enter(before);
    return rc < 0 ? rc : 0;
}

static int send_pinned(struct world *w, struct pinning *p, struct raw *to) {
    int rc = 0;
    for (unsigned i = 0; i < PINS && rc == 0; i++) {
        rc = submit_one(w, p);
        world_until(w, rc < 0 || p->next > i || p->raw.code || w->side[CLIENT].ended);
        rc = rc < 0 ? rc : p->raw.code;
        if (w->side[CLIENT].ended)
            return rc;
    }
    world_until(w, rc < 0 || (p->waiting == 0 && to->bytes == PINS * PIN_BYTES) || to->code ||
                       w->side[CLIENT].ended);
    return rc < 0 ? rc : to->code;
}

/* More in vain than the door bears; or one that is still on its way when its socket closes. */
static int pinned(const char *door, bool all) {
    struct world w;
    struct pinning from = {.raw.sink = {on_pinning}};
    struct raw to = {.sink = {on_raw}};
    int rc = raw_open(&w, door);
    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < PINS; i++)
        from.number[i] = NOT_PINNED;
    struct weir_loop *before = weir__loop_enter(w.side[CLIENT].loop);
    rc = attach_both(w.side[CLIENT].io, &from.raw, &to);
    weir__loop_enter(before);
    if (rc >= 0)
        rc = all ? send_pinned(&w, &from, &to) : submit_one(&w, &from);
    raw_close(&w, &from.raw);
    raw_close(&w, &to);
    before = weir__loop_enter(w.side[CLIENT].loop);
    for (unsigned i = 0; i < PINS; i++) /* of a loop that broke */
        weir_chain_fini(&from.chain[i]);
    weir__loop_enter(before);
    return world_close(&w, rc);
}

static int zero_copy(const char *door) {
    return pinned(door, true);
}

static int zero_copy_aborted(const char *door) {
    return pinned(door, false);
}

const struct sweep_scenario sweep_sockets[] = {
    {"watch", watch, .variants = sweep_doors},
    {"accept_cancelled", accept_cancelled, .variants = sweep_doors},
    {"datagrams", datagrams, .variants = sweep_doors},
    {"datagrams6", datagrams6, .variants = sweep_doors},
    {"datagram_batch", datagram_batch, .variants = sweep_doors},
    {"datagram_segments", datagram_segments, .variants = sweep_doors},
    {"pass_fds", pass_fds, .variants = sweep_doors},
    {"zero_copy", zero_copy, .variants = sweep_doors},
    {"zero_copy_aborted", zero_copy_aborted, .variants = sweep_doors},
    {0},
};
