#include "os/file.h"
#include "os/fault.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

int weir__os_file_open(int dir, const char *path, int flags) {
    int rc;
    do {
        rc = weir__os_fault(WEIR__OS_OPEN, NULL);
        if (rc == 0 && (rc = openat(dir, path, flags | O_CLOEXEC, 0644)) < 0)
            rc = -errno;
    } while (rc == -EINTR);
    return rc;
}

int weir__os_file_stat(int fd, struct weir__os_stat *out) {
    struct stat s;
    int rc = weir__os_fault(WEIR__OS_STAT, NULL);
    if (rc < 0)
        return rc;
    if (fstat(fd, &s) < 0)
        return -errno;
    *out = (struct weir__os_stat){
        .size = (uint64_t)s.st_size,
        .mtime_ns = (uint64_t)s.st_mtim.tv_sec * 1000000000u + (uint64_t)s.st_mtim.tv_nsec,
        .device = s.st_dev,
        .inode = s.st_ino,
        .regular = S_ISREG(s.st_mode),
        .directory = S_ISDIR(s.st_mode),
    };
    return 0;
}

static ssize_t read_at(int fd, void *buf, size_t n, uint64_t off, int flags) {
    ssize_t rc;
    do {
        rc = weir__os_fault(WEIR__OS_READ, &n);
        struct iovec part = {.iov_base = buf, .iov_len = n};
        if (rc < 0)
            continue;
        rc = flags ? preadv2(fd, &part, 1, (off_t)off, flags) : pread(fd, buf, n, (off_t)off);
        if (rc < 0)
            rc = -errno;
    } while (rc == -EINTR);
    return rc;
}

ssize_t weir__os_file_read(int fd, void *buf, size_t n, uint64_t off) {
    return read_at(fd, buf, n, off, 0);
}

ssize_t weir__os_file_read_nowait(int fd, void *buf, size_t n, uint64_t off) {
    return read_at(fd, buf, n, off, RWF_NOWAIT);
}

ssize_t weir__os_file_write(int fd, const void *buf, size_t n) {
    ssize_t rc;
    do {
        rc = weir__os_fault(WEIR__OS_WRITE, &n);
        if (rc == 0 && (rc = write(fd, buf, n)) < 0)
            rc = -errno;
    } while (rc == -EINTR);
    return rc;
}

int weir__os_file_unlink(const char *path) {
    return unlink(path) < 0 ? -errno : 0;
}

/* Files under /proc have no size: read until the end says so. */
int weir__os_file_text(const char *path, char *buf, size_t cap) {
    int fd = weir__os_file_open(AT_FDCWD, path, O_RDONLY);
    size_t n = 0;
    ssize_t rc = 0;
    if (fd < 0)
        return fd;
    while (n < cap && (rc = weir__os_file_read(fd, buf + n, cap - n, n)) > 0)
        n += (size_t)rc;
    close(fd);
    if (rc < 0)
        return (int)rc;
    if (n == cap)
        return -EFBIG;
    buf[n] = 0;
    return (int)n;
}

int weir__os_file_link(const char *path, char *buf, size_t cap) {
    ssize_t n = readlink(path, buf, cap - 1);
    if (n < 0)
        return -errno;
    buf[n] = 0;
    return (int)n;
}
