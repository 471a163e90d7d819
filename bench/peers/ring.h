#ifndef BENCH_RING_H
#define BENCH_RING_H

#include <linux/io_uring.h>
#include <stddef.h>
#include <stdint.h>

/* As little of io_uring as a server needs, by system call: one thread, deferred task work, and one
 * ring of receive buffers. Every function exits with 1 when the kernel refuses. */

struct ring {
    int fd; /* index of the registered ring, which saves a look-up per call */
    unsigned *sq_head, *sq_tail, sq_mask, sq_entries;
    unsigned sq_next;      /* entries written; those before *sq_tail are published */
    unsigned sq_submitted; /* entries the kernel was told of */
    struct io_uring_sqe *sqes;
    unsigned *cq_head, *cq_tail, cq_mask;
    struct io_uring_cqe *cqes;
    struct io_uring_buf_ring *buffers;
    uint8_t *memory; /* of the buffers, one behind the other */
    unsigned buffer_count;
    size_t buffer_bytes;
};

/* `buffer_count` is a power of two, at most 32768; the buffers are group 0. */
void ring_init(struct ring *ring, unsigned buffer_count, size_t buffer_bytes);

/* A zeroed entry, submitted at the latest by the next ring_wait. */
struct io_uring_sqe *ring_entry(struct ring *ring);

/* Submits what is new and returns when a completion is there. */
void ring_wait(struct ring *ring);

/* The next completion, copied to `completion`, or 0 when there is none. */
int ring_next(struct ring *ring, struct io_uring_cqe *completion);

uint8_t *ring_buffer(const struct ring *ring, unsigned index);

/* Gives a buffer back to the kernel. */
void ring_buffer_return(struct ring *ring, unsigned index);

#endif
