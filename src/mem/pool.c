#include "mem/pool.h"
#include <stdlib.h>
#include <string.h>

enum {
    TRIM_OPS = 1 << 12, /* slow operations between two trims */
    TRIM_TICKS = 128,   /* ticks between two trims */
    PUBLISH_TICKS = 16, /* between two statistics while the cache serves everything */
    OBJECT_MAGIC = 0x0b7ec7,
};

struct object {
    struct weir__mem_bin *bin;
    uint32_t magic;
    alignas(16) uint8_t data[];
};
_Static_assert(sizeof(struct object) == 16, "an object's header is the smallest class");

/* The return stack of an orphan. */
static struct weir__mem_block closed;

WEIR_TLS struct weir_mem *weir__mem_current;

bool weir__mem_may_touch(const struct weir_mem *m) {
    return m == weir__mem_current || m->thread == &weir__mem_current;
}

struct weir_mem *weir__mem_enter(struct weir_mem *m) {
    struct weir_mem *before = weir__mem_current;
    weir__mem_current = m;
    return before;
}

#ifdef WEIR_CHECKED
/* What is shared may outlive its pool; the rest was forgotten, and a test that leaks has failed. */
static void leak_breaks(const struct weir_mem_leak *leak, void *user) {
    char text[512];
    (void)user;
    if (leak->shared)
        return;
    weir_mem_leak_text(leak, text, sizeof text);
    weir__base_panic(__FILE__, __LINE__, text);
}
#endif

/* What guarded builds do to a pool that nobody configured. */
static void debug_default(struct weir_mem *m) {
    struct weir_mem_debug o = {.size = sizeof o, .leaks = WEIR_MEM_LEAKS_OFF};
#ifdef WEIR_CHECKED
    o.leaks = WEIR_MEM_LEAKS_FULL;
    o.on_leak = leak_breaks;
    o.poison = true;
#endif
#ifdef WEIR__MEM_ASAN
    weir__mem_cache_slow(&m->cache, WEIR__MEM_SLOW_BUILD, true);
#endif
    weir__mem_debug_set(m, &o);
}

struct weir_mem *weir__mem_pool_new(const char *name) {
    struct weir_mem *m = aligned_alloc(alignof(struct weir_mem), sizeof(*m));
    if (!m)
        return NULL;
    memset(m, 0, sizeof(*m));
    weir__mem_arena_init(&m->arena, WEIR__MEM_CHUNK_BYTES, false);
    weir__mem_cache_init(&m->cache, m);
    weir__mem_debug_init(&m->debug);
    m->limit = m->budget = m->lease = UINT64_MAX;
    if (name)
        memcpy(m->name, name, strnlen(name, sizeof(m->name) - 1));
    debug_default(m);
    return m;
}

int weir_mem_configure(struct weir_mem *m, const struct weir_mem_options *options) {
    struct weir_mem_options o = {0};
    memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
    uint32_t chunk = o.chunk_bytes ? o.chunk_bytes : WEIR__MEM_CHUNK_BYTES;
    if (chunk < WEIR__MEM_CHUNK_MIN || chunk > WEIR__MEM_CHUNK_MAX || (chunk & (chunk - 1)))
        return WEIR_EINVAL;
    weir__mem_collect(m);
    if ((unsigned)o.mode > WEIR_MEM_UNPOOLED || weir__mem_alive(m) > 0)
        return WEIR_EINVAL;
    weir__mem_trim(m, true);
    weir__mem_arena_fini(&m->arena);
    weir__mem_arena_init(&m->arena, chunk, o.mode == WEIR_MEM_UNPOOLED);
    m->mode = o.mode;
    weir__mem_cache_slow(&m->cache, WEIR__MEM_SLOW_MODE, o.mode != WEIR_MEM_CACHED);
    if (o.debug)
        weir__mem_debug_set(m, o.debug);
    else
        debug_default(m);
    return 0;
}

uint64_t weir__mem_alive(const struct weir_mem *m) {
    uint64_t n = 0;
    for (unsigned cls = 0; cls <= WEIR__MEM_HUGE; cls++)
        n += weir__mem_cache_popped(&m->cache, cls) - m->cache.bins[cls].pushed;
    return n;
}

/* --- the end of a pool ------------------------------------------------------------------------ */

static void destroy(struct weir_mem *m) {
    weir__mem_debug_fini(&m->debug);
    weir__mem_arena_fini(&m->arena);
    free(m);
}

/* k things of an orphan have died; the last one takes the storage along. */
static void orphan_release(struct weir_mem *m, uint64_t k) {
    if (atomic_fetch_sub_explicit(&m->orphans, k, memory_order_acq_rel) == k)
        destroy(m);
}

/* What an orphan's block needs beside being counted: chunks and guarded blocks go as a whole. */
static void orphan_block(const struct weir_mem *m, void *p, unsigned cls) {
    const struct weir__mem_record *r = weir__mem_debug_find(&m->debug, p);
    if (!r || !r->guard)
        weir__mem_arena_abandon(&m->arena, p, cls);
}

static uint64_t orphan(struct weir_mem *m, uint64_t alive) {
    /* One more for ourselves: m must outlive this function's last look at it. */
    atomic_store_explicit(&m->orphans, alive + 1, memory_order_relaxed);
    uint64_t k = 0;
    struct weir__mem_block *b = atomic_exchange_explicit(&m->back, &closed, memory_order_acq_rel);
    for (struct weir__mem_block *next; b; b = next, k++) {
        next = b->next;
        orphan_block(m, b, b->cls);
    }
    orphan_release(m, k + 1);
    return alive - k;
}

uint64_t weir__mem_pool_free(struct weir_mem *m) {
    weir__mem_collect(m);
    weir__mem_trim(m, true);
#ifdef WEIR_CHECKED
    weir__mem_invariants(m);
#endif
    (void)weir__mem_budget_attach(m, NULL);
    if (weir__mem_current == m)
        weir__mem_current = NULL;
    m->thread = NULL;
    uint64_t alive = weir__mem_alive(m);
    if (alive > 0) {
        weir__mem_debug_leaks(m);
        return orphan(m, alive);
    }
    must(m->arena.out_bytes == 0);
    destroy(m);
    return 0;
}

/* --- slow paths ------------------------------------------------------------------------------- */

unsigned weir__mem_collect(struct weir_mem *m) {
    if (!atomic_load_explicit(&m->back, memory_order_relaxed))
        return 0;
    unsigned k = 0;
    struct weir__mem_block *b = atomic_exchange_explicit(&m->back, NULL, memory_order_acquire);
    for (struct weir__mem_block *next; b; b = next, k++) {
        next = b->next;
        weir__mem_put(m, b, b->cls, (enum weir__mem_kind)b->kind);
    }
    m->foreign += k;
    return k;
}

void weir__mem_trim(struct weir_mem *m, bool all) {
    weir__mem_cache_trim(&m->cache, &m->arena, all);
    weir__mem_arena_trim(&m->arena, all);
    weir__mem_budget_settle(m);
}

static bool others_starve(struct weir_mem *m) {
    if (!m->shared)
        return false;
    uint64_t refused = atomic_load_explicit(&m->shared->refused, memory_order_relaxed);
    bool more = refused != m->refused_seen;
    m->refused_seen = refused;
    return more;
}

bool weir__mem_tick(struct weir_mem *m, struct weir__mem_stats *out) {
    weir__mem_collect(m);
    if (unlikely(others_starve(m))) {
        weir__mem_cache_trim(&m->cache, &m->arena, true);
        weir__mem_budget_settle(m);
    }
    uint32_t ticks = m->ticks++;
    if (ticks % TRIM_TICKS == TRIM_TICKS - 1)
        weir__mem_trim(m, false);
    if (ticks % PUBLISH_TICKS && m->arena.out_bytes == m->published_out)
        return false;
    weir__mem_publish(m, out);
    return true;
}

static void slow_op(struct weir_mem *m) {
    if (unlikely(++m->slow_ops % TRIM_OPS == 0))
        weir__mem_trim(m, false);
}

void weir__mem_fail(struct weir_mem *m, uint64_t nth, bool persist) {
    m->fail_in = nth;
    m->fail_persist = persist;
    weir__mem_cache_slow(&m->cache, WEIR__MEM_SLOW_FAIL, nth > 0);
}

/* True when the planned failure is now. */
static bool fail_now(struct weir_mem *m) {
    if (m->fail_in == 0 || --m->fail_in > 0)
        return false;
    weir__mem_fail(m, m->fail_persist ? 1 : 0, m->fail_persist);
    return true;
}

void *weir__mem_find(struct weir_mem *m, unsigned cls, size_t bytes) {
    if (cls < WEIR__MEM_CLASSES)
        return weir__mem_cache_get(m, cls);
    if (weir__mem_budget_afford(m, bytes, bytes) < bytes)
        return NULL;
    void *p = weir__mem_arena_take_large(&m->arena, bytes);
    if (p)
        weir__mem_cache_count_large(&m->cache, false);
    return p;
}

void *weir__mem_get_slow(struct weir_mem *m, size_t bytes, enum weir__mem_kind kind,
                         const void *site) {
    void *p = NULL;
    check(weir__mem_may_touch(m));
    slow_op(m);
    m->misses++;
    if (!fail_now(m))
        p = m->debug.on ? weir__mem_debug_get(m, bytes, kind, site)
                        : weir__mem_find(m, weir__mem_class(bytes), bytes);
    if (!p)
        m->failures++;
    return p;
}

struct weir_buf *weir__mem_buf_slow(struct weir_mem *m, size_t n, const void *site) {
    size_t bytes = n + sizeof(struct weir_buf);
    unsigned cls = weir__mem_class(bytes);
    struct weir_buf *b = bytes < n ? NULL : weir__mem_get_slow(m, bytes, WEIR__MEM_BUF, site);
    if (!b)
        return NULL;
    weir__mem_buf_init(b, m, cls, cls < WEIR__MEM_CLASSES ? m->cache.bins[cls].capacity : n);
    if (m->debug.on && weir__mem_debug_find(&m->debug, b))
        b->flags = WEIR__MEM_WATCHED;
    return b;
}

void weir__mem_put_slow(struct weir_mem *m, void *p, unsigned cls, enum weir__mem_kind kind) {
    bool gone = m->debug.on && weir__mem_debug_put(m, p, kind);
    slow_op(m);
    if (cls < WEIR__MEM_CLASSES && !gone) {
        weir__mem_cache_put(m, p, cls);
    } else {
        weir__mem_cache_count_large(&m->cache, true);
        if (!gone)
            weir__mem_arena_give_large(&m->arena, p);
    }
    weir__mem_budget_settle(m);
}

void weir__mem_put_foreign(struct weir_mem *m, void *p, unsigned cls, enum weir__mem_kind kind) {
    struct weir__mem_block *b = p, *head = atomic_load_explicit(&m->back, memory_order_acquire);
    b->cls = (uint8_t)cls;
    b->kind = (uint8_t)kind;
    do {
        if (head == &closed) {
            orphan_block(m, p, cls);
            orphan_release(m, 1);
            return;
        }
        b->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&m->back, &head, b, memory_order_acq_rel,
                                                    memory_order_acquire));
}

/* --- looking at it ---------------------------------------------------------------------------- */

uint64_t weir__mem_dump(const struct weir_mem *m,
                        void (*fn)(enum weir__mem_kind kind, size_t bytes, const void *site,
                                   void *user),
                        void *user) {
    weir__base_list_each(link, &m->debug.records) {
        const struct weir__mem_record *r = container_of(link, struct weir__mem_record, link);
        if (fn)
            fn((enum weir__mem_kind)r->kind, r->bytes, r->site, user);
    }
    return weir__mem_alive(m);
}

void weir__mem_invariants(const struct weir_mem *m) {
    const struct weir__mem_cache *c = &m->cache;
    struct weir__mem_stats s;
    must(m->limit == (m->budget < m->lease ? m->budget : m->lease));
    must((m->lease == UINT64_MAX) == !m->shared);
    must(!(c->slow & WEIR__MEM_SLOW_FAIL) == (m->fail_in == 0));
    must(!(c->slow & WEIR__MEM_SLOW_DEBUG) == !m->debug.on);
    must(!(c->slow & WEIR__MEM_SLOW_MODE) == (m->mode == WEIR_MEM_CACHED));
    weir__mem_cache_invariants(c);
    weir__mem_arena_invariants(&m->arena);
    weir__mem_debug_invariants(m);
    weir__mem_stats(m, &s);
    must(s.chunk_bytes + s.huge_bytes ==
         s.live_bytes + s.cached_bytes + s.free_block_bytes + s.free_page_bytes + s.overhead_bytes);
    must(s.resident_bytes >= s.live_bytes && s.leased_bytes <= s.budget_bytes);
}

/* --- the public pool and its objects ---------------------------------------------------------- */

struct weir_mem *weir_mem_open(const char *name) {
    struct weir_mem *m = weir__mem_pool_new(name);
    if (!m)
        return NULL;
    m->thread = &weir__mem_current;
    if (!weir__mem_current)
        weir__mem_current = m;
    return m;
}

void weir_mem_close(struct weir_mem *m) {
    if (m)
        (void)weir__mem_pool_free(m);
}

static void *object_init(struct object *o, struct weir__mem_bin *bin) {
    o->bin = bin;
    o->magic = OBJECT_MAGIC;
    return o->data;
}

static WEIR_NOINLINE void *object_slow(struct weir_mem *m, size_t n, const void *site) {
    size_t bytes = n + sizeof(struct object);
    struct object *o = bytes < n ? NULL : weir__mem_get_slow(m, bytes, WEIR__MEM_OBJECT, site);
    return o ? object_init(o, &m->cache.bins[weir__mem_class(bytes)]) : NULL;
}

static WEIR_NOINLINE void *zeroed_slow(struct weir_mem *m, size_t n, const void *site) {
    void *p = object_slow(m, n, site);
    return p ? memset(p, 0, n) : NULL;
}

WEIR_INLINE struct weir__mem_bin *object_bin(struct weir_mem *m, size_t n) {
    enum { HEAD = sizeof(struct object), HEADS = WEIR__MEM_HEAD_BYTES - HEAD };
    if (likely(n <= WEIR__MEM_TABLE_MAX - HEAD))
        return &m->cache.bins[weir__mem_class_small[(n + HEAD + 15) >> 4]];
    if (likely(n <= WEIR__MEM_BIG_MAX + HEADS))
        return &m->cache.bins[weir__mem_class_big[(n - HEADS + 255) >> 8]];
    return &m->cache.bins[WEIR__MEM_HUGE];
}

/* Where a block is at hand these two call nothing, and so keep no frame. */
void *weir_mem_alloc(struct weir_mem *m, size_t n) {
    struct weir__mem_bin *bin = object_bin(m, n);
    struct object *o = weir__mem_pop(bin);
    return likely(o) ? object_init(o, bin) : object_slow(m, n, __builtin_return_address(0));
}

/* Small ones are zeroed in place, in units that end where their class does or before. */
void *weir_mem_new(struct weir_mem *m, size_t n) {
    enum { UNIT = 16, IN_PLACE = 8 * UNIT };
    struct weir__mem_bin *bin = object_bin(m, n);
    struct object *o = weir__mem_pop(bin);
    if (unlikely(!o))
        return zeroed_slow(m, n, __builtin_return_address(0));
    object_init(o, bin);
    if (unlikely(n > IN_PLACE))
        return memset(o->data, 0, n);
    for (size_t i = 0; i < n; i += UNIT)
        memset(o->data + i, 0, UNIT);
    return o->data;
}

void weir_mem_free(void *p) {
    if (!p)
        return;
    struct object *o = container_of(p, struct object, data);
    must(o->magic == OBJECT_MAGIC); /* not from weir_mem_new, or freed before */
    o->magic = 0;
    struct weir__mem_bin *bin = o->bin;
    if (likely(bin->mem == weir__mem_current))
        weir__mem_put_bin(bin, o, WEIR__MEM_OBJECT);
    else
        weir__mem_put_foreign(bin->mem, o, bin->cls, WEIR__MEM_OBJECT);
}

uint64_t weir_mem_live(const struct weir_mem *m) {
    return m->arena.out_bytes - weir__mem_cache_bytes(&m->cache);
}
