/* Messages with handles over unix streams: a listener changes hands; and keys for the kernel. */
#include "suite/raw.h"
#include <stdio.h>
#include <string.h>

struct two {
    struct raw s, c;
    struct weir__io_fds in, out;
    char text[WEIR__IO_FDS_BYTES_MAX + 1];
};

static struct two two;

static struct two *connect_both(struct pair *p) {
    struct two *t = &two;
    char name[64];
    *t = (struct two){0};
    snprintf(name, sizeof name, "unix:@weir-fds-%llx",
             (unsigned long long)p->side[SERVER].io->ops->entropy(p->side[SERVER].io));
    raw_connection(p, &t->s, &t->c, name);
    return t;
}

static void close_both(struct two *t) {
    raw_close(&t->s);
    raw_close(&t->c);
    pair_close(t->s.p);
}

static int64_t submit(struct two *t, const char *text, size_t n) {
    t->out.data = (void *)text;
    t->out.n = n;
    return as(&t->c, t->c.ops->send_fds(t->c.io, t->c.sock, &t->out));
}

static void send_it(struct two *t, const char *text) {
    unsigned before = t->c.n;
    int64_t rc = submit(t, text, strlen(text));
    demand(t->c.p, rc == 0 || rc == 1);
    if (rc == 0) {
        struct weir__io_done *d = raw_is(&t->c, before, WEIR__IO_SENT);
        demand(t->c.p, d->last && d->code == 0 && d->count == strlen(text));
    }
}

static void arm(struct two *t) {
    t->in.data = t->text;
    t->in.n = sizeof t->text;
    demand(t->s.p, as(&t->s, t->s.ops->recv_fds(t->s.io, t->s.sock, &t->in)) == 0);
}

static int received(struct two *t) {
    struct weir__io_done *d = raw_is(&t->s, t->s.n ? t->s.n - 1 : 0, WEIR__IO_FDS);
    demand(t->s.p, d->last);
    return d->code;
}

static void expect_message(struct two *t, const char *text, unsigned n_handles) {
    unsigned before = t->s.n;
    arm(t);
    raw_until(&t->s, before + 1);
    demand(t->s.p, received(t) == 0 && t->in.n == strlen(text));
    demand(t->s.p, t->s.done[before].count == t->in.n);
    demand(t->s.p, !memcmp(t->text, text, t->in.n) && t->in.n_handles == n_handles);
}

static void drop_all(struct two *t) {
    pair_act_as(t->s.p, SERVER);
    for (unsigned i = 0; i < t->in.n_handles; i++)
        t->s.ops->drop(t->s.io, t->in.handles[i]);
    weir__loop_enter(NULL);
    t->in.n_handles = 0;
}

/* The client's listener goes on at the server, with the connection that waited in its queue. */
static void a_listener_changes_hands(struct pair *p) {
    struct two *t = connect_both(p);
    struct raw old, new, early, late;
    raw_init(&old, p, CLIENT);
    raw_listen(&old, (struct weir__io_listen){.handle = -1}, NULL);
    struct weir__io_connect to = {.addr = raw_local(&old)};
    raw_init(&early, p, CLIENT);
    raw_init(&late, p, CLIENT);
    demand(p, as(&early, early.ops->connect(early.io, &to, &early.sink, &early.sock)) == 0);
    demand(p, raw_is(&early, 0, WEIR__IO_CONNECTED)->code == 0);
    t->out.handles[0] = as(&old, old.ops->handle(old.io, old.sock));
    t->out.n_handles = 1;
    send_it(t, "yours");
    raw_close(&old);
    expect_message(t, "yours", 1);
    raw_init(&new, p, SERVER);
    raw_listen(&new, (struct weir__io_listen){.handle = t->in.handles[0]}, NULL);
    demand(p, as(&new, new.ops->accept_arm(new.io, new.sock, 2)) == 0);
    demand(p, as(&late, late.ops->connect(late.io, &to, &late.sink, &late.sock)) == 0);
    demand(p, raw_is(&late, 0, WEIR__IO_CONNECTED)->code == 0);
    for (unsigned i = 0; i < 2; i++) {
        intptr_t handle = raw_is(&new, i, WEIR__IO_ACCEPTED)->handle;
        pair_act_as(p, SERVER);
        new.ops->drop(new.io, handle);
        weir__loop_enter(NULL);
    }
    raw_close(&new);
    raw_close(&early);
    raw_close(&late);
    close_both(t);
}

static void sixty_four_handles(struct pair *p) {
    struct two *t = connect_both(p);
    intptr_t own = as(&t->c, t->c.ops->handle(t->c.io, t->c.sock));
    for (unsigned i = 0; i < WEIR__IO_HANDLES_MAX; i++)
        t->out.handles[i] = own;
    t->out.n_handles = WEIR__IO_HANDLES_MAX;
    send_it(t, "all");
    expect_message(t, "all", WEIR__IO_HANDLES_MAX);
    drop_all(t);
    t->out.n_handles = 0;
    send_it(t, "none");
    expect_message(t, "none", 0);
    close_both(t);
}

static void no_room_for_them(struct pair *p) {
    struct two *t = connect_both(p);
    t->out.handles[0] = t->out.handles[1] = as(&t->c, t->c.ops->handle(t->c.io, t->c.sock));
    t->out.n_handles = 2;
    send_it(t, "two too many");
    arm(t);
    raw_until(&t->s, 1);
    demand(p, received(t) == WEIR_ETOOBIG && t->in.n_handles == 0);
    t->out.n_handles = 1; /* it is no end */
    send_it(t, "next");
    expect_message(t, "next", 1);
    drop_all(t);
    close_both(t);
}

static void two_and_the_end(struct pair *p) {
    struct two *t = connect_both(p);
    intptr_t own = as(&t->c, t->c.ops->handle(t->c.io, t->c.sock));
    t->out.handles[0] = own;
    t->out.n_handles = 1;
    send_it(t, "first");
    send_it(t, "second");
    demand(p, as(&t->c, t->c.ops->shutdown(t->c.io, t->c.sock)) == 0);
    expect_message(t, "first", 1);
    drop_all(t);
    expect_message(t, "second", 1);
    drop_all(t);
    for (int twice = 0; twice < 2; twice++) {
        unsigned before = t->s.n;
        arm(t);
        raw_until(&t->s, before + 1);
        demand(p, received(t) == WEIR__IO_EOF && t->in.n_handles == 0);
    }
    demand(p, submit(t, "more", 4) == WEIR_EBUG);
    close_both(t);
}

static void cancelled_and_taken_later(struct pair *p) {
    struct two *t = connect_both(p);
    arm(t);
    pair_settle(p);
    pair_act_as(p, SERVER);
    t->s.ops->cancel(t->s.io, t->s.sock, WEIR__IO_RECV);
    weir__loop_enter(NULL);
    raw_until(&t->s, 1);
    demand(p, received(t) == WEIR_ECANCELLED);
    t->out.handles[0] = as(&t->c, t->c.ops->handle(t->c.io, t->c.sock));
    t->out.n_handles = 1;
    send_it(t, "later");
    pair_settle(p);
    expect_message(t, "later", 1);
    drop_all(t);
    close_both(t);
}

static void then_plain_bytes(struct pair *p) {
    struct two *t = connect_both(p);
    struct weir_chain c = {0};
    t->out.handles[0] = as(&t->c, t->c.ops->handle(t->c.io, t->c.sock));
    t->out.n_handles = 1;
    send_it(t, "hello");
    expect_message(t, "hello", 1);
    drop_all(t);
    raw_fill(&t->c, &c, 0, 100);
    unsigned before = t->c.n;
    if (as(&t->c, t->c.ops->send(t->c.io, t->c.sock, &c)) == 0)
        raw_is(&t->c, before, WEIR__IO_SENT);
    raw_fini(&t->c, &c);
    raw_drop(&t->s);
    demand(p, as(&t->s, t->s.ops->recv_arm(t->s.io, t->s.sock, 100)) == 0);
    until(p, t->s.n && t->s.done[t->s.n - 1].last);
    size_t got = 0;
    for (unsigned i = 0; i + 1 < t->s.n; i++) {
        demand(p, pattern_is(t->s.done[i].slice.p, got, t->s.done[i].slice.n));
        got += t->s.done[i].slice.n;
    }
    demand(p, got == 100 && t->s.done[t->s.n - 1].code == WEIR__IO_CREDIT);
    close_both(t);
}

static void dropped_on_the_way(struct pair *p) {
    struct two *t = connect_both(p);
    t->out.handles[0] = as(&t->c, t->c.ops->handle(t->c.io, t->c.sock));
    t->out.n_handles = 1;
    send_it(t, "nobody takes it");
    close_both(t);
}

static void outside_the_contract(struct pair *p) {
    struct two *t = connect_both(p);
    struct raw s, c;
    demand(p, submit(t, "", 0) == WEIR_EBUG);
    demand(p, submit(t, t->text, WEIR__IO_FDS_BYTES_MAX + 1) == WEIR_EBUG);
    t->out.n_handles = WEIR__IO_HANDLES_MAX + 1;
    demand(p, submit(t, "x", 1) == WEIR_EBUG);
    t->out.n_handles = 0;
    arm(t);
    demand(p, as(&t->s, t->s.ops->recv_fds(t->s.io, t->s.sock, &t->in)) == WEIR_EBUG);
    demand(p, as(&t->s, t->s.ops->recv_arm(t->s.io, t->s.sock, -1)) == WEIR_EBUG);
    raw_connection(p, &s, &c, "127.0.0.1:0");
    demand(p, as(&c, c.ops->send_fds(c.io, c.sock, &t->out)) == WEIR_EBUG);
    t->in.n = 1;
    demand(p, as(&s, s.ops->recv_fds(s.io, s.sock, &t->in)) == WEIR_EBUG);
    raw_close(&s);
    raw_close(&c);
    pair_act_as(p, CLIENT);
    t->c.ops->close(t->c.io, t->c.sock, false);
    weir__loop_enter(NULL);
    demand(p, submit(t, "x", 1) == WEIR_EGONE);
    demand(p, as(&t->c, t->c.ops->recv_fds(t->c.io, t->c.sock, &t->in)) == WEIR_EGONE);
    demand(p, as(&t->c, t->c.ops->handle(t->c.io, t->c.sock)) == WEIR_EGONE);
    raw_is(&t->c, 0, WEIR__IO_CLOSED);
    raw_close(&t->s);
    pair_close(p);
}

/* --- keys ------------------------------------------------------------------------------------ */

/* A kernel that has its own TLS knows no such keys; the bytes stay plain either way. */
static void keys_that_nobody_takes(struct pair *p) {
    static const uint8_t info[40];
    struct raw s, c;
    raw_connection(p, &s, &c, NULL);
    for (int tx = 0; tx < 2; tx++) {
        struct weir__io_crypto keys = {.tx = tx, .info = info, .bytes = sizeof info};
        int64_t rc = as(&c, c.ops->set_crypto(c.io, c.sock, &keys));
        demand(p, rc == WEIR_ENOTSUP || rc == WEIR_EINVAL);
    }
    struct weir__io_crypto rx = {.info = info, .bytes = sizeof info};
    demand(p, as(&s, s.ops->recv_arm(s.io, s.sock, 5)) == 0);
    demand(p, as(&s, s.ops->set_crypto(s.io, s.sock, &rx)) == WEIR_EBUG);
    struct weir_chain hello = {0};
    raw_fill(&c, &hello, 0, 5);
    unsigned before = c.n;
    if (as(&c, c.ops->send(c.io, c.sock, &hello)) == 0)
        raw_is(&c, before, WEIR__IO_SENT);
    raw_fini(&c, &hello);
    until(p, s.n && s.done[s.n - 1].last);
    demand(p, s.done[s.n - 1].code == WEIR__IO_CREDIT);
    raw_close(&s);
    raw_drop(&c);
    pair_act_as(p, CLIENT);
    c.ops->close(c.io, c.sock, false);
    weir__loop_enter(NULL);
    demand(p, as(&c, c.ops->set_crypto(c.io, c.sock, &rx)) == WEIR_EGONE);
    raw_is(&c, 0, WEIR__IO_CLOSED);
    pair_close(p);
}

const struct suite_case suite_fds[] = {
    {"fds.a_listener_changes_hands", a_listener_changes_hands, ANYWHERE, {0}},
    {"fds.sixty_four", sixty_four_handles, ANYWHERE, {0}},
    {"fds.no_room_for_them", no_room_for_them, SIM_ONLY, {.emfile_at = 3}},
    {"fds.two_and_the_end", two_and_the_end, ANYWHERE, {0}},
    {"fds.cancel", cancelled_and_taken_later, ANYWHERE, {0}},
    {"fds.then_plain_bytes", then_plain_bytes, ANYWHERE, {0}},
    {"fds.dropped_on_the_way", dropped_on_the_way, ANYWHERE, {0}},
    {"fds.outside_the_contract", outside_the_contract, ANYWHERE, {0}},
    {"crypto.keys_that_nobody_takes", keys_that_nobody_takes, ANYWHERE, {0}},
    {0},
};
