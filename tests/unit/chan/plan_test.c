/* Plans: what a pipeline must be, limits and their defaults, one copy for many channels. */
#include "chan/chan.h"
#include "kit/door.h"
#include "kit/embedded.h"
#include "mem/raw.h"

static int refusal(struct kit_loop *k, const struct weir_stage *line, unsigned n,
                   const struct weir_limits *limits) {
    struct weir__chan_plan *p = NULL;
    int rc = weir__chan_plan_new(k->loop, line, n, limits, &p);
    if (rc == 0)
        weir__chan_plan_release(p);
    return rc;
}

static void what_makes_no_sense_is_refused(void **state) {
    (void)state;
    struct kit_loop k;
    const struct weir_handler nameless = {.read = emb_echo.read};
    const struct weir_stage good[] = {{&emb_echo, NULL}},
                            hole[] = {{&emb_echo, NULL}, {NULL, NULL}},
                            bare[] = {{&nameless, NULL}};
    const struct weir_limits upside = {.high_bytes = 10, .low_bytes = 10},
                             batch = {.batch_bytes = (256 << 10) + 1},
                             fine = {.high_bytes = 10, .low_bytes = 9, .batch_bytes = 256 << 10},
                             never = {.batch_bytes = 4096, .zero_copy_bytes = 4097},
                             all = {.batch_bytes = 4096, .zero_copy_bytes = 4096},
                             huge = {.zero_copy_bytes = (256 << 10) + 1};
    kit_loop_open(&k);
    assert_int_equal(refusal(&k, good, 0, NULL), WEIR_EINVAL);
    assert_int_equal(refusal(&k, hole, 2, NULL), WEIR_EINVAL);
    assert_int_equal(refusal(&k, bare, 1, NULL), WEIR_EINVAL);
    assert_int_equal(refusal(&k, good, 1, &upside), WEIR_EINVAL);
    assert_int_equal(refusal(&k, good, 1, &batch), WEIR_EINVAL);
    assert_int_equal(refusal(&k, good, 1, &never), WEIR_EINVAL); /* no flight is that large */
    assert_int_equal(refusal(&k, good, 1, &huge), WEIR_EINVAL);
    assert_int_equal(refusal(&k, good, 1, &fine), 0);
    assert_int_equal(refusal(&k, good, 1, &all), 0);
    weir__mem_raw_fail(1);
    assert_int_equal(refusal(&k, good, 1, NULL), WEIR_ENOMEM);
    weir__mem_raw_fail(0);
    kit_loop_close(&k);
}

static void zero_is_the_default(void **state) {
    (void)state;
    struct kit_loop k;
    struct weir__chan_plan *p;
    struct weir_stage line[] = {{&emb_echo, NULL}, {&emb_sink, &k}, {&emb_echo, NULL}};
    struct weir_limits high = {.high_bytes = 1000};
    kit_loop_open(&k);
    assert_int_equal(weir__chan_plan_new(k.loop, line, 3, NULL, &p), 0);
    assert_int_equal(p->limits.high_bytes, 64 << 10);
    assert_int_equal(p->limits.low_bytes, 32 << 10);
    assert_int_equal(p->limits.held_max, 16 << 20);
    assert_int_equal(p->limits.linger_ms, 1000);
    assert_int_equal(p->limits.drain_ms, 5000);
    assert_int_equal(p->limits.idle_ms, 0);
    assert_ptr_equal(p->stages[1].config, &k);
    assert_ptr_equal(p->stages[0].account, p->stages[2].account); /* one name, one entry */
    assert_string_equal(p->stages[1].account->name, "sink");
    weir__chan_plan_release(p);
    assert_int_equal(weir__chan_plan_new(k.loop, line, 1, &high, &p), 0);
    assert_int_equal(p->limits.low_bytes, 500);
    weir__chan_plan_release(p);
    kit_loop_close(&k);
}

static void it_lives_as_long_as_its_channels(void **state) {
    (void)state;
    struct kit_loop k;
    struct weir__chan_plan *p;
    struct weir_stage line[] = {{&emb_echo, NULL}};
    kit_loop_open(&k);
    assert_int_equal(weir__chan_plan_new(k.loop, line, 1, NULL, &p), 0);
    assert_int_equal(weir__chan_accept(p, 0), 0);
    assert_int_equal(weir__chan_accept(p, 0), 0);
    assert_int_equal(p->refs, 3);
    weir__chan_plan_release(p); /* the server goes first */
    assert_int_equal(p->refs, 2);
    kit_loop_close(&k); /* asan sees whether the last channel freed it */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_makes_no_sense_is_refused, emb_begin),
        cmocka_unit_test_setup(zero_is_the_default, emb_begin),
        cmocka_unit_test_setup(it_lives_as_long_as_its_channels, emb_begin),
    };
    return cmocka_run_group_tests_name("chan/plan", tests, NULL, NULL);
}
