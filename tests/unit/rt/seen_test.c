/* Threads that are seen: pictures of the right turn only, samples that end when told to. */
#include "rt/seen.h"
#include "base/compiler.h"
#include "kit/door.h"
#include "os/clock.h"
#include "os/fault.h"
#include "rt/samples.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct room {
    struct weir__rt_crowd crowd;
    struct weir__rt_seen seen;
    struct kit_loop k;
};

/* This thread is the loop's: it answers itself, before ask returns. */
static void open_room(struct room *r) {
    memset(r, 0, sizeof *r);
    kit_loop_open(&r->k);
    assert_int_equal(weir__rt_crowd_init(&r->crowd), 0);
    weir__rt_crowd_open(&r->crowd, 1);
    assert_int_equal(r->crowd.code, 0);
    weir__rt_seen_join(&r->crowd, &r->seen, "a-name-of-more-than-15", r->k.loop);
    assert_string_equal(r->seen.name, "a-name-of-more-");
}

static void close_room(struct room *r) {
    weir__rt_seen_leave(&r->seen);
    assert_true(weir__base_list_empty(&r->crowd.threads));
    weir__rt_crowd_end(&r->crowd);
    weir__rt_crowd_close(&r->crowd);
    weir__rt_crowd_fini(&r->crowd);
    kit_loop_close(&r->k);
}

static void turn(struct room *r, uint64_t at_ns, uint64_t ended_ns) {
    atomic_store(&r->k.loop->counters.turn_at_ns, at_ns);
    atomic_store(&r->k.loop->counters.at_ns, ended_ns);
}

/* Signals may come with the next call at the latest. */
static bool taken(struct room *r) {
    (void)weir__os_clock_mono();
    return weir__rt_picture_taken(&r->seen);
}

static void a_picture_is_of_the_turn_that_was_asked_for(void **state) {
    struct room r;
    struct weir__loop_handler *h;
    (void)state;
    open_room(&r);
    h = weir__loop_intern(&r.k.loop->account, "digest");
    weir__loop_frame_enter(&r.k.loop->account, h, 77);
    turn(&r, 500, 400);
    assert_true(weir__rt_picture_ask(&r.seen, 499)); /* another turn */
    assert_false(taken(&r));
    turn(&r, 500, 600);
    assert_true(weir__rt_picture_ask(&r.seen, 500)); /* over */
    assert_false(taken(&r));
    turn(&r, 500, 400);
    assert_true(weir__rt_picture_ask(&r.seen, 500));
    assert_true(taken(&r));
    assert_int_equal(r.seen.picture.n_handlers, 1);
    assert_string_equal(r.seen.picture.handlers[0], "digest");
    assert_int_equal(r.seen.picture.channel, 77);
    assert_true(r.seen.picture.at.n > 0);
    weir__loop_frame_leave(&r.k.loop->account);
    turn(&r, 0, 0);
    close_room(&r);
}

static void a_thread_that_cannot_be_asked(void **state) {
    struct weir__os_fault f = {.kind = WEIR__OS_SIGNAL, .nth = 1, .error = EAGAIN};
    struct room r;
    (void)state;
    open_room(&r);
    turn(&r, 500, 400);
    weir__os_fault_set(&f);
    assert_false(weir__rt_picture_ask(&r.seen, 500));
    weir__os_fault_set(NULL);
    assert_false(taken(&r));
    turn(&r, 0, 0);
    close_room(&r);
}

/* A group that came when every signal was taken asks for nothing, though another group has one
 * since: it would be taken away while the question is under way. */
static void a_crowd_without_a_signal_never_asks(void **state) {
    struct room r;
    (void)state;
    open_room(&r);
    r.crowd.code = -ENOTSUP;
    turn(&r, 500, 400);
    assert_false(weir__rt_picture_ask(&r.seen, 500));
    assert_false(taken(&r));
    r.crowd.code = 0;
    turn(&r, 0, 0);
    close_room(&r);
}

/* Burns CPU time until a sample is there. */
static void work_until(struct weir__rt_samples *s, uint32_t n) {
    uint64_t until = weir__os_clock_mono() + 30000000000ull;
    while (atomic_load(&s->taken) < n && weir__os_clock_mono() < until)
        continue;
    assert_true(atomic_load(&s->taken) >= n);
}

static void samples_are_written_until_the_end(void **state) {
    struct weir__rt_samples *s = calloc(1, sizeof *s + 2 * sizeof s->at[0]);
    struct room r;
    (void)state;
    assert_non_null(s);
    s->n_max = 2;
    open_room(&r);
    r.seen.loop = NULL; /* as a worker */
    atomic_store(&r.seen.job, "resize");
    weir__os_mutex_lock(&r.crowd.mutex);
    assert_int_equal(weir__rt_seen_sample(&r.seen, s, 3, 1000), 0);
    work_until(s, 4); /* two more than there is room for */
    weir__rt_seen_sample_end(&r.seen);
    weir__os_mutex_unlock(&r.crowd.mutex);
    assert_int_equal(s->at[1].thread, 3);
    assert_int_equal(s->at[1].n_handlers, 1);
    assert_string_equal(s->at[1].handlers[0], "resize");
    assert_true(s->at[1].at_ns >= s->at[0].at_ns);
    r.seen.loop = r.k.loop;
    close_room(&r);
    free(s);
}

static void a_crowd_that_cannot_be_made(void **state) {
    struct weir__rt_crowd c;
    (void)state;
    for (unsigned nth = 1; nth <= 2; nth++) {
        struct weir__os_fault f = {.kind = WEIR__OS_THREAD, .nth = nth, .error = ENOMEM};
        weir__os_fault_set(&f);
        assert_int_equal(weir__rt_crowd_init(&c), -ENOMEM);
        weir__os_fault_set(NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_picture_is_of_the_turn_that_was_asked_for),
        cmocka_unit_test(a_thread_that_cannot_be_asked),
        cmocka_unit_test(a_crowd_without_a_signal_never_asks),
        cmocka_unit_test(samples_are_written_until_the_end),
        cmocka_unit_test(a_crowd_that_cannot_be_made),
    };
    return cmocka_run_group_tests_name("rt/seen", tests, NULL, NULL);
}
