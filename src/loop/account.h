/* Attribution: every callback runs inside a frame that names a handler. Each handler counts its
 * calls, the bytes it took off its input, and, for one call in 64, the time it took without the
 * frames inside it. The open frames are a stack, which a signal handler on the loop's thread may
 * read.
 *
 * Written by the loop only, with plain stores of whole words; read by anybody. */
#ifndef WEIR_LOOP_ACCOUNT_H
#define WEIR_LOOP_ACCOUNT_H
#include "base/assert.h"
#include "base/compiler.h"
#include <stdatomic.h>
#include <stdint.h>

enum { WEIR__LOOP_HANDLERS_MAX = 256, WEIR__LOOP_FRAMES_MAX = 32, WEIR__LOOP_SAMPLE_MASK = 63 };

struct weir__io;

typedef uint64_t weir__loop_cpu_fn(void); /* CPU time of the calling thread, never 0 */

struct weir__loop_handler { /* one interned name */
    const char *name;
    _Atomic uint64_t calls, bytes, sampled, sampled_ns;
    _Atomic uint64_t cpu_timed, cpu_ns;    /* of the timed calls, those by the CPU clock too */
    _Atomic uint64_t offloads, offload_ns; /* its work on workers */
};

struct weir__loop_frame {
    struct weir__loop_handler *handler;
    uint64_t ref;      /* the channel, 0 = none */
    uint64_t start_ns; /* 0: not timed */
    /* Valid while timed. */
    uint64_t inner_ns;                   /* time of timed frames inside */
    uint64_t cpu_start_ns, cpu_inner_ns; /* the same by the CPU clock; start 0: not by that */
    bool sampled;                        /* for itself, not only for the frame around it */
};

struct weir__loop_account {
    struct weir__loop_frame *top; /* the next free frame */
    /* Which calls of a handler are looked at: one in 64, or, while a frame is slow, each. */
    uint64_t sample_mask;
    unsigned slow;                        /* deep + timed: leaving a frame needs a look */
    unsigned deep;                        /* frames beyond the last one */
    struct weir__io *io;                  /* its clock times them */
    _Atomic(weir__loop_cpu_fn *) cpu_now; /* set while a profile is taken: timed calls use it too */
    _Atomic unsigned n_handlers;
    struct weir__loop_frame frames[WEIR__LOOP_FRAMES_MAX];
    struct weir__loop_handler handlers[WEIR__LOOP_HANDLERS_MAX]; /* 0 is "(loop)" */
};

void weir__loop_account_init(struct weir__loop_account *a, struct weir__io *io);
/* The entry of a name, made when new; names are compared as text and must outlive the loop. When
 * the table is full: entry 0. Loop. */
struct weir__loop_handler *weir__loop_intern(struct weir__loop_account *a, const char *name);
/* Frames now open. */
unsigned weir__loop_depth(const struct weir__loop_account *a);
/* The names of at most n_max open frames, innermost first, and the channel of the innermost (0:
 * none): how many. Loop, and signal handlers on its thread. */
unsigned weir__loop_frames(const struct weir__loop_account *a, const char **names, unsigned n_max,
                           uint64_t *ref);
WEIR_COLD void weir__loop_frame_deep(struct weir__loop_account *a);
/* The second half of entering one that is looked at, and all of leaving one while any is slow. */
WEIR_COLD void weir__loop_frame_begin(struct weir__loop_account *a);
WEIR_COLD void weir__loop_frame_end(struct weir__loop_account *a);

static inline void weir__loop_add(_Atomic uint64_t *counter, uint64_t n) {
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

#ifdef WEIR_UNACCOUNTED /* only to measure what frames cost: handlers have no figures */
static inline void weir__loop_frame_enter(struct weir__loop_account *a,
                                          struct weir__loop_handler *h, uint64_t ref) {
    (void)a, (void)h, (void)ref;
}

static inline void weir__loop_frame_leave(struct weir__loop_account *a) {
    (void)a;
}
#else
WEIR_INLINE void weir__loop_frame_enter(struct weir__loop_account *a, struct weir__loop_handler *h,
                                        uint64_t ref) {
    struct weir__loop_frame *f = a->top;
    if (unlikely(f == a->frames + WEIR__LOOP_FRAMES_MAX)) {
        weir__loop_frame_deep(a);
        return;
    }
    uint64_t calls = atomic_load_explicit(&h->calls, memory_order_relaxed);
    atomic_store_explicit(&h->calls, calls + 1, memory_order_relaxed);
    f->handler = h;
    f->ref = ref;
    atomic_signal_fence(memory_order_release); /* a signal handler sees whole frames only */
    a->top = f + 1;
    if (unlikely(!(calls & a->sample_mask)))
        weir__loop_frame_begin(a);
}

WEIR_INLINE void weir__loop_frame_leave(struct weir__loop_account *a) {
    check(a->top > a->frames);
    if (unlikely(a->slow))
        weir__loop_frame_end(a);
    else
        a->top--;
}
#endif

#endif
