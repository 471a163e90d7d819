#include "io/uring/buffers.h"
#include "base/assert.h"
#include "mem/chain.h"
#include "os/memory.h"
#include <errno.h>

static size_t ring_bytes(const struct weir__uring_buffers *b) {
    return b->entries * sizeof(struct uring_buf);
}

int weir__uring_buffers_init(struct weir__uring_buffers *b, const struct weir__uring_ring *r,
                             bool inc, const char **why) {
    *b = (struct weir__uring_buffers){.inc = inc, .wanted = WEIR__URING_BUFS_START};
    b->entries = inc ? WEIR__URING_INC_BUFS : WEIR__URING_BUFS_MAX;
    b->bytes = inc ? WEIR__URING_INC_BYTES : WEIR__URING_PLAIN_BYTES;
    *why = "no memory for the ring of buffers";
    b->ring = weir__os_map(ring_bytes(b), 0);
    if (!b->ring)
        return -ENOMEM;
    *why = "io_uring has no provided buffer rings here (5.19 is needed)";
    struct uring_buf_reg reg = {.ring_addr = (uintptr_t)b->ring,
                                .ring_entries = b->entries,
                                .flags = inc ? PBUF_INC : 0,
                                .min_left = inc ? WEIR__URING_INC_LEFT : 0};
    int rc = weir__uring_ring_register(r, REGISTER_PBUF_RING, &reg, 1);
    if (rc == -EINVAL && inc) { /* younger than the rest of it */
        reg.min_left = 0;
        rc = weir__uring_ring_register(r, REGISTER_PBUF_RING, &reg, 1);
    }
    if (rc == -ENOMEM)
        *why = "no memory for the ring of buffers (RLIMIT_MEMLOCK: see ulimit -l)";
    return rc;
}

void weir__uring_buffers_fini(struct weir__uring_buffers *b) {
    if (b->ring)
        weir__os_unmap(b->ring, ring_bytes(b));
    for (unsigned i = 0; i < b->entries; i++)
        weir_slice_release(&b->table[i]);
    *b = (struct weir__uring_buffers){0};
}

static void give(struct weir__uring_buffers *b, unsigned bid) {
    uint16_t tail = b->ring[0].tail;
    struct uring_buf *e = &b->ring[tail & (b->entries - 1)];
    e->addr = (uintptr_t)b->table[bid].p;
    e->len = b->bytes;
    e->bid = (uint16_t)bid;
    b->used[bid] = 0;
    b->in_ring++;
    __atomic_store_n(&b->ring[0].tail, (uint16_t)(tail + 1), __ATOMIC_RELEASE);
}

/* Who still holds a piece keeps the memory; the table gets another buffer. */
static bool renew(struct weir__uring_buffers *b, unsigned bid, struct weir_mem *m) {
    if (weir__mem_buf_exclusive(b->table[bid]))
        return true;
    weir_slice_release(&b->table[bid]);
    return weir_slice_new(m, b->bytes, &b->table[bid]) >= 0;
}

static WEIR_NOINLINE void grow(struct weir__uring_buffers *b, struct weir_mem *m) {
    for (unsigned bid = 0; bid < b->entries && b->in_ring < b->wanted; bid++)
        if (!b->table[bid].p && renew(b, bid, m))
            give(b, bid);
}

bool weir__uring_buffers_refill(struct weir__uring_buffers *b, struct weir_mem *m) {
    for (uint64_t left = b->spent; left; left &= left - 1) {
        unsigned bid = (unsigned)__builtin_ctzll(left);
        if (renew(b, bid, m))
            give(b, bid);
    }
    b->spent = 0;
    if (unlikely(b->in_ring < b->wanted))
        grow(b, m);
    return b->in_ring > 0;
}

void weir__uring_buffers_short(struct weir__uring_buffers *b) {
    b->calm = 0;
    if (b->wanted < b->entries)
        b->wanted *= 2;
}

/* The newest buffers of the ring leave it; the kernel is at the oldest. */
static WEIR_NOINLINE void shrink(struct weir__uring_buffers *b) {
    uint16_t tail = b->ring[0].tail;
    b->wanted = WEIR__URING_BUFS_START;
    b->calm = 0;
    for (; b->in_ring > b->wanted; b->in_ring--)
        weir_slice_release(&b->table[b->ring[--tail & (b->entries - 1)].bid]);
    __atomic_store_n(&b->ring[0].tail, tail, __ATOMIC_RELEASE);
}

void weir__uring_buffers_sleep(struct weir__uring_buffers *b) {
    if (unlikely(b->in_ring > WEIR__URING_BUFS_START) && ++b->calm >= WEIR__URING_CALM)
        shrink(b);
}

struct weir_slice weir__uring_buffers_take(struct weir__uring_buffers *b, uint32_t flags,
                                           size_t n) {
    unsigned bid = flags >> CQE_BUFFER_SHIFT;
    must(bid < b->entries && n <= b->bytes - b->used[bid]);
    struct weir_slice *whole = &b->table[bid];
    struct weir_slice out = {whole->p + b->used[bid], n, whole->buf};
    weir__mem_buf_ref(whole->buf);
    b->used[bid] += (uint32_t)n;
    if (!b->inc || !(flags & CQE_BUF_MORE)) {
        b->spent |= UINT64_C(1) << bid;
        b->in_ring--;
    }
    return out;
}
