#include "loop/group.h"
#include "mem/pool.h"
#include "mem/raw.h"
#include "os/fault.h"
#include "unit/serve/support.h"
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/un.h>

static int nothing(struct weir_loop *l, void *user) {
    (void)l;
    (void)user;
    return 0;
}

static void every_loop_has_its_listener(void **state) {
    (void)state;
    struct weir_loop_stats stats;
    struct weir_group *g = group_of(3);
    struct weir_server *s = serve_echo(g, "127.0.0.1:0");
    uint16_t port = port_of(s);
    assert_int_not_equal(port, 0);
    assert_int_equal(listeners_at(port), 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(weir_group_loop_stats(g, i, &stats), 0);
        assert_int_equal(stats.listeners, 1);
    }
    assert_int_equal(weir_group_start(g), 0);
    assert_int_equal(listeners_at(port), 3);
    weir_group_stop(g, 0);
    for (unsigned i = 0; i < 3; i++) {
        while (weir__loop_group_call(g, weir_group_loop(g, i), nothing, NULL) == 0)
            ;
        assert_int_equal(weir_group_loop_stats(g, i, &stats), 0);
        assert_int_equal(stats.listeners, 0);
    }
    assert_int_equal(listeners_at(port), 0);
    assert_int_equal(weir_group_join(g), 0);
}

static void never_started(void **state) {
    (void)state;
    struct weir_group *g = group_of(2);
    uint16_t port = port_of(serve_echo(g, "127.0.0.1:0"));
    assert_int_equal(weir_group_join(g), 0);
    assert_int_equal(listeners_at(port), 0);
}

static void loops_share_the_clients(void **state) {
    (void)state;
    enum { CLIENTS = 64 };
    int fd[CLIENTS];
    uint64_t opened = 0;
    struct weir_group *g = group_of(2);
    uint16_t port = port_of(serve_echo(g, "127.0.0.1:0"));
    assert_int_equal(weir_group_start(g), 0);
    for (unsigned i = 0; i < CLIENTS; i++)
        assert_echoes(fd[i] = dial(port));
    for (unsigned i = 0; i < 2; i++) {
        struct weir_loop_stats stats;
        assert_int_equal(weir_group_loop_stats(g, i, &stats), 0);
        assert_true(stats.opened > 0);
        opened += stats.opened;
    }
    assert_int_equal(opened, CLIENTS);
    for (unsigned i = 0; i < CLIENTS; i++)
        close(fd[i]);
    weir_group_stop(g, 10000);
    assert_int_equal(weir_group_join(g), 0);
}

static void an_address_in_use_is_refused_unless_joined(void **state) {
    (void)state;
    struct weir_server *s;
    struct weir_group *first = group_of(1), *second = group_of(2);
    uint16_t port = port_of(serve_echo(first, "127.0.0.1:0"));
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    struct weir_server_options o = echo_at(address);
    assert_int_equal(weir_serve(second, &o, &s), WEIR_EINUSE);
    assert_non_null(strstr(weir_server_why(second), address));
    assert_int_equal(listeners_at(port), 1);
    o.join = true;
    assert_int_equal(weir_serve(second, &o, &s), 0);
    assert_string_equal(weir_server_address(s), address);
    assert_string_equal(weir_server_why(second), "");
    assert_int_equal(listeners_at(port), 3);
    assert_int_equal(weir_group_join(first), 0);
    assert_int_equal(weir_group_join(second), 0);
}

static void what_makes_no_sense_is_explained(void **state) {
    (void)state;
    struct weir_server *s;
    struct weir_group *g = group_of(1);
    struct weir_server_options bad[7];
    for (unsigned i = 0; i < 7; i++)
        bad[i] = echo_at("127.0.0.1:0");
    bad[0].size = 3;
    bad[1].address = NULL;
    bad[2].address = "nonsense";
    bad[3].backlog = -1;
    bad[4].n_stages = 0;
    bad[5].limits = (struct weir_limits){.high_bytes = 10, .low_bytes = 20};
    bad[6].n_fds = 1;
    for (unsigned i = 0; i < 7; i++) {
        assert_int_equal(weir_serve(g, &bad[i], &s), WEIR_EINVAL);
        assert_true(strlen(weir_server_why(g)) > 10);
        if (!bad[i].n_stages)
            assert_string_equal(weir_server_why(g), "its pipeline has no stages");
    }
    assert_int_equal(weir_group_join(g), 0);
}

static void unix_paths_have_one_listener(void **state) {
    (void)state;
    struct weir_server *s;
    struct weir_loop_stats stats;
    char path[64], address[80];
    snprintf(path, sizeof path, "/tmp/weir-test-%d.sock", (int)getpid());
    snprintf(address, sizeof address, "unix:%s", path);
    for (unsigned round = 0; round < 2;
         round++) { /* the second finds the path that the first left */
        struct weir_group *g = group_of(2);
        struct sockaddr_un to = {.sun_family = AF_UNIX};
        assert_string_equal(weir_server_address(serve_echo(g, address)), address);
        struct weir_server_options again = echo_at(address);
        assert_int_equal(weir_serve(g, &again, &s), WEIR_EINUSE);
        assert_int_equal(weir_group_loop_stats(g, 1, &stats), 0);
        assert_int_equal(stats.listeners, 0);
        assert_int_equal(weir_group_start(g), 0);
        memcpy(to.sun_path, path, strlen(path) + 1);
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
        assert_echoes(fd);
        close(fd);
        stop_and_join(g);
    }
    unlink(path);
}

static int posix_listener(uint16_t *port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    *port = ntohs(a.sin_port);
    return fd;
}

static void inherited_listeners_go_on(void **state) {
    (void)state;
    uint16_t ports[3];
    int fds[3], fd;
    struct weir_server *s;
    struct weir_loop_stats stats;
    for (unsigned i = 0; i < 3; i++)
        fds[i] = posix_listener(&ports[i]);
    struct weir_group *g = group_of(2);
    struct weir_server_options o = echo_at(NULL);
    o.fds = (const int[]){1 << 20};
    o.n_fds = 1;
    assert_int_equal(weir_serve(g, &o, &s), WEIR_ESYS(EBADF));
    o.fds = fds;
    o.n_fds = 3;
    assert_int_equal(weir_serve(g, &o, &s), 0);
    assert_int_equal(port_of(s), ports[0]);
    assert_int_equal(weir_group_loop_stats(g, 0, &stats), 0);
    assert_int_equal(stats.listeners, 2);
    assert_int_equal(weir_group_start(g), 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_echoes(fd = dial(ports[i]));
        close(fd);
    }
    stop_and_join(g);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(listeners_at(ports[i]), 0);
}

struct late {
    _Atomic int rc;
};

static void serve_from_a_loop(struct weir_loop *l, void *user) {
    struct weir_server_options o = echo_at("127.0.0.1:0");
    struct weir_server *s;
    ((struct late *)user)->rc = weir_serve(l->env.group, &o, &s);
}

static void what_does_not_listen_is_not_inherited(void **state) {
    (void)state;
    struct weir_server *s;
    struct weir_group *g = group_of(1);
    struct weir_server_options o = echo_at(NULL);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    o.fds = &fd;
    o.n_fds = 1;
    assert_int_equal(weir_serve(g, &o, &s), WEIR_EINVAL);
    assert_non_null(strstr(weir_server_why(g), "does not listen"));
    assert_int_equal(close(fd), 0); /* it stayed ours */
    stop_and_join(g);
}

/* Loops whose thread never came would wait for ever with what they were asked. */
static void a_failed_start_refuses_servers(void **state) {
    (void)state;
    for (unsigned nth = 1; nth <= 2; nth++) {
        struct weir__os_fault f = {.kind = WEIR__OS_THREAD, .nth = nth, .error = EAGAIN};
        struct weir_server *s;
        struct weir_group *g = group_of(2);
        struct weir_server_options o = echo_at("127.0.0.1:0");
        weir__os_fault_set(&f);
        assert_true(weir_group_start(g) < 0);
        weir__os_fault_set(NULL);
        int rc;
        while ((rc = weir_serve(g, &o, &s)) == 0)
            ;
        assert_int_equal(rc, WEIR_ESTOPPED);
        assert_int_equal(weir_group_join(g), 0);
    }
}

static void servers_may_come_later(void **state) {
    (void)state;
    struct late late = {0};
    struct weir_server *s;
    struct weir_group *g = group_of(2);
    assert_int_equal(weir_group_start(g), 0);
    uint16_t port = port_of(serve_echo(g, "127.0.0.1:0"));
    assert_int_equal(listeners_at(port), 2);
    int fd = dial(port);
    assert_echoes(fd);
    close(fd);
    assert_int_equal(weir_loop_post(weir_group_loop(g, 0), serve_from_a_loop, &late), 0);
    while (late.rc == 0)
        sched_yield();
    assert_int_equal(late.rc, WEIR_EINVAL);
    weir_group_stop(g, 0);
    struct weir_server_options o = echo_at("127.0.0.1:0");
    int rc;
    while ((rc = weir_serve(g, &o, &s)) == 0)
        ;
    assert_int_equal(rc, WEIR_ESTOPPED);
    assert_int_equal(weir_group_join(g), 0);
}

static void no_allocation_is_taken_for_granted(void **state) {
    (void)state;
    struct weir_server *s;
    struct weir_server_options o = echo_at("127.0.0.1:0");
    struct weir_group *g = group_of(2);
    int rc = WEIR_ENOMEM;
    uint64_t nth = 0;
    while (rc == WEIR_ENOMEM) {
        weir__mem_raw_fail(++nth);
        rc = weir_serve(g, &o, &s);
        weir__mem_raw_fail(0);
    }
    assert_int_equal(rc, 0);
    assert_true(nth >= 4);
    for (unsigned loop = 0; loop < 2; loop++) {
        weir__mem_fail(weir_group_loop(g, loop)->mem, 1, false);
        assert_int_equal(weir_serve(g, &o, &s), WEIR_ENOMEM);
        assert_true(weir_server_why(g)[0]);
        weir__mem_fail(weir_group_loop(g, loop)->mem, 0, false);
    }
    assert_int_equal(listeners_at(port_of(s)), 2);
    assert_int_equal(weir_group_start(g), 0);
    int fd = dial(port_of(s));
    assert_echoes(fd);
    close(fd);
    stop_and_join(g);
}

static void no_system_call_is_taken_for_granted(void **state) {
    (void)state;
    static const enum weir__os_kind kinds[] = {WEIR__OS_SOCKET, WEIR__OS_BIND, WEIR__OS_LISTEN,
                                               WEIR__OS_SOCKNAME, WEIR__OS_SOCKOPT};
    struct weir_server *s;
    struct weir_server_options o = echo_at("127.0.0.1:0");
    struct weir_group *g = group_of(2);
    for (unsigned k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        for (uint32_t nth = 1;; nth++) {
            struct weir__os_fault f = {.kind = kinds[k], .nth = nth, .error = EMFILE};
            weir__os_fault_set(&f);
            int rc = weir_serve(g, &o, &s);
            weir__os_fault_set(NULL);
            if (!f.hit) {
                assert_int_equal(rc, 0);
                assert_true(nth > 1);
                break;
            }
            assert_int_equal(rc, WEIR_EFDS);
            assert_true(weir_server_why(g)[0]);
        }
    }
    assert_int_equal(weir_group_start(g), 0);
    int fd = dial(port_of(s));
    assert_echoes(fd);
    close(fd);
    stop_and_join(g);
}

/* Sockets of this process at that local port: how many, all with this keepalive time. */
static unsigned sockets_with(uint16_t port, int idle_s) {
    unsigned n = 0;
    for (int fd = 0; fd < 1024; fd++) {
        struct sockaddr_in a = {0};
        socklen_t len = sizeof a, size = sizeof(int);
        int got = 0;
        if (getsockname(fd, (struct sockaddr *)&a, &len) < 0 || ntohs(a.sin_port) != port)
            continue;
        assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &got, &size), 0);
        assert_int_equal(got, idle_s);
        n++;
    }
    return n;
}

static void socket_options_reach_what_is_accepted(void **state) {
    (void)state;
    static const char *const transports[] = {"epoll", "uring"};
    for (unsigned t = 0; t < 2; t++) {
        struct weir_group_options go = {.size = sizeof go, .loops = 2, .transport = transports[t]};
        struct weir_group *g;
        struct weir_server *s;
        struct weir_server_options o = echo_at("127.0.0.1:0");
        o.socket.keepalive_idle_s = 33;
        assert_int_equal(weir_group_new(&go, &g), 0);
        assert_int_equal(weir_serve(g, &o, &s), 0);
        assert_int_equal(sockets_with(port_of(s), 33), 2);
        assert_int_equal(weir_group_start(g), 0);
        int fd = dial(port_of(s));
        assert_echoes(fd);
        assert_int_equal(sockets_with(port_of(s), 33), 3);
        close(fd);
        stop_and_join(g);
    }
}

static void a_refused_socket_option_is_named(void **state) {
    (void)state;
    struct weir_server *s;
    struct weir_group *g = group_of(1);
    struct weir_server_options o = echo_at("127.0.0.1:0");
    o.socket.keepalive_count = 128;
    assert_int_equal(weir_serve(g, &o, &s), WEIR_ESOCKOPT(WEIR_SOCKET_KEEPALIVE_COUNT));
    assert_non_null(strstr(weir_server_why(g), "TCP_KEEPCNT"));
    assert_non_null(strstr(weir_server_why(g), "127"));
    assert_int_equal(weir_group_join(g), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_loop_has_its_listener),
        cmocka_unit_test(never_started),
        cmocka_unit_test(loops_share_the_clients),
        cmocka_unit_test(an_address_in_use_is_refused_unless_joined),
        cmocka_unit_test(what_makes_no_sense_is_explained),
        cmocka_unit_test(unix_paths_have_one_listener),
        cmocka_unit_test(inherited_listeners_go_on),
        cmocka_unit_test(what_does_not_listen_is_not_inherited),
        cmocka_unit_test(a_failed_start_refuses_servers),
        cmocka_unit_test(servers_may_come_later),
        cmocka_unit_test(no_allocation_is_taken_for_granted),
        cmocka_unit_test(no_system_call_is_taken_for_granted),
        cmocka_unit_test(socket_options_reach_what_is_accepted),
        cmocka_unit_test(a_refused_socket_option_is_named),
    };
    return cmocka_run_group_tests_name("serve/server", tests, NULL, NULL);
}
