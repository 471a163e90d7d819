#include "mem/file.h"
#include "mem/pool.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

struct closing {
    int64_t handle;
    unsigned times;
};

static void note_close(int64_t handle, void *user) {
    struct closing *c = user;
    c->handle = handle;
    c->times++;
}

static int enter(void **state) {
    *state = weir__mem_pool_new("test");
    weir__mem_enter(*state);
    return *state ? 0 : -1;
}

static int leave(void **state) {
    return (int)weir__mem_pool_free(*state);
}

static void the_last_reference_closes_once(void **state) {
    struct closing c = {0};
    struct weir_file *f = weir__mem_file_new(*state, 42, 1000, note_close, &c);
    assert_int_equal(f->size, 1000);
    struct weir_chain chain = {0};
    assert_int_equal(weir_chain_add_file(*state, &chain, f, 10, 20), 0);
    assert_int_equal(weir_chain_add_file(*state, &chain, f, 100, 0), 0);
    assert_ptr_equal(weir_file_ref(f), f);
    weir_file_release(f);
    weir_file_release(f);
    assert_int_equal(c.times, 0);
    weir_chain_drop(&chain, 20);
    assert_int_equal(c.times, 1);
    assert_int_equal(c.handle, 42);
    weir_file_release(NULL);
}

static void a_descriptor_is_taken_over(void **state) {
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    weir__mem_fail(*state, 1, false);
    assert_null(weir_file_new(*state, fd, 0));
    assert_true(fcntl(fd, F_GETFD) >= 0);
    struct weir_file *f = weir_file_new(*state, fd, 0);
    assert_non_null(f);
    weir_file_release(f);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_int_equal(errno, EBADF);
}

static void *fini_chain(void *chain) {
    weir_chain_fini(chain);
    return NULL;
}

static void regions_may_end_on_other_threads(void **state) {
    enum { THREADS = 3, ROUNDS = 50 };
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct closing c = {0};
        struct weir_file *f = weir__mem_file_new(*state, 7, 100, note_close, &c);
        struct weir_chain chains[THREADS] = {0};
        pthread_t threads[THREADS];
        for (unsigned t = 0; t < THREADS; t++) {
            for (unsigned i = 0; i < 20; i++)
                assert_int_equal(weir_chain_add_file(*state, &chains[t], f, i, 5), 0);
            weir_chain_share(&chains[t]);
        }
        weir_file_release(f);
        for (unsigned t = 0; t < THREADS; t++)
            assert_int_equal(pthread_create(&threads[t], NULL, fini_chain, &chains[t]), 0);
        for (unsigned t = 0; t < THREADS; t++)
            pthread_join(threads[t], NULL);
        assert_int_equal(c.times, 1);
        assert_int_equal(weir__mem_collect(*state), THREADS * 20 + 1);
        assert_int_equal(weir_mem_live(*state), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_last_reference_closes_once, enter, leave),
        cmocka_unit_test_setup_teardown(a_descriptor_is_taken_over, enter, leave),
        cmocka_unit_test_setup_teardown(regions_may_end_on_other_threads, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
