/* Files. Results: >= 0 or a negative errno; EINTR is handled here. Close with weir__os_close
 * (os/sock.h). */
#ifndef WEIR_OS_FILE_H
#define WEIR_OS_FILE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct weir__os_stat {
    uint64_t size, mtime_ns, device, inode;
    bool regular, directory;
};

/* dir: a directory descriptor or AT_FDCWD; flags of openat and close-on-exec; mode 0644. */
int weir__os_file_open(int dir, const char *path, int flags);
int weir__os_file_stat(int fd, struct weir__os_stat *out);
/* 0: end of file. */
ssize_t weir__os_file_read(int fd, void *buf, size_t n, uint64_t off);
/* Only what is in the page cache: -EAGAIN when nothing is, -EOPNOTSUPP when the file system cannot
 * say. */
ssize_t weir__os_file_read_nowait(int fd, void *buf, size_t n, uint64_t off);
/* At the file position: pipes, standard output. */
ssize_t weir__os_file_write(int fd, const void *buf, size_t n);
int weir__os_file_unlink(const char *path);
/* A whole small file and a terminating zero: its length; -EFBIG when it needs cap bytes or more. */
int weir__os_file_text(const char *path, char *buf, size_t cap);
/* Where a symbolic link leads, and a terminating zero: its length. */
int weir__os_file_link(const char *path, char *buf, size_t cap);

#endif
