/* linkd on a channel: calls and answers as bytes, marks and slow readers, deadlines, orderly and
 * other ends. */
#include "kit/embedded.h"
#include "kit/linkd.h"
#include <stdio.h>
#include <stdlib.h>

enum { ECHO = 0, PARK = 1, FLOW = 2, SINK = 3 };

static struct weir_linkd_ref parked;
static size_t seen; /* bytes of the output that were told */

static int begin(void **state) {
    seen = 0;
    parked = (struct weir_linkd_ref){0};
    return emb_begin(state);
}

/* --- services ------------------------------------------------------------------------------------
 */

static int echo_call(struct weir_linkd_call *x, void *user) {
    (void)user;
    return weir_linkd_answer(x, weir_linkd_payload(x));
}

static int park_call(struct weir_linkd_call *x, void *user) {
    (void)user;
    parked = weir_linkd_call_ref(x);
    return 0;
}

/* A stream of 16 KiB pieces, as many as the payload's first byte says. */
struct flow {
    unsigned left;
};

static void flow_room(struct weir_linkd_call *x, uint64_t room) {
    struct flow *f = weir_linkd_state(x);
    (void)room;
    while (f->left) {
        struct weir_chain piece = kit_chain(weir_linkd_mem(x), NULL, 16 << 10);
        if (--f->left == 0) {
            assert_int_equal(weir_linkd_answer(x, &piece), 0);
            return;
        }
        if (weir_linkd_write(x, &piece) <= 0)
            return;
    }
}

static int flow_call(struct weir_linkd_call *x, void *user) {
    uint8_t n;
    (void)user;
    assert_int_equal(weir_chain_read(weir_linkd_payload(x), 0, &n, 1), 0);
    ((struct flow *)weir_linkd_state(x))->left = n;
    flow_room(x, 0);
    return 0;
}

static int sink_body(struct weir_linkd_call *x, struct weir_chain *in, bool last) {
    tell("%s %d;", last ? "last" : "body", (int)in->bytes);
    weir_chain_fini(in);
    return last ? weir_linkd_answer(x, NULL) : 0;
}

static int sink_call(struct weir_linkd_call *x, void *user) {
    (void)x, (void)user;
    return 0;
}

static void tell_done(struct weir_linkd_call *x, int why) {
    tell("done %d %s;", (int)weir_linkd_id(x), why ? weir_errname(why) : "0");
}

static const struct weir_linkd_service echo = {.name = "echo", .call = echo_call};
static const struct weir_linkd_service park = {
    .name = "park", .call = park_call, .done = tell_done};
static const struct weir_linkd_service flow = {
    .name = "flow", .state_size = sizeof(struct flow), .call = flow_call, .room = flow_room};
static const struct weir_linkd_service sink = {
    .name = "sink", .call = sink_call, .body = sink_body, .done = tell_done};
static const struct weir_linkd_route routes[] = {
    {ECHO, &echo, NULL}, {PARK, &park, NULL}, {FLOW, &flow, NULL}, {SINK, &sink, NULL}};
static const struct weir_linkd_server_options options = {
    .size = sizeof options, .routes = routes, .n_routes = 4, .frame_max = 64 << 10};

static struct weir_embedded *server(const struct weir_limits *limits) {
    return emb_open(&weir_linkd_server, &options, limits);
}

/* --- frames in, frames out ---------------------------------------------------------------- */

static int push(struct weir_embedded *e, struct kit_frame f) {
    uint8_t *p = malloc(kit_frame_bytes(&f, NULL));
    size_t n = kit_frame_bytes(&f, p);
    int rc = weir_embedded_push(e, p, n);
    free(p);
    return rc;
}

/* What came out since last asked: "RESPONSE 7 abc|"; long payloads as their length, ERRORs by code.
 */
static const char *out(struct weir_embedded *e) {
    static const char *const names[] = {"?",    "REQUEST", "RESPONSE", "ERROR", "PING",
                                        "PONG", "CANCEL",  "GOAWAY",   "CREDIT"};
    static char text[4096];
    struct weir__linkd_head h;
    size_t n, at = 0;
    const uint8_t *p = weir_embedded_out(e, &n);
    text[0] = 0;
    while (n - seen >= WEIR_LINKD_HEAD_BYTES) {
        assert_int_equal(weir__linkd_judge(p + seen, &h), WEIR__LINKD_GOOD);
        const uint8_t *payload = p + seen + WEIR_LINKD_HEAD_BYTES;
        seen += WEIR_LINKD_HEAD_BYTES + h.length;
        assert_true(seen <= n && at + 128 < sizeof text);
        at += (size_t)snprintf(text + at, sizeof text - at, "%s %d%s ", names[h.type], (int)h.id,
                               h.flags & WEIR_LINKD_MORE ? "+" : "");
        if (h.type == WEIR_LINKD_ERROR)
            at += (size_t)snprintf(text + at, sizeof text - at, "%d|",
                                   payload[0] << 8 | payload[1]);
        else if (h.length > 32)
            at += (size_t)snprintf(text + at, sizeof text - at, "%d bytes|", (int)h.length);
        else
            at += (size_t)snprintf(text + at, sizeof text - at, "%.*s|", (int)h.length,
                                   (const char *)payload);
    }
    assert_int_equal(seen, n); /* whole frames only */
    return text;
}

static void a_call_is_answered(void **state) {
    (void)state;
    struct weir_embedded *e = server(NULL);
    push(e, (struct kit_frame){.type = WEIR_LINKD_REQUEST, .id = 7, .text = "hello"});
    assert_string_equal(out(e), "RESPONSE 7 hello|");
    push(e, (struct kit_frame){.type = WEIR_LINKD_PING, .text = "ping"});
    assert_string_equal(out(e), "PONG 0 ping|");
    weir_embedded_eof(e);
    assert_int_equal(weir_embedded_state(e), 0);
    emb_end(e);
}

static void however_the_bytes_come(void **state) {
    (void)state;
    uint8_t bytes[200];
    size_t n = 0;
    for (unsigned id = 1; id <= 3; id++) {
        struct kit_frame f = {.type = WEIR_LINKD_REQUEST, .id = id, .text = "twelve bytes"};
        n += kit_frame_bytes(&f, bytes + n);
    }
    for (size_t cut = 0; cut <= n; cut++) {
        seen = 0;
        struct weir_embedded *e = server(NULL);
        weir_embedded_push(e, bytes, cut);
        weir_embedded_push(e, bytes + cut, n - cut);
        assert_string_equal(out(e), "RESPONSE 1 twelve bytes|RESPONSE 2 twelve bytes|"
                                    "RESPONSE 3 twelve bytes|");
        emb_end(e);
    }
    seen = 0;
    struct weir_embedded *e = server(NULL);
    for (size_t i = 0; i < n; i++)
        weir_embedded_push(e, bytes + i, 1);
    assert_string_equal(out(e), "RESPONSE 1 twelve bytes|RESPONSE 2 twelve bytes|"
                                "RESPONSE 3 twelve bytes|");
    emb_end(e);
}

static void check_responses(struct weir_embedded *e, unsigned calls, uint32_t bytes) {
    size_t n, at = 0;
    const uint8_t *p = weir_embedded_out(e, &n);
    struct weir__linkd_head h;
    assert_int_equal(n, (size_t)calls * (WEIR_LINKD_HEAD_BYTES + bytes));
    for (unsigned id = 1; id <= calls; id++, at += WEIR_LINKD_HEAD_BYTES + h.length) {
        assert_int_equal(weir__linkd_judge(p + at, &h), WEIR__LINKD_GOOD);
        assert_int_equal(h.type, WEIR_LINKD_RESPONSE);
        assert_int_equal(h.id, id);
        assert_int_equal(h.length, bytes);
    }
}

static void a_slow_reader_bounds_what_is_answered(void **state) {
    (void)state;
    enum { CALLS = 1000, BYTES = 1000 };
    struct weir_limits limits = {.high_bytes = 16 << 10, .batch_bytes = 16 << 10};
    struct weir_embedded *e = server(&limits);
    uint8_t *all = malloc(CALLS * (WEIR_LINKD_HEAD_BYTES + BYTES));
    size_t n = 0;
    for (unsigned id = 1; id <= CALLS; id++) {
        struct kit_frame f = {.type = WEIR_LINKD_REQUEST, .id = id, .n = BYTES};
        n += kit_frame_bytes(&f, all + n);
    }
    weir_embedded_hold(e, true);
    assert_int_equal(weir_embedded_push(e, all, n), 0);
    struct weir_chan_counters c = emb_counters(e);
    assert_true(c.queued + c.inflight <= (16 << 10) + (64 << 10) + (16 << 10));
    assert_true(c.leftover <= 64 << 10); /* one receive; the rest was not read */
    size_t sent;
    weir_embedded_out(e, &sent);
    assert_true(sent < n / 2);
    weir_embedded_hold(e, false);
    weir_embedded_advance(e, 1);
    check_responses(e, CALLS, BYTES);
    assert_int_equal(emb_counters(e).leftover, 0);
    free(all);
    emb_end(e);
}

/* --- appendix A: what is wrong, what the peer is told, whether the connection lives ------- */

static void each_error_is_told(void **state) {
    (void)state;
    static const uint8_t garbage[WEIR_LINKD_HEAD_BYTES] = "GET / HTTP/1.1\r\nHost";
    const uint8_t version[WEIR_LINKD_HEAD_BYTES] = {0x4c, 0x4b, 2, 1, [15] = 9};
    const uint8_t type[WEIR_LINKD_HEAD_BYTES] = {0x4c, 0x4b, 1, 9, [15] = 9};
    const uint8_t flags[WEIR_LINKD_HEAD_BYTES] = {0x4c, 0x4b, 1, 1, 0x80, [15] = 9};
    const uint8_t huge[WEIR_LINKD_HEAD_BYTES] = {0x4c, 0x4b, 1, 1, [15] = 9, 0x7f};
    const struct {
        const uint8_t *bytes; /* or a frame */
        struct kit_frame frame;
        const char *out;
        bool lives;
    } cases[] = {
        {garbage, {0}, "ERROR 0 1|", false},
        {version, {0}, "ERROR 9 1|", false},
        {type, {0}, "ERROR 9 1|", false},
        {flags, {0}, "ERROR 9 1|", false},
        {huge, {0}, "ERROR 9 2|", false},
        {NULL, {.type = WEIR_LINKD_REQUEST, .id = 0}, "ERROR 0 1|", true},
        {NULL, {.type = WEIR_LINKD_REQUEST, .id = 5, .service = 99}, "ERROR 5 3|", true},
        {NULL, {.type = WEIR_LINKD_REQUEST, .id = 5, .n = (64 << 10) + 1}, "ERROR 5 2|", true},
        {NULL, {.type = WEIR_LINKD_PING, .n = 65}, "ERROR 0 1|", false},
        {NULL, {.type = WEIR_LINKD_RESPONSE, .id = 5, .text = "?"}, "", true},
        {NULL, {.type = WEIR_LINKD_CANCEL, .id = 5}, "", true},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        seen = 0;
        struct weir_limits limits = {.linger_ms = 5};
        struct weir_embedded *e = server(&limits);
        if (cases[i].bytes)
            weir_embedded_push(e, cases[i].bytes, WEIR_LINKD_HEAD_BYTES);
        else
            push(e, cases[i].frame);
        weir_embedded_advance(e, 10);
        assert_string_equal(out(e), cases[i].out);
        if (cases[i].lives) {
            push(e, (struct kit_frame){.type = WEIR_LINKD_REQUEST, .id = 6, .text = "on"});
            assert_string_equal(out(e), "RESPONSE 6 on|");
        } else {
            assert_true(weir_embedded_state(e) < 0);
        }
        emb_end(e);
    }
}

static void an_open_id_is_malformed_and_a_cancel_is_answered_once(void **state) {
    (void)state;
    struct weir_embedded *e = server(NULL);
    push(e, (struct kit_frame){.type = WEIR_LINKD_REQUEST, .id = 5, .service = PARK});
    push(e, (struct kit_frame){.type = WEIR_LINKD_REQUEST, .id = 5, .service = PARK});
    assert_string_equal(out(e), "ERROR 5 1|");
    push(e, (struct kit_frame){.type = WEIR_LINKD_CANCEL, .id = 5});
    push(e, (struct kit_frame){.type = WEIR_LINKD_CANCEL, .id = 5});
    assert_string_equal(out(e), "ERROR 5 6|");
    assert_string_equal(told(), "done 5 ECANCELLED;");
    assert_null(weir_linkd_find(weir_chan_loop(weir_embedded_chan(e)),
                                parked)); /* a late result has nobody */
    emb_end(e);
}

/* --- streams ------------------------------------------------------------------------------ */

static uint64_t stream_bytes(struct weir_embedded *e, bool *ended) {
    size_t n;
    uint64_t sum = 0;
    struct weir__linkd_head h;
    const uint8_t *p = weir_embedded_out(e, &n);
    *ended = false;
    for (size_t at = 0; at < n; at += WEIR_LINKD_HEAD_BYTES + h.length) {
        assert_int_equal(weir__linkd_judge(p + at, &h), WEIR__LINKD_GOOD);
        assert_int_equal(h.type, WEIR_LINKD_RESPONSE);
        sum += h.length;
        *ended = !(h.flags & WEIR_LINKD_MORE);
    }
    return sum;
}

static void a_stream_goes_as_far_as_its_credit(void **state) {
    (void)state;
    struct weir_embedded *e = server(NULL);
    const uint8_t credit[4] = {0, 2, 0, 0}; /* 128 KiB */
    bool ended;
    push(e,
         (struct kit_frame){.type = WEIR_LINKD_REQUEST, .id = 3, .service = FLOW, .text = "\x1c"});
    assert_int_equal(stream_bytes(e, &ended), WEIR_LINKD_CREDIT_BYTES);
    assert_int_equal(emb_counters(e).staged, 64 << 10); /* stage_max, filled again */
    assert_false(ended);
    push(e, (struct kit_frame){.type = WEIR_LINKD_CREDIT, .id = 3, .data = credit, .n = 4});
    assert_int_equal(stream_bytes(e, &ended), WEIR_LINKD_CREDIT_BYTES + (128 << 10));
    push(e, (struct kit_frame){.type = WEIR_LINKD_CREDIT, .id = 3, .data = credit, .n = 4});
    assert_int_equal(stream_bytes(e, &ended), 28 * (16 << 10));
    assert_true(ended);
    emb_end(e);
}

static void a_streamed_request_arrives_in_pieces(void **state) {
    (void)state;
    struct weir_embedded *e = server(NULL);
    push(e, (struct kit_frame){.type = WEIR_LINKD_REQUEST,
                               .id = 4,
                               .service = SINK,
                               .flags = WEIR_LINKD_MORE,
                               .text = "abc"});
    push(e, (struct kit_frame){.type = WEIR_LINKD_REQUEST,
                               .id = 4,
                               .service = SINK,
                               .flags = WEIR_LINKD_MORE,
                               .text = "de"});
    push(e, (struct kit_frame){.type = WEIR_LINKD_REQUEST, .id = 4, .service = SINK, .text = "f"});
    assert_string_equal(told(), "body 3;body 2;last 1;done 4 0;");
    assert_string_equal(out(e), "RESPONSE 4 |");
    emb_end(e);
}

/* --- time and ends ------------------------------------------------------------------------ */

static void a_deadline_ends_a_call(void **state) {
    (void)state;
    struct weir_embedded *e = server(NULL);
    const uint8_t soon[4] = {0, 0, 0, 50}, later[4] = {0, 0, 0, 90};
    push(e, (struct kit_frame){.type = WEIR_LINKD_REQUEST,
                               .id = 2,
                               .service = PARK,
                               .flags = WEIR_LINKD_DEADLINE,
                               .data = later,
                               .n = 4});
    push(e, (struct kit_frame){.type = WEIR_LINKD_REQUEST,
                               .id = 1,
                               .service = PARK,
                               .flags = WEIR_LINKD_DEADLINE,
                               .data = soon,
                               .n = 4});
    weir_embedded_advance(e, 49);
    assert_string_equal(out(e), "");
    weir_embedded_advance(e, 2);
    assert_string_equal(out(e), "ERROR 1 5|");
    weir_embedded_advance(e, 40);
    assert_string_equal(out(e), "ERROR 2 5|");
    assert_string_equal(told(), "done 1 EDEADLINE;done 2 EDEADLINE;");
    emb_end(e);
}

static void answer_parked(struct weir_embedded *e, const char *text) {
    struct weir_linkd_call *x = weir_linkd_find(weir_chan_loop(weir_embedded_chan(e)), parked);
    assert_non_null(x);
    struct weir_chain c = kit_chain(weir_linkd_mem(x), text, 0);
    assert_int_equal(weir_linkd_answer(x, &c), 0);
    weir_embedded_advance(e, 1);
}

static void a_drain_says_goaway_and_waits_for_open_calls(void **state) {
    (void)state;
    for (int by_eof = 0; by_eof <= 1; by_eof++) {
        seen = 0;
        forget();
        struct weir_embedded *e = server(NULL);
        push(e, (struct kit_frame){.type = WEIR_LINKD_REQUEST, .id = 1, .service = PARK});
        if (by_eof)
            weir_embedded_eof(e); /* the peer only waits for answers */
        else
            weir_chan_close(weir_embedded_chan(e), WEIR_DRAIN);
        weir_embedded_advance(e, 100);
        assert_string_equal(out(e), "GOAWAY 0 |");
        assert_int_equal(weir_embedded_state(e), 1);
        answer_parked(e, "at last");
        weir_embedded_eof(e);
        assert_string_equal(out(e), "RESPONSE 1 at last|");
        assert_string_equal(told(), "done 1 0;");
        assert_int_equal(weir_embedded_state(e), 0);
        emb_end(e);
    }
}

static void a_call_that_never_ends_ends_with_the_drain(void **state) {
    (void)state;
    struct weir_limits limits = {.drain_ms = 30};
    struct weir_embedded *e = server(&limits);
    push(e, (struct kit_frame){.type = WEIR_LINKD_REQUEST, .id = 1, .service = PARK});
    weir_chan_close(weir_embedded_chan(e), WEIR_DRAIN);
    weir_embedded_advance(e, 40);
    assert_int_equal(weir_embedded_state(e), WEIR_ETIMEDOUT);
    assert_string_equal(told(), "done 1 ETIMEDOUT;");
    emb_end(e);
}

static void an_abort_ends_open_calls(void **state) {
    (void)state;
    struct weir_embedded *e = server(NULL);
    push(e, (struct kit_frame){.type = WEIR_LINKD_REQUEST, .id = 1, .service = PARK});
    push(e, (struct kit_frame){.type = WEIR_LINKD_REQUEST,
                               .id = 2,
                               .service = SINK,
                               .flags = WEIR_LINKD_MORE,
                               .text = "a"});
    weir_chan_close(weir_embedded_chan(e), WEIR_ABORT);
    weir_embedded_advance(e, 1);
    assert_non_null(strstr(told(), "done 1 ECANCELLED;"));
    assert_non_null(strstr(told(), "done 2 ECANCELLED;"));
    emb_end(e);
}

/* Regression: a handler taken out with calls open left its hold on the channel behind. */
static void taken_out_with_open_calls_it_holds_nothing(void **state) {
    (void)state;
    struct weir_embedded *e = server(NULL);
    push(e, (struct kit_frame){.type = WEIR_LINKD_REQUEST, .id = 1, .service = PARK});
    weir_ctx_remove(emb_ctx(e, &weir_linkd_server));
    assert_string_equal(told(), "done 1 EGONE;");
    weir_chan_close(weir_embedded_chan(e), WEIR_DRAIN);
    weir_embedded_advance(e, 1);
    weir_embedded_eof(e);
    assert_int_equal(weir_embedded_state(e), 0);
    emb_end(e);
}

static void options_that_make_no_sense(void **state) {
    (void)state;
    static const struct weir_linkd_server_options small = {.size = 8},
                                                  empty = {.size = sizeof empty};
    static const struct weir_linkd_client_options client = {.size = 8};
    const struct weir_stage bad[] = {{&weir_linkd_server, NULL},
                                     {&weir_linkd_server, &small},
                                     {&weir_linkd_server, &empty},
                                     {&weir_linkd_client_handler, &client}};
    struct weir_embedded *e;
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(weir_embedded_new(&bad[i], 1, NULL, &e), WEIR_EINVAL);
}

/* --- client ------------------------------------------------------------------------------- */

static void client_opened(struct weir_linkd_client *k, void *user) {
    (void)k, (void)user;
    tell("open;");
}

static void client_goaway(struct weir_linkd_client *k, void *user) {
    (void)k, (void)user;
    tell("goaway;");
}

static void client_closed(struct weir_linkd_client *k, int why, void *user) {
    (void)k, (void)user;
    tell("closed %s;", why ? weir_errname(why) : "0");
}

static void replied(const struct weir_linkd_reply *r, void *user) {
    char text[32] = "";
    if (r->payload->bytes && r->payload->bytes < sizeof text)
        weir_chain_read(r->payload, 0, text, (size_t)r->payload->bytes);
    tell("%s %s %s%s;", (const char *)user, r->status ? weir_errname(r->status) : "0", text,
         r->last ? "" : "+");
    weir_chain_fini(r->payload);
}

static const struct weir_linkd_client_options client_options = {.size = sizeof client_options,
                                                                .open = client_opened,
                                                                .goaway = client_goaway,
                                                                .close = client_closed};

static int start(struct weir_embedded *e, const char *payload, char *name, uint32_t deadline_ms) {
    struct weir_linkd_client *k = weir_linkd_client_of(weir_embedded_chan(e));
    struct weir_linkd_request o = {.size = sizeof o, .service = 2, .deadline_ms = deadline_ms};
    struct weir_mem *m = weir_loop_mem(weir_chan_loop(weir_embedded_chan(e)));
    struct weir_chain c = kit_chain(m, payload, 0);
    int rc = weir_linkd_start(k, &o, &c, NULL, replied, name);
    weir_chain_fini(&c);
    weir_embedded_advance(e, 1);
    return rc;
}

static void a_client_calls_and_hears(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&weir_linkd_client_handler, &client_options, NULL);
    char a[] = "a", b[] = "b", c[] = "c";
    assert_int_equal(start(e, "question", a, 0), 0);
    assert_int_equal(start(e, "another", b, 0), 0);
    assert_string_equal(out(e), "REQUEST 1 question|REQUEST 2 another|");
    push(e, (struct kit_frame){.type = WEIR_LINKD_RESPONSE, .id = 2, .text = "answer"});
    push(e, (struct kit_frame){.type = WEIR_LINKD_ERROR, .id = 1, .text = "\x01\x04 busy"});
    assert_string_equal(told(), "open;b 0 answer;a ECALL  busy;");
    assert_int_equal(start(e, "slow", c, 20), 0);
    weir_embedded_advance(e, 30);
    assert_non_null(strstr(told(), "c EDEADLINE ;"));
    assert_non_null(strstr(out(e), "CANCEL 3 |"));
    emb_end(e);
    assert_non_null(strstr(told(), "closed ESTOPPED;"));
}

static void a_client_finishes_what_is_open_after_goaway(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&weir_linkd_client_handler, &client_options, NULL);
    char a[] = "a", b[] = "b";
    assert_int_equal(start(e, "question", a, 0), 0);
    push(e, (struct kit_frame){.type = WEIR_LINKD_GOAWAY});
    push(e, (struct kit_frame){.type = WEIR_LINKD_GOAWAY});
    assert_int_equal(start(e, "too late", b, 0), WEIR_ESTOPPED);
    push(e, (struct kit_frame){.type = WEIR_LINKD_RESPONSE, .id = 1, .text = "answer"});
    assert_string_equal(told(), "open;goaway;a 0 answer;");
    weir_embedded_eof(e);
    assert_string_equal(told(), "open;goaway;a 0 answer;closed 0;");
    emb_end(e);
}

static void a_client_whose_peer_ends_tells_every_call(void **state) {
    (void)state;
    struct weir_limits limits = {.drain_ms = 30, .linger_ms = 5};
    struct weir_embedded *e = emb_open(&weir_linkd_client_handler, &client_options, &limits);
    char a[] = "a", b[] = "b";
    assert_int_equal(start(e, "one", a, 0), 0);
    assert_int_equal(start(e, "two", b, 0), 0);
    weir_embedded_eof(e); /* no answer can come any more */
    weir_embedded_advance(e, 50);
    assert_true(weir_embedded_state(e) <= 0);
    assert_non_null(strstr(told(), ";a E"));
    assert_non_null(strstr(told(), ";b E"));
    const char *closed = strstr(told(), "closed");
    assert_true(closed && closed > strstr(told(), ";a E") && closed > strstr(told(), ";b E"));
    emb_end(e);
}

/* --- heartbeat ---------------------------------------------------------------------------- */

static void a_silent_client_is_asked_and_given_up(void **state) {
    (void)state;
    struct weir_linkd_server_options o = options;
    struct weir_limits limits = {.linger_ms = 1};
    o.heartbeat_ms = 100;
    o.heartbeat_missed_max = 2;
    struct weir_embedded *e = emb_open(&weir_linkd_server, &o, &limits);
    weir_embedded_advance(e, 101);
    assert_string_equal(out(e), "PING 0 |");
    push(e, (struct kit_frame){.type = WEIR_LINKD_PONG});
    weir_embedded_advance(e, 101);
    assert_string_equal(out(e), "PING 0 |");
    push(e, (struct kit_frame){.type = WEIR_LINKD_REQUEST, .id = 7, .text = "as good"});
    assert_string_equal(out(e), "RESPONSE 7 as good|");
    weir_embedded_advance(e, 290);
    assert_string_equal(out(e), "PING 0 |PING 0 |");
    assert_int_equal(weir_embedded_state(e), 1);
    weir_embedded_advance(e, 20);
    assert_int_equal(weir_embedded_state(e), WEIR_ETIMEDOUT);
    emb_end(e);
}

/* Its own PONGs are nobody's: a ping of the program still gets its own. */
static void ponged(int status, void *user) {
    (void)user;
    tell("pong %d;", status);
}

static void a_client_asks_its_server(void **state) {
    (void)state;
    struct weir_linkd_client_options o = client_options;
    struct weir_limits limits = {.linger_ms = 1};
    o.heartbeat_ms = 100;
    struct weir_embedded *e = emb_open(&weir_linkd_client_handler, &o, &limits);
    forget();
    weir_embedded_advance(e, 101);
    assert_string_equal(out(e), "PING 0 |");
    struct weir_linkd_client *k = weir_linkd_client_of(weir_embedded_chan(e));
    assert_int_equal(weir_linkd_ping(k, "mine", 4, ponged, NULL), 0);
    push(e, (struct kit_frame){.type = WEIR_LINKD_PONG});
    assert_string_equal(told(), "");
    push(e, (struct kit_frame){.type = WEIR_LINKD_PONG, .text = "mine"});
    assert_string_equal(told(), "pong 0;");
    weir_embedded_advance(e, 420);
    assert_int_equal(weir_embedded_state(e), WEIR_ETIMEDOUT);
    emb_end(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_call_is_answered, begin),
        cmocka_unit_test_setup(however_the_bytes_come, begin),
        cmocka_unit_test_setup(a_slow_reader_bounds_what_is_answered, begin),
        cmocka_unit_test_setup(each_error_is_told, begin),
        cmocka_unit_test_setup(an_open_id_is_malformed_and_a_cancel_is_answered_once, begin),
        cmocka_unit_test_setup(a_stream_goes_as_far_as_its_credit, begin),
        cmocka_unit_test_setup(a_streamed_request_arrives_in_pieces, begin),
        cmocka_unit_test_setup(a_deadline_ends_a_call, begin),
        cmocka_unit_test_setup(a_drain_says_goaway_and_waits_for_open_calls, begin),
        cmocka_unit_test_setup(a_call_that_never_ends_ends_with_the_drain, begin),
        cmocka_unit_test_setup(an_abort_ends_open_calls, begin),
        cmocka_unit_test_setup(taken_out_with_open_calls_it_holds_nothing, begin),
        cmocka_unit_test_setup(options_that_make_no_sense, begin),
        cmocka_unit_test_setup(a_client_calls_and_hears, begin),
        cmocka_unit_test_setup(a_client_finishes_what_is_open_after_goaway, begin),
        cmocka_unit_test_setup(a_client_whose_peer_ends_tells_every_call, begin),
        cmocka_unit_test_setup(a_silent_client_is_asked_and_given_up, begin),
        cmocka_unit_test_setup(a_client_asks_its_server, begin),
    };
    return cmocka_run_group_tests_name("handler/linkd", tests, NULL, NULL);
}
