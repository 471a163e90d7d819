#include "world.h"
#include <sys/wait.h>
#include <unistd.h>

static int send_one(struct world *w, struct weir__io_sock *s, struct weir_chain *c,
                    struct weir__io_done *sent) {
    assert_int_equal(w->io[1]->ops->send_zc(w->io[1], s, c), 0);
    do {
        *sent = pulled(w, 1);
    } while (sent->kind != WEIR__IO_SENT);
    assert_int_equal(sent->code, 0);
    return sent->pinned;
}

static void close_all(struct world *w, struct weir__io_sock *s[3]) {
    close_now(w, 0, s[0], true);
    close_now(w, 1, s[1], false);
    close_now(w, 0, s[2], false);
    assert_int_equal(world_close(w), 0);
}

static void some_are_pinned_and_each_lets_go_once(void **state) {
    (void)state;
    unsigned pinned = 0, free_at_once = 0, copied = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct world w;
        struct weir__iosim_options o = {.seed = seed};
        struct weir__io_sock *s[3];
        struct weir_chain c = {0};
        struct weir__io_done sent, d;
        world_open(&w, &o);
        connected(&w, "10.0.0.1:80", s);
        fill(w.mem[1], &c, 0, 100);
        if (send_one(&w, s[1], &c, &sent)) {
            pinned++;
            d = pulled(&w, 1);
            assert_int_equal(d.kind, WEIR__IO_UNPINNED);
            assert_int_equal(d.handle, sent.handle);
            copied += d.copied;
        } else {
            free_at_once++;
        }
        run_dry(&w);
        assert_false(w.io[1]->ops->next(w.io[1], &d));
        weir_chain_fini(&c);
        close_all(&w, s);
    }
    assert_true(pinned > 10 && free_at_once > 5 && copied > 0);
}

static void a_plain_send_is_never_pinned(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct world w;
        struct weir__iosim_options o = {.seed = seed};
        struct weir__io_sock *s[3];
        struct weir_chain c = {0};
        world_open(&w, &o);
        connected(&w, "10.0.0.1:80", s);
        fill(w.mem[1], &c, 0, 100);
        assert_int_equal(w.io[1]->ops->send(w.io[1], s[1], &c), 0);
        assert_false(pulled(&w, 1).pinned);
        weir_chain_fini(&c);
        close_all(&w, s);
    }
}

static void changed_bytes_are_found_out(void **state) {
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        close(STDERR_FILENO);
        for (uint64_t seed = 1; seed <= 20; seed++) {
            struct world w;
            struct weir__iosim_options o = {.seed = seed};
            struct weir__io_sock *s[3];
            struct weir_chain c = {0};
            struct weir__io_done d;
            world_open(&w, &o);
            connected(&w, "10.0.0.1:80", s);
            fill(w.mem[1], &c, 0, 100);
            if (!send_one(&w, s[1], &c, &d))
                continue;
            c.first->slice.p[50] ^= 1;
            pull(&w, 1, &d);
            _exit(0);
        }
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(some_are_pinned_and_each_lets_go_once),
        cmocka_unit_test(a_plain_send_is_never_pinned),
        cmocka_unit_test(changed_bytes_are_found_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
