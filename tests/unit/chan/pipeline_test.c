/* Contexts in a row: filters, events, contexts that come and go, and everything that may be done
 * from inside every callback. */
#include "kit/embedded.h"
#include "mem/pool.h"

/* --- a filter that comes and goes ----------------------------------------------------------------
 */

static int upper_write(struct weir_ctx *c, struct weir_chain *out) {
    struct weir_chain up = {0};
    size_t n = (size_t)out->bytes;
    const uint8_t *p = weir_chain_peek(weir_ctx_mem(c), out, n);
    uint8_t *q = weir_chain_reserve(weir_ctx_mem(c), &up, n);
    assert_true(p && q);
    for (size_t i = 0; i < n; i++)
        q[i] = (uint8_t)(p[i] >= 'a' && p[i] <= 'z' ? p[i] - 32 : p[i]);
    weir_chain_commit(&up, n);
    weir_chain_fini(out);
    return weir_ctx_send(c, &up);
}

static int upper_read(struct weir_ctx *c, struct weir_chain *in) {
    return weir_ctx_forward(c, in);
}

static void upper_close(struct weir_ctx *c, int why) {
    (void)c;
    tell("upper gone %d;", why);
}

static const struct weir_handler upper = {
    .name = "upper", .read = upper_read, .write = upper_write, .close = upper_close};

static void handlers_may_be_put_in_and_taken_out(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_echo, NULL, NULL);
    emb_push(e, "ab");
    struct weir_ctx *head = weir_chan_head(weir_embedded_chan(e));
    assert_int_equal(weir_ctx_insert_next(head, &upper, NULL), 0);
    emb_push(e, "cd");
    weir_ctx_remove(emb_ctx(e, &upper));
    assert_null(weir_chan_ctx(weir_embedded_chan(e), &upper));
    emb_push(e, "ef");
    emb_expect_out(e, "abCDef");
    assert_string_equal(told(), "upper gone 0;");
    emb_end(e);
}

static void closes_go_from_the_tail_to_the_socket(void **state) {
    (void)state;
    struct weir_stage line[] = {{&upper, NULL}, {&emb_echo, NULL}};
    struct weir_embedded *e = emb_line(line, 2, NULL);
    weir_chan_fail(weir_embedded_chan(e), WEIR_ETOOBIG);
    weir_embedded_eof(e);
    assert_string_equal(told(), "close ETOOBIG;upper gone -201;");
    emb_end(e);
}

static int refuse_open(struct weir_ctx *c, const void *config) {
    (void)c, (void)config;
    return WEIR_EPROTO;
}

static void an_inserted_handler_that_refuses_is_not_in(void **state) {
    (void)state;
    const struct weir_handler refuse = {
        .name = "refuse", .open = refuse_open, .read = upper_read, .close = upper_close};
    struct weir_embedded *e = emb_open(&emb_echo, NULL, NULL);
    struct weir_ctx *head = weir_chan_head(weir_embedded_chan(e));
    assert_int_equal(weir_ctx_insert_next(head, &refuse, NULL), WEIR_EPROTO);
    weir__mem_fail(weir_ctx_mem(head), 1, false);
    assert_int_equal(weir_ctx_insert_next(head, &upper, NULL), WEIR_ENOMEM);
    weir__mem_fail(weir_ctx_mem(head), 0, false);
    emb_push(e, "goes on");
    emb_expect_out(e, "goes on");
    assert_string_equal(told(), "");
    weir_chan_close(weir_embedded_chan(e), WEIR_ABORT);
    emb_end(e);
}

static void what_a_removed_handler_left_goes_to_the_next(void **state) {
    (void)state;
    struct weir_stage line[] = {{&emb_gate, NULL}, {&emb_four, NULL}};
    struct weir_embedded *e = emb_line(line, 2, NULL);
    emb_push(e, "abcdef");
    weir_ctx_remove(emb_ctx(e, &emb_gate));
    weir_embedded_advance(e, 1);
    assert_string_equal(told(), "abcd;");
    assert_int_equal(emb_counters(e).leftover, 2);
    emb_push(e, "gh");
    weir_embedded_eof(e);
    assert_string_equal(told(), "abcd;efgh;eof;");
    emb_end(e);
}

static void event_tell(struct weir_ctx *c, int what, const void *data) {
    (void)c;
    if (what >= WEIR_EVENT_USER)
        tell("%d %s;", what - WEIR_EVENT_USER, (const char *)data);
}

static void events_go_to_those_behind(void **state) {
    (void)state;
    const struct weir_handler one = {.name = "one", .read = upper_read, .event = event_tell};
    const struct weir_handler two = {.name = "two", .read = upper_read, .event = event_tell};
    struct weir_stage line[] = {{&one, NULL}, {&two, NULL}};
    struct weir_embedded *e = emb_line(line, 2, NULL);
    weir_ctx_notify(weir_chan_head(weir_embedded_chan(e)), WEIR_EVENT_USER, "both");
    weir_ctx_notify(emb_ctx(e, &one), WEIR_EVENT_USER + 1, "second");
    weir_ctx_notify(emb_ctx(e, &two), WEIR_EVENT_USER + 2, "nobody");
    assert_string_equal(told(), "0 both;0 both;1 second;");
    emb_end(e);
}

static void a_context_knows_where_it_is(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&emb_echo, NULL, NULL);
    struct weir_ctx *c = emb_ctx(e, &emb_echo);
    assert_ptr_equal(weir_ctx_chan(c), weir_embedded_chan(e));
    assert_ptr_equal(weir_ctx_loop(c), weir_chan_loop(weir_embedded_chan(e)));
    assert_ptr_equal(weir_ctx_mem(c), weir_loop_mem(weir_ctx_loop(c)));
    assert_int_equal((uintptr_t)weir_ctx_state(c) % 16, 0);
    assert_null(weir_chan_ctx(weir_embedded_chan(e), &emb_sink));
    emb_end(e);
}

/* --- every action from inside every callback ---------------------------------------------- */

enum callback {
    IN_OPEN,
    IN_READ,
    IN_READ_DONE,
    IN_EOF,
    IN_WRITE,
    IN_PULL,
    IN_FULL,
    IN_WRITABLE,
    IN_IDLE,
    IN_DRAIN,
    IN_USER,
    IN_CLOSE,
    CALLBACKS
};

static const char *const callback_names[CALLBACKS] = {"open",  "read",  "read_done", "eof",
                                                      "write", "pull",  "full",      "writable",
                                                      "idle",  "drain", "user",      "close"};

static enum callback when;
static void (*action)(struct weir_ctx *c);
static unsigned opened, closed, fired;
static bool in_action;
static struct weir_ctx *gone; /* the context that the action removed */

/* true: c is not to be used any more. */
static bool here(struct weir_ctx *c, enum callback which) {
    if (which != when || fired || in_action)
        return gone == c;
    fired++;
    in_action = true;
    action(c);
    in_action = false;
    return gone == c;
}

static int probe_open(struct weir_ctx *c, const void *config) {
    (void)config;
    opened++;
    here(c, IN_OPEN);
    return 0;
}

static int probe_read(struct weir_ctx *c, struct weir_chain *in) {
    if (in->bytes > 1)
        weir_chain_drop(in, 1);
    if (here(c, IN_READ))
        return 0;
    struct weir_chain copy = {0};
    int rc = weir_chain_move(weir_ctx_mem(c), &copy, in, in->bytes);
    if (rc >= 0)
        rc = weir_ctx_forward(c, &copy);
    weir_chain_fini(&copy);
    return rc == WEIR_EGONE ? 0 : rc;
}

static void probe_read_done(struct weir_ctx *c) {
    here(c, IN_READ_DONE);
}

static void probe_eof(struct weir_ctx *c, bool clean) {
    (void)clean;
    here(c, IN_EOF);
}

static int probe_write(struct weir_ctx *c, struct weir_chain *out) {
    if (!here(c, IN_WRITE))
        return weir_ctx_send(c, out);
    weir_chain_fini(out);
    return 0;
}

static int64_t probe_pull(struct weir_ctx *c, uint64_t room) {
    (void)room;
    if (here(c, IN_PULL))
        return 0;
    return emb_say(c, "pulled") < 0 ? 0 : weir_ctx_pull(c, 1);
}

static void probe_writable(struct weir_ctx *c, bool yes) {
    here(c, yes ? IN_WRITABLE : IN_FULL);
}

static void probe_event(struct weir_ctx *c, int what, const void *data) {
    (void)data;
    if (what == WEIR_EVENT_IDLE)
        here(c, IN_IDLE);
    else
        here(c, what == WEIR_EVENT_DRAIN ? IN_DRAIN : IN_USER);
}

static void probe_close(struct weir_ctx *c, int why) {
    (void)why;
    closed++;
    here(c, IN_CLOSE);
}

static const struct weir_handler probe = {.name = "probe",
                                          .open = probe_open,
                                          .read = probe_read,
                                          .read_done = probe_read_done,
                                          .eof = probe_eof,
                                          .write = probe_write,
                                          .pull = probe_pull,
                                          .writable = probe_writable,
                                          .event = probe_event,
                                          .close = probe_close};

/* In front of the probe, behind it, and what an action puts in. Behind it: keeps half, answers. */
static int plain_open(struct weir_ctx *c, const void *config) {
    (void)config;
    *(bool *)weir_ctx_state(c) = true;
    opened++;
    return 0;
}

/* Their other callbacks only look whether they are still due. */
static void plain_done(struct weir_ctx *c) {
    assert_true(*(bool *)weir_ctx_state(c));
}

static void plain_writable(struct weir_ctx *c, bool yes) {
    (void)yes;
    plain_done(c);
}

static void plain_event(struct weir_ctx *c, int what, const void *data) {
    (void)what, (void)data;
    plain_done(c);
}

static int tail_read(struct weir_ctx *c, struct weir_chain *in) {
    weir_ctx_want(c, 2);
    weir_chain_drop(in, in->bytes / 2);
    emb_say(c, "answer");
    return 0;
}

static int plain_write(struct weir_ctx *c, struct weir_chain *out) {
    return weir_ctx_send(c, out);
}

static void plain_close(struct weir_ctx *c, int why) {
    (void)why;
    plain_done(c);
    *(bool *)weir_ctx_state(c) = false;
    closed++;
}

#define LOOKING                                                              \
    .state_size = sizeof(bool), .open = plain_open, .read_done = plain_done, \
    .writable = plain_writable, .event = plain_event, .close = plain_close
static const struct weir_handler front = {
    .name = "front", .read = upper_read, .write = plain_write, LOOKING};
static const struct weir_handler tail = {.name = "tail", .read = tail_read, LOOKING};
static const struct weir_handler extra = {
    .name = "extra", .read = upper_read, .write = plain_write, LOOKING};

static struct weir_chan *chan_of(struct weir_ctx *c) {
    return weir_ctx_chan(c);
}

static void act_drain(struct weir_ctx *c) {
    weir_chan_close(chan_of(c), WEIR_DRAIN);
}

static void act_abort(struct weir_ctx *c) {
    weir_chan_close(chan_of(c), WEIR_ABORT);
}

static void act_both(struct weir_ctx *c) {
    act_drain(c);
    act_abort(c);
    act_drain(c);
}

static void act_fail(struct weir_ctx *c) {
    weir_chan_fail(chan_of(c), WEIR_EPROTO);
}

static void remove_of(struct weir_ctx *c, const struct weir_handler *h) {
    struct weir_ctx *x = weir_chan_ctx(chan_of(c), h);
    if (x)
        weir_ctx_remove(x);
}

static void act_remove(struct weir_ctx *c) {
    gone = c;
    weir_ctx_remove(c);
}

static void act_remove_front(struct weir_ctx *c) {
    remove_of(c, &front);
}

static void act_remove_tail(struct weir_ctx *c) {
    remove_of(c, &tail);
}

static void act_remove_all(struct weir_ctx *c) {
    remove_of(c, &tail);
    remove_of(c, &front);
    act_remove(c);
}

static void act_insert(struct weir_ctx *c) {
    weir_ctx_insert_next(c, &extra, NULL);
}

static void act_insert_and_remove(struct weir_ctx *c) {
    if (weir_ctx_insert_next(c, &extra, NULL) == 0)
        remove_of(c, &extra);
    weir_ctx_insert_next(c, &extra, NULL);
    act_remove(c);
}

static void act_remove_and_abort(struct weir_ctx *c) {
    struct weir_chan *ch = chan_of(c);
    act_remove(c);
    weir_chan_close(ch, WEIR_ABORT);
}

static void act_pause(struct weir_ctx *c) {
    weir_chan_credit(chan_of(c), 0);
}

static void act_credit(struct weir_ctx *c) {
    weir_chan_credit(chan_of(c), 1);
    weir_chan_credit(chan_of(c), -1);
}

static void act_shutdown(struct weir_ctx *c) {
    weir_chan_shutdown(chan_of(c));
}

static void act_send_and_flush(struct weir_ctx *c) {
    emb_say(c, "from inside");
    weir_chan_flush(chan_of(c));
}

static void act_flood(struct weir_ctx *c) {
    for (int i = 0; i < 30; i++)
        emb_say(c, "a flood of bytes");
}

static void act_forward(struct weir_ctx *c) {
    struct weir_chain in = {0};
    assert_int_equal(weir_chain_write(weir_ctx_mem(c), &in, "inward", 6), 0);
    if (weir_ctx_forward(c, &in) < 0)
        assert_int_equal(in.bytes, 6);
    weir_chain_fini(&in);
}

static void act_wake(struct weir_ctx *c) {
    weir_ctx_wake(c);
    weir_ctx_ready(c);
    weir_chan_touch(chan_of(c));
}

static void act_hold(struct weir_ctx *c) {
    weir_ctx_hold(c);
    weir_chan_close(chan_of(c), WEIR_DRAIN);
    weir_ctx_unhold(c);
}

static void act_hold_for_ever(struct weir_ctx *c) {
    weir_ctx_hold(c);
}

static void act_event(struct weir_ctx *c) {
    weir_ctx_notify(c, WEIR_EVENT_USER, NULL);
}

static void act_close_by_ref(struct weir_ctx *c) {
    weir_close(weir_chan_ref(chan_of(c)), WEIR_DRAIN);
    weir_close(weir_chan_ref(chan_of(c)), WEIR_ABORT);
}

static const struct {
    const char *name;
    void (*fn)(struct weir_ctx *c);
} actions[] = {
    {"drain", act_drain},
    {"abort", act_abort},
    {"drain, abort, drain", act_both},
    {"fail", act_fail},
    {"remove", act_remove},
    {"remove the one in front", act_remove_front},
    {"remove the one behind", act_remove_tail},
    {"remove all three", act_remove_all},
    {"insert", act_insert},
    {"insert, remove it, insert, remove", act_insert_and_remove},
    {"remove, abort", act_remove_and_abort},
    {"pause", act_pause},
    {"credit", act_credit},
    {"shutdown", act_shutdown},
    {"send and flush", act_send_and_flush},
    {"flood", act_flood},
    {"forward", act_forward},
    {"wake, ready, touch", act_wake},
    {"hold, drain, unhold", act_hold},
    {"hold for ever", act_hold_for_ever},
    {"event", act_event},
    {"close by ref", act_close_by_ref},
};

static void live(struct weir_embedded *e, void (*step)(struct weir_embedded *e)) {
    if (weir_embedded_chan(e))
        step(e);
}

static void step_fill(struct weir_embedded *e) {
    struct weir_ctx *c = weir_chan_ctx(weir_embedded_chan(e), &tail);
    if (c)
        emb_say(c, "more than the high mark");
    weir_embedded_advance(e, 1);
}

static void step_pull(struct weir_embedded *e) {
    weir_ctx_ready(weir_chan_head(weir_embedded_chan(e)));
    weir_embedded_advance(e, 1);
}

static void step_event(struct weir_embedded *e) {
    weir_ctx_notify(weir_chan_head(weir_embedded_chan(e)), WEIR_EVENT_USER, NULL);
    weir_embedded_advance(e, 1);
}

/* A life in which every callback of the probe is due at least once. */
static void life(bool idle) {
    struct weir_stage line[] = {{&front, NULL}, {&probe, NULL}, {&tail, NULL}};
    struct weir_limits limits = {
        .high_bytes = 20, .low_bytes = 4, .linger_ms = 10, .drain_ms = 30, .idle_ms = 40};
    struct weir_embedded *e;
    if (weir_embedded_new(line, 3, &limits, &e) < 0)
        return;
    weir_embedded_push(e, "0123456789", 10);
    weir_embedded_push(e, "ab", 2);
    weir_embedded_hold(e, true);
    live(e, step_fill);
    live(e, step_fill);
    weir_embedded_hold(e, false);
    live(e, step_pull);
    live(e, step_event);
    weir_embedded_push(e, "cdef", 4);
    if (idle)
        weir_embedded_advance(e, 100);
    weir_embedded_eof(e);
    weir_embedded_advance(e, 100);
    if (weir_embedded_free(e) != 0) {
        print_error("leaks");
        fail();
    }
}

static void every_action_from_inside_every_callback_ends_well(void **state) {
    (void)state;
    for (unsigned i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        for (when = 0; when < CALLBACKS; when++) {
            opened = closed = fired = 0;
            gone = NULL;
            action = actions[i].fn;
            life(when == IN_IDLE);
            if (fired != 1 || opened != closed) {
                print_error("%s in %s: done %u times, %u opened, %u closed\n", actions[i].name,
                            callback_names[when], fired, opened, closed);
                fail();
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(handlers_may_be_put_in_and_taken_out, emb_begin),
        cmocka_unit_test_setup(closes_go_from_the_tail_to_the_socket, emb_begin),
        cmocka_unit_test_setup(an_inserted_handler_that_refuses_is_not_in, emb_begin),
        cmocka_unit_test_setup(what_a_removed_handler_left_goes_to_the_next, emb_begin),
        cmocka_unit_test_setup(events_go_to_those_behind, emb_begin),
        cmocka_unit_test_setup(a_context_knows_where_it_is, emb_begin),
        cmocka_unit_test_setup(every_action_from_inside_every_callback_ends_well, emb_begin),
    };
    return cmocka_run_group_tests_name("chan/pipeline", tests, NULL, NULL);
}
