#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "base/rng.h"
#include "codec/linkd/session.h"
#include "mem/pool.h"

enum { CALLS = 300, STEPS = 20000 };

/* Random adds and removes against a plain array of flags; ids close together, far apart and aimed
 * at low bits. */
static void agrees_with_a_plain_array(void **state) {
    (void)state;
    struct weir_mem *m = weir_mem_open("table");
    struct weir_linkd_call *x = calloc(CALLS, sizeof *x);
    bool in[CALLS] = {0};
    struct weir__linkd_table t;
    struct weir__base_rng r;
    uint32_t count = 0;
    weir__base_rng_seed(&r, 7);
    weir__linkd_table_init(&t, 0x1234567);
    for (int i = 0; i < CALLS; i++)
        x[i].id = i < 100 ? (uint64_t)i + 1 : i < 200 ? (uint64_t)i << 40 : (uint64_t)i * 4096;
    for (int step = 0; step < STEPS; step++) {
        uint64_t most = step / 2000 % 2 ? 5 : CALLS; /* also nearly empty: it shrinks */
        uint64_t i = weir__base_rng_below(&r, most);
        if (most == 5)
            for (i = 0; i < CALLS && !in[i]; i++)
                ;
        if (i == CALLS)
            continue;
        assert_ptr_equal(weir__linkd_table_find(&t, x[i].id), in[i] ? &x[i] : NULL);
        if (in[i])
            weir__linkd_table_remove(&t, &x[i]);
        else
            assert_int_equal(weir__linkd_table_add(&t, m, &x[i]), 0);
        in[i] = !in[i];
        count += in[i] ? 1 : (uint32_t)-1;
        assert_int_equal(t.count, count);
    }
    for (int i = 0; i < CALLS; i++)
        assert_ptr_equal(weir__linkd_table_find(&t, x[i].id), in[i] ? &x[i] : NULL);
    weir__linkd_table_fini(&t);
    assert_int_equal(weir_mem_live(m), 0);
    weir_mem_close(m);
    free(x);
}

static void no_memory_leaves_it_as_it_was(void **state) {
    (void)state;
    struct weir_mem *m = weir_mem_open("table");
    enum { FULL = 6 }; /* what the first table takes */
    struct weir_linkd_call *x = calloc(FULL + 1, sizeof *x);
    struct weir__linkd_table t;
    weir__linkd_table_init(&t, 1);
    for (int i = 0; i <= FULL; i++)
        x[i].id = (uint64_t)i;
    weir__mem_fail(m, 1, false);
    assert_int_equal(weir__linkd_table_add(&t, m, &x[0]), WEIR_ENOMEM);
    assert_int_equal(t.count, 0);
    for (int i = 0; i < FULL; i++)
        assert_int_equal(weir__linkd_table_add(&t, m, &x[i]), 0);
    weir__mem_fail(m, 1, false);
    assert_int_equal(weir__linkd_table_add(&t, m, &x[FULL]), WEIR_ENOMEM);
    assert_int_equal(t.count, FULL);
    assert_null(weir__linkd_table_find(&t, FULL));
    assert_int_equal(weir__linkd_table_add(&t, m, &x[FULL]), 0);
    for (int i = 0; i <= FULL; i++)
        assert_ptr_equal(weir__linkd_table_find(&t, x[i].id), &x[i]);
    weir__linkd_table_fini(&t);
    assert_int_equal(weir_mem_live(m), 0);
    weir_mem_close(m);
    free(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_a_plain_array),
        cmocka_unit_test(no_memory_leaves_it_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
