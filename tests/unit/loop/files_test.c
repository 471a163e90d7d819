/* Operations on files, in a world whose files and workers are the test's. */
#include "loop/files.h"
#include "kit/door.h"
#include "loop/loop.h"
#include "mem/file.h"
#include "mem/pool.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

struct bench {
    struct kit_loop k;
    struct weir__loop_workers workers;
    struct weir__loop_files files;
    struct weir__loop_file_op op;
    struct weir_file *file;
    int64_t hot, cold; /* what the next read answers */
    int refuse, wrap_fails;
    unsigned ran, dropped, done;
    int64_t result;
    uint8_t bytes[16];
};

static struct bench *b;

static int submit(struct weir__loop_workers *p, struct weir__loop_work *w) {
    (void)p;
    if (b->refuse)
        return b->refuse;
    w->run(w);
    weir__loop_work_over(w, 0);
    return 0;
}

static void nothing(struct weir__loop_workers *p, struct weir_loop *l) {
    (void)p, (void)l;
}

static int64_t run(struct weir__loop_files *fs, struct weir__loop_file_op *op) {
    (void)fs;
    b->ran++;
    if (op->kind == WEIR__LOOP_FILE_OPEN)
        op->handle = 77;
    if (op->kind != WEIR__LOOP_FILE_READ)
        op->stat.size = 1234;
    else if (b->cold > 0)
        memset(op->p, 'c', (size_t)b->cold);
    return b->cold;
}

static int64_t read_hot(struct weir__loop_files *fs, struct weir__loop_file_op *op) {
    (void)fs;
    assert_true(op->off == 5 && op->n == 16);
    if (b->hot > 0)
        memset(op->p, 'h', (size_t)b->hot);
    return b->hot;
}

static struct weir_file *wrap(struct weir__loop_files *fs, struct weir_mem *m,
                              struct weir__loop_file_op *op) {
    (void)fs;
    return b->wrap_fails ? NULL : weir__mem_file_new(m, op->handle, op->stat.size, NULL, NULL);
}

static void drop(struct weir__loop_files *fs, int64_t handle) {
    (void)fs;
    assert_int_equal(handle, 77);
    b->dropped++;
}

static void done(struct weir_loop *l, struct weir__loop_file_op *op, int64_t result) {
    assert_ptr_equal(l, b->k.loop);
    assert_ptr_equal(op, &b->op);
    b->done++;
    b->result = result;
}

static int begin(void **state) {
    static struct bench bench;
    static const struct weir__loop_workers_ops work_ops = {
        .submit = submit, .cancel = nothing, .await = nothing};
    static const struct weir__loop_files_ops file_ops = {
        .run = run, .read_hot = read_hot, .wrap = wrap, .drop = drop};
    (void)state;
    b = &bench;
    memset(b, 0, sizeof *b);
    kit_loop_open(&b->k);
    b->workers.ops = &work_ops;
    b->files.ops = &file_ops;
    b->k.loop->env.workers = &b->workers;
    b->k.loop->env.files = &b->files;
    b->op.done = done;
    b->file = weir__mem_file_new(b->k.mem, 3, 100, NULL, NULL);
    return b->file ? 0 : -1;
}

static int end(void **state) {
    (void)state;
    weir_file_release(b->file);
    kit_loop_close(&b->k);
    return 0;
}

static int read_at_five(bool nowait) {
    struct weir_slice into = {.p = b->bytes, .n = sizeof b->bytes};
    return weir__loop_file_read(b->k.loop, &b->op, b->file, 5, into, nowait);
}

static void a_hot_read_is_done_at_once(void **state) {
    (void)state;
    b->hot = 7;
    assert_int_equal(read_at_five(false), 1);
    assert_int_equal(b->op.result, 7);
    b->hot = 0; /* the end of the file */
    assert_int_equal(read_at_five(false), 1);
    assert_int_equal(b->op.result, 0);
    kit_loop_settle(&b->k);
    assert_true(b->done == 0 && b->ran == 0 && b->bytes[6] == 'h');
}

static void a_cold_read_is_a_workers(void **state) {
    (void)state;
    b->hot = WEIR_EAGAIN;
    b->cold = 9;
    assert_int_equal(read_at_five(true), WEIR_EAGAIN);
    assert_int_equal(b->ran, 0);
    assert_int_equal(read_at_five(false), 0);
    assert_int_equal(b->file->refs, 2); /* held while it is out */
    assert_int_equal(b->done, 0);
    kit_loop_settle(&b->k);
    assert_true(b->done == 1 && b->result == 9 && b->bytes[8] == 'c');
    assert_int_equal(b->file->refs, 1);
}

static void errors_are_codes(void **state) {
    (void)state;
    b->hot = WEIR_EIO;
    assert_int_equal(read_at_five(false), WEIR_EIO);
    b->hot = WEIR_EAGAIN;
    b->refuse = WEIR_ENOMEM;
    assert_int_equal(read_at_five(false), WEIR_ENOMEM);
    assert_int_equal(b->file->refs, 1);
    b->refuse = 0;
    b->cold = WEIR_EIO;
    assert_int_equal(read_at_five(false), 0);
    kit_loop_settle(&b->k);
    assert_int_equal(b->result, WEIR_EIO);
    b->k.loop->env.files = NULL;
    assert_int_equal(read_at_five(false), WEIR_ENOTSUP);
    assert_int_equal(weir__loop_file_stat(b->k.loop, &b->op, b->file), WEIR_ENOTSUP);
    assert_int_equal(weir__loop_file_open(b->k.loop, &b->op, NULL, "x", 0), WEIR_ENOTSUP);
}

static void an_opened_file_is_counted_on_the_loop(void **state) {
    (void)state;
    assert_int_equal(weir__loop_file_open(b->k.loop, &b->op, b->file, "name", 0), 0);
    assert_int_equal(b->file->refs, 2); /* the directory */
    kit_loop_settle(&b->k);
    assert_true(b->done == 1 && b->result == 0);
    assert_true(b->op.opened->refs == 1 && b->op.opened->handle == 77 &&
                b->op.opened->size == 1234);
    weir_file_release(b->op.opened);
    assert_int_equal(weir__loop_file_stat(b->k.loop, &b->op, b->file), 0);
    kit_loop_settle(&b->k);
    assert_true(b->done == 2 && b->op.opened == NULL && b->op.stat.size == 1234);
}

static void an_opened_file_that_cannot_be_counted_is_closed(void **state) {
    (void)state;
    b->wrap_fails = 1;
    assert_int_equal(weir__loop_file_open(b->k.loop, &b->op, NULL, "name", 0), 0);
    kit_loop_settle(&b->k);
    assert_true(b->result == WEIR_ENOMEM && b->dropped == 1 && !b->op.opened);
}

int main(void) {
#define ONE(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        ONE(a_hot_read_is_done_at_once),
        ONE(a_cold_read_is_a_workers),
        ONE(errors_are_codes),
        ONE(an_opened_file_is_counted_on_the_loop),
        ONE(an_opened_file_that_cannot_be_counted_is_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
