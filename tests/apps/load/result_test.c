/* Verdicts over runs that are made up: counters of one worker and two edges. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "load/result.h"
#include <stdlib.h>
#include <string.h>

static const uint64_t second = 1000000000, t0 = 5000000000;

struct made_up {
    struct load_options o;
    struct load_run run;
    struct load_worker worker;
    struct load_conn conn;
    struct load_slot slot;
    struct load_result result;
    void *memory;
};

static struct weir_hist *hist(char **at) {
    size_t each = weir_hist_bytes(WEIR_HIST_NS_MAX);
    struct weir_hist *h = weir_hist_init(*at, each, WEIR_HIST_NS_MAX);
    *at += each;
    return h;
}

/* Two seconds with so many answers of each kind, ended by the time. */
static struct made_up *make(uint64_t ok, uint64_t failed, uint64_t timed_out) {
    struct made_up *m = calloc(1, sizeof *m);
    char *at = m->memory = malloc(weir_hist_bytes(WEIR_HIST_NS_MAX) * 4);
    struct load_worker *w = &m->worker;
    m->o = (struct load_options){.target = "echo://x:1",
                                 .address = "x:1",
                                 .connections = 1,
                                 .loops = 1,
                                 .in_flight = 1,
                                 .duration_ns = 2 * second};
    m->run.o = &m->o;
    m->run.workers = w;
    m->run.n_workers = 1;
    m->run.edges[0].at_ns = t0;
    m->run.edges[1].at_ns = t0 + 2 * second;
    atomic_init(&m->run.t0_ns, t0);
    atomic_init(&m->run.end, LOAD_END_TIME);
    *w = (struct load_worker){.run = &m->run, .conns = &m->conn, .n_conns = 1, .measuring = true};
    w->last_done_ns = t0 + 2 * second - 1;
    w->response = hist(&at);
    w->service = hist(&at);
    w->lag = hist(&at);
    w->connect = hist(&at);
    weir_hist_add_n(w->response, 1000000, ok);
    m->conn.slots = &m->slot;
    m->conn.left = UINT64_MAX;
    atomic_init(&w->window.started, ok + failed + timed_out);
    atomic_init(&w->window.ok, ok);
    atomic_init(&w->window.failed, failed);
    atomic_init(&w->window.timed_out, timed_out);
    return m;
}

static void drop(struct made_up *m) {
    free(m->memory);
    free(m);
}

static void judge(struct made_up *m) {
    load_result_make(&m->result, &m->run, 0);
}

static void assert_reason(const struct made_up *m, const char *what) {
    for (unsigned i = 0; i < m->result.n_reasons; i++)
        if (strstr(m->result.reasons[i], what))
            return;
    fail_msg("no reason says \"%s\"", what);
}

static void assert_prints(const struct made_up *m, const char *what) {
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    load_text_print(&m->result, out);
    fclose(out);
    bool found = strstr(text, what) != NULL;
    if (!found)
        print_error("%s", text);
    free(text);
    assert_true(found);
}

/* --- what is valid --------------------------------------------------------------------------- */

static void test_answers_that_are_right(void **state) {
    (void)state;
    struct made_up *m = make(1000, 0, 0);
    judge(m);
    assert_int_equal(m->result.n_reasons, 0);
    assert_int_equal(m->result.exit_code, 0);
    assert_float_equal(m->result.rate, 500, 1e-9);
    assert_prints(m, "\nVALID\n");
    drop(m);
}

static void test_no_right_answer(void **state) {
    (void)state;
    struct made_up *m = make(0, 265797, 0);
    struct load_error e = {.fault = LOAD_FAULT_VERIFY, .first = "the answer is not the right one"};
    m->worker.measuring = true;
    load_fault_count(&m->worker, &e, t0);
    judge(m);
    assert_reason(m, "no request was ok");
    assert_reason(m, "1 answer was wrong");
    assert_reason(m, "100.0 % of the requests failed or timed out");
    assert_int_equal(m->result.exit_code, 3);
    drop(m);
}

static void test_one_wrong_answer(void **state) {
    (void)state;
    struct made_up *m = make(99999, 1, 0);
    struct load_error e = {.fault = LOAD_FAULT_VERIFY, .first = "the answer is not the right one"};
    load_fault_count(&m->worker, &e, t0);
    judge(m);
    assert_int_equal(m->result.n_reasons, 1);
    assert_reason(m, "1 answer was wrong");
    assert_int_equal(m->result.exit_code, 3);
    drop(m);
}

static void test_failures_up_to_one_percent(void **state) {
    (void)state;
    struct made_up *m = make(9900, 60, 40);
    judge(m);
    assert_int_equal(m->result.n_reasons, 0);
    drop(m);
    m = make(9899, 61, 40);
    judge(m);
    assert_int_equal(m->result.n_reasons, 1);
    assert_reason(m, "1.0 % of the requests failed or timed out, over 1 %");
    drop(m);
}

static void test_few_right_answers_among_many(void **state) {
    (void)state;
    struct made_up *m = make(99, 5000, 0);
    judge(m);
    assert_reason(m, "99 requests were ok, fewer than 100");
    drop(m);
}

static void test_short_window(void **state) {
    (void)state;
    struct made_up *m = make(1000, 0, 0);
    m->o.duration_ns = second / 2;
    judge(m);
    assert_int_equal(m->result.n_reasons, 1);
    assert_prints(m, "INVALID: the window is 0.500 s, shorter than 1 s: measure longer with -d or");
    drop(m);
}

static void test_interrupted(void **state) {
    (void)state;
    struct made_up *m = make(1000, 0, 0);
    m->o.duration_ns = 20 * second;
    m->run.edges[1].at_ns = t0 + 3 * second / 2;
    m->worker.last_done_ns = t0 + second;
    atomic_init(&m->run.end, LOAD_END_SIGNAL);
    judge(m);
    assert_int_equal(m->result.exit_code, 130);
    assert_prints(m, "\nVALID so far (interrupted after 1.5 of 20.0 s)\n");
    m->o.duration_ns = 0;
    assert_prints(m, "\nVALID so far (interrupted after 1.5 s)\n");
    drop(m);
}

/* --- costs ----------------------------------------------------------------------------------- */

static void test_costs_are_of_right_answers(void **state) {
    (void)state;
    struct made_up *m = make(1000, 9, 0);
    m->run.edges[1].user_ns = 1000000;
    m->run.edges[1].sent = 2000;
    judge(m);
    assert_float_equal(m->result.user_us, 1, 1e-9);
    assert_float_equal(m->result.sends, 2, 1e-9);
    drop(m);
}

static void test_busy_share_is_of_the_time_between_the_edges(void **state) {
    (void)state;
    struct made_up *m = make(1000, 0, 0);
    atomic_init(&m->run.end, LOAD_END_DONE);
    m->worker.last_done_ns = t0 + second; /* the window; the edge is at two seconds */
    m->run.edges[1].busy_ns = 3 * second / 2;
    judge(m);
    assert_float_equal(m->result.busy, 0.75, 1e-9);
    m->run.edges[1].busy_ns = 3 * second;
    memset(&m->result, 0, sizeof m->result);
    judge(m);
    assert_float_equal(m->result.busy, 1, 1e-9);
    drop(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_that_are_right),
        cmocka_unit_test(test_no_right_answer),
        cmocka_unit_test(test_one_wrong_answer),
        cmocka_unit_test(test_failures_up_to_one_percent),
        cmocka_unit_test(test_few_right_answers_among_many),
        cmocka_unit_test(test_short_window),
        cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_costs_are_of_right_answers),
        cmocka_unit_test(test_busy_share_is_of_the_time_between_the_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
