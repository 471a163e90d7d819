/* Attribution: every callback runs inside a frame that names a handler. Each handler counts its
 * calls and bytes; one call in 64 is timed, without the time of the frames inside it.
 *
 * Written by the loop only, with plain stores of whole words; read by anybody. */
#ifndef WEIR_LOOP_ACCOUNT_H
#define WEIR_LOOP_ACCOUNT_H
#include "base/assert.h"
#include "base/compiler.h"
#include "io/io.h"
#include <stdatomic.h>
#include <stdint.h>

enum { WEIR__LOOP_HANDLERS_MAX = 256, WEIR__LOOP_FRAMES_MAX = 32, WEIR__LOOP_SAMPLE_MASK = 63 };

struct weir__loop_handler { /* one interned name */
    const char *name;
    _Atomic uint64_t calls, bytes, sampled, sampled_ns;
};

struct weir__loop_frame {
    struct weir__loop_handler *handler;
    uint64_t ref;      /* the channel, 0 = none */
    uint64_t start_ns; /* 0: not timed */
    uint64_t inner_ns; /* time of timed frames inside */
    bool sampled;      /* valid while timed: for itself, not only for the frame around it */
};

struct weir__loop_account {
    struct weir__loop_frame frames[WEIR__LOOP_FRAMES_MAX];
    unsigned depth;
    unsigned timed; /* frames that are timed */
    _Atomic unsigned n_handlers;
    struct weir__loop_handler handlers[WEIR__LOOP_HANDLERS_MAX]; /* 0 is "(loop)" */
};

void weir__loop_account_init(struct weir__loop_account *a);
/* The entry of a name, made when new; names are compared as text and must outlive the loop. When
 * the table is full: entry 0. Loop. */
struct weir__loop_handler *weir__loop_intern(struct weir__loop_account *a, const char *name);
void weir__loop_frame_begin(struct weir__loop_frame *f, struct weir__loop_account *a,
                            struct weir__io *io, bool sampled);
void weir__loop_frame_end(struct weir__loop_frame *f, struct weir__loop_account *a,
                          struct weir__io *io);

static inline void weir__loop_add(_Atomic uint64_t *counter, uint64_t n) {
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

static inline void weir__loop_frame_enter(struct weir__loop_account *a, struct weir__io *io,
                                          struct weir__loop_handler *h, uint64_t ref) {
    if (unlikely(a->depth >= WEIR__LOOP_FRAMES_MAX)) {
        a->depth++; /* deeper than can be told apart: counted with the frame around it */
        return;
    }
    struct weir__loop_frame *f = &a->frames[a->depth++];
    uint64_t calls = atomic_load_explicit(&h->calls, memory_order_relaxed) + 1;
    atomic_store_explicit(&h->calls, calls, memory_order_relaxed);
    f->handler = h;
    f->ref = ref;
    f->start_ns = 0;
    bool sampled = (calls & WEIR__LOOP_SAMPLE_MASK) == 1;
    if (unlikely(sampled | a->timed))
        weir__loop_frame_begin(f, a, io, sampled);
}

static inline void weir__loop_frame_leave(struct weir__loop_account *a, struct weir__io *io) {
    check(a->depth > 0);
    if (unlikely(--a->depth >= WEIR__LOOP_FRAMES_MAX))
        return;
    struct weir__loop_frame *f = &a->frames[a->depth];
    if (unlikely(f->start_ns))
        weir__loop_frame_end(f, a, io);
}

#endif
