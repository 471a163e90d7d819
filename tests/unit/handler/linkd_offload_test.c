/* Calls whose work is done elsewhere: answered late, cancelled, expired, without room. The workers
 * are the test's own: a job comes back when the test says so. */
#include "kit/embedded.h"
#include "kit/linkd.h"
#include "loop/loop.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORK = 0, ECHO = 1, JOBS_MAX = 64 };

static struct {
    struct weir__loop_workers base;
    struct weir__loop_work *waiting[JOBS_MAX];
    unsigned n;
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
    for (unsigned i = 0; i < pool.n; i++)
        if (pool.waiting[i])
            weir__loop_work_over(pool.waiting[i], WEIR_ESTOPPED);
    pool.n = 0;
}

static void pool_await(struct weir__loop_workers *p, struct weir_loop *l) {
    (void)p, (void)l;
}

static const struct weir__loop_workers_ops pool_ops = {
    .submit = pool_submit, .cancel = pool_cancel, .await = pool_await};

static void finish(unsigned i) {
    struct weir__loop_work *w = pool.waiting[i];
    assert_non_null(w);
    pool.waiting[i] = NULL;
    w->run(w);
    weir__loop_work_over(w, 0);
}

/* --- services -------------------------------------------------------------------------------- */

static enum weir_order order;
static const char *answer_with; /* "fail": done() fails the call */

static void upper_run(struct weir_linkd_job *j) {
    for (struct weir_part *p = j->payload.first; p; p = p->next)
        for (size_t i = 0; i < p->slice.n; i++)
            p->slice.p[i] = (uint8_t)toupper(p->slice.p[i]);
}

static void upper_done(struct weir_linkd_call *x, struct weir_linkd_job *j, int status) {
    tell("back %s%s;", status ? weir_errname(status) : "0", x ? "" : " nobody");
    assert_true(!x == (status < 0));
    if (x && answer_with)
        assert_int_equal(weir_linkd_fail(x, WEIR_LINKD_INTERNAL, answer_with), 0);
    else if (x)
        assert_int_equal(weir_linkd_answer(x, &j->payload), 0);
    weir_chain_fini(&j->payload);
    weir_mem_free(j);
}

static int work_call(struct weir_linkd_call *x, void *user) {
    struct weir_linkd_job *j = weir_mem_new(weir_linkd_mem(x), sizeof *j);
    (void)user;
    assert_non_null(j);
    j->run = upper_run;
    j->done = upper_done;
    uint64_t bytes = weir_linkd_payload(x)->bytes;
    int rc = weir_linkd_offload(x, j, order);
    if (rc < 0) {
        assert_int_equal(weir_linkd_payload(x)->bytes, bytes); /* back where it was */
        weir_mem_free(j);
        return rc;
    }
    assert_int_equal(weir_linkd_payload(x)->bytes, 0);
    tell("call %d;", (int)weir_linkd_id(x));
    return 0;
}

static void work_over(struct weir_linkd_call *x, int why) {
    tell("done %d %s;", (int)weir_linkd_id(x), why ? weir_errname(why) : "0");
}

static int echo_call(struct weir_linkd_call *x, void *user) {
    (void)user;
    return weir_linkd_answer(x, weir_linkd_payload(x));
}

static const struct weir_linkd_service work = {
    .name = "work", .call = work_call, .done = work_over, .offloads = true};
static const struct weir_linkd_service blunt = {
    .name = "blunt", .call = work_call, .done = work_over}; /* does not say that it offloads */
static const struct weir_linkd_service echo = {.name = "echo", .call = echo_call};
static const struct weir_linkd_route routes[] = {{WORK, &work, NULL}, {ECHO, &echo, NULL}};
static const struct weir_linkd_route blunt_routes[] = {{WORK, &blunt, NULL}};
static const struct weir_linkd_server_options options = {.size = sizeof options,
                                                         .routes = routes,
                                                         .n_routes = 2,
                                                         .frame_max = 1 << 10,
                                                         .held_max = 1 << 10};
static const struct weir_linkd_server_options blunt_options = {
    .size = sizeof options, .routes = blunt_routes, .n_routes = 1};

/* --- the peer -------------------------------------------------------------------------------- */

static size_t seen;

static int begin(void **state) {
    memset(&pool, 0, sizeof pool);
    pool.base.ops = &pool_ops;
    order = WEIR_ORDERED;
    answer_with = NULL;
    seen = 0;
    return emb_begin(state);
}

static struct weir_embedded *server(const void *o, uint32_t max) {
    struct weir_limits limits = {.offload_max = max};
    struct weir_embedded *e = emb_open(&weir_linkd_server, o, &limits);
    weir_chan_loop(weir_embedded_chan(e))->env.workers = &pool.base;
    return e;
}

static void push(struct weir_embedded *e, struct kit_frame f) {
    size_t n = kit_frame_bytes(&f, NULL);
    uint8_t *p = malloc(n);
    assert_non_null(p);
    kit_frame_bytes(&f, p);
    assert_int_equal(weir_embedded_push(e, p, n), 0);
    free(p);
}

static void request(struct weir_embedded *e, uint64_t id, unsigned service, const char *text) {
    push(e, (struct kit_frame){
                .type = WEIR_LINKD_REQUEST, .id = id, .service = service, .text = text});
}

static void turn(struct weir_embedded *e) {
    weir_embedded_hold(e, false);
}

/* The frames that came since last asked: "RESPONSE 7 'ABC'|ERROR 8 6". */
static void expect(struct weir_embedded *e, const char *words) {
    char text[1000] = "";
    size_t n, used = 0;
    const uint8_t *p = weir_embedded_out(e, &n);
    while (seen + WEIR_LINKD_HEAD_BYTES <= n) {
        const uint8_t *h = p + seen, *body = h + WEIR_LINKD_HEAD_BYTES;
        uint32_t bytes = (uint32_t)h[16] << 24 | (uint32_t)h[17] << 16 | (uint32_t)h[18] << 8 |
                         h[19];
        if (h[3] == WEIR_LINKD_ERROR)
            used += (size_t)snprintf(text + used, sizeof text - used, "ERROR %d %d|", h[15],
                                     body[1]);
        else
            used += (size_t)snprintf(text + used, sizeof text - used, "%s %d '%.*s'|",
                                     h[3] == WEIR_LINKD_RESPONSE ? "RESPONSE" : "FRAME", h[15],
                                     (int)bytes, (const char *)body);
        seen += WEIR_LINKD_HEAD_BYTES + bytes;
    }
    assert_string_equal(text, words);
}

/* --- tests ----------------------------------------------------------------------------------- */

static void answers_in_order(void **state) {
    (void)state;
    struct weir_embedded *e = server(&options, 0);
    request(e, 1, WORK, "one");
    request(e, 2, WORK, "two");
    request(e, 3, ECHO, "echo");
    finish(1);
    turn(e);
    expect(e, "RESPONSE 3 'echo'|");
    finish(0);
    turn(e);
    expect(e, "RESPONSE 1 'ONE'|RESPONSE 2 'TWO'|");
    assert_string_equal(told(), "call 1;call 2;back 0;done 1 0;back 0;done 2 0;");
    emb_end(e);
}

static void answers_as_they_are_ready(void **state) {
    (void)state;
    order = WEIR_UNORDERED;
    struct weir_embedded *e = server(&options, 0);
    request(e, 1, WORK, "one");
    request(e, 2, WORK, "two");
    finish(1);
    turn(e);
    expect(e, "RESPONSE 2 'TWO'|");
    finish(0);
    turn(e);
    expect(e, "RESPONSE 1 'ONE'|");
    emb_end(e);
}

static void time_is_the_services(void **state) {
    (void)state;
    struct weir_embedded *e = server(&options, 0);
    struct weir__loop_handler *h = weir__loop_name(weir_chan_loop(weir_embedded_chan(e)), "work");
    request(e, 1, WORK, "one");
    assert_int_equal(h->calls, 1);
    finish(0);
    turn(e);
    assert_int_equal(h->calls, 2);
    assert_int_equal(h->offloads, 1);
    emb_end(e);
}

static void done_may_fail_the_call(void **state) {
    (void)state;
    answer_with = "no luck";
    struct weir_embedded *e = server(&options, 0);
    request(e, 1, WORK, "one");
    finish(0);
    turn(e);
    expect(e, "ERROR 1 7|");
    emb_end(e);
}

static void a_cancelled_call_has_one_error_and_a_late_result_is_dropped(void **state) {
    (void)state;
    struct weir_embedded *e = server(&options, 0);
    request(e, 1, WORK, "one");
    push(e, (struct kit_frame){.type = WEIR_LINKD_CANCEL, .id = 1});
    expect(e, "ERROR 1 6|");
    request(e, 1, ECHO, "again"); /* the id is free: this is another call */
    finish(0);
    turn(e);
    expect(e, "RESPONSE 1 'again'|");
    assert_string_equal(told(), "call 1;done 1 ECANCELLED;back EGONE nobody;");
    emb_end(e);
}

static void the_same_id_is_another_call(void **state) {
    (void)state;
    struct weir_embedded *e = server(&options, 0);
    request(e, 1, WORK, "one");
    push(e, (struct kit_frame){.type = WEIR_LINKD_CANCEL, .id = 1});
    request(e, 1, WORK, "two");
    finish(0);
    finish(1);
    turn(e);
    expect(e, "ERROR 1 6|RESPONSE 1 'TWO'|");
    emb_end(e);
}

static void an_expired_call_too(void **state) {
    (void)state;
    struct weir_embedded *e = server(&options, 0);
    push(e, (struct kit_frame){.type = WEIR_LINKD_REQUEST,
                               .flags = WEIR_LINKD_DEADLINE,
                               .id = 1,
                               .data = "\0\0\0\x05"
                                       "abc",
                               .n = 7});
    weir_embedded_advance(e, 10);
    expect(e, "ERROR 1 5|");
    finish(0);
    turn(e);
    expect(e, "");
    assert_string_equal(told(), "call 1;done 1 EDEADLINE;back EGONE nobody;");
    emb_end(e);
}

static void without_room_a_request_stays_in_the_input(void **state) {
    (void)state;
    struct weir_embedded *e = server(&options, 1);
    request(e, 1, WORK, "one");
    request(e, 2, WORK, "two");
    request(e, 3, ECHO, "echo"); /* behind it */
    assert_int_equal(pool.n, 1);
    assert_true(emb_counters(e).leftover > 0);
    expect(e, "");
    finish(0);
    turn(e);
    assert_int_equal(pool.n, 2);
    assert_int_equal(emb_counters(e).leftover, 0);
    expect(e, "RESPONSE 1 'ONE'|RESPONSE 3 'echo'|");
    finish(1);
    turn(e);
    expect(e, "RESPONSE 2 'TWO'|");
    emb_end(e);
}

static void bytes_that_are_away_are_bounded_too(void **state) {
    (void)state;
    static char half[601];
    memset(half, 'x', 600);
    struct weir_embedded *e = server(&options, 0); /* held_max 1024 */
    request(e, 1, WORK, half);
    request(e, 2, WORK, half);
    request(e, 3, WORK, "three");
    assert_int_equal(pool.n, 2);
    finish(0);
    turn(e);
    assert_int_equal(pool.n, 3);
    finish(1);
    finish(2);
    turn(e);
    assert_int_equal(emb_counters(e).leftover, 0);
    emb_end(e);
}

static void a_streamed_request_is_collected_first(void **state) {
    (void)state;
    struct weir_embedded *e = server(&options, 1);
    request(e, 1, WORK, "one");
    push(e, (struct kit_frame){
                .type = WEIR_LINKD_REQUEST, .flags = WEIR_LINKD_MORE, .id = 2, .text = "tw"});
    assert_int_equal(emb_counters(e).leftover, 0);
    request(e, 2, WORK, "o"); /* makes the call: waits */
    assert_true(emb_counters(e).leftover > 0);
    finish(0);
    turn(e);
    finish(1);
    turn(e);
    expect(e, "RESPONSE 1 'ONE'|RESPONSE 2 'TWO'|");
    emb_end(e);
}

static void a_service_that_does_not_say_so_is_overloaded(void **state) {
    (void)state;
    struct weir_embedded *e = server(&blunt_options, 1);
    request(e, 1, WORK, "one");
    request(e, 2, WORK, "two");
    expect(e, "ERROR 2 4|");
    finish(0);
    turn(e);
    expect(e, "RESPONSE 1 'ONE'|");
    emb_end(e);
}

static void a_worker_that_cannot_be_had(void **state) {
    (void)state;
    struct weir_embedded *e = server(&options, 0);
    pool.refuse = WEIR_ENOMEM;
    request(e, 1, WORK, "one");
    expect(e, "ERROR 1 4|");
    pool.refuse = 0;
    request(e, 2, WORK, "two");
    finish(0);
    turn(e);
    expect(e, "RESPONSE 2 'TWO'|");
    emb_end(e);
}

static void a_drain_answers_what_is_away(void **state) {
    (void)state;
    struct weir_embedded *e = server(&options, 0);
    request(e, 1, WORK, "one");
    weir_chan_close(weir_embedded_chan(e), WEIR_DRAIN);
    turn(e);
    expect(e, "FRAME 0 ''|"); /* GOAWAY */
    finish(0);
    turn(e);
    expect(e, "RESPONSE 1 'ONE'|");
    emb_end(e);
}

static void an_offence_ends_the_calls_and_the_jobs_come_home(void **state) {
    (void)state;
    struct weir_embedded *e = server(&options, 0);
    request(e, 1, WORK, "one");
    push(e, (struct kit_frame){.type = 99, .id = 2});
    expect(e, "ERROR 2 1|");
    finish(0);
    turn(e);
    expect(e, "");
    assert_string_equal(told(), "call 1;done 1 EPROTO;back EGONE nobody;");
    emb_end(e);
}

static void a_stop_ends_everything(void **state) {
    (void)state;
    struct weir_embedded *e = server(&options, 0);
    request(e, 1, WORK, "one");
    emb_end(e);
    assert_string_equal(told(), "call 1;done 1 ESTOPPED;back ESTOPPED nobody;");
}

static void a_client_has_no_jobs(void **state) {
    (void)state;
    struct weir_embedded *e = emb_open(&weir_linkd_client_handler, NULL, NULL);
    struct weir_linkd_client *k = weir_linkd_client_of(weir_embedded_chan(e));
    struct weir_linkd_request o = {.size = sizeof o};
    struct weir_linkd_call *x;
    struct weir_linkd_job j = {.run = upper_run, .done = upper_done};
    struct kit_linkd kit = {0};
    assert_int_equal(weir_linkd_start(k, &o, NULL, &x, kit_linkd_reply, &kit), 0);
    assert_int_equal(weir_linkd_offload(x, &j, WEIR_ORDERED), WEIR_EINVAL);
    emb_end(e);
}

int main(void) {
#define ONE(f) cmocka_unit_test_setup(f, begin)
    const struct CMUnitTest tests[] = {
        ONE(answers_in_order),
        ONE(answers_as_they_are_ready),
        ONE(time_is_the_services),
        ONE(done_may_fail_the_call),
        ONE(a_cancelled_call_has_one_error_and_a_late_result_is_dropped),
        ONE(the_same_id_is_another_call),
        ONE(an_expired_call_too),
        ONE(without_room_a_request_stays_in_the_input),
        ONE(bytes_that_are_away_are_bounded_too),
        ONE(a_streamed_request_is_collected_first),
        ONE(a_service_that_does_not_say_so_is_overloaded),
        ONE(a_worker_that_cannot_be_had),
        ONE(a_drain_answers_what_is_away),
        ONE(an_offence_ends_the_calls_and_the_jobs_come_home),
        ONE(a_stop_ends_everything),
        ONE(a_client_has_no_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
