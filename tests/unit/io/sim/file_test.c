#include "world.h"
#include "io/sim/net.h"
#include "mem/file.h"

static void the_lowest_free_handle_is_used_again(void **state) {
    (void)state;
    struct world w;
    struct weir__io_listen o = {.handle = -1};
    struct weir__io_sock *s[3];
    intptr_t handle[3];
    world_open(&w, NULL);
    for (int i = 0; i < 3; i++) {
        o.addr = addr("10.0.0.1:0");
        assert_int_equal(w.io[0]->ops->listen(w.io[0], &o, NULL, &s[i]), 0);
        handle[i] = w.io[0]->ops->handle(w.io[0], s[i]);
        assert_int_equal(handle[i], WEIR__IOSIM_HANDLE_MIN + i);
    }
    close_now(&w, 0, s[0], false);
    assert_int_equal(w.io[0]->ops->listen(w.io[0], &o, NULL, &s[0]), 0);
    assert_int_equal(w.io[0]->ops->handle(w.io[0], s[0]), handle[0]);
    for (int i = 0; i < 3; i++)
        close_now(&w, 0, s[i], false);
    assert_null(weir__iosim_handle_file(w.net, handle[0]));
    assert_null(weir__iosim_handle_file(w.net, -1));
    assert_int_equal(world_close(&w), 0);
}

static void a_handle_nobody_took_is_a_leak(void **state) {
    (void)state;
    struct world w;
    struct weir_addr at = addr("10.0.0.1:80");
    world_open(&w, NULL);
    struct weir__io_sock *l = listen_on(&w, 0, "10.0.0.1:80");
    weir__iosim_dial(w.net, &at);
    assert_int_equal(w.io[0]->ops->accept_arm(w.io[0], l, 1), 0);
    assert_false(pulled(&w, 0).last);
    close_now(&w, 0, l, false);
    assert_int_equal(weir__iosim_open(w.net), 1);
    assert_int_equal(world_close(&w), 1);
}

static void contents_are_described_or_count_up(void **state) {
    (void)state;
    struct world w;
    uint8_t out[8];
    world_open(&w, NULL);
    struct weir_file *f = weir__mem_file_new(w.mem[0], -1, 300, NULL, NULL);
    assert_int_equal(weir__iosim_file_bytes(w.net, f), 300);
    assert_int_equal(weir__iosim_file_read(w.net, f, 296, out, 8), 4);
    assert_int_equal(out[3], (uint8_t)299);
    weir__iosim_file_content(w.net, f, "abc", 3);
    assert_int_equal(weir__iosim_file_read(w.net, f, 1, out, 8), 2);
    assert_memory_equal(out, "bc", 2);
    assert_int_equal(weir__iosim_file_read(w.net, f, 3, out, 8), 0);
    weir__iosim_file_forget(w.net, f);
    weir__iosim_file_forget(w.net, f);
    assert_int_equal(weir__iosim_file_bytes(w.net, f), 300);
    weir_file_release(f);
    assert_int_equal(world_close(&w), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_free_handle_is_used_again),
        cmocka_unit_test(a_handle_nobody_took_is_a_leak),
        cmocka_unit_test(contents_are_described_or_count_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
