#include "os/memory.h"
#include "os/clock.h"
#include "os/fault.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

size_t weir__os_page_size(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t whole_pages(size_t bytes) {
    size_t page = weir__os_page_size();
    return (bytes + page - 1) & ~(page - 1);
}

static WEIR_TLS struct weir__base_pause *watched;

void weir__os_map_watch(struct weir__base_pause *p) {
    watched = p;
}

/* Aligned blocks are cut out of a larger mapping, whose ends go back at once. */
static void *map(size_t bytes, size_t align) {
    size_t page = weir__os_page_size();
    size_t slack = align > page ? align - page : 0, n = whole_pages(bytes);
    if (weir__os_fault(WEIR__OS_MAP, NULL) < 0)
        return NULL;
    if (n == 0 || n < bytes || n + slack < n)
        return NULL;
    char *p = mmap(NULL, n + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (slack == 0)
        return p;
    size_t head = (size_t)(-(uintptr_t)p & (align - 1));
    if (head)
        munmap(p, head);
    if (slack - head)
        munmap(p + head + n, slack - head);
    return p + head;
}

void *weir__os_map(size_t bytes, size_t align) {
    if (!watched)
        return map(bytes, align);
    uint64_t before = weir__os_clock_mono();
    void *p = map(bytes, align);
    weir__base_pause_add(watched, 1, weir__os_clock_mono() - before);
    return p;
}

void weir__os_unmap(void *p, size_t bytes) {
    munmap(p, whole_pages(bytes));
}

void weir__os_map_forget(void *p, size_t bytes) {
    madvise(p, bytes, MADV_DONTNEED);
}

void weir__os_map_huge(void *p, size_t bytes) {
    madvise(p, bytes, MADV_HUGEPAGE);
}

int weir__os_map_guard(void *p, size_t bytes) {
    int rc = weir__os_fault(WEIR__OS_PROTECT, NULL);
    if (rc < 0)
        return rc;
    return mprotect(p, bytes, PROT_NONE) < 0 ? -errno : 0;
}

int weir__os_place(const void *code, char *out, size_t n) {
    Dl_info at;
    if (!code || !dladdr(code, &at) || !at.dli_fname)
        return snprintf(out, n, "%p", code);
    unsigned long off = (unsigned long)((const char *)code - (const char *)at.dli_fbase);
    if (!at.dli_sname)
        return snprintf(out, n, "%s+0x%lx", at.dli_fname, off);
    return snprintf(out, n, "%s+0x%lx (%s)", at.dli_fname, off, at.dli_sname);
}
