/* Attribution: names, calls, and time that is each frame's own. */
#include "kit/door.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

static void one_entry_per_name(void **state) {
    (void)state;
    static struct weir__loop_account a;
    char same[] = "tls";
    weir__loop_account_init(&a);
    assert_string_equal(a.handlers[0].name, "(loop)");
    struct weir__loop_handler *tls = weir__loop_intern(&a, "tls");
    assert_ptr_equal(weir__loop_intern(&a, same), tls); /* by text, not by address */
    assert_ptr_not_equal(weir__loop_intern(&a, "h2"), tls);
    assert_ptr_equal(weir__loop_intern(&a, "(loop)"), &a.handlers[0]);
    assert_int_equal(a.n_handlers, 3);
}

static void a_full_table_counts_the_rest_as_the_loops(void **state) {
    (void)state;
    static struct weir__loop_account a;
    static char names[WEIR__LOOP_HANDLERS_MAX + 2][8];
    weir__loop_account_init(&a);
    uint64_t before = weir__base_hits(WEIR__SITE_COUNT);
    for (unsigned i = 0; i < WEIR__LOOP_HANDLERS_MAX + 2; i++) {
        snprintf(names[i], sizeof names[i], "h%u", i);
        struct weir__loop_handler *h = weir__loop_intern(&a, names[i]);
        assert_ptr_equal(h, i < WEIR__LOOP_HANDLERS_MAX - 1 ? &a.handlers[i + 1] : &a.handlers[0]);
    }
    assert_ptr_equal(weir__loop_intern(&a, "h7"), &a.handlers[8]);
    assert_int_equal(weir__base_hits(WEIR__SITE_COUNT), before + 3);
}

static void call(struct kit_loop *k, struct weir__loop_handler *h, uint64_t ns,
                 struct weir__loop_handler *inner, uint64_t inner_ns) {
    struct weir__loop_account *a = &k->loop->account;
    weir__loop_frame_enter(a, &k->door.io, h, 7);
    k->door.now_ns += ns;
    if (inner)
        call(k, inner, inner_ns, NULL, 0);
    weir__loop_frame_leave(a, &k->door.io);
}

static void one_call_in_64_is_timed(void **state) {
    (void)state;
    struct kit_loop k;
    kit_loop_open(&k);
    struct weir__loop_handler *h = weir__loop_intern(&k.loop->account, "h");
    for (unsigned i = 0; i < 3 * 64; i++)
        call(&k, h, 10, NULL, 0);
    assert_int_equal(h->calls, 192);
    assert_int_equal(h->sampled, 3);
    assert_int_equal(h->sampled_ns, 30);
    kit_loop_close(&k);
}

static void time_of_frames_inside_is_theirs(void **state) {
    (void)state;
    struct kit_loop k;
    kit_loop_open(&k);
    struct weir__loop_handler *outer = weir__loop_intern(&k.loop->account, "outer");
    struct weir__loop_handler *inner = weir__loop_intern(&k.loop->account, "inner");
    call(&k, inner, 1, NULL, 0); /* the first is sampled: the next, inside, is not */
    call(&k, outer, 100, inner, 1000);
    assert_int_equal(outer->sampled, 1);
    assert_int_equal(outer->sampled_ns, 100);
    assert_int_equal(inner->sampled, 1);
    assert_int_equal(inner->sampled_ns, 1);
    for (unsigned i = 2; i < 64; i++)
        call(&k, inner, 1, NULL, 0);
    call(&k, outer, 100, inner, 1000); /* now only the one inside is */
    assert_int_equal(outer->sampled, 1);
    assert_int_equal(inner->sampled, 2);
    assert_int_equal(inner->sampled_ns, 1001);
    assert_int_equal(k.loop->account.depth, 0);
    kit_loop_close(&k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_entry_per_name),
        cmocka_unit_test(a_full_table_counts_the_rest_as_the_loops),
        cmocka_unit_test(one_call_in_64_is_timed),
        cmocka_unit_test(time_of_frames_inside_is_theirs),
    };
    return cmocka_run_group_tests_name("loop/account", tests, NULL, NULL);
}
