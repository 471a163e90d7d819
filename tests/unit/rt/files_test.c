/* Real files: opened and examined on a worker, read hot and cold, and every way to fail. */
#include "rt/files.h"
#include "kit/door.h"
#include "loop/loop.h"
#include "mem/file.h"
#include "os/fault.h"
#include "rt/workers.h"
#include "weir/error.h"
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static struct bench {
    struct kit_loop k;
    struct weir__rt_workers *workers;
    struct weir__loop_files files;
    struct weir__loop_file_op op;
    char dir[64];
    bool done;
    int64_t result;
} b;

static void done(struct weir_loop *l, struct weir__loop_file_op *op, int64_t result) {
    (void)l, (void)op;
    b.done = true;
    b.result = result;
}

static char *path(const char *name) {
    static char text[128];
    snprintf(text, sizeof text, "%s/%s", b.dir, name);
    return text;
}

static void put(const char *name, const char *text) {
    FILE *f = fopen(path(name), "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static int begin(void **state) {
    (void)state;
    memset(&b, 0, sizeof b);
    snprintf(b.dir, sizeof b.dir, "/tmp/weir-files-XXXXXX");
    assert_non_null(mkdtemp(b.dir));
    put("hello", "hello, file");
    assert_int_equal(symlink("hello", path("link")), 0);
    kit_loop_open(&b.k);
    assert_int_equal(weir__rt_workers_new(2, &b.workers), 0);
    weir__rt_files_init(&b.files);
    b.k.loop->env.workers = &b.workers->base;
    b.k.loop->env.files = &b.files;
    b.op.done = done;
    return 0;
}

static int end(void **state) {
    (void)state;
    weir__os_fault_set(NULL);
    unlink(path("hello"));
    unlink(path("link"));
    unlink(path("pipe"));
    assert_int_equal(rmdir(b.dir), 0);
    kit_loop_close(&b.k);
    weir__rt_workers_free(b.workers);
    return 0;
}

static int64_t wait_done(int rc) {
    if (rc < 0)
        return rc;
    assert_int_equal(rc, 0);
    while (!b.done) {
        kit_loop_settle(&b.k);
        sched_yield();
    }
    b.done = false;
    return b.result;
}

static int64_t open_it(struct weir_file *dir, const char *name, unsigned flags) {
    return wait_done(weir__loop_file_open(b.k.loop, &b.op, dir, name, flags));
}

static struct weir_file *opened(const char *name) {
    assert_int_equal(open_it(NULL, path(name), 0), 0);
    return b.op.opened;
}

static int64_t read_it(struct weir_file *f, uint64_t off, char *into, size_t n) {
    struct weir_slice s = {.p = (uint8_t *)into, .n = n};
    int rc = weir__loop_file_read(b.k.loop, &b.op, f, off, s, false);
    return rc == 1 ? b.op.result : wait_done(rc);
}

static void open_says_what_it_found(void **state) {
    (void)state;
    struct weir_file *f = opened("hello");
    assert_true(f->size == 11 && b.op.stat.size == 11 && b.op.stat.regular &&
                !b.op.stat.directory && b.op.stat.mtime_ns && b.op.stat.inode);
    weir_file_release(f);
    assert_int_equal(open_it(NULL, path("nothing"), 0), WEIR_ESYS(ENOENT));
    assert_null(b.op.opened);
    assert_int_equal(open_it(NULL, path("link"), WEIR__LOOP_FILE_NOFOLLOW), WEIR_ESYS(ELOOP));
    assert_int_equal(open_it(NULL, path("hello"), WEIR__LOOP_FILE_DIRECTORY), WEIR_ESYS(ENOTDIR));
}

static void names_below_a_directory(void **state) {
    (void)state;
    assert_int_equal(open_it(NULL, b.dir, WEIR__LOOP_FILE_DIRECTORY), 0);
    struct weir_file *dir = b.op.opened;
    assert_true(b.op.stat.directory);
    assert_int_equal(open_it(dir, "link", 0), 0);
    weir_file_release(b.op.opened);
    weir_file_release(dir);
}

static void a_fifo_does_not_keep_a_worker(void **state) {
    (void)state;
    assert_int_equal(mkfifo(path("pipe"), 0600), 0);
    struct weir_file *f = opened("pipe");
    assert_false(b.op.stat.regular);
    weir_file_release(f);
}

static void read_what_is_there(void **state) {
    (void)state;
    char text[32];
    struct weir_file *f = opened("hello");
    assert_int_equal(read_it(f, 7, text, sizeof text), 4);
    assert_memory_equal(text, "file", 4);
    assert_int_equal(read_it(f, 11, text, sizeof text), 0);
    put("hello", "short"); /* it shrinks */
    assert_int_equal(read_it(f, 7, text, sizeof text), 0);
    assert_int_equal(wait_done(weir__loop_file_stat(b.k.loop, &b.op, f)), 0);
    assert_int_equal(b.op.stat.size, 5);
    weir_file_release(f);
}

/* Where it cannot be read without waiting, a worker does. */
static void cold_ones_come_from_a_worker(void **state) {
    (void)state;
    static const int errors[] = {EAGAIN, EOPNOTSUPP};
    char text[32];
    struct weir_file *f = opened("hello");
    for (unsigned i = 0; i < 2; i++) {
        struct weir__os_fault cold = {.kind = WEIR__OS_READ, .nth = 1, .error = errors[i]};
        struct weir_slice s = {.p = (uint8_t *)text, .n = sizeof text};
        uint64_t jobs = b.workers->base.jobs;
        weir__os_fault_set(&cold); /* of this thread: the worker's read is not touched */
        assert_int_equal(weir__loop_file_read(b.k.loop, &b.op, f, 0, s, true), WEIR_EAGAIN);
        cold.seen = 0;
        assert_int_equal(read_it(f, 0, text, sizeof text), 11);
        assert_memory_equal(text, "hello, file", 11);
        assert_int_equal(b.workers->base.jobs, jobs + 1);
        weir__os_fault_set(NULL);
    }
    struct weir__os_fault broken = {.kind = WEIR__OS_READ, .nth = 1, .error = EIO};
    weir__os_fault_set(&broken);
    assert_int_equal(read_it(f, 0, text, sizeof text), WEIR_EIO);
    weir_file_release(f);
}

/* On this thread, where faults can be planned. */
static void a_file_that_cannot_be_examined_is_closed(void **state) {
    (void)state;
    struct weir__loop_file_op op = {.kind = WEIR__LOOP_FILE_OPEN, .path = path("hello")};
    struct weir__os_fault f = {.kind = WEIR__OS_STAT, .nth = 1, .error = EIO};
    int before = dup(0);
    close(before);
    weir__os_fault_set(&f);
    assert_int_equal(b.files.ops->run(&b.files, &op), WEIR_EIO);
    weir__os_fault_set(NULL);
    int after = dup(0);
    close(after);
    assert_int_equal(after, before); /* no descriptor was left */
    f = (struct weir__os_fault){.kind = WEIR__OS_OPEN, .nth = 1, .error = EMFILE};
    weir__os_fault_set(&f);
    assert_int_equal(b.files.ops->run(&b.files, &op), WEIR_EFDS);
}

int main(void) {
#define ONE(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        ONE(open_says_what_it_found),       ONE(names_below_a_directory),
        ONE(a_fifo_does_not_keep_a_worker), ONE(read_what_is_there),
        ONE(cold_ones_come_from_a_worker),  ONE(a_file_that_cannot_be_examined_is_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
