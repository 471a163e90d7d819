/* What it costs to wake another loop at its io_uring door: an eventfd that a multishot poll
 * watches, as every door has it, against a message from ring to ring. Two threads throw a ball,
 * each asleep until it comes; both ways take turns, CPU of both threads and time per throw.
 *
 *     wake_bench [--check]     interleaved slices; --check: a few throws, for the test suite */
#include "io/uring/ring.h"
#include "io/uring/uring.h"
#include "os/event.h"
#include "os/sock.h"
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLICES = 21, THROWS = 20000, OP_MSG_RING = 40, BELL = 1, MESSAGE = 2, OWN = 3 };
enum way { EVENTFD, MSG_RING, WAYS };
static const char *const names[WAYS] = {"eventfd", "ring message"};

struct side {
    struct weir__uring_ring ring;
    struct side *other;
    pthread_t thread;
    _Atomic int ready;
    int bell;
    unsigned throws;
    enum way way;
    uint64_t cpu_ns;
};

static uint64_t now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static void die(const char *what) {
    fprintf(stderr, "wake_bench: %s\n", what);
    exit(1);
}

static struct uring_sqe *entry(struct side *s, int op, int fd, uint64_t token) {
    struct uring_sqe *e = weir__uring_ring_sqe(&s->ring);
    if (!e)
        die("the ring is full");
    e->opcode = (uint8_t)op;
    e->fd = fd;
    e->user_data = token;
    return e;
}

static void throw(struct side * s) {
    if (s->way == EVENTFD) {
        weir__os_event_signal(s->other->bell);
        return;
    }
    struct uring_sqe *e = entry(s, OP_MSG_RING, s->other->ring.fd, OWN);
    e->off = MESSAGE; /* the token that arrives */
}

/* Asleep until the ball is here; what was prepared goes out with it. */
static void catch (struct side *s) {
    for (;;) {
        const struct uring_cqe *e = weir__uring_ring_peek(&s->ring);
        if (!e) {
            (void)weir__uring_ring_enter(&s->ring, -1);
            continue;
        }
        uint64_t token = e->user_data;
        if (token == OWN && e->res < 0)
            die("no ring messages here");
        weir__uring_ring_pop(&s->ring);
        if (token == BELL || token == MESSAGE)
            return;
    }
}

static void *play(void *user) {
    struct side *s = user;
    if (weir__uring_ring_enable(&s->ring, 0) < 0)
        die("the ring cannot be enabled");
    if (s->way == EVENTFD) {
        struct uring_sqe *e = entry(s, OP_POLL_ADD, s->bell, BELL);
        e->op_flags = POLLIN;
        e->len = POLL_MULTISHOT;
    }
    (void)weir__uring_ring_enter(&s->ring, 0);
    atomic_store(&s->ready, 1);
    while (!atomic_load(&s->other->ready))
        ;
    uint64_t before = now(CLOCK_THREAD_CPUTIME_ID);
    bool first = s < s->other;
    for (unsigned i = 0; i < s->throws; i++) {
        if (first)
            throw(s);
        catch (s);
        if (!first)
            throw(s);
    }
    if (!first)
        (void)weir__uring_ring_enter(&s->ring, 0); /* the last message */
    s->cpu_ns = now(CLOCK_THREAD_CPUTIME_ID) - before;
    return NULL;
}

static void slice(enum way way, unsigned throws, double *cpu, double *wall) {
    static struct side sides[2];
    const char *why;
    memset(sides, 0, sizeof sides);
    for (unsigned i = 0; i < 2; i++) {
        struct side *s = &sides[i];
        s->other = &sides[1 - i];
        s->way = way;
        s->throws = throws;
        s->bell = weir__os_event_new();
        if (s->bell < 0 || weir__uring_ring_init(&s->ring, 0, &why) < 0) {
            printf("skipped: %s\n", s->bell < 0 ? "no eventfd" : why);
            exit(0);
        }
    }
    uint64_t before = now(CLOCK_MONOTONIC);
    for (unsigned i = 0; i < 2; i++)
        if (pthread_create(&sides[i].thread, NULL, play, &sides[i]))
            die("no thread");
    for (unsigned i = 0; i < 2; i++)
        pthread_join(sides[i].thread, NULL);
    *wall = (double)(now(CLOCK_MONOTONIC) - before) / throws / 2;
    *cpu = (double)(sides[0].cpu_ns + sides[1].cpu_ns) / throws / 2;
    for (unsigned i = 0; i < 2; i++) {
        weir__uring_ring_fini(&sides[i].ring);
        weir__os_close(sides[i].bell);
    }
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, unsigned n) {
    qsort(x, n, sizeof *x, by_size);
    return x[n / 2];
}

int main(int argc, char **argv) {
    bool check = argc > 1 && !strcmp(argv[1], "--check");
    unsigned slices = check ? 1 : SLICES, throws = check ? 100 : THROWS;
    double cpu[WAYS][SLICES], wall[WAYS][SLICES], ratio[2][SLICES];
    for (unsigned k = 0; k < slices; k++) {
        for (unsigned i = 0; i < WAYS; i++) {
            enum way w = (enum way)((i + k) % WAYS);
            slice(w, throws, &cpu[w][k], &wall[w][k]);
        }
        ratio[0][k] = cpu[MSG_RING][k] / cpu[EVENTFD][k];
        ratio[1][k] = wall[MSG_RING][k] / wall[EVENTFD][k];
    }
    printf("one wake-up, %u slices of %u\n", slices, throws);
    for (unsigned w = 0; w < WAYS; w++)
        printf("  %-14s %6.0f ns CPU of both, %6.0f ns from thread to thread\n", names[w],
               median(cpu[w], slices), median(wall[w], slices));
    printf("  ring message / eventfd: CPU %.2f, time %.2f\n", median(ratio[0], slices),
           median(ratio[1], slices));
    return 0;
}
