#include "suite/raw.h"

static void on_done(struct weir__loop_sink *sink, struct weir__io_done *d) {
    struct raw *r = container_of(sink, struct raw, sink);
    demand(r->p, r->n < RAW_DONE_MAX);
    r->done[r->n++] = *d;
}

int64_t raw_back(int64_t rc) {
    weir__loop_enter(NULL);
    return rc;
}

void raw_init(struct raw *r, struct pair *p, enum pair_who who) {
    *r = (struct raw){.sink = {on_done}, .p = p, .who = who, .io = p->side[who].io};
    r->ops = r->io->ops;
}

void raw_listen(struct raw *r, struct weir__io_listen o, const char *address) {
    char fresh[128];
    pair_address(r->p, fresh, sizeof fresh);
    if (o.handle < 0)
        demand(r->p, weir__base_addr_parse(address ? address : fresh, &o.addr, NULL) == 0);
    demand(r->p, as(r, r->ops->listen(r->io, &o, &r->sink, &r->sock)) == 0);
}

struct weir_addr raw_local(struct raw *r) {
    struct weir_addr at;
    demand(r->p, as(r, r->ops->local(r->io, r->sock, &at)) == 0);
    return at;
}

struct weir__io_done *raw_is(struct raw *r, unsigned i, enum weir__io_kind kind) {
    raw_until(r, i + 1);
    if (r->done[i].kind != kind)
        fail_case(r->p, "completion %u is of kind %d, not %d", i, (int)r->done[i].kind, (int)kind);
    return &r->done[i];
}

void raw_connection(struct pair *p, struct raw *s, struct raw *c, const char *address) {
    struct raw l;
    raw_init(&l, p, SERVER);
    raw_init(s, p, SERVER);
    raw_init(c, p, CLIENT);
    raw_listen(&l, (struct weir__io_listen){.handle = -1}, address);
    struct weir__io_connect to = {.addr = raw_local(&l)};
    demand(p, as(&l, l.ops->accept_arm(l.io, l.sock, 1)) == 0);
    demand(p, as(c, c->ops->connect(c->io, &to, &c->sink, &c->sock)) == 0);
    demand(p, raw_is(c, 0, WEIR__IO_CONNECTED)->code == 0);
    intptr_t handle = raw_is(&l, 0, WEIR__IO_ACCEPTED)->handle;
    demand(p, as(s, s->ops->attach(s->io, handle, &s->sink, &s->sock)) == 0);
    raw_is(&l, 1, WEIR__IO_ACCEPTED);
    raw_close(&l);
    c->n = 0;
}

void raw_drop(struct raw *r) {
    pair_act_as(r->p, r->who);
    for (unsigned i = 0; i < r->n; i++)
        weir_slice_release(&r->done[i].slice);
    weir__loop_enter(NULL);
    r->n = 0;
}

void raw_close(struct raw *r) {
    pair_act_as(r->p, r->who);
    r->ops->close(r->io, r->sock, false);
    weir__loop_enter(NULL);
    until(r->p, r->n > 0 && r->done[r->n - 1].kind == WEIR__IO_CLOSED);
    raw_drop(r);
}

void raw_fill(struct raw *r, struct weir_chain *c, uint64_t at, size_t n) {
    pair_act_as(r->p, r->who);
    while (n) {
        size_t step = n < 16384 ? n : 16384;
        uint8_t *to = weir_chain_reserve(r->p->side[r->who].mem, c, step);
        demand(r->p, to);
        pattern_fill(to, at, step);
        weir_chain_commit(c, step);
        at += step;
        n -= step;
    }
    weir__loop_enter(NULL);
}

void raw_fini(struct raw *r, struct weir_chain *c) {
    pair_act_as(r->p, r->who);
    weir_chain_fini(c);
    weir__loop_enter(NULL);
}
