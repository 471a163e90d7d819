/* A real server that is watched, with real faults; and what the admin's own faults come to. */
#include "admin/finding.h"
#include "loop/group.h"
#include "loop/loop.h"
#include "mem/raw.h"
#include "os/fault.h"
#include "unit/serve/support.h"
#include "weir/admin.h"
#include <jansson.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

/* --- asking ---------------------------------------------------------------------------------- */

static uint16_t admin_port(const struct weir_admin *a) {
    return (uint16_t)strtoul(strrchr(weir_admin_address(a), ':') + 1, NULL, 10);
}

static struct weir_admin *admin_of(struct weir_group *g) {
    struct weir_admin *a;
    assert_int_equal(weir_admin_serve(g, "127.0.0.1:0", &a), 0);
    return a;
}

/* A page's status; *body (freed by the caller) is what follows the head. */
static int ask(const struct weir_admin *a, const char *target, char **body) {
    char request[256], *text = calloc(1, 1 << 20);
    size_t n = 0;
    int fd = dial(admin_port(a)), status = 0;
    int m = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", target);
    assert_int_equal(send(fd, request, (size_t)m, MSG_NOSIGNAL), m);
    for (ssize_t got; (got = recv(fd, text + n, (1 << 20) - 1 - n, 0)) > 0;)
        n += (size_t)got;
    close(fd);
    assert_int_equal(sscanf(text, "HTTP/1.1 %d ", &status), 1);
    char *begin = strstr(text, "\r\n\r\n");
    assert_non_null(begin);
    *body = strdup(begin + 4);
    free(text);
    return status;
}

static json_t *ask_json(const struct weir_admin *a, const char *target) {
    char *body;
    json_error_t why;
    assert_int_equal(ask(a, target, &body), 200);
    json_t *j = json_loads(body, 0, &why);
    if (!j)
        fail_msg("%s: %s", why.text, body);
    free(body);
    return j;
}

/* Its findings of the last second or two; how many; *kind: the first one. */
static size_t findings(const struct weir_admin *a, char *kind, size_t cap, char *handler) {
    json_t *j = ask_json(a, "/debug/findings?seconds=2");
    json_t *all = json_object_get(j, "findings"), *one = json_array_get(all, 0);
    size_t n = json_array_size(all);
    const char *name = json_string_value(json_object_get(one, "handler"));
    assert_string_equal(json_string_value(json_object_get(j, "schema")), "weir.findings/1");
    snprintf(kind, cap, "%s", n ? json_string_value(json_object_get(one, "kind")) : "");
    snprintf(handler, cap, "%s", name ? name : "");
    json_decref(j);
    return n;
}

/* --- servers with faults --------------------------------------------------------------------- */

static uint64_t now_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Waits for something that never comes, as a look-up or a lock would. */
static int blocking_read(struct weir_ctx *c, struct weir_chain *in) {
    poll(NULL, 0, 160);
    return weir_ctx_send(c, in);
}

static int burning_read(struct weir_ctx *c, struct weir_chain *in) {
    uint64_t end = now_ns(CLOCK_THREAD_CPUTIME_ID) + 160000000;
    while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end)
        ;
    return weir_ctx_send(c, in);
}

/* Answers with 2 MiB "of a file" that went through memory. */
static int copying_read(struct weir_ctx *c, struct weir_chain *in) {
    enum { PART = 64 << 10, PARTS = 32 };
    struct weir_chain out = {0};
    for (unsigned i = 0; i < PARTS; i++) {
        uint8_t *p = weir_chain_reserve(weir_ctx_mem(c), &out, PART);
        if (!p)
            return WEIR_ENOMEM;
        memset(p, 'f', PART);
        weir_chain_commit(&out, PART);
    }
    weir_loop_file_copied(weir_ctx_loop(c), out.bytes);
    weir_chain_drop(in, in->bytes);
    int rc = weir_ctx_send(c, &out);
    weir_chain_fini(&out);
    return rc;
}

/* A buffer per request that no chunk has room for. */
static int huge_read(struct weir_ctx *c, struct weir_chain *in) {
    struct weir_slice s;
    int rc = weir_slice_new(weir_ctx_mem(c), 20 << 20, &s);
    if (rc < 0)
        return rc;
    weir_slice_release(&s);
    return weir_ctx_send(c, in);
}

static const struct weir_handler blocking = {.name = "blocking", .read = blocking_read},
                                 burning = {.name = "burning", .read = burning_read},
                                 copying = {.name = "copying", .read = copying_read},
                                 huge = {.name = "huge", .read = huge_read};

static uint16_t serve(struct weir_group *g, const struct weir_handler *h) {
    const struct weir_stage line[] = {{h, NULL}};
    struct weir_server_options o = echo_at("127.0.0.1:0");
    struct weir_server *s;
    o.stages = line;
    assert_int_equal(weir_serve(g, &o, &s), 0);
    return port_of(s);
}

/* Asks for 4 bytes again and again until the finding is there. */
static void assert_found(const struct weir_handler *h, size_t answer_bytes, const char *kind,
                         const char *handler) {
    struct weir_group *g = group_of(1);
    uint16_t port = serve(g, h);
    struct weir_admin *a = admin_of(g);
    char found[64] = "", whose[64] = "", *back = malloc(answer_bytes);
    assert_int_equal(weir_group_start(g), 0);
    int fd = dial(port);
    uint64_t end = now_ns(CLOCK_MONOTONIC) + 20000000000;
    while (strcmp(found, kind) != 0 && now_ns(CLOCK_MONOTONIC) < end) {
        for (unsigned i = 0; i < 4; i++) {
            assert_int_equal(send(fd, "ping", 4, MSG_NOSIGNAL), 4);
            assert_int_equal(recv(fd, back, answer_bytes, MSG_WAITALL), answer_bytes);
        }
        (void)findings(a, found, sizeof found, whose);
    }
    assert_string_equal(found, kind);
    assert_string_equal(whose, handler);
    free(back);
    close(fd);
    stop_and_join(g);
}

static void a_handler_that_blocks_is_found(void **state) {
    (void)state;
    assert_found(&blocking, 4, "callback-blocked", "blocking");
}

static void a_handler_that_computes_is_found(void **state) {
    (void)state;
    assert_found(&burning, 4, "callback-held", "burning");
}

static void a_file_through_memory_is_found(void **state) {
    (void)state;
    assert_found(&copying, 2 << 20, "file-through-memory", "");
}

static void buffers_from_outside_the_pool_are_found(void **state) {
    (void)state;
    assert_found(&huge, 4, "unpooled-buffers", "");
}

static void more_loops_than_cpus_are_found(void **state) {
    (void)state;
    char kind[64] = "", handler[64];
    struct weir__loop_process p;
    struct weir_group *g = group_of(1);
    g->world->outside->process(g, &p);
    stop_and_join(g);
    g = group_of(p.cpus + 1);
    serve(g, &echo);
    struct weir_admin *a = admin_of(g);
    assert_int_equal(weir_group_start(g), 0);
    uint64_t end = now_ns(CLOCK_MONOTONIC) + 20000000000;
    while (!kind[0] && now_ns(CLOCK_MONOTONIC) < end)
        (void)findings(a, kind, sizeof kind, handler);
    assert_string_equal(kind, "too-many-loops");
    stop_and_join(g);
}

/* --- life ------------------------------------------------------------------------------------ */

static void it_answers_before_the_group_starts_and_goes_with_it(void **state) {
    (void)state;
    char *body;
    struct weir_group *g = group_of(2);
    serve(g, &echo);
    struct weir_admin *a = admin_of(g), *second = admin_of(g);
    uint16_t port = admin_port(a);
    assert_int_not_equal(port, admin_port(second));
    assert_int_equal(ask(a, "/healthz", &body), 200);
    free(body);
    json_t *j = ask_json(second, "/stats");
    assert_int_equal(json_array_size(json_object_get(j, "loops")), 2);
    json_decref(j);
    assert_int_equal(weir_group_join(g), 0); /* it never started */
    assert_int_equal(listeners_at(port), 0);
}

static void settings_are_shown(void **state) {
    (void)state;
    char name[40];
    struct weir_group *g = group_of(1);
    struct weir_admin *a = admin_of(g);
    assert_int_equal(weir_admin_parameter(a, "loops", "1", "flag"), 0);
    assert_int_equal(weir_admin_parameter(a, "", "1", "flag"), WEIR_EINVAL);
    assert_int_equal(weir_admin_parameter(a, "x", "1", ""), WEIR_EINVAL);
    assert_int_equal(weir_admin_parameter(a, "x", "1", "a very long origin"), WEIR_EINVAL);
    for (unsigned i = 1; i < 64; i++) {
        snprintf(name, sizeof name, "p%u", i);
        assert_int_equal(weir_admin_parameter(a, name, "", "default"), 0);
    }
    assert_int_equal(weir_admin_parameter(a, "more", "1", "flag"), WEIR_EFULL);
    json_t *j = ask_json(a, "/stats"), *all = json_object_get(j, "parameters");
    assert_int_equal(json_array_size(all), 64);
    json_t *first = json_array_get(all, 0);
    assert_string_equal(json_string_value(json_object_get(first, "name")), "loops");
    assert_string_equal(json_string_value(json_object_get(first, "origin")), "flag");
    json_decref(j);
    assert_int_equal(weir_group_join(g), 0);
}

static void pools_that_are_set_up_otherwise(void **state) {
    (void)state;
    struct weir_mem_options pools = {.size = sizeof pools, .mode = WEIR_MEM_UNPOOLED};
    struct weir_group_options o = {.size = sizeof o, .loops = 1, .pools = &pools};
    struct weir_group *g;
    json_t *pool = NULL, *j = NULL;
    assert_int_equal(weir_group_new(&o, &g), 0);
    struct weir_admin *a = admin_of(g);
    assert_int_equal(weir_group_start(g), 0);
    while (!json_is_object(pool)) { /* until the loop has answered its first note */
        json_decref(j);
        j = ask_json(a, "/stats");
        pool = json_object_get(json_array_get(json_object_get(j, "loops"), 0), "pool");
    }
    assert_int_equal(json_integer_value(json_object_get(pool, "arenas")), 0);
    assert_int_equal(json_integer_value(json_object_get(pool, "chunk_bytes")), 0);
    json_decref(j);
    stop_and_join(g);
    pools.chunk_bytes = 3;
    assert_int_equal(weir_group_new(&o, &g), WEIR_EINVAL);
}

static void addresses_that_cannot_be_had(void **state) {
    (void)state;
    struct weir_group *g = group_of(1);
    struct weir_admin *a = admin_of(g), *b;
    assert_int_equal(weir_admin_serve(g, "nowhere", &b), WEIR_EINVAL);
    assert_non_null(strstr(weir_server_why(g), "nowhere"));
    assert_int_equal(weir_admin_serve(g, weir_admin_address(a), &b), WEIR_EINUSE);
    assert_non_null(strstr(weir_server_why(g), weir_admin_address(a)));
    assert_int_equal(weir_group_join(g), 0);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    struct weir_group *g = group_of(1);
    struct weir_admin *a;
    int rc = WEIR_ENOMEM;
    for (uint64_t nth = 1; rc < 0; nth++) {
        assert_true(nth < 1000);
        weir__mem_raw_fail(nth);
        rc = weir_admin_serve(g, "127.0.0.1:0", &a);
        weir__mem_raw_fail(0);
        assert_true(rc == 0 || rc == WEIR_ENOMEM);
    }
    assert_int_equal(weir_group_join(g), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handler_that_blocks_is_found),
        cmocka_unit_test(a_handler_that_computes_is_found),
        cmocka_unit_test(a_file_through_memory_is_found),
        cmocka_unit_test(buffers_from_outside_the_pool_are_found),
        cmocka_unit_test(more_loops_than_cpus_are_found),
        cmocka_unit_test(it_answers_before_the_group_starts_and_goes_with_it),
        cmocka_unit_test(settings_are_shown),
        cmocka_unit_test(pools_that_are_set_up_otherwise),
        cmocka_unit_test(addresses_that_cannot_be_had),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
