#include "mem/pool.h"
#include <string.h>

static WEIR_NOINLINE int new_slow(struct weir_mem *m, size_t n, struct weir_slice *out,
                                  const void *site) {
    if (n == 0) {
        *out = (struct weir_slice){0};
        return 0;
    }
    struct weir_buf *b = weir__mem_buf_slow(m, n, site);
    if (!b)
        return WEIR_ENOMEM;
    *out = (struct weir_slice){.p = b->data, .n = n, .buf = b};
    return 0;
}

/* Where a block is at hand it calls nothing, and so keeps no frame. One comparison tells a small
 * payload from a large one and from none. */
int weir_slice_new(struct weir_mem *m, size_t n, struct weir_slice *out) {
    enum { SMALL = WEIR__MEM_TABLE_MAX - WEIR__MEM_HEAD_BYTES };
    struct weir__mem_bin *bin = &m->cache.bins[WEIR__MEM_HUGE];
    if (likely(n - 1 < SMALL))
        bin = &m->cache.bins[weir__mem_class_small[(n + WEIR__MEM_HEAD_BYTES + 15) >> 4]];
    else if (likely(n - 1 < WEIR__MEM_BIG_MAX))
        bin = &m->cache.bins[weir__mem_class_big[(n + 255) >> 8]];
    struct weir_buf *b = weir__mem_pop(bin);
    if (unlikely(!b))
        return new_slow(m, n, out, __builtin_return_address(0));
    b->word = WEIR__MEM_ONE;
    b->bin = bin;
    b->capacity = bin->capacity;
    out->p = b->data;
    out->n = n;
    out->buf = b;
    return 0;
}

int weir_slice_copy(struct weir_mem *m, const void *data, size_t n, struct weir_slice *out) {
    int rc = weir_slice_new(m, n, out);
    if (rc == 0 && n > 0)
        memcpy(out->p, data, n);
    return rc;
}

struct weir_slice weir_slice_ref(struct weir_slice s, size_t off, size_t n) {
    must(off <= s.n && n <= s.n - off);
    if (n == 0)
        return (struct weir_slice){0};
    if (s.buf)
        weir__mem_buf_ref(s.buf);
    return (struct weir_slice){.p = s.p + off, .n = n, .buf = s.buf};
}

void weir_slice_share(struct weir_slice *s) {
    struct weir_buf *b = s->buf;
    if (!b || b->flags & WEIR__MEM_SHARED)
        return;
    check(weir__mem_may_touch(b->bin->mem));
    if (b->flags & WEIR__MEM_WATCHED)
        weir__mem_debug_share(b, __builtin_return_address(0));
    b->flags |= WEIR__MEM_SHARED;
}

void weir_slice_release(struct weir_slice *s) {
    struct weir_buf *b = s->buf;
    *s = (struct weir_slice){0};
    if (b)
        weir__mem_buf_release(b);
}

void weir__mem_buf_ref_slow(struct weir_buf *b, const void *site) {
    if (b->flags & WEIR__MEM_WATCHED)
        weir__mem_debug_touch(b, site);
    if (b->flags & WEIR__MEM_SHARED) {
        __atomic_fetch_add(&b->refs, 1, __ATOMIC_RELAXED);
        return;
    }
    check(b->refs > 0 && weir__mem_may_touch(b->bin->mem));
    b->refs++;
}

void weir__mem_buf_release_slow(struct weir_buf *b, const void *site) {
    if (b->flags & WEIR__MEM_WATCHED)
        weir__mem_debug_touch(b, site);
    if (b->flags & WEIR__MEM_SHARED) {
        uint32_t before = __atomic_fetch_sub(&b->refs, 1, __ATOMIC_ACQ_REL);
        check(before > 0);
        if (before == 1)
            weir__mem_return(b->bin->mem, b, b->bin->cls, WEIR__MEM_BUF);
        return;
    }
    check(b->refs > 0 && weir__mem_may_touch(b->bin->mem));
    if (--b->refs == 0)
        weir__mem_put_bin(b->bin, b, WEIR__MEM_BUF);
}
