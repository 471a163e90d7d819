/* A group in a world of the test's own: what it asks of the world, and what it tells about its
 * loops. */
#include "loop/group.h"
#include "kit/door.h"
#include "mem/pool.h"
#include "mem/raw.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

struct world {
    unsigned starts, runs, joins, calls, freed;
    const char *logged;
};

static struct world *world_of(struct weir_group *g) {
    return g->world_data;
}

static int world_start(struct weir_group *g) {
    world_of(g)->starts++;
    return 0;
}

static int world_run(struct weir_group *g) {
    world_of(g)->runs++;
    return 5;
}

static int world_join(struct weir_group *g) {
    world_of(g)->joins++;
    weir__loop_group_disown(g);
    weir__loop_group_free(g);
    return WEIR_EIO;
}

static int world_call(struct weir_group *g, struct weir_loop *l, weir__loop_call_fn *fn,
                      void *user) {
    world_of(g)->calls++;
    return fn(l, user);
}

static void world_log(struct weir_group *g, const char *line) {
    world_of(g)->logged = line;
}

static const struct weir__loop_world ops = {.start = world_start,
                                            .run = world_run,
                                            .join = world_join,
                                            .call = world_call,
                                            .log = world_log};
static const struct weir__loop_world bare = {
    .start = world_start, .run = world_run, .join = world_join};

struct owned {
    struct weir__loop_owned o;
    struct world *world;
    unsigned expected;
};

static void free_owned(struct weir__loop_owned *o) {
    struct owned *x = container_of(o, struct owned, o);
    assert_int_equal(x->world->freed++, x->expected); /* in the order they came */
}

static int seven(struct weir_loop *l, void *user) {
    *(struct weir_loop **)user = weir__loop_current;
    return l ? 7 : 0;
}

static void a_group_asks_its_world(void **state) {
    (void)state;
    struct world w = {0};
    struct owned a = {{.free = free_owned}, &w, 0}, b = {{.free = free_owned}, &w, 1};
    struct weir_group *g = weir__loop_group_new(&ops, &w);
    struct kit_loop k;
    struct weir_loop *seen = NULL;
    kit_loop_open(&k);
    assert_int_equal(weir_group_start(g), 0);
    assert_int_equal(weir_group_run(g), 5);
    assert_int_equal(weir__loop_group_call(g, k.loop, seven, &seen), 7);
    weir__loop_group_log(g, "a line");
    weir__loop_group_log(NULL, "nobody's");
    weir__loop_group_own(g, &a.o);
    weir__loop_group_own(g, &b.o);
    assert_int_equal(weir_group_join(g), WEIR_EIO);
    assert_int_equal(w.starts + w.runs + w.joins + w.calls, 4);
    assert_int_equal(w.freed, 2);
    assert_string_equal(w.logged, "a line");
    kit_loop_close(&k);
}

static void a_visit_is_on_the_loop_and_back(void **state) {
    (void)state;
    struct world w = {0};
    struct weir_mem *mine = weir_mem_open("mine");
    struct weir_group *g = weir__loop_group_new(&bare, &w);
    struct kit_loop k;
    struct weir_loop *seen = NULL;
    kit_loop_open(&k);
    weir__loop_enter(NULL);
    weir__mem_enter(mine);
    assert_int_equal(weir__loop_group_call(g, k.loop, seven, &seen), 7);
    assert_ptr_equal(seen, k.loop);
    assert_null(weir__loop_current);
    assert_ptr_equal(weir__mem_current, mine);
    weir__loop_enter(k.loop);
    weir_group_join(g);
    kit_loop_close(&k);
    weir_mem_close(mine);
}

static void no_memory_no_group(void **state) {
    (void)state;
    weir__mem_raw_fail(1);
    assert_null(weir__loop_group_new(&bare, NULL));
    weir__mem_raw_fail(0);
}

static void loops_are_numbered_and_stopped_together(void **state) {
    (void)state;
    struct world w = {0};
    struct weir_group *g = weir__loop_group_new(&bare, &w);
    struct kit_loop a, b;
    const char *why = NULL;
    kit_loop_open(&a);
    kit_loop_open(&b);
    g->loops[g->n_loops++] = a.loop;
    g->loops[g->n_loops++] = b.loop;
    g->transport = "kit";
    g->why = "because";
    assert_int_equal(weir_group_loops(g), 2);
    assert_ptr_equal(weir_group_loop(g, 1), b.loop);
    assert_null(weir_group_loop(g, 2));
    assert_string_equal(weir_group_transport(g, &why), "kit");
    assert_string_equal(why, "because");
    weir_group_stop(g, 10);
    assert_int_equal(a.loop->stop_ms, 11);
    assert_int_equal(b.loop->stop_ms, 11);
    assert_int_equal(a.door.wakes + b.door.wakes, 2);
    kit_loop_close(&b);
    kit_loop_close(&a);
    weir_group_join(g);
}

static void statistics_are_the_loops_counters(void **state) {
    (void)state;
    struct world w = {0};
    struct weir_group *g = weir__loop_group_new(&bare, &w);
    struct kit_loop k;
    struct weir_loop_stats s;
    struct weir_handler_stats h[2];
    kit_loop_open(&k);
    g->loops[g->n_loops++] = k.loop;
    weir__loop_add(&k.loop->counters.opened, 3);
    weir__loop_add(&k.loop->counters.channels, (uint64_t)-1);
    weir__loop_add(&k.loop->counters.channels, 2);
    weir__io_count(&k.door.io.stats.sent_bytes, 99);
    weir__loop_turn(k.loop);
    assert_int_equal(weir_group_loop_stats(g, 0, &s), 0);
    assert_int_equal(s.opened, 3);
    assert_int_equal(s.channels, 1);
    assert_int_equal(s.sent_bytes, 99);
    assert_int_equal(s.turns, 1);
    assert_int_equal(s.at_ns, k.door.now_ns);
    assert_int_equal(weir_group_loop_stats(g, 1, &s), WEIR_EINVAL);
    struct weir__loop_handler *x = weir__loop_intern(&k.loop->account, "x");
    weir__loop_add(&x->bytes, 12);
    weir__loop_intern(&k.loop->account, "y");
    assert_int_equal(weir_group_handler_stats(g, 0, h, 2), 3); /* that many there are; two fit */
    assert_string_equal(h[0].name, "(loop)");
    assert_string_equal(h[1].name, "x");
    assert_int_equal(h[1].bytes, 12);
    assert_int_equal(weir_group_handler_stats(g, 1, h, 2), WEIR_EINVAL);
    assert_string_equal(weir_pause_name(WEIR_PAUSE_RUN_QUEUE), "run_queue");
    assert_string_equal(weir_pause_name(WEIR_PAUSE_TURN), "turn");
    assert_string_equal(weir_pause_name(WEIR_PAUSES), "?");
    kit_loop_close(&k);
    weir_group_join(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_asks_its_world),
        cmocka_unit_test(a_visit_is_on_the_loop_and_back),
        cmocka_unit_test(no_memory_no_group),
        cmocka_unit_test(loops_are_numbered_and_stopped_together),
        cmocka_unit_test(statistics_are_the_loops_counters),
    };
    return cmocka_run_group_tests_name("loop/group", tests, NULL, NULL);
}
