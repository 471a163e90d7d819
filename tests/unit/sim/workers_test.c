/* Work in the simulated world: late, in any order, the same order for the same seed. */
#include "loop/group.h"
#include "loop/work.h"
#include "weir/sim.h"
#include "weir/stats.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

enum { ITEMS = 20 };

struct item {
    struct weir__loop_work work;
    struct bench *b;
    bool ran;
    uint64_t at_ns;
    unsigned done;
    int status;
};

struct bench {
    struct weir_sim *sim;
    unsigned n, refused, order[ITEMS];
    struct item items[ITEMS];
};

static void run(struct weir__loop_work *w) {
    struct item *i = container_of(w, struct item, work);
    assert_null(weir__loop_current);
    i->ran = true;
    i->at_ns = weir_sim_now(i->b->sim);
}

static void done(struct weir_loop *l, struct weir__loop_work *w, int status) {
    struct item *i = container_of(w, struct item, work);
    assert_ptr_equal(weir__loop_current, l);
    i->done++;
    i->status = status;
    i->b->order[i->b->n++] = (unsigned)(i - i->b->items);
}

static void submit_all(struct weir_loop *l, void *user) {
    struct bench *b = user;
    for (unsigned i = 0; i < ITEMS; i++) {
        struct item *it = &b->items[i];
        it->b = b;
        it->work.run = run;
        it->work.done = done;
        int rc = weir__loop_work_submit(l, &it->work);
        assert_true(rc == 0 || rc == WEIR_ENOMEM);
        b->refused += rc < 0;
    }
}

static bool all_done(void *user) {
    struct bench *b = user;
    return b->n + b->refused == ITEMS;
}

static void begin(struct bench *b, uint64_t seed, uint32_t us_max, uint32_t refuse_ppm) {
    struct weir_sim_options o = {
        .size = sizeof o, .seed = seed, .job_us_max = us_max, .job_enomem_ppm = refuse_ppm};
    memset(b, 0, sizeof *b);
    b->sim = weir_sim_new(&o);
    assert_non_null(b->sim);
    struct weir_loop *l = weir_group_loop(weir_sim_group(b->sim), 0);
    assert_int_equal(weir_loop_post(l, submit_all, b), 0);
}

static void end(struct bench *b) {
    weir_group_stop(weir_sim_group(b->sim), 0);
    assert_int_equal(weir_group_join(weir_sim_group(b->sim)), 0);
    assert_int_equal(weir_sim_free(b->sim), 0);
}

static void later_in_any_order_by_seed(void **state) {
    struct bench a, same, other;
    (void)state;
    begin(&a, 1, 5000, 0);
    assert_int_equal(weir_sim_run(a.sim, 1000, all_done, &a), 1);
    bool sorted = true, spread = false;
    for (unsigned i = 0; i < ITEMS; i++) {
        assert_true(a.items[i].done == 1 && a.items[i].ran && a.items[i].status == 0);
        sorted &= a.order[i] == i;
        spread |= a.items[i].at_ns > a.items[a.order[0]].at_ns + 2000000;
    }
    assert_false(sorted);
    assert_true(spread);
    begin(&same, 1, 5000, 0);
    assert_int_equal(weir_sim_run(same.sim, 1000, all_done, &same), 1);
    assert_memory_equal(a.order, same.order, sizeof a.order);
    begin(&other, 2, 5000, 0);
    assert_int_equal(weir_sim_run(other.sim, 1000, all_done, &other), 1);
    assert_memory_not_equal(a.order, other.order, sizeof a.order);
    end(&a);
    end(&same);
    end(&other);
}

static void some_cannot_be_taken(void **state) {
    struct weir_worker_stats s;
    struct bench b;
    (void)state;
    begin(&b, 3, 0, 300000);
    assert_int_equal(weir_sim_run(b.sim, 1000, all_done, &b), 1);
    assert_in_range(b.refused, 1, ITEMS - 1);
    assert_int_equal(weir_group_worker_stats(weir_sim_group(b.sim), &s), 0);
    assert_true(s.jobs == ITEMS - b.refused && s.finished == s.jobs && !s.waiting && s.cpu_ns);
    assert_int_equal(s.waiting_max, s.jobs);
    end(&b);
}

static void an_abort_stops_what_is_pending(void **state) {
    struct weir_worker_stats s;
    struct bench b;
    (void)state;
    begin(&b, 4, 100000, 0);
    assert_int_equal(weir_sim_run(b.sim, 20, all_done, &b), 0);
    weir_group_stop(weir_sim_group(b.sim), 0);
    assert_int_equal(weir_group_join(weir_sim_group(b.sim)), 0);
    assert_true(all_done(&b));
    unsigned ran = 0;
    for (unsigned i = 0; i < ITEMS; i++) {
        assert_int_equal(b.items[i].done, 1);
        assert_int_equal(b.items[i].status, b.items[i].ran ? 0 : WEIR_ESTOPPED);
        ran += b.items[i].ran;
    }
    assert_in_range(ran, 1, ITEMS - 1);
    assert_int_equal(weir_group_worker_stats(weir_sim_group(b.sim), &s), 0);
    assert_true(s.finished == ran && s.stopped == ITEMS - ran);
    assert_int_equal(weir_sim_free(b.sim), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(later_in_any_order_by_seed),
        cmocka_unit_test(some_cannot_be_taken),
        cmocka_unit_test(an_abort_stops_what_is_pending),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
