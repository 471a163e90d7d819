/* Every page of a simulated group. What stands on them of a real one is in tests/e2e. */
#include "unit/admin/support.h"
#include "loop/local.h"
#include "mem/pool.h"

struct asked {
    const char *target;
    struct weir__admin_page page;
    char *body;
    uint64_t fail; /* the allocation that fails; 0: none */
};

static int answer(struct weir_loop *l, void *user) {
    struct asked *q = user;
    struct weir__admin_request r;
    char text[256];
    int n = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", q->target);
    assert_int_equal(weir__admin_request_read(text, (size_t)n, &r), 1);
    q->page = (struct weir__admin_page){.text.mem = l->mem};
    weir__mem_fail(l->mem, q->fail, false);
    weir__admin_answer(admin, &r, &q->page);
    weir__mem_fail(l->mem, 0, false);
    q->body = calloc(1, q->page.text.chain.bytes + 1);
    assert_int_equal(weir_chain_read(&q->page.text.chain, 0, q->body, q->page.text.chain.bytes), 0);
    weir_chain_fini(&q->page.text.chain);
    return 0;
}

static struct asked ask(const char *target) {
    struct asked q = {.target = target};
    assert_int_equal(weir__loop_visit(group->loops[HOME], answer, &q), 0);
    assert_false(q.page.text.failed);
    return q;
}

static void assert_page(const char *target, int status, const char *type, const char *part) {
    struct asked q = ask(target);
    if (q.page.status != status || strncmp(q.page.type, type, strlen(type)) != 0 ||
        !strstr(q.body, part))
        fail_msg("%s: %d %s %s", target, q.page.status, q.page.type, q.body);
    free(q.body);
}

static void every_page(void **state) {
    (void)state;
    begin();
    run_ms(2500);
    assert_page("/", 200, "text/html", "<a href=\"/debug/findings\">");
    assert_page("/stats", 200, "application/json", "\"schema\": \"weir.stats/1\"");
    assert_page("/stats?x", 200, "application/json", "\"depth_max\": 100");
    assert_page("/metrics", 200, "text/plain; version=0.0.4",
                "\nweir_loop_turns_total{loop=\"1\"} ");
    assert_page("/metrics", 200, "text/plain",
                "weir_handler_calls_total{loop=\"0\",handler=\"(loop)\"} ");
    assert_page("/stats", 200, "application/json", "\"trust\": 3");
    assert_page("/stats", 200, "application/json", "\"switches\": null");
    assert_page("/metrics", 200, "text/plain", "\nweir_proxy_headers_total{loop=\"0\"} 21\n");
    assert_page("/metrics", 200, "text/plain",
                "\nweir_proxy_refused_total{loop=\"1\",reason=\"time\"} 4\n");
    assert_page("/healthz", 200, "text/plain", "ok\n");
    assert_page("/debug/loops", 200, "text/plain", "loop 0: turns, 0 connections");
    assert_page("/debug/loops", 200, "text/plain", "no long turn so far");
    assert_page("/debug/findings", 200, "application/json", "\"schema\": \"weir.findings/1\"");
    assert_page("/debug/findings?format=json", 200, "application/json", "\"findings\": []");
    assert_page("/debug/findings?format=text&seconds=60", 200, "text/plain",
                "0 findings in the last 2.0 s");
    end();
}

static void a_door_with_a_ring(void **state) {
    (void)state;
    begin();
    assert_page("/stats", 200, "application/json", "\"system_calls\": ");
    struct asked q = ask("/stats");
    assert_null(strstr(q.body, "\"requests\""));
    assert_null(strstr(q.body, "\"starved\""));
    free(q.body);
    for (unsigned i = 0; i < group->n_loops; i++) {
        struct weir__io *io = group->loops[i]->io;
        io->rings = true;
        atomic_store(&io->stats.enters, 40);
        atomic_store(&io->stats.other_calls, 2);
        atomic_store(&io->stats.zero_copies, 5);
        atomic_store(&io->stats.requests[WEIR__IO_REQUEST_RECV], 7);
    }
    assert_page("/stats", 200, "application/json", "\"system_calls\": 42");
    assert_page("/stats", 200, "application/json", "\"zero_copies\": 5");
    assert_page("/stats", 200, "application/json", "\"recv\": 7");
    assert_page("/metrics", 200, "text/plain", "\nweir_loop_system_calls_total{loop=\"1\"} 42\n");
    assert_page("/metrics", 200, "text/plain", "\nweir_loop_ring_enters_total{loop=\"0\"} 40\n");
    assert_page("/metrics", 200, "text/plain",
                "\nweir_loop_ring_requests_total{loop=\"1\",kind=\"recv\"} 7\n");
    end();
}

static void what_is_refused(void **state) {
    (void)state;
    begin();
    assert_page("/nothing", 404, "text/plain", "no such page");
    assert_page("/stats/", 404, "text/plain", "no such page");
    assert_page("/debug/findings?format=xml", 400, "text/plain", "json or text");
    assert_page("/debug/findings?seconds=0", 400, "text/plain", "1 to 60");
    assert_page("/debug/findings?seconds=61", 400, "text/plain", "1 to 60");
    assert_page("/debug/profile?seconds=0", 400, "text/plain", "1 to 60");
    assert_page("/debug/profile?seconds=soon", 400, "text/plain", "1 to 60");
    assert_page("/debug/findings?format=text", 200, "text/plain", "nothing can be said");
    end();
}

static void a_profile_is_asked_for(void **state) {
    (void)state;
    begin();
    struct asked q = ask("/debug/profile?seconds=60");
    assert_int_equal(q.page.profile_s, 60);
    free(q.body);
    q = ask("/debug/profile");
    assert_int_equal(q.page.profile_s, 5);
    free(q.body);
    q = ask("/stats");
    assert_int_equal(q.page.profile_s, 0);
    free(q.body);
    end();
}

static void health(void **state) {
    (void)state;
    begin();
    run_ms(100);
    admin->notes[0].away = true;
    admin->notes[0].sent_ns = 0;
    run_ms(6000);
    assert_page("/healthz", 503, "text/plain", "loop 0 has not turned for more than 5 s");
    assert_page("/debug/loops", 200, "text/plain", "loop 0: STUCK");
    admin->notes[0].away = false;
    weir_group_stop(group, 0);
    assert_page("/healthz", 503, "text/plain", "draining");
    end();
}

/* --- what a simulated world has not ---------------------------------------------------------- */

static struct weir_long_turn long_turn;
static struct weir_profile_summary summary;

static unsigned one_long_turn(struct weir_group *g, struct weir_long_turn *out, unsigned n_max) {
    (void)g;
    assert_true(n_max >= 1);
    out[0] = long_turn;
    return 1;
}

static void process(struct weir_group *g, struct weir__loop_process *out) {
    (void)g;
    *out = (struct weir__loop_process){.id = 77, .resident_bytes = 123456789, .cpus = 1};
}

static const char *folded(const struct weir_profile *p, size_t *n) {
    (void)p;
    *n = 4;
    return "a 1\n";
}

static const struct weir_profile_summary *summary_of(const struct weir_profile *p) {
    (void)p;
    return &summary;
}

static bool switches(struct weir_group *g, unsigned index, struct weir__loop_switches *out) {
    (void)g;
    *out = (struct weir__loop_switches){.voluntary = 70 + index, .involuntary = 5};
    return index == 0;
}

static const struct weir__loop_outside outside = {.process = process,
                                                  .switches = switches,
                                                  .profile_folded = folded,
                                                  .profile_summary = summary_of};

static void what_the_world_tells(void **state) {
    (void)state;
    begin();
    const struct weir__loop_world *before = group->world;
    struct weir__loop_world world = *before;
    world.outside = &outside;
    world.long_turns = one_long_turn;
    group->world = &world;
    run_ms(2500);
    long_turn = (struct weir_long_turn){.loop = 0,
                                        .over = true,
                                        .at_ns = admin->loop->now_ns - S,
                                        .length_ns = S / 5,
                                        .cpu_ns = S / 100,
                                        .n_handlers = 2,
                                        .handlers = {"look-up", "front"},
                                        .stack = "poll < wait"};
    assert_page("/stats", 200, "application/json", "\"pid\": 77");
    assert_page("/stats", 200, "application/json", "\"resident_bytes\": 123456789");
    assert_page("/metrics", 200, "text/plain", "\nweir_resident_bytes 123456789\n");
    assert_page("/metrics", 200, "text/plain",
                "counter\nweir_loop_switches_total{loop=\"0\",kind=\"voluntary\"} 70\n"
                "weir_loop_switches_total{loop=\"0\",kind=\"involuntary\"} 5\n#");
    assert_page("/stats", 200, "application/json", "\"voluntary\": 70");
    assert_page("/debug/loops", 200, "text/plain",
                "long turn 1.0 s ago on loop 0: 200.0 ms, of which 10.0 ms on a CPU\n"
                "  handler      look-up < front\n  stack        poll < wait\n");
    assert_page("/debug/findings", 200, "application/json", "\"kind\": \"callback-blocked\"");
    assert_page("/debug/findings", 200, "application/json", "\"kind\": \"too-many-loops\"");
    assert_page("/debug/findings?format=text", 200, "text/plain", "2 findings in the last 2.");
    assert_page("/debug/findings?format=text", 200, "text/plain", "stack: poll < wait");
    long_turn.over = false;
    long_turn.n_handlers = 0;
    long_turn.stack[0] = 0;
    assert_page("/debug/loops", 200, "text/plain", "LONG TURN THAT STILL RUNS");
    assert_page("/debug/loops", 200, "text/plain", "handler      not seen");
    group->world = before;
    end();
}

/* What a program is called and told may be in any encoding; a stack fills its room. */
static void texts_of_others(void **state) {
    (void)state;
    begin();
    const struct weir__loop_world *before = group->world;
    struct weir__loop_world world = *before;
    world.outside = &outside;
    world.long_turns = one_long_turn;
    group->world = &world;
    run_ms(2500);
    assert_int_equal(weir__admin_parameter_add(admin, "root", "/srv/caf\xe9", "flag"), 0);
    assert_page("/stats", 200, "application/json", "\"value\": \"/srv/caf?\"");
    long_turn = (struct weir_long_turn){.loop = 0,
                                        .over = true,
                                        .at_ns = admin->loop->now_ns - S,
                                        .length_ns = S / 5,
                                        .n_handlers = 1,
                                        .handlers = {"caf\xe9"}};
    memset(long_turn.stack, 's', sizeof long_turn.stack - 1);
    assert_page("/debug/findings", 200, "application/json", "\"handler\": \"caf?\"");
    assert_page("/debug/findings", 200, "application/json", "The handler \\\"caf?\\\" kept");
    assert_page("/debug/loops", 200, "text/plain", "sss\n  connections  0 on this loop");
    assert_page("/debug/findings?format=text", 200, "text/plain", "sss\n");
    group->world = before;
    end();
}

static int call_odd(struct weir_loop *l, void *user) {
    weir__loop_attribute(l, weir__loop_name(l, user), 0);
    weir__loop_attribute_end(l);
    return 0;
}

/* A handler may be called anything. */
static void odd_names(void **state) {
    static char odd[] = "a \"b\" c:\\d\n;e", latin[] = "caf\xe9", utf8[] = "caf\xc3\xa9";
    (void)state;
    begin();
    assert_int_equal(weir__loop_visit(group->loops[0], call_odd, odd), 0);
    assert_int_equal(weir__loop_visit(group->loops[0], call_odd, latin), 0);
    assert_int_equal(weir__loop_visit(group->loops[0], call_odd, utf8), 0);
    assert_page("/metrics", 200, "text/plain",
                "\nweir_handler_calls_total{loop=\"0\",handler=\"a \\\"b\\\" c:\\\\d\\n;e\"} 1\n"
                "weir_handler_calls_total{loop=\"0\",handler=\"caf?\"} 1\n"
                "weir_handler_calls_total{loop=\"0\",handler=\"caf\xc3\xa9\"} 1\n");
    assert_page("/stats", 200, "application/json", "\"name\": \"a \\\"b\\\" c:\\\\d\\n;e\"");
    end();
}

static int profile(struct weir_loop *l, void *user) {
    struct asked *q = user;
    const struct weir_profile *p = q->target ? (const void *)q : NULL;
    q->page = (struct weir__admin_page){.text.mem = l->mem};
    weir__admin_profile(admin, p, p ? 0 : WEIR_ENOMEM, &q->page);
    q->body = calloc(1, q->page.text.chain.bytes + 1);
    weir_chain_read(&q->page.text.chain, 0, q->body, q->page.text.chain.bytes);
    weir_chain_fini(&q->page.text.chain);
    return 0;
}

static void a_profile_as_text(void **state) {
    (void)state;
    begin();
    const struct weir__loop_world *before = group->world;
    struct weir__loop_world world = *before;
    const struct weir_profile_handler handlers[] = {{.name = "digest", .samples = 9, .share = 0.9},
                                                    {.name = "a\nb c", .samples = 1, .share = 0.1}};
    world.outside = &outside;
    group->world = &world;
    summary = (struct weir_profile_summary){.window_ns = S,
                                            .threads = 2,
                                            .samples = 10,
                                            .n_handlers = 2,
                                            .handlers = handlers,
                                            .verdict.text = "digest did it"};
    struct asked q = {.target = "yes"};
    assert_int_equal(weir__loop_visit(group->loops[HOME], profile, &q), 0);
    assert_int_equal(q.page.status, 200);
    assert_string_equal(q.body, "# verdict: digest did it\n"
                                "# window 1.000 s, 2 threads, 10 samples, 0 lost, CPU 0.000 s\n"
                                "# handler digest: 9 samples, 90.0 %\n"
                                "# handler a?b c: 1 sample, 10.0 %\na 1\n");
    free(q.body);
    q.target = NULL;
    assert_int_equal(weir__loop_visit(group->loops[HOME], profile, &q), 0);
    assert_int_equal(q.page.status, 503);
    free(q.body);
    group->world = before;
    end();
}

static void a_page_without_memory_says_so(void **state) {
    (void)state;
    begin();
    run_ms(1500);
    static const char *const targets[] = {"/", "/stats", "/metrics", "/debug/findings",
                                          "/debug/loops"};
    for (unsigned i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        unsigned failed = 0;
        for (uint64_t nth = 1;; nth++) {
            struct asked q = {.target = targets[i], .fail = nth};
            assert_int_equal(weir__loop_visit(group->loops[HOME], answer, &q), 0);
            free(q.body);
            if (!q.page.text.failed)
                break;
            failed++;
        }
        assert_true(failed > 0);
    }
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_page),
        cmocka_unit_test(a_door_with_a_ring),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(a_profile_is_asked_for),
        cmocka_unit_test(health),
        cmocka_unit_test(what_the_world_tells),
        cmocka_unit_test(texts_of_others),
        cmocka_unit_test(odd_names),
        cmocka_unit_test(a_profile_as_text),
        cmocka_unit_test(a_page_without_memory_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
