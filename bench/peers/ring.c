#include "ring.h"

#include "peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SUBMISSIONS = 4096, COMPLETIONS = 16384 };

static void *map(int fd, size_t bytes, off_t offset) {
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED | MAP_POPULATE;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, offset);
    if (memory == MAP_FAILED)
        peer_die("mmap");
    return memory;
}

static void enter(struct ring *ring, unsigned wait_count) {
    unsigned flags = IORING_ENTER_REGISTERED_RING | (wait_count ? IORING_ENTER_GETEVENTS : 0);
    __atomic_store_n(ring->sq_tail, ring->sq_next, __ATOMIC_RELEASE);
    long taken = syscall(SYS_io_uring_enter, ring->fd, ring->sq_next - ring->sq_submitted,
                         wait_count, flags, NULL, 0);
    if (taken >= 0)
        ring->sq_submitted += (unsigned)taken;
    else if (errno != EINTR && errno != EBUSY && errno != EAGAIN)
        peer_die("io_uring_enter");
}

static void map_queues(struct ring *ring, int fd, const struct io_uring_params *params) {
    size_t sq_bytes = params->sq_off.array + params->sq_entries * sizeof(unsigned);
    size_t cq_bytes = params->cq_off.cqes + params->cq_entries * sizeof *ring->cqes;
    uint8_t *both = map(fd, sq_bytes > cq_bytes ? sq_bytes : cq_bytes, IORING_OFF_SQ_RING);
    ring->sqes = map(fd, params->sq_entries * sizeof *ring->sqes, IORING_OFF_SQES);
    ring->sq_head = (unsigned *)(both + params->sq_off.head);
    ring->sq_tail = (unsigned *)(both + params->sq_off.tail);
    ring->sq_entries = params->sq_entries;
    ring->sq_mask = params->sq_entries - 1;
    ring->cq_head = (unsigned *)(both + params->cq_off.head);
    ring->cq_tail = (unsigned *)(both + params->cq_off.tail);
    ring->cq_mask = params->cq_entries - 1;
    ring->cqes = (struct io_uring_cqe *)(both + params->cq_off.cqes);
    unsigned *order = (unsigned *)(both + params->sq_off.array);
    for (unsigned i = 0; i < params->sq_entries; i++)
        order[i] = i;
}

static void buffers_init(struct ring *ring, int fd, unsigned count, size_t bytes) {
    ring->buffer_count = count;
    ring->buffer_bytes = bytes;
    ring->buffers = map(-1, count * sizeof(struct io_uring_buf), 0);
    ring->memory = map(-1, count * bytes, 0);
    struct io_uring_buf_reg group = {.ring_addr = (uint64_t)(uintptr_t)ring->buffers,
                                     .ring_entries = count};
    if (syscall(SYS_io_uring_register, fd, IORING_REGISTER_PBUF_RING, &group, 1))
        peer_die("io_uring buffer ring");
    for (unsigned i = 0; i < count; i++)
        ring_buffer_return(ring, i);
}

void ring_init(struct ring *ring, unsigned buffer_count, size_t buffer_bytes) {
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
        .cq_entries = COMPLETIONS,
    };
    *ring = (struct ring){0};
    int fd = (int)syscall(SYS_io_uring_setup, SUBMISSIONS, &params);
    if (fd < 0)
        peer_die("io_uring_setup");
    map_queues(ring, fd, &params);
    buffers_init(ring, fd, buffer_count, buffer_bytes);
    struct io_uring_rsrc_update slot = {.offset = UINT32_MAX, .data = (uint64_t)fd};
    if (syscall(SYS_io_uring_register, fd, IORING_REGISTER_RING_FDS, &slot, 1) != 1)
        peer_die("io_uring ring registration");
    ring->fd = (int)slot.offset;
}

struct io_uring_sqe *ring_entry(struct ring *ring) {
    while (ring->sq_next - __atomic_load_n(ring->sq_head, __ATOMIC_ACQUIRE) == ring->sq_entries)
        enter(ring, 0);
    struct io_uring_sqe *entry = &ring->sqes[ring->sq_next++ & ring->sq_mask];
    memset(entry, 0, sizeof *entry);
    return entry;
}

void ring_wait(struct ring *ring) {
    enter(ring, 1);
}

int ring_next(struct ring *ring, struct io_uring_cqe *completion) {
    unsigned head = *ring->cq_head;
    if (head == __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE))
        return 0;
    *completion = ring->cqes[head & ring->cq_mask];
    __atomic_store_n(ring->cq_head, head + 1, __ATOMIC_RELEASE);
    return 1;
}

uint8_t *ring_buffer(const struct ring *ring, unsigned index) {
    return ring->memory + index * ring->buffer_bytes;
}

void ring_buffer_return(struct ring *ring, unsigned index) {
    uint16_t tail = ring->buffers->tail;
    struct io_uring_buf *slot = &ring->buffers->bufs[tail & (ring->buffer_count - 1)];
    slot->addr = (uint64_t)(uintptr_t)ring_buffer(ring, index);
    slot->len = (uint32_t)ring->buffer_bytes;
    slot->bid = (uint16_t)index;
    __atomic_store_n(&ring->buffers->tail, (uint16_t)(tail + 1), __ATOMIC_RELEASE);
}
