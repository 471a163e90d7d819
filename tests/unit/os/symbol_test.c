/* Names for addresses: static functions, offsets, libraries, nothing at all. */
#include "os/symbol.h"
#include "base/compiler.h"
#include "os/fault.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

WEIR_NOINLINE static int a_static_function(int x) {
    __asm__ volatile("");
    return x + 1;
}

static const char *name(struct weir__os_symbols *s, uintptr_t at, bool offset) {
    static char out[256];
    size_t n = weir__os_symbols_name(s, at, offset, out, sizeof out);
    assert_int_equal(n, strlen(out));
    return out;
}

static void functions_of_the_program(void **state) {
    struct weir__os_symbols *s;
    (void)state;
    assert_int_equal(a_static_function(1), 2);
    assert_int_equal(weir__os_symbols_new(&s), 0);
    uintptr_t at = (uintptr_t)a_static_function;
    assert_string_equal(name(s, at, false), "a_static_function");
    assert_string_equal(name(s, at, true), "a_static_function+0x0");
    assert_string_equal(name(s, at + 3, true), "a_static_function+0x3");
    assert_string_equal(name(s, (uintptr_t)functions_of_the_program + 1, false),
                        "functions_of_the_program");
    weir__os_symbols_free(s);
}

static void functions_of_libraries(void **state) {
    struct weir__os_symbols *s;
    (void)state;
    assert_int_equal(weir__os_symbols_new(&s), 0);
    const char *found = name(s, (uintptr_t)_cmocka_run_group_tests, false);
    assert_string_equal(found, "_cmocka_run_group_tests");
    weir__os_symbols_free(s);
}

static void addresses_without_a_name(void **state) {
    struct weir__os_symbols *s;
    char small[4];
    int here;
    (void)state;
    assert_int_equal(weir__os_symbols_new(&s), 0);
    assert_string_equal(name(s, 0x10, true), "0x10");
    assert_string_equal(name(s, 0x10, false), "0x10");
    assert_int_equal(strncmp(name(s, (uintptr_t)&here, false), "0x", 2), 0); /* not code */
    assert_int_equal(weir__os_symbols_name(s, (uintptr_t)a_static_function, false, small, 4), 3);
    assert_string_equal(small, "a_s");
    weir__os_symbols_free(s);
}

static void lines_of_maps(void **state) {
    struct weir__os_mapping m;
    char good[] = "55d0a000-55d0b000 r-xp 00002000 08:01 1234                       /usr/bin/a b";
    char bare[] = "7ffc000-7ffd000 rw-p 00000000 00:00 0 ";
    static const char *const bad[] = {"",
                                      "x",
                                      "1000-",
                                      "1000-2000",
                                      "1000-2000 r-x 0 0:0 0",
                                      "2000-1000 r-xp 00000000 00:00 0 /a",
                                      "1000-2000 r-xp zz"};
    (void)state;
    assert_true(weir__os_mapping_parse(good, &m));
    assert_int_equal(m.low, 0x55d0a000);
    assert_int_equal(m.high, 0x55d0b000);
    assert_int_equal(m.offset, 0x2000);
    assert_true(m.executable);
    assert_string_equal(m.path, "/usr/bin/a b");
    assert_true(weir__os_mapping_parse(bare, &m));
    assert_false(m.executable);
    assert_string_equal(m.path, "");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char line[64];
        snprintf(line, sizeof line, "%s", bad[i]);
        assert_false(weir__os_mapping_parse(line, &m));
    }
}

/* Whatever cannot be read: a coarser name, and nothing is kept. */
static void every_failure_has_an_answer(void **state) {
    static const enum weir__os_kind kinds[] = {WEIR__OS_MAP, WEIR__OS_OPEN, WEIR__OS_READ};
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        for (unsigned nth = 1; nth < 30; nth++) {
            struct weir__os_fault f = {.kind = kinds[k], .nth = nth, .error = ENOMEM};
            struct weir__os_symbols *s;
            weir__os_fault_set(&f);
            int rc = weir__os_symbols_new(&s);
            if (rc == 0) {
                const char *found = name(s, (uintptr_t)a_static_function, false);
                assert_true(strstr(found, "a_static_function") || strstr(found, "symbol"));
                weir__os_symbols_free(s);
            } else {
                assert_int_equal(rc, -ENOMEM);
            }
            weir__os_fault_set(NULL);
        }
    }
}

/* Of a file that is gone the kernel says "PATH (deleted)": what stands there now may be a FIFO, and
 * nobody ever writes to it. */
static void what_was_replaced_is_not_waited_for(void **state) {
    char path[] = "/tmp/weir-symbol-XXXXXX", other[64];
    struct weir__os_symbols *s;
    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 4096), 0);
    void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    unlink(path);
    close(fd);
    snprintf(other, sizeof other, "%s (deleted)", path);
    assert_int_equal(mkfifo(other, 0600), 0);
    if (p != MAP_FAILED) { /* a /tmp without execution */
        assert_int_equal(weir__os_symbols_new(&s), 0);
        assert_non_null(strstr(name(s, (uintptr_t)p, false), "(deleted)"));
        weir__os_symbols_free(s);
        munmap(p, 4096);
    }
    unlink(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_the_program),
        cmocka_unit_test(functions_of_libraries),
        cmocka_unit_test(addresses_without_a_name),
        cmocka_unit_test(lines_of_maps),
        cmocka_unit_test(every_failure_has_an_answer),
        cmocka_unit_test(what_was_replaced_is_not_waited_for),
    };
    return cmocka_run_group_tests_name("os/symbol", tests, NULL, NULL);
}
