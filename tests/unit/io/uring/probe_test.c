#include "io/uring/uring.h"
#include "io/io.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static bool here(unsigned without, unsigned *has) {
    const char *why = NULL;
    int rc = weir__uring_probe(without, has, &why);
    assert_non_null(why);
    if (rc == 0) {
        assert_string_equal(why, "");
        return true;
    }
    assert_true(rc == WEIR_ENOTSUP || rc == WEIR_EFDS);
    assert_int_equal(*has, 0);
    assert_true(strlen(why) > 0);
    print_message("not here: %s\n", why);
    return false;
}

static void every_feature_has_a_name_of_its_own(void **state) {
    unsigned all = 0;
    (void)state;
    for (const struct weir__uring_feature_name *f = weir__uring_features; f->bit; f++) {
        assert_false(all & f->bit);
        all |= f->bit;
        for (const struct weir__uring_feature_name *g = f + 1; g->bit; g++)
            assert_string_not_equal(f->name, g->name);
        assert_true(strlen(f->what) > 0);
    }
    assert_int_equal(all, WEIR__URING_FEATURES);
}

static void what_is_switched_off_is_not_there(void **state) {
    unsigned all, has;
    (void)state;
    if (!here(0, &all))
        return;
    for (const struct weir__uring_feature_name *f = weir__uring_features; f->bit; f++) {
        assert_true(here(f->bit, &has));
        assert_false(has & f->bit);
        assert_int_equal(has & ~all, 0);
    }
    assert_true(here(WEIR__URING_FEATURES, &has));
    assert_int_equal(has, 0);
}

static void what_hangs_together(void **state) {
    unsigned has;
    (void)state;
    if (!here(0, &has))
        return;
    assert_true(has & WEIR__URING_SYNC_SEND);
    if (has & (WEIR__URING_INC_BUFFERS | WEIR__URING_FAIR_RECV))
        assert_true(has & WEIR__URING_MULTI_RECV);
    unsigned again;
    assert_true(here(0, &again));
    assert_int_equal(has, again);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_feature_has_a_name_of_its_own),
        cmocka_unit_test(what_is_switched_off_is_not_there),
        cmocka_unit_test(what_hangs_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
