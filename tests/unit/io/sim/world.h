/* Two doors on one simulated network, and the small words the tests of this room share. */
#ifndef WEIR_TESTS_IO_SIM_WORLD_H
#define WEIR_TESTS_IO_SIM_WORLD_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "base/compiler.h"
#include "io/sim/sim.h"
#include "mem/pool.h"
#include "weir/mem.h"

enum { DOORS = 2 };

struct world {
    struct weir__iosim_net *net;
    struct weir_mem *mem[DOORS];
    struct weir__io *io[DOORS];
};

/* Slots are for ever: the two tables of every world in this program. */
static inline struct weir__io_slots *slots_of(int d) {
    static struct weir__io_slots slots[DOORS];
    if (!slots[d].owner)
        weir__io_slots_init(&slots[d], &slots[d]);
    return &slots[d];
}

static inline void world_open(struct world *w, const struct weir__iosim_options *o) {
    *w = (struct world){0};
    assert_int_equal(weir__iosim_net_new(o, &w->net), 0);
    for (int i = 0; i < DOORS; i++) {
        w->mem[i] = weir_mem_open("door");
        struct weir__io_config c = {.mem = w->mem[i], .slots = slots_of(i)};
        assert_int_equal(weir__iosim_door_new(w->net, &c, &w->io[i]), 0);
        assert_int_equal(w->io[i]->ops->start(w->io[i]), 0);
    }
}

/* Returns what was left open; memory that is not back fails the test. */
static inline unsigned world_close(struct world *w) {
    for (int i = 0; i < DOORS; i++)
        w->io[i]->ops->free(w->io[i]);
    unsigned left = weir__iosim_net_free(w->net);
    for (int i = 0; i < DOORS; i++) {
        assert_int_equal(slots_of(i)->used, 0);
        weir__mem_collect(w->mem[i]);
        assert_int_equal(weir_mem_live(w->mem[i]), 0);
        weir_mem_close(w->mem[i]);
    }
    weir__mem_enter(NULL);
    return left;
}

static inline struct weir_addr addr(const char *text) {
    struct weir_addr a;
    assert_int_equal(weir__base_addr_parse(text, &a, NULL), 0);
    return a;
}

/* Lets time pass until door d yields something. false: nothing will ever come. */
static inline bool pull(struct world *w, int d, struct weir__io_done *out) {
    struct weir__io *io = w->io[d];
    for (;;) {
        io->ops->wait(io, UINT64_MAX);
        if (io->ops->next(io, out))
            return true;
        uint64_t at = weir__iosim_next_ns(w->net);
        if (at == UINT64_MAX)
            return false;
        weir__iosim_advance(w->net, at);
    }
}

static inline struct weir__io_done pulled(struct world *w, int d) {
    struct weir__io_done done;
    assert_true(pull(w, d, &done));
    return done;
}

static inline void run_dry(struct world *w) {
    while (weir__iosim_next_ns(w->net) != UINT64_MAX)
        weir__iosim_advance(w->net, weir__iosim_next_ns(w->net));
}

static inline struct weir__io_sock *listen_on(struct world *w, int d, const char *at) {
    struct weir__io_listen o = {.addr = addr(at), .handle = -1};
    struct weir__io_sock *s;
    assert_int_equal(w->io[d]->ops->listen(w->io[d], &o, NULL, &s), 0);
    return s;
}

static inline int connect_to(struct world *w, int d, const char *at, void *user,
                             struct weir__io_sock **out) {
    struct weir__io_connect o = {.addr = addr(at)};
    return w->io[d]->ops->connect(w->io[d], &o, user, out);
}

/* Closes s and pulls until its CLOSED; other completions of that door are dropped with what they
 * own. */
static inline void close_now(struct world *w, int d, struct weir__io_sock *s, bool abort) {
    struct weir__io_done done;
    static int mark;
    s->user = &mark;
    w->io[d]->ops->close(w->io[d], s, abort);
    do {
        done = pulled(w, d);
        weir_slice_release(&done.slice);
    } while (done.kind != WEIR__IO_CLOSED || done.user != &mark);
}

/* A connection from door 1 (out[1]) to a listener on door 0 (out[0] accepted, out[2] the
 * listener). */
static inline void connected(struct world *w, const char *at, struct weir__io_sock *out[3]) {
    out[2] = listen_on(w, 0, at);
    assert_int_equal(w->io[0]->ops->accept_arm(w->io[0], out[2], 1), 0);
    assert_int_equal(connect_to(w, 1, at, NULL, &out[1]), 0);
    struct weir__io_done done = pulled(w, 1);
    assert_int_equal(done.kind, WEIR__IO_CONNECTED);
    assert_int_equal(done.code, 0);
    done = pulled(w, 0);
    assert_int_equal(done.kind, WEIR__IO_ACCEPTED);
    assert_false(done.last);
    assert_int_equal(w->io[0]->ops->attach(w->io[0], done.handle, NULL, &out[0]), 0);
    done = pulled(w, 0);
    assert_true(done.last);
    assert_int_equal(done.code, WEIR__IO_CREDIT);
}

static inline void fill(struct weir_mem *m, struct weir_chain *c, uint64_t from, size_t n) {
    uint8_t *p = weir_chain_reserve(m, c, n);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)((from + i) * 31 ^ (from + i) >> 8);
    weir_chain_commit(c, n);
}

static inline void same(const uint8_t *p, size_t n, uint64_t from) {
    for (size_t i = 0; i < n; i++)
        if (p[i] != (uint8_t)((from + i) * 31 ^ (from + i) >> 8))
            fail_msg("byte %llu is wrong", (unsigned long long)(from + i));
}

#endif
