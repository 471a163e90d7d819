#include "wire/wire.h"
#include "weir/stats.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct wire wire;

static const struct wire_kind kinds[] = {
    {"epoll-lt, 1 loop", "epoll", "lt", 1}, {"epoll-lt, 2 loops", "epoll", "lt", 2},
    {"epoll-et, 1 loop", "epoll", "et", 1}, {"epoll-et, 2 loops", "epoll", "et", 2},
    {"uring, 1 loop", "uring", NULL, 1},    {"uring, 2 loops", "uring", NULL, 2},
};

/* A loop's ring of receive buffers grows up to this while many of its connections receive at once,
 * or one floods, which may leave as much parked. It is the loop's, however many connections. */
enum { RING_BYTES = 1 << 20 };

void wire_fail(const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fail_msg("%s: %s: %s", wire.kind->name, wire.attack ? wire.attack : "(start)", text);
    abort(); /* never: fail_msg jumps */
}

static uint64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t wire_random(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* ---- the group ---- */

static struct weir_group *group_of(const struct wire_kind *k) {
    struct weir_group_options o = {
        .size = sizeof o, .loops = k->loops, .transport = k->transport, .trigger = k->trigger};
    struct weir_group *g = NULL;
    return weir_group_new(&o, &g) < 0 ? NULL : g;
}

static bool have(const struct wire_kind *k) {
    const char *why = NULL;
    struct weir_group *g = group_of(k);
    if (!g)
        return false;
    bool is = !strncmp(weir_group_transport(g, &why), k->transport, strlen(k->transport));
    if (!is)
        printf("[  SKIPPED ] %s: %s\n", k->name, why ? why : "not here");
    weir_group_join(g);
    return is;
}

int wire_run(const char *name, const struct CMUnitTest *tests, size_t n, int (*open)(void **state),
             int (*close)(void **state)) {
    const char *only = getenv("WIRE_KIND"); /* by hand: one transport */
    int failed = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        char title[80];
        if ((only && !strstr(kinds[i].name, only)) || !have(&kinds[i]))
            continue;
        wire = (struct wire){.kind = &kinds[i]};
        snprintf(title, sizeof title, "%s on %s", name, kinds[i].name);
        failed += _cmocka_run_group_tests(title, tests, n, open, close);
    }
    return failed;
}

static struct weir_loop_stats stats_of(unsigned loop) {
    struct weir_loop_stats s;
    if (weir_group_loop_stats(wire.group, loop, &s) < 0)
        wire_fail("no statistics of loop %u", loop);
    return s;
}

/* The kernel places connections by hash: dial until every loop has one, and give up the others. */
static void seat_witnesses(void) {
    unsigned seated = 0;
    for (unsigned i = 0; i < wire.kind->loops; i++)
        wire.witness[i] = -1;
    for (unsigned tries = 0; seated < wire.kind->loops; tries++) {
        uint64_t before[WIRE_LOOPS_MAX];
        wire_demand(tries < 200);
        for (unsigned i = 0; i < wire.kind->loops; i++)
            before[i] = stats_of(i).opened;
        int fd = wire_dial(0);
        if (wire.greet)
            wire.greet(fd);
        wire.testify(fd); /* answered: it is accepted and counted */
        for (unsigned i = 0; i < wire.kind->loops; i++) {
            if (stats_of(i).opened == before[i] || wire.witness[i] >= 0)
                continue;
            wire.witness[i] = fd;
            wire.n_sockets--; /* not the attacker's */
            fd = -1;
            seated++;
            break;
        }
        if (fd >= 0)
            wire_hang_up(fd);
    }
}

void wire_open(const struct weir_stage *stages, unsigned n, const struct weir_limits *limits,
               void (*testify)(int fd), int (*balance)(void)) {
    struct weir_server *server;
    struct weir_server_options o = {.size = sizeof o,
                                    .address = "127.0.0.1:0",
                                    .stages = stages,
                                    .n_stages = n,
                                    .limits = *limits};
    wire.attack = NULL;
    wire.testify = testify;
    wire.balance = balance;
    wire.group = group_of(wire.kind);
    wire_demand(wire.group);
    wire_demand(weir_serve(wire.group, &o, &server) >= 0);
    const char *port = strrchr(weir_server_address(server), ':');
    wire_demand(port);
    wire.address = (struct sockaddr_in){.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)strtoul(port + 1, NULL, 10)),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    wire_demand(weir_group_start(wire.group) == 0);
    seat_witnesses();
    wire_testify();
}

void wire_close(void) {
    while (wire.n_sockets)
        wire_hang_up(wire.sockets[0]);
    for (unsigned i = 0; i < wire.kind->loops; i++)
        close(wire.witness[i]);
    weir_group_stop(wire.group, WIRE_PATIENCE_MS);
    wire_demand(weir_group_join(wire.group) == 0);
    wire.group = NULL;
}

/* ---- the ledger ---- */

struct question {
    sem_t answered;
    uint64_t live;
};

static void answer(struct weir_loop *l, void *user) {
    struct question *q = user;
    q->live = weir_mem_live(weir_loop_mem(l));
    sem_post(&q->answered);
}

/* Asked on the loop itself: the published number may be a millisecond old. */
static uint64_t live_of(unsigned loop) {
    struct question q;
    sem_init(&q.answered, 0, 0);
    if (weir_loop_post(weir_group_loop(wire.group, loop), answer, &q) < 0)
        wire_fail("loop %u takes no post", loop);
    while (sem_wait(&q.answered) < 0 && errno == EINTR)
        ;
    sem_destroy(&q.answered);
    return q.live;
}

static bool quiet(unsigned loop, uint64_t *live) {
    *live = live_of(loop);
    return stats_of(loop).channels == 1;
}

static void pause_a_little(void) {
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL); /* tidy-ok: between two looks */
}

void wire_attack(const char *name) {
    uint64_t until = now_ms() + WIRE_PATIENCE_MS;
    while (wire.n_sockets) /* of a test that failed */
        wire_reset(wire.sockets[0]);
    wire.attack = name;
    wire_testify();
    for (unsigned i = 0; i < wire.kind->loops; i++) {
        uint64_t again;
        do { /* the end of an answer's send may still be on its way */
            while (!quiet(i, &wire.before[i]) && now_ms() < until)
                pause_a_little();
            wire_demand(quiet(i, &again));
        } while (again != wire.before[i]);
        wire.most[i] = 0;
    }
}

void wire_peace(void) {
    uint64_t until = now_ms() + WIRE_PATIENCE_MS, live;
    wire_demand(wire.n_sockets == 0);
    wire_testify();
    for (unsigned i = 0; i < wire.kind->loops; i++) {
        while (!quiet(i, &live) || live != wire.before[i]) {
            if (now_ms() > until)
                wire_fail("loop %u: %llu channels, %lld bytes more than before", i,
                          (unsigned long long)stats_of(i).channels,
                          (long long)(live - wire.before[i]));
            pause_a_little();
        }
    }
    if (wire.balance && wire.balance() != 0)
        wire_fail("%d calls without their one done()", wire.balance());
}

void wire_testify(void) {
    for (unsigned i = 0; i < wire.kind->loops; i++)
        wire.testify(wire.witness[i]);
}

void wire_bounded(uint64_t max_excess) {
    if (!strcmp(wire.kind->transport, "uring"))
        max_excess += RING_BYTES;
    for (unsigned i = 0; i < wire.kind->loops; i++) {
        uint64_t live = live_of(i), over = live > wire.before[i] ? live - wire.before[i] : 0;
        wire.most[i] = over > wire.most[i] ? over : wire.most[i];
        if (over > max_excess)
            wire_fail("loop %u holds %llu bytes more than before, the bound is %llu", i,
                      (unsigned long long)over, (unsigned long long)max_excess);
    }
}

/* ---- sockets ---- */

/* A ring that this thread has fed may interrupt it; the connect goes on by itself (POSIX). */
static int connect_ends(int fd) {
    int error = 0;
    socklen_t n = sizeof error;
    if (!wire_writable(fd, WIRE_PATIENCE_MS))
        return ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0 ? errno : error;
}

int wire_dial(int receive_bytes) {
    struct timeval patience = {.tv_sec = WIRE_PATIENCE_MS / 1000};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    wire_demand(fd >= 0 && wire.n_sockets < WIRE_SOCKETS_MAX);
    wire.sockets[wire.n_sockets++] = fd;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (receive_bytes)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    int error = connect(fd, (struct sockaddr *)&wire.address, sizeof wire.address) < 0 ? errno : 0;
    if (error == EINTR)
        error = connect_ends(fd);
    if (error)
        wire_fail("connect: %s", strerror(error));
    return fd;
}

void wire_send(int fd, const void *data, size_t n) {
    const char *p = data;
    while (n) {
        ssize_t r = send(fd, p, n, MSG_NOSIGNAL);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0 && (errno == EPIPE || errno == ECONNRESET))
            return; /* the other side may end it; what it said is judged, not when */
        if (r < 0)
            wire_fail("send: %s", strerror(errno));
        p += r;
        n -= (size_t)r;
    }
}

void wire_send_bytes(int fd, const void *data, size_t n) {
    for (size_t i = 0; i < n; i++)
        wire_send(fd, (const char *)data + i, 1);
}

size_t wire_send_some(int fd, const void *data, size_t n) {
    ssize_t r = send(fd, data, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (r < 0 && errno != EAGAIN)
        wire_fail("send: %s", strerror(errno));
    return r < 0 ? 0 : (size_t)r;
}

bool wire_writable(int fd, int ms) {
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    return poll(&p, 1, ms) == 1;
}

long wire_recv(int fd, void *data, size_t n) {
    ssize_t r;
    do { /* a ring that this thread has fed may interrupt it */
        r = recv(fd, data, n, 0);
    } while (r < 0 && errno == EINTR);
    if (r < 0 && errno == ECONNRESET)
        return -1;
    if (r < 0)
        wire_fail("nothing more comes: %s", strerror(errno));
    return r;
}

void wire_end_output(int fd) {
    (void)shutdown(fd, SHUT_WR); /* refused where the peer has reset already */
}

void wire_hang_up(int fd) {
    for (unsigned i = 0; i < wire.n_sockets; i++) {
        if (wire.sockets[i] != fd)
            continue;
        wire.sockets[i] = wire.sockets[--wire.n_sockets];
        close(fd);
        return;
    }
    wire_fail("socket %d is not the attacker's", fd);
}

void wire_reset(int fd) {
    struct linger now = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    wire_hang_up(fd);
}
