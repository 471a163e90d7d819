#include "io/uring/ring.h"
#include "base/assert.h"
#include "os/memory.h"
#include "os/sock.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SMALL = 1024, BUF_RING_BYTES = WEIR__URING_BUFS * sizeof(struct uring_buf) };

static int sys_setup(unsigned entries, struct uring_params *p) {
    long rc = syscall(SYS_URING_SETUP, entries, p);
    return rc < 0 ? -errno : (int)rc;
}

static int sys_register(int fd, unsigned what, void *arg, unsigned n) {
    long rc = syscall(SYS_URING_REGISTER, fd, what, arg, n);
    return rc < 0 ? -errno : (int)rc;
}

static int sys_enter(int fd, unsigned submit, unsigned want, unsigned flags, void *arg, size_t n) {
    long rc = syscall(SYS_URING_ENTER, fd, submit, want, flags, arg, n);
    return rc < 0 ? -errno : (int)rc;
}

/* Newest first; a kernel that does not know a flag says EINVAL. */
static int open_ring(struct uring_params *p) {
    static const uint32_t ladder[] = {
        SETUP_SINGLE_ISSUER | SETUP_DEFER_TASKRUN | SETUP_SUBMIT_ALL | SETUP_R_DISABLED,
        SETUP_COOP_TASKRUN | SETUP_SUBMIT_ALL | SETUP_R_DISABLED,
    };
    int fd = -EINVAL;
    for (unsigned i = 0; i < ARRAY_LEN(ladder) && fd == -EINVAL; i++) {
        *p = (struct uring_params){.cq_entries = WEIR__URING_CQ};
        p->flags = ladder[i] | SETUP_CQSIZE | SETUP_CLAMP;
        fd = sys_setup(WEIR__URING_SQ, p);
    }
    return fd;
}

static const char *setup_reason(int rc) {
    switch (-rc) {
    case ENOSYS: return "the kernel has no io_uring, or a seccomp filter hides it";
    case EPERM: return "io_uring is forbidden here (sysctl kernel.io_uring_disabled or seccomp)";
    case EINVAL: return "the kernel's io_uring is too old (5.19 is needed)";
    case ENOMEM: return "no memory for the rings (RLIMIT_MEMLOCK)";
    default: return "io_uring_setup failed";
    }
}

static void *map_ring(struct weir__uring_ring *r, size_t bytes, long off) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd, off);
    return p == MAP_FAILED ? NULL : p;
}

static int map_rings(struct weir__uring_ring *r, const struct uring_params *p) {
    size_t sq = p->sq_off.array + p->sq_entries * sizeof(uint32_t);
    size_t cq = p->cq_off.cqes + p->cq_entries * sizeof(struct uring_cqe);
    r->map_bytes = sq > cq ? sq : cq;
    r->sqes_bytes = p->sq_entries * sizeof(struct uring_sqe);
    r->map = map_ring(r, r->map_bytes, OFF_SQ_RING);
    r->sqes = map_ring(r, r->sqes_bytes, OFF_SQES);
    if (!r->map || !r->sqes)
        return -ENOMEM;
    uint8_t *base = r->map;
    r->sq_head = (uint32_t *)(void *)(base + p->sq_off.head);
    r->sq_tail = (uint32_t *)(void *)(base + p->sq_off.tail);
    r->cq_head = (uint32_t *)(void *)(base + p->cq_off.head);
    r->cq_tail = (uint32_t *)(void *)(base + p->cq_off.tail);
    r->cqes = (struct uring_cqe *)(void *)(base + p->cq_off.cqes);
    r->sq_entries = p->sq_entries;
    r->sq_mask = p->sq_entries - 1;
    r->cq_mask = p->cq_entries - 1;
    r->tail = *r->sq_tail;
    uint32_t *array = (uint32_t *)(void *)(base + p->sq_off.array);
    for (uint32_t i = 0; i < p->sq_entries; i++)
        array[i] = i;
    return 0;
}

int weir__uring_ring_init(struct weir__uring_ring *r, const char **why) {
    const uint32_t needed = FEAT_SINGLE_MMAP | FEAT_NODROP | FEAT_SUBMIT_STABLE | FEAT_EXT_ARG;
    struct uring_params p;
    memset(r, 0, sizeof *r);
    r->fd = open_ring(&p);
    if (r->fd < 0) {
        *why = setup_reason(r->fd);
        return r->fd;
    }
    *why = "the kernel's io_uring is too old (5.19 is needed)";
    if ((p.features & needed) != needed)
        return -EINVAL;
    *why = "no memory for the rings";
    int rc = map_rings(r, &p);
    if (rc < 0)
        return rc;
    r->bufs = weir__os_map(BUF_RING_BYTES, 0);
    if (!r->bufs)
        return -ENOMEM;
    *why = "io_uring has no provided buffer rings here (5.19 is needed)";
    struct uring_buf_reg reg = {.ring_addr = (uintptr_t)r->bufs, .ring_entries = WEIR__URING_BUFS};
    return sys_register(r->fd, REGISTER_PBUF_RING, &reg, 1);
}

void weir__uring_ring_fini(struct weir__uring_ring *r) {
    if (r->fd >= 0)
        weir__os_close(r->fd);
    if (r->map)
        munmap(r->map, r->map_bytes);
    if (r->sqes)
        munmap(r->sqes, r->sqes_bytes);
    if (r->bufs)
        weir__os_unmap(r->bufs, BUF_RING_BYTES);
    for (unsigned i = 0; i < WEIR__URING_BUFS; i++)
        weir_slice_release(&r->table[i]);
    memset(r, 0, sizeof *r);
    r->fd = -1;
    r->sq_head = r->sq_tail = r->cq_head = r->cq_tail = &r->nothing;
}

int weir__uring_ring_enable(struct weir__uring_ring *r) {
    return sys_register(r->fd, REGISTER_ENABLE_RINGS, NULL, 0);
}

unsigned weir__uring_ring_unsubmitted(const struct weir__uring_ring *r) {
    return r->tail - __atomic_load_n(r->sq_head, __ATOMIC_ACQUIRE);
}

struct uring_sqe *weir__uring_ring_sqe(struct weir__uring_ring *r) {
    if (weir__uring_ring_unsubmitted(r) == r->sq_entries)
        return NULL;
    struct uring_sqe *e = &r->sqes[r->tail++ & r->sq_mask];
    memset(e, 0, sizeof *e);
    return e;
}

int weir__uring_ring_enter(struct weir__uring_ring *r, int64_t timeout_ns) {
    __atomic_store_n(r->sq_tail, r->tail, __ATOMIC_RELEASE);
    struct uring_timespec ts = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    struct uring_getevents_arg arg = {.ts = timeout_ns > 0 ? (uintptr_t)&ts : 0};
    int rc = sys_enter(r->fd, weir__uring_ring_unsubmitted(r), timeout_ns != 0,
                       ENTER_GETEVENTS | ENTER_EXT_ARG, &arg, sizeof arg);
    /* Busy and again: completions have to be taken first; they are there. */
    return rc == -EBUSY || rc == -EAGAIN || rc > 0 ? 0 : rc;
}

const struct uring_cqe *weir__uring_ring_peek(const struct weir__uring_ring *r) {
    uint32_t head = *r->cq_head;
    if (head == __atomic_load_n(r->cq_tail, __ATOMIC_ACQUIRE))
        return NULL;
    return &r->cqes[head & r->cq_mask];
}

void weir__uring_ring_pop(struct weir__uring_ring *r) {
    __atomic_store_n(r->cq_head, *r->cq_head + 1, __ATOMIC_RELEASE);
}

static void give(struct weir__uring_ring *r, unsigned bid) {
    uint16_t tail = r->bufs[0].tail;
    struct uring_buf *b = &r->bufs[tail & (WEIR__URING_BUFS - 1)];
    b->addr = (uintptr_t)r->table[bid].p;
    b->len = WEIR__URING_BUF_BYTES;
    b->bid = (uint16_t)bid;
    r->in_ring++;
    __atomic_store_n(&r->bufs[0].tail, (uint16_t)(tail + 1), __ATOMIC_RELEASE);
}

bool weir__uring_ring_refill(struct weir__uring_ring *r, struct weir_mem *m) {
    for (unsigned i = 0; i < WEIR__URING_BUFS && r->in_ring < WEIR__URING_BUFS; i++) {
        if (r->table[i].p)
            continue;
        if (weir_slice_new(m, WEIR__URING_BUF_BYTES, &r->table[i]) < 0)
            break;
        give(r, i);
    }
    return r->in_ring > 0;
}

/* What came is a small part of its buffer: a copy goes up, and the buffer back to the kernel. */
struct weir_slice weir__uring_ring_take(struct weir__uring_ring *r, struct weir_mem *m,
                                        unsigned bid, size_t n) {
    must(bid < WEIR__URING_BUFS && r->table[bid].p && n <= r->table[bid].n);
    struct weir_slice out;
    r->in_ring--;
    if (n <= SMALL && weir_slice_copy(m, r->table[bid].p, n, &out) >= 0) {
        give(r, bid);
        return out;
    }
    out = r->table[bid];
    out.n = n;
    r->table[bid] = (struct weir_slice){0};
    if (weir_slice_new(m, WEIR__URING_BUF_BYTES, &r->table[bid]) >= 0)
        give(r, bid);
    return out;
}
