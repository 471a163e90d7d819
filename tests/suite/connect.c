/* Connecting: every way it can end, told exactly once. */
#include "suite/suite.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* An address where nobody listens: a bound socket that does not listen holds the port. */
static int nowhere(struct pair *p) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    demand(p, fd >= 0 && bind(fd, (struct sockaddr *)&at, len) == 0);
    demand(p, getsockname(fd, (struct sockaddr *)&at, &len) == 0);
    snprintf(p->address, sizeof p->address, "127.0.0.1:%d", ntohs(at.sin_port));
    return fd;
}

static void refused(struct pair *p) {
    struct actor c = {0};
    int fd = nowhere(p);
    dial(p, CLIENT, &c);
    until(p, c.answers);
    pair_settle(p);
    expect(&c, "connect EREFUSED");
    close(fd);
    pair_close(p);
}

static void refused_many(struct pair *p) {
    struct actor c = {0};
    int fd = nowhere(p);
    for (int i = 0; i < 50; i++)
        dial(p, CLIENT, &c);
    until(p, c.answers == 50);
    demand(p, c.opens == 0 && c.closes == 0);
    close(fd);
    pair_close(p);
}

/* A listener nobody accepts at, its backlog of one filled by others. */
struct full {
    struct weir__loop_sink sink;
    struct weir__io_sock *sock;
    struct actor fillers;
    bool closed;
};

static void full_done(struct weir__loop_sink *sink, struct weir__io_done *d) {
    container_of(sink, struct full, sink)->closed = d->kind == WEIR__IO_CLOSED;
}

static void full_open(struct pair *p, struct full *f) {
    struct weir__io_listen o = {.handle = -1, .backlog = 1};
    struct weir__io *io = p->side[SERVER].io;
    struct weir_addr at;
    f->sink.done = full_done;
    pair_act_as(p, SERVER);
    demand(p, weir__base_addr_parse("127.0.0.1:0", &o.addr, NULL) == 0);
    demand(p, io->ops->listen(io, &o, &f->sink, &f->sock) == 0);
    demand(p, io->ops->local(io, f->sock, &at) == 0);
    weir__loop_enter(NULL);
    weir__base_addr_format(&at, p->address, sizeof p->address);
    for (int i = 0; i < 4; i++)
        dial(p, CLIENT, &f->fillers);
    pair_settle(p);
}

static void full_close(struct pair *p, struct full *f) {
    struct weir__io *io = p->side[SERVER].io;
    pair_act_as(p, SERVER);
    io->ops->close(io, f->sock, false);
    weir__loop_enter(NULL);
    until(p, f->closed);
}

static void timed_out(struct pair *p) {
    struct full f = {0};
    struct actor c = {.connect_ms = 30};
    full_open(p, &f);
    dial(p, CLIENT, &c);
    until(p, c.answers);
    expect(&c, "connect ETIMEDOUT");
    full_close(p, &f);
    pair_close(p);
}

static void stopped_meanwhile(struct pair *p) {
    struct full f = {0};
    struct actor c = {.connect_ms = 60000};
    full_open(p, &f);
    dial(p, CLIENT, &c);
    pair_wait_ms(p, 5);
    demand(p, !c.answers);
    weir__loop_stop(p->side[CLIENT].loop, 30);
    until(p, c.answers && p->side[CLIENT].ended);
    expect(&c, "connect ESTOPPED");
    full_close(p, &f);
    pair_close(p);
}

static void stopped_before(struct pair *p) {
    struct actor s = {0}, c = {0};
    serve(p, SERVER, &s);
    weir__loop_stop(p->side[CLIENT].loop, 0);
    until(p, p->side[CLIENT].ended);
    dial(p, CLIENT, &c);
    expect(&c, "refused ESTOPPED");
    pair_close(p);
}

static int say_hello(struct actor *a) {
    return say(a, "hello");
}

static void early_data(struct pair *p) {
    struct actor s = {.open = say_hello}, c = {.open = say_hello};
    serve(p, SERVER, &s);
    dial(p, CLIENT, &c);
    until(p, s.got == 5 && c.got == 5);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 5 'hello'; eof clean; close 0", &c,
               "open; read 5 'hello'; close 0");
    pair_close(p);
}

static void close_now(struct actor *a, struct weir_chan *ch) {
    demand(a->pair, ch != NULL && a->opens == 1);
    weir_chan_close(ch, WEIR_DRAIN);
}

static void closed_at_once(struct pair *p) {
    struct actor s = {0}, c = {.connected = close_now};
    serve(p, SERVER, &s);
    dial(p, CLIENT, &c);
    expect_end(p, &s, "open; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static void abort_now(struct actor *a, struct weir_chan *ch) {
    (void)a;
    weir_chan_close(ch, WEIR_ABORT);
}

static void aborted_at_once(struct pair *p) {
    struct actor s = {0}, c = {.connected = abort_now};
    serve(p, SERVER, &s);
    dial(p, CLIENT, &c);
    until(p, c.closes);
    pair_settle(p);
    expect(&c, "open; close ECANCELLED");
    demand(p, s.opens == s.closes && s.got == 0);
    pair_close(p);
}

static int refuse(struct actor *a) {
    (void)a;
    return WEIR_EPROTO;
}

static void refused_by_its_own_handler(struct pair *p) {
    struct actor s = {0}, c = {.open = refuse};
    serve(p, SERVER, &s);
    dial(p, CLIENT, &c);
    expect_end(p, &s, "open; eof clean; close 0", &c, "open; connect EPROTO");
    pair_close(p);
}

static void to_no_address(struct pair *p) {
    struct actor c = {0};
    snprintf(p->address, sizeof p->address, "nonsense");
    dial(p, CLIENT, &c);
    expect(&c, "refused EINVAL");
    pair_close(p);
}

static void say_and_drain(struct actor *a, struct weir_chan *ch) {
    say(a, "one thing");
    weir_chan_close(ch, WEIR_DRAIN);
}

static void one_word_and_gone(struct pair *p) {
    struct actor s = {0}, c = {.connected = say_and_drain};
    serve(p, SERVER, &s);
    dial(p, CLIENT, &c);
    expect_end(p, &s, "open; read 9 'one thing'; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

const struct suite_case suite_connect[] = {
    {"connect.refused", refused, ANYWHERE, {0}},
    {"connect.refused_many", refused_many, ANYWHERE, {0}},
    {"connect.timed_out", timed_out, ANYWHERE, {0}},
    {"connect.loop_stops_meanwhile", stopped_meanwhile, ANYWHERE, {0}},
    {"connect.loop_stopped_before", stopped_before, ANYWHERE, {0}},
    {"connect.early_data", early_data, ANYWHERE, {0}},
    {"connect.closed_at_once", closed_at_once, ANYWHERE, {0}},
    {"connect.aborted_at_once", aborted_at_once, ANYWHERE, {0}},
    {"connect.open_refuses", refused_by_its_own_handler, ANYWHERE, {0}},
    {"connect.no_address", to_no_address, ANYWHERE, {0}},
    {"connect.one_word_and_gone", one_word_and_gone, ANYWHERE, {0}},
    {0},
};
