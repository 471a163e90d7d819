/* Each finding from a table of numbers: what provokes it, and what is near it and does not. */
#include "admin/finding.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { LOOPS = 4, S = 1000000000, MS = 1000000 };

/* A healthy server under full load: as many loops as CPUs, all busy, nothing idle. */
struct scene {
    struct weir__admin_snapshot *before, *after;
    struct weir__admin_turns turns;
    struct weir__admin_finding found[WEIR__ADMIN_FINDINGS_MAX];
    unsigned n;
};

static struct weir__admin_snapshot *snapshot_of(unsigned loops) {
    struct weir__admin_snapshot *s = calloc(1, sizeof *s + LOOPS * sizeof s->loops[0]);
    assert_non_null(s);
    s->n_loops = loops;
    s->process.cpus = LOOPS;
    s->process.idle_ns = 100ULL * S;
    s->at_ns = 50ULL * S;
    s->long_turn_ns = 100ULL * MS;
    return s;
}

static void healthy(struct scene *s, unsigned loops, unsigned seconds) {
    *s = (struct scene){.before = snapshot_of(loops), .after = snapshot_of(loops)};
    s->after->at_ns += (uint64_t)seconds * S;
    for (unsigned i = 0; i < loops; i++) {
        struct weir__admin_loop *l = &s->after->loops[i];
        l->stats.busy_ns = l->stats.cpu_ns = (uint64_t)seconds * S / 100 * 99;
        l->stats.channels = 25;
        l->stats.received = l->stats.sent = 100000ULL * seconds;
        l->stats.received_bytes = l->stats.sent_bytes = 6400000ULL * seconds;
    }
}

static unsigned find(struct scene *s) {
    s->n = weir__admin_find(s->before, s->after, &s->turns, s->found);
    return s->n;
}

static void over(struct scene *s) {
    free(s->before);
    free(s->after);
}

static bool has(struct scene *s, enum weir__admin_kind kind) {
    find(s);
    for (unsigned i = 0; i < s->n; i++)
        if (s->found[i].kind == kind) {
            assert_true(s->found[i].text[0]);
            assert_true(s->found[i].n_numbers >= 3);
            assert_non_null(s->found[i].advice);
            return true;
        }
    return false;
}

static bool only(struct scene *s, enum weir__admin_kind kind) {
    return has(s, kind) && s->n == 1;
}

static double evidence(const struct scene *s, const char *name) {
    for (unsigned i = 0; i < s->found[0].n_numbers; i++)
        if (!strcmp(s->found[0].numbers[i].name, name))
            return s->found[0].numbers[i].value;
    fail_msg("no evidence is called %s", name);
    return 0;
}

static void a_healthy_server_has_none(void **state) {
    (void)state;
    struct scene s;
    for (unsigned loops = 1; loops <= LOOPS; loops++) {
        healthy(&s, loops, 2); /* fewer loops than CPUs is no fault while no CPU is idle */
        assert_int_equal(find(&s), 0);
        over(&s);
    }
}

static void a_window_that_is_too_short_says_nothing(void **state) {
    (void)state;
    struct scene s;
    healthy(&s, LOOPS, 1);
    s.after->process.cpus = 1;
    assert_true(only(&s, WEIR__ADMIN_MANY_LOOPS));
    s.after->at_ns -= 1;
    assert_int_equal(find(&s), 0);
    s.after->at_ns = 0;
    assert_int_equal(find(&s), 0);
    over(&s);
}

static void too_few_loops(void **state) {
    (void)state;
    struct scene s;
    healthy(&s, 1, 2);
    s.after->process.idle_ns += 5ULL * S;
    assert_true(only(&s, WEIR__ADMIN_FEW_LOOPS));
    assert_true(evidence(&s, "idle_cpus") > 2.4 && evidence(&s, "idle_cpus") < 2.6);
    assert_true(evidence(&s, "busy_share") > 0.98);
    assert_int_equal(s.found[0].loop, 0);
    s.after->process.idle_ns = s.before->process.idle_ns + S / 2; /* a quarter of a CPU */
    assert_int_equal(find(&s), 0);
    s.after->process.idle_ns = 0; /* unknown */
    assert_int_equal(find(&s), 0);
    s.after->process.idle_ns = s.before->process.idle_ns + 5ULL * S;
    s.after->loops[0].stats.busy_ns = 2ULL * S / 10 * 8;
    assert_int_equal(find(&s), 0);
    s.after->loops[0].stats.busy_ns = 2ULL * S;
    s.after->loops[0].stats.cpu_ns = S / 2; /* it waited: more loops are not the cure */
    assert_int_equal(find(&s), 0);
    over(&s);
}

static void too_many_loops(void **state) {
    (void)state;
    struct scene s;
    healthy(&s, LOOPS, 2);
    s.after->process.cpus = 2;
    for (unsigned i = 0; i < LOOPS; i++)
        s.after->loops[i].pauses[WEIR_PAUSE_RUN_QUEUE].total_ns = S;
    assert_true(only(&s, WEIR__ADMIN_MANY_LOOPS));
    assert_true(evidence(&s, "run_queue_share") > 0.49);
    assert_int_equal(evidence(&s, "loops"), LOOPS);
    assert_int_equal(evidence(&s, "usable_cpus"), 2);
    s.after->process.cpus = 0; /* unknown */
    assert_int_equal(find(&s), 0);
    over(&s);
}

static void uneven_loops(void **state) {
    (void)state;
    struct scene s;
    healthy(&s, LOOPS, 2);
    s.after->loops[1].stats.channels = 200;
    assert_int_equal(find(&s), 0); /* uneven, but everybody works */
    s.after->loops[2].stats.busy_ns = S / 10;
    assert_true(only(&s, WEIR__ADMIN_UNEVEN_LOOPS));
    assert_int_equal(s.found[0].loop, 1);
    s.after->loops[1].stats.busy_ns = S; /* it has time left */
    assert_int_equal(find(&s), 0);
    s.after->loops[1].stats.busy_ns = 2ULL * S;
    s.after->loops[1].stats.channels = 40; /* chance */
    assert_int_equal(find(&s), 0);
    over(&s);
}

static void buffers_from_outside_the_pool(void **state) {
    (void)state;
    struct scene s;
    healthy(&s, LOOPS, 2);
    s.before->loops[3].told.memory.outside_blocks = 7;
    s.after->loops[3].told.memory.outside_blocks = 100007; /* of 800,000 receives */
    assert_true(only(&s, WEIR__ADMIN_UNPOOLED));
    assert_int_equal(evidence(&s, "blocks"), 100000);
    assert_int_equal(evidence(&s, "blocks_per_s"), 50000);
    s.after->loops[3].told.memory.outside_blocks = 70000;
    assert_int_equal(find(&s), 0);
    for (unsigned i = 0; i < LOOPS; i++)
        s.after->loops[i].stats.received = 10; /* an idle server allocates once in a while */
    s.after->loops[3].told.memory.outside_blocks = 7 + 99;
    assert_int_equal(find(&s), 0);
    s.after->loops[3].told.memory.outside_blocks = 7 + 101;
    assert_true(only(&s, WEIR__ADMIN_UNPOOLED));
    over(&s);
}

static void files_through_memory(void **state) {
    (void)state;
    struct scene s;
    healthy(&s, 2, 2);
    s.after->loops[0].stats.sent_bytes = s.after->loops[1].stats.sent_bytes = 20ULL << 20;
    s.after->loops[1].stats.file_copied_bytes = 8ULL << 20;
    assert_true(only(&s, WEIR__ADMIN_FILE_COPIED));
    assert_true(evidence(&s, "share_of_sent") > 0.19 && evidence(&s, "share_of_sent") < 0.21);
    s.after->loops[1].stats.file_copied_bytes = 3ULL << 20;
    assert_int_equal(find(&s), 0); /* a small part of the whole */
    s.after->loops[0].stats.sent_bytes = s.after->loops[1].stats.sent_bytes = 1 << 20;
    assert_true(only(&s, WEIR__ADMIN_FILE_COPIED));
    s.after->loops[1].stats.file_copied_bytes = 1 << 20;
    assert_int_equal(find(&s), 0); /* slow */
    over(&s);
}

static struct weir_long_turn turn_of(const struct scene *s, unsigned loop, const char *handler,
                                     unsigned ms, unsigned cpu_ms) {
    return (struct weir_long_turn){
        .loop = loop,
        .over = true,
        .at_ns = s->after->at_ns - S,
        .length_ns = (uint64_t)ms * MS,
        .cpu_ns = (uint64_t)cpu_ms * MS,
        .n_handlers = handler != NULL,
        .handlers = {handler},
        .stack = "nanosleep < wait",
    };
}

static void a_callback_that_blocked(void **state) {
    (void)state;
    struct scene s;
    healthy(&s, 2, 2);
    s.turns.n = 2;
    s.turns.turns[0] = turn_of(&s, 1, "lookup", 200, 1);
    s.turns.turns[1] = turn_of(&s, 1, "lookup", 300, 2);
    assert_true(only(&s, WEIR__ADMIN_BLOCKED));
    assert_string_equal(s.found[0].handler, "lookup");
    assert_string_equal(s.found[0].stack, "nanosleep < wait");
    assert_int_equal(s.found[0].loop, 1);
    assert_int_equal(evidence(&s, "turns"), 2);
    assert_int_equal(evidence(&s, "longest_ms"), 300);
    assert_int_equal(evidence(&s, "connections"), 25);
    assert_true(evidence(&s, "cpu_share") < 0.01);
    assert_non_null(strstr(s.found[0].text, "25 connections wait meanwhile."));
    s.turns.turns[1].loop = 0; /* the same on each loop is told for each */
    assert_int_equal(find(&s), 2);
    over(&s);
}

static void a_callback_that_computed(void **state) {
    (void)state;
    struct scene s;
    healthy(&s, 2, 2);
    s.turns.n = 2;
    s.turns.turns[0] = turn_of(&s, 0, "digest", 200, 190);
    s.turns.turns[1] = turn_of(&s, 0, NULL, 500, 500); /* a timer's, say */
    assert_int_equal(find(&s), 2);
    assert_int_equal(s.found[0].kind, WEIR__ADMIN_HELD);
    assert_string_equal(s.found[0].handler, "digest");
    assert_int_equal(s.found[1].kind, WEIR__ADMIN_HELD);
    assert_null(s.found[1].handler);
    over(&s);
}

static void one_connection_that_waits(void **state) {
    (void)state;
    struct scene s;
    healthy(&s, 1, 2);
    s.after->loops[0].stats.channels = 1;
    s.turns.n = 1;
    s.turns.turns[0] = turn_of(&s, 0, "a\nb", 200, 190);
    assert_true(only(&s, WEIR__ADMIN_HELD));
    assert_non_null(strstr(s.found[0].text, "The handler \"a?b\" kept"));
    assert_non_null(strstr(s.found[0].text, ": 1 long turn, "));
    assert_non_null(strstr(s.found[0].text, " 1 connection waits meanwhile."));
    over(&s);
}

/* A turn without its wait for a CPU is held against half of the watchdog's limit. */
static void the_floor_follows_the_watchdog(void **state) {
    (void)state;
    struct scene s;
    healthy(&s, 2, 2);
    s.turns.n = 1;
    s.turns.turns[0] = turn_of(&s, 0, "burn", 40, 12);
    s.after->loops[0].pauses[WEIR_PAUSE_RUN_QUEUE].total_ns = 28 * MS;
    assert_int_equal(find(&s), 0); /* 12 ms of its own, of 100 */
    s.after->long_turn_ns = 20 * MS;
    assert_true(only(&s, WEIR__ADMIN_HELD));
    s.after->long_turn_ns = 25 * MS;
    assert_int_equal(find(&s), 0);
    over(&s);
}

static void long_turns_that_are_nobodys_fault(void **state) {
    (void)state;
    struct scene s;
    healthy(&s, 2, 2);
    s.turns.n = 1;
    s.turns.turns[0] = turn_of(&s, 0, "echo", 120, 40);
    s.after->loops[0].pauses[WEIR_PAUSE_RUN_QUEUE].total_ns = 80 * MS; /* others had its CPU */
    assert_int_equal(find(&s), 0);
    s.turns.turns[0] = turn_of(&s, 0, "echo", 220, 140); /* enough of it is its own */
    s.after->loops[0].pauses[WEIR_PAUSE_RUN_QUEUE].total_ns = 120 * MS;
    assert_true(only(&s, WEIR__ADMIN_HELD));
    s.turns.turns[0] = turn_of(&s, 0, "echo", 220, 40);
    s.after->loops[0].pauses[WEIR_PAUSE_RUN_QUEUE].total_ns = 60 * MS;
    assert_true(only(&s, WEIR__ADMIN_BLOCKED));
    s.turns.turns[0] = turn_of(&s, 0, "echo", 10000, 4000); /* of which the window saw a fifth */
    s.after->loops[0].pauses[WEIR_PAUSE_RUN_QUEUE].total_ns = 1000 * MS;
    assert_true(only(&s, WEIR__ADMIN_HELD));
    s.after->loops[0].pauses[WEIR_PAUSE_RUN_QUEUE].total_ns = 0;
    assert_true(only(&s, WEIR__ADMIN_BLOCKED));
    s.turns.turns[0] = turn_of(&s, 0, "echo", 220, 40);
    s.turns.turns[0].at_ns = s.before->at_ns - 221 * (uint64_t)MS; /* before the window */
    assert_int_equal(find(&s), 0);
    s.turns.turns[0].over = false; /* and it runs still */
    assert_true(only(&s, WEIR__ADMIN_BLOCKED));
    s.turns.turns[0].loop = 2; /* no such loop */
    assert_int_equal(find(&s), 0);
    over(&s);
}

static void names_stay(void **state) {
    (void)state;
    static const char *const names[] = {"unpooled-buffers",    "too-few-loops",    "too-many-loops",
                                        "file-through-memory", "callback-blocked", "callback-held",
                                        "uneven-loops"};
    for (unsigned i = 0; i < WEIR__ADMIN_KINDS; i++)
        assert_string_equal(weir__admin_kind_name((enum weir__admin_kind)i), names[i]);
    assert_string_equal(weir__admin_kind_name(WEIR__ADMIN_KINDS), "?");
}

static void more_than_there_is_room_for(void **state) {
    (void)state;
    static char names[WEIR_LONG_TURNS][8];
    struct scene s;
    healthy(&s, LOOPS, 2);
    for (unsigned i = 0; i < WEIR_LONG_TURNS; i++) {
        snprintf(names[i], sizeof names[i], "h%u", i);
        s.turns.turns[s.turns.n++] = turn_of(&s, i % LOOPS, names[i], 200, 200);
    }
    assert_int_equal(find(&s), WEIR_LONG_TURNS);
    over(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_healthy_server_has_none),
        cmocka_unit_test(a_window_that_is_too_short_says_nothing),
        cmocka_unit_test(too_few_loops),
        cmocka_unit_test(too_many_loops),
        cmocka_unit_test(uneven_loops),
        cmocka_unit_test(buffers_from_outside_the_pool),
        cmocka_unit_test(files_through_memory),
        cmocka_unit_test(a_callback_that_blocked),
        cmocka_unit_test(a_callback_that_computed),
        cmocka_unit_test(one_connection_that_waits),
        cmocka_unit_test(the_floor_follows_the_watchdog),
        cmocka_unit_test(long_turns_that_are_nobodys_fault),
        cmocka_unit_test(names_stay),
        cmocka_unit_test(more_than_there_is_room_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
