#include "rt/files.h"
#include "mem/file.h"
#include "os/error.h"
#include "os/file.h"
#include "os/sock.h"
#include "weir/error.h"
#include <errno.h>
#include <fcntl.h>

static int describe(struct weir__loop_file_op *op, int fd) {
    struct weir__os_stat s;
    int rc = weir__os_file_stat(fd, &s);
    if (rc < 0)
        return rc;
    op->stat = (struct weir__loop_file_stat){
        .size = s.size,
        .mtime_ns = s.mtime_ns,
        .device = s.device,
        .inode = s.inode,
        .regular = s.regular,
        .directory = s.directory,
    };
    return 0;
}

/* Not blocking, which says nothing about files but keeps a FIFO from waiting for its writer. */
static int open_file(struct weir__loop_file_op *op) {
    int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY;
    flags |= op->flags & WEIR__LOOP_FILE_NOFOLLOW ? O_NOFOLLOW : 0;
    flags |= op->flags & WEIR__LOOP_FILE_DIRECTORY ? O_DIRECTORY : 0;
    int dir = op->file ? (int)op->file->handle : AT_FDCWD;
    int fd = weir__os_file_open(dir, op->path, flags);
    if (fd < 0)
        return fd;
    int rc = describe(op, fd);
    if (rc < 0)
        (void)weir__os_close(fd);
    op->handle = fd;
    return rc;
}

static int64_t run(struct weir__loop_files *fs, struct weir__loop_file_op *op) {
    int64_t rc;
    (void)fs;
    if (op->kind == WEIR__LOOP_FILE_OPEN)
        rc = open_file(op);
    else if (op->kind == WEIR__LOOP_FILE_STAT)
        rc = describe(op, (int)op->file->handle);
    else
        rc = weir__os_file_read((int)op->file->handle, op->p, op->n, op->off);
    return rc < 0 ? weir__os_error((int)rc) : rc;
}

/* Where the file system cannot say whether it would wait, a worker finds out. */
static int64_t read_hot(struct weir__loop_files *fs, struct weir__loop_file_op *op) {
    (void)fs;
    int64_t rc = weir__os_file_read_nowait((int)op->file->handle, op->p, op->n, op->off);
    if (rc == -EOPNOTSUPP)
        return WEIR_EAGAIN;
    return rc < 0 ? weir__os_error((int)rc) : rc;
}

static struct weir_file *wrap(struct weir__loop_files *fs, struct weir_mem *m,
                              struct weir__loop_file_op *op) {
    (void)fs;
    return weir_file_new(m, (int)op->handle, op->stat.size);
}

static void drop(struct weir__loop_files *fs, int64_t handle) {
    (void)fs;
    (void)weir__os_close((int)handle);
}

static const struct weir__loop_files_ops ops = {
    .run = run, .read_hot = read_hot, .wrap = wrap, .drop = drop};

void weir__rt_files_init(struct weir__loop_files *fs) {
    fs->ops = &ops;
}
