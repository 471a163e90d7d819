#include "io/gather.h"
#include "mem/pool.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static struct weir_mem *mem;

static struct weir_chain chain(unsigned parts, size_t each) {
    struct weir_chain c = {0};
    for (unsigned i = 0; i < parts; i++) {
        struct weir_slice s;
        assert_int_equal(weir_slice_new(mem, each, &s), 0);
        assert_int_equal(weir_chain_add(mem, &c, &s), 0);
    }
    return c;
}

static void parts_become_iovecs(void **state) {
    (void)state;
    struct iovec iov[3];
    struct weir_chain c = chain(3, 10);
    assert_int_equal(weir__io_gather(c.first, 4, iov, 3), 3);
    assert_ptr_equal(iov[0].iov_base, c.first->slice.p + 4);
    assert_int_equal(iov[0].iov_len, 6);
    assert_int_equal(iov[2].iov_len, 10);
    assert_int_equal(weir__io_gather(c.first, 0, iov, 2), -1);
    assert_int_equal(weir__io_gather(NULL, 0, iov, 0), 0);
    struct weir_file *f = weir_file_new(mem, -1, 100);
    assert_int_equal(weir_chain_add_file(mem, &c, f, 0, 100), 0);
    weir_file_release(f);
    assert_int_equal(weir__io_gather(c.first, 0, iov, 3), -1);
    weir_chain_fini(&c);
}

static void messages_keep_to_the_contract(void **state) {
    (void)state;
    struct weir__io_message m[WEIR__IO_MESSAGES_MAX] = {0};
    for (int i = 0; i < WEIR__IO_MESSAGES_MAX; i++)
        m[i].to.kind = WEIR__ADDR_IP4;
    assert_true(weir__io_messages_fit(m, 1, true));
    assert_true(weir__io_messages_fit(m, WEIR__IO_MESSAGES_MAX, true));
    assert_false(weir__io_messages_fit(m, 0, true));
    assert_false(weir__io_messages_fit(m, WEIR__IO_MESSAGES_MAX + 1, true));
    m[1].to.kind = WEIR__ADDR_NONE;
    assert_true(weir__io_messages_fit(m, 1, true));
    assert_false(weir__io_messages_fit(m, 2, true));
    m[0].chain = chain(WEIR__IO_SEND_SLICES_MAX, 10);
    m[0].segment_bytes = 10;
    assert_true(weir__io_messages_fit(m, 1, true));
    assert_false(weir__io_messages_fit(m, 1, false)); /* nothing to cut it */
    m[0].segment_bytes = 9;
    assert_false(weir__io_messages_fit(m, 1, true));
    m[0].segment_bytes = 0;
    struct weir_chain one = chain(1, 10);
    weir_chain_append(&m[0].chain, &one);
    assert_false(weir__io_messages_fit(m, 1, true));
    weir_chain_fini(&m[0].chain);
    m[0].chain = chain(5, 65536);
    assert_false(weir__io_messages_fit(m, 1, true));
    weir_chain_fini(&m[0].chain);
}

static void handles_keep_to_the_contract(void **state) {
    (void)state;
    struct weir__io_fds m = {.n = 1, .n_handles = WEIR__IO_HANDLES_MAX};
    assert_true(weir__io_fds_fit(&m));
    m.n_handles++;
    assert_false(weir__io_fds_fit(&m));
    m.n_handles = 0;
    m.n = WEIR__IO_FDS_BYTES_MAX;
    assert_true(weir__io_fds_fit(&m));
    m.n++;
    assert_false(weir__io_fds_fit(&m));
    m.n = 0;
    assert_false(weir__io_fds_fit(&m));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_become_iovecs),
        cmocka_unit_test(messages_keep_to_the_contract),
        cmocka_unit_test(handles_keep_to_the_contract),
    };
    mem = weir__mem_pool_new("test");
    weir__mem_enter(mem);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    weir__mem_enter(NULL);
    return failed || weir__mem_pool_free(mem) > 0;
}
