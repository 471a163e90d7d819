/* One submission and completion ring, and the ring of receive buffers that the kernel picks from.
 * */
#ifndef WEIR_IO_URING_RING_H
#define WEIR_IO_URING_RING_H
#include "io/uring/abi.h"
#include "weir/mem.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WEIR__URING_SQ = 256,
    WEIR__URING_CQ = 4096,
    WEIR__URING_BUFS = 64,
    WEIR__URING_BUF_BYTES = 16 * 1024,
};

struct weir__uring_ring {
    int fd;
    uint32_t *sq_head, *sq_tail, sq_mask, sq_entries;
    uint32_t tail; /* filled, not all shown to the kernel */
    uint32_t *cq_head, *cq_tail, cq_mask;
    struct uring_sqe *sqes;
    struct uring_cqe *cqes;
    void *map;
    size_t map_bytes, sqes_bytes;
    /* receive buffers: slot i of the table is in the kernel's hands, or empty for want of memory */
    struct uring_buf *bufs;
    struct weir_slice table[WEIR__URING_BUFS];
    unsigned in_ring;
    uint32_t nothing; /* what a closed ring shows as its heads and tails */
};

/* 0, or a negative errno with *why. Nothing is left behind on failure after _fini. */
int weir__uring_ring_init(struct weir__uring_ring *r, const char **why);
/* Takes the ring from the kernel, and with it every request: from then on there are no completions.
 * A second time nothing happens. */
void weir__uring_ring_fini(struct weir__uring_ring *r);
/* The calling thread becomes the one that submits. */
int weir__uring_ring_enable(struct weir__uring_ring *r);

/* A zeroed entry, or NULL when the ring is full. */
struct uring_sqe *weir__uring_ring_sqe(struct weir__uring_ring *r);
/* Entries that the kernel has not taken. */
unsigned weir__uring_ring_unsubmitted(const struct weir__uring_ring *r);
/* Submits, lets completions in, and sleeps until there is one: timeout_ns 0 not at all, < 0 for
 * ever. 0 or a negative errno; -ETIME and -EINTR after a sleep without result. */
int weir__uring_ring_enter(struct weir__uring_ring *r, int64_t timeout_ns);
/* The oldest completion, or NULL; _pop drops it. */
const struct uring_cqe *weir__uring_ring_peek(const struct weir__uring_ring *r);
void weir__uring_ring_pop(struct weir__uring_ring *r);

/* Gives the kernel a buffer for every empty slot; false: there is no memory and none is left in the
 * ring. */
bool weir__uring_ring_refill(struct weir__uring_ring *r, struct weir_mem *m);
/* n bytes that came in buffer bid. Caller owns the slice. */
struct weir_slice weir__uring_ring_take(struct weir__uring_ring *r, struct weir_mem *m,
                                        unsigned bid, size_t n);

#endif
