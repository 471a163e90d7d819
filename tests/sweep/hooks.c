/* Counting and spoiling. The library's system calls have a hook of their own (os/fault.h) and pools
 * have another; the rest is put between the library and what it calls by the linker (--wrap), so
 * that the library carries nothing for it.
 *
 * A spoilt io_uring request is made a no-op before the kernel sees it, and its completion gets the
 * result: nothing has happened, as with a call that failed. */
#include "base/compiler.h"
#include "io/uring/ring.h"
#include "loop/inbox.h"
#include "mem/pool.h"
#include "os/fault.h"
#include "os/thread.h"
#include "sweep/sweep.h"
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

enum { POOLS = SWEEP_KINDS, SPOILT = 64, OP_NOP = 0, SHORT_AGAIN = 700 };
#define FAR (UINT64_C(1) << 40)

static struct sweep_fault fault;
static bool armed, faulty, heap_gone;
static _Atomic unsigned n_threads;
static _Atomic uint32_t n_hit;
static _Atomic uint32_t seen[SWEEP_THREADS][SWEEP_PLACES][SWEEP_KINDS];
static WEIR_TLS unsigned self;
static WEIR_TLS bool aside;

/* True: this call is to fail. */
static bool hit(enum sweep_place place, unsigned kind) {
    if (!armed || aside || kind >= SWEEP_KINDS)
        return place == SWEEP_HEAP && heap_gone;
    uint32_t n = atomic_fetch_add(&seen[self][place][kind], 1) + 1;
    if (!faulty || fault.place != place || fault.thread != self || fault.kind != kind)
        return false;
    if (fault.persist ? n < fault.nth : n != fault.nth)
        return false;
    atomic_fetch_add(&n_hit, 1);
    return true;
}

/* --- system calls ----------------------------------------------------------------------------- */

static struct weir__os_fault os_plan[SWEEP_THREADS][WEIR__OS_KINDS];

/* One entry a kind: those that do not fail count. */
static void os_arm(void) {
    struct weir__os_fault *list = NULL;
    for (unsigned kind = 1; kind < WEIR__OS_KINDS; kind++) {
        struct weir__os_fault *f = &os_plan[self][kind];
        *f = (struct weir__os_fault){.kind = (enum weir__os_kind)kind, .next = list};
        list = f;
        if (!faulty || fault.place != SWEEP_OS || fault.thread != self || fault.kind != kind)
            continue;
        f->nth = fault.nth;
        f->error = fault.error;
        f->persist = fault.persist;
        f->short_max = fault.short_max;
    }
    weir__os_fault_set(list);
}

struct start {
    void (*fn)(void *user);
    void *user;
    unsigned number;
};
static struct start starts[SWEEP_THREADS];

static void begin_thread(void *user) {
    const struct start *s = user;
    self = s->number;
    os_arm();
    s->fn(s->user);
    weir__os_fault_set(NULL);
}

int __real_weir__os_thread_start(struct weir__os_thread *t, const char *name,
                                 void (*fn)(void *user), void *user);
int __wrap_weir__os_thread_start(struct weir__os_thread *t, const char *name,
                                 void (*fn)(void *user), void *user);
int __wrap_weir__os_thread_start(struct weir__os_thread *t, const char *name,
                                 void (*fn)(void *user), void *user) {
    unsigned number = atomic_fetch_add(&n_threads, 1) + 1;
    if (!armed || number >= SWEEP_THREADS)
        return __real_weir__os_thread_start(t, name, fn, user);
    starts[number] = (struct start){fn, user, number};
    return __real_weir__os_thread_start(t, name, begin_thread, &starts[number]);
}

/* --- pools ------------------------------------------------------------------------------------ */

static struct weir_mem *pools[POOLS];
static unsigned n_pools;

/* The simulated network's own memory is part of the world, like the kernel's. */
static struct weir_mem *pool_begin(struct weir_mem *m, const char *name) {
    if (!m || !armed || n_pools == POOLS || !strcmp(name, "sim net"))
        return m;
    bool mine = faulty && fault.place == SWEEP_POOL && fault.kind == n_pools;
    pools[n_pools++] = m;
    weir__mem_fail(m, mine ? fault.nth : FAR, mine && fault.persist);
    return m;
}

static void pool_end(struct weir_mem *m) {
    for (unsigned i = 0; m && i < n_pools; i++) {
        if (pools[i] != m)
            continue;
        struct weir__mem_stats s;
        weir__mem_stats(m, &s);
        if (faulty && fault.place == SWEEP_POOL && fault.kind == i)
            n_hit += (uint32_t)s.failures;
        else
            seen[0][SWEEP_POOL][i] = (uint32_t)(FAR - m->fail_in);
        pools[i] = NULL;
    }
}

struct weir_mem *__real_weir__mem_pool_new(const char *name);
struct weir_mem *__wrap_weir__mem_pool_new(const char *name);
struct weir_mem *__wrap_weir__mem_pool_new(const char *name) {
    return pool_begin(__real_weir__mem_pool_new(name), name);
}

struct weir_mem *__real_weir_mem_open(const char *name);
struct weir_mem *__wrap_weir_mem_open(const char *name);
struct weir_mem *__wrap_weir_mem_open(const char *name) {
    return pool_begin(__real_weir_mem_open(name), name);
}

uint64_t __real_weir__mem_pool_free(struct weir_mem *m);
uint64_t __wrap_weir__mem_pool_free(struct weir_mem *m);
uint64_t __wrap_weir__mem_pool_free(struct weir_mem *m) {
    pool_end(m);
    return __real_weir__mem_pool_free(m);
}

void __real_weir_mem_close(struct weir_mem *m);
void __wrap_weir_mem_close(struct weir_mem *m);
void __wrap_weir_mem_close(struct weir_mem *m) {
    pool_end(m);
    __real_weir_mem_close(m);
}

/* --- the heap --------------------------------------------------------------------------------- */

static _Atomic int64_t heap_live;

static void *counted(void *p) {
    atomic_fetch_add(&heap_live, p != NULL);
    return p;
}

int64_t sweep_heap_live(void) {
    return heap_live;
}

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_malloc(size_t n) {
    return hit(SWEEP_HEAP, 0) ? NULL : counted(__real_malloc(n));
}

void *__real_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each) {
    return hit(SWEEP_HEAP, 0) ? NULL : counted(__real_calloc(n, each));
}

void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n) {
    if (hit(SWEEP_HEAP, 0))
        return NULL;
    void *moved = __real_realloc(p, n);
    return p ? moved : counted(moved);
}

void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n) {
    return hit(SWEEP_HEAP, 0) ? NULL : counted(__real_aligned_alloc(align, n));
}

void __real_free(void *p);
void __wrap_free(void *p);
void __wrap_free(void *p) {
    atomic_fetch_sub(&heap_live, p != NULL);
    __real_free(p);
}

/* --- behind the library's own hook ------------------------------------------------------------ */

/* What a wrapped function begins with: true, it fails with errno. */
static bool no(enum sweep_libc kind) {
    if (!hit(SWEEP_LIBC, kind))
        return false;
    errno = fault.error;
    return true;
}

#define LIBC(type, name, kind, parameters, arguments)   \
    type __real_##name parameters;                      \
    type __wrap_##name parameters;                      \
    type __wrap_##name parameters {                     \
        return no(kind) ? -1 : __real_##name arguments; \
    }

LIBC(int, socket, SWEEP_SOCKET, (int family, int type, int protocol), (family, type, protocol))
LIBC(int, setsockopt, SWEEP_SETSOCKOPT,
     (int fd, int level, int name, const void *value, socklen_t n), (fd, level, name, value, n))
LIBC(int, getsockopt, SWEEP_GETSOCKOPT, (int fd, int level, int name, void *value, socklen_t *n),
     (fd, level, name, value, n))
LIBC(int, signalfd, SWEEP_SIGNALFD, (int fd, const sigset_t *set, int flags), (fd, set, flags))
LIBC(int, getrlimit, SWEEP_GETRLIMIT, (__rlimit_resource_t what, struct rlimit *out), (what, out))
LIBC(int, setrlimit, SWEEP_SETRLIMIT, (__rlimit_resource_t what, const struct rlimit *in),
     (what, in))
LIBC(int, sched_getaffinity, SWEEP_GETAFFINITY, (pid_t pid, size_t n, cpu_set_t *set),
     (pid, n, set))
LIBC(ssize_t, getrandom, SWEEP_GETRANDOM, (void *out, size_t n, unsigned flags), (out, n, flags))
LIBC(int, timer_create, SWEEP_TIMER, (clockid_t clock, struct sigevent *e, timer_t *out),
     (clock, e, out))

LIBC(int, timer_settime, SWEEP_SETTIME,
     (timer_t t, int flags, const struct itimerspec *in, struct itimerspec *out),
     (t, flags, in, out))
LIBC(int, ppoll, SWEEP_PPOLL,
     (struct pollfd * fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask),
     (fds, n, timeout, mask))

/* --- io_uring --------------------------------------------------------------------------------- */

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...) {
    static const enum sweep_ring kinds[] = {SWEEP_SETUP, SWEEP_ENTER, SWEEP_REGISTER};
    long a[6];
    va_list ap;
    va_start(ap, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(ap, long);
    va_end(ap);
    if (number >= SYS_URING_SETUP && number <= SYS_URING_REGISTER &&
        hit(SWEEP_RING, kinds[number - SYS_URING_SETUP])) {
        errno = fault.error;
        return -1;
    }
    return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off) {
    if (fd >= 0 && hit(SWEEP_RING, SWEEP_MAP_RING)) {
        errno = fault.error;
        return MAP_FAILED;
    }
    return __real_mmap(at, n, prot, flags, fd, off);
}

static WEIR_TLS struct spoilt {
    const struct weir__uring_ring *ring;
    uint64_t user_data;
    int res;
} spoilt[SPOILT];
static WEIR_TLS unsigned n_spoilt;

/* A request that comes back again and again is short every time. */
static uint32_t short_of(const struct uring_sqe *e) {
    bool again = e->opcode == OP_RECV && e->ioprio & RECV_MULTISHOT;
    return again && fault.short_max < SHORT_AGAIN ? SHORT_AGAIN : fault.short_max;
}

static void shorten(struct uring_sqe *e) {
    bool message = e->opcode == OP_SENDMSG || e->opcode == OP_SENDMSG_ZC;
    struct msghdr *m = message ? (struct msghdr *)(uintptr_t)e->addr : NULL;
    if (m) {
        m->msg_iovlen = 1;
        if (m->msg_iov->iov_len > fault.short_max)
            m->msg_iov->iov_len = fault.short_max;
    } else if (e->len > short_of(e)) {
        e->len = short_of(e);
    }
}

static void spoil(const struct weir__uring_ring *r, struct uring_sqe *e) {
    if (!fault.error) {
        shorten(e);
        return;
    }
    if (n_spoilt == SPOILT)
        return;
    spoilt[n_spoilt++] = (struct spoilt){r, e->user_data, -fault.error};
    *e = (struct uring_sqe){.opcode = OP_NOP, .fd = -1, .user_data = e->user_data};
}

/* The completions of what was spoilt, which are there as soon as the kernel has seen it. */
static void spoil_results(struct weir__uring_ring *r) {
    uint32_t end = __atomic_load_n(r->cq_tail, __ATOMIC_ACQUIRE);
    for (uint32_t at = r->head; at != end; at++) {
        struct uring_cqe *e = &r->cqes[at & r->cq_mask];
        for (unsigned i = 0; i < n_spoilt; i++) {
            if (spoilt[i].ring != r || spoilt[i].user_data != e->user_data || e->res)
                continue;
            e->res = spoilt[i].res;
            spoilt[i] = spoilt[--n_spoilt];
            break;
        }
    }
}

/* A ring that looks full to who wants an entry until it is entered again, and what that answers. */
static WEIR_TLS struct {
    struct weir__uring_ring *ring;
    uint32_t entries;
    int answer; /* 0: as it goes */
} full;

static void fill_up(struct weir__uring_ring *r) {
    if (!hit(SWEEP_RING, SWEEP_FULL))
        return;
    full.ring = r;
    full.entries = r->sq_entries;
    full.answer = fault.error == EAGAIN ? 0 : -fault.error;
    r->sq_entries = weir__uring_ring_unsubmitted(r);
}

static int room_again(struct weir__uring_ring *r) {
    if (full.ring != r)
        return 0;
    full.ring = NULL;
    r->sq_entries = full.entries;
    return full.answer;
}

int __real_weir__uring_ring_enter(struct weir__uring_ring *r, int64_t timeout_ns);
int __wrap_weir__uring_ring_enter(struct weir__uring_ring *r, int64_t timeout_ns);
int __wrap_weir__uring_ring_enter(struct weir__uring_ring *r, int64_t timeout_ns) {
    int rc = room_again(r);
    if (rc < 0)
        return rc;
    if (hit(SWEEP_RING, SWEEP_ENTER))
        return fault.error == EAGAIN || fault.error == EBUSY ? 0 : -fault.error;
    for (uint32_t at = *r->sq_tail; at != r->tail; at++) {
        struct uring_sqe *e = &r->sqes[at & r->sq_mask];
        if (hit(SWEEP_OP, e->opcode))
            spoil(r, e);
    }
    rc = __real_weir__uring_ring_enter(r, timeout_ns);
    spoil_results(r);
    fill_up(r);
    return rc;
}

void __real_weir__uring_ring_fini(struct weir__uring_ring *r);
void __wrap_weir__uring_ring_fini(struct weir__uring_ring *r);
void __wrap_weir__uring_ring_fini(struct weir__uring_ring *r) {
    (void)room_again(r);
    __real_weir__uring_ring_fini(r);
}

/* --- a run ------------------------------------------------------------------------------------ */

static struct weir__loop_inbox *kept;

void sweep_aside(bool yes) {
    aside = yes;
}

void sweep_cool(void) {
    struct weir__loop_inbox *b;
    heap_gone = true; /* so that it ends */
    while ((b = weir__loop_inbox_get()) != NULL) {
        b->next = kept;
        kept = b;
    }
    heap_gone = false;
}

void sweep_warm(void) {
    while (kept) {
        struct weir__loop_inbox *b = kept;
        kept = b->next;
        weir__loop_inbox_put(b);
    }
}

void sweep_begin(const struct sweep_fault *f) {
    faulty = f != NULL;
    fault = f ? *f : (struct sweep_fault){0};
    n_pools = n_spoilt = 0;
    full.ring = NULL;
    n_hit = n_threads = 0;
    memset((void *)seen, 0, sizeof seen);
    memset(os_plan, 0, sizeof os_plan);
    os_arm();
    armed = true;
}

uint32_t sweep_end(struct sweep_counts *counts) {
    armed = false;
    weir__os_fault_set(NULL);
    for (unsigned t = 0; t < SWEEP_THREADS; t++)
        for (unsigned kind = 1; kind < WEIR__OS_KINDS; kind++) {
            seen[t][SWEEP_OS][kind] = (uint32_t)os_plan[t][kind].seen;
            n_hit += (uint32_t)os_plan[t][kind].hit;
        }
    if (counts)
        memcpy(counts->n, (const void *)seen, sizeof counts->n);
    return n_hit;
}
