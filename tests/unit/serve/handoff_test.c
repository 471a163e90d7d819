#include "serve/handoff.h"
#include "mem/raw.h"
#include "os/fault.h"
#include "serve/listener.h"
#include "unit/serve/support.h"
#include <fcntl.h>
#include <sched.h>
#include <sys/un.h>

static struct weir_server *hand_over(struct weir_group *g, const char *address) {
    struct weir_server_options o = echo_at(address);
    struct weir_server *s;
    o.placement = WEIR_HANDOFF;
    assert_int_equal(weir_serve(g, &o, &s), 0);
    return s;
}

static struct weir_loop_stats stats_of(struct weir_group *g, unsigned i) {
    struct weir_loop_stats s;
    assert_int_equal(weir_group_loop_stats(g, i, &s), 0);
    return s;
}

static uint64_t channels_of(struct weir_group *g) {
    uint64_t n = 0;
    for (unsigned i = 0; i < weir_group_loops(g); i++)
        n += stats_of(g, i).channels;
    return n;
}

static void assert_balanced(struct weir_group *g) {
    uint64_t least = UINT64_MAX, most = 0;
    for (unsigned i = 0; i < weir_group_loops(g); i++) {
        uint64_t n = stats_of(g, i).channels;
        least = n < least ? n : least;
        most = n > most ? n : most;
    }
    assert_true(most - least <= 1);
}

static const char *const transports[] = {"epoll", "uring"};

static struct weir_group *group_with(unsigned loops, const char *transport) {
    struct weir_group_options o = {.size = sizeof o, .loops = loops, .transport = transport};
    struct weir_group *g;
    assert_int_equal(weir_group_new(&o, &g), 0);
    return g;
}

/* Opened one by one, no loop ever has more than one channel more than another; also when those of
 * one loop have gone and others come. */
static void loops_stay_level(void **state) {
    (void)state;
    enum { CLIENTS = 30, LOOPS = 4 };
    for (unsigned t = 0; t < 2; t++) {
        int fd[CLIENTS];
        uint64_t handed = 0;
        struct weir_group *g = group_with(LOOPS, transports[t]);
        struct weir_server *s = hand_over(g, "127.0.0.1:0");
        assert_int_equal(listeners_at(port_of(s)), 1);
        assert_int_equal(weir_group_start(g), 0);
        for (unsigned i = 0; i < CLIENTS; i++) {
            assert_echoes(fd[i] = dial(port_of(s)));
            assert_balanced(g);
        }
        for (unsigned i = 0; i < CLIENTS; i += LOOPS)
            close(fd[i]);
        while (channels_of(g) > CLIENTS - (CLIENTS + LOOPS - 1) / LOOPS)
            ;
        for (unsigned i = 0; i < CLIENTS; i += LOOPS)
            assert_echoes(fd[i] = dial(port_of(s)));
        assert_balanced(g);
        for (unsigned i = 0; i < LOOPS; i++)
            handed += stats_of(g, i).handed;
        assert_int_equal(stats_of(g, 0).handed, 0);
        assert_true(handed >= CLIENTS / LOOPS * (LOOPS - 1));
        for (unsigned i = 0; i < CLIENTS; i++)
            close(fd[i]);
        stop_and_join(g);
    }
}

static void unix_paths_and_single_loops_too(void **state) {
    (void)state;
    char path[64], address[80];
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(path, sizeof path, "/tmp/weir-handoff-%d.sock", (int)getpid());
    snprintf(address, sizeof address, "unix:%s", path);
    memcpy(to.sun_path, path, strlen(path) + 1);
    for (unsigned loops = 1; loops <= 2; loops++) {
        int fd[4];
        struct weir_group *g = group_of(loops);
        hand_over(g, address);
        assert_int_equal(weir_group_start(g), 0);
        for (unsigned i = 0; i < 4; i++) {
            fd[i] = socket(AF_UNIX, SOCK_STREAM, 0);
            assert_int_equal(connect(fd[i], (struct sockaddr *)&to, sizeof to), 0);
            assert_echoes(fd[i]);
            assert_balanced(g);
        }
        for (unsigned i = 0; i < 4; i++)
            close(fd[i]);
        stop_and_join(g);
    }
    unlink(path);
}

static void every_inherited_listener_hands_over(void **state) {
    (void)state;
    int fds[2], client[2][6];
    uint16_t port[2];
    struct weir_group *g = group_of(3);
    struct weir_server *s;
    struct weir_server_options o = echo_at(NULL);
    for (unsigned i = 0; i < 2; i++) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof a;
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(fds[i], (struct sockaddr *)&a, sizeof a), 0);
        assert_int_equal(listen(fds[i], 16), 0);
        assert_int_equal(getsockname(fds[i], (struct sockaddr *)&a, &len), 0);
        port[i] = ntohs(a.sin_port);
    }
    o.fds = fds;
    o.n_fds = 2;
    o.placement = WEIR_HANDOFF;
    assert_int_equal(weir_serve(g, &o, &s), 0);
    assert_int_equal(weir_group_start(g), 0);
    for (unsigned i = 0; i < 6; i++)
        for (unsigned k = 0; k < 2; k++) {
            assert_echoes(client[k][i] = dial(port[k]));
            assert_balanced(g);
        }
    for (unsigned i = 0; i < 6; i++)
        for (unsigned k = 0; k < 2; k++)
            close(client[k][i]);
    stop_and_join(g);
}

/* The queue of the only listener is shared out at the end too, and nobody in it is reset. */
static void a_drain_loses_nobody(void **state) {
    (void)state;
    enum { CLIENTS = 200 };
    for (unsigned t = 0; t < 2; t++) {
        int fd[CLIENTS];
        char byte;
        uint64_t lost = 0;
        struct weir_group *g = group_with(3, transports[t]);
        uint16_t port = port_of(hand_over(g, "127.0.0.1:0"));
        for (unsigned i = 0; i < CLIENTS; i++)
            fd[i] = dial(port);
        weir_group_stop(g, 20000);
        assert_int_equal(weir_group_start(g), 0);
        for (unsigned i = 0; i < CLIENTS; i++) {
            assert_int_equal(hear(fd[i], &byte, 1), 0);
            close(fd[i]);
        }
        for (unsigned i = 0; i < 3; i++)
            lost += stats_of(g, i).handed_lost;
        assert_int_equal(lost, 0);
        assert_int_equal(weir_group_join(g), 0);
        assert_int_equal(listeners_at(port), 0);
    }
}

static unsigned open_files(void) {
    unsigned n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* Aborted in the middle of a storm: whatever was in transit is closed, by whoever had it. */
static void an_abort_leaks_no_descriptor(void **state) {
    (void)state;
    enum { CLIENTS = 120, ROUNDS = 20 };
    unsigned before = open_files();
    for (unsigned round = 0; round < ROUNDS; round++) {
        int fd[CLIENTS];
        struct weir_group *g = group_of(3);
        uint16_t port = port_of(hand_over(g, "127.0.0.1:0"));
        if (round % 2)
            assert_int_equal(weir_group_start(g), 0);
        for (unsigned i = 0; i < CLIENTS; i++)
            fd[i] = dial(port);
        if (!(round % 2))
            assert_int_equal(weir_group_start(g), 0);
        weir_group_stop(g, round % 3);
        assert_int_equal(weir_group_join(g), 0);
        for (unsigned i = 0; i < CLIENTS; i++)
            close(fd[i]);
        assert_int_equal(open_files(), before);
    }
}

static void never_started(void **state) {
    (void)state;
    struct weir_group *g = group_of(3);
    uint16_t port = port_of(hand_over(g, "127.0.0.1:0"));
    assert_int_equal(weir_group_join(g), 0);
    assert_int_equal(listeners_at(port), 0);
}

/* Added while the loops run, and every allocation on the way failing in turn. */
static void what_cannot_be_opened_is_taken_back(void **state) {
    (void)state;
    struct weir_group *g = group_of(3);
    struct weir_server *s = NULL;
    struct weir_server_options o = echo_at("127.0.0.1:0");
    o.placement = WEIR_HANDOFF;
    assert_int_equal(weir_group_start(g), 0);
    for (uint64_t nth = 1; !s; nth++) {
        weir__mem_raw_fail(nth);
        int rc = weir_serve(g, &o, &s);
        weir__mem_raw_fail(0);
        assert_true(rc == 0 || rc == WEIR_ENOMEM);
        if (rc < 0)
            assert_true(strlen(weir_server_why(g)) > 10);
        assert_true(nth < 100);
    }
    struct weir__os_fault f = {.kind = WEIR__OS_BIND, .nth = 1, .error = EACCES};
    struct weir_group *still = group_of(2);
    struct weir_server *none;
    weir__os_fault_set(&f);
    assert_int_equal(weir_serve(still, &o, &none), WEIR_ESYS(EACCES));
    weir__os_fault_set(NULL);
    assert_int_equal(weir_group_join(still), 0);
    int fd = dial(port_of(s));
    assert_echoes(fd);
    close(fd);
    stop_and_join(g);
}

/* --- one seat, by hand ----------------------------------------------------------------------- */

struct by_hand {
    struct weir_group *g;
    struct weir__serve_listener *s;
    int fd[2];
};

static int hand_too_many(struct weir_loop *l, void *user) {
    struct by_hand *h = user;
    (void)l;
    struct weir__serve_seat *seat = &h->s->seats[1];
    atomic_store(&seat->put, WEIR__SERVE_TRANSIT_MAX); /* as if its loop slept on a full ring */
    h->s->turn = 1;
    bool handed = weir__serve_hand(h->s, h->fd[0]);
    atomic_store(&seat->put, 0);
    return handed;
}

static void a_full_ring_keeps_the_connection_here(void **state) {
    (void)state;
    struct by_hand h = {.g = group_of(2)};
    h.s = &hand_over(h.g, "127.0.0.1:0")->listeners[0];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, h.fd), 0);
    assert_int_equal(weir__loop_group_call(h.g, weir_group_loop(h.g, 0), hand_too_many, &h), 0);
    close(h.fd[0]);
    close(h.fd[1]);
    assert_int_equal(weir_group_join(h.g), 0);
}

static int abandon(struct weir_loop *l, void *user) {
    (void)user;
    return weir__loop_abandon(l);
}

static int hand_one(struct weir_loop *l, void *user) {
    struct by_hand *h = user;
    h->s->turn = 1;
    bool handed = weir__serve_hand(h->s, h->fd[0]);
    assert_int_equal(atomic_load(&l->counters.channels), 1);
    assert_true(h->s->seats[1].gone);
    h->s->turn = 1;
    assert_false(weir__serve_hand(h->s, -1)); /* it is the least loaded one, and gone */
    return handed;
}

static void a_loop_that_has_ended_gives_back(void **state) {
    (void)state;
    struct by_hand h = {.g = group_of(2)};
    h.s = &hand_over(h.g, "127.0.0.1:0")->listeners[0];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, h.fd), 0);
    assert_int_equal(weir__loop_group_call(h.g, weir_group_loop(h.g, 1), abandon, NULL), 1);
    assert_int_equal(h.s->seats[1].state, WEIR__SERVE_SEAT_LEFT);
    assert_int_equal(weir__loop_group_call(h.g, weir_group_loop(h.g, 0), hand_one, &h), 1);
    assert_int_equal(weir_group_join(h.g), 0);
    char byte;
    assert_int_equal(hear(h.fd[1], &byte, 1), 0); /* closed with its channel */
    close(h.fd[1]);
}

static int leave(struct weir_loop *l, void *user) {
    struct by_hand *h = user;
    (void)l;
    weir__serve_seat_leave(&h->s->seats[1]);
    return 0;
}

static int hand_on(struct weir_loop *l, void *user) {
    struct by_hand *h = user;
    (void)l;
    h->s->turn = 1;
    return weir__serve_hand(h->s, h->fd[0]);
}

/* The seat has left, its loop still runs: an abort between two turns. */
static void who_comes_after_the_seat_left_is_closed_and_counted(void **state) {
    (void)state;
    struct by_hand h = {.g = group_of(2)};
    char byte;
    h.s = &hand_over(h.g, "127.0.0.1:0")->listeners[0];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, h.fd), 0);
    assert_int_equal(weir__loop_group_call(h.g, weir_group_loop(h.g, 1), leave, &h), 0);
    assert_int_equal(weir__loop_group_call(h.g, weir_group_loop(h.g, 0), hand_on, &h), 1);
    assert_int_equal(weir_group_start(h.g), 0);
    assert_int_equal(hear(h.fd[1], &byte, 1), 0);
    while (stats_of(h.g, 1).handed_lost == 0)
        ;
    assert_int_equal(stats_of(h.g, 1).handed_lost, 1);
    close(h.fd[1]);
    stop_and_join(h.g);
}

/* --- steering -------------------------------------------------------------------------------- */

static void steering_says_what_it_needs(void **state) {
    (void)state;
    struct weir_server *s;
    struct weir_group *loose = group_of(2), *crowd;
    struct weir_group_options o = {.size = sizeof o, .loops = 1000, .pin = true};
    struct weir_server_options so = echo_at("127.0.0.1:0");
    so.steer = true;
    assert_int_equal(weir_serve(loose, &so, &s), WEIR_EINVAL);
    assert_non_null(strstr(weir_server_why(loose), "pinned"));
    so.placement = WEIR_HANDOFF;
    assert_int_equal(weir_serve(loose, &so, &s), WEIR_EINVAL);
    assert_non_null(strstr(weir_server_why(loose), "reuseport"));
    so.placement = WEIR_REUSEPORT;
    so.join = true;
    assert_int_equal(weir_serve(loose, &so, &s), WEIR_EINVAL);
    assert_non_null(strstr(weir_server_why(loose), "join"));
    assert_int_equal(weir_group_join(loose), 0);
    so.join = false;
    o.loops = (unsigned)sysconf(_SC_NPROCESSORS_CONF) + 1;
    assert_int_equal(weir_group_new(&o, &crowd), 0);
    assert_int_equal(weir_serve(crowd, &so, &s), WEIR_EINVAL);
    assert_non_null(strstr(weir_server_why(crowd), "share CPU"));
    assert_int_equal(weir_group_join(crowd), 0);
}

static void connections_come_to_the_loop_of_their_cpu(void **state) {
    (void)state;
    cpu_set_t all, one;
    struct weir_group *g;
    struct weir_server *s;
    struct weir_group_options o = {.size = sizeof o, .loops = 2, .pin = true};
    struct weir_server_options so = echo_at("127.0.0.1:0");
    so.steer = true;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    if (CPU_COUNT(&all) < 2)
        skip();
    assert_int_equal(weir_group_new(&o, &g), 0);
    assert_int_equal(weir_serve(g, &so, &s), 0);
    assert_int_equal(weir_group_start(g), 0);
    for (unsigned i = 0; i < 20; i++) {
        CPU_ZERO(&one);
        CPU_SET((unsigned)weir_group_loop(g, i % 2)->cpu, &one);
        assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
        int fd = dial(port_of(s));
        assert_echoes(fd);
        close(fd);
        assert_int_equal(stats_of(g, i % 2).opened, i / 2 + 1);
    }
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    stop_and_join(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_stay_level),
        cmocka_unit_test(unix_paths_and_single_loops_too),
        cmocka_unit_test(every_inherited_listener_hands_over),
        cmocka_unit_test(a_drain_loses_nobody),
        cmocka_unit_test(an_abort_leaks_no_descriptor),
        cmocka_unit_test(never_started),
        cmocka_unit_test(what_cannot_be_opened_is_taken_back),
        cmocka_unit_test(a_full_ring_keeps_the_connection_here),
        cmocka_unit_test(a_loop_that_has_ended_gives_back),
        cmocka_unit_test(who_comes_after_the_seat_left_is_closed_and_counted),
        cmocka_unit_test(steering_says_what_it_needs),
        cmocka_unit_test(connections_come_to_the_loop_of_their_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
