/* Refs: living, dying, dead and reused ones, of another loop, and after the loop. Threads:
 * tests/soak/foreign.c. */
#include "kit/embedded.h"
#include "loop/loop.h"
#include "mem/pool.h"
#include "mem/raw.h"

static void turn(struct weir_embedded *e) {
    weir_embedded_hold(e, false);
}

static struct weir_chain words(struct weir_mem *m, const char *text) {
    struct weir_chain c = {0};
    assert_int_equal(weir_chain_write(m, &c, text, strlen(text)), 0);
    return c;
}

static void a_send_by_ref_arrives_with_the_next_turn(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_echo, NULL, NULL);
    struct weir_ref r = weir_chan_ref(weir_embedded_chan(e));
    struct weir_mem *mine = weir_loop_mem(weir_chan_loop(weir_embedded_chan(e)));
    struct weir_chain a = words(mine, "one "), b = words(mine, "two"), none = {0};
    assert_int_equal(weir_send(r, &a), 0);
    assert_int_equal(weir_send(r, &none), 0);
    assert_int_equal(weir_send(r, &b), 0);
    assert_int_equal(a.bytes + b.bytes, 0);
    assert_null(a.first);
    emb_expect_out(e, "");
    turn(e);
    emb_expect_out(e, "one two");
    assert_ptr_equal(weir_chan_find(weir_chan_loop(weir_embedded_chan(e)), r),
                     weir_embedded_chan(e));
    emb_end(e);
}

static void a_close_waits_for_what_was_sent_before(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_echo, NULL, NULL);
    struct weir_ref r = weir_chan_ref(weir_embedded_chan(e));
    struct weir_mem *mine = weir_loop_mem(weir_chan_loop(weir_embedded_chan(e)));
    struct weir_chain a = words(mine, "before"), b = words(mine, "behind");
    assert_int_equal(weir_send(r, &a), 0);
    assert_int_equal(weir_close(r, WEIR_DRAIN), 0);
    assert_int_equal(weir_close(r, WEIR_DRAIN), 0);
    turn(e);
    assert_int_equal(weir_send(r, &b), 0); /* it drains: taken, and dropped on arrival */
    weir_embedded_eof(e);
    emb_expect_out(e, "before");
    assert_string_equal(told(), "close 0;");
    emb_end(e);
}

static void an_abort_replaces_a_drain(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_echo, NULL, NULL);
    struct weir_ref r = weir_chan_ref(weir_embedded_chan(e));
    assert_int_equal(weir_close(r, WEIR_DRAIN), 0);
    assert_int_equal(weir_close(r, WEIR_ABORT), 0);
    assert_int_equal(weir_close(r, WEIR_DRAIN), 0);
    turn(e);
    assert_string_equal(told(), "close ECANCELLED;");
    emb_end(e);
}

static void dead_for_ever(struct weir_ref r, struct weir_loop *l, struct weir_mem *m) {
    struct weir_chain c = words(m, "nobody");
    assert_int_equal(weir_send(r, &c), WEIR_EGONE);
    assert_int_equal(c.bytes, 6); /* untouched */
    weir_chain_fini(&c);
    assert_int_equal(weir_close(r, WEIR_ABORT), WEIR_EGONE);
    if (l)
        assert_null(weir_chan_find(l, r));
}

static void a_dead_ref_stays_dead(void **state) {
    (void)state;
    struct weir_mem *mine = weir_mem_open("mine");
    struct weir_embedded *e = emb_open(&emb_echo, NULL, NULL);
    struct weir_loop *l = weir_chan_loop(weir_embedded_chan(e));
    struct weir_ref r = weir_chan_ref(weir_embedded_chan(e)), none = {0};
    weir_chan_close(weir_embedded_chan(e), WEIR_ABORT);
    turn(e);
    dead_for_ever(r, l, weir_loop_mem(l));
    dead_for_ever(none, l, weir_loop_mem(l));
    dead_for_ever((struct weir_ref){UINT64_MAX}, l, weir_loop_mem(l));
    emb_end(e);
    dead_for_ever(r, NULL, mine);        /* and its loop */
    e = emb_open(&emb_echo, NULL, NULL); /* takes over its slot */
    l = weir_chan_loop(weir_embedded_chan(e));
    struct weir_ref next = weir_chan_ref(weir_embedded_chan(e));
    assert_int_equal(next.v & 0xffffff, r.v & 0xffffff);
    assert_true(next.v != r.v);
    dead_for_ever(r, l, weir_loop_mem(l));
    turn(e);
    assert_int_equal(weir_embedded_state(e), 1);
    emb_end(e);
    weir_mem_close(mine);
}

static void a_ref_of_another_loop_is_not_found_but_works(void **state) {
    (void)state;
    struct weir_embedded *a = emb_open(&emb_echo, NULL, NULL);
    struct weir_embedded *b = emb_open(&emb_echo, NULL, NULL);
    struct weir_ref r = weir_chan_ref(weir_embedded_chan(b));
    assert_null(weir_chan_find(weir_chan_loop(weir_embedded_chan(a)), r));
    struct weir_chain c = words(weir_loop_mem(weir_chan_loop(weir_embedded_chan(b))), "hi");
    assert_int_equal(weir_send(r, &c), 0);
    turn(b);
    emb_expect_out(b, "hi");
    emb_end(b);
    emb_end(a);
}

static void what_dies_on_the_way_is_counted(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_echo, NULL, NULL);
    struct weir_loop *l = weir_chan_loop(weir_embedded_chan(e));
    struct weir_ref r = weir_chan_ref(weir_embedded_chan(e));
    struct weir_chain c = words(weir_loop_mem(l), "lost");
    assert_int_equal(weir_send(r, &c), 0);
    assert_int_equal(weir_close(r, WEIR_DRAIN), 0);
    weir_chan_close(weir_embedded_chan(e), WEIR_ABORT);
    turn(e);
    assert_int_equal(l->counters.dropped_dead, 2);
    emb_expect_out(e, "");
    emb_end(e);
}

static void no_memory_takes_nothing(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_echo, NULL, NULL);
    struct weir_ref r = weir_chan_ref(weir_embedded_chan(e));
    struct weir_mem *m = weir_loop_mem(weir_chan_loop(weir_embedded_chan(e)));
    struct weir_chain c = words(m, "kept");
    weir__mem_fail(m, 1, true);
    weir__mem_raw_fail(1);
    assert_int_equal(weir_send(r, &c), WEIR_ENOMEM);
    assert_int_equal(c.bytes, 4);
    weir__mem_raw_fail(1);
    assert_int_equal(weir_close(r, WEIR_ABORT), 0); /* needs none */
    weir__mem_raw_fail(0);
    weir__mem_fail(m, 0, false);
    weir_chain_fini(&c);
    turn(e);
    assert_string_equal(told(), "close ECANCELLED;");
    emb_end(e);
}

/* Between the loop's last look at its inbox and the end of its channels. */
static void a_closed_inbox_takes_nothing(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_echo, NULL, NULL);
    struct weir_loop *l = weir_chan_loop(weir_embedded_chan(e));
    struct weir_ref r = weir_chan_ref(weir_embedded_chan(e));
    struct weir_chain c = words(weir_loop_mem(l), "kept");
    assert_null(weir__loop_inbox_close(l->inbox));
    assert_int_equal(weir_send(r, &c), WEIR_EGONE);
    assert_int_equal(c.bytes, 4);
    assert_int_equal(weir_close(r, WEIR_DRAIN), WEIR_EGONE);
    weir__loop_inbox_open(l->inbox, l);
    assert_int_equal(weir_send(r, &c), 0);
    assert_int_equal(weir_close(r, WEIR_ABORT), 0); /* the refused one is not in its way */
    turn(e);
    assert_string_equal(told(), "close ECANCELLED;");
    emb_end(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_send_by_ref_arrives_with_the_next_turn, emb_begin),
        cmocka_unit_test_setup(a_close_waits_for_what_was_sent_before, emb_begin),
        cmocka_unit_test_setup(an_abort_replaces_a_drain, emb_begin),
        cmocka_unit_test_setup(a_dead_ref_stays_dead, emb_begin),
        cmocka_unit_test_setup(a_ref_of_another_loop_is_not_found_but_works, emb_begin),
        cmocka_unit_test_setup(what_dies_on_the_way_is_counted, emb_begin),
        cmocka_unit_test_setup(no_memory_takes_nothing, emb_begin),
        cmocka_unit_test_setup(a_closed_inbox_takes_nothing, emb_begin),
    };
    return cmocka_run_group_tests_name("chan/ref", tests, NULL, NULL);
}
