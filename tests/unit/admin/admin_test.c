#include "unit/admin/support.h"
#include "mem/raw.h"

static void every_loop_answers_its_note(void **state) {
    (void)state;
    begin();
    for (unsigned i = 0; i < LOOPS; i++)
        assert_int_equal(admin->notes[i].told.at_ns, 0);
    run_ms(100);
    for (unsigned i = 0; i < LOOPS; i++) {
        const struct weir__admin_note *note = &admin->notes[i];
        assert_false(note->away);
        assert_true(note->told.at_ns > 0);
        assert_int_equal(note->told.queue_depth, 10 + i);
        assert_int_equal(note->told.queue_depth_max, 100);
    }
    uint64_t first = admin->notes[0].told.at_ns;
    run_ms(1000);
    assert_true(admin->notes[0].told.at_ns > first);
    end();
}

static int look(struct weir_loop *l, void *user) {
    (void)l;
    *(const struct weir__admin_snapshot **)user = weir__admin_look(admin);
    return 0;
}

static const struct weir__admin_snapshot *look_now(void) {
    const struct weir__admin_snapshot *now;
    assert_int_equal(weir__loop_visit(group->loops[HOME], look, &now), 0);
    assert_int_equal(now->n_loops, LOOPS);
    return now;
}

static void history_holds_a_minute(void **state) {
    (void)state;
    begin();
    assert_int_equal(admin->n_history, 1);
    assert_null(weir__admin_past(admin, look_now()->at_ns, 60)); /* it is too young */
    run_ms(10500);
    uint64_t now = admin->history[admin->newest]->at_ns + S / 2;
    assert_int_equal(admin->n_history, 11);
    const struct weir__admin_snapshot *past = weir__admin_past(admin, now, 60);
    assert_true(now - past->at_ns > 10ULL * S && now - past->at_ns < 11ULL * S);
    past = weir__admin_past(admin, now, 4);
    assert_true(now - past->at_ns > 3ULL * S && now - past->at_ns <= 4ULL * S);
    past = weir__admin_past(admin, now, 1); /* the youngest of those that are old enough */
    assert_true(now - past->at_ns >= S && now - past->at_ns < 2ULL * S);
    assert_int_equal(past->loops[0].told.queue_depth, 10);
    run_ms(100000);
    assert_int_equal(admin->n_history, WEIR__ADMIN_HISTORY);
    now = admin->history[admin->newest]->at_ns;
    past = weir__admin_past(admin, now, 1000);
    assert_true(now - past->at_ns > 58ULL * S && now - past->at_ns < 61ULL * S);
    end();
}

static void a_note_that_lies_for_long_means_a_stuck_loop(void **state) {
    (void)state;
    begin();
    run_ms(6100);
    uint64_t now = look_now()->at_ns, limit = (uint64_t)WEIR__ADMIN_STUCK_MS * 1000000;
    struct weir__admin_note *note = &admin->notes[0];
    assert_false(weir__admin_stuck(admin, 0, now));
    note->away = true;
    note->sent_ns = now - limit;
    assert_false(weir__admin_stuck(admin, 0, now));
    assert_true(weir__admin_stuck(admin, 0, now + 1));
    note->sent_ns = now + 1; /* just sent, by a clock that went on meanwhile */
    assert_false(weir__admin_stuck(admin, 0, now));
    assert_false(weir__admin_stuck(admin, 1, now));
    note->away = false;
    assert_false(weir__admin_draining(admin));
    weir_group_stop(group, 0);
    assert_true(weir__admin_draining(admin));
    end();
}

static void a_start_is_told_from_others(void **state) {
    (void)state;
    begin();
    assert_int_equal(strlen(admin->start_id), 16);
    assert_int_equal(strspn(admin->start_id, "0123456789abcdef"), 16);
    end();
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    struct weir__admin *a = NULL;
    begin();
    for (uint64_t nth = 1; !a; nth++) {
        assert_true(nth < 100);
        weir__mem_raw_fail(nth);
        a = weir__admin_new(group, group->loops[HOME], tell);
        weir__mem_raw_fail(0);
    }
    weir__admin_free(a);
    weir__admin_free(NULL);
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_loop_answers_its_note),
        cmocka_unit_test(history_holds_a_minute),
        cmocka_unit_test(a_note_that_lies_for_long_means_a_stuck_loop),
        cmocka_unit_test(a_start_is_told_from_others),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
