#include "mem/chain.h"
#include "mem/debug.h"
#include "base/bytes.h"
#include "mem/file.h"
#include <string.h>

enum {
    WRITE_MIN = 224, /* payload of the buffer that a first small write opens: a 256-byte block */
    WRITE_GROWN_MAX = 16384, /* a chain built by small writes doubles its buffers up to here */
    WRITE_MAX = 65536,       /* copies larger than this are laid into several buffers */
    CHECKED_PARTS = 64,      /* invariants look at so many parts */
};

_Static_assert(sizeof(size_t) == 8, "a region's length is kept in a slice's n");

static bool is_file(const struct weir_part *p) {
    return p->slice.p == NULL;
}

void weir__mem_chain_strip(struct weir_chain *c) {
    struct weir_part *before = NULL, *empty = c->last;
    for (struct weir_part *p = c->first; p != empty; p = p->next)
        before = p;
    if (before)
        before->next = NULL;
    else
        c->first = NULL;
    c->last = before;
    weir__mem_part_release(empty);
}

static void advance(struct weir_part *p, uint64_t n) {
    if (is_file(p))
        p->file_off += n;
    else
        p->slice.p += n;
    p->slice.n -= n;
}

WEIR_NOINLINE static int add(struct weir_mem *m, struct weir_chain *c, struct weir_slice *s) {
    if (s->n == 0) {
        weir_slice_release(s);
        return 0;
    }
    check(s->p != NULL);
    struct weir_part *p = weir__mem_part_new(m);
    if (!p)
        return WEIR_ENOMEM;
    p->slice = *s;
    *s = (struct weir_slice){0};
    weir__mem_chain_link(c, p);
    return 0;
}

/* Once per receive: where a block is at hand, and no abandoned reservation, it calls nothing. */
int weir_chain_add(struct weir_mem *m, struct weir_chain *c, struct weir_slice *s) {
    struct weir_part *last = c->last, *p;
    weir__mem_chain_enter(c);
    if (unlikely(s->n == 0 || (last && last->slice.n == 0) ||
                 !(p = weir__mem_try(m, weir__mem_class(sizeof(*p))))))
        return add(m, c, s);
    weir__mem_part_init(p, m);
    p->slice.p = s->p; /* field by field, as they were written a moment ago */
    p->slice.n = s->n;
    p->slice.buf = s->buf;
    *s = (struct weir_slice){0};
    weir__mem_chain_link(c, p);
    return 0;
}

int weir_chain_prepend(struct weir_mem *m, struct weir_chain *c, struct weir_slice *s) {
    weir__mem_chain_enter(c);
    if (s->n == 0) {
        weir_slice_release(s);
        return 0;
    }
    struct weir_part *p = weir__mem_part_new(m);
    if (!p)
        return WEIR_ENOMEM;
    p->slice = *s;
    *s = (struct weir_slice){0};
    p->next = c->first;
    c->first = p;
    if (!c->last)
        c->last = p;
    c->bytes += p->slice.n;
    return 0;
}

int weir_chain_add_file(struct weir_mem *m, struct weir_chain *c, struct weir_file *f, uint64_t off,
                        uint64_t n) {
    weir__mem_chain_enter(c);
    must(off + n >= off);
    if (n == 0)
        return 0;
    struct weir_part *p = weir__mem_part_new(m);
    if (!p)
        return WEIR_ENOMEM;
    p->slice = (struct weir_slice){.n = n};
    p->file = weir_file_ref(f);
    p->file_off = off;
    weir__mem_chain_link(c, p);
    return 0;
}

void weir_chain_append(struct weir_chain *dst, struct weir_chain *src) {
    weir__mem_chain_append(dst, src);
}

/* A second link on the first k bytes of p. */
static struct weir_part *part_cut(struct weir_mem *m, const struct weir_part *p, uint64_t k) {
    struct weir_part *cut = weir__mem_part_new(m);
    if (!cut)
        return NULL;
    if (is_file(p)) {
        cut->slice = (struct weir_slice){.n = k};
        cut->file = weir_file_ref(p->file);
        cut->file_off = p->file_off;
    } else {
        cut->slice = weir_slice_ref(p->slice, 0, k);
    }
    return cut;
}

WEIR_NOINLINE static int move_parts(struct weir_mem *m, struct weir_chain *dst,
                                    struct weir_chain *src, uint64_t n) {
    struct weir_part *p = src->first, *cut = NULL;
    uint64_t left = n;
    for (; p->slice.n <= left; p = p->next)
        left -= p->slice.n;
    if (left > 0) {
        cut = part_cut(m, p, left);
        if (!cut)
            return WEIR_ENOMEM;
    }
    while (src->first != p)
        weir__mem_chain_link(dst, weir__mem_chain_unlink(src));
    if (cut) {
        advance(p, left);
        src->bytes -= left;
        weir__mem_chain_link(dst, cut);
    }
    return 0;
}

/* Usually all of it, or a cut of the first part, a slice of the loop's own, to an empty chain:
 * these call nothing where a block is at hand. */
int weir_chain_move(struct weir_mem *m, struct weir_chain *dst, struct weir_chain *src,
                    uint64_t n) {
    weir__mem_chain_enter(dst);
    weir__mem_chain_enter(src);
    must(n <= src->bytes && dst != src);
    if (n == src->bytes) {
        weir__mem_chain_append(dst, src);
        return 0;
    }
    struct weir_part *p = src->first, *cut;
    if (unlikely(dst->last || !n || n >= p->slice.n || !p->slice.buf || p->slice.buf->flags ||
                 !(cut = weir__mem_try(m, weir__mem_class(sizeof(*cut))))))
        return move_parts(m, dst, src, n);
    weir__mem_part_init(cut, m);
    weir__mem_buf_ref(p->slice.buf);
    cut->slice.p = p->slice.p;
    cut->slice.n = n;
    cut->slice.buf = p->slice.buf;
    cut->next = NULL;
    p->slice.p += n;
    p->slice.n -= n;
    src->bytes -= n;
    dst->first = dst->last = cut;
    dst->bytes = n;
    return 0;
}

/* A part on a fresh, empty buffer of at least n bytes, not linked. */
WEIR_INLINE struct weir_part *part_on_buffer(struct weir_mem *m, size_t n) {
    struct weir_buf *b = weir__mem_buf_new(m, n);
    if (unlikely(!b))
        return NULL;
    struct weir_part *p = weir__mem_part_new(m);
    if (unlikely(!p)) {
        weir__mem_buf_release(b);
        return NULL;
    }
    p->slice = (struct weir_slice){.p = b->data, .buf = b};
    return p;
}

/* How large a buffer to open for n bytes behind c: twice the last one when small writes have filled
 * that. */
static size_t next_size(const struct weir_chain *c, size_t n) {
    size_t want = WRITE_MIN;
    const struct weir_buf *b = c->last ? c->last->slice.buf : NULL;
    if (b && c->last->slice.p == b->data && b->capacity <= WRITE_GROWN_MAX && b->capacity >= want)
        want = b->capacity * 2 < WRITE_GROWN_MAX ? b->capacity * 2 : WRITE_GROWN_MAX;
    return n > want ? n : want;
}

/* Part and first buffer for n bytes in an empty chain, where both blocks are at hand: NULL
 * otherwise. Small writes into empty chains are so frequent that they call nothing. */
WEIR_INLINE struct weir_part *begin(struct weir_mem *m, struct weir_chain *c, size_t n) {
    enum { BYTES = WRITE_MIN + sizeof(struct weir_buf) };
    if (unlikely(c->last || n > WRITE_MIN))
        return NULL;
    struct weir_buf *b = weir__mem_try(m, weir__mem_class(BYTES));
    if (unlikely(!b))
        return NULL;
    struct weir_part *p = weir__mem_try(m, weir__mem_class(sizeof(*p)));
    if (unlikely(!p)) {
        weir__mem_put(m, b, weir__mem_class(BYTES), WEIR__MEM_BUF);
        return NULL;
    }
    weir__mem_buf_init(b, m, weir__mem_class(BYTES), WRITE_MIN);
    weir__mem_part_init(p, m);
    p->slice = (struct weir_slice){.p = b->data, .n = n, .buf = b};
    p->next = NULL;
    c->first = c->last = p;
    c->bytes = n;
    return p;
}

static int write_large(struct weir_mem *m, struct weir_chain *c, const uint8_t *data, size_t n) {
    struct weir_chain copy = {0};
    while (n > 0) {
        size_t k = n < WRITE_MAX ? n : WRITE_MAX;
        struct weir_part *p = part_on_buffer(m, k);
        if (!p) {
            weir_chain_fini(&copy);
            return WEIR_ENOMEM;
        }
        memcpy(p->slice.p, data, k);
        p->slice.n = k;
        weir__mem_chain_link(&copy, p);
        data += k;
        n -= k;
    }
    weir_chain_append(c, &copy);
    return 0;
}

WEIR_NOINLINE static int write_on(struct weir_mem *m, struct weir_chain *c, const void *data,
                                  size_t n) {
    if (n > WRITE_MAX)
        return write_large(m, c, data, n);
    struct weir_part *p = part_on_buffer(m, next_size(c, n));
    if (!p)
        return WEIR_ENOMEM;
    memcpy(p->slice.p, data, n);
    p->slice.n = n;
    weir__mem_chain_link(c, p);
    return 0;
}

int weir_chain_write(struct weir_mem *m, struct weir_chain *c, const void *data, size_t n) {
    weir__mem_chain_enter(c);
    if (unlikely(n == 0))
        return 0;
    uint8_t *tail = weir__mem_chain_tail(c, n);
    struct weir_part *p = NULL;
    if (tail)
        weir__mem_chain_commit(c, n);
    else if (likely(p = begin(m, c, n)))
        tail = p->slice.p;
    else
        return write_on(m, c, data, n);
    memcpy(tail, data, n);
    return 0;
}

uint8_t *weir_chain_reserve(struct weir_mem *m, struct weir_chain *c, size_t n) {
    weir__mem_chain_enter(c);
    uint8_t *tail = weir__mem_chain_tail(c, n ? n : 1);
    if (tail)
        return tail;
    struct weir_part *p = part_on_buffer(m, next_size(c, n));
    if (!p)
        return NULL;
    weir__mem_chain_link(c, p);
    return p->slice.p;
}

void weir_chain_commit(struct weir_chain *c, size_t n) {
    struct weir_part *last = c->last;
    if (n > 0) {
        must(last && n <= weir__mem_slice_room(last->slice));
        last->slice.n += n;
        c->bytes += n;
    } else if (last && last->slice.n == 0) {
        weir__mem_chain_strip(c);
    }
    weir__mem_chain_enter(c);
}

/* True when [off, off + n) is there and no file region lies within. */
static bool readable(const struct weir_chain *c, uint64_t off, uint64_t n) {
    if (off > c->bytes || n > c->bytes - off)
        return false;
    for (const struct weir_part *p = c->first; n > 0; p = p->next) {
        if (off >= p->slice.n) {
            off -= p->slice.n;
            continue;
        }
        if (is_file(p))
            return false;
        uint64_t k = p->slice.n - off;
        n -= n < k ? n : k;
        off = 0;
    }
    return true;
}

static void copy_out(const struct weir_chain *c, uint64_t off, uint8_t *out, size_t n) {
    for (const struct weir_part *p = c->first; n > 0; p = p->next) {
        if (off >= p->slice.n) {
            off -= p->slice.n;
            continue;
        }
        size_t k = p->slice.n - off;
        if (k > n)
            k = n;
        memcpy(out, p->slice.p + off, k);
        out += k;
        n -= k;
        off = 0;
    }
}

/* Makes the first n readable bytes contiguous in the first part: behind its slice where that buffer
 * is ours, else in a new one. */
static bool join(struct weir_mem *m, struct weir_chain *c, size_t n) {
    struct weir_part *first = c->first;
    struct weir_chain rest = {
        .first = first->next, .last = c->last, .bytes = c->bytes - first->slice.n};
    size_t more = n - first->slice.n;
    if (weir__mem_slice_room(first->slice) >= more) {
        copy_out(&rest, 0, first->slice.p + first->slice.n, more);
    } else {
        struct weir_buf *b = weir__mem_buf_new(m, n);
        if (!b)
            return false;
        copy_out(c, 0, b->data, n);
        if (first->slice.buf)
            weir__mem_buf_release(first->slice.buf);
        first->slice = (struct weir_slice){.p = b->data, .buf = b};
    }
    first->slice.n = n;
    weir_chain_drop(&rest, more);
    first->next = rest.first;
    c->last = rest.first ? rest.last : first;
    return true;
}

const uint8_t *weir_chain_peek(struct weir_mem *m, struct weir_chain *c, size_t n) {
    static const uint8_t nothing[1];
    weir__mem_chain_enter(c);
    struct weir_part *first = c->first;
    if (likely(first && n <= first->slice.n && first->slice.p))
        return first->slice.p;
    if (n == 0)
        return nothing;
    if (!readable(c, 0, n) || !join(m, c, n))
        return NULL;
    weir__mem_chain_enter(c);
    return c->first->slice.p;
}

int weir_chain_read(const struct weir_chain *c, uint64_t off, void *out, size_t n) {
    weir__mem_chain_enter(c);
    if (!readable(c, off, n))
        return WEIR_EINVAL;
    copy_out(c, off, out, n);
    return 0;
}

WEIR_NOINLINE static int take_seam(struct weir_mem *m, struct weir_chain *c, size_t n,
                                   struct weir_slice *out) {
    if (!readable(c, 0, n))
        return WEIR_EINVAL;
    if (weir_slice_new(m, n, out) < 0)
        return WEIR_ENOMEM;
    if (n > 0)
        copy_out(c, 0, out->p, n);
    weir_chain_drop(c, n);
    return 0;
}

int weir_chain_take(struct weir_mem *m, struct weir_chain *c, size_t n, struct weir_slice *out) {
    weir__mem_chain_enter(c);
    struct weir_part *p = c->first;
    if (unlikely(!p || n > p->slice.n || n == 0 || is_file(p)))
        return take_seam(m, c, n, out);
    if (n == p->slice.n) {
        *out = p->slice;
        if (unlikely(out->buf && out->buf->flags & WEIR__MEM_WATCHED))
            weir__mem_debug_touch(out->buf, __builtin_return_address(0));
        weir__mem_part_free(weir__mem_chain_unlink(c));
        return 0;
    }
    *out = (struct weir_slice){.p = p->slice.p, .n = n, .buf = p->slice.buf};
    if (p->slice.buf)
        weir__mem_buf_ref(p->slice.buf);
    p->slice.p += n;
    p->slice.n -= n;
    c->bytes -= n;
    return 0;
}

void weir_chain_drop(struct weir_chain *c, uint64_t n) {
    weir__mem_chain_enter(c);
    must(n <= c->bytes);
    while (n > 0) {
        struct weir_part *p = c->first;
        if (n < p->slice.n) {
            advance(p, n);
            c->bytes -= n;
            return;
        }
        n -= p->slice.n;
        weir__mem_part_release(weir__mem_chain_unlink(c));
    }
}

void weir_chain_share(struct weir_chain *c) {
    weir__mem_chain_enter(c);
    for (struct weir_part *p = c->first; p; p = p->next) {
        weir_slice_share(&p->slice);
        if (unlikely(p->mem->debug.on))
            weir__mem_debug_share_part(p);
    }
}

void weir_chain_fini(struct weir_chain *c) {
    weir__mem_chain_fini(c);
}

int weir_chain_get_be(const struct weir_chain *c, uint64_t off, unsigned width, uint64_t *out) {
    uint8_t bytes[8];
    must(width >= 1 && width <= sizeof(bytes));
    const struct weir_part *p = c->first;
    if (likely(p && p->slice.p && off < p->slice.n && width <= p->slice.n - off)) {
        *out = weir__base_get_be(p->slice.p + off, width);
        return 0;
    }
    if (weir_chain_read(c, off, bytes, width) < 0)
        return WEIR_EINVAL;
    *out = weir__base_get_be(bytes, width);
    return 0;
}

int weir_chain_put_be(struct weir_mem *m, struct weir_chain *c, unsigned width, uint64_t v) {
    uint8_t bytes[8];
    must(width >= 1 && width <= sizeof(bytes));
    weir__base_put_be(bytes, width, v);
    return weir_chain_write(m, c, bytes, width);
}

uint64_t weir__mem_chain_capacity(const struct weir_chain *c) {
    uint64_t sum = 0;
    const struct weir_buf *before = NULL;
    for (const struct weir_part *p = c->first; p; p = p->next) {
        if (p->slice.buf && p->slice.buf != before)
            sum += p->slice.buf->capacity;
        before = p->slice.buf;
    }
    return sum;
}

/* Replaces the run of parts from p to end (exclusive) by p alone, on a fitting buffer. */
static bool compact_run(struct weir_mem *m, struct weir_part *p, struct weir_part *end, size_t n) {
    struct weir_buf *b = weir__mem_buf_new(m, n);
    if (!b)
        return false;
    struct weir_chain run = {.first = p, .bytes = n};
    copy_out(&run, 0, b->data, n);
    while (p->next != end) {
        struct weir_part *gone = p->next;
        p->next = gone->next;
        weir__mem_part_release(gone);
    }
    weir__mem_buf_release(p->slice.buf);
    p->slice = (struct weir_slice){.p = b->data, .n = n, .buf = b};
    return true;
}

int weir__mem_chain_compact(struct weir_mem *m, struct weir_chain *c) {
    weir__mem_chain_enter(c);
    int replaced = 0;
    for (struct weir_part *p = c->first, *end; p; p = end) {
        struct weir_buf *b = p->slice.buf;
        size_t n = p->slice.n;
        for (end = p->next; end && b && end->slice.buf == b; end = end->next)
            n += end->slice.n;
        if (!b || n == 0 || n >= b->capacity / 4 || weir__mem_class(n + sizeof(*b)) == b->bin->cls)
            continue;
        if (!compact_run(m, p, end, n))
            return WEIR_ENOMEM;
        if (!end)
            c->last = p;
        replaced++;
    }
    weir__mem_chain_enter(c);
    return replaced;
}

static void part_invariants(const struct weir_chain *c, const struct weir_part *p) {
    const struct weir_buf *b = p->slice.buf;
    must(p->slice.n > 0 || (p == c->last && p->slice.p));
    must((p->slice.p == NULL) == (p->file != NULL) && p->mem);
    must((p->next == NULL) == (p == c->last));
    if (!b)
        return;
    must(!is_file(p) && __atomic_load_n(&b->refs, __ATOMIC_RELAXED) > 0);
    must(p->slice.p >= b->data && p->slice.p + p->slice.n <= b->data + b->capacity);
}

void weir__mem_chain_invariants(const struct weir_chain *c) {
    must((c->first == NULL) == (c->last == NULL) && (c->first || c->bytes == 0));
    uint64_t sum = 0;
    unsigned i = 0;
    const struct weir_part *p = c->first;
    for (; p && i < CHECKED_PARTS; p = p->next, i++) {
        part_invariants(c, p);
        sum += p->slice.n;
    }
    must(p ? sum <= c->bytes : sum == c->bytes);
}
