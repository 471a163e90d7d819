#include "mem/pool.h"
#include <string.h>

int weir_slice_new(struct weir_mem *m, size_t n, struct weir_slice *out) {
    if (unlikely(n == 0)) {
        *out = (struct weir_slice){0};
        return 0;
    }
    struct weir_buf *b = weir__mem_buf_new(m, n);
    if (unlikely(!b))
        return WEIR_ENOMEM;
    *out = (struct weir_slice){.p = b->data, .n = n, .buf = b};
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
    if (!s->buf || s->buf->shared)
        return;
    check(weir__mem_may_touch(s->buf->mem));
    s->buf->shared = true;
}

void weir_slice_release(struct weir_slice *s) {
    struct weir_buf *b = s->buf;
    *s = (struct weir_slice){0};
    if (b)
        weir__mem_buf_release(b);
}

void weir__mem_buf_release_shared(struct weir_buf *b) {
    uint32_t before = __atomic_fetch_sub(&b->refs, 1, __ATOMIC_ACQ_REL);
    check(before > 0);
    if (before == 1)
        weir__mem_return(b->mem, b, b->cls, WEIR__MEM_BUF);
}
