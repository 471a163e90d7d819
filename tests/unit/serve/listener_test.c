#include "mem/pool.h"
#include "serve/listener.h"
#include "unit/serve/support.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

/* --- the queue of a listener that closes ----------------------------------------------------- */

/* Closing a listener resets its queue: whoever the kernel had let in must hear a proper end. */
static void the_queue_is_emptied_before_the_end(void **state) {
    (void)state;
    enum { CLIENTS = 200 };
    int fd[CLIENTS];
    char byte;
    struct weir_group *g = group_of(2);
    uint16_t port = port_of(serve_echo(g, "127.0.0.1:0"));
    for (unsigned i = 0; i < CLIENTS; i++)
        fd[i] = dial(port);
    weir_group_stop(g, 20000);
    assert_int_equal(weir_group_start(g), 0);
    for (unsigned i = 0; i < CLIENTS; i++) {
        assert_int_equal(recv(fd[i], &byte, 1, 0), 0);
        close(fd[i]);
    }
    assert_int_equal(weir_group_join(g), 0);
    assert_int_equal(listeners_at(port), 0);
}

/* Its descriptor is shared, and somebody else ends it: no later try would do better. */
static void a_listener_that_listens_no_more_is_closed(void **state) {
    (void)state;
    static const char *const transports[] = {"epoll", "uring"};
    for (unsigned t = 0; t < 2; t++) {
        struct weir_group *g;
        struct weir_group_options go = {.size = sizeof go, .loops = 1, .transport = transports[t]};
        assert_int_equal(weir_group_new(&go, &g), 0);
        struct weir_server_options o = echo_at(NULL);
        struct weir_server *s;
        struct weir_loop_stats stats;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), copy = dup(fd);
        assert_int_equal(listen(fd, 4), 0);
        o.fds = &fd;
        o.n_fds = 1;
        assert_int_equal(weir_serve(g, &o, &s), 0);
        assert_int_equal(weir_group_start(g), 0);
        int client = dial(port_of(s));
        assert_echoes(client);
        shutdown(copy, SHUT_RDWR);
        do
            assert_int_equal(weir_group_loop_stats(g, 0, &stats), 0);
        while (stats.listeners_lost == 0 || stats.listeners > 0);
        assert_int_equal(stats.listeners_lost, 1);
        assert_int_equal(stats.refused_fds, 0);
        assert_echoes(client);
        close(client);
        close(copy);
        stop_and_join(g);
    }
}

/* --- handlers and memory that refuse a client ------------------------------------------------ */

static int refuse(struct weir_ctx *c, const void *config) {
    (void)c;
    return *(const int *)config;
}

static void a_client_that_is_refused_costs_no_other(void **state) {
    (void)state;
    static const struct weir_handler moody = {.name = "moody", .open = refuse, .read = echo_read};
    static int mood = WEIR_ENOMEM;
    const struct weir_stage line[] = {{&moody, &mood}};
    struct weir_server *s;
    struct weir_group *g = group_of(1);
    struct weir_server_options o = echo_at("127.0.0.1:0");
    o.stages = line;
    assert_int_equal(weir_serve(g, &o, &s), 0);
    uint16_t echo_port = port_of(serve_echo(g, "127.0.0.1:0"));
    assert_int_equal(weir_group_start(g), 0);
    char byte;
    int fd = dial(port_of(s));
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    close(fd);
    fd = dial(echo_port);
    assert_echoes(fd);
    close(fd);
    stop_and_join(g);
}

static int starve(struct weir_loop *l, void *user) {
    weir__mem_fail(l->mem, *(uint64_t *)user, false);
    return 0;
}

static void a_client_without_memory_is_dropped(void **state) {
    (void)state;
    uint64_t next = 1;
    char byte;
    struct weir_group *g = group_of(1);
    uint16_t port = port_of(serve_echo(g, "127.0.0.1:0"));
    assert_int_equal(weir_group_start(g), 0);
    assert_int_equal(weir__loop_group_call(g, weir_group_loop(g, 0), starve, &next), 0);
    int fd = dial(port);
    assert_true(recv(fd, &byte, 1, 0) == 0 || errno == ECONNRESET);
    close(fd);
    fd = dial(port);
    assert_echoes(fd);
    close(fd);
    stop_and_join(g);
}

/* --- the descriptor wall --------------------------------------------------------------------- */

struct report { /* from the server's process */
    uint16_t port;
    struct weir_loop_stats stats;
};

/* From now on exactly `room` more descriptors can be opened; the limit is on their numbers, and
 * there are holes. */
static void leave_room_for(int room) {
    struct rlimit files = {.rlim_max = 4096};
    int fd[16];
    for (int i = 0; i < room; i++)
        files.rlim_cur = (rlim_t)(fd[i] = dup(STDIN_FILENO)) + 1;
    for (int i = 0; i < room; i++)
        close(fd[i]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
}

/* Serves with room for `room` connections; every byte on `ask` is answered with statistics; ends
 * when ask does. */
static void wall_server(int room, int ask, int answer) {
    struct weir_group *g = group_of(1);
    struct report r = {.port = port_of(serve_echo(g, "127.0.0.1:0"))};
    char byte;
    leave_room_for(room);
    assert_int_equal(weir_group_start(g), 0);
    do {
        weir_group_loop_stats(g, 0, &r.stats);
        assert_int_equal(write(answer, &r, sizeof r), sizeof r);
    } while (read(ask, &byte, 1) == 1);
    weir_group_stop(g, 100);
    _exit(weir_group_join(g) == 0 ? 0 : 1);
}

struct wall { /* the server's process and the ways to talk with it */
    pid_t child;
    int ask, answer, log;
};

static struct report ask(struct wall *w, bool first) {
    struct report r;
    if (!first)
        assert_int_equal(write(w->ask, "?", 1), 1);
    assert_int_equal(read(w->answer, &r, sizeof r), sizeof r);
    return r;
}

static struct wall wall_start(int room) {
    int asks[2], answers[2], logs[2];
    assert_int_equal(pipe2(asks, O_CLOEXEC), 0);
    assert_int_equal(pipe2(answers, O_CLOEXEC), 0);
    assert_int_equal(pipe2(logs, O_CLOEXEC), 0);
    struct wall w = {.child = fork(), .ask = asks[1], .answer = answers[0], .log = logs[0]};
    assert_true(w.child >= 0);
    if (w.child == 0) {
        close(asks[1]);
        dup2(logs[1], STDERR_FILENO);
        alarm(60);
        wall_server(room, asks[0], answers[1]);
    }
    close(asks[0]);
    close(answers[1]);
    close(logs[1]);
    return w;
}

/* The number of lines the server logged. */
static unsigned wall_end(struct wall *w) {
    char text[4096];
    size_t have = 0;
    ssize_t n;
    unsigned lines = 0;
    int status;
    close(w->ask);
    while ((n = read(w->log, text + have, sizeof text - have)) > 0)
        have += (size_t)n;
    for (size_t i = 0; i < have; i++)
        lines += text[i] == '\n';
    assert_int_equal(waitpid(w->child, &status, 0), w->child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    close(w->answer);
    close(w->log);
    return lines;
}

static uint64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void at_the_wall_nothing_spins_and_nobody_is_lost(void **state) {
    (void)state;
    enum { ROOM = 4, CLIENTS = 10 };
    int fd[CLIENTS];
    struct wall w = wall_start(ROOM);
    struct report start = ask(&w, true);
    for (unsigned i = 0; i < CLIENTS; i++) {
        fd[i] = dial(start.port); /* into the backlog */
        assert_int_equal(send(fd[i], "ping", 4, MSG_NOSIGNAL), 4);
    }
    for (unsigned i = 0; i < ROOM; i++)
        assert_true(answered(fd[i], 20000));
    uint64_t from = now_ms();
    struct report before = ask(&w, false);
    assert_false(answered(fd[ROOM], 300));
    struct report after = ask(&w, false);
    uint64_t tries = (now_ms() - from) / WEIR__SERVE_RETRY_MS + 2;
    assert_int_equal(after.stats.opened, ROOM);
    assert_true(after.stats.refused_fds > before.stats.refused_fds);
    assert_true(after.stats.refused_fds - before.stats.refused_fds <= tries);
    assert_true(after.stats.turns - before.stats.turns <= 4 * tries);
    for (unsigned i = 0; i < CLIENTS; i++) { /* each one that goes makes room for one that waits */
        char back[8];
        assert_int_equal(recv(fd[i], back, 4, MSG_WAITALL), 4);
        if (i < ROOM)
            assert_echoes(fd[i]);
        close(fd[i]);
    }
    assert_int_equal(ask(&w, false).stats.opened, CLIENTS);
    assert_int_equal(wall_end(&w), 1);
}

static void stopped_at_the_wall(void **state) {
    (void)state;
    struct wall w = wall_start(1);
    struct report start = ask(&w, true);
    int served = dial(start.port), waits = dial(start.port);
    assert_echoes(served);
    while (ask(&w, false).stats.refused_fds == 0)
        ;
    assert_int_equal(wall_end(&w), 1);
    close(served);
    close(waits);
}

/* --- signals -----------------------------------------------------------------------------------
 */

/* A channel that lingers for its peer holds the drain up; the second signal does not wait for it.
 */
static void the_second_signal_ends_the_drain(void **state) {
    (void)state;
    int ports[2], status;
    uint16_t port;
    char byte;
    assert_int_equal(pipe(ports), 0);
    pid_t child = fork();
    if (child == 0) {
        struct weir_group *g;
        struct weir_server *s;
        struct weir_group_options o = {.size = sizeof o, .loops = 2, .drain_ms = 600000};
        struct weir_server_options so = echo_at("127.0.0.1:0");
        so.limits = (struct weir_limits){.linger_ms = 600000, .drain_ms = 600000};
        alarm(30);
        assert_int_equal(weir_group_new(&o, &g), 0);
        assert_int_equal(weir_serve(g, &so, &s), 0);
        port = port_of(s);
        assert_int_equal(write(ports[1], &port, sizeof port), sizeof port);
        _exit(weir_group_run(g) == 0 ? 0 : 1);
    }
    assert_int_equal(read(ports[0], &port, sizeof port), sizeof port);
    int fd = dial(port);
    assert_echoes(fd);
    assert_int_equal(kill(child, SIGTERM), 0);
    assert_int_equal(recv(fd, &byte, 1, 0), 0); /* it drains: its side is shut */
    assert_int_equal(waitpid(child, &status, WNOHANG), 0);
    assert_int_equal(kill(child, SIGTERM), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    close(fd);
    close(ports[0]);
    close(ports[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_queue_is_emptied_before_the_end),
        cmocka_unit_test(a_listener_that_listens_no_more_is_closed),
        cmocka_unit_test(a_client_that_is_refused_costs_no_other),
        cmocka_unit_test(a_client_without_memory_is_dropped),
        cmocka_unit_test(at_the_wall_nothing_spins_and_nobody_is_lost),
        cmocka_unit_test(stopped_at_the_wall),
        cmocka_unit_test(the_second_signal_ends_the_drain),
    };
    return cmocka_run_group_tests_name("serve/listener", tests, NULL, NULL);
}
