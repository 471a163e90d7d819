#include "mem/chain.h"
#include "base/rng.h"
#include "mem/file.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static int enter(void **state) {
    *state = weir__mem_pool_new("test");
    weir__mem_enter(*state);
    return *state ? 0 : -1;
}

static int leave(void **state) {
    return (int)weir__mem_pool_free(*state);
}

static struct weir_slice copy(struct weir_mem *m, const void *data, size_t n) {
    struct weir_slice s;
    assert_int_equal(weir_slice_copy(m, data, n, &s), 0);
    return s;
}

static void add(struct weir_mem *m, struct weir_chain *c, const char *text) {
    struct weir_slice s = copy(m, text, strlen(text));
    assert_int_equal(weir_chain_add(m, c, &s), 0);
    assert_null(s.buf);
}

static unsigned parts(const struct weir_chain *c) {
    unsigned n = 0;
    for (const struct weir_part *p = c->first; p; p = p->next)
        n++;
    return n;
}

static void assert_text(const struct weir_chain *c, const char *text) {
    char got[256] = {0};
    assert_int_equal(c->bytes, strlen(text));
    weir__mem_chain_invariants(c);
    assert_int_equal(weir_chain_read(c, 0, got, strlen(text)), 0);
    assert_string_equal(got, text);
}

static void taking_the_first_part_moves_it(void **state) {
    struct weir_mem *m = *state;
    struct weir_chain c = {0};
    add(m, &c, "first");
    add(m, &c, "second");
    const uint8_t *p = c.first->slice.p;
    struct weir_slice s;
    assert_int_equal(weir_chain_take(m, &c, 5, &s), 0);
    assert_ptr_equal(s.p, p);
    assert_true(weir__mem_buf_exclusive(s));
    weir_slice_release(&s);
    /* Within a part: a reference, no copy. */
    p = c.first->slice.p;
    assert_int_equal(weir_chain_take(m, &c, 3, &s), 0);
    assert_ptr_equal(s.p, p);
    assert_text(&c, "ond");
    weir_slice_release(&s);
    assert_int_equal(weir_chain_take(m, &c, 0, &s), 0);
    assert_int_equal(s.n, 0);
    assert_int_equal(weir_chain_take(m, &c, 4, &s), WEIR_EINVAL);
    weir_chain_fini(&c);
}

static void taking_over_a_seam_copies_exactly_n(void **state) {
    struct weir_mem *m = *state;
    struct weir_chain c = {0};
    add(m, &c, "ab");
    add(m, &c, "cd");
    add(m, &c, "ef");
    struct weir_slice s;
    assert_int_equal(weir_chain_take(m, &c, 5, &s), 0);
    assert_int_equal(s.n, 5);
    assert_memory_equal(s.p, "abcde", 5);
    assert_text(&c, "f");
    weir_slice_release(&s);
    weir_chain_fini(&c);
}

static void peek_joins_only_at_a_seam(void **state) {
    struct weir_mem *m = *state;
    struct weir_chain c = {0};
    assert_non_null(weir_chain_peek(m, &c, 0));
    assert_null(weir_chain_peek(m, &c, 1));
    add(m, &c, "ab");
    add(m, &c, "cd");
    add(m, &c, "ef");
    const uint8_t *p = c.first->slice.p;
    assert_ptr_equal(weir_chain_peek(m, &c, 2), p);
    /* The first buffer is ours and has room: the rest comes to it. */
    assert_ptr_equal(weir_chain_peek(m, &c, 3), p);
    assert_int_equal(parts(&c), 3);
    assert_text(&c, "abcdef");
    /* Somebody else holds it: a new buffer. */
    struct weir_slice held = weir_slice_ref(c.first->slice, 0, 2);
    p = weir_chain_peek(m, &c, 6);
    assert_memory_equal(p, "abcdef", 6);
    assert_int_equal(parts(&c), 1);
    assert_text(&c, "abcdef");
    weir_slice_release(&held);
    assert_null(weir_chain_peek(m, &c, 7));
    weir_chain_fini(&c);
}

static void small_writes_share_a_buffer(void **state) {
    struct weir_mem *m = *state;
    struct weir_chain c = {0};
    for (unsigned i = 0; i < 224; i++)
        assert_int_equal(weir_chain_write(m, &c, "x", 1), 0);
    assert_int_equal(parts(&c), 1);
    assert_int_equal(weir__mem_chain_capacity(&c), 224);
    /* Buffers double while small writes go on. */
    for (unsigned i = 0; i < 100000; i++)
        assert_int_equal(weir_chain_write(m, &c, "y", 1), 0);
    assert_in_range(parts(&c), 7, 14);
    assert_int_equal(weir_chain_write(m, &c, NULL, 0), 0);
    weir_chain_fini(&c);
}

static void a_write_never_touches_what_others_see(void **state) {
    struct weir_mem *m = *state;
    struct weir_chain c = {0};
    assert_int_equal(weir_chain_write(m, &c, "abc", 3), 0);
    struct weir_slice held = weir_slice_ref(c.last->slice, 0, 2);
    weir_chain_drop(&c, 1);
    assert_int_equal(weir_chain_write(m, &c, "def", 3), 0);
    assert_int_equal(parts(&c), 2);
    weir_slice_release(&held);
    weir_chain_share(&c);
    assert_int_equal(weir_chain_write(m, &c, "g", 1), 0);
    assert_int_equal(parts(&c), 3);
    assert_text(&c, "bcdefg");
    weir_chain_fini(&c);
}

static void a_large_write_is_laid_into_receive_sized_buffers(void **state) {
    struct weir_mem *m = *state;
    enum { N = 200000 };
    static uint8_t data[N], back[N];
    for (unsigned i = 0; i < N; i++)
        data[i] = (uint8_t)(i * 7 + i / 256);
    struct weir_chain c = {0};
    assert_int_equal(weir_chain_write(m, &c, data, N), 0);
    assert_int_equal(parts(&c), 4);
    assert_int_equal(weir_chain_read(&c, 0, back, N), 0);
    assert_memory_equal(data, back, N);
    /* Contiguous on demand. */
    assert_memory_equal(weir_chain_peek(m, &c, N), data, N);
    weir_chain_fini(&c);
    for (unsigned nth = 1; nth <= 8; nth++) {
        weir__mem_fail(m, nth, false);
        assert_int_equal(weir_chain_write(m, &c, data, N), WEIR_ENOMEM);
        assert_true(c.bytes == 0 && weir_mem_live(m) == 0);
    }
}

static void a_reservation_counts_after_commit(void **state) {
    struct weir_mem *m = *state;
    struct weir_chain c = {0};
    uint8_t *p = weir_chain_reserve(m, &c, 100);
    assert_int_equal(c.bytes, 0);
    memcpy(p, "hello", 5);
    weir_chain_commit(&c, 5);
    assert_text(&c, "hello");
    /* The next one is behind it in the same buffer. */
    assert_ptr_equal(weir_chain_reserve(m, &c, 10), p + 5);
    weir_chain_commit(&c, 0);
    assert_text(&c, "hello");
    /* Too large for the rest: a new buffer, dropped by an empty commit. */
    assert_non_null(weir_chain_reserve(m, &c, 5000));
    assert_text(&c, "hello");
    weir_chain_commit(&c, 0);
    assert_int_equal(parts(&c), 1);
    assert_non_null(weir_chain_reserve(m, &c, 0));
    weir_chain_commit(&c, 0);
    weir_chain_fini(&c);
    assert_int_equal(weir_mem_live(m), 0);
}

static void an_abandoned_reservation_is_dropped_by_what_follows(void **state) {
    struct weir_mem *m = *state;
    struct weir_chain c = {0}, d = {0};
    assert_non_null(weir_chain_reserve(m, &c, 10));
    add(m, &c, "a");
    assert_int_equal(parts(&c), 1);
    struct weir_slice held = weir_slice_ref(c.first->slice, 0, 1);
    assert_non_null(weir_chain_reserve(m, &c, 10));
    assert_non_null(weir_chain_reserve(m, &c, 70000));
    assert_int_equal(parts(&c), 2);
    add(m, &d, "b");
    weir_chain_append(&c, &d);
    assert_int_equal(parts(&c), 2);
    assert_text(&c, "ab");
    assert_non_null(weir_chain_reserve(m, &c, 70000));
    weir_chain_drop(&c, 2);
    weir_chain_commit(&c, 0);
    assert_true(c.first == NULL && c.last == NULL);
    weir_slice_release(&held);
}

static void fields_are_big_endian_and_checked(void **state) {
    struct weir_mem *m = *state;
    struct weir_chain c = {0};
    uint64_t v = 0;
    for (unsigned width = 1; width <= 8; width++)
        assert_int_equal(weir_chain_put_be(m, &c, width, 0x0102030405060708u + width), 0);
    assert_int_equal(c.bytes, 36);
    for (unsigned width = 1, off = 0; width <= 8; off += width++) {
        assert_int_equal(weir_chain_get_be(&c, off, width, &v), 0);
        uint64_t mask = width == 8 ? UINT64_MAX : (1ull << 8 * width) - 1;
        assert_int_equal(v, (0x0102030405060708u + width) & mask);
    }
    assert_int_equal(weir_chain_get_be(&c, 35, 2, &v), WEIR_EINVAL);
    assert_int_equal(weir_chain_get_be(&c, UINT64_MAX, 2, &v), WEIR_EINVAL);
    weir_chain_fini(&c);
    assert_int_equal(weir_chain_get_be(&c, 0, 1, &v), WEIR_EINVAL);
    add(m, &c, "\x01\x02\x03");
    add(m, &c, "\x04\x05");
    for (unsigned off = 0; off < 2; off++) {
        assert_int_equal(weir_chain_get_be(&c, off, 4, &v), 0);
        assert_int_equal(v, off == 0 ? 0x01020304 : 0x02030405);
    }
    weir_chain_fini(&c);
}

static void slices_without_bytes_leave_no_part(void **state) {
    struct weir_mem *m = *state;
    struct weir_chain c = {0};
    struct weir_slice s = copy(m, "x", 1);
    s.n = 0;
    assert_int_equal(weir_chain_add(m, &c, &s), 0);
    s = copy(m, "x", 1);
    s.n = 0;
    assert_int_equal(weir_chain_prepend(m, &c, &s), 0);
    assert_true(c.first == NULL && s.buf == NULL);
    assert_int_equal(weir_mem_live(m), 0);
}

static void regions_are_never_read(void **state) {
    struct weir_mem *m = *state;
    struct weir_file *f = weir__mem_file_new(m, 1, 100, NULL, NULL);
    struct weir_chain c = {0}, d = {0};
    struct weir_slice s;
    uint64_t v;
    uint8_t b[8];
    add(m, &c, "ab");
    assert_int_equal(weir_chain_add_file(m, &c, f, 10, 5), 0);
    weir_file_release(f);
    assert_int_equal(c.bytes, 7);
    assert_null(weir_chain_peek(m, &c, 3));
    assert_int_equal(weir_chain_take(m, &c, 3, &s), WEIR_EINVAL);
    assert_int_equal(weir_chain_read(&c, 1, b, 2), WEIR_EINVAL);
    assert_int_equal(weir_chain_get_be(&c, 3, 1, &v), WEIR_EINVAL);
    assert_int_equal(weir__mem_chain_capacity(&c), weir__mem_slice_capacity(c.first->slice));
    assert_int_equal(weir_chain_move(m, &d, &c, 4), 0);
    assert_int_equal(d.last->file_off, 10);
    assert_int_equal(d.last->slice.n, 2);
    assert_int_equal(c.first->file_off, 12);
    assert_int_equal(c.first->slice.n, 3);
    weir_chain_drop(&c, 1);
    assert_int_equal(c.first->file_off, 13);
    assert_int_equal(weir_chain_take(m, &c, 1, &s), WEIR_EINVAL);
    assert_null(weir_chain_peek(m, &c, 1));
    weir_chain_fini(&c);
    weir_chain_fini(&d);
}

static void capacity_counts_a_buffer_once_per_run(void **state) {
    struct weir_mem *m = *state;
    struct weir_chain c = {0};
    struct weir_slice s, part;
    assert_int_equal(weir_slice_new(m, 4096, &s), 0);
    for (unsigned i = 0; i < 3; i++) {
        part = weir_slice_ref(s, i * 100, 100);
        assert_int_equal(weir_chain_add(m, &c, &part), 0);
    }
    assert_int_equal(weir__mem_chain_capacity(&c), 4096);
    part = (struct weir_slice){.p = (uint8_t *)"static", .n = 6};
    assert_int_equal(weir_chain_add(m, &c, &part), 0);
    assert_int_equal(weir_chain_add(m, &c, &s), 0);
    assert_int_equal(weir__mem_chain_capacity(&c), 8192);
    weir_chain_fini(&c);
}

static void compact_copies_what_uses_less_than_a_quarter(void **state) {
    struct weir_mem *m = *state;
    struct weir_chain c = {0};
    struct weir_slice s, part;
    assert_int_equal(weir_slice_new(m, 4096, &s), 0);
    memset(s.p, 'x', 4096);
    memcpy(s.p, "abcdef", 6);
    for (unsigned i = 0; i < 3; i++) {
        part = weir_slice_ref(s, i * 2, 2);
        assert_int_equal(weir_chain_add(m, &c, &part), 0);
    }
    weir_slice_release(&s);
    add(m, &c, "gh");
    weir__mem_fail(m, 1, false);
    assert_int_equal(weir__mem_chain_compact(m, &c), WEIR_ENOMEM);
    assert_text(&c, "abcdefgh");
    assert_int_equal(weir__mem_chain_compact(m, &c), 1);
    assert_int_equal(parts(&c), 2);
    assert_text(&c, "abcdefgh");
    assert_true(weir__mem_chain_capacity(&c) < 64);
    assert_int_equal(weir__mem_chain_compact(m, &c), 0);
    weir_chain_fini(&c);
    /* A run at the end moves last; a full quarter stays. */
    for (size_t n = 1023; n <= 1024; n++) {
        assert_int_equal(weir_slice_new(m, 4096, &s), 0);
        memset(s.p, 'x', 4096);
        s.n = n - 1;
        part = weir_slice_ref(s, 0, 1);
        assert_int_equal(weir_chain_add(m, &c, &s), 0);
        assert_int_equal(weir_chain_add(m, &c, &part), 0);
        assert_int_equal(weir__mem_chain_compact(m, &c), n < 1024);
        assert_int_equal(parts(&c), n < 1024 ? 1 : 2);
        add(m, &c, "!");
        assert_int_equal(c.bytes, n + 1);
        weir_chain_fini(&c);
    }
}

static void released_bytes_are_poisoned(void **state) {
#ifndef WEIR__MEM_ASAN
    (void)state;
    skip();
#else
    struct weir_chain c = {0};
    add(*state, &c, "gone");
    const uint8_t *p = c.first->slice.p;
    extern int __asan_address_is_poisoned(const volatile void *);
    assert_false(__asan_address_is_poisoned(p));
    weir_chain_fini(&c);
    assert_true(__asan_address_is_poisoned(p));
#endif
}

/* Every operation with its n-th allocation failing, until none is left to fail: on < 0 everything
 * is as before. */

struct scene {
    struct weir_chain a, b;
    struct weir_slice s;
    struct weir_file *f;
};

static int op_add(struct weir_mem *m, struct scene *x) {
    return weir_chain_add(m, &x->a, &x->s);
}
static int op_prepend(struct weir_mem *m, struct scene *x) {
    return weir_chain_prepend(m, &x->a, &x->s);
}
static int op_write(struct weir_mem *m, struct scene *x) {
    return weir_chain_write(m, &x->a, "0123456789abcdef", 16);
}
static int op_add_file(struct weir_mem *m, struct scene *x) {
    return weir_chain_add_file(m, &x->a, x->f, 1, 2);
}
static int op_move(struct weir_mem *m, struct scene *x) {
    return weir_chain_move(m, &x->b, &x->a, 7);
}
static int op_move_region(struct weir_mem *m, struct scene *x) {
    return weir_chain_move(m, &x->a, &x->b, 3);
}
static int op_take(struct weir_mem *m, struct scene *x) {
    struct weir_slice out;
    int rc = weir_chain_take(m, &x->a, 7, &out);
    if (rc == 0)
        weir_slice_release(&out);
    return rc;
}
static int op_peek(struct weir_mem *m, struct scene *x) {
    return weir_chain_peek(m, &x->a, 7) ? 0 : WEIR_ENOMEM;
}
static int op_reserve(struct weir_mem *m, struct scene *x) {
    return weir_chain_reserve(m, &x->a, 100) ? 0 : WEIR_ENOMEM;
}
static int op_put_be(struct weir_mem *m, struct scene *x) {
    return weir_chain_put_be(m, &x->a, 8, 1);
}

static const struct {
    int (*op)(struct weir_mem *m, struct scene *x);
    unsigned allocations;
} ops[] = {
    {op_add, 1},         {op_prepend, 1}, {op_write, 2}, {op_add_file, 1}, {op_move, 1},
    {op_move_region, 1}, {op_take, 1},    {op_peek, 1},  {op_reserve, 2},  {op_put_be, 2},
};

/* a: "abc" "defgh" on buffers that are not ours alone; b: a region of five bytes. */
static void scene_init(struct weir_mem *m, struct scene *x, struct weir_slice *held) {
    *x = (struct scene){.s = copy(m, "slice", 5)};
    x->f = weir__mem_file_new(m, 1, 100, NULL, NULL);
    add(m, &x->a, "abc");
    add(m, &x->a, "defgh");
    held[0] = weir_slice_ref(x->a.first->slice, 0, 1);
    held[1] = weir_slice_ref(x->a.last->slice, 0, 1);
    assert_int_equal(weir_chain_add_file(m, &x->b, x->f, 50, 5), 0);
}

static void scene_fini(struct scene *x, struct weir_slice *held) {
    weir_chain_fini(&x->a);
    weir_chain_fini(&x->b);
    weir_slice_release(&x->s);
    weir_slice_release(&held[0]);
    weir_slice_release(&held[1]);
    weir_file_release(x->f);
}

static void no_operation_changes_anything_without_memory(void **state) {
    struct weir_mem *m = *state;
    for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
        for (unsigned nth = 1; nth <= ops[i].allocations + 1; nth++) {
            struct scene x;
            struct weir_slice held[2];
            scene_init(m, &x, held);
            struct scene before = x;
            uint64_t live = weir_mem_live(m);
            weir__mem_fail(m, nth, true);
            int rc = ops[i].op(m, &x);
            weir__mem_fail(m, 0, false);
            if (nth <= ops[i].allocations) {
                assert_int_equal(rc, WEIR_ENOMEM);
                assert_memory_equal(&x, &before, sizeof(x));
                assert_int_equal(weir_mem_live(m), live);
                assert_text(&x.a, "abcdefgh");
                assert_int_equal(parts(&x.a), 2);
                assert_true(x.b.first->file_off == 50 && x.b.first->slice.n == 5);
            } else {
                assert_int_equal(rc, 0);
            }
            scene_fini(&x, held);
            assert_int_equal(weir_mem_live(m), 0);
        }
    }
}

/* The property test: chains against a plain array in which each byte is its value, or FILE_BYTE +
 * its file offset. */

enum { MODEL_MAX = 1 << 16, FILE_BYTE = 1 << 20, CHAINS = 2 };

struct model {
    uint32_t at[MODEL_MAX];
    size_t n;
};

struct world {
    struct weir_mem *m;
    struct weir__base_rng rng;
    struct weir_file *f;
    struct weir_chain c[CHAINS];
    struct model model[CHAINS];
    struct weir_slice held[8]; /* references that keep buffers from being ours alone */
    uint8_t held_first[8];
    uint8_t next;
};

static void model_insert(struct model *d, size_t at, const uint32_t *v, size_t n) {
    memmove(d->at + at + n, d->at + at, (d->n - at) * sizeof(*d->at));
    memcpy(d->at + at, v, n * sizeof(*v));
    d->n += n;
}

static void model_drop(struct model *d, size_t n) {
    memmove(d->at, d->at + n, (d->n - n) * sizeof(*d->at));
    d->n -= n;
}

static bool model_plain(const struct model *d, size_t off, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (d->at[off + i] >= FILE_BYTE)
            return false;
    }
    return true;
}

static void assert_bytes(const struct model *d, size_t off, const uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        assert_int_equal(p[i], d->at[off + i]);
}

static void assert_same(const struct weir_chain *c, const struct model *d) {
    weir__mem_chain_invariants(c);
    assert_int_equal(c->bytes, d->n);
    size_t at = 0;
    for (const struct weir_part *p = c->first; p; p = p->next) {
        for (size_t i = 0; i < p->slice.n; i++, at++)
            assert_int_equal(p->slice.p ? p->slice.p[i] : FILE_BYTE + p->file_off + i, d->at[at]);
        assert_true((p == c->last) == (p->next == NULL));
    }
    assert_int_equal(at, d->n);
}

static size_t below(struct world *w, size_t n) {
    return (size_t)weir__base_rng_below(&w->rng, n);
}

/* Mostly small, now and then over the edge of a class or of a buffer. */
static size_t some_size(struct world *w) {
    switch (below(w, 8)) {
    case 0: return below(w, 3000);
    case 1: return 200 + below(w, 60);
    default: return below(w, 24);
    }
}

static size_t some_prefix(struct world *w, unsigned i) {
    const struct weir_chain *c = &w->c[i];
    size_t n = below(w, 4) == 0 ? w->model[i].n : some_size(w);
    if (c->first && below(w, 3) == 0)
        n = c->first->slice.n;
    return n < w->model[i].n ? n : w->model[i].n;
}

static size_t fresh_bytes(struct world *w, uint8_t *bytes, uint32_t *v, size_t n) {
    for (size_t i = 0; i < n; i++)
        v[i] = bytes[i] = w->next++;
    return n;
}

static void step_slice(struct world *w, unsigned i, bool front) {
    uint8_t bytes[3000];
    uint32_t v[3000];
    size_t n = fresh_bytes(w, bytes, v, some_size(w)), pad = below(w, 3);
    struct weir_slice whole, s;
    if (weir_slice_new(w->m, n + pad + 1, &whole) < 0)
        return;
    if (below(w, 8) == 0)
        weir_slice_share(&whole);
    memcpy(whole.p + pad, bytes, n);
    s = weir_slice_ref(whole, pad, n);
    size_t h = below(w, ARRAY_LEN(w->held) * 2);
    if (h < ARRAY_LEN(w->held) && n > 0) {
        weir_slice_release(&w->held[h]);
        w->held[h] = weir_slice_ref(s, 0, n);
        w->held_first[h] = bytes[0];
    }
    weir_slice_release(&whole);
    struct weir_slice before = s;
    int rc = front ? weir_chain_prepend(w->m, &w->c[i], &s) : weir_chain_add(w->m, &w->c[i], &s);
    if (rc < 0) {
        assert_memory_equal(&s, &before, sizeof(s));
        weir_slice_release(&s);
        return;
    }
    assert_true(s.buf == NULL && s.n == 0);
    model_insert(&w->model[i], front ? 0 : w->model[i].n, v, n);
}

static void step_write(struct world *w, unsigned i) {
    uint8_t bytes[3000];
    uint32_t v[3000];
    size_t n = fresh_bytes(w, bytes, v, some_size(w));
    if (weir_chain_write(w->m, &w->c[i], bytes, n) == 0)
        model_insert(&w->model[i], w->model[i].n, v, n);
}

static void step_reserve(struct world *w, unsigned i) {
    uint8_t bytes[3000];
    uint32_t v[3000];
    size_t room = some_size(w), n = below(w, room + 1);
    uint8_t *p = weir_chain_reserve(w->m, &w->c[i], room);
    if (!p)
        return;
    memset(p, 0xee, room);
    assert_int_equal(w->c[i].bytes, w->model[i].n);
    if (below(w, 16) == 0)
        return; /* abandoned */
    fresh_bytes(w, bytes, v, n);
    memcpy(p, bytes, n);
    weir_chain_commit(&w->c[i], n);
    model_insert(&w->model[i], w->model[i].n, v, n);
}

static void step_file(struct world *w, unsigned i) {
    uint32_t v[3000];
    size_t n = some_size(w), off = below(w, 5000);
    for (size_t k = 0; k < n; k++)
        v[k] = (uint32_t)(FILE_BYTE + off + k);
    if (weir_chain_add_file(w->m, &w->c[i], w->f, off, n) == 0)
        model_insert(&w->model[i], w->model[i].n, v, n);
}

static void step_take(struct world *w, unsigned i, bool failing) {
    size_t n = some_prefix(w, i) + (below(w, 16) == 0);
    struct model *d = &w->model[i];
    struct weir_slice s = {.n = 77};
    int rc = weir_chain_take(w->m, &w->c[i], n, &s);
    if (n > d->n || !model_plain(d, 0, n)) {
        assert_int_equal(rc, WEIR_EINVAL);
    } else if (rc < 0) {
        assert_true(failing && rc == WEIR_ENOMEM);
    } else {
        assert_int_equal(s.n, n);
        assert_bytes(d, 0, s.p, n);
        model_drop(d, n);
        weir_slice_release(&s);
    }
}

static void step_peek(struct world *w, unsigned i, bool failing) {
    size_t n = some_prefix(w, i) + (below(w, 16) == 0);
    struct model *d = &w->model[i];
    const uint8_t *p = weir_chain_peek(w->m, &w->c[i], n);
    if (n > d->n || !model_plain(d, 0, n))
        assert_null(p);
    else if (p)
        assert_bytes(d, 0, p, n);
    else
        assert_true(failing);
}

static void step_read(struct world *w, unsigned i) {
    uint8_t out[3000];
    struct model *d = &w->model[i];
    size_t off = below(w, d->n + 2), n = some_size(w);
    int rc = weir_chain_read(&w->c[i], off, out, n);
    bool there = off <= d->n && n <= d->n - off && model_plain(d, off, n);
    assert_int_equal(rc, there ? 0 : WEIR_EINVAL);
    if (there)
        assert_bytes(d, off, out, n);
}

static void step_move(struct world *w, unsigned i) {
    struct model *from = &w->model[i], *to = &w->model[1 - i];
    size_t n = some_prefix(w, i);
    if (weir_chain_move(w->m, &w->c[1 - i], &w->c[i], n) < 0)
        return;
    model_insert(to, to->n, from->at, n);
    model_drop(from, n);
}

static void step_append(struct world *w, unsigned i) {
    struct model *from = &w->model[i], *to = &w->model[1 - i];
    weir_chain_append(&w->c[1 - i], &w->c[i]);
    assert_null(w->c[i].first);
    model_insert(to, to->n, from->at, from->n);
    from->n = 0;
}

static void step_drop(struct world *w, unsigned i) {
    size_t n = some_prefix(w, i);
    weir_chain_drop(&w->c[i], n);
    model_drop(&w->model[i], n);
}

static void step(struct world *w) {
    unsigned i = (unsigned)below(w, CHAINS);
    bool failing = below(w, 4) == 0;
    weir__mem_fail(w->m, failing ? 1 + below(w, 3) : 0, false);
    switch (below(w, 14)) {
    case 0:
    case 1: step_slice(w, i, false); break;
    case 2: step_slice(w, i, true); break;
    case 3:
    case 4: step_write(w, i); break;
    case 5: step_reserve(w, i); break;
    case 6: step_file(w, i); break;
    case 7: step_take(w, i, failing); break;
    case 8: step_peek(w, i, failing); break;
    case 9: step_read(w, i); break;
    case 10: step_move(w, i); break;
    case 11: step_drop(w, i); break;
    case 12:
        if (below(w, 4) == 0)
            step_append(w, i);
        break;
    case 13:
        assert_true(weir__mem_chain_compact(w->m, &w->c[i]) >= (failing ? WEIR_ENOMEM : 0));
        break;
    }
    weir__mem_fail(w->m, 0, false);
    if (w->model[i].n > MODEL_MAX / 4) {
        weir_chain_fini(&w->c[i]);
        w->model[i].n = 0;
    }
}

static void chains_behave_like_byte_arrays(void **state) {
    static struct world w;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        memset(&w, 0, sizeof(w));
        w.m = *state;
        w.f = weir__mem_file_new(w.m, 1, 10000, NULL, NULL);
        weir__base_rng_seed(&w.rng, seed);
        for (unsigned k = 0; k < 400; k++) {
            step(&w);
            for (unsigned i = 0; i < CHAINS; i++)
                assert_same(&w.c[i], &w.model[i]);
            for (unsigned h = 0; h < ARRAY_LEN(w.held); h++)
                assert_true(w.held[h].n == 0 || w.held[h].p[0] == w.held_first[h]);
        }
        for (unsigned i = 0; i < CHAINS; i++)
            weir_chain_fini(&w.c[i]);
        for (unsigned h = 0; h < ARRAY_LEN(w.held); h++)
            weir_slice_release(&w.held[h]);
        weir_file_release(w.f);
        assert_int_equal(weir_mem_live(w.m), 0);
    }
}

/* The inlined half says the same as the functions, at every number of bytes. */
static void inlines_agree_with_the_functions(void **state) {
    struct weir_mem *m = *state;
    for (size_t n = 1; n <= 9; n++) {
        struct weir_chain a = {0}, b = {0}, c = {0};
        add(m, &a, "abc"), add(m, &a, "defghi");
        add(m, &b, "abc"), add(m, &b, "defghi");
        assert_ptr_equal(weir__mem_chain_front(&a, n), n <= 3 ? a.first->slice.p : NULL);
        weir__mem_chain_drop(&a, n);
        weir_chain_drop(&b, n);
        assert_text(&a, &"abcdefghi"[n]);
        assert_int_equal(parts(&a), parts(&b));
        weir__mem_chain_append(&c, &a);
        weir__mem_chain_append(&c, &b);
        assert_int_equal(c.bytes, 2 * (9 - n));
        assert_true(!a.first && !a.last && !a.bytes && !b.first);
        weir__mem_chain_invariants(&c);
        weir__mem_chain_fini(&c);
        assert_true(!c.first && !c.last && !c.bytes);
    }
}

static void the_tail_is_written_only_where_it_is_ours(void **state) {
    struct weir_mem *m = *state;
    struct weir_chain c = {0};
    assert_null(weir__mem_chain_tail(&c, 1));
    assert_int_equal(weir_chain_write(m, &c, "ab", 2), 0);
    memcpy(weir__mem_chain_tail(&c, 3), "cde", 3);
    weir__mem_chain_commit(&c, 3);
    assert_text(&c, "abcde");
    assert_null(weir__mem_chain_tail(&c, c.last->slice.buf->capacity - 4));
    struct weir_slice other = weir_slice_ref(c.first->slice, 0, 1);
    assert_null(weir__mem_chain_tail(&c, 1));
    weir_slice_release(&other);
    assert_non_null(weir__mem_chain_tail(&c, 1));
    weir__mem_chain_fini(&c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(taking_the_first_part_moves_it),
        TEST(inlines_agree_with_the_functions),
        TEST(the_tail_is_written_only_where_it_is_ours),
        TEST(taking_over_a_seam_copies_exactly_n),
        TEST(peek_joins_only_at_a_seam),
        TEST(small_writes_share_a_buffer),
        TEST(a_write_never_touches_what_others_see),
        TEST(a_large_write_is_laid_into_receive_sized_buffers),
        TEST(a_reservation_counts_after_commit),
        TEST(an_abandoned_reservation_is_dropped_by_what_follows),
        TEST(fields_are_big_endian_and_checked),
        TEST(slices_without_bytes_leave_no_part),
        TEST(regions_are_never_read),
        TEST(capacity_counts_a_buffer_once_per_run),
        TEST(compact_copies_what_uses_less_than_a_quarter),
        TEST(released_bytes_are_poisoned),
        TEST(no_operation_changes_anything_without_memory),
        TEST(chains_behave_like_byte_arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
