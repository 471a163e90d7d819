#include "loop/group.h"
#include "unit/serve/support.h"
#include <sched.h>

struct call { /* one weir_connect and what became of it */
    char address[32];
    uint32_t connect_ms;
    struct weir_socket_options socket;
    int rc;
    _Atomic int calls, status;
    _Atomic bool inside, told_inside, echoed;
};

static int client_read(struct weir_ctx *c, struct weir_chain *in) {
    struct call **call = weir_ctx_state(c);
    weir_ctx_want(c, 5);
    if (in->bytes < 5)
        return 0;
    (*call)->echoed = true;
    weir_chain_drop(in, in->bytes);
    weir_chan_close(weir_ctx_chan(c), WEIR_DRAIN);
    return 0;
}

static const struct weir_handler client = {
    .name = "client", .state_size = sizeof(struct call *), .read = client_read};
static const struct weir_stage client_line[] = {{&client, NULL}};

static void connected(struct weir_chan *ch, int status, void *user) {
    struct call *call = user;
    call->told_inside = call->inside;
    if (ch) {
        struct weir_ctx *c = weir_chan_ctx(ch, &client);
        struct weir_chain hello = {0};
        *(struct call **)weir_ctx_state(c) = call;
        assert_int_equal(weir_chain_write(weir_ctx_mem(c), &hello, "hello", 5), 0);
        assert_int_equal(weir_ctx_send(c, &hello), 0);
    }
    call->status = status;
    call->calls++;
}

static int connect_it(struct weir_loop *l, void *user) {
    struct call *call = user;
    struct weir_client_options o = {.size = sizeof o,
                                    .address = call->address,
                                    .stages = client_line,
                                    .n_stages = 1,
                                    .connect_ms = call->connect_ms,
                                    .socket = call->socket};
    call->inside = true;
    call->rc = weir_connect(l, &o, connected, call);
    call->inside = false;
    return call->rc;
}

static void to_port(struct call *c, uint16_t port) {
    *c = (struct call){0};
    snprintf(c->address, sizeof c->address, "127.0.0.1:%u", port);
}

static void a_client_talks_to_a_server(void **state) {
    (void)state;
    struct call call;
    struct weir_group *g = group_of(2);
    to_port(&call, port_of(serve_echo(g, "127.0.0.1:0")));
    assert_int_equal(weir_group_start(g), 0);
    assert_int_equal(weir__loop_group_call(g, weir_group_loop(g, 1), connect_it, &call), 0);
    while (!call.echoed)
        sched_yield();
    assert_int_equal(call.calls, 1);
    assert_int_equal(call.status, 0);
    assert_false(call.told_inside);
    stop_and_join(g);
}

static uint16_t a_port_where_nobody_listens(void) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    close(fd);
    return ntohs(a.sin_port);
}

static void nobody_listens(void **state) {
    (void)state;
    struct call call;
    struct weir_group *g = group_of(1);
    to_port(&call, a_port_where_nobody_listens());
    assert_int_equal(weir_group_start(g), 0);
    assert_int_equal(weir__loop_group_call(g, weir_group_loop(g, 0), connect_it, &call), 0);
    while (!call.calls)
        sched_yield();
    assert_int_equal(call.status, WEIR_EREFUSED);
    assert_false(call.told_inside);
    stop_and_join(g);
    assert_int_equal(call.calls, 1);
}

/* A listener whose queue is full: the next connect waits for an answer that never comes. */
struct full {
    int listener, queued[8];
    uint16_t port;
};

static void fill(struct full *f) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    f->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(f->listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(f->listener, 0), 0);
    assert_int_equal(getsockname(f->listener, (struct sockaddr *)&a, &len), 0);
    f->port = ntohs(a.sin_port);
    for (unsigned i = 0; i < 8; i++) {
        f->queued[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)!connect(f->queued[i], (struct sockaddr *)&a, sizeof a);
    }
}

static void empty(struct full *f) {
    for (unsigned i = 0; i < 8; i++)
        close(f->queued[i]);
    close(f->listener);
}

static void stopped_while_connecting(void **state) {
    (void)state;
    struct call call;
    struct full f;
    struct weir_group *g = group_of(1);
    fill(&f);
    to_port(&call, f.port);
    assert_int_equal(weir_group_start(g), 0);
    assert_int_equal(weir__loop_group_call(g, weir_group_loop(g, 0), connect_it, &call), 0);
    assert_int_equal(call.calls, 0);
    weir_group_stop(g, 60000);
    assert_int_equal(weir_group_join(g), 0);
    assert_int_equal(call.calls, 1);
    assert_int_equal(call.status, WEIR_ESTOPPED);
    empty(&f);
}

static void nobody_answers_in_time(void **state) {
    (void)state;
    struct call call;
    struct full f;
    struct weir_group *g = group_of(1);
    fill(&f);
    to_port(&call, f.port);
    call.connect_ms = 20;
    assert_int_equal(weir_group_start(g), 0);
    assert_int_equal(weir__loop_group_call(g, weir_group_loop(g, 0), connect_it, &call), 0);
    while (!call.calls)
        sched_yield();
    assert_int_equal(call.status, WEIR_ETIMEDOUT);
    stop_and_join(g);
    assert_int_equal(call.calls, 1);
    empty(&f);
}

static void connect_while_stopping(struct weir_loop *l, void *user) {
    connect_it(l, user);
}

static int connect_at_the_end(struct weir_loop *l, void *user) {
    return weir_loop_on_stop(l, connect_while_stopping, user);
}

static void no_connect_once_the_loop_stops(void **state) {
    (void)state;
    struct call call;
    struct weir_group *g = group_of(1);
    to_port(&call, 9);
    assert_int_equal(weir__loop_group_call(g, weir_group_loop(g, 0), connect_at_the_end, &call), 0);
    assert_int_equal(weir_group_start(g), 0);
    stop_and_join(g);
    assert_int_equal(call.rc, WEIR_ESTOPPED);
    assert_int_equal(call.calls, 0);
}

static int bad_connects(struct weir_loop *l, void *user) {
    struct weir_client_options o = {
        .size = sizeof o, .address = "127.0.0.1:9", .stages = client_line, .n_stages = 1};
    struct weir_client_options bad[4] = {o, o, o, o};
    bad[0].size = 1;
    bad[1].address = NULL;
    bad[2].address = "nowhere at all";
    bad[3].n_stages = 0;
    for (unsigned i = 0; i < 4; i++)
        if (weir_connect(l, &bad[i], connected, user) != WEIR_EINVAL)
            return -(int)i - 1;
    return weir_connect(l, &o, NULL, user) == WEIR_EINVAL ? 0 : -9;
}

static void what_makes_no_sense_is_refused(void **state) {
    (void)state;
    struct call call = {0};
    struct weir_group *g = group_of(1);
    assert_int_equal(weir_group_start(g), 0);
    assert_int_equal(weir__loop_group_call(g, weir_group_loop(g, 0), bad_connects, &call), 0);
    stop_and_join(g);
    assert_int_equal(call.calls, 0);
}

static void a_refused_socket_option_is_refused_now(void **state) {
    (void)state;
    static const char *const transports[] = {"epoll", "uring"};
    for (unsigned t = 0; t < 2; t++) {
        struct call call;
        struct weir_group_options o = {.size = sizeof o, .loops = 1, .transport = transports[t]};
        struct weir_group *g;
        assert_int_equal(weir_group_new(&o, &g), 0);
        uint16_t port = port_of(serve_echo(g, "127.0.0.1:0"));
        assert_int_equal(weir_group_start(g), 0);
        to_port(&call, port);
        call.socket.keepalive_interval_s = 40000;
        assert_int_equal(weir__loop_group_call(g, weir_group_loop(g, 0), connect_it, &call),
                         WEIR_ESOCKOPT(WEIR_SOCKET_KEEPALIVE_INTERVAL));
        assert_int_equal(call.calls, 0);
        call.socket = (struct weir_socket_options){.no_keepalive = true, .rcvbuf_bytes = 65536};
        assert_int_equal(weir__loop_group_call(g, weir_group_loop(g, 0), connect_it, &call), 0);
        while (!call.echoed)
            ;
        stop_and_join(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refused_socket_option_is_refused_now),
        cmocka_unit_test(a_client_talks_to_a_server),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(stopped_while_connecting),
        cmocka_unit_test(nobody_answers_in_time),
        cmocka_unit_test(no_connect_once_the_loop_stops),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests_name("serve/client", tests, NULL, NULL);
}
