/* Work of a loop, with workers that do what the test says. */
#include "loop/work.h"
#include "kit/door.h"
#include "loop/group.h"
#include "loop/loop.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

enum { ITEMS = 12 };

struct pool {
    struct weir__loop_workers base;
    struct weir__loop_work *taken[ITEMS];
    unsigned n, cancels, awaits;
    int refuse;
};

static struct pool *pool_of(struct weir__loop_workers *p) {
    return container_of(p, struct pool, base);
}

static int pool_submit(struct weir__loop_workers *base, struct weir__loop_work *w) {
    struct pool *p = pool_of(base);
    if (p->refuse)
        return p->refuse;
    p->taken[p->n++] = w;
    return 0;
}

static void pool_cancel(struct weir__loop_workers *base, struct weir_loop *l) {
    struct pool *p = pool_of(base);
    p->cancels++;
    for (unsigned i = 1; i < p->n; i++) { /* the first one runs */
        assert_ptr_equal(p->taken[i]->loop, l);
        weir__loop_work_over(p->taken[i], WEIR_ESTOPPED);
    }
    p->n = p->n ? 1 : 0;
}

static void pool_await(struct weir__loop_workers *base, struct weir_loop *l) {
    struct pool *p = pool_of(base);
    (void)l;
    p->awaits++;
    if (p->n)
        weir__loop_work_over(p->taken[--p->n], 0);
}

static const struct weir__loop_workers_ops ops = {
    .submit = pool_submit, .cancel = pool_cancel, .await = pool_await};

struct item {
    struct weir__loop_work work;
    unsigned done;
    int status;
    bool again;
};

static void item_run(struct weir__loop_work *w) {
    (void)w;
}

static void item_done(struct weir_loop *l, struct weir__loop_work *w, int status) {
    struct item *i = container_of(w, struct item, work);
    i->done++;
    i->status = status;
    if (i->again) {
        i->again = false;
        assert_int_equal(weir__loop_work_submit(l, w), 0);
    }
}

struct bench {
    struct kit_loop k;
    struct pool pool;
    struct item items[ITEMS];
};

static void begin(struct bench *b) {
    memset(b, 0, sizeof *b);
    kit_loop_open(&b->k);
    b->pool.base.ops = &ops;
    b->k.loop->env.workers = &b->pool.base;
    for (unsigned i = 0; i < ITEMS; i++) {
        b->items[i].work.run = item_run;
        b->items[i].work.done = item_done;
    }
}

static int submit(struct bench *b, unsigned i) {
    return weir__loop_work_submit(b->k.loop, &b->items[i].work);
}

/* Time stands still. */
static int look(struct bench *b) {
    b->k.loop->look_only = true;
    return weir__loop_turn(b->k.loop);
}

static void done_comes_with_a_turn_and_only_once(void **state) {
    struct bench b;
    (void)state;
    begin(&b);
    assert_int_equal(submit(&b, 0), 0);
    kit_loop_settle(&b.k);
    assert_int_equal(b.items[0].done, 0);
    weir__loop_work_over(&b.items[0].work, 0);
    assert_int_equal(b.items[0].done, 0);
    kit_loop_settle(&b.k);
    assert_true(b.items[0].done == 1 && b.items[0].status == 0);
    b.pool.n = 0;
    kit_loop_close(&b.k);
    assert_int_equal(b.items[0].done, 1);
    assert_int_equal(b.pool.cancels, 0); /* nothing was out */
}

/* One turn; how long its wait was asked to last. */
static uint64_t asked(struct bench *b) {
    uint64_t before = b->k.door.now_ns;
    assert_int_equal(weir__loop_turn(b->k.loop), 1);
    return b->k.door.asked_ns - before;
}

/* The result of item i, which took so long; and a turn. */
static void comes(struct bench *b, unsigned i, uint64_t cpu_ns) {
    b->items[i].work.cpu_ns = cpu_ns;
    weir__loop_work_over(&b->items[i].work, 0);
    assert_int_equal(look(b), 1);
    assert_int_equal(b->items[i].done, 1);
}

/* While results of a crowd keep coming the loop naps; one nap that brought nothing, small work, or
 * few left, and it sleeps until somebody rings. */
static void results_of_a_crowd_are_gathered(void **state) {
    enum { LONG = WEIR__LOOP_GATHER_MAX_NS, WORK = 60000, LAST = WEIR__LOOP_CROWD + 2 };
    struct bench b;
    (void)state;
    begin(&b);
    kit_loop_settle(&b.k);
    for (unsigned i = 0; i <= LAST; i++)
        assert_int_equal(submit(&b, i), 0);
    assert_true(asked(&b) > LONG);
    comes(&b, 0, WORK);
    assert_int_equal(asked(&b), 2 * WORK);
    assert_true(asked(&b) > LONG); /* nothing came */
    comes(&b, 1, WEIR__LOOP_GATHER_MIN_NS / 4);
    assert_true(asked(&b) > LONG);
    comes(&b, 2, 10000000);
    assert_int_equal(asked(&b), LONG); /* eight are out */
    comes(&b, 3, WORK);
    assert_true(asked(&b) > LONG); /* seven are no crowd */
    for (unsigned i = 4; i <= LAST; i++)
        weir__loop_work_over(&b.items[i].work, 0);
    b.pool.n = 0;
    kit_loop_close(&b.k);
}

static void refused_is_not_out(void **state) {
    struct bench b;
    (void)state;
    begin(&b);
    b.pool.refuse = WEIR_ENOMEM;
    assert_int_equal(submit(&b, 0), WEIR_ENOMEM);
    b.k.loop->env.workers = NULL;
    assert_int_equal(submit(&b, 0), WEIR_ENOTSUP);
    assert_int_equal(b.k.loop->works, 0);
    kit_loop_close(&b.k);
    assert_int_equal(b.items[0].done, 0);
}

static void a_drain_lets_work_come_to_its_end(void **state) {
    struct bench b;
    (void)state;
    begin(&b);
    b.items[0].again = true;
    assert_int_equal(submit(&b, 0), 0);
    weir__loop_stop(b.k.loop, 1000);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(look(&b), 1);
    assert_int_equal(b.pool.cancels, 0);
    weir__loop_work_over(&b.items[0].work, 0);
    assert_int_equal(look(&b), 1); /* it was submitted again */
    weir__loop_work_over(&b.items[0].work, 0);
    while (look(&b) > 0)
        ;
    assert_int_equal(b.items[0].done, 2);
    kit_loop_free(&b.k);
}

static void an_abort_stops_what_has_not_begun(void **state) {
    struct bench b;
    (void)state;
    begin(&b);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(submit(&b, i), 0);
    weir__loop_stop(b.k.loop, 0);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(weir__loop_turn(b.k.loop), 1);
    assert_int_equal(b.pool.cancels, 1);
    assert_true(b.items[1].status == WEIR_ESTOPPED && b.items[2].status == WEIR_ESTOPPED);
    assert_int_equal(submit(&b, 3), WEIR_ESTOPPED);
    weir__loop_work_over(&b.items[0].work, 0);
    while (weir__loop_turn(b.k.loop) > 0)
        ;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(b.items[i].done, 1);
    kit_loop_free(&b.k);
}

static void submit_late(struct weir_loop *l, void *user) {
    struct item *i = user;
    i->status = weir__loop_work_submit(l, &i->work);
}

static void post_late(struct weir_loop *l, void *user) {
    assert_int_equal(weir_loop_post(l, submit_late, user), 0);
}

/* A last task runs when the inbox is closed already: a result could not come in any more. */
static void nothing_leaves_behind_the_inbox(void **state) {
    struct bench b;
    (void)state;
    begin(&b);
    assert_int_equal(weir_loop_post(b.k.loop, post_late, &b.items[0]), 0);
    weir__loop_stop(b.k.loop, 1000);
    while (look(&b) > 0)
        ;
    assert_int_equal(b.items[0].status, WEIR_ESTOPPED);
    assert_int_equal(b.pool.n, 0);
    kit_loop_free(&b.k);
}

static void an_abandoned_loop_awaits(void **state) {
    struct bench b;
    (void)state;
    begin(&b);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(submit(&b, i), 0);
    assert_true(weir__loop_abandon(b.k.loop));
    assert_int_equal(b.pool.awaits, 1);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(b.items[i].done, 1);
    kit_loop_free(&b.k);
}

static void time_is_counted_where_it_belongs(void **state) {
    struct bench b;
    (void)state;
    begin(&b);
    struct weir__loop_handler *h = weir__loop_name(b.k.loop, "whose");
    b.items[0].work.handler = b.items[1].work.handler = h;
    assert_int_equal(submit(&b, 0), 0);
    assert_int_equal(submit(&b, 1), 0);
    b.items[0].work.cpu_ns = 700;
    weir__loop_work_over(&b.items[0].work, 0);
    weir__loop_work_over(&b.items[1].work, WEIR_ESTOPPED); /* never ran */
    kit_loop_settle(&b.k);
    assert_true(h->offloads == 1 && h->offload_ns == 700);
    kit_loop_close(&b.k);
}

static void a_group_tells_of_its_workers(void **state) {
    static const struct weir__loop_world world = {0};
    struct weir_worker_stats s;
    struct bench b;
    (void)state;
    begin(&b);
    struct weir_group *g = weir__loop_group_new(&world, NULL);
    assert_int_equal(weir_group_worker_stats(g, &s), WEIR_ENOTSUP);
    g->loops[0] = b.k.loop;
    g->n_loops = 1;
    b.pool.base.jobs = 5;
    b.pool.base.threads = 2;
    b.pool.base.waiting_max = 3;
    assert_int_equal(weir_group_worker_stats(g, &s), 0);
    assert_true(s.jobs == 5 && s.threads == 2 && s.waiting_max == 3 && s.cpu_ns == 0);
    weir__loop_group_free(g);
    kit_loop_close(&b.k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(done_comes_with_a_turn_and_only_once),
        cmocka_unit_test(results_of_a_crowd_are_gathered),
        cmocka_unit_test(refused_is_not_out),
        cmocka_unit_test(a_drain_lets_work_come_to_its_end),
        cmocka_unit_test(an_abort_stops_what_has_not_begun),
        cmocka_unit_test(nothing_leaves_behind_the_inbox),
        cmocka_unit_test(an_abandoned_loop_awaits),
        cmocka_unit_test(time_is_counted_where_it_belongs),
        cmocka_unit_test(a_group_tells_of_its_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
