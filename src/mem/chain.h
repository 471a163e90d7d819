/* What other rooms may ask about slices and chains beside include/weir/mem.h.
 *
 * Every part of a chain holds at least one byte, with one exception: an open reservation on a fresh
 * buffer is an empty last part (commit fills or drops it). A chain is empty when bytes == 0,
 * whatever first says. */
#ifndef WEIR_MEM_CHAIN_H
#define WEIR_MEM_CHAIN_H
#include "mem/pool.h"
#include <string.h>

/* Payload bytes of the buffer behind s; 0 for static storage and empty slices. */
static inline size_t weir__mem_slice_capacity(struct weir_slice s) {
    return s.buf ? s.buf->capacity : 0;
}

/* Bytes of that buffer which s keeps alive without naming them. */
static inline size_t weir__mem_slice_waste(struct weir_slice s) {
    return s.buf ? s.buf->capacity - s.n : 0;
}

/* True when s is the only reference on its buffer and never was shared: the rest of the buffer is
 * free to write. */
WEIR_INLINE bool weir__mem_buf_exclusive(struct weir_slice s) {
    if (!s.buf)
        return false;
    uint64_t word = __atomic_load_n(&s.buf->word, __ATOMIC_RELAXED);
    return likely(word == WEIR__MEM_ONE) ||
           word == (WEIR__MEM_ONE | WEIR__MEM_FLAG(WEIR__MEM_WATCHED));
}

/* Bytes behind the end of an exclusive slice in its buffer; 0 otherwise. */
WEIR_INLINE size_t weir__mem_slice_room(struct weir_slice s) {
    return weir__mem_buf_exclusive(s) ? (size_t)(s.buf->data + s.buf->capacity - (s.p + s.n)) : 0;
}

/* Capacity of the buffers behind c, a buffer once per run of consecutive parts. File regions and
 * static storage: nothing. */
uint64_t weir__mem_chain_capacity(const struct weir_chain *c);
/* Copies what uses less than a quarter of its buffer (runs of parts on one buffer count together)
 * into a fitting one. Returns how many buffers were replaced. ENOMEM: c holds the same bytes, some
 * may have been moved. Owner. */
int weir__mem_chain_compact(struct weir_mem *m, struct weir_chain *c);
/* Asserts that c is well formed: the first 64 parts, and the sums when that is all of it. */
void weir__mem_chain_invariants(const struct weir_chain *c);

/* ---- the hot half of weir/mem.h, for rooms that work on a chain per frame ---- */

WEIR_INLINE void weir__mem_chain_enter(const struct weir_chain *c) {
#ifdef WEIR_CHECKED
    weir__mem_chain_invariants(c);
#else
    (void)c;
#endif
}

WEIR_INLINE void weir__mem_part_init(struct weir_part *p, struct weir_mem *m) {
    p->file = NULL;
    p->file_off = 0;
    p->mem = m;
}

/* A link that is in no chain; slice is the caller's to fill. NULL: no memory. */
WEIR_INLINE struct weir_part *weir__mem_part_new(struct weir_mem *m) {
    struct weir_part *p = weir__mem_get(m, weir__mem_class(sizeof(*p)), sizeof(*p), WEIR__MEM_PART);
    if (unlikely(!p))
        return NULL;
    weir__mem_part_init(p, m);
    return p;
}

/* The link alone; its content has moved elsewhere. */
WEIR_INLINE void weir__mem_part_free(struct weir_part *p) {
    weir__mem_return(p->mem, p, weir__mem_class(sizeof(*p)), WEIR__MEM_PART);
}

WEIR_INLINE void weir__mem_part_release(struct weir_part *p) {
    if (likely(p->slice.buf))
        weir__mem_buf_release(p->slice.buf);
    else if (unlikely(p->file))
        weir_file_release(p->file);
    weir__mem_part_free(p);
}

/* Drops the empty last part that an abandoned reservation left. */
WEIR_COLD void weir__mem_chain_strip(struct weir_chain *c);

/* Links p, which holds bytes or an open reservation, behind everything. */
WEIR_INLINE void weir__mem_chain_link(struct weir_chain *c, struct weir_part *p) {
    if (c->last && unlikely(c->last->slice.n == 0))
        weir__mem_chain_strip(c);
    p->next = NULL;
    if (likely(!c->last)) {
        *c = (struct weir_chain){p, p, p->slice.n};
        return;
    }
    c->last->next = p;
    c->last = p;
    c->bytes += p->slice.n;
}

WEIR_INLINE struct weir_part *weir__mem_chain_unlink(struct weir_chain *c) {
    struct weir_part *p = c->first;
    c->first = p->next;
    if (!c->first)
        c->last = NULL;
    c->bytes -= p->slice.n;
    return p;
}

/* The first n > 0 bytes where they lie in one part, else NULL. */
WEIR_INLINE uint8_t *weir__mem_chain_front(const struct weir_chain *c, size_t n) {
    weir__mem_chain_enter(c);
    return likely(c->first && n <= c->first->slice.n) ? c->first->slice.p : NULL;
}

/* weir_chain_append. */
WEIR_INLINE void weir__mem_chain_append(struct weir_chain *dst, struct weir_chain *src) {
    weir__mem_chain_enter(dst);
    weir__mem_chain_enter(src);
    check(dst != src);
    if (!src->first)
        return;
    if (dst->last && unlikely(dst->last->slice.n == 0))
        weir__mem_chain_strip(dst);
    if (dst->last)
        dst->last->next = src->first;
    else
        dst->first = src->first;
    dst->last = src->last;
    dst->bytes += src->bytes;
    *src = (struct weir_chain){0};
}

/* weir_chain_drop, inline where the first part holds more than n bytes of memory. */
WEIR_INLINE void weir__mem_chain_drop(struct weir_chain *c, size_t n) {
    struct weir_part *p = c->first;
    weir__mem_chain_enter(c);
    if (unlikely(!p || n >= p->slice.n || !p->slice.p)) {
        weir_chain_drop(c, n);
        return;
    }
    p->slice.p += n;
    p->slice.n -= n;
    c->bytes -= n;
}

/* weir_chain_fini. */
WEIR_INLINE void weir__mem_chain_fini(struct weir_chain *c) {
    weir__mem_chain_enter(c);
    struct weir_part *p = c->first;
    *c = (struct weir_chain){0};
    while (p) {
        struct weir_part *next = p->next;
        weir__mem_part_release(p);
        p = next;
    }
}

/* The tail of the last part where it has room for n > 0 bytes, else NULL. */
WEIR_INLINE uint8_t *weir__mem_chain_tail(const struct weir_chain *c, size_t n) {
    const struct weir_part *last = c->last;
    return last && weir__mem_slice_room(last->slice) >= n ? last->slice.p + last->slice.n : NULL;
}

/* weir_chain_commit of n > 0 bytes that were reserved. */
WEIR_INLINE void weir__mem_chain_commit(struct weir_chain *c, size_t n) {
    check(c->last && n > 0 && n <= weir__mem_slice_room(c->last->slice));
    c->last->slice.n += n;
    c->bytes += n;
}

#endif
