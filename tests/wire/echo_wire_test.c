/* The three-line echo against peers that mean it no good: bounded memory, order kept, nothing left
 * behind. */
#include "wire/wire.h"
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum {
    HIGH_BYTES = 32 << 10,
    BATCH_BYTES = 64 << 10,
    RECEIVE = 128 << 10, /* a receive and the rest of the buffer it lies in */
    OBJECTS = 32 << 10,
    /* Over the mark by one receive, a batch in flight, and buffers at most four times as large. */
    HELD_BOUND = 4 * (HIGH_BYTES + BATCH_BYTES) + 2 * RECEIVE + OBJECTS,
    SMALL_WINDOW = 16 << 10,
    FLOOD_BYTES = 32 << 20,
    PIECE = 1 << 16,
};

static uint8_t pattern(uint64_t at) {
    return (uint8_t)(at * 7 + (at >> 8) + (at >> 16));
}

static void fill(uint8_t *p, uint64_t at, size_t n) {
    for (size_t i = 0; i < n; i++)
        p[i] = pattern(at + i);
}

static void hear(int fd, uint64_t at, size_t n) {
    static uint8_t got[PIECE];
    while (n) {
        long r = wire_recv(fd, got, n < sizeof got ? n : sizeof got);
        wire_demand(r > 0);
        for (long i = 0; i < r; i++)
            wire_demand(got[i] == pattern(at + (uint64_t)i));
        at += (uint64_t)r;
        n -= (size_t)r;
    }
}

static void testify(int fd) {
    static uint64_t at;
    uint8_t bytes[900];
    size_t n = 1 + at % sizeof bytes;
    fill(bytes, at, n);
    wire_send(fd, bytes, n);
    hear(fd, at, n);
    at += n;
}

/* Sends from *at on until the server stops taking; its memory stays below the bound meanwhile. */
static void pour_until_blocked(int fd, uint64_t *at) {
    static uint8_t piece[PIECE];
    do {
        size_t sent;
        do {
            fill(piece, *at, sizeof piece);
            sent = wire_send_some(fd, piece, sizeof piece);
            *at += sent;
            wire_demand(*at < FLOOD_BYTES); /* somebody holds all this */
        } while (sent);
        wire_bounded(HELD_BOUND);
    } while (wire_writable(fd, 50));
    wire_testify();
    wire_bounded(HELD_BOUND);
}

static void one_that_never_reads_and_then_does(void **state) {
    uint64_t at = 0;
    uint8_t more[1000];
    (void)state;
    wire_attack("never reads, then does");
    int fd = wire_dial(SMALL_WINDOW);
    pour_until_blocked(fd, &at);
    hear(fd, 0, (size_t)at);
    fill(more, at, sizeof more);
    wire_send(fd, more, sizeof more);
    hear(fd, at, sizeof more);
    wire_hang_up(fd);
    wire_peace();
}

static void one_that_never_reads_and_leaves(void **state) {
    (void)state;
    for (unsigned reset = 0; reset < 2; reset++) {
        uint64_t at = 0;
        wire_attack(reset ? "never reads, RST" : "never reads, FIN");
        int fd = wire_dial(SMALL_WINDOW);
        pour_until_blocked(fd, &at);
        if (reset)
            wire_reset(fd);
        else
            wire_hang_up(fd);
        wire_peace();
    }
}

static void a_fin_waits_for_what_was_sent(void **state) {
    static uint8_t bytes[300000];
    (void)state;
    wire_attack("half-close");
    fill(bytes, 0, sizeof bytes);
    for (size_t n = 0; n <= sizeof bytes; n = n * 3 + 1) {
        uint8_t none;
        int fd = wire_dial(0);
        wire_send(fd, bytes, n);
        wire_end_output(fd);
        hear(fd, 0, n);
        wire_demand(wire_recv(fd, &none, 1) == 0);
        wire_hang_up(fd);
    }
    wire_peace();
}

static void resets_at_every_length(void **state) {
    static uint8_t bytes[4096];
    (void)state;
    wire_attack("RST at every length");
    fill(bytes, 0, sizeof bytes);
    for (size_t n = 0; n < 400; n++) {
        size_t sent = n < 200 ? n : (n - 199) * 20;
        int fd = wire_dial(0);
        wire_send(fd, bytes, sent);
        if (n % 3 == 0)
            hear(fd, 0, sent / 2);
        wire_reset(fd);
        if (n % 50 == 0)
            wire_peace();
    }
    wire_peace();
}

static void two_hundred_that_come_and_go(void **state) {
    enum { MANY = 200 };
    int fds[MANY];
    (void)state;
    wire_attack("two hundred come and go");
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < MANY; i++)
            fds[i] = wire_dial(0);
        wire_testify();
        for (unsigned i = 0; i < MANY; i++)
            (i + round) % 2 ? wire_reset(fds[i]) : wire_hang_up(fds[i]);
        wire_peace();
    }
}

static void a_byte_at_a_time_from_fifty(void **state) {
    enum { SLOW = 50, EACH = 60 };
    int fds[SLOW];
    (void)state;
    wire_attack("fifty slow senders");
    for (unsigned i = 0; i < SLOW; i++)
        fds[i] = wire_dial(0);
    for (uint64_t at = 0; at < EACH; at++) {
        uint8_t byte = pattern(at);
        for (unsigned i = 0; i < SLOW; i++)
            wire_send(fds[i], &byte, 1);
        wire_testify();
    }
    for (unsigned i = 0; i < SLOW; i++) {
        hear(fds[i], 0, EACH);
        wire_hang_up(fds[i]);
    }
    wire_peace();
}

/* ---- the server ---- */

static int echo_read(struct weir_ctx *c, struct weir_chain *in) {
    return weir_ctx_send(c, in);
}

static int open_server(void **state) {
    static const struct weir_handler echo = {.name = "echo", .read = echo_read};
    static const struct weir_limits limits = {
        .high_bytes = HIGH_BYTES, .batch_bytes = BATCH_BYTES, .drain_ms = 500};
    const struct weir_stage line[] = {{&echo, NULL}};
    (void)state;
    wire_open(line, 1, &limits, testify, NULL);
    return 0;
}

static int close_server(void **state) {
    (void)state;
    wire_close();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_never_reads_and_then_does),
        cmocka_unit_test(one_that_never_reads_and_leaves),
        cmocka_unit_test(a_fin_waits_for_what_was_sent),
        cmocka_unit_test(resets_at_every_length),
        cmocka_unit_test(two_hundred_that_come_and_go),
        cmocka_unit_test(a_byte_at_a_time_from_fifty),
    };
    return wire_run("echo", tests, sizeof tests / sizeof tests[0], open_server, close_server);
}
