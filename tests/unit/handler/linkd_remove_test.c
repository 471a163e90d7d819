/* linkd taken out of its channel by one of its own callbacks: its calls end, what was answered is
 * sent, and the channel goes on without it. */
#include "kit/embedded.h"
#include "kit/linkd.h"

enum { ECHO, QUIT, PARK, FEED, POUR, LAST };

static struct weir_linkd_ref parked;

/* --- services ----------------------------------------------------------------------------- */

static void take_out(struct weir_linkd_call *x) {
    struct weir_chan *ch = weir_chan_find(weir_linkd_loop(x), weir_linkd_call_ref(x).chan);
    assert_non_null(ch);
    struct weir_ctx *c = weir_chan_ctx(ch, &weir_linkd_server);
    if (c) {
        weir_ctx_remove(c);
        assert_null(weir_chan_ctx(ch, &weir_linkd_server));
        tell("out;");
    }
    /* The call lives until its callback returns, but is over. */
    assert_int_equal(weir_linkd_answer(x, weir_linkd_payload(x)), WEIR_EGONE);
    assert_int_equal(weir_linkd_fail(x, 7, NULL), WEIR_EGONE);
    weir_linkd_resume(x);
}

static int echo_call(struct weir_linkd_call *x, void *user) {
    (void)user;
    return weir_linkd_answer(x, weir_linkd_payload(x));
}

static int quit_call(struct weir_linkd_call *x, void *user) {
    (void)user;
    take_out(x);
    return WEIR_EFULL; /* too late to be an answer */
}

static int park_call(struct weir_linkd_call *x, void *user) {
    (void)user;
    parked = weir_linkd_call_ref(x);
    return 0;
}

static int feed_body(struct weir_linkd_call *x, struct weir_chain *in, bool last) {
    (void)last;
    weir_chain_fini(in);
    take_out(x);
    return 0;
}

/* More than a stream may stage: room() comes when most of it is framed. */
static int pour_call(struct weir_linkd_call *x, void *user) {
    struct weir_chain c = kit_chain(weir_linkd_mem(x), NULL, 128 << 10);
    (void)user;
    assert_int_equal(weir_linkd_write(x, &c), 0);
    return 0;
}

static void pour_room(struct weir_linkd_call *x, uint64_t room) {
    (void)room;
    take_out(x);
}

static void tell_done(struct weir_linkd_call *x, int why) {
    tell("done %d %s;", (int)weir_linkd_id(x), why ? weir_errname(why) : "0");
}

static void last_done(struct weir_linkd_call *x, int why) {
    tell_done(x, why);
    take_out(x);
}

static const struct weir_linkd_service echo = {.name = "echo", .call = echo_call};
static const struct weir_linkd_service quit = {
    .name = "quit", .call = quit_call, .done = tell_done};
static const struct weir_linkd_service park = {
    .name = "park", .call = park_call, .done = tell_done};
static const struct weir_linkd_service feed = {
    .name = "feed", .call = park_call, .body = feed_body, .done = tell_done};
static const struct weir_linkd_service pour = {
    .name = "pour", .call = pour_call, .room = pour_room, .done = tell_done};
static const struct weir_linkd_service last = {
    .name = "last", .call = park_call, .done = last_done};
static const struct weir_linkd_route routes[] = {{ECHO, &echo, NULL}, {QUIT, &quit, NULL},
                                                 {PARK, &park, NULL}, {FEED, &feed, NULL},
                                                 {POUR, &pour, NULL}, {LAST, &last, NULL}};
static const struct weir_linkd_server_options options = {
    .size = sizeof options, .routes = routes, .n_routes = 6};

/* --- a channel with a reader behind linkd -------------------------------------------------- */

static struct weir_embedded *open_server(void) {
    const struct weir_stage line[] = {{&weir_linkd_server, &options}, {&emb_sink, NULL}};
    struct weir_embedded *e = emb_line(line, 2, NULL);
    forget();
    return e;
}

static void push(struct weir_embedded *e, const struct kit_frame *f, unsigned n) {
    uint8_t bytes[512];
    size_t at = 0;
    for (unsigned i = 0; i < n; i++)
        at += kit_frame_bytes(&f[i], bytes + at);
    assert_true(at <= sizeof bytes);
    assert_int_equal(weir_embedded_push(e, bytes, at), 0);
}

#define PUSH(e, ...)                                 \
    push(e, (const struct kit_frame[]){__VA_ARGS__}, \
         sizeof((const struct kit_frame[]){__VA_ARGS__}) / sizeof(struct kit_frame))
#define REQUEST(number, ...) \
    { .type = WEIR_LINKD_REQUEST, .service = number, __VA_ARGS__ }

static size_t responses(struct weir_embedded *e) {
    size_t n, count = 0;
    const uint8_t *p = weir_embedded_out(e, &n);
    struct weir__linkd_head h;
    for (size_t at = 0; at < n; at += WEIR_LINKD_HEAD_BYTES + h.length, count++) {
        assert_int_equal(weir__linkd_judge(p + at, &h), WEIR__LINKD_GOOD);
        assert_int_equal(h.type, WEIR_LINKD_RESPONSE);
    }
    return count;
}

/* Nothing of linkd holds the channel, and its reader has what comes. */
static void goes_on(struct weir_embedded *e, const char *words) {
    assert_string_equal(told(), words);
    forget();
    assert_int_equal(weir_embedded_state(e), 1);
    emb_push(e, "plain");
    assert_string_equal(told(), "5;");
    assert_int_equal(emb_counters(e).staged, 0);
    weir_chan_close(weir_embedded_chan(e), WEIR_DRAIN);
    weir_embedded_eof(e);
    assert_int_equal(weir_embedded_state(e), 0);
    emb_end(e);
}

/* --- tests -------------------------------------------------------------------------------- */

static void by_its_only_call(void **state) {
    (void)state;
    struct weir_embedded *e = open_server();
    PUSH(e, REQUEST(ECHO, .id = 1, .text = "a"));
    PUSH(e, REQUEST(QUIT, .id = 2, .text = "b"));
    assert_int_equal(responses(e), 1);
    goes_on(e, "out;done 2 EGONE;");
}

static void by_its_first_call(void **state) {
    (void)state;
    struct weir_embedded *e = open_server();
    PUSH(e, REQUEST(QUIT, .id = 1));
    goes_on(e, "out;done 1 EGONE;");
}

/* What is behind the call in the input is the next reader's. */
static void between_other_calls(void **state) {
    (void)state;
    struct weir_embedded *e = open_server();
    PUSH(e, REQUEST(PARK, .id = 1), REQUEST(ECHO, .id = 2, .text = "a"), REQUEST(QUIT, .id = 3),
         REQUEST(ECHO, .id = 4, .text = "bc"));
    assert_int_equal(responses(e), 1);
    goes_on(e, "out;done 1 EGONE;done 3 EGONE;22;");
    assert_int_equal(parked.id, 1);
}

static void by_a_piece_of_a_request(void **state) {
    (void)state;
    struct weir_embedded *e = open_server();
    PUSH(e, REQUEST(FEED, .id = 1, .flags = WEIR_LINKD_MORE, .text = "a"));
    goes_on(e, "out;done 1 EGONE;");
    e = open_server();
    PUSH(e, REQUEST(FEED, .id = 1, .text = "all of it"));
    goes_on(e, "out;done 1 EGONE;");
}

static void by_the_room_of_a_stream(void **state) {
    (void)state;
    struct weir_embedded *e = open_server();
    PUSH(e, REQUEST(POUR, .id = 1));
    weir_embedded_advance(e, 1);
    assert_true(responses(e) > 0);
    goes_on(e, "out;done 1 EGONE;");
}

static void by_the_end_of_a_call(void **state) {
    (void)state;
    const uint8_t soon[4] = {0, 0, 0, 5};
    struct weir_embedded *e = open_server();
    PUSH(e, REQUEST(PARK, .id = 1),
         REQUEST(LAST, .id = 2, .flags = WEIR_LINKD_DEADLINE, .data = soon, .n = 4));
    weir_embedded_advance(e, 10);
    goes_on(e, "done 2 EDEADLINE;out;done 1 EGONE;");
}

/* The answer of the call that ends it was given before. */
static void by_the_end_of_an_answered_call(void **state) {
    (void)state;
    struct weir_embedded *e = open_server();
    PUSH(e, REQUEST(LAST, .id = 1, .text = "a"));
    PUSH(e, REQUEST(LAST, .id = 3, .text = "b"));
    struct weir_loop *l = weir_chan_loop(weir_embedded_chan(e));
    struct weir_linkd_call *x = weir_linkd_find(l, parked);
    assert_non_null(x);
    assert_int_equal(weir_linkd_answer(x, weir_linkd_payload(x)), 0);
    weir_embedded_advance(e, 1);
    assert_int_equal(responses(e), 1);
    goes_on(e, "done 3 0;out;done 1 EGONE;");
}

/* --- client ------------------------------------------------------------------------------- */

static void client_closed(struct weir_linkd_client *k, int why, void *user) {
    (void)user;
    assert_int_equal(weir_linkd_open_calls(k), 0);
    tell("closed %d;", why);
}

static void on_reply(const struct weir_linkd_reply *r, void *user) {
    struct weir_embedded *e = user;
    tell("reply %d %s;", (int)weir_linkd_id(r->call), r->status ? weir_errname(r->status) : "0");
    struct weir_ctx *c = weir_chan_ctx(weir_embedded_chan(e), &weir_linkd_client_handler);
    if (c)
        weir_ctx_remove(c);
    weir_chain_fini(r->payload);
}

static void a_client_by_a_reply(void **state) {
    (void)state;
    const struct weir_linkd_client_options o = {.size = sizeof o, .close = client_closed};
    const struct weir_stage line[] = {{&weir_linkd_client_handler, &o}, {&emb_sink, NULL}};
    struct weir_embedded *e = emb_line(line, 2, NULL);
    struct weir_linkd_client *k = weir_linkd_client_of(weir_embedded_chan(e));
    forget();
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(weir_linkd_start(k, NULL, NULL, NULL, on_reply, e), 0);
    PUSH(e, {.type = WEIR_LINKD_RESPONSE, .id = 2, .text = "two"},
         {.type = WEIR_LINKD_RESPONSE, .id = 1, .text = "one"});
    const char *words = told();
    assert_non_null(strstr(words, "reply 2 0;"));
    assert_non_null(strstr(words, "reply 1 EGONE;"));
    assert_non_null(strstr(words, "reply 3 EGONE;"));
    assert_non_null(strstr(words, "closed 0;"));
    assert_non_null(strstr(words, "23;")); /* the other response is the next reader's */
    emb_end(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(by_its_only_call, emb_begin),
        cmocka_unit_test_setup(by_its_first_call, emb_begin),
        cmocka_unit_test_setup(between_other_calls, emb_begin),
        cmocka_unit_test_setup(by_a_piece_of_a_request, emb_begin),
        cmocka_unit_test_setup(by_the_room_of_a_stream, emb_begin),
        cmocka_unit_test_setup(by_the_end_of_a_call, emb_begin),
        cmocka_unit_test_setup(by_the_end_of_an_answered_call, emb_begin),
        cmocka_unit_test_setup(a_client_by_a_reply, emb_begin),
    };
    return cmocka_run_group_tests_name("handler/linkd_remove", tests, NULL, NULL);
}
