/* The clients of the long run (uring.py): so many connections to an echo server, each with a
 * pseudo-random stream of its own that is compared as it comes back, and each ending in one of the
 * ways connections end. Who ended is replaced until the time is up; then everyone takes what is
 * still due and closes. usage: soak_churn HOST PORT CONNECTIONS SECONDS SEED
 *
 *   free -> connecting -> open -> (everything is back, or its EOF) -> free
 *                           |-> cut or reset with bytes still under way -> free
 *
 * A line a second on stdout: open, opened, bytes. Exit code 1: a connection that lost bytes, got
 * wrong ones, ended unasked or waited WAIT_S for anything; its history goes to stderr. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_S = 30, TICK_MS = 20, CONNECTING_MAX = 256, EVENTS = 512, HISTORY = 12 };
enum { PIECE = 64 << 10, SLOW_PIECE = 2048, SLOW_RCVBUF = 4096, FAILED_MAX = 5 };

enum kind { CHAT, IDLE, BULK, HALF, SLOW, CUT, RESET, KINDS };
static const char *const kind_names[] = {"chat", "idle", "bulk", "half", "slow", "cut", "reset"};

struct event {
    uint64_t at_ms;
    const char *what;
    uint64_t bytes;
};

struct conn {
    int fd; /* -1: free */
    enum kind kind;
    bool connecting, shut; /* shut: our half is closed */
    uint32_t watched;      /* what epoll was told */
    uint64_t seed, total, sent, got;
    uint64_t step;     /* may be sent before its echo has come */
    uint64_t due_ms;   /* pause until then: of the sender when idle, of the reader when slow */
    uint64_t moved_ms; /* last progress */
    uint64_t events;
    struct event history[HISTORY];
};

static struct conn *conns;
static unsigned n_conns, live, connecting, failed;
static uint64_t opened, ended[KINDS], bytes_back, now_ms, chance;
static bool ending;
static int ep;
static struct sockaddr_in server;

static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

static uint64_t draw(uint64_t below) {
    return mix(chance++) % below;
}

static void clock_read(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    now_ms = (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* n bytes of a stream from position at. */
static void stream(uint64_t seed, uint64_t at, uint8_t *out, size_t n) {
    for (size_t i = 0; i < n;) {
        uint64_t word = mix(seed + (at + i) / 8) >> 8 * ((at + i) % 8);
        for (size_t left = 8 - (at + i) % 8; left && i < n; left--, i++, word >>= 8)
            out[i] = (uint8_t)word;
    }
}

/* --- history --------------------------------------------------------------------------------- */

static void note(struct conn *c, const char *what, uint64_t bytes) {
    struct event *last = &c->history[(c->events - 1) % HISTORY];
    if (c->events && last->what == what) { /* a run of the same is one entry: its last moment */
        last->bytes += bytes;
        last->at_ms = now_ms;
        return;
    }
    c->history[c->events++ % HISTORY] = (struct event){now_ms, what, bytes};
}

static void history_print(const struct conn *c) {
    uint64_t i = c->events > HISTORY ? c->events - HISTORY : 0;
    for (; i < c->events; i++) {
        const struct event *e = &c->history[i % HISTORY];
        fprintf(stderr, "    %8" PRIu64 " ms ago  %s %" PRIu64 "\n", now_ms - e->at_ms, e->what,
                e->bytes);
    }
}

static void leave(struct conn *c) {
    close(c->fd);
    connecting -= c->connecting;
    c->fd = -1;
    live--;
}

static void fail(struct conn *c, const char *why) {
    struct sockaddr_in own = {0};
    socklen_t size = sizeof own;
    getsockname(c->fd, (struct sockaddr *)&own, &size);
    if (failed++ < FAILED_MAX) {
        fprintf(stderr,
                "%s connection %s:%u: %s (sent %" PRIu64 " of %" PRIu64 ", back %" PRIu64 "%s%s)\n",
                kind_names[c->kind], inet_ntoa(own.sin_addr), ntohs(own.sin_port), why, c->sent,
                c->total, c->got, c->shut ? ", half closed" : "",
                c->connecting ? ", connecting" : "");
        history_print(c);
    }
    leave(c);
}

/* --- one connection -------------------------------------------------------------------------- */

static void shape(struct conn *c) {
    static const uint8_t odds[] = {CHAT, CHAT, CHAT, IDLE, IDLE, IDLE,  BULK,
                                   HALF, HALF, SLOW, CUT,  CUT,  RESET, RESET};
    c->kind = odds[draw(sizeof odds)];
    c->seed = mix(chance++);
    c->total = 1 + draw(200 << 10);
    c->step = c->total;
    if (c->kind == CHAT || c->kind == IDLE)
        c->step = 1 + draw(2000);
    if (c->kind == CHAT || c->kind == IDLE)
        c->total = c->step * (1 + draw(c->kind == CHAT ? 50 : 4));
    if (c->kind == BULK)
        c->total = c->step = 1 + draw(1 << 20);
}

static void want(struct conn *c) {
    bool may_send = c->sent < c->total && c->sent - c->got < c->step;
    bool pausing = c->due_ms > now_ms;
    uint32_t events = c->kind == SLOW && pausing ? 0 : EPOLLIN;
    if (c->connecting || (may_send && !(c->kind == IDLE && pausing)))
        events |= EPOLLOUT;
    if (events == c->watched)
        return;
    struct epoll_event e = {.events = events, .data.u32 = (uint32_t)(c - conns)};
    epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e);
    c->watched = events;
}

/* Every source address has ports of its own: closed connections hold theirs for a minute. */
static int socket_from(unsigned i, bool slow) {
    struct sockaddr_in own = {.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(0x7f010001 + i % 200)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
    int small = SLOW_RCVBUF;
    if (fd < 0)
        return fd;
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    if (slow)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    (void)bind(fd, (struct sockaddr *)&own, sizeof own);
    return fd;
}

static void dial(struct conn *c) {
    memset(c, 0, sizeof *c);
    shape(c);
    c->moved_ms = now_ms;
    c->watched = EPOLLOUT;
    c->fd = socket_from((unsigned)opened, c->kind == SLOW);
    if (c->fd < 0) {
        perror("soak_churn: socket");
        exit(2);
    }
    live++;
    connecting++;
    opened++;
    c->connecting = true;
    note(c, "connect", 0);
    if (connect(c->fd, (struct sockaddr *)&server, sizeof server) < 0 && errno != EINPROGRESS) {
        fail(c, strerror(errno));
        return;
    }
    struct epoll_event e = {.events = EPOLLOUT, .data.u32 = (uint32_t)(c - conns)};
    epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &e);
}

static void finish(struct conn *c, const char *how) {
    struct linger hard = {.l_onoff = 1};
    note(c, how, 0);
    if (c->kind == RESET)
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    ended[c->kind]++;
    leave(c);
}

static bool connected(struct conn *c) {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error) {
        fail(c, strerror(error));
        return false;
    }
    c->connecting = false;
    connecting--;
    c->moved_ms = now_ms;
    note(c, "connected", 0);
    return true;
}

/* False: the connection is gone. */
static bool send_some(struct conn *c) {
    static uint8_t piece[PIECE];
    uint64_t n = c->step - (c->sent - c->got);
    n = n < c->total - c->sent ? n : c->total - c->sent;
    n = n < sizeof piece ? n : sizeof piece;
    stream(c->seed, c->sent, piece, n);
    ssize_t rc = send(c->fd, piece, n, MSG_NOSIGNAL);
    if (rc < 0) {
        if (errno == EAGAIN)
            return true;
        fail(c, strerror(errno));
        return false;
    }
    c->sent += (uint64_t)rc;
    c->moved_ms = now_ms;
    note(c, "sent", (uint64_t)rc);
    return true;
}

static bool receive_some(struct conn *c) {
    static uint8_t piece[PIECE], due[PIECE];
    ssize_t rc = recv(c->fd, piece, c->kind == SLOW && !ending ? SLOW_PIECE : sizeof piece, 0);
    if (rc < 0) {
        if (errno == EAGAIN)
            return true;
        fail(c, strerror(errno));
        return false;
    }
    if (rc == 0) {
        if (c->shut && c->got == c->sent)
            finish(c, "EOF");
        else
            fail(c, "EOF before its bytes");
        return false;
    }
    stream(c->seed, c->got, due, (size_t)rc);
    if (c->got + (uint64_t)rc > c->sent || memcmp(piece, due, (size_t)rc) != 0) {
        fail(c, "wrong bytes");
        return false;
    }
    c->got += (uint64_t)rc;
    bytes_back += (uint64_t)rc;
    c->moved_ms = now_ms;
    note(c, "back", (uint64_t)rc);
    if (c->kind == SLOW && !ending)
        c->due_ms = now_ms + 1 + draw(100);
    if (c->kind == IDLE && c->got == c->sent && !ending)
        c->due_ms = now_ms + draw(5000);
    return true;
}

/* What follows from the counts. */
static void judge(struct conn *c) {
    bool all_sent = c->sent == c->total;
    if (all_sent && (c->kind == CUT || c->kind == RESET) && (c->got || ending)) {
        finish(c, "cut");
        return;
    }
    if (all_sent && c->kind == HALF && !c->shut) {
        shutdown(c->fd, SHUT_WR);
        c->shut = true;
        note(c, "half closed", c->sent - c->got);
    }
    if (all_sent && c->got == c->total && !c->shut) {
        finish(c, "close");
        return;
    }
    want(c);
}

static void ready(struct conn *c, uint32_t events) {
    if (c->fd < 0)
        return;
    if (c->connecting && !connected(c))
        return;
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR) && !receive_some(c))
        return;
    bool may_send = c->sent < c->total && c->sent - c->got < c->step;
    if (events & EPOLLOUT && may_send && !send_some(c))
        return;
    judge(c);
}

/* --- all of them ----------------------------------------------------------------------------- */

static bool waits(const struct conn *c) {
    return c->connecting || c->sent > c->got || c->shut ||
           (c->sent < c->total && c->due_ms <= now_ms);
}

static void tick(void) {
    for (unsigned i = 0; i < n_conns; i++) {
        struct conn *c = &conns[i];
        if (c->fd < 0 && !ending && connecting < CONNECTING_MAX) {
            dial(c);
        } else if (c->fd >= 0 && c->due_ms && c->due_ms <= now_ms) {
            c->due_ms = 0;
            c->moved_ms = now_ms;
            want(c);
        } else if (c->fd >= 0 && waits(c) && now_ms - c->moved_ms > WAIT_S * 1000) {
            fail(c, "stuck");
        }
    }
}

static void end_all(void) {
    ending = true;
    for (unsigned i = 0; i < n_conns; i++) {
        struct conn *c = &conns[i];
        if (c->fd < 0)
            continue;
        if (c->connecting && !c->sent)
            c->total = 1;
        else
            c->total = c->sent;
        c->due_ms = 0;
        if (!c->connecting)
            judge(c);
    }
}

static void turn(void) {
    struct epoll_event events[EVENTS];
    int n = epoll_wait(ep, events, EVENTS, TICK_MS);
    clock_read();
    for (int i = 0; i < n; i++)
        ready(&conns[events[i].data.u32], events[i].events);
}

static void say(void) {
    printf("open %u opened %" PRIu64 " back %" PRIu64 "\n", live, opened, bytes_back);
    fflush(stdout);
}

static void run(uint64_t seconds) {
    clock_read();
    uint64_t end = now_ms + seconds * 1000, said = now_ms, ticked = 0;
    while (!ending || live) {
        turn();
        if (!ending && now_ms >= end)
            end_all();
        if (now_ms - ticked >= TICK_MS) {
            ticked = now_ms;
            tick();
        }
        if (now_ms - said >= 1000) {
            said = now_ms;
            say();
        }
        if (failed >= FAILED_MAX)
            return;
    }
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: soak_churn HOST PORT CONNECTIONS SECONDS SEED\n");
        return 2;
    }
    server = (struct sockaddr_in){.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)strtoul(argv[2], NULL, 10))};
    n_conns = (unsigned)strtoul(argv[3], NULL, 10);
    chance = mix(strtoull(argv[5], NULL, 10));
    conns = calloc(n_conns, sizeof *conns);
    ep = epoll_create1(EPOLL_CLOEXEC);
    if (!conns || ep < 0 || inet_pton(AF_INET, argv[1], &server.sin_addr) != 1)
        return 2;
    for (unsigned i = 0; i < n_conns; i++)
        conns[i].fd = -1;
    run(strtoull(argv[4], NULL, 10));
    say();
    for (unsigned i = 0; i < KINDS; i++)
        printf("ended %s %" PRIu64 "\n", kind_names[i], ended[i]);
    printf("failed %u\n", failed);
    free(conns);
    return failed ? 1 : 0;
}
