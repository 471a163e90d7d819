/* Files beside the loop: opened and examined on a worker, read at once where the bytes are in
 * memory and on a worker where they are not. One completion per operation that answered 0. */
#ifndef WEIR_LOOP_FILES_H
#define WEIR_LOOP_FILES_H
#include "loop/work.h"
#include "weir/mem.h"

struct weir__loop_files;

enum weir__loop_file_flag {
    WEIR__LOOP_FILE_NOFOLLOW = 1,  /* a last name that is a symbolic link: an error */
    WEIR__LOOP_FILE_DIRECTORY = 2, /* only a directory, for names below it */
};

enum weir__loop_file_kind { WEIR__LOOP_FILE_OPEN, WEIR__LOOP_FILE_STAT, WEIR__LOOP_FILE_READ };

struct weir__loop_file_stat {
    uint64_t size, mtime_ns, device, inode;
    bool regular, directory;
};

/* One operation. It and what it names (path, bytes) stay the caller's, untouched until done, which
 * comes exactly once after an answer of 0. result: open and stat 0, read the bytes read (0: end of
 * file), or an error: ESTOPPED (never tried), EFDS, EIO, ESYS(ENOENT) ... */
struct weir__loop_file_op {
    void (*done)(struct weir_loop *l, struct weir__loop_file_op *op, int64_t result);
    struct weir__loop_handler *handler; /* whose CPU time this is; NULL: nobody's */
    /* Results. */
    struct weir_file *opened;         /* by open: one reference, the caller's */
    struct weir__loop_file_stat stat; /* by open and stat */
    int64_t result;
    /* Ours. */
    struct weir__loop_work work;
    struct weir__loop_files *files;
    enum weir__loop_file_kind kind;
    unsigned flags;
    const char *path;
    struct weir_file *file; /* a reference while it is out */
    int64_t handle;
    uint64_t off;
    uint8_t *p;
    size_t n;
};

struct weir__loop_files_ops {
    /* Does op, waiting as long as it takes: on a worker. Open leaves op->handle. Touches op, the
     * bytes and nothing that is counted. */
    int64_t (*run)(struct weir__loop_files *fs, struct weir__loop_file_op *op);
    /* The bytes that are in memory: their number; EAGAIN: none, ask a worker. On the loop. */
    int64_t (*read_hot)(struct weir__loop_files *fs, struct weir__loop_file_op *op);
    /* An opened handle as a counted file. NULL: no memory. On the loop. */
    struct weir_file *(*wrap)(struct weir__loop_files *fs, struct weir_mem *m,
                              struct weir__loop_file_op *op);
    void (*drop)(struct weir__loop_files *fs, int64_t handle); /* one that could not be wrapped */
};

struct weir__loop_files {
    const struct weir__loop_files_ops *ops;
};

/* Opens for reading: a path, or a name below dir (NULL: the working directory). op->opened and
 * op->stat are its results. 0: done follows. ENOTSUP: this loop has no files; what
 * weir__loop_work_submit says. Loop. */
int weir__loop_file_open(struct weir_loop *l, struct weir__loop_file_op *op, struct weir_file *dir,
                         const char *path, unsigned flags);
/* What a file is now. As open. */
int weir__loop_file_stat(struct weir_loop *l, struct weir__loop_file_op *op, struct weir_file *f);
/* Reads into the bytes of `into`, which the caller holds until the end. 1: done now, op->result
 * bytes (0: end of file), done does not come. 0: it does. nowait: EAGAIN instead of 0 where nothing
 * is in memory. Other errors as open's and read's. Fewer bytes than asked for are no end. Loop. */
int weir__loop_file_read(struct weir_loop *l, struct weir__loop_file_op *op, struct weir_file *f,
                         uint64_t off, struct weir_slice into, bool nowait);

#endif
