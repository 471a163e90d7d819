/* Jobs of a channel: back in their line or as they come, exactly once, to whoever is still there.
 * The workers are the test's own: a job comes back when the test says so. */
#include "chan/chan.h"
#include "kit/embedded.h"
#include "loop/work.h"
#include "mem/pool.h"
#include <ctype.h>

enum { JOBS_MAX = 200 };

/* --- workers --------------------------------------------------------------------------------- */

static struct {
    struct weir__loop_workers base;
    struct weir__loop_work *waiting[JOBS_MAX]; /* by number of submit; NULL: given back */
    unsigned n, stopped;
    int refuse;
} pool;

static int pool_submit(struct weir__loop_workers *p, struct weir__loop_work *w) {
    (void)p;
    if (pool.refuse)
        return pool.refuse;
    assert_in_range(pool.n, 0, JOBS_MAX - 1);
    pool.waiting[pool.n++] = w;
    return 0;
}

static void pool_cancel(struct weir__loop_workers *p, struct weir_loop *l) {
    (void)p, (void)l;
    for (unsigned i = 0; i < pool.n; i++) {
        if (!pool.waiting[i])
            continue;
        pool.stopped++;
        weir__loop_work_over(pool.waiting[i], WEIR_ESTOPPED);
        pool.waiting[i] = NULL;
    }
}

static void pool_await(struct weir__loop_workers *p, struct weir_loop *l) {
    (void)p, (void)l;
}

static const struct weir__loop_workers_ops pool_ops = {
    .submit = pool_submit, .cancel = pool_cancel, .await = pool_await};

static unsigned out(void) {
    unsigned n = 0;
    for (unsigned i = 0; i < pool.n; i++)
        n += pool.waiting[i] != NULL;
    return n;
}

/* It comes back; the loop has not seen it yet. */
static void finish(unsigned i) {
    struct weir__loop_work *w = pool.waiting[i];
    assert_non_null(w);
    pool.waiting[i] = NULL;
    w->cpu_ns = 1000;
    w->run(w);
    weir__loop_work_over(w, 0);
}

static void turn(struct weir_embedded *e) {
    weir_embedded_hold(e, false);
}

/* --- a handler: every byte is a job ---------------------------------------------------------- */

struct byte_job {
    struct weir_job job;
    char c;
    struct weir_ctx *from;
};

static enum weir_order order;
static const char *then; /* what done() does beside: "abort", "drain", "remove", "again" */
static int last_rc;

static void byte_run(struct weir_job *j) {
    struct byte_job *b = (struct byte_job *)j;
    b->c = (char)toupper((unsigned char)b->c);
}

static int send_off(struct weir_ctx *c, char byte);

static void byte_done(struct weir_ctx *c, struct weir_job *j, int status) {
    struct byte_job *b = (struct byte_job *)j;
    char text[2] = {b->c, 0};
    tell("%c%s%s;", b->c, status ? " " : "", status ? weir_errname(status) : "");
    if (status)
        assert_null(c);
    else
        assert_ptr_equal(c, b->from);
    if (c)
        last_rc = emb_say(c, text);
    if (c && !strcmp(then, "abort"))
        weir_chan_close(weir_ctx_chan(c), WEIR_ABORT);
    if (c && !strcmp(then, "drain"))
        weir_chan_close(weir_ctx_chan(c), WEIR_DRAIN);
    if (c && !strcmp(then, "again") && b->c != 'Z')
        assert_int_equal(send_off(c, 'z'), 0);
    if (c && !strcmp(then, "remove"))
        weir_ctx_remove(c);
    weir_mem_free(b);
}

static int send_off(struct weir_ctx *c, char byte) {
    struct byte_job *b = weir_mem_new(weir_ctx_mem(c), sizeof *b);
    assert_non_null(b);
    b->job.run = byte_run;
    b->job.done = byte_done;
    b->c = byte;
    b->from = c;
    int rc = weir_ctx_offload(c, &b->job, order);
    if (rc < 0)
        weir_mem_free(b);
    return rc;
}

static int bytes_read(struct weir_ctx *c, struct weir_chain *in) {
    while (in->bytes && weir_ctx_offload_room(c)) {
        uint64_t byte;
        assert_int_equal(weir_chain_get_be(in, 0, 1, &byte), 0);
        weir_chain_drop(in, 1);
        last_rc = send_off(c, (char)byte);
        if (last_rc < 0)
            return last_rc;
    }
    return 0;
}

static void bytes_close(struct weir_ctx *c, int why) {
    (void)c;
    tell("close %s;", why ? weir_errname(why) : "0");
}

static const struct weir_handler bytes = {
    .name = "bytes", .read = bytes_read, .close = bytes_close};

static int begin(void **state) {
    memset(&pool, 0, sizeof pool);
    pool.base.ops = &pool_ops;
    order = WEIR_ORDERED;
    then = "";
    last_rc = 0;
    return emb_begin(state);
}

static struct weir_embedded *open_max(uint32_t max) {
    struct weir_limits limits = {.offload_max = max};
    struct weir_embedded *e = emb_open(&bytes, NULL, max ? &limits : NULL);
    weir_chan_loop(weir_embedded_chan(e))->env.workers = &pool.base;
    return e;
}

/* --- in order, and not ----------------------------------------------------------------------- */

static void ordered_results_wait_for_the_ones_before(void **state) {
    (void)state;
    struct weir_embedded *e = open_max(0);
    emb_push(e, "abcd");
    assert_int_equal(out(), 4);
    finish(2);
    turn(e);
    finish(3);
    finish(1);
    turn(e);
    assert_string_equal(told(), "");
    finish(0);
    turn(e);
    assert_string_equal(told(), "A;B;C;D;");
    emb_expect_out(e, "ABCD");
    emb_end(e);
}

static void unordered_results_come_as_they_are_ready(void **state) {
    (void)state;
    order = WEIR_UNORDERED;
    struct weir_embedded *e = open_max(0);
    emb_push(e, "abc");
    finish(2);
    turn(e);
    finish(0);
    turn(e);
    finish(1);
    turn(e);
    emb_expect_out(e, "CAB");
    emb_end(e);
}

static void a_batch_of_results_leaves_with_one_flush(void **state) {
    (void)state;
    struct weir_embedded *e = open_max(0);
    weir_embedded_hold(e, true); /* a send stays in flight: what is queued behind it shows */
    emb_push(e, "abc");
    finish(1);
    finish(0);
    finish(2);
    weir_embedded_hold(e, true);
    assert_int_equal(emb_counters(e).inflight, 3);
    assert_int_equal(emb_counters(e).queued, 0);
    turn(e);
    emb_expect_out(e, "ABC");
    emb_end(e);
}

static void work_counts_as_its_handlers(void **state) {
    (void)state;
    struct weir_embedded *e = open_max(0);
    struct weir_loop *l = weir_chan_loop(weir_embedded_chan(e));
    struct weir__loop_handler *h = weir__loop_name(l, "bytes");
    emb_push(e, "ab");
    uint64_t calls = h->calls;
    finish(0);
    finish(1);
    turn(e);
    assert_int_equal(h->offloads, 2);
    assert_int_equal(h->offload_ns, 2000);
    assert_int_equal(h->calls, calls + 2);
    emb_end(e);
}

/* --- room ------------------------------------------------------------------------------------ */

static void without_room_input_stays_where_it_is(void **state) {
    (void)state;
    struct weir_embedded *e = open_max(2);
    emb_push(e, "abcde");
    assert_int_equal(out(), 2);
    assert_int_equal(emb_counters(e).leftover, 3);
    assert_true(weir_embedded_chan(e)->paused & WEIR__CHAN_PAUSE_STALL);
    finish(1); /* not first in its line: no room yet */
    turn(e);
    assert_int_equal(pool.n, 2);
    finish(0);
    turn(e);
    assert_int_equal(pool.n, 4);
    finish(2);
    turn(e);
    assert_int_equal(emb_counters(e).leftover, 0);
    assert_false(weir_embedded_chan(e)->paused);
    weir_embedded_eof(e); /* ends behind the jobs */
    assert_int_equal(weir_embedded_state(e), 1);
    finish(3);
    finish(4);
    turn(e);
    emb_expect_out(e, "ABCDE");
    assert_string_equal(told(), "A;B;C;D;E;close 0;");
    emb_end(e);
}

static void the_end_waits_behind_input_without_room(void **state) {
    (void)state;
    struct weir_embedded *e = open_max(1);
    emb_push(e, "ab");
    weir_embedded_eof(e);
    finish(0);
    turn(e);
    finish(1);
    turn(e);
    emb_expect_out(e, "AB");
    assert_string_equal(told(), "A;B;close 0;");
    emb_end(e);
}

static void over_the_limit_is_refused(void **state) {
    (void)state;
    struct weir_embedded *e = open_max(1);
    struct weir_ctx *c = emb_ctx(e, &bytes);
    emb_push(e, "a");
    assert_int_equal(send_off(c, 'b'), WEIR_EFULL);
    assert_false(weir_ctx_offload_room(c));
    finish(0);
    turn(e);
    assert_true(weir_ctx_offload_room(c));
    emb_end(e);
}

static void a_refused_submit_leaves_nothing_behind(void **state) {
    (void)state;
    struct weir_embedded *e = open_max(0);
    pool.refuse = WEIR_ENOMEM;
    emb_push(e, "a");
    assert_int_equal(last_rc, WEIR_ENOMEM);
    assert_int_equal(pool.n, 0);
    weir_embedded_eof(e);
    assert_string_equal(told(), "close ENOMEM;"); /* nothing held it */
    emb_end(e);
}

/* The first job of a channel needs a place to be counted in. */
static void no_memory_for_the_first_is_refused(void **state) {
    (void)state;
    struct weir_embedded *e = open_max(0);
    struct weir_ctx *c = emb_ctx(e, &bytes);
    weir__mem_fail(weir_ctx_mem(c), 2, false); /* the job's own comes first */
    assert_int_equal(send_off(c, 'a'), WEIR_ENOMEM);
    assert_int_equal(pool.n, 0);
    assert_int_equal(send_off(c, 'b'), 0);
    finish(0);
    turn(e);
    assert_string_equal(told(), "B;");
    emb_end(e);
}

static void a_loop_without_workers_says_so(void **state) {
    (void)state;
    struct weir_embedded *e = open_max(0);
    weir_chan_loop(weir_embedded_chan(e))->env.workers = NULL;
    assert_int_equal(send_off(emb_ctx(e, &bytes), 'a'), WEIR_ENOTSUP);
    emb_end(e);
}

/* --- ends ------------------------------------------------------------------------------------ */

static void a_drain_waits_for_its_jobs(void **state) {
    (void)state;
    struct weir_embedded *e = open_max(0);
    emb_push(e, "ab");
    weir_chan_close(weir_embedded_chan(e), WEIR_DRAIN);
    turn(e);
    assert_int_equal(weir_embedded_chan(e)->state, WEIR__CHAN_DRAINING);
    finish(1);
    turn(e);
    finish(0);
    turn(e);
    assert_int_equal(last_rc, 0);
    emb_expect_out(e, "AB");
    assert_int_equal(weir_embedded_chan(e)->state, WEIR__CHAN_LINGER);
    assert_int_equal(weir_embedded_chan(e)->holds, 0);
    emb_end(e);
}

static void after_an_abort_nobody_is_there(void **state) {
    (void)state;
    struct weir_embedded *e = open_max(0);
    emb_push(e, "abc");
    finish(2); /* waits in its line */
    turn(e);
    weir_chan_close(weir_embedded_chan(e), WEIR_ABORT);
    finish(0);
    turn(e);
    assert_int_not_equal(weir_embedded_state(e), 1);
    assert_string_equal(told(), "close ECANCELLED;C EGONE;A EGONE;");
    finish(1);
    turn(e);
    assert_string_equal(told(), "close ECANCELLED;C EGONE;A EGONE;B EGONE;");
    emb_end(e);
}

static void a_removed_context_is_gone_for_its_jobs(void **state) {
    (void)state;
    struct weir_embedded *e = open_max(0);
    emb_push(e, "ab");
    finish(0);
    weir_ctx_remove(emb_ctx(e, &bytes));
    turn(e);
    finish(1);
    turn(e);
    assert_string_equal(told(), "close 0;A EGONE;B EGONE;");
    assert_int_equal(weir_embedded_chan(e)->holds, 0);
    emb_end(e);
}

static void a_stop_that_comes_to_its_end_ends_them(void **state) {
    (void)state;
    struct weir_embedded *e = open_max(0);
    emb_push(e, "abc");
    finish(1);
    emb_end(e); /* aborts */
    assert_int_equal(pool.stopped, 2);
    assert_string_equal(told(), "close ESTOPPED;B EGONE;a ESTOPPED;c ESTOPPED;");
}

static void what_done_does(const char *what, const char *expected, const char *sent) {
    forget();
    then = what;
    pool.n = 0;
    struct weir_embedded *e = open_max(0);
    emb_push(e, "ab");
    finish(1);
    finish(0);
    turn(e);
    while (out()) {
        finish(pool.n - 1);
        turn(e);
    }
    if (sent)
        emb_expect_out(e, sent);
    assert_string_equal(told(), expected);
    emb_end(e);
}

static void done_may_do_anything(void **state) {
    (void)state;
    what_done_does("abort", "A;B EGONE;close ECANCELLED;", NULL);
    what_done_does("drain", "A;B;", "AB");
    what_done_does("remove", "A;close 0;B EGONE;", "A");
}

static void done_may_offload_again(void **state) {
    (void)state;
    then = "again";
    struct weir_embedded *e = open_max(2);
    emb_push(e, "a");
    finish(0);
    turn(e);
    assert_int_equal(out(), 1);
    weir_chan_close(weir_embedded_chan(e), WEIR_DRAIN);
    turn(e);
    finish(1);
    turn(e);
    emb_expect_out(e, "AZ");
    emb_end(e);
}

static void the_embedded_channel_has_workers(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&bytes, NULL, NULL);
    emb_push(e, "abc");
    emb_expect_out(e, "ABC");
    emb_end(e);
}

int main(void) {
#define ONE(f) cmocka_unit_test_setup(f, begin)
    const struct CMUnitTest tests[] = {
        ONE(ordered_results_wait_for_the_ones_before),
        ONE(unordered_results_come_as_they_are_ready),
        ONE(a_batch_of_results_leaves_with_one_flush),
        ONE(work_counts_as_its_handlers),
        ONE(without_room_input_stays_where_it_is),
        ONE(the_end_waits_behind_input_without_room),
        ONE(over_the_limit_is_refused),
        ONE(a_refused_submit_leaves_nothing_behind),
        ONE(no_memory_for_the_first_is_refused),
        ONE(a_loop_without_workers_says_so),
        ONE(a_drain_waits_for_its_jobs),
        ONE(after_an_abort_nobody_is_there),
        ONE(a_removed_context_is_gone_for_its_jobs),
        ONE(a_stop_that_comes_to_its_end_ends_them),
        ONE(done_may_do_anything),
        ONE(done_may_offload_again),
        ONE(the_embedded_channel_has_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
