/* The pool behind a weir_mem: a bounded cache of free blocks per size class (cache.h) in front of
 * an arena of chunks (arena.h).
 *
 * Everything in `struct weir_mem` is its owner's, except the return stack: whoever releases a
 * shared thing elsewhere pushes its block there, and the owner takes the whole stack back when a
 * list runs dry or at weir__mem_collect().
 *
 *      open --- weir__mem_pool_free, nothing alive ---------------> storage returned
 *       |                                                                ^
 *       +--- weir__mem_pool_free, things alive ---> orphan --- last release (any thread)
 *
 * The inline paths know a list and its room per class and nothing else. What must see every
 * operation (a planned failure, a watched pool, a pool without a cache) makes them run into an
 * empty head and no room, and so costs them no branch. */
#ifndef WEIR_MEM_POOL_H
#define WEIR_MEM_POOL_H
#include "base/assert.h"
#include "base/compiler.h"
#include "mem/budget.h"
#include "mem/cache.h"
#include "mem/class.h"
#include "mem/debug.h"
#include "mem/poison.h"
#include "mem/stats.h"
#include "weir/mem.h"
#include <stdalign.h>
#include <stdatomic.h>

/* Builds in which blocks are watched unless a pool is told otherwise. */
#if defined(WEIR_CHECKED) || defined(WEIR__MEM_ASAN)
#define WEIR__MEM_GUARDED 1
#endif

enum weir__mem_kind { WEIR__MEM_BUF, WEIR__MEM_OBJECT, WEIR__MEM_PART, WEIR__MEM_KINDS };

enum weir__mem_flag {
    WEIR__MEM_SHARED = 1,  /* set once, by the owner, before the buffer goes elsewhere */
    WEIR__MEM_WATCHED = 2, /* has a record: its references are taken and dropped out of line */
};

/* A counted buffer; the payload follows. */
struct weir_buf {
    union {
        struct {
            uint32_t refs;  /* plain until shared, atomic afterwards */
            uint32_t flags; /* of enum weir__mem_flag; 0 is what the inline paths serve */
        };
        uint64_t word; /* both at once */
    };
    struct weir__mem_bin *bin; /* where the block goes: the pool and the class */
    size_t capacity;           /* payload bytes */
    alignas(16) uint8_t data[];
};
_Static_assert(sizeof(struct weir_buf) == WEIR__MEM_HEAD_BYTES, "classes are sized for the header");

/* A word with one reference and no flags; that of a flag alone. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define WEIR__MEM_ONE ((uint64_t)1)
#define WEIR__MEM_FLAG(flag) ((uint64_t)(flag) << 32)
#else
#define WEIR__MEM_ONE ((uint64_t)1 << 32)
#define WEIR__MEM_FLAG(flag) ((uint64_t)(flag))
#endif

struct weir_mem {
    /* Owner part. */
    struct weir__mem_cache cache;
    struct weir__mem_arena arena;
    uint64_t limit;  /* what may be out of the arena: the smaller of budget and lease */
    uint64_t budget; /* most of it */
    uint64_t lease;  /* of the shared budget; UINT64_MAX: there is none */
    struct weir__mem_budget *shared;
    uint64_t refused_seen; /* by the shared budget, when it was last looked at */
    uint64_t fail_in;      /* the allocation that fails next, counted down to 1; 0: none */
    bool fail_persist;
    uint32_t slow_ops, ticks;
    uint64_t published_out; /* bytes out of the arena when statistics were published last */
    uint64_t misses, failures, over_budget, foreign;
    struct weir__mem_debug debug;
    /* Any thread. */
    alignas(64) struct weir__mem_block *_Atomic back; /* the return stack */
    _Atomic uint64_t orphans;                         /* after free: things still alive */
    struct weir__mem_board board;
    /* Constant. */
    alignas(64) const void *thread; /* whose weir_mem_open it was: the address of that thread's
                                       weir__mem_current; NULL for loops */
    enum weir_mem_mode mode;
    char name[24];
};

/* The pool of whoever runs now on this thread; NULL: a thread that owns none. */
extern WEIR_TLS struct weir_mem *weir__mem_current;

/* A pool for a loop; nobody's until weir__mem_enter(). NULL: no memory. */
struct weir_mem *weir__mem_pool_new(const char *name);
/* Ends a pool; its owner calls, or whoever is left alone with it. Returns how many things are still
 * alive: shared ones keep the storage until the last release, unshared ones are leaks, and on_leak
 * has heard of those that are watched. 0: everything went back to the system. */
uint64_t weir__mem_pool_free(struct weir_mem *m);
/* From now on m is the pool that this thread runs. Returns the one before, for the way back. */
struct weir_mem *weir__mem_enter(struct weir_mem *m);
/* Takes home what others released. Returns how many. Owner. */
unsigned weir__mem_collect(struct weir_mem *m);
/* Gives back what the cache did not need since the last trim, and what the arena can do without;
 * all: everything that is not in use. Owner. */
void weir__mem_trim(struct weir_mem *m, bool all);
/* Housekeeping, about once per millisecond of work: takes home what others released, trims now and
 * then, empties the cache when the shared budget refused somebody. True: it was time for
 * statistics, which are published and in *out: when the arena was needed, and every 16th time.
 * Owner. */
bool weir__mem_tick(struct weir_mem *m, struct weir__mem_stats *out);
/* Most bytes in use or cached; over it allocations answer NULL and are counted. Default: unlimited.
 * Owner. */
void weir__mem_budget_set(struct weir_mem *m, uint64_t max_bytes);
/* The nth allocation from now fails (1 = the next), with persist every one from it on. 0: off.
 * Owner. */
void weir__mem_fail(struct weir_mem *m, uint64_t nth, bool persist);
/* Watches m as the options say from now on (NULL: not at all). Owner. */
void weir__mem_debug_set(struct weir_mem *m, const struct weir_mem_debug *options);
/* Visits what is alive and watched, newest first, with the address that allocated it. Returns how
 * many things are alive, watched or not. Owner. */
uint64_t weir__mem_dump(const struct weir_mem *m,
                        void (*fn)(enum weir__mem_kind kind, size_t bytes, const void *site,
                                   void *user),
                        void *user);
/* Asserts that counters, lists and records agree. Owner. */
void weir__mem_invariants(const struct weir_mem *m);
/* Things in use. */
uint64_t weir__mem_alive(const struct weir_mem *m);

/* Out of line: everything that is not "pop a block" and "push a block". */
void *weir__mem_get_slow(struct weir_mem *m, size_t bytes, enum weir__mem_kind kind,
                         const void *site);
struct weir_buf *weir__mem_buf_slow(struct weir_mem *m, size_t n, const void *site);
void weir__mem_put_slow(struct weir_mem *m, void *p, unsigned cls, enum weir__mem_kind kind);
void weir__mem_put_foreign(struct weir_mem *m, void *p, unsigned cls, enum weir__mem_kind kind);
void weir__mem_buf_ref_slow(struct weir_buf *b, const void *site);
void weir__mem_buf_release_slow(struct weir_buf *b, const void *site);
/* A block that may be watched, without failures and counting. */
void *weir__mem_find(struct weir_mem *m, unsigned cls, size_t bytes);
/* True where unshared things of m may be touched: its runner, or the thread that opened it. */
bool weir__mem_may_touch(const struct weir_mem *m);

WEIR_INLINE void *weir__mem_pop(struct weir__mem_bin *bin) {
    struct weir__mem_block *b = bin->head;
    if (unlikely(!b))
        return NULL;
    bin->head = b->next;
    bin->limit++;
    return b;
}

/* A block of class cls if one is at hand, else NULL: weir__mem_get may still find one. Owner. */
WEIR_INLINE void *weir__mem_try(struct weir_mem *m, unsigned cls) {
    return weir__mem_pop(&m->cache.bins[cls]);
}

/* A block of class cls that holds `bytes`, or NULL. Owner. */
WEIR_INLINE void *weir__mem_get(struct weir_mem *m, unsigned cls, size_t bytes,
                                enum weir__mem_kind kind) {
    void *p = weir__mem_try(m, cls);
    return likely(p) ? p : weir__mem_get_slow(m, bytes, kind, __builtin_return_address(0));
}

/* Gives a block back. Owner. */
WEIR_INLINE void weir__mem_put_bin(struct weir__mem_bin *bin, void *p, enum weir__mem_kind kind) {
    if (unlikely(bin->pushed == bin->limit)) {
        weir__mem_put_slow(bin->mem, p, bin->cls, kind);
        return;
    }
    struct weir__mem_block *b = p;
    b->next = bin->head;
    bin->head = b;
    bin->pushed++;
}

WEIR_INLINE void weir__mem_put(struct weir_mem *m, void *p, unsigned cls,
                               enum weir__mem_kind kind) {
    weir__mem_put_bin(&m->cache.bins[cls], p, kind);
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
                                    size_t capacity) {
    b->word = WEIR__MEM_ONE;
    b->bin = &m->cache.bins[cls];
    b->capacity = capacity;
}

/* A buffer with room for n bytes and one reference, or NULL. Owner. */
WEIR_INLINE struct weir_buf *weir__mem_buf_new(struct weir_mem *m, size_t n) {
    size_t bytes = n + sizeof(struct weir_buf);
    unsigned cls = unlikely(bytes < n) ? WEIR__MEM_HUGE : weir__mem_class(bytes);
    struct weir_buf *b = weir__mem_try(m, cls);
    if (unlikely(!b))
        return weir__mem_buf_slow(m, n, __builtin_return_address(0));
    weir__mem_buf_init(b, m, cls, m->cache.bins[cls].capacity);
    return b;
}

WEIR_INLINE void weir__mem_buf_ref(struct weir_buf *b) {
    if (unlikely(b->flags)) {
        weir__mem_buf_ref_slow(b, __builtin_return_address(0));
        return;
    }
    check(b->refs > 0 && weir__mem_may_touch(b->bin->mem));
    b->refs++;
}

WEIR_INLINE void weir__mem_buf_release(struct weir_buf *b) {
    /* Read atomically: others may count a shared one, which never equals this. */
    if (__atomic_load_n(&b->word, __ATOMIC_RELAXED) == WEIR__MEM_ONE) {
        check(weir__mem_may_touch(b->bin->mem));
        weir__mem_put_bin(b->bin, b, WEIR__MEM_BUF);
    } else if (likely(!b->flags)) {
        check(b->refs > 0 && weir__mem_may_touch(b->bin->mem));
        b->refs--;
    } else {
        weir__mem_buf_release_slow(b, __builtin_return_address(0));
    }
}

#endif
