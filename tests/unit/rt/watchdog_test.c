/* Long turns: what is news, how often it is said, and a real one with its picture. */
#include "base/compiler.h"
#include "loop/group.h"
#include "loop/local.h"
#include "os/clock.h"
#include "os/fault.h"
#include "rt/rt.h"
#include "rt/watchdog.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

enum { DEADLINE_S = 30, LIMIT = 100 };

#if defined(__SANITIZE_THREAD__)
enum { STACKS = 0 }; /* signals are held back there until something is called */
#else
enum { STACKS = 1 };
#endif

static enum weir__rt_turn_news look(struct weir__rt_turn_watch *w, uint64_t now, uint64_t at,
                                    uint64_t ended, uint64_t count) {
    struct weir__rt_turn_view v = {
        .now_ns = now, .at_ns = at, .ended_ns = ended, .long_turns = count};
    return weir__rt_turn_look(w, &v, LIMIT);
}

static void a_long_turn_is_news_twice(void **state) {
    struct weir__rt_turn_watch w = {0};
    (void)state;
    assert_int_equal(look(&w, 1000, 0, 0, 0), WEIR__RT_CALM); /* never turned */
    assert_int_equal(look(&w, 1000, 990, 980, 0), WEIR__RT_CALM);
    assert_int_equal(look(&w, 1090, 990, 980, 0), WEIR__RT_CALM); /* as long as the limit */
    assert_int_equal(look(&w, 1091, 990, 980, 0), WEIR__RT_BEGAN);
    assert_int_equal(look(&w, 1200, 990, 980, 0), WEIR__RT_CALM); /* said already */
    assert_int_equal(look(&w, 1300, 990, 1250, 1), WEIR__RT_OVER);
    assert_int_equal(look(&w, 1400, 990, 1250, 1), WEIR__RT_CALM); /* asleep */
    assert_int_equal(look(&w, 1500, 1300, 1250, 1), WEIR__RT_BEGAN);
}

static void one_that_no_look_met(void **state) {
    struct weir__rt_turn_watch w = {0};
    (void)state;
    assert_int_equal(look(&w, 5000, 100, 4000, 1), WEIR__RT_OVER);
    assert_int_equal(look(&w, 6000, 5000, 4000, 2), WEIR__RT_OVER); /* the end comes first */
    assert_int_equal(look(&w, 6000, 5000, 4000, 2), WEIR__RT_BEGAN);
}

static void lines_are_limited(void **state) {
    struct weir__rt_said s = {0};
    uint64_t second = 1000000000;
    unsigned hushed;
    (void)state;
    for (unsigned i = 0; i < WEIR__RT_SAID_MAX; i++) {
        assert_true(weir__rt_may_say(&s, second + i, &hushed));
        assert_int_equal(hushed, 0);
    }
    assert_false(weir__rt_may_say(&s, second + 100, &hushed));
    assert_false(weir__rt_may_say(&s, second * WEIR__RT_SAID_S, &hushed));
    assert_true(weir__rt_may_say(&s, second + second * WEIR__RT_SAID_S, &hushed));
    assert_int_equal(hushed, 2);
    assert_true(weir__rt_may_say(&s, second + second * WEIR__RT_SAID_S, &hushed));
    assert_int_equal(hushed, 0);
}

/* --- a real one ------------------------------------------------------------------------------ */

static struct weir_group *group_of(uint32_t watchdog_ms) {
    struct weir_group_options o = {.size = sizeof o, .loops = 1, .watchdog_ms = watchdog_ms};
    struct weir_group *g;
    assert_int_equal(weir_group_new(&o, &g), 0);
    return g;
}

struct spin {
    _Atomic bool begun, end;
};

static uint64_t deadline(void) {
    return weir__os_clock_mono() + DEADLINE_S * 1000000000ull;
}

WEIR_NOINLINE static void digest_rounds(struct spin *s) {
    uint64_t until = deadline();
    while (!s->end && weir__os_clock_mono() < until)
        s->begun = true;
}

static void spin(struct weir_loop *l, void *user) {
    weir__loop_attribute(l, weir__loop_name(l, "linkd"), 0x2a);
    weir__loop_attribute(l, weir__loop_name(l, "digest"), 0x2b);
    digest_rounds(user);
    weir__loop_attribute_end(l);
    weir__loop_attribute_end(l);
}

static void until_told(struct weir_group *g, struct weir_long_turn *out, bool over) {
    uint64_t end = deadline();
    do
        weir__os_clock_sleep(1000000);
    while ((weir_group_long_turns(g, out, 1) != 1 || out->over != over) &&
           weir__os_clock_mono() < end);
    assert_int_equal(out->over, over);
}

/* What the library says on stderr from now on. */
static int hear(int *before) {
    int fd = memfd_create("stderr", MFD_CLOEXEC);
    assert_true(fd >= 0);
    fflush(stderr);
    *before = dup(2);
    dup2(fd, 2);
    return fd;
}

static void heard(int fd, int before, char *out, size_t cap) {
    fflush(stderr);
    dup2(before, 2);
    close(before);
    ssize_t n = pread(fd, out, cap - 1, 0);
    out[n > 0 ? n : 0] = 0;
    close(fd);
}

static void the_handler_and_the_function_are_named(void **state) {
    struct weir_group *g = group_of(20);
    struct weir_long_turn t;
    struct weir_pause_stats pauses[WEIR_PAUSES];
    struct spin s = {0};
    char text[8192];
    int before, fd = hear(&before);
    (void)state;
    assert_int_equal(weir_loop_post(weir_group_loop(g, 0), spin, &s), 0);
    assert_int_equal(weir_group_start(g), 0);
    until_told(g, &t, false);
    s.end = true;
    uint64_t so_far = t.length_ns;
    if (STACKS) {
        assert_int_equal(t.n_handlers, 2);
        assert_string_equal(t.handlers[0], "digest");
        assert_string_equal(t.handlers[1], "linkd");
        assert_int_equal(t.channel, 0x2b);
        assert_non_null(strstr(t.stack, "digest_rounds+0x"));
        assert_non_null(strstr(t.stack, "spin+0x"));
        assert_null(strstr(t.stack, "weir__loop_turn"));
    }
    until_told(g, &t, true);
    assert_int_equal(t.loop, 0);
    assert_true(t.length_ns >= 20000000 && t.length_ns >= so_far / 2);
    assert_int_equal(weir_group_long_turns(g, &t, 1), 1);
    assert_int_equal(weir_group_pause_stats(g, 0, pauses), 0);
    assert_true(pauses[WEIR_PAUSE_TURN].known);
    assert_int_equal(pauses[WEIR_PAUSE_TURN].count, 1);
    assert_int_equal(pauses[WEIR_PAUSE_TURN].longest_ns, t.length_ns);
    assert_int_equal(pauses[WEIR_PAUSE_TURN].total_ns, t.length_ns);
    assert_true(pauses[WEIR_PAUSE_MEMORY].known);
    weir_group_stop(g, 0);
    assert_int_equal(weir_group_join(g), 0);
    heard(fd, before, text, sizeof text);
    assert_non_null(strstr(text, "weir: loop 0: a turn has run "));
    assert_non_null(strstr(text, "weir: loop 0: a turn of "));
    if (STACKS)
        assert_non_null(strstr(text, " ms, in handler digest < linkd (channel 2b): "));
}

static void off_it_says_nothing(void **state) {
    struct weir_group *g = group_of(UINT32_MAX);
    struct weir_long_turn t;
    struct weir_pause_stats pauses[WEIR_PAUSES];
    (void)state;
    assert_int_equal(weir_group_start(g), 0);
    assert_int_equal(weir_group_long_turns(g, &t, 1), 0);
    assert_int_equal(weir_group_pause_stats(g, 0, pauses), 0);
    assert_false(pauses[WEIR_PAUSE_TURN].known);
    assert_false(pauses[WEIR_PAUSE_RUN_QUEUE].known);
    assert_int_equal(weir_group_pause_stats(g, 1, pauses), WEIR_EINVAL);
    weir_group_stop(g, 0);
    assert_int_equal(weir_group_join(g), 0);
}

static void without_a_thread_the_group_runs(void **state) {
    struct weir_group *g = group_of(0);
    struct weir__os_fault f = {.kind = WEIR__OS_THREAD, .nth = 2, .error = EAGAIN};
    char text[1024];
    int before, fd = hear(&before);
    (void)state;
    weir__os_fault_set(&f);
    assert_int_equal(weir_group_start(g), 0);
    weir__os_fault_set(NULL);
    weir_group_stop(g, 0);
    assert_int_equal(weir_group_join(g), 0);
    heard(fd, before, text, sizeof text);
    assert_string_equal(text,
                        "weir: no thread for the watchdog: long turns are counted, not shown\n");
}

/* Every signal has a handler: turns are told of without a picture. */
static void without_a_signal_there_is_no_picture(void **state) {
    struct spin s = {0};
    struct weir_long_turn t;
    char text[1024];
    (void)state;
    for (int sig = SIGRTMIN; sig <= SIGRTMAX; sig++)
        signal(sig, SIG_IGN);
    struct weir_group *g = group_of(20);
    int before, fd = hear(&before);
    assert_int_equal(weir_loop_post(weir_group_loop(g, 0), spin, &s), 0);
    assert_int_equal(weir_group_start(g), 0);
    until_told(g, &t, false);
    s.end = true;
    until_told(g, &t, true);
    assert_int_equal(t.n_handlers, 0);
    assert_string_equal(t.stack, "");
    weir_group_stop(g, 0);
    assert_int_equal(weir_group_join(g), 0);
    heard(fd, before, text, sizeof text);
    assert_non_null(strstr(text, "weir: loop 0: a turn has run "));
    for (int sig = SIGRTMIN; sig <= SIGRTMAX; sig++)
        signal(sig, SIG_DFL);
}

/* Another long turn begins and ends between two looks: so the first one has ended, too. */
static void a_turn_whose_end_no_look_met_is_over(void **state) {
    struct weir_group *g = group_of(20);
    struct weir__rt *rt = g->world_data;
    struct weir_loop *l = weir_group_loop(g, 0);
    struct spin first = {0}, second = {0};
    struct weir_long_turn t[WEIR_LONG_TURNS];
    char text[8192];
    int before, fd = hear(&before);
    (void)state;
    assert_int_equal(weir_loop_post(l, spin, &first), 0);
    assert_int_equal(weir_group_start(g), 0);
    until_told(g, t, false);
    weir__os_mutex_lock(&rt->crowd.mutex); /* nobody looks */
    assert_int_equal(weir_loop_post(l, spin, &second), 0);
    first.end = true;
    uint64_t until = deadline();
    while (!second.begun && weir__os_clock_mono() < until)
        continue;
    weir__os_clock_sleep(40000000);
    second.end = true;
    while (atomic_load(&l->pauses[WEIR_PAUSE_TURN].count) < 2 && weir__os_clock_mono() < until)
        continue;
    weir__os_mutex_unlock(&rt->crowd.mutex);
    until_told(g, t, true);
    assert_int_equal(weir_group_long_turns(g, t, WEIR_LONG_TURNS), 2);
    assert_true(t[1].over);
    assert_true(t[1].at_ns + t[1].length_ns <= t[0].at_ns);
    assert_true(t[1].length_ns >= 20000000 && t[1].cpu_ns > 0);
    weir_group_stop(g, 0);
    assert_int_equal(weir_group_join(g), 0);
    heard(fd, before, text, sizeof text);
}

static void the_ring_keeps_the_last_ones(void **state) {
    static struct spin spins[WEIR_LONG_TURNS + 2];
    struct weir_group *g = group_of(20);
    struct weir_long_turn t[WEIR_LONG_TURNS + 1];
    char text[8192];
    int before, fd = hear(&before);
    (void)state;
    assert_int_equal(weir_group_start(g), 0);
    for (unsigned i = 0; i < WEIR_LONG_TURNS + 2; i++) {
        assert_int_equal(weir_loop_post(weir_group_loop(g, 0), spin, &spins[i]), 0);
        until_told(g, t, false);
        spins[i].end = true;
        until_told(g, t, true);
    }
    assert_int_equal(weir_group_long_turns(g, t, WEIR_LONG_TURNS + 1), WEIR_LONG_TURNS);
    for (unsigned i = 1; i < WEIR_LONG_TURNS; i++)
        assert_true(t[i - 1].at_ns > t[i].at_ns);
    weir_group_stop(g, 0);
    assert_int_equal(weir_group_join(g), 0);
    heard(fd, before, text, sizeof text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_turn_is_news_twice),
        cmocka_unit_test(one_that_no_look_met),
        cmocka_unit_test(lines_are_limited),
        cmocka_unit_test(the_handler_and_the_function_are_named),
        cmocka_unit_test(off_it_says_nothing),
        cmocka_unit_test(without_a_thread_the_group_runs),
        cmocka_unit_test(without_a_signal_there_is_no_picture),
        cmocka_unit_test(a_turn_whose_end_no_look_met_is_over),
        cmocka_unit_test(the_ring_keeps_the_last_ones),
    };
    return cmocka_run_group_tests_name("rt/watchdog", tests, NULL, NULL);
}
