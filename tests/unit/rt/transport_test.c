#include "io/uring/uring.h"
#include "rt/transport.h"
#include "weir/host.h"
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum {
    NEEDED = WEIR__URING_DEFER | WEIR__URING_MULTI_ACCEPT | WEIR__URING_MULTI_RECV |
             WEIR__URING_INC_BUFFERS,
};

static void a_list_of_features_is_read_from_the_left(void **state) {
    (void)state;
    const struct {
        const char *list;
        unsigned without;
    } good[] = {
        {NULL, 0},
        {"all", 0},
        {"none", WEIR__URING_FEATURES},
        {"-defer", WEIR__URING_DEFER},
        {"-multi-recv,-zero-copy", WEIR__URING_MULTI_RECV | WEIR__URING_ZERO_COPY},
        {"none,defer", WEIR__URING_FEATURES & ~WEIR__URING_DEFER},
        {"-defer,defer", 0},
        {"-defer,none,all", 0},
        {"all,none", WEIR__URING_FEATURES},
    };
    const char *const bad[] = {"",
                               ",",
                               "defer,",
                               "-",
                               "-none",
                               "-all",
                               "Defer",
                               "defe",
                               "defer2",
                               " defer",
                               "-defer;-zero-copy",
                               "--defer"};
    unsigned without;
    for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++) {
        without = 77;
        assert_int_equal(weir__rt_transport_features(good[i].list, &without), 0);
        assert_int_equal(without, good[i].without);
    }
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(weir__rt_transport_features(bad[i], &without), WEIR_EINVAL);
    for (const struct weir__uring_feature_name *f = weir__uring_features; f->bit; f++) {
        char text[64];
        snprintf(text, sizeof text, "-%s", f->name);
        assert_int_equal(weir__rt_transport_features(text, &without), 0);
        assert_int_equal(without, f->bit);
    }
}

static void auto_needs_four_features(void **state) {
    (void)state;
    assert_null(weir__rt_transport_refusal(WEIR__URING_FEATURES, 0));
    assert_null(weir__rt_transport_refusal(NEEDED, 0));
    assert_null(weir__rt_transport_refusal(NEEDED, WEIR__URING_ZERO_COPY));
    for (const struct weir__uring_feature_name *f = weir__uring_features; f->bit; f++) {
        const char *missing = weir__rt_transport_refusal(WEIR__URING_FEATURES & ~f->bit, 0);
        const char *off = weir__rt_transport_refusal(WEIR__URING_FEATURES & ~f->bit, f->bit);
        if (f->bit & NEEDED) {
            assert_non_null(strstr(missing, f->name));
            assert_non_null(strstr(off, f->name));
            assert_non_null(strstr(off, "switched off"));
        } else {
            assert_null(missing);
            assert_null(off);
        }
    }
}

static struct weir__rt_transport chosen(const char *transport, const char *trigger,
                                        const char *features) {
    struct weir_group_options o = {
        .size = sizeof o, .transport = transport, .trigger = trigger, .uring_features = features};
    struct weir__rt_transport t;
    assert_int_equal(weir__rt_transport_of(&o, &t), 0);
    weir__rt_transport_decide(&t);
    assert_false(t.open);
    return t;
}

static void the_rule_of_auto(void **state) {
    (void)state;
    struct weir_host_uring here = {.size = sizeof here};
    struct weir__rt_transport t = chosen(NULL, NULL, NULL);
    assert_int_equal(weir_host_uring(NULL, &here), 0);
    assert_int_equal(t.uring, here.why_not_auto == NULL);
    assert_string_equal(t.name, t.uring ? "uring" : "epoll-lt");
    if (t.uring)
        assert_null(t.why);
    else
        assert_string_equal(t.why, here.why_not_auto);
    t = chosen("auto", NULL, "none");
    assert_string_equal(t.name, "epoll-lt");
    assert_true(t.why && t.why[0]);
    assert_false(t.by_name);
}

static void who_names_a_trigger_means_epoll(void **state) {
    (void)state;
    const char *const triggers[] = {"lt", "et"}, *const names[] = {"epoll-lt", "epoll-et"};
    for (unsigned i = 0; i < 2; i++) {
        struct weir__rt_transport t = chosen("auto", triggers[i], NULL);
        assert_false(t.uring);
        assert_string_equal(t.name, names[i]);
        assert_null(t.why); /* it is what was asked for */
    }
}

static void a_name_is_taken_at_its_word(void **state) {
    (void)state;
    struct weir__rt_transport t = chosen("uring", NULL, "none");
    assert_true(t.uring && t.by_name);
    assert_int_equal(t.without, WEIR__URING_FEATURES);
    assert_null(t.why);
    weir__rt_transport_fall_back(&t, "because");
    assert_false(t.uring);
    assert_string_equal(t.name, "epoll-lt");
    assert_string_equal(t.why, "because");
    t = chosen("epoll", NULL, NULL);
    assert_string_equal(t.name, "epoll-lt");
    assert_null(t.why);
}

static void the_host_names_its_features(void **state) {
    (void)state;
    struct weir_host_uring all = {.size = sizeof all}, few = {.size = sizeof few},
                           none = {.size = sizeof none}, odd = {.size = sizeof odd};
    assert_int_equal(weir_host_uring(NULL, &all), 0);
    assert_int_equal(weir_host_uring("-multi-recv", &few), 0);
    assert_int_equal(weir_host_uring("none", &none), 0);
    assert_int_equal(weir_host_uring("fast", &odd), WEIR_EINVAL);
    assert_true(all.n_features > 0 && all.n_features <= WEIR_URING_FEATURES_MAX);
    assert_int_equal(odd.n_features, all.n_features);
    for (unsigned i = 0; i < all.n_features; i++) {
        assert_string_equal(odd.features[i].name, weir__uring_features[i].name);
        assert_int_not_equal(all.features[i].state, WEIR_URING_OFF);
        assert_int_equal(none.features[i].state, WEIR_URING_OFF);
        bool off = !strcmp(few.features[i].name, "multi-recv");
        assert_int_equal(few.features[i].state == WEIR_URING_OFF, off);
        if (all.why)
            assert_int_equal(all.features[i].state, WEIR_URING_MISSING);
    }
    assert_non_null(none.why_not_auto);
    assert_non_null(few.why_not_auto);
    odd.size--;
    assert_int_equal(weir_host_uring(NULL, &odd), WEIR_EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_of_features_is_read_from_the_left),
        cmocka_unit_test(auto_needs_four_features),
        cmocka_unit_test(the_rule_of_auto),
        cmocka_unit_test(who_names_a_trigger_means_epoll),
        cmocka_unit_test(a_name_is_taken_at_its_word),
        cmocka_unit_test(the_host_names_its_features),
    };
    return cmocka_run_group_tests_name("rt/transport", tests, NULL, NULL);
}
