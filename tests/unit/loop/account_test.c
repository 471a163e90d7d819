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
    weir__loop_account_init(&a, NULL);
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
    weir__loop_account_init(&a, NULL);
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
    weir__loop_frame_enter(a, h, 7);
    k->door.now_ns += ns;
    if (inner)
        call(k, inner, inner_ns, NULL, 0);
    weir__loop_frame_leave(a);
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
    assert_int_equal(weir__loop_depth(&k.loop->account), 0);
    kit_loop_close(&k);
}

static uint64_t cpu_ns;

static uint64_t cpu_now(void) {
    return cpu_ns;
}

static void call_cpu(struct kit_loop *k, struct weir__loop_handler *h, uint64_t wall, uint64_t cpu,
                     struct weir__loop_handler *inner) {
    struct weir__loop_account *a = &k->loop->account;
    weir__loop_frame_enter(a, h, 7);
    k->door.now_ns += wall;
    cpu_ns += cpu;
    if (inner)
        call_cpu(k, inner, wall, cpu, NULL);
    weir__loop_frame_leave(a);
}

static void the_cpu_clock_is_looked_at_while_it_is_there(void **state) {
    (void)state;
    struct kit_loop k;
    kit_loop_open(&k);
    struct weir__loop_account *a = &k.loop->account;
    struct weir__loop_handler *outer = weir__loop_intern(a, "outer");
    struct weir__loop_handler *inner = weir__loop_intern(a, "inner");
    cpu_ns = 1;
    call_cpu(&k, outer, 100, 10, inner);
    assert_int_equal(outer->sampled, 1);
    assert_int_equal(outer->cpu_timed, 0);
    a->cpu_now = cpu_now;
    for (unsigned i = 1; i < 65; i++)
        call_cpu(&k, outer, 100, 10, inner);
    assert_int_equal(outer->sampled, 2);
    assert_int_equal(outer->sampled_ns, 200);
    assert_int_equal(outer->cpu_timed, 1);
    assert_int_equal(outer->cpu_ns, 10);
    assert_int_equal(inner->cpu_timed, 1);
    assert_int_equal(inner->cpu_ns, 10);
    for (unsigned i = 65; i < 128; i++)
        call_cpu(&k, outer, 100, 10, NULL);
    weir__loop_frame_enter(a, outer, 7); /* timed */
    a->cpu_now = NULL;
    weir__loop_frame_leave(a);
    assert_int_equal(outer->sampled, 3);
    assert_int_equal(outer->cpu_timed, 1);
    assert_int_equal(a->slow, 0);
    kit_loop_close(&k);
}

static void the_stack_is_told_from_the_inside(void **state) {
    (void)state;
    struct kit_loop k;
    kit_loop_open(&k);
    struct weir__loop_account *a = &k.loop->account;
    struct weir__loop_handler *tls = weir__loop_intern(a, "tls"), *h2 = weir__loop_intern(a, "h2");
    const char *names[3];
    uint64_t ref = 9;
    assert_int_equal(weir__loop_frames(a, names, 3, &ref), 0);
    assert_int_equal(ref, 0);
    weir__loop_frame_enter(a, tls, 7);
    weir__loop_frame_enter(a, h2, 8);
    assert_int_equal(weir__loop_frames(a, names, 3, &ref), 2);
    assert_string_equal(names[0], "h2");
    assert_string_equal(names[1], "tls");
    assert_int_equal(ref, 8);
    assert_int_equal(weir__loop_frames(a, names, 1, &ref), 1);
    weir__loop_frame_leave(a);
    assert_int_equal(weir__loop_frames(a, names, 3, &ref), 1);
    assert_string_equal(names[0], "tls");
    weir__loop_frame_leave(a);
    kit_loop_close(&k);
}

/* Frames beyond the last one are the last one's: entered and left in any mixture of timed ones. */
static void deeper_than_the_stack(void **state) {
    (void)state;
    struct kit_loop k;
    kit_loop_open(&k);
    struct weir__loop_account *a = &k.loop->account;
    struct weir__loop_handler *h = weir__loop_intern(a, "h");
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < WEIR__LOOP_FRAMES_MAX + 5; i++)
            weir__loop_frame_enter(a, h, i);
        assert_int_equal(weir__loop_depth(a), WEIR__LOOP_FRAMES_MAX + 5);
        for (unsigned i = 0; i < WEIR__LOOP_FRAMES_MAX + 5; i++)
            weir__loop_frame_leave(a);
        assert_int_equal(weir__loop_depth(a), 0);
        assert_int_equal(a->slow, 0);
    }
    assert_int_equal(h->calls, 3 * WEIR__LOOP_FRAMES_MAX);
    kit_loop_close(&k);
}

/* A clock that begins at 0 does not make a timed frame one that is not. */
static void time_begins_at_zero(void **state) {
    (void)state;
    struct kit_loop k;
    kit_loop_open(&k);
    struct weir__loop_account *a = &k.loop->account;
    uint64_t now = k.door.now_ns;
    k.door.now_ns = 0;
    call(&k, weir__loop_intern(a, "h"), 10, NULL, 0);
    assert_int_equal(a->slow, 0);
    assert_int_equal(weir__loop_intern(a, "h")->sampled, 1);
    k.door.now_ns = now;
    kit_loop_close(&k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_entry_per_name),
        cmocka_unit_test(a_full_table_counts_the_rest_as_the_loops),
        cmocka_unit_test(one_call_in_64_is_timed),
        cmocka_unit_test(time_of_frames_inside_is_theirs),
        cmocka_unit_test(the_cpu_clock_is_looked_at_while_it_is_there),
        cmocka_unit_test(the_stack_is_told_from_the_inside),
        cmocka_unit_test(deeper_than_the_stack),
        cmocka_unit_test(time_begins_at_zero),
    };
    return cmocka_run_group_tests_name("loop/account", tests, NULL, NULL);
}
