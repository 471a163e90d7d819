/* What the tests of rt and serve share: an echo, plain POSIX clients, and looking at the kernel's
 * table of listeners. */
#ifndef WEIR_TESTS_UNIT_SERVE_SUPPORT_H
#define WEIR_TESTS_UNIT_SERVE_SUPPORT_H
#include "weir/chan.h"
#include "weir/stats.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <cmocka.h>

static inline int echo_read(struct weir_ctx *c, struct weir_chain *in) {
    return weir_ctx_send(c, in);
}

static const struct weir_handler echo = {.name = "echo", .read = echo_read};
static const struct weir_stage echo_line[] = {{&echo, NULL}};

static inline struct weir_group *group_of(unsigned loops) {
    struct weir_group_options o = {.size = sizeof o, .loops = loops};
    struct weir_group *g;
    assert_int_equal(weir_group_new(&o, &g), 0);
    return g;
}

static inline struct weir_server_options echo_at(const char *address) {
    return (struct weir_server_options){.size = sizeof(struct weir_server_options),
                                        .address = address,
                                        .stages = echo_line,
                                        .n_stages = 1};
}

static inline struct weir_server *serve_echo(struct weir_group *g, const char *address) {
    struct weir_server_options o = echo_at(address);
    struct weir_server *s;
    assert_int_equal(weir_serve(g, &o, &s), 0);
    assert_string_equal(weir_server_why(g), "");
    return s;
}

static inline uint16_t port_of(const struct weir_server *s) {
    return (uint16_t)strtoul(strrchr(weir_server_address(s), ':') + 1, NULL, 10);
}

/* A blocking client whose receives give up after 20 s. */
static inline int dial(uint16_t port) {
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval limit = {.tv_sec = 20};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* A socket with a time limit is interrupted by the end of a ring that this thread made. */
static inline ssize_t hear(int fd, void *buf, size_t n) {
    ssize_t rc;
    do
        rc = recv(fd, buf, n, MSG_WAITALL);
    while (rc < 0 && errno == EINTR);
    return rc;
}

static inline void assert_echoes(int fd) {
    char back[4];
    assert_int_equal(send(fd, "ping", 4, MSG_NOSIGNAL), 4);
    assert_int_equal(hear(fd, back, 4), 4);
    assert_memory_equal(back, "ping", 4);
}

/* True: something (bytes or the end) is there within ms. */
static inline bool answered(int fd, int ms) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, ms) == 1;
}

/* Listening IPv4 sockets on this port, counted in the kernel's own table. */
static inline unsigned listeners_at(uint16_t port) {
    char line[512];
    unsigned n = 0, local, state;
    FILE *f = fopen("/proc/net/tcp", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, " %*u: %*x:%x %*x:%*x %x", &local, &state) == 2)
            n += local == port && state == 10;
    fclose(f);
    return n;
}

static inline void stop_and_join(struct weir_group *g) {
    weir_group_stop(g, 0);
    assert_int_equal(weir_group_join(g), 0);
}

#endif
