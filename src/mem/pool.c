#include "mem/pool.h"
#include "os/memory.h"
#include <stdlib.h>
#include <string.h>
#ifdef WEIR__MEM_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

enum {
    CARVE_BYTES = 4096, /* blocks carved at once: enough to matter, few enough that idle classes
                           touch no pages */
    POISON = 0xA5,      /* what a free block is filled with in checked builds */
    POISON_MAX = 4096,  /* so much of it, beginning behind the link */
    LINK_BYTES = sizeof(struct weir__mem_block),
    OBJECT_MAGIC = 0x0b7ec7,
};

struct weir__mem_chunk {
    alignas(64) struct weir__mem_chunk *next;
};

/* In front of every block in checked builds. */
struct weir__mem_trace {
    struct weir__mem_trace *next, **at;
    const void *site;
    uint64_t bytes : 56, kind : 8;
};

/* In front of a huge block, before its trace. */
struct huge {
    alignas(16) size_t bytes;
};

struct object {
    struct weir_mem *mem;
    uint8_t cls;
    uint32_t magic;
    alignas(16) uint8_t data[];
};
_Static_assert(sizeof(struct object) == 16, "an object's header is the smallest class");

#ifdef WEIR_CHECKED
enum { TRACE_BYTES = sizeof(struct weir__mem_trace) };
_Static_assert(TRACE_BYTES % 16 == 0, "a trace keeps blocks aligned");
#else
enum { TRACE_BYTES = 0 };
#endif

/* The return stack of an orphan. */
static struct weir__mem_block closed;

WEIR_TLS struct weir_mem *weir__mem_current;

#define DOUBLING(b) (b) + (b) / 4, (b) + (b) / 2, (b) + (b) / 4 * 3, (b)*2
#define H ((uint32_t)sizeof(struct weir_buf))
#define BIG_DOUBLING(b) (b) + (b) / 4 + H, (b) + (b) / 2 + H, (b) + (b) / 4 * 3 + H, (b)*2 + H

const uint32_t weir__mem_class_bytes[WEIR__MEM_CLASSES] = {
    16,
    32,
    48,
    64,
    DOUBLING(64),
    DOUBLING(128),
    DOUBLING(256),
    640,
    768,
    896,
    1024 + H,
    BIG_DOUBLING(1024),
    BIG_DOUBLING(2048),
    BIG_DOUBLING(4096),
    BIG_DOUBLING(8192),
    BIG_DOUBLING(16384),
    BIG_DOUBLING(32768),
};

bool weir__mem_may_touch(const struct weir_mem *m) {
    return m == weir__mem_current || m->thread == &weir__mem_current;
}

struct weir_mem *weir__mem_enter(struct weir_mem *m) {
    struct weir_mem *before = weir__mem_current;
    weir__mem_current = m;
    return before;
}

struct weir_mem *weir__mem_pool_new(const char *name) {
    struct weir_mem *m = aligned_alloc(alignof(struct weir_mem), sizeof(*m));
    if (!m)
        return NULL;
    memset(m, 0, sizeof(*m));
    m->limit = m->budget = UINT64_MAX;
    if (name)
        memcpy(m->name, name, strnlen(name, sizeof(m->name) - 1));
    return m;
}

static struct huge *huge_of(void *p) {
    return (struct huge *)((uint8_t *)p - TRACE_BYTES) - 1;
}

static void destroy(struct weir_mem *m) {
    struct weir__mem_chunk *next;
    for (struct weir__mem_chunk *c = m->chunks; c; c = next) {
        ASAN_UNPOISON_MEMORY_REGION(c, WEIR__MEM_CHUNK_BYTES);
        next = c->next;
        weir__os_unmap(c, WEIR__MEM_CHUNK_BYTES);
    }
    free(m);
}

unsigned weir__mem_collect(struct weir_mem *m) {
    if (!atomic_load_explicit(&m->back, memory_order_relaxed))
        return 0;
    unsigned k = 0;
    struct weir__mem_block *b = atomic_exchange_explicit(&m->back, NULL, memory_order_acquire);
    for (struct weir__mem_block *next; b; b = next, k++) {
        next = b->next;
        weir__mem_put_slow(m, b, b->cls, b->kind);
    }
    m->foreign += k;
    return k;
}

/* k things of an orphan have died; the last one takes the storage along. */
static void orphan_release(struct weir_mem *m, uint64_t k) {
    if (atomic_fetch_sub_explicit(&m->orphans, k, memory_order_acq_rel) == k)
        destroy(m);
}

/* What an orphan's block needs beside being counted: chunks go as a whole. */
static void orphan_block(void *p, unsigned cls) {
    if (cls == WEIR__MEM_HUGE)
        free(huge_of(p));
}

uint64_t weir__mem_pool_free(struct weir_mem *m) {
    weir__mem_collect(m);
#ifdef WEIR_CHECKED
    weir__mem_invariants(m);
#endif
    if (weir__mem_current == m)
        weir__mem_current = NULL;
    m->thread = NULL;
    uint64_t alive = m->n[WEIR__MEM_BUF] + m->n[WEIR__MEM_OBJECT] + m->n[WEIR__MEM_PART];
    if (alive == 0) {
        must(m->live == 0 && m->huge_bytes == 0);
        destroy(m);
        return 0;
    }
    /* One more for ourselves: m must outlive this function's last look at it. */
    atomic_store_explicit(&m->orphans, alive + 1, memory_order_relaxed);
    uint64_t k = 0;
    struct weir__mem_block *b = atomic_exchange_explicit(&m->back, &closed, memory_order_acq_rel);
    for (struct weir__mem_block *next; b; b = next, k++) {
        next = b->next;
        orphan_block(b, b->cls);
    }
    orphan_release(m, k + 1);
    return alive - k;
}

static struct weir__mem_chunk *chunk_new(struct weir_mem *m) {
    struct weir__mem_chunk *c = weir__os_map(WEIR__MEM_CHUNK_BYTES, 0);
    if (!c)
        return NULL;
    c->next = m->chunks;
    m->chunks = c;
    m->chunk_bytes += WEIR__MEM_CHUNK_BYTES;
    m->bump = (uint8_t *)(c + 1);
    m->bump_end = (uint8_t *)c + WEIR__MEM_CHUNK_BYTES;
    return c;
}

static void list_push(struct weir_mem *m, struct weir__mem_block *b, unsigned cls) {
    size_t size = weir__mem_class_bytes[cls];
#ifdef WEIR_CHECKED
    memset((uint8_t *)b + LINK_BYTES, POISON, (size < POISON_MAX ? size : POISON_MAX) - LINK_BYTES);
#endif
    b->next = m->free[cls];
    m->free[cls] = b;
    ASAN_POISON_MEMORY_REGION(b, size);
}

static struct weir__mem_block *list_pop(struct weir_mem *m, unsigned cls) {
    struct weir__mem_block *b = m->free[cls];
    size_t size = weir__mem_class_bytes[cls];
    ASAN_UNPOISON_MEMORY_REGION(b, size);
    m->free[cls] = b->next;
#ifdef WEIR_CHECKED
    const uint8_t *p = (const uint8_t *)b;
    bool written_after_free = false;
    for (size_t i = LINK_BYTES; i < size && i < POISON_MAX; i++)
        written_after_free |= p[i] != POISON;
    must(!written_after_free);
#endif
    return b;
}

/* Blocks of one class out of the newest chunk, on its list. False: no memory. */
static bool carve(struct weir_mem *m, unsigned cls) {
    size_t stride = weir__mem_class_bytes[cls] + TRACE_BYTES;
    if (m->bump)
        m->bump += -(uintptr_t)m->bump & 63;
    if (!m->bump || m->bump >= m->bump_end || (size_t)(m->bump_end - m->bump) < stride) {
        if (!chunk_new(m))
            return false;
    }
    size_t fit = (size_t)(m->bump_end - m->bump) / stride, n = CARVE_BYTES / stride;
    n = n == 0 ? 1 : n > fit ? fit : n;
    for (size_t i = n; i-- > 0;)
        list_push(m, (struct weir__mem_block *)(m->bump + i * stride + TRACE_BYTES), cls);
    m->bump += n * stride;
    return true;
}

static void *huge_get(struct weir_mem *m, size_t bytes) {
    size_t head = sizeof(struct huge) + TRACE_BYTES;
    struct huge *h = bytes > PTRDIFF_MAX - head ? NULL : malloc(head + bytes);
    if (!h)
        return NULL;
    h->bytes = bytes;
    m->huge_bytes += bytes;
    return (uint8_t *)h + head;
}

static void trace(struct weir_mem *m, void *p, size_t bytes, enum weir__mem_kind kind,
                  const void *site) {
#ifdef WEIR_CHECKED
    struct weir__mem_trace *t = (struct weir__mem_trace *)p - 1;
    *t = (struct weir__mem_trace){.next = m->traces, .at = &m->traces, .site = site};
    t->bytes = bytes & (UINT64_MAX >> 8);
    t->kind = (uint8_t)kind;
    if (t->next)
        t->next->at = &t->next;
    m->traces = t;
#else
    (void)m, (void)p, (void)bytes, (void)kind, (void)site;
#endif
}

static void untrace(void *p, enum weir__mem_kind kind) {
#ifdef WEIR_CHECKED
    struct weir__mem_trace *t = (struct weir__mem_trace *)p - 1;
    must(t->at && *t->at == t && t->kind == kind); /* released twice, or not from here */
    *t->at = t->next;
    if (t->next)
        t->next->at = t->at;
    t->at = NULL;
#else
    (void)p, (void)kind;
#endif
}

/* True when the planned failure is now. */
static bool fail_now(struct weir_mem *m) {
    if (m->fail_in == 0 || --m->fail_in > 0)
        return false;
    if (m->fail_persist)
        m->fail_in = 1;
    else
        m->limit = m->budget;
    return true;
}

static void *find(struct weir_mem *m, unsigned cls, size_t size) {
    if (fail_now(m))
        return NULL;
    if (size > m->budget || m->live > m->budget - size) {
        weir__mem_collect(m);
        if (size > m->budget || m->live > m->budget - size)
            return NULL;
    }
    if (cls == WEIR__MEM_HUGE)
        return huge_get(m, size);
    if (!m->free[cls])
        weir__mem_collect(m);
    if (!m->free[cls] && !carve(m, cls))
        return NULL;
    return list_pop(m, cls);
}

void *weir__mem_get_slow(struct weir_mem *m, size_t bytes, enum weir__mem_kind kind,
                         const void *site) {
    check(weir__mem_may_touch(m));
    unsigned cls = weir__mem_class(bytes);
    size_t size = cls < WEIR__MEM_CLASSES ? weir__mem_class_bytes[cls] : bytes;
    void *p = find(m, cls, size);
    if (!p) {
        m->failures++;
        return NULL;
    }
    m->n[kind]++;
    m->live += size;
    if (m->live > m->peak)
        m->peak = m->live;
    trace(m, p, size, kind, site);
    return p;
}

void weir__mem_put_slow(struct weir_mem *m, void *p, unsigned cls, enum weir__mem_kind kind) {
    untrace(p, kind);
    size_t size = cls < WEIR__MEM_CLASSES ? weir__mem_class_bytes[cls] : huge_of(p)->bytes;
    check(m->n[kind] > 0 && m->live >= size);
    m->n[kind]--;
    m->live -= size;
    if (cls < WEIR__MEM_CLASSES) {
        list_push(m, p, cls);
        return;
    }
    m->huge_bytes -= size;
    free(huge_of(p));
}

void weir__mem_put_foreign(struct weir_mem *m, void *p, unsigned cls, enum weir__mem_kind kind) {
    struct weir__mem_block *b = p, *head = atomic_load_explicit(&m->back, memory_order_acquire);
    b->cls = (uint8_t)cls;
    b->kind = (uint8_t)kind;
    do {
        if (head == &closed) {
            orphan_block(p, cls);
            orphan_release(m, 1);
            return;
        }
        b->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&m->back, &head, b, memory_order_acq_rel,
                                                    memory_order_acquire));
}

void weir__mem_budget_set(struct weir_mem *m, uint64_t max_bytes) {
    m->budget = max_bytes;
    m->limit = m->fail_in ? 0 : max_bytes;
}

void weir__mem_fail(struct weir_mem *m, uint64_t nth, bool persist) {
    m->fail_in = nth;
    m->fail_persist = persist;
    m->limit = nth ? 0 : m->budget;
}

void weir__mem_stats(struct weir_mem *m, struct weir__mem_stats *out) {
    if (m->live > m->peak)
        m->peak = m->live;
    *out = (struct weir__mem_stats){
        .live_bytes = m->live,
        .peak_bytes = m->peak,
        .budget_bytes = m->budget,
        .buffers = m->n[WEIR__MEM_BUF],
        .objects = m->n[WEIR__MEM_OBJECT],
        .parts = m->n[WEIR__MEM_PART],
        .chunk_bytes = m->chunk_bytes,
        .huge_bytes = m->huge_bytes,
        .failures = m->failures,
        .foreign = m->foreign,
    };
}

uint64_t weir__mem_dump(const struct weir_mem *m,
                        void (*fn)(enum weir__mem_kind kind, size_t bytes, const void *site,
                                   void *user),
                        void *user) {
    for (const struct weir__mem_trace *t = m->traces; t && fn; t = t->next)
        fn((enum weir__mem_kind)t->kind, t->bytes, t->site, user);
    return m->n[WEIR__MEM_BUF] + m->n[WEIR__MEM_OBJECT] + m->n[WEIR__MEM_PART];
}

void weir__mem_invariants(const struct weir_mem *m) {
    must(m->limit == (m->fail_in ? 0 : m->budget));
    must(m->chunk_bytes % WEIR__MEM_CHUNK_BYTES == 0 &&
         (m->chunk_bytes == 0) == (m->chunks == NULL));
    must(m->live <= m->chunk_bytes + m->huge_bytes);
#ifdef WEIR_CHECKED
    uint64_t n[WEIR__MEM_KINDS] = {0}, live = 0;
    for (const struct weir__mem_trace *t = m->traces; t; t = t->next) {
        must(*t->at == t && t->kind < WEIR__MEM_KINDS);
        n[t->kind]++;
        live += t->bytes;
    }
    must(memcmp(n, m->n, sizeof(n)) == 0 && live == m->live);
#endif
}

/* The public pool and its objects. */

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

void *weir_mem_new(struct weir_mem *m, size_t n) {
    size_t bytes = n + sizeof(struct object);
    unsigned cls = weir__mem_class(bytes);
    struct object *o = bytes < n ? NULL : weir__mem_get(m, cls, bytes, WEIR__MEM_OBJECT);
    if (!o)
        return NULL;
    o->mem = m;
    o->cls = (uint8_t)cls;
    o->magic = OBJECT_MAGIC;
    memset(o->data, 0, n);
    return o->data;
}

void weir_mem_free(void *p) {
    if (!p)
        return;
    struct object *o = container_of(p, struct object, data);
    must(o->magic == OBJECT_MAGIC); /* not from weir_mem_new, or freed before */
    o->magic = 0;
    weir__mem_return(o->mem, o, o->cls, WEIR__MEM_OBJECT);
}

uint64_t weir_mem_live(const struct weir_mem *m) {
    return m->live;
}
