/* The pool behind a weir_mem: size classes with one LIFO list of free blocks each, carved out of
 * chunks from the system.
 *
 * Everything in `struct weir_mem` is its owner's, except the return stack: whoever releases a
 * shared thing elsewhere pushes its block there, and the owner takes the whole stack back when a
 * list runs dry or at weir__mem_collect().
 *
 *      open --- weir__mem_pool_free, nothing alive ---------------> storage returned
 *       |                                                                ^
 *       +--- weir__mem_pool_free, things alive ---> orphan --- last release (any thread)
 */
#ifndef WEIR_MEM_POOL_H
#define WEIR_MEM_POOL_H
#include "base/assert.h"
#include "base/compiler.h"
#include "weir/mem.h"
#include <stdalign.h>
#include <stdatomic.h>

#if defined(__SANITIZE_ADDRESS__)
#define WEIR__MEM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEIR__MEM_ASAN 1
#endif
#endif

/* Guarded builds leave the inline paths: every block is filled, verified, traced or poisoned out of
 * line. */
#if defined(WEIR_CHECKED) || defined(WEIR__MEM_ASAN)
#define WEIR__MEM_GUARDED 1
#endif

enum weir__mem_kind { WEIR__MEM_BUF, WEIR__MEM_OBJECT, WEIR__MEM_PART, WEIR__MEM_KINDS };

enum {
    WEIR__MEM_CLASSES = 44,    /* 16 B .. 64 KiB, four per doubling above 64 B */
    WEIR__MEM_HUGE = 44,       /* the class of what is larger: straight from the heap */
    WEIR__MEM_SMALL_MAX = 896, /* classes above it carry a buffer header on top, so that 1, 2 .. 64
                                  KiB of payload fit exactly */
    WEIR__MEM_BIG_MAX = 65536, /* largest payload of a class */
    WEIR__MEM_CHUNK_BYTES = 1 << 20,
};

/* A counted buffer; the payload follows. */
struct weir_buf {
    uint32_t refs; /* plain until shared, atomic afterwards */
    bool shared;   /* set once, by the owner, before the buffer goes elsewhere */
    uint8_t cls;
    size_t capacity; /* payload bytes */
    struct weir_mem *mem;
    alignas(16) uint8_t data[];
};
_Static_assert(sizeof(struct weir_buf) == 32, "classes are sized for a header of 32 bytes");

/* The start of a block while nobody uses it: on a free list (next only) or on a return stack. */
struct weir__mem_block {
    struct weir__mem_block *next;
    uint8_t cls, kind;
};
_Static_assert(sizeof(struct weir__mem_block) <= 16, "the smallest class holds a free block");

struct weir__mem_chunk;
struct weir__mem_trace;

struct weir_mem {
    /* Owner part. */
    uint64_t live, limit; /* bytes handed out; above limit (budget, or 0 while a failure is planned)
                             the slow path decides */
    uint64_t n[WEIR__MEM_KINDS]; /* things handed out */
    struct weir__mem_block *free[WEIR__MEM_CLASSES];
    uint64_t budget;  /* most live bytes */
    uint64_t fail_in; /* the allocation that fails next, counted down to 1; 0: none */
    bool fail_persist;
    uint8_t *bump, *bump_end; /* the uncarved rest of the newest chunk */
    struct weir__mem_chunk *chunks;
    uint64_t chunk_bytes, huge_bytes, peak, failures, foreign;
    struct weir__mem_trace *traces; /* checked builds: every live block, newest first */
    /* Any thread. */
    alignas(64) struct weir__mem_block *_Atomic back; /* the return stack */
    _Atomic uint64_t orphans;                         /* after free: things still alive */
    /* Constant. */
    const void *thread; /* whose weir_mem_open it was: the address of that thread's
                           weir__mem_current; NULL for loops */
    char name[24];
};

struct weir__mem_stats {
    uint64_t live_bytes, peak_bytes,
        budget_bytes; /* peak: as seen when a list ran dry or statistics were taken */
    uint64_t buffers, objects, parts;
    uint64_t chunk_bytes, huge_bytes; /* from the system */
    uint64_t failures;                /* allocations answered with NULL */
    uint64_t foreign;                 /* blocks that came back over the return stack */
};

/* The pool of whoever runs now on this thread; NULL: a thread that owns none. */
extern WEIR_TLS struct weir_mem *weir__mem_current;
extern const uint32_t weir__mem_class_bytes[WEIR__MEM_CLASSES];

/* A pool for a loop; nobody's until weir__mem_enter(). NULL: no memory. */
struct weir_mem *weir__mem_pool_new(const char *name);
/* Ends a pool; its owner calls, or whoever is left alone with it. Returns how many things are still
 * alive: shared ones keep the storage until the last release, unshared ones are leaks. 0:
 * everything went back to the system. */
uint64_t weir__mem_pool_free(struct weir_mem *m);
/* From now on m is the pool that this thread runs. Returns the one before, for the way back. */
struct weir_mem *weir__mem_enter(struct weir_mem *m);
/* Takes home what others released. Returns how many. Owner. */
unsigned weir__mem_collect(struct weir_mem *m);
/* Most live bytes; over it allocations answer NULL and are counted. Default: unlimited. Owner. */
void weir__mem_budget_set(struct weir_mem *m, uint64_t max_bytes);
/* The nth allocation from now fails (1 = the next), with persist every one from it on. 0: off.
 * Owner. */
void weir__mem_fail(struct weir_mem *m, uint64_t nth, bool persist);
void weir__mem_stats(struct weir_mem *m, struct weir__mem_stats *out);
/* Visits what is alive, newest first, with the address that allocated it; checked builds only
 * (elsewhere nothing is visited). Returns how many things are alive in any build. Owner. */
uint64_t weir__mem_dump(const struct weir_mem *m,
                        void (*fn)(enum weir__mem_kind kind, size_t bytes, const void *site,
                                   void *user),
                        void *user);
/* Asserts that counters, lists and traces agree. Owner. */
void weir__mem_invariants(const struct weir_mem *m);

/* Out of line: everything that is not "pop a block" and "push a block". */
void *weir__mem_get_slow(struct weir_mem *m, size_t bytes, enum weir__mem_kind kind,
                         const void *site);
void weir__mem_put_slow(struct weir_mem *m, void *p, unsigned cls, enum weir__mem_kind kind);
void weir__mem_put_foreign(struct weir_mem *m, void *p, unsigned cls, enum weir__mem_kind kind);
void weir__mem_buf_release_shared(struct weir_buf *b);
/* True where unshared things of m may be touched: its runner, or the thread that opened it. */
bool weir__mem_may_touch(const struct weir_mem *m);

/* The class of a block of `bytes` bytes, header included. */
WEIR_INLINE unsigned weir__mem_class(size_t bytes) {
    if (bytes > WEIR__MEM_SMALL_MAX) {
        if (bytes > WEIR__MEM_BIG_MAX + sizeof(struct weir_buf))
            return WEIR__MEM_HUGE;
        bytes -= sizeof(struct weir_buf);
        if (bytes <= WEIR__MEM_SMALL_MAX)
            bytes = WEIR__MEM_SMALL_MAX + 1;
    }
    size_t x = bytes ? bytes - 1 : 0;
    if (x < 64)
        return (unsigned)(x >> 4);
    unsigned lg = 63U - (unsigned)__builtin_clzll(x);
    return (lg - 6) * 4 + (unsigned)(x >> (lg - 2));
}

/* A block of class cls if one is at hand, else NULL: weir__mem_get may still find one. Owner. */
WEIR_INLINE void *weir__mem_try(struct weir_mem *m, unsigned cls, enum weir__mem_kind kind) {
#ifndef WEIR__MEM_GUARDED
    if (likely(cls < WEIR__MEM_CLASSES)) {
        struct weir__mem_block *b = m->free[cls];
        uint64_t live = m->live + weir__mem_class_bytes[cls];
        if (likely(b && live <= m->limit)) {
            m->free[cls] = b->next;
            m->live = live;
            m->n[kind]++;
            return b;
        }
    }
#endif
    (void)m, (void)cls, (void)kind;
    return NULL;
}

/* A block of class cls that holds `bytes`, or NULL. Owner. */
WEIR_INLINE void *weir__mem_get(struct weir_mem *m, unsigned cls, size_t bytes,
                                enum weir__mem_kind kind) {
    void *p = weir__mem_try(m, cls, kind);
    return likely(p) ? p : weir__mem_get_slow(m, bytes, kind, __builtin_return_address(0));
}

/* Gives a block back. Owner. */
WEIR_INLINE void weir__mem_put(struct weir_mem *m, void *p, unsigned cls,
                               enum weir__mem_kind kind) {
#ifndef WEIR__MEM_GUARDED
    if (likely(cls < WEIR__MEM_CLASSES)) {
        struct weir__mem_block *b = p;
        b->next = m->free[cls];
        m->free[cls] = b;
        m->live -= weir__mem_class_bytes[cls];
        m->n[kind]--;
        return;
    }
#endif
    weir__mem_put_slow(m, p, cls, kind);
}

/* Gives a block back. Any thread. */
WEIR_INLINE void weir__mem_return(struct weir_mem *m, void *p, unsigned cls,
                                  enum weir__mem_kind kind) {
    if (likely(m == weir__mem_current))
        weir__mem_put(m, p, cls, kind);
    else
        weir__mem_put_foreign(m, p, cls, kind);
}

/* What a block becomes as a buffer with one reference. */
WEIR_INLINE void weir__mem_buf_init(struct weir_buf *b, struct weir_mem *m, unsigned cls,
                                    size_t bytes) {
    b->refs = 1;
    b->shared = false;
    b->cls = (uint8_t)cls;
    b->capacity = bytes - sizeof(struct weir_buf);
    b->mem = m;
}

/* A buffer with room for n bytes and one reference, or NULL. Owner. */
WEIR_INLINE struct weir_buf *weir__mem_buf_new(struct weir_mem *m, size_t n) {
    size_t bytes = n + sizeof(struct weir_buf);
    unsigned cls = weir__mem_class(bytes);
    struct weir_buf *b = bytes < n ? NULL : weir__mem_get(m, cls, bytes, WEIR__MEM_BUF);
    if (unlikely(!b))
        return NULL;
    weir__mem_buf_init(b, m, cls, cls < WEIR__MEM_CLASSES ? weir__mem_class_bytes[cls] : bytes);
    return b;
}

WEIR_INLINE void weir__mem_buf_ref(struct weir_buf *b) {
    if (likely(!b->shared)) {
        check(b->refs > 0 && weir__mem_may_touch(b->mem));
        b->refs++;
    } else {
        __atomic_fetch_add(&b->refs, 1, __ATOMIC_RELAXED);
    }
}

WEIR_INLINE void weir__mem_buf_release(struct weir_buf *b) {
    if (unlikely(b->shared)) {
        weir__mem_buf_release_shared(b);
        return;
    }
    check(b->refs > 0 && weir__mem_may_touch(b->mem));
    if (--b->refs == 0)
        weir__mem_put(b->mem, b, b->cls, WEIR__MEM_BUF);
}

#endif
