#include "time/wheel.h"
#include "base/assert.h"
#include "base/rng.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define MS UINT64_C(1000000)

static struct weir__time_wheel w;

static uint64_t up(uint64_t ns) {
    return (ns + MS - 1) / MS * MS;
}

static void never_early_and_on_its_millisecond(void **state) {
    (void)state;
    static const uint64_t starts[] = {0, 1, 63, 64, 4095, 4096, 262143, (UINT64_C(1) << 36) - 1};
    for (size_t s = 0; s < sizeof starts / sizeof starts[0]; s++) {
        for (uint64_t wait = 1; wait < 9000; wait += wait < 200 ? 1 : 37) {
            uint64_t now = starts[s] * MS + 7, deadline = now + wait * MS;
            struct weir__time_node n = {0};
            weir__time_wheel_init(&w, now);
            weir__time_wheel_arm(&w, &n, deadline, now);
            assert_true(weir__time_armed(&n));
            assert_true(weir__time_wheel_next(&w) <= up(deadline));
            assert_null(weir__time_wheel_pop(&w, up(deadline) - 1));
            assert_ptr_equal(weir__time_wheel_pop(&w, up(deadline)), &n);
            assert_false(weir__time_armed(&n));
            assert_null(weir__time_wheel_pop(&w, up(deadline) + 1000 * MS));
            weir__time_wheel_fini(&w);
        }
    }
}

/* Sleeping until `next` again and again reaches the deadline in at most one step per level. */
static void next_leads_to_the_deadline(void **state) {
    (void)state;
    struct weir__base_rng r;
    weir__base_rng_seed(&r, 21);
    for (int i = 0; i < 20000; i++) {
        uint64_t now = weir__base_rng_next(&r) >> 10;
        uint64_t deadline = now + (weir__base_rng_next(&r) >> (8 + weir__base_rng_below(&r, 50)));
        struct weir__time_node n = {0}, *got = NULL;
        unsigned steps = 0;
        weir__time_wheel_init(&w, now);
        weir__time_wheel_arm(&w, &n, deadline, now);
        uint64_t want = deadline > now ? up(deadline) : now / MS * MS + MS;
        while (!got) {
            uint64_t next = weir__time_wheel_next(&w);
            assert_true(next <= want && next > now);
            now = next;
            got = weir__time_wheel_pop(&w, now);
            assert_true(++steps <= WEIR__TIME_LEVELS + 3);
        }
        assert_true(now == want);
        assert_true(weir__time_wheel_next(&w) == WEIR__TIME_NEVER);
        weir__time_wheel_fini(&w);
    }
}

static void every_slot_of_every_level_can_be_disarmed(void **state) {
    (void)state;
    static struct weir__time_node n[WEIR__TIME_LEVELS * 64 + 1];
    uint64_t now = 12345 * MS;
    size_t used = 0;
    weir__time_wheel_init(&w, now);
    for (unsigned level = 0; level < WEIR__TIME_LEVELS; level++)
        for (uint64_t slot = 1; slot < 64; slot++)
            weir__time_wheel_arm(&w, &n[used++], now + (slot << (6 * level)) * MS, now);
    weir__time_wheel_arm(&w, &n[used++], WEIR__TIME_NEVER - 1, now);
    weir__time_wheel_invariants(&w);
    assert_int_equal(w.armed, used);
    for (size_t i = 0; i < used; i++) {
        assert_true(weir__time_wheel_disarm(&w, &n[i]));
        assert_false(weir__time_wheel_disarm(&w, &n[i]));
    }
    assert_true(weir__time_wheel_next(&w) == WEIR__TIME_NEVER);
    weir__time_wheel_fini(&w);
}

static void deadlines_beyond_the_wheel_wait_and_fire(void **state) {
    (void)state;
    const uint64_t year = UINT64_C(365) * 86400 * 1000 * MS;
    uint64_t now = 3 * MS;
    struct weir__time_node n[5] = {0};
    weir__time_wheel_init(&w, now);
    for (uint64_t i = 0; i < 5; i++)
        weir__time_wheel_arm(&w, &n[i], now + (5 - i) * 2 * year, now);
    for (int i = 4; i >= 0; i--) {
        uint64_t at = n[i].tick * MS;
        assert_null(weir__time_wheel_pop(&w, at - 1));
        weir__time_wheel_invariants(&w);
        assert_ptr_equal(weir__time_wheel_pop(&w, at), &n[i]);
    }
    weir__time_wheel_fini(&w);
}

static void the_past_fires_next_millisecond_not_in_this_round(void **state) {
    (void)state;
    uint64_t now = 100 * MS;
    struct weir__time_node n = {0}, *got;
    unsigned fired = 0;
    weir__time_wheel_init(&w, now);
    weir__time_wheel_arm(&w, &n, 50 * MS, now);
    now += 5000 * MS;
    while ((got = weir__time_wheel_pop(&w, now))) {
        weir__time_wheel_arm(&w, got, 0, now);
        fired++;
    }
    assert_int_equal(fired, 1);
    assert_true(weir__time_wheel_next(&w) <= now / MS * MS + MS);
    assert_ptr_equal(weir__time_wheel_pop(&w, now + MS), &n);
    weir__time_wheel_fini(&w);
}

static void a_wheel_that_lagged_keeps_the_rule(void **state) {
    (void)state;
    uint64_t now = 10 * MS;
    struct weir__time_node n = {0};
    weir__time_wheel_init(&w, now);
    now = 5000 * MS;
    weir__time_wheel_arm(&w, &n, 20 * MS, now);
    assert_null(weir__time_wheel_pop(&w, now));
    assert_ptr_equal(weir__time_wheel_pop(&w, now + MS), &n);
    weir__time_wheel_fini(&w);
}

static void callbacks_may_disarm_what_is_due(void **state) {
    (void)state;
    struct weir__time_node n[3] = {0};
    weir__time_wheel_init(&w, 0);
    for (int i = 0; i < 3; i++)
        weir__time_wheel_arm(&w, &n[i], 5 * MS, 0);
    assert_ptr_equal(weir__time_wheel_pop(&w, 5 * MS), &n[0]);
    assert_true(weir__time_armed(&n[1]));
    assert_true(weir__time_wheel_next(&w) <= 5 * MS);
    assert_true(weir__time_wheel_disarm(&w, &n[1]));
    assert_ptr_equal(weir__time_wheel_pop(&w, 5 * MS), &n[2]);
    assert_null(weir__time_wheel_pop(&w, 5 * MS));
    weir__time_wheel_fini(&w);
}

static void time_that_steps_back_fires_nothing_early(void **state) {
    (void)state;
    struct weir__time_node n = {0};
    weir__time_wheel_init(&w, 70 * MS);
    weir__time_wheel_arm(&w, &n, 75 * MS, 70 * MS);
    assert_null(weir__time_wheel_pop(&w, 50 * MS));
    assert_true(weir__time_wheel_next(&w) == 75 * MS);
    assert_null(weir__time_wheel_pop(&w, 74 * MS));
    assert_ptr_equal(weir__time_wheel_pop(&w, 75 * MS), &n);
    weir__time_wheel_fini(&w);
}

static void never_disarms_and_time_may_stand_still(void **state) {
    (void)state;
    struct weir__time_node n = {0};
    weir__time_wheel_init(&w, 10 * MS);
    weir__time_wheel_arm(&w, &n, 20 * MS, 10 * MS);
    weir__time_wheel_arm(&w, &n, WEIR__TIME_NEVER, 10 * MS);
    assert_false(weir__time_armed(&n));
    assert_null(weir__time_wheel_pop(&w, 50 * MS));
    assert_null(weir__time_wheel_pop(&w, 40 * MS));
    weir__time_wheel_arm(&w, &n, 45 * MS, 50 * MS);
    assert_null(weir__time_wheel_pop(&w, 50 * MS));
    assert_ptr_equal(weir__time_wheel_pop(&w, 51 * MS), &n);
    weir__time_wheel_fini(&w);
}

enum { MODEL = 200 };

static struct weir__time_node node[MODEL];
static uint64_t model[MODEL]; /* the millisecond at which it must fire; 0: not armed */

static void model_arm(struct weir__base_rng *r, uint64_t now) {
    size_t i = weir__base_rng_below(r, MODEL);
    uint64_t wait = weir__base_rng_next(r) >> (14 + weir__base_rng_below(r, 44));
    uint64_t at = weir__base_rng_below(r, 10) ? now + wait : now - wait % (now + 1);
    weir__time_wheel_arm(&w, &node[i], at, now);
    model[i] = at > now ? up(at) / MS : now / MS + 1;
}

/* All that is due in the model fires, in order of milliseconds, and nothing else. */
static void model_pop(struct weir__base_rng *r, uint64_t now) {
    struct weir__time_node *n;
    uint64_t last = 0;
    while ((n = weir__time_wheel_pop(&w, now))) {
        size_t i = (size_t)(n - node);
        assert_true(model[i] && model[i] <= now / MS && model[i] >= last);
        last = model[i];
        model[i] = 0;
        if (weir__base_rng_below(r, 3) == 0)
            model_arm(r, now);
    }
    for (size_t i = 0; i < MODEL; i++)
        assert_true(model[i] == 0 || model[i] > now / MS);
}

static void random_traffic_follows_the_model(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct weir__base_rng r;
        uint64_t now = seed * 977 * MS * 64;
        weir__base_rng_seed(&r, seed);
        memset(node, 0, sizeof node);
        memset(model, 0, sizeof model);
        weir__time_wheel_init(&w, now);
        for (int step = 0; step < 4000; step++) {
            size_t i = weir__base_rng_below(&r, MODEL);
            uint64_t earliest = UINT64_MAX, next = weir__time_wheel_next(&w);
            for (size_t k = 0; k < MODEL; k++)
                if (model[k] && model[k] < earliest)
                    earliest = model[k];
            assert_true(earliest == UINT64_MAX ? next == WEIR__TIME_NEVER : next <= earliest * MS);
            switch (weir__base_rng_below(&r, 4)) {
            case 0:
            case 1: model_arm(&r, now); break;
            case 2:
                assert_int_equal(weir__time_wheel_disarm(&w, &node[i]), model[i] != 0);
                model[i] = 0;
                break;
            default:
                now += weir__base_rng_next(&r) >> (20 + weir__base_rng_below(&r, 40));
                model_pop(&r, now);
            }
            if (step % 64 == 0)
                weir__time_wheel_invariants(&w);
        }
        for (size_t i = 0; i < MODEL; i++)
            weir__time_wheel_disarm(&w, &node[i]);
        weir__time_wheel_fini(&w);
    }
}

static jmp_buf back;

static void jump(const char *message) {
    (void)message;
    longjmp(back, 1);
}

static void fini_refuses_an_armed_node(void **state) {
    (void)state;
    struct weir__time_node n = {0};
    weir__time_wheel_init(&w, 0);
    weir__time_wheel_arm(&w, &n, MS, 0);
    weir__base_on_panic = jump;
    if (setjmp(back) == 0) {
        weir__time_wheel_fini(&w);
        fail();
    }
    weir__base_on_panic = NULL;
}

static void forgetting_disarms_everything(void **state) {
    (void)state;
    struct weir__time_wheel own;
    struct weir__time_node n[4] = {0};
    const uint64_t deadlines[4] = {5 * MS, 500 * MS, 70000 * MS, UINT64_MAX - 1};
    weir__time_wheel_init(&own, 0);
    for (unsigned i = 0; i < 4; i++)
        weir__time_wheel_arm(&own, &n[i], deadlines[i], 0);
    weir__time_wheel_forget(&own);
    for (unsigned i = 0; i < 4; i++)
        assert_false(weir__time_armed(&n[i]));
    assert_true(weir__time_wheel_next(&own) == WEIR__TIME_NEVER);
    weir__time_wheel_fini(&own);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forgetting_disarms_everything),
        cmocka_unit_test(never_early_and_on_its_millisecond),
        cmocka_unit_test(next_leads_to_the_deadline),
        cmocka_unit_test(every_slot_of_every_level_can_be_disarmed),
        cmocka_unit_test(deadlines_beyond_the_wheel_wait_and_fire),
        cmocka_unit_test(the_past_fires_next_millisecond_not_in_this_round),
        cmocka_unit_test(a_wheel_that_lagged_keeps_the_rule),
        cmocka_unit_test(callbacks_may_disarm_what_is_due),
        cmocka_unit_test(time_that_steps_back_fires_nothing_early),
        cmocka_unit_test(never_disarms_and_time_may_stand_still),
        cmocka_unit_test(random_traffic_follows_the_model),
        cmocka_unit_test(fini_refuses_an_armed_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
