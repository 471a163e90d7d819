/* A server that wants a PROXY header, against peers that have none, half of one, or one too many:
 * they are gone at once or in time, and connections with a header notice nothing. */
#include "weir/proxy.h"
#include "wire/wire.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { HEADER_MS = 300, CROWD = 100 };

static const char greeting[] = "PROXY TCP4 203.0.113.7 203.0.113.1 4711 443\r\n";

static void greet(int fd) {
    wire_send(fd, greeting, sizeof greeting - 1);
}

static void expect(int fd, const char *text) {
    char got[200];
    size_t n = strlen(text);
    for (size_t at = 0; at < n;) {
        long r = wire_recv(fd, got + at, n - at);
        wire_demand(r > 0);
        at += (size_t)r;
    }
    wire_demand(!memcmp(got, text, n));
}

static void testify(int fd) {
    static unsigned number;
    char text[40];
    int n = snprintf(text, sizeof text, "testimony %u;", ++number);
    wire_send(fd, text, (size_t)n);
    expect(fd, text);
}

static void expect_reset(int fd) {
    char byte;
    wire_demand(wire_recv(fd, &byte, 1) < 0);
    wire_hang_up(fd);
}

/* --- attacks ------------------------------------------------------------------------------ */

static void no_header(void **state) {
    static const char *const texts[] = {
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x02",
        "PROXY TCP4 1.1.1.1 1.1.1.1 1 1\nx", "PROXY TCP4 1.1.1.1 1.1.1.1 1 01\r\n",
        "PROXY TCP4 ::1 ::1 1 1\r\n",        "\r\n\r\nx"};
    (void)state;
    wire_attack("no header");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int fd = wire_dial(0);
        wire_send(fd, texts[i], strlen(texts[i]));
        expect_reset(fd);
        wire_testify();
    }
    wire_peace();
}

static void a_length_that_promises_too_much(void **state) {
    static const uint8_t head[] = "\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff";
    (void)state;
    wire_attack("a header of 65,551 bytes");
    int fd = wire_dial(0);
    wire_send(fd, head, sizeof head - 1);
    expect_reset(fd);
    wire_peace();
}

static void one_byte_at_a_time(void **state) {
    static const uint8_t two[] = "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xcb\0\x71\x07\xcb\0\x71\x01"
                                 "\x12\x67\x01\xbb";
    (void)state;
    wire_attack("one byte at a time");
    int fd = wire_dial(0);
    wire_send_bytes(fd, greeting, sizeof greeting - 1);
    testify(fd);
    wire_hang_up(fd);
    fd = wire_dial(0);
    wire_send_bytes(fd, two, sizeof two - 1);
    testify(fd);
    wire_hang_up(fd);
    wire_peace();
}

/* Only the first one counts: behind it there are bytes. */
static void a_second_header(void **state) {
    (void)state;
    wire_attack("a second header");
    int fd = wire_dial(0);
    greet(fd);
    wire_send(fd, "PROXY TCP4 9.9.9.9 9.9.9.9 9 9\r\n", 32);
    expect(fd, "PROXY TCP4 9.9.9.9 9.9.9.9 9 9\r\n");
    wire_hang_up(fd);
    wire_peace();
}

static void a_crowd_that_says_nothing_or_half(void **state) {
    int fds[CROWD];
    (void)state;
    wire_attack("silence");
    for (int i = 0; i < CROWD; i++) {
        fds[i] = wire_dial(0);
        if (i % 2)
            wire_send(fds[i], greeting, (size_t)(i % 40) + 1);
    }
    wire_testify();
    for (int i = 0; i < CROWD; i++)
        expect_reset(fds[i]);
    wire_peace();
}

static void ends_in_the_middle(void **state) {
    char byte;
    (void)state;
    wire_attack("ends in the middle");
    for (size_t n = 0; n < sizeof greeting - 1; n += 5) {
        int fd = wire_dial(0);
        if (n)
            wire_send(fd, greeting, n);
        wire_end_output(fd);
        long r = wire_recv(fd, &byte, 1);
        wire_demand(n ? r < 0 : r == 0); /* who said nothing is let go in order */
        wire_hang_up(fd);
    }
    wire_peace();
}

static void resets_at_every_length(void **state) {
    (void)state;
    wire_attack("reset at every length");
    for (size_t n = 0; n < sizeof greeting - 1; n++) {
        int fd = wire_dial(0);
        if (n)
            wire_send(fd, greeting, n);
        wire_reset(fd);
    }
    wire_peace();
}

/* --- the server --------------------------------------------------------------------------- */

static int echo_open(struct weir_ctx *c, const void *config) {
    char peer[64];
    (void)config;
    return weir_chan_peer(weir_ctx_chan(c), peer, sizeof peer) < 0 ||
                   strcmp(peer, "203.0.113.7:4711") != 0
               ? WEIR_EBUG
               : 0;
}

static int echo_read(struct weir_ctx *c, struct weir_chain *in) {
    return weir_ctx_send(c, in);
}

static struct weir_proxy_net loopback;
static struct weir_proxy_options options = {
    .size = sizeof options, .header_ms = HEADER_MS, .trusted = &loopback, .n_trusted = 1};
static const struct weir_handler echo = {.name = "echo", .open = echo_open, .read = echo_read};
static const struct weir_stage line[] = {{&weir_proxy_handler, &options}, {&echo, NULL}};
static const struct weir_limits limits = {.drain_ms = 500};

static int open_server(void **state) {
    (void)state;
    wire_demand(weir_proxy_net_parse("127.0.0.0/8", &loopback, NULL) == 0);
    wire.greet = greet;
    wire_open(line, 2, &limits, testify, NULL);
    return 0;
}

static int close_server(void **state) {
    (void)state;
    wire_close();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_header),
        cmocka_unit_test(a_length_that_promises_too_much),
        cmocka_unit_test(one_byte_at_a_time),
        cmocka_unit_test(a_second_header),
        cmocka_unit_test(a_crowd_that_says_nothing_or_half),
        cmocka_unit_test(ends_in_the_middle),
        cmocka_unit_test(resets_at_every_length),
    };
    return wire_run("proxy", tests, sizeof tests / sizeof tests[0], open_server, close_server);
}
