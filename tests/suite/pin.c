/* Zero-copy sends: the bytes are the caller's to keep until the notice, which comes once. */
#include "suite/raw.h"

enum { SENDS = 24, EACH = 3000 };

struct pins {
    struct raw s, c;
    struct weir_chain chain[SENDS];
    intptr_t number[SENDS]; /* -1: not pinned */
    unsigned seen, waiting; /* completions looked at; notices to come */
};

static struct pins pins;

static void let_go(struct pins *t, intptr_t number) {
    for (unsigned i = 0; i < SENDS; i++) {
        if (t->number[i] != number)
            continue;
        demand(t->c.p, t->chain[i].bytes > 0); /* once */
        raw_fini(&t->c, &t->chain[i]);
        t->waiting--;
        return;
    }
    fail_case(t->c.p, "a notice for send %lld, which was not pinned", (long long)number);
}

/* Looks at what came; true: the SENT of send i, with *code, was among it. */
static bool look(struct pins *t, unsigned i, int *code) {
    bool sent = false;
    for (; t->seen < t->c.n; t->seen++) {
        struct weir__io_done *d = &t->c.done[t->seen];
        if (d->kind == WEIR__IO_UNPINNED)
            let_go(t, d->handle);
        if (d->kind != WEIR__IO_SENT)
            continue;
        demand(t->c.p, !sent);
        sent = true;
        *code = d->code;
        if (d->pinned) {
            t->number[i] = d->handle;
            t->waiting++;
        } else {
            raw_fini(&t->c, &t->chain[i]);
        }
    }
    return sent;
}

static int64_t submit(struct pins *t, unsigned i) {
    t->number[i] = -1;
    raw_fill(&t->c, &t->chain[i], i * EACH, EACH);
    int64_t rc = as(&t->c, t->c.ops->send_zc(t->c.io, t->c.sock, &t->chain[i]));
    demand(t->c.p, rc == 0 || rc == 1);
    if (rc == 1) /* never pinned */
        raw_fini(&t->c, &t->chain[i]);
    return rc;
}

static struct pins *open_both(struct pair *p) {
    pins = (struct pins){0};
    for (unsigned i = 0; i < SENDS; i++)
        pins.number[i] = -1;
    raw_connection(p, &pins.s, &pins.c, NULL);
    return &pins;
}

static void send_all(struct pins *t) {
    for (unsigned i = 0; i < SENDS; i++) {
        int code = 0;
        if (submit(t, i) == 0)
            until(t->c.p, look(t, i, &code));
        demand(t->c.p, code == 0);
    }
}

static void each_has_its_notice(struct pair *p) {
    struct pins *t = open_both(p);
    demand(p, as(&t->s, t->s.ops->recv_arm(t->s.io, t->s.sock, (int64_t)SENDS * EACH)) == 0);
    send_all(t);
    int none;
    until(p, (look(t, 0, &none), t->waiting == 0));
    uint64_t got = 0;
    for (unsigned i = 0; got < (uint64_t)SENDS * EACH; i++) {
        raw_until(&t->s, i + 1);
        struct weir_slice *slice = &t->s.done[i].slice;
        demand(p, slice->n && pattern_is(slice->p, got, slice->n));
        got += slice->n;
    }
    raw_close(&t->s);
    raw_close(&t->c);
    pair_close(p);
}

static void closed_waits_for_them(struct pair *p) {
    struct pins *t = open_both(p);
    int none;
    demand(p, as(&t->s, t->s.ops->recv_arm(t->s.io, t->s.sock, -1)) == 0);
    send_all(t);
    pair_act_as(p, CLIENT);
    t->c.ops->close(t->c.io, t->c.sock, false);
    weir__loop_enter(NULL);
    until(p, t->c.n && t->c.done[t->c.n - 1].kind == WEIR__IO_CLOSED);
    look(t, 0, &none);
    demand(p, t->waiting == 0);
    raw_close(&t->s);
    pair_close(p);
}

static void aborted_in_flight(struct pair *p) {
    struct pins *t = open_both(p);
    int code = 0;
    int64_t rc = submit(t, 0);
    pair_act_as(p, CLIENT);
    t->c.ops->close(t->c.io, t->c.sock, true);
    weir__loop_enter(NULL);
    until(p, t->c.n && t->c.done[t->c.n - 1].kind == WEIR__IO_CLOSED);
    demand(p, look(t, 0, &code) == (rc == 0) && t->waiting == 0);
    demand(p, as(&t->s, t->s.ops->parked(t->s.io, t->s.sock)) == 0);
    raw_close(&t->s);
    pair_close(p);
}

const struct suite_case suite_pin[] = {
    {"pin.each_has_its_notice", each_has_its_notice, ANYWHERE, {0}},
    {"pin.closed_waits", closed_waits_for_them, ANYWHERE, {0}},
    {"pin.aborted_in_flight", aborted_in_flight, ANYWHERE, {0}},
    {0},
};
