#include "mem/file.h"
#include "base/assert.h"
#include "os/sock.h"

struct weir_file *weir__mem_file_new(struct weir_mem *m, int64_t handle, uint64_t size,
                                     void (*close)(int64_t handle, void *user), void *user) {
    struct weir_file *f = weir_mem_new(m, sizeof(*f));
    if (!f)
        return NULL;
    atomic_init(&f->refs, 1);
    f->handle = handle;
    f->size = size;
    f->close = close;
    f->user = user;
    return f;
}

static void close_fd(int64_t handle, void *user) {
    (void)user;
    (void)weir__os_close((int)handle);
}

struct weir_file *weir_file_new(struct weir_mem *m, int fd, uint64_t size) {
    return weir__mem_file_new(m, fd, size, close_fd, NULL);
}

struct weir_file *weir_file_ref(struct weir_file *f) {
    uint32_t before = atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
    check(before > 0);
    (void)before;
    return f;
}

void weir_file_release(struct weir_file *f) {
    if (!f)
        return;
    uint32_t before = atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel);
    check(before > 0);
    if (before != 1)
        return;
    if (f->close)
        f->close(f->handle, f->user);
    weir_mem_free(f);
}
