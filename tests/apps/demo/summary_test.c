/* Verdicts over blocks that are made up. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "demo/summary.h"
#include <stdio.h>
#include <string.h>

static struct block good_block(double rate) {
    struct block b = {.n_loops = 1, .hot = "digest", .hot_samples = 200};
    b.busy[0] = 95;
    b.value[METRIC_REQUESTS] = 10000;
    b.value[METRIC_RATE] = rate;
    b.value[METRIC_BUSY] = 95;
    b.value[METRIC_WAIT] = 3;
    b.value[METRIC_HOT] = 90;
    b.value[METRIC_FOREIGN] = 1;
    return b;
}

/* n blocks a side; b is faster by `gain`, and the blocks of a side differ by less than 10. */
static struct trial made_up(unsigned n, double gain) {
    struct trial t = {.a = {.loops = 1, .n = n}, .b = {.loops = 2, .n = n}, .cpus = 4};
    for (unsigned i = 0; i < n; i++) {
        t.a.blocks[i] = good_block(1000 + i);
        t.b.blocks[i] = good_block(1000 + gain + i);
    }
    return t;
}

static void assert_begins(const char *text, const char *with) {
    if (strncmp(text, with, strlen(with)) != 0)
        fail_msg("\"%s\" does not begin with \"%s\"", text, with);
}

static void assert_says(const char *text, const char *what) {
    if (!strstr(text, what))
        fail_msg("\"%s\" does not say \"%s\"", text, what);
}

static void assert_hides(const char *text, const char *what) {
    if (strstr(text, what))
        fail_msg("\"%s\" says \"%s\"", text, what);
}

static void assert_no_verdict(const struct trial *t, const char *because) {
    char text[TEXT_MAX];
    assert_int_equal(verdict_of(t, METRIC_RATE), VERDICT_NONE);
    verdict_text(t, text, sizeof text);
    assert_says(text, "NO VERDICT: ");
    assert_says(text, because);
    assert_hides(text, "CHANGED");
    assert_says(change_text(t, METRIC_RATE, text, sizeof text), "no verdict");
}

/* --- the difference -------------------------------------------------------------------------- */

static void test_chance(void **state) {
    (void)state;
    assert_float_equal(verdict_chance(2, 2), 2.0 / 6, 1e-9);
    assert_float_equal(verdict_chance(4, 4), 2.0 / 70, 1e-9);
    assert_float_equal(verdict_chance(3, 4), 2.0 / 35, 1e-9);
    assert_float_equal(verdict_chance(0, 4), 1, 1e-9);
}

static void test_four_blocks_apart_are_a_change(void **state) {
    (void)state;
    char text[TEXT_MAX];
    struct trial t = made_up(4, 1000);
    assert_int_equal(verdict_of(&t, METRIC_RATE), VERDICT_HIGHER);
    assert_begins(verdict_text(&t, text, sizeof text), "CHANGED: throughput x 2.00; every block");
    assert_says(text, "2.9 %");
    assert_string_equal(change_text(&t, METRIC_RATE, text, sizeof text), "x 2.00");
    t = made_up(4, -500);
    assert_int_equal(verdict_of(&t, METRIC_RATE), VERDICT_LOWER);
    assert_says(verdict_text(&t, text, sizeof text), "slower");
}

static void test_three_blocks_are_too_few(void **state) {
    (void)state;
    char text[TEXT_MAX];
    for (unsigned n = 2; n <= 3; n++) {
        struct trial t = made_up(n, 1000);
        assert_int_equal(verdict_of(&t, METRIC_RATE), VERDICT_UNCLEAR);
        assert_begins(verdict_text(&t, text, sizeof text), "NOT DISTINGUISHABLE: every block");
        assert_says(text, n == 2 ? "33 %" : "10 %");
        assert_says(text, "--blocks");
        assert_says(change_text(&t, METRIC_RATE, text, sizeof text), "not distinguishable");
    }
}

static void test_blocks_that_overlap_are_no_change(void **state) {
    (void)state;
    char text[TEXT_MAX];
    struct trial t = made_up(4, 3); /* 1000..1003 and 1003..1006 */
    assert_int_equal(verdict_of(&t, METRIC_RATE), VERDICT_UNCLEAR);
    assert_begins(verdict_text(&t, text, sizeof text), "NOT DISTINGUISHABLE: the throughputs");
}

static void test_invalid_blocks_are_in_no_number(void **state) {
    (void)state;
    char text[TEXT_MAX];
    struct trial t = made_up(5, 1000);
    struct block *bad = &t.a.blocks[4];
    *bad = good_block(9000); /* it would make the sides overlap, and the hot spot doubtful */
    snprintf(bad->invalid, sizeof bad->invalid, "too short");
    snprintf(bad->hot, sizeof bad->hot, "census");
    bad->value[METRIC_ERRORS] = 7;
    bad->hot_samples = 1;
    bad->busy[0] = 11;
    assert_int_equal(side_valid(&t.a), 4);
    assert_float_equal(span_of(&t.a, METRIC_RATE).high, 1003, 1e-9);
    assert_int_equal(verdict_of(&t, METRIC_RATE), VERDICT_HIGHER);
    assert_begins(verdict_text(&t, text, sizeof text),
                  "INVALID: 1 of the 10 blocks does not count (too short). CHANGED: ");
    assert_begins(hot_text(&t.a, text, sizeof text), "PROVEN");
    assert_string_equal(busy_text(&t.a, text, sizeof text), "95 %");
}

static void test_too_many_invalid_blocks_take_the_verdict(void **state) {
    (void)state;
    char text[TEXT_MAX];
    struct trial t = made_up(4, 1000);
    snprintf(t.b.blocks[0].invalid, sizeof t.b.blocks[0].invalid, "too short");
    assert_int_equal(verdict_of(&t, METRIC_RATE), VERDICT_UNCLEAR); /* 4 against 3: 5.7 % */
    verdict_text(&t, text, sizeof text);
    assert_begins(text, "INVALID: 1 of the 8 blocks does not count");
    assert_says(text, "NOT DISTINGUISHABLE");
    for (unsigned i = 0; i < 4; i++)
        snprintf(t.b.blocks[i].invalid, sizeof t.b.blocks[i].invalid, "too short");
    assert_no_verdict(&t, "no block that counts");
    assert_float_equal(span_of(&t.b, METRIC_RATE).median, 0, 1e-9);
}

static void test_what_keeps_a_verdict_back(void **state) {
    (void)state;
    struct trial t = made_up(4, 1000);
    t.b.blocks[2].value[METRIC_ERRORS] = 1;
    assert_no_verdict(&t, "up to 1 requests of a block failed");
    t = made_up(4, 1000);
    t.a.blocks[1].value[METRIC_FOREIGN] = 35;
    assert_no_verdict(&t, "other programs used up to 35 % of a CPU");
    t = made_up(4, 1000);
    t.cpus = 1;
    assert_no_verdict(&t, "2 loops have to share 1 CPU");
    t.cpus = 2;
    assert_int_equal(verdict_of(&t, METRIC_RATE), VERDICT_HIGHER);
    t.cpus = 0; /* not known: nothing to say against it */
    assert_int_equal(verdict_of(&t, METRIC_RATE), VERDICT_HIGHER);
}

/* --- the hot spot ---------------------------------------------------------------------------- */

static void assert_not_proven(const struct side *s, const char *because) {
    char text[TEXT_MAX];
    assert_begins(hot_text(s, text, sizeof text), "NOT PROVEN that the handler is the hot spot (");
    assert_says(text, because);
}

static void test_hot_spot(void **state) {
    (void)state;
    char text[TEXT_MAX];
    struct trial t = made_up(4, 0);
    assert_begins(hot_text(&t.a, text, sizeof text), "PROVEN, the handler is the hot spot: with 1");
    assert_says(text, "95 % of the time, 3 % of that waiting for a CPU");
    assert_says(text,
                "90 % of the server's CPU time is inside the handler \"digest\", the service");
    assert_says(text, "blocks that count: 4, each with at least 200 samples");
}

static void test_hot_spot_is_named_as_it_is(void **state) {
    (void)state;
    char text[TEXT_MAX];
    struct trial t = made_up(4, 0);
    for (unsigned i = 0; i < t.a.n; i++)
        snprintf(t.a.blocks[i].hot, sizeof t.a.blocks[i].hot, "linkd");
    assert_says(hot_text(&t.a, text, sizeof text), "inside the handler \"linkd\" (blocks");
    assert_hides(text, "digest");
}

static void test_what_proves_nothing(void **state) {
    (void)state;
    struct trial t = made_up(2, 0);
    assert_not_proven(&t.a, "fewer than 3 blocks");
    t = made_up(0, 0);
    assert_not_proven(&t.a, "fewer than 3 blocks");
    t = made_up(4, 0);
    t.a.blocks[1].hot_samples = 99;
    assert_not_proven(&t.a, "fewer than 100 samples");
    t = made_up(4, 0);
    snprintf(t.a.blocks[0].hot, sizeof t.a.blocks[0].hot, "census");
    assert_not_proven(&t.a, "same hottest handler");
    t = made_up(4, 0);
    t.a.blocks[3].value[METRIC_ERRORS] = 2;
    assert_not_proven(&t.a, "requests failed");
    t = made_up(4, 0);
    for (unsigned i = 0; i < t.a.n; i++)
        t.a.blocks[i].hot[0] = 0;
    assert_not_proven(&t.a, "no handler");
}

static void test_shares_that_prove_nothing(void **state) {
    (void)state;
    static const struct {
        enum metric metric;
        double value;
        const char *because;
    } cases[] = {
        {METRIC_BUSY, 79, "not full"},
        {METRIC_WAIT, 21, "wait for a CPU"},
        {METRIC_HOT, 59, "too small"},
    };
    for (unsigned k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct trial t = made_up(4, 0);
        for (unsigned i = 0; i < t.a.n; i++)
            t.a.blocks[i].value[cases[k].metric] = cases[k].value;
        assert_not_proven(&t.a, cases[k].because);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chance),
        cmocka_unit_test(test_four_blocks_apart_are_a_change),
        cmocka_unit_test(test_three_blocks_are_too_few),
        cmocka_unit_test(test_blocks_that_overlap_are_no_change),
        cmocka_unit_test(test_invalid_blocks_are_in_no_number),
        cmocka_unit_test(test_too_many_invalid_blocks_take_the_verdict),
        cmocka_unit_test(test_what_keeps_a_verdict_back),
        cmocka_unit_test(test_hot_spot),
        cmocka_unit_test(test_hot_spot_is_named_as_it_is),
        cmocka_unit_test(test_what_proves_nothing),
        cmocka_unit_test(test_shares_that_prove_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
