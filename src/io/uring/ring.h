/* One submission and completion ring. */
#ifndef WEIR_IO_URING_RING_H
#define WEIR_IO_URING_RING_H
#include "base/compiler.h"
#include "io/uring/abi.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WEIR__URING_SQ = 256, WEIR__URING_CQ = 4096 };

struct weir__uring_ring {
    int fd;
    int enter_fd, owner; /* the ring as its thread knows it, when that thread has registered it */
    uint32_t enter_flags, setup;
    uint32_t *sq_head, *sq_tail, *sq_flags, sq_mask, sq_entries;
    uint32_t tail; /* filled, not all shown to the kernel */
    uint32_t *cq_head, *cq_tail, cq_mask;
    uint32_t head; /* of completions that nobody looked at */
    struct uring_sqe *sqes;
    struct uring_cqe *cqes;
    void *map;
    size_t map_bytes, sqes_bytes;
    uint64_t enters, overflows; /* system calls, so far; those that found completions left over */
    uint32_t nothing;           /* what a closed ring shows as its heads and tails */
};

/* The cause of a failed io_uring_setup(2), by what kernel.io_uring_disabled holds ("": nothing).
 * Static storage. */
const char *weir__uring_ring_reason(int rc, const char *sysctl);
/* 0, or a negative errno with *why. `without`: of enum weir__uring_feature. Nothing is left behind
 * on failure after _fini. */
int weir__uring_ring_init(struct weir__uring_ring *r, unsigned without, const char **why);
/* Takes the ring from the kernel, and with it every request: from then on there are no completions.
 * A second time nothing happens. */
void weir__uring_ring_fini(struct weir__uring_ring *r);
/* The calling thread becomes the one that submits. */
int weir__uring_ring_enable(struct weir__uring_ring *r, unsigned without);
/* io_uring_register(2) on this ring. */
int weir__uring_ring_register(const struct weir__uring_ring *r, unsigned what, void *arg,
                              unsigned n);
/* Submits, lets completions in, and sleeps until there is one: timeout_ns 0 not at all, < 0 for
 * ever. 0 or a negative errno; -ETIME and -EINTR after a sleep without result. */
int weir__uring_ring_enter(struct weir__uring_ring *r, int64_t timeout_ns);

/* Entries that the kernel has not taken. */
static inline unsigned weir__uring_ring_unsubmitted(const struct weir__uring_ring *r) {
    return r->tail - __atomic_load_n(r->sq_head, __ATOMIC_ACQUIRE);
}

/* Whether entering would find something to do: entries, or completions that wait to be let in. */
static inline bool weir__uring_ring_stirs(const struct weir__uring_ring *r) {
    return weir__uring_ring_unsubmitted(r) || !(r->setup & SETUP_TASKRUN_FLAG) ||
           __atomic_load_n(r->sq_flags, __ATOMIC_RELAXED) & (SQ_TASKRUN | SQ_CQ_OVERFLOW);
}

/* A zeroed entry, or NULL when the ring is full. */
WEIR_INLINE struct uring_sqe *weir__uring_ring_sqe(struct weir__uring_ring *r) {
    if (unlikely(weir__uring_ring_unsubmitted(r) == r->sq_entries))
        return NULL;
    struct uring_sqe *e = &r->sqes[r->tail++ & r->sq_mask];
    *e = (struct uring_sqe){0};
    return e;
}

/* The oldest completion, or NULL; _pop drops it. */
WEIR_INLINE const struct uring_cqe *weir__uring_ring_peek(const struct weir__uring_ring *r) {
    if (r->head == __atomic_load_n(r->cq_tail, __ATOMIC_ACQUIRE))
        return NULL;
    return &r->cqes[r->head & r->cq_mask];
}

WEIR_INLINE void weir__uring_ring_pop(struct weir__uring_ring *r) {
    __atomic_store_n(r->cq_head, ++r->head, __ATOMIC_RELEASE);
}

#endif
