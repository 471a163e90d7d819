#include "os/memory.h"
#include "os/fault.h"
#include "os/file.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void maps_zeroed_aligned_pages(void **state) {
    (void)state;
    size_t page = weir__os_page_size();
    for (size_t align = 0; align <= (4u << 20); align = align ? align * 4 : page) {
        for (size_t bytes = 1; bytes <= (1u << 20); bytes *= 16) {
            unsigned char *p = weir__os_map(bytes, align);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % (align ? align : page), 0);
            assert_int_equal(p[0] | p[bytes - 1], 0);
            memset(p, 1, bytes);
            weir__os_unmap(p, bytes);
        }
    }
}

static long mapped_pages(void) {
    char text[128];
    assert_true(weir__os_file_text("/proc/self/statm", text, sizeof text) > 0);
    return strtol(text, NULL, 10);
}

/* The ends that alignment cuts off go back at once, and unmap takes the block. */
static void aligned_blocks_leave_nothing_behind(void **state) {
    (void)state;
    enum { BLOCKS = 8 };
    size_t page = weir__os_page_size();
    void *block[BLOCKS];
    long before = mapped_pages();
    for (int i = 0; i < BLOCKS; i++)
        block[i] = weir__os_map(3 * page, 1u << 20);
    assert_int_equal(mapped_pages() - before, 3 * BLOCKS);
    for (int i = 0; i < BLOCKS; i++)
        weir__os_unmap(block[i], 3 * page);
    assert_int_equal(mapped_pages(), before);
}

static void forget_gives_zeroes(void **state) {
    (void)state;
    size_t page = weir__os_page_size();
    unsigned char *p = weir__os_map(2 * page, 0);
    memset(p, 7, 2 * page);
    weir__os_map_huge(p, 2 * page);
    weir__os_map_forget(p, page);
    assert_int_equal(p[0], 0);
    assert_int_equal(p[page], 7);
    assert_int_equal(weir__os_map_guard(p + page, page), 0);
    p[0] = 1;
    weir__os_unmap(p, 2 * page);
    assert_true(weir__os_map_guard(p + 1, page) < 0);
}

static void refuses(void **state) {
    (void)state;
    struct weir__os_fault f = {.kind = WEIR__OS_ANY, .nth = 1, .error = ENOMEM, .persist = true};
    assert_null(weir__os_map(0, 0));
    assert_null(weir__os_map(SIZE_MAX, 0));
    assert_null(weir__os_map(SIZE_MAX / 2, 1u << 20));
    weir__os_fault_set(&f);
    assert_null(weir__os_map(4096, 0));
    assert_int_equal(weir__os_map_guard(NULL, 0), -ENOMEM);
    weir__os_fault_set(NULL);
}

static void what_it_costs_is_counted(void **state) {
    struct weir__base_pause p = {0};
    (void)state;
    weir__os_map_watch(&p);
    void *a = weir__os_map(4096, 0), *b = weir__os_map(4096, 0);
    weir__os_map_watch(NULL);
    void *c = weir__os_map(4096, 0);
    assert_int_equal(p.count, 2);
    assert_true(p.longest_ns <= p.total_ns && p.total_ns <= 2 * p.longest_ns);
    weir__os_unmap(a, 4096);
    weir__os_unmap(b, 4096);
    weir__os_unmap(c, 4096);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_zeroed_aligned_pages),
        cmocka_unit_test(aligned_blocks_leave_nothing_behind),
        cmocka_unit_test(forget_gives_zeroes),
        cmocka_unit_test(refuses),
        cmocka_unit_test(what_it_costs_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
