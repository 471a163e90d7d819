/* Offloading with real threads: many connections, jobs of very different lengths, connections that
 * vanish, a stop in the middle. Run under the thread sanitizer. */
#include "weir.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

enum { PEERS = 6, NUMBERS = 400 };

struct number {
    struct weir_job job;
    struct weir_chain answer;
    uint8_t *bytes;
};

static enum weir_order order;
static _Atomic unsigned taken, done, good, spun;

/* The first byte says how long it takes. */
static void number_run(struct weir_job *j) {
    struct number *n = (struct number *)j;
    for (unsigned i = 0; i < n->bytes[0] * 20u; i++)
        atomic_fetch_add_explicit(&spun, 1, memory_order_relaxed);
    n->bytes[3] = 1;
}

static void number_done(struct weir_ctx *c, struct weir_job *j, int status) {
    struct number *n = (struct number *)j;
    done++;
    good += status == 0;
    if (status == 0)
        (void)weir_ctx_send(c, &n->answer);
    weir_chain_fini(&n->answer);
    weir_mem_free(n);
}

static int take_one(struct weir_ctx *c, struct weir_chain *in) {
    struct number *n = weir_mem_new(weir_ctx_mem(c), sizeof *n);
    n->job = (struct weir_job){.run = number_run, .done = number_done};
    n->bytes = weir_chain_reserve(weir_ctx_mem(c), &n->answer, 4);
    weir_chain_read(in, 0, n->bytes, 4);
    weir_chain_commit(&n->answer, 4);
    int rc = weir_ctx_offload(c, &n->job, order);
    if (rc < 0) {
        weir_chain_fini(&n->answer);
        weir_mem_free(n);
        return rc;
    }
    weir_chain_drop(in, 4);
    taken++;
    return 0;
}

static int number_read(struct weir_ctx *c, struct weir_chain *in) {
    int rc = 0;
    while (rc >= 0 && in->bytes >= 4 && weir_ctx_offload_room(c))
        rc = take_one(c, in);
    if (in->bytes < 4)
        weir_ctx_want(c, 4);
    return rc;
}

static const struct weir_handler numbers = {.name = "numbers", .read = number_read};

/* --- peers ----------------------------------------------------------------------------------- */

static int dial(const struct weir_server *s) {
    long port = strtol(strrchr(weir_server_address(s), ':') + 1, NULL, 10);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void say_all(int fd) {
    uint8_t data[4 * NUMBERS];
    for (unsigned i = 0; i < NUMBERS; i++)
        memcpy(data + 4 * i, (uint8_t[]){(uint8_t)(i * 37), (uint8_t)(i >> 8), (uint8_t)i, 0}, 4);
    assert_int_equal(write(fd, data, sizeof data), sizeof data);
}

static void hear_all(int fd) {
    uint8_t got[4 * NUMBERS];
    bool seen[NUMBERS] = {false};
    size_t n = 0;
    while (n < sizeof got) {
        ssize_t rc = read(fd, got + n, sizeof got - n);
        assert_true(rc > 0);
        n += (size_t)rc;
    }
    for (unsigned i = 0; i < NUMBERS; i++) {
        unsigned k = (unsigned)got[4 * i + 1] << 8 | got[4 * i + 2];
        assert_in_range(k, 0, NUMBERS - 1);
        assert_true(got[4 * i] == (uint8_t)(k * 37) && got[4 * i + 3] == 1 && !seen[k]);
        seen[k] = true;
        if (order == WEIR_ORDERED)
            assert_int_equal(k, i);
    }
}

static struct weir_group *start(struct weir_server **s) {
    static struct weir_stage line[] = {{&numbers, NULL}};
    struct weir_group_options go = {.size = sizeof go, .loops = 2, .workers = 3};
    struct weir_server_options so = {.size = sizeof so,
                                     .address = "127.0.0.1:0",
                                     .stages = line,
                                     .n_stages = 1,
                                     .limits = {.offload_max = 16}};
    struct weir_group *g;
    taken = done = good = 0;
    assert_int_equal(weir_group_new(&go, &g), 0);
    assert_int_equal(weir_serve(g, &so, s), 0);
    assert_int_equal(weir_group_start(g), 0);
    return g;
}

static void stop(struct weir_group *g, uint32_t drain_ms) {
    weir_group_stop(g, drain_ms);
    assert_int_equal(weir_group_join(g), 0);
    assert_int_equal(done, taken);
}

static void everybody_is_answered(enum weir_order o) {
    struct weir_server *s;
    int fd[PEERS];
    order = o;
    struct weir_group *g = start(&s);
    for (unsigned i = 0; i < PEERS; i++)
        say_all(fd[i] = dial(s));
    for (unsigned i = 0; i < PEERS; i++)
        hear_all(fd[i]);
    struct weir_worker_stats w;
    struct weir_handler_stats h[16];
    assert_int_equal(weir_group_worker_stats(g, &w), 0);
    assert_true(w.jobs == PEERS * NUMBERS && w.finished == w.jobs && w.cpu_ns > 0);
    assert_in_range(w.threads, 1, 3);
    uint64_t counted = 0;
    for (unsigned l = 0; l < 2; l++) {
        int n = weir_group_handler_stats(g, l, h, 16);
        for (int i = 0; i < n; i++)
            counted += strcmp(h[i].name, "numbers") ? 0 : h[i].offloads;
    }
    assert_int_equal(counted, PEERS * NUMBERS);
    for (unsigned i = 0; i < PEERS; i++)
        close(fd[i]);
    stop(g, 10000);
    assert_int_equal(good, PEERS * NUMBERS);
}

static void ordered(void **state) {
    (void)state;
    everybody_is_answered(WEIR_ORDERED);
}

static void unordered(void **state) {
    (void)state;
    everybody_is_answered(WEIR_UNORDERED);
}

static void peers_that_vanish(void **state) {
    (void)state;
    struct weir_server *s;
    order = WEIR_ORDERED;
    struct weir_group *g = start(&s);
    for (unsigned i = 0; i < PEERS; i++) {
        struct linger reset = {.l_onoff = 1};
        int fd = dial(s);
        say_all(fd);
        if (i % 2)
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(fd);
    }
    stop(g, 2000);
}

static void a_stop_in_the_middle(void **state) {
    (void)state;
    for (uint32_t drain_ms = 0; drain_ms < 4; drain_ms++) {
        struct weir_server *s;
        int fd[PEERS];
        struct weir_group *g = start(&s);
        for (unsigned i = 0; i < PEERS; i++)
            say_all(fd[i] = dial(s));
        while (!done)
            sched_yield();
        stop(g, drain_ms);
        for (unsigned i = 0; i < PEERS; i++)
            close(fd[i]);
    }
}

static void too_many_are_refused(void **state) {
    (void)state;
    struct weir_group_options o = {.size = sizeof o, .loops = 1, .workers = 1025};
    struct weir_group *g;
    assert_int_equal(weir_group_new(&o, &g), WEIR_EINVAL);
    o.workers = 1024;
    assert_int_equal(weir_group_new(&o, &g), 0);
    assert_int_equal(weir_group_join(g), 0);
}

static void without_work_there_are_no_threads(void **state) {
    (void)state;
    struct weir_server *s;
    struct weir_worker_stats w;
    struct weir_group *g = start(&s);
    assert_int_equal(weir_group_worker_stats(g, &w), 0);
    assert_int_equal(w.threads, 0);
    stop(g, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordered),
        cmocka_unit_test(unordered),
        cmocka_unit_test(peers_that_vanish),
        cmocka_unit_test(a_stop_in_the_middle),
        cmocka_unit_test(too_many_are_refused),
        cmocka_unit_test(without_work_there_are_no_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
