/* What may be said of a profile, and what may not. */
#include "rt/verdict.h"
#include "base/compiler.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static struct weir_profile_verdict verdict(uint32_t samples, uint32_t moved,
                                           struct weir_profile_handler h) {
    static struct weir_profile_handler handlers[1];
    struct weir_profile_summary s = {.samples = samples, .cpu_ns = 3000000, .window_ns = 9000000};
    handlers[0] = h;
    s.phases[WEIR_PROFILE_WAIT] = moved / 2;
    s.phases[WEIR_PROFILE_SEND] = moved - moved / 2;
    s.phases[WEIR_PROFILE_HANDLER] = h.samples;
    s.handlers = handlers;
    s.n_handlers = h.name != NULL;
    weir__rt_verdict(&s);
    assert_true(s.verdict.text[0] && strlen(s.verdict.text) < sizeof s.verdict.text - 1);
    return s.verdict;
}

static struct weir_profile_handler digest(uint32_t samples, uint32_t parts, double share,
                                          double account) {
    return (struct weir_profile_handler){"digest", samples, parts, share, account};
}

static void a_handler_is_named(void **state) {
    (void)state;
    struct weir_profile_verdict v = verdict(100, 10, digest(80, 10, .8, .75));
    assert_int_equal(v.cause, WEIR_PROFILE_BY_HANDLER);
    assert_string_equal(v.handler, "digest");
    assert_true(v.share > .79 && v.share < .81);
    assert_string_equal(
        v.text, "the CPU time is used by a handler: handler digest has 80 % of 100 samples, met in "
                "10 of 10 parts of the window; by the engine's accounting 75 %");
}

static void each_condition_counts(void **state) {
    static const struct {
        uint32_t samples, parts;
        double share, account;
        bool named;
        const char *why;
    } rows[] = {
        {20, 5, .25, .10, true, NULL}, /* all at their edge */
        {19, 5, .25, .25, false, "it has too few samples"},
        {20, 4, .25, .25, false, "it was met in a small part of the window only"},
        {20, 5, .24, .25, false, "its share is small"},
        {80, 10, .80, .64, false, "the engine's accounting says something else"},
        {80, 10, .80, .96, false, "the engine's accounting says something else"},
        {80, 10, .80, -1, false, "none of its few calls was timed; /debug/loops names turns over"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct weir_profile_verdict v = verdict(
            100, 10, digest(rows[i].samples, rows[i].parts, rows[i].share, rows[i].account));
        assert_int_equal(v.cause, rows[i].named ? WEIR_PROFILE_BY_HANDLER : WEIR_PROFILE_UNKNOWN);
        assert_int_equal(v.handler != NULL, rows[i].named);
        if (rows[i].why)
            assert_non_null(strstr(v.text, rows[i].why));
    }
}

static void most_of_it_in_the_kernel(void **state) {
    (void)state;
    struct weir_profile_verdict v = verdict(100, 51, digest(40, 10, .4, .4));
    assert_int_equal(v.cause, WEIR_PROFILE_NO_HANDLER);
    assert_null(v.handler);
    assert_string_equal(v.text, "no handler is to blame: 51 % of 100 samples lie in waiting (25), "
                                "receiving (0) and sending (26)");
    assert_int_equal(verdict(100, 50, digest(40, 10, .4, .4)).cause, WEIR_PROFILE_BY_HANDLER);
}

static void too_little_to_say_anything(void **state) {
    (void)state;
    struct weir_profile_verdict v = verdict(19, 19, digest(0, 0, 0, 0));
    assert_int_equal(v.cause, WEIR_PROFILE_UNKNOWN);
    assert_string_equal(v.text, "no cause can be named: 19 samples, and 20 are needed; the threads "
                                "used 3 ms of CPU time in 9 ms");
    v = verdict(0, 0, (struct weir_profile_handler){0});
    assert_int_equal(v.cause, WEIR_PROFILE_UNKNOWN);
    v = verdict(50, 0, (struct weir_profile_handler){0});
    assert_string_equal(v.text, "no cause can be named: none of 50 samples was in a handler");
}

static void a_name_stays_on_its_line(void **state) {
    (void)state;
    struct weir_profile_handler h = digest(80, 10, .8, .8);
    h.name = "a\nb c";
    assert_non_null(strstr(verdict(100, 10, h).text, "handler a?b c has 80 %"));
    assert_non_null(strstr(verdict(1, 0, h).text, ": 1 sample, and 20 are"));
}

static void a_long_name_fits(void **state) {
    static char name[300];
    (void)state;
    memset(name, 'x', sizeof name - 1);
    struct weir_profile_handler h = digest(19, 4, .2, .9);
    h.name = name;
    assert_int_equal(verdict(100, 0, h).cause, WEIR_PROFILE_UNKNOWN);
    h = digest(100, 10, 1, -1);
    h.name = name;
    assert_non_null(strstr(verdict(4000000000, 0, h).text, "over watchdog_ms"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handler_is_named),       cmocka_unit_test(each_condition_counts),
        cmocka_unit_test(most_of_it_in_the_kernel), cmocka_unit_test(too_little_to_say_anything),
        cmocka_unit_test(a_name_stays_on_its_line), cmocka_unit_test(a_long_name_fits),
    };
    return cmocka_run_group_tests_name("rt/verdict", tests, NULL, NULL);
}
