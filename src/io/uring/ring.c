#include "io/uring/ring.h"
#include "base/assert.h"
#include "io/uring/uring.h"
#include "os/file.h"
#include "os/raw.h"
#include "os/sock.h"
#include "os/thread.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static int sys_setup(unsigned entries, struct uring_params *p) {
    long rc = syscall(SYS_URING_SETUP, entries, p);
    return rc < 0 ? -errno : (int)rc;
}

int weir__uring_ring_register(const struct weir__uring_ring *r, unsigned what, void *arg,
                              unsigned n) {
    long rc = syscall(SYS_URING_REGISTER, r->fd, what, arg, n);
    return rc < 0 ? -errno : (int)rc;
}

/* What a kernel that does not know all of it goes without, newest first: 6.6, 6.1, 6.0, 5.19. */
static bool step_down(uint32_t *flags) {
    static const uint32_t steps[] = {SETUP_NO_SQARRAY, SETUP_DEFER_TASKRUN, SETUP_SINGLE_ISSUER,
                                     SETUP_COOP_TASKRUN | SETUP_TASKRUN_FLAG};
    for (unsigned i = 0; i < ARRAY_LEN(steps); i++) {
        if (!(*flags & steps[i]))
            continue;
        *flags &= ~steps[i];
        if (steps[i] == SETUP_DEFER_TASKRUN)
            *flags |= SETUP_COOP_TASKRUN;
        return true;
    }
    return false;
}

static int open_ring(struct uring_params *p, unsigned without) {
    uint32_t flags = SETUP_SUBMIT_ALL | SETUP_R_DISABLED | SETUP_CQSIZE | SETUP_CLAMP |
                     SETUP_SINGLE_ISSUER | SETUP_TASKRUN_FLAG;
    flags |= without & WEIR__URING_NO_SQARRAY ? 0 : SETUP_NO_SQARRAY;
    flags |= without & WEIR__URING_DEFER ? SETUP_COOP_TASKRUN : SETUP_DEFER_TASKRUN;
    uint32_t cq = WEIR__URING_CQ, sq = WEIR__URING_SQ;
    for (;;) {
        *p = (struct uring_params){.cq_entries = cq, .flags = flags};
        int fd = sys_setup(sq, p);
        if (fd == -ENOMEM && sq > WEIR__URING_SQ / 8) {
            sq /= 2;
            cq /= 2;
        } else if (fd != -EINVAL || !step_down(&flags)) {
            return fd;
        }
    }
}

const char *weir__uring_ring_reason(int rc, const char *sysctl) {
    switch (-rc) {
    case ENOSYS:
        return sysctl[0] ? "a seccomp filter hides io_uring"
                         : "the kernel has no io_uring, or a seccomp filter hides it";
    case EPERM:
        return sysctl[0] == '2'   ? "sysctl kernel.io_uring_disabled=2 forbids io_uring"
               : sysctl[0] == '1' ? "sysctl kernel.io_uring_disabled=1 forbids io_uring to who is "
                                    "not in kernel.io_uring_group"
                                  : "a seccomp filter forbids io_uring";
    case EACCES: return "a security module forbids io_uring";
    case EINVAL: return "the kernel's io_uring is too old (5.19 is needed)";
    case ENOMEM: return "no memory for the rings (RLIMIT_MEMLOCK: see ulimit -l)";
    case EMFILE:
    case ENFILE: return "no descriptor for the ring (RLIMIT_NOFILE: see ulimit -n)";
    default: return "io_uring_setup failed";
    }
}

static const char *setup_reason(int rc) {
    char sysctl[8]; /* since 6.6; before, only a filter forbids */
    if (weir__os_file_text("/proc/sys/kernel/io_uring_disabled", sysctl, sizeof sysctl) < 0)
        sysctl[0] = 0;
    return weir__uring_ring_reason(rc, sysctl);
}

static void *map_ring(struct weir__uring_ring *r, size_t bytes, long off) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd, off);
    return p == MAP_FAILED ? NULL : p;
}

/* The indirection of older kernels: entry i of the ring is always entry i of the table. */
static void fill_array(const struct uring_params *p, uint8_t *base) {
    uint32_t *array = (uint32_t *)(void *)(base + p->sq_off.array);
    if (p->flags & SETUP_NO_SQARRAY)
        return;
    for (uint32_t i = 0; i < p->sq_entries; i++)
        array[i] = i;
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
    r->sq_flags = (uint32_t *)(void *)(base + p->sq_off.flags);
    r->cq_head = (uint32_t *)(void *)(base + p->cq_off.head);
    r->cq_tail = (uint32_t *)(void *)(base + p->cq_off.tail);
    r->cqes = (struct uring_cqe *)(void *)(base + p->cq_off.cqes);
    r->sq_entries = p->sq_entries;
    r->sq_mask = p->sq_entries - 1;
    r->cq_mask = p->cq_entries - 1;
    r->tail = *r->sq_tail;
    r->head = *r->cq_head;
    fill_array(p, base);
    return 0;
}

static void closed(struct weir__uring_ring *r) {
    r->fd = r->enter_fd = -1;
    r->sq_head = r->sq_tail = r->sq_flags = r->cq_head = r->cq_tail = &r->nothing;
}

int weir__uring_ring_init(struct weir__uring_ring *r, unsigned without, const char **why) {
    const uint32_t needed = FEAT_SINGLE_MMAP | FEAT_NODROP | FEAT_SUBMIT_STABLE | FEAT_EXT_ARG;
    struct uring_params p;
    memset(r, 0, sizeof *r);
    closed(r);
    int fd = open_ring(&p, without);
    if (fd < 0) {
        *why = setup_reason(fd);
        return fd;
    }
    r->fd = r->enter_fd = fd;
    r->setup = p.flags;
    *why = setup_reason(-EINVAL);
    if ((p.features & needed) != needed)
        return -EINVAL;
    *why = setup_reason(-ENOMEM);
    return map_rings(r, &p);
}

static void unregister(struct weir__uring_ring *r) {
    struct uring_ring_slot slot = {.offset = (uint32_t)r->enter_fd};
    if (r->enter_flags && r->owner == weir__os_thread_tid())
        (void)weir__uring_ring_register(r, UNREGISTER_RING_FDS, &slot, 1);
}

void weir__uring_ring_fini(struct weir__uring_ring *r) {
    if (r->fd >= 0) {
        unregister(r);
        weir__os_close(r->fd);
    }
    if (r->map)
        munmap(r->map, r->map_bytes);
    if (r->sqes)
        munmap(r->sqes, r->sqes_bytes);
    memset(r, 0, sizeof *r);
    closed(r);
}

int weir__uring_ring_enable(struct weir__uring_ring *r, unsigned without) {
    struct uring_ring_slot slot = {.offset = UINT32_MAX, .fd = (uint64_t)r->fd};
    int rc = weir__uring_ring_register(r, REGISTER_ENABLE_RINGS, NULL, 0);
    if (rc < 0 || without & WEIR__URING_RING_FD)
        return rc;
    /* Only quicker: a thread has room for sixteen. */
    if (weir__uring_ring_register(r, REGISTER_RING_FDS, &slot, 1) == 1) {
        r->enter_fd = (int)slot.offset;
        r->enter_flags = ENTER_REGISTERED_RING;
        r->owner = weir__os_thread_tid();
    }
    return 0;
}

int weir__uring_ring_enter(struct weir__uring_ring *r, int64_t timeout_ns) {
    __atomic_store_n(r->sq_tail, r->tail, __ATOMIC_RELEASE);
    struct uring_timespec ts = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    struct uring_getevents_arg arg = {.ts = timeout_ns > 0 ? (uintptr_t)&ts : 0};
    r->enters++;
    if (unlikely(__atomic_load_n(r->sq_flags, __ATOMIC_RELAXED) & SQ_CQ_OVERFLOW))
        r->overflows++;
    long rc = weir__os_raw(SYS_URING_ENTER, r->enter_fd, weir__uring_ring_unsubmitted(r),
                           timeout_ns != 0, ENTER_GETEVENTS | ENTER_EXT_ARG | r->enter_flags,
                           (long)&arg, sizeof arg);
    /* Busy and again: completions have to be taken first; they are there. */
    return rc == -EBUSY || rc == -EAGAIN || rc > 0 ? 0 : (int)rc;
}
