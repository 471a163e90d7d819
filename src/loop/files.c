#include "loop/files.h"
#include "loop/loop.h"
#include "mem/file.h"

static void run(struct weir__loop_work *w) {
    struct weir__loop_file_op *op = container_of(w, struct weir__loop_file_op, work);
    op->result = op->files->ops->run(op->files, op);
}

/* What was opened becomes a counted file where the counts belong. */
static void wrap(struct weir_loop *l, struct weir__loop_file_op *op) {
    const struct weir__loop_files_ops *ops = op->files->ops;
    if (op->kind != WEIR__LOOP_FILE_OPEN || op->result < 0)
        return;
    op->opened = ops->wrap(op->files, l->mem, op);
    if (op->opened)
        return;
    ops->drop(op->files, op->handle);
    op->result = WEIR_ENOMEM;
}

static void done(struct weir_loop *l, struct weir__loop_work *w, int status) {
    struct weir__loop_file_op *op = container_of(w, struct weir__loop_file_op, work);
    if (status < 0)
        op->result = status;
    wrap(l, op);
    weir_file_release(op->file);
    op->file = NULL;
    op->done(l, op, op->result);
}

static int submit(struct weir_loop *l, struct weir__loop_file_op *op) {
    op->work.run = run;
    op->work.done = done;
    op->work.handler = op->handler;
    if (op->file)
        weir_file_ref(op->file);
    int rc = weir__loop_work_submit(l, &op->work);
    if (rc < 0 && op->file)
        weir_file_release(op->file);
    return rc;
}

static int prepare(struct weir_loop *l, struct weir__loop_file_op *op,
                   enum weir__loop_file_kind kind, struct weir_file *f) {
    op->files = l->env.files;
    op->kind = kind;
    op->file = f;
    op->opened = NULL;
    op->result = 0;
    return op->files ? 0 : WEIR_ENOTSUP;
}

int weir__loop_file_open(struct weir_loop *l, struct weir__loop_file_op *op, struct weir_file *dir,
                         const char *path, unsigned flags) {
    int rc = prepare(l, op, WEIR__LOOP_FILE_OPEN, dir);
    op->path = path;
    op->flags = flags;
    return rc < 0 ? rc : submit(l, op);
}

int weir__loop_file_stat(struct weir_loop *l, struct weir__loop_file_op *op, struct weir_file *f) {
    int rc = prepare(l, op, WEIR__LOOP_FILE_STAT, f);
    return rc < 0 ? rc : submit(l, op);
}

int weir__loop_file_read(struct weir_loop *l, struct weir__loop_file_op *op, struct weir_file *f,
                         uint64_t off, struct weir_slice into, bool nowait) {
    int rc = prepare(l, op, WEIR__LOOP_FILE_READ, f);
    if (rc < 0)
        return rc;
    op->off = off;
    op->p = into.p;
    op->n = into.n;
    op->result = op->files->ops->read_hot(op->files, op);
    if (op->result >= 0)
        return 1;
    if (op->result != WEIR_EAGAIN || nowait)
        return (int)op->result;
    return submit(l, op);
}
