/* The buffers that the kernel picks from when something comes. What it brings is handed up where it
 * lies; a buffer goes back to the kernel when it is used up: the same again when nobody holds a
 * piece of it any more, else a fresh one.
 *
 *      absent --memory--> in the ring --used up--> spent --refill--> in the ring
 *
 * With `inc` the kernel fills a large buffer piece by piece; without, every piece uses one up. The
 * kernel goes round the ring, so there are only as many as are needed, which keeps them in the
 * cache: their number doubles each time that the kernel found none, and is what it was at first
 * when it has found some for long. */
#ifndef WEIR_IO_URING_BUFFERS_H
#define WEIR_IO_URING_BUFFERS_H
#include "io/uring/ring.h"
#include "weir/mem.h"

enum {
    WEIR__URING_BUFS_MAX = 64,
    WEIR__URING_INC_BYTES = 64 * 1024,
    WEIR__URING_INC_BUFS = 16,
    WEIR__URING_INC_LEFT = 16 * 1024, /* with less left it is used up: most pieces stay whole */
    WEIR__URING_PLAIN_BYTES = 16 * 1024,
    WEIR__URING_BUFS_START = 4,
    WEIR__URING_CALM = 64, /* sleeps without a shortage */
};

struct weir__uring_buffers {
    struct uring_buf *ring;
    bool inc;
    unsigned entries, bytes;
    unsigned wanted, in_ring, calm;
    uint64_t spent; /* bit per buffer */
    struct weir_slice table[WEIR__URING_BUFS_MAX];
    uint32_t used[WEIR__URING_BUFS_MAX];
};

/* 0 or a negative errno with *why; _fini in either case. */
int weir__uring_buffers_init(struct weir__uring_buffers *b, const struct weir__uring_ring *r,
                             bool inc, const char **why);
/* After the ring is gone. */
void weir__uring_buffers_fini(struct weir__uring_buffers *b);
/* Gives the kernel what it should have. false: it has none, and there is no memory. */
bool weir__uring_buffers_refill(struct weir__uring_buffers *b, struct weir_mem *m);
/* The kernel found none: there should be more. */
void weir__uring_buffers_short(struct weir__uring_buffers *b);
/* The loop is about to sleep; the kernel looks at the ring only when it is entered. */
void weir__uring_buffers_sleep(struct weir__uring_buffers *b);
/* The n > 0 bytes that a completion with these flags brought. Caller owns the slice. */
struct weir_slice weir__uring_buffers_take(struct weir__uring_buffers *b, uint32_t flags, size_t n);

#endif
