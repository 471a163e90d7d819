/* Output: marks, the memory limit, batches, pull, what is counted, the half close. */
#include "kit/embedded.h"
#include "mem/file.h"

/* --- marks --------------------------------------------------------------------------------------
 */

static void marks_writable(struct weir_ctx *c, bool yes) {
    (void)c;
    tell(yes ? "writable;" : "full;");
}

static int marks_read(struct weir_ctx *c, struct weir_chain *in) {
    int rc = weir_ctx_send(c, in);
    tell("room %d;", (int)weir_ctx_room(c));
    return rc;
}

static const struct weir_handler marks = {
    .name = "marks", .read = marks_read, .writable = marks_writable};

static void marks_are_met_once_each_way(void **state) {
    (void)state;
    struct weir_limits limits = {.high_bytes = 10, .low_bytes = 4};
    struct weir_embedded *e = emb_open(&marks, NULL, &limits);
    weir_embedded_hold(e, true);
    emb_push(e, "12345"); /* in flight at once: queued stays 0 */
    emb_push(e, "abcdef");
    emb_push(e, "ghijkl"); /* 12 queued: at the mark */
    assert_string_equal(told(), "room 5;room 4;room 0;full;");
    emb_push(e, "not received"); /* reading stopped */
    weir_embedded_hold(e, false);
    weir_embedded_advance(e, 1);
    assert_string_equal(told(), "room 5;room 4;room 0;full;writable;room 0;writable;");
    emb_expect_out(e, "12345abcdefghijklnot received");
    emb_end(e);
}

static void held_memory_has_a_hard_limit(void **state) {
    (void)state;
    struct weir_limits limits = {
        .high_bytes = 1 << 20, .held_max = 64 << 10, .read_while_full = true};
    struct weir_embedded *e = emb_open(&emb_echo, NULL, &limits);
    struct weir_ctx *c = emb_ctx(e, &emb_echo);
    weir_embedded_hold(e, true);
    emb_push(e, "in flight");
    assert_int_equal(emb_pour(c, 65536), WEIR_EFULL); /* and is still ours, which emb_pour sees */
    assert_int_equal(emb_pour(c, 30000), 0);
    assert_in_range(emb_counters(e).held, 30009, 64 << 10);
    assert_int_equal(emb_pour(c, 40000), WEIR_EFULL);
    weir_embedded_hold(e, false);
    assert_int_equal(emb_counters(e).held, 0);
    assert_int_equal(emb_pour(c, 40000), 0);
    emb_end(e);
}

static void memory_keeps_it_unwritable_above_half_of_the_limit(void **state) {
    (void)state;
    struct weir_limits limits = {
        .high_bytes = 40000, .low_bytes = 39999, .held_max = 80000, .batch_bytes = 32768};
    struct weir_embedded *e = emb_open(&marks, NULL, &limits);
    struct weir_ctx *c = emb_ctx(e, &marks);
    weir_embedded_hold(e, true);
    assert_int_equal(emb_pour(c, 32000), 0);
    weir_embedded_advance(e, 1); /* it is in flight */
    assert_int_equal(emb_pour(c, 20000), 0);
    assert_int_equal(emb_pour(c, 20000), 0);
    weir_embedded_advance(e, 1);
    assert_string_equal(told(), "full;");
    weir_embedded_hold(e, false);
    assert_string_equal(told(), "full;writable;");
    emb_end(e);
}

static void what_waits_pins_no_more_than_it_says(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_echo, NULL, NULL);
    struct weir_ctx *c = emb_ctx(e, &emb_echo);
    struct weir_chain out = {0};
    struct weir_slice big, small;
    weir_embedded_hold(e, true);
    emb_push(e, "in flight");
    assert_int_equal(weir_slice_new(weir_ctx_mem(c), 60000, &big), 0);
    memset(big.p, 'y', 4);
    small = weir_slice_ref(big, 0, 4);
    weir_slice_release(&big);
    assert_int_equal(weir_chain_add(weir_ctx_mem(c), &out, &small), 0);
    assert_int_equal(weir_ctx_send(c, &out), 0);
    assert_true(emb_counters(e).held < 1024);
    weir_embedded_hold(e, false);
    emb_expect_out(e, "in flightyyyy");
    emb_end(e);
}

/* --- batches ------------------------------------------------------------------------------------
 */

static void a_flight_is_at_most_a_batch(void **state) {
    (void)state;
    struct weir_limits limits = {.batch_bytes = 10, .high_bytes = 1000};
    struct weir_embedded *e = emb_open(&emb_echo, NULL, &limits);
    struct weir_ctx *c = emb_ctx(e, &emb_echo);
    weir_embedded_hold(e, true);
    assert_int_equal(emb_pour(c, 25), 0); /* one part, cut */
    weir_embedded_advance(e, 1);
    assert_int_equal(emb_counters(e).inflight, 10);
    assert_int_equal(emb_counters(e).queued, 15);
    weir_embedded_hold(e, false);
    assert_int_equal(emb_counters(e).inflight + emb_counters(e).queued, 0);
    emb_end(e);
}

/* What is in flight is not queued: else an asynchronous transport would hold back its sources. */
static void marks_do_not_look_at_what_is_in_flight(void **state) {
    (void)state;
    struct weir_limits limits = {.batch_bytes = 60, .high_bytes = 100, .low_bytes = 50};
    struct weir_embedded *e = emb_open(&emb_echo, NULL, &limits);
    struct weir_ctx *c = emb_ctx(e, &emb_echo);
    weir_embedded_hold(e, true);
    assert_int_equal(emb_pour(c, 110), 0);
    assert_true(weir_ctx_room(c) <= 0);
    weir_embedded_advance(e, 1);
    assert_int_equal(emb_counters(e).inflight, 60);
    assert_int_equal(emb_counters(e).queued, 50);
    assert_int_equal(weir_ctx_room(c), 0); /* told in the drain, before this flush */
    weir_ctx_wake(c);
    weir_embedded_advance(e, 1);
    assert_int_equal(weir_ctx_room(c), 50); /* 110 bytes are not gone, and yet it is writable */
    weir_embedded_hold(e, false);
    emb_end(e);
}

static void a_gather_has_at_most_64_parts(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_echo, NULL, NULL);
    struct weir_ctx *c = emb_ctx(e, &emb_echo);
    struct weir_chain out = {0};
    weir_embedded_hold(e, true);
    for (int i = 0; i < 100; i++) {
        struct weir_slice s;
        assert_int_equal(weir_slice_copy(weir_ctx_mem(c), "z", 1, &s), 0);
        assert_int_equal(weir_chain_add(weir_ctx_mem(c), &out, &s), 0);
    }
    assert_int_equal(weir_ctx_send(c, &out), 0);
    weir_embedded_advance(e, 1);
    assert_int_equal(emb_counters(e).inflight, 64);
    weir_embedded_hold(e, false);
    assert_int_equal(emb_counters(e).queued, 0);
    emb_end(e);
}

static uint64_t flight_of(struct weir_embedded *e, struct weir_ctx *c) {
    assert_int_equal(emb_pour(c, 400000), 0);
    weir_embedded_advance(e, 1);
    uint64_t n = emb_counters(e).inflight;
    weir_embedded_hold(e, false);
    weir_embedded_hold(e, true);
    return n;
}

static void batches_grow_while_flights_end_at_once(void **state) {
    (void)state;
    struct weir_limits limits = {.high_bytes = 1 << 20};
    struct weir_embedded *e = emb_open(&emb_echo, NULL, &limits);
    struct weir_ctx *c = emb_ctx(e, &emb_echo);
    weir_embedded_hold(e, true);
    assert_int_equal(flight_of(e, c), 64 << 10);
    for (int i = 0; i < 3; i++)
        flight_of(e, c);
    assert_int_equal(flight_of(e, c), 256 << 10);
    emb_end(e);
}

static void flush_hands_over_now(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_echo, NULL, NULL);
    assert_int_equal(emb_say(emb_ctx(e, &emb_echo), "now"), 0);
    emb_expect_out(e, "");
    weir_chan_flush(weir_embedded_chan(e));
    emb_expect_out(e, "now");
    emb_end(e);
}

static void an_empty_send_is_no_send(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_echo, NULL, NULL);
    struct weir_chain none = {0};
    assert_int_equal(weir_ctx_send(emb_ctx(e, &emb_echo), &none), 0);
    weir_embedded_advance(e, 1);
    emb_expect_out(e, "");
    emb_end(e);
}

/* --- pull ---------------------------------------------------------------------------------------
 */

static int drop_read(struct weir_ctx *c, struct weir_chain *in) {
    (void)c;
    weir_chain_fini(in);
    return 0;
}

struct source {
    int left;
};

static int source_open(struct weir_ctx *c, const void *config) {
    ((struct source *)weir_ctx_state(c))->left = *(const int *)config;
    weir_ctx_ready(c);
    return 0;
}

static int64_t source_pull(struct weir_ctx *c, uint64_t room) {
    struct source *s = weir_ctx_state(c);
    if (!s->left)
        return 0;
    tell("%d;", (int)room);
    s->left--;
    int rc = emb_say(c, "0123456789");
    return rc < 0 ? rc : 10;
}

static const struct weir_handler source = {.name = "source",
                                           .state_size = sizeof(struct source),
                                           .open = source_open,
                                           .read = drop_read,
                                           .pull = source_pull};

static void pull_asks_for_what_the_batch_has_room_for(void **state) {
    (void)state;
    int blocks = 5;
    struct weir_limits limits = {.batch_bytes = 25};
    struct weir_embedded *e = emb_open(&source, &blocks, &limits);
    /* Three blocks; two fit a batch and leave, the third counts. */
    assert_string_equal(told(), "25;15;5;15;5;");
    emb_expect_out(e, "01234567890123456789012345678901234567890123456789");
    emb_end(e);
}

static void nothing_is_pulled_while_something_is_in_flight(void **state) {
    (void)state;
    int blocks = 3;
    struct weir_limits limits = {.batch_bytes = 10};
    struct weir_embedded *e = emb_open(&source, &blocks, &limits);
    emb_expect_out(e, "012345678901234567890123456789");
    weir_embedded_hold(e, true);
    struct source *s = weir_ctx_state(emb_ctx(e, &source));
    s->left = 2;
    weir_ctx_ready(emb_ctx(e, &source));
    weir_embedded_advance(e, 1);
    assert_int_equal(s->left, 1);
    weir_embedded_hold(e, false);
    weir_embedded_advance(e, 1);
    assert_int_equal(s->left, 0);
    emb_end(e);
}

static int64_t filter_pull(struct weir_ctx *c, uint64_t room) {
    int64_t n = weir_ctx_pull(c, room - 2);
    tell("filter %d;", (int)n);
    return n;
}

static int filter_write(struct weir_ctx *c, struct weir_chain *out) {
    struct weir_chain all = {0};
    assert_int_equal(weir_chain_write(weir_ctx_mem(c), &all, "<>", 2), 0);
    weir_chain_append(&all, out);
    return weir_ctx_send(c, &all);
}

static void a_filter_pulls_from_the_next_one(void **state) {
    (void)state;
    int blocks = 1;
    const struct weir_handler filter = {
        .name = "filter", .read = drop_read, .write = filter_write, .pull = filter_pull};
    struct weir_stage line[] = {{&filter, NULL}, {&source, &blocks}};
    struct weir_limits limits = {.batch_bytes = 100};
    struct weir_embedded *e = emb_line(line, 2, &limits);
    assert_string_equal(told(), "98;filter 10;filter 0;");
    emb_expect_out(e, "<>0123456789");
    assert_int_equal(weir_ctx_pull(emb_ctx(e, &source), 10), 0); /* nobody is behind it */
    emb_end(e);
}

static int64_t broken_pull(struct weir_ctx *c, uint64_t room) {
    (void)c, (void)room;
    return WEIR_EIO;
}

static void a_pull_that_fails_closes(void **state) {
    (void)state;
    const struct weir_handler broken = {.name = "broken", .read = drop_read, .pull = broken_pull};
    struct weir_limits limits = {.linger_ms = 5};
    struct weir_embedded *e = emb_open(&broken, NULL, &limits);
    weir_ctx_ready(emb_ctx(e, &broken));
    weir_embedded_advance(e, 10);
    assert_int_equal(weir_embedded_state(e), WEIR_EIO);
    emb_end(e);
}

static void a_drain_pulls_what_is_ready(void **state) {
    (void)state;
    int blocks = 4;
    struct weir_limits limits = {.batch_bytes = 10};
    struct weir_embedded *e = emb_open(&source, &blocks, &limits);
    weir_embedded_hold(e, true);
    struct source *s = weir_ctx_state(emb_ctx(e, &source));
    s->left = 3;
    weir_ctx_ready(emb_ctx(e, &source));
    weir_chan_close(weir_embedded_chan(e), WEIR_DRAIN);
    weir_embedded_advance(e, 1);
    weir_embedded_hold(e, false);
    weir_embedded_eof(e);
    size_t n;
    weir_embedded_out(e, &n);
    assert_int_equal(n, 70);
    assert_int_equal(weir_embedded_state(e), 0);
    emb_end(e);
}

/* --- half close ---------------------------------------------------------------------------------
 */

/* Regression: after shutdown a pull could not send what had been accepted before. */
static void shutdown_sends_what_is_ready_first(void **state) {
    (void)state;
    int blocks = 0;
    struct weir_embedded *e = emb_open(&source, &blocks, NULL);
    struct weir_ctx *c = emb_ctx(e, &source);
    ((struct source *)weir_ctx_state(c))->left = 2;
    assert_int_equal(emb_say(c, "queued "), 0);
    weir_ctx_ready(c);
    weir_chan_shutdown(weir_embedded_chan(e));
    assert_int_equal(emb_say(c, "too late"), WEIR_EGONE);
    weir_embedded_advance(e, 1);
    emb_expect_out(e, "queued 01234567890123456789");
    ((struct source *)weir_ctx_state(c))->left = 1;
    weir_ctx_ready(c); /* the side is shut: it is not asked */
    weir_embedded_advance(e, 1);
    assert_int_equal(weir_embedded_state(e), 1);
    emb_push(e, "input goes on");
    emb_end(e);
}

/* --- a transport that fails ---------------------------------------------------------------------
 */

static void not_closed(int64_t handle, void *user) {
    (void)handle;
    ++*(int *)user;
}

static int send_file(struct weir_ctx *c, int *closed) {
    struct weir_chain out = {0};
    struct weir_file *f = weir__mem_file_new(weir_ctx_mem(c), 7, 100, not_closed, closed);
    assert_non_null(f);
    assert_int_equal(weir_chain_add_file(weir_ctx_mem(c), &out, f, 0, 100), 0);
    weir_file_release(f);
    return weir_ctx_send(c, &out);
}

static void what_came_before_a_failed_send_is_still_read(void **state) {
    (void)state;
    int closed = 0;
    const struct weir_handler h = {.name = "h", .read = emb_sink.read, .close = emb_echo.close};
    struct weir_limits limits = {.linger_ms = 50};
    struct weir_embedded *e = emb_open(&h, NULL, &limits);
    struct weir_ctx *c = emb_ctx(e, &h);
    assert_int_equal(send_file(c, &closed), 0); /* this door has no files */
    assert_int_equal(emb_counters(e).queued, 100);
    assert_true(emb_counters(e).held < 100); /* a region counts its length, and holds no memory */
    weir_embedded_advance(e, 1);
    assert_int_equal(closed, 1);
    assert_int_equal(emb_say(c, "x"), WEIR_EGONE);
    emb_push(e, "still");
    assert_string_equal(told(), "5;");
    weir_embedded_advance(e, 60);
    assert_string_equal(told(), "5;close ENOTSUP;");
    assert_int_equal(weir_embedded_state(e), WEIR_ENOTSUP);
    emb_end(e);
    forget();
    e = emb_open(&h, NULL, &limits); /* the end of the stream comes first */
    assert_int_equal(send_file(emb_ctx(e, &h), &closed), 0);
    weir_embedded_advance(e, 1);
    weir_embedded_eof(e);
    assert_string_equal(told(), "close ENOTSUP;");
    emb_end(e);
    forget();
    e = emb_open(&h, NULL, &limits); /* paused: nothing can come */
    weir_chan_credit(weir_embedded_chan(e), 0);
    assert_int_equal(send_file(emb_ctx(e, &h), &closed), 0);
    weir_embedded_advance(e, 1);
    assert_string_equal(told(), "close ENOTSUP;");
    emb_end(e);
}

static void staged_bytes_are_counted_both_ways(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_echo, NULL, NULL);
    struct weir_ctx *c = emb_ctx(e, &emb_echo);
    weir_ctx_stage(c, 1000);
    weir_ctx_stage(c, -400);
    assert_int_equal(emb_counters(e).staged, 600);
    weir_ctx_stage(c, -600);
    assert_int_equal(emb_counters(e).staged, 0);
    assert_int_equal(emb_counters(e).pinned, 0);
    emb_end(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(marks_are_met_once_each_way, emb_begin),
        cmocka_unit_test_setup(marks_do_not_look_at_what_is_in_flight, emb_begin),
        cmocka_unit_test_setup(held_memory_has_a_hard_limit, emb_begin),
        cmocka_unit_test_setup(memory_keeps_it_unwritable_above_half_of_the_limit, emb_begin),
        cmocka_unit_test_setup(what_waits_pins_no_more_than_it_says, emb_begin),
        cmocka_unit_test_setup(a_flight_is_at_most_a_batch, emb_begin),
        cmocka_unit_test_setup(a_gather_has_at_most_64_parts, emb_begin),
        cmocka_unit_test_setup(batches_grow_while_flights_end_at_once, emb_begin),
        cmocka_unit_test_setup(flush_hands_over_now, emb_begin),
        cmocka_unit_test_setup(an_empty_send_is_no_send, emb_begin),
        cmocka_unit_test_setup(pull_asks_for_what_the_batch_has_room_for, emb_begin),
        cmocka_unit_test_setup(nothing_is_pulled_while_something_is_in_flight, emb_begin),
        cmocka_unit_test_setup(a_filter_pulls_from_the_next_one, emb_begin),
        cmocka_unit_test_setup(a_pull_that_fails_closes, emb_begin),
        cmocka_unit_test_setup(a_drain_pulls_what_is_ready, emb_begin),
        cmocka_unit_test_setup(shutdown_sends_what_is_ready_first, emb_begin),
        cmocka_unit_test_setup(what_came_before_a_failed_send_is_still_read, emb_begin),
        cmocka_unit_test_setup(staged_bytes_are_counted_both_ways, emb_begin),
    };
    return cmocka_run_group_tests_name("chan/write", tests, NULL, NULL);
}
