#include "os/file.h"
#include "os/fault.h"
#include "os/sock.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>

static char name[64];

static int fresh(const char *content) {
    snprintf(name, sizeof name, "/tmp/weir-file-test-%d", (int)getpid());
    int fd = weir__os_file_open(AT_FDCWD, name, O_RDWR | O_CREAT | O_TRUNC);
    assert_true(fd >= 0);
    assert_int_equal(weir__os_file_write(fd, content, strlen(content)), strlen(content));
    return fd;
}

static void reads_where_it_is_told(void **state) {
    (void)state;
    struct weir__os_stat s;
    char buf[16];
    int fd = fresh("0123456789");
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(weir__os_file_stat(fd, &s), 0);
    assert_true(s.size == 10 && s.regular && !s.directory && s.inode && s.mtime_ns);
    assert_int_equal(weir__os_file_read(fd, buf, 4, 3), 4);
    assert_memory_equal(buf, "3456", 4);
    assert_int_equal(weir__os_file_read(fd, buf, 16, 8), 2);
    assert_int_equal(weir__os_file_read(fd, buf, 16, 10), 0);
    ssize_t n = weir__os_file_read_nowait(fd, buf, 4, 2);
    assert_true(n == 4 || n == -EAGAIN || n == -EOPNOTSUPP);
    if (n == 4)
        assert_memory_equal(buf, "2345", 4);
    weir__os_close(fd);
    assert_int_equal(weir__os_file_unlink(name), 0);
    assert_int_equal(weir__os_file_unlink(name), -ENOENT);
    int dir = weir__os_file_open(AT_FDCWD, "/tmp", O_RDONLY | O_DIRECTORY);
    assert_int_equal(weir__os_file_stat(dir, &s), 0);
    assert_true(s.directory && !s.regular);
    weir__os_close(dir);
}

static void text_needs_room_for_its_zero(void **state) {
    (void)state;
    char buf[16];
    weir__os_close(fresh("12345"));
    assert_int_equal(weir__os_file_text(name, buf, 6), 5);
    assert_string_equal(buf, "12345");
    assert_int_equal(weir__os_file_text(name, buf, 5), -EFBIG);
    struct weir__os_fault f = {.kind = WEIR__OS_READ, .nth = 1, .persist = true, .short_max = 1};
    weir__os_fault_set(&f);
    assert_int_equal(weir__os_file_text(name, buf, 16), 5);
    weir__os_fault_set(NULL);
    assert_string_equal(buf, "12345");
    weir__os_file_unlink(name);
    assert_int_equal(weir__os_file_text(name, buf, 16), -ENOENT);
    assert_true(weir__os_file_text("/proc/self/stat", (char[4096]){0}, 4096) > 10);
}

static void every_call_can_fail(void **state) {
    (void)state;
    struct weir__os_stat s;
    char buf[16];
    weir__os_close(fresh("12345"));
    struct weir__os_fault f = {.kind = WEIR__OS_ANY, .nth = 1, .error = EIO, .persist = true};
    weir__os_fault_set(&f);
    assert_int_equal(weir__os_file_open(AT_FDCWD, name, O_RDONLY), -EIO);
    assert_int_equal(weir__os_file_stat(0, &s), -EIO);
    assert_int_equal(weir__os_file_read(0, buf, 1, 0), -EIO);
    assert_int_equal(weir__os_file_read_nowait(0, buf, 1, 0), -EIO);
    assert_int_equal(weir__os_file_write(-1, buf, 1), -EIO);
    f.kind = WEIR__OS_READ;
    assert_int_equal(weir__os_file_text(name, buf, 16), -EIO);
    weir__os_fault_set(NULL);
    assert_int_equal(weir__os_file_stat(-1, &s), -EBADF);
    assert_int_equal(weir__os_file_read(-1, buf, 1, 0), -EBADF);
    assert_int_equal(weir__os_file_write(-1, buf, 1), -EBADF);
    weir__os_file_unlink(name);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_where_it_is_told),
        cmocka_unit_test(text_needs_room_for_its_zero),
        cmocka_unit_test(every_call_can_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
