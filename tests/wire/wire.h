/* A server on a real socket, somebody who attacks it, and witnesses who must not notice.
 *
 *     wire_open     the server runs, one witness connection on each loop
 *     wire_attack   what the loops hold now is written down
 *       ...         wire_dial, wire_send, wire_testify between the blows, wire_hang_up
 *     wire_peace    only the witnesses are left, and every loop holds the same bytes as before
 *     wire_close    drain, join
 *
 * The bytes are equal exactly, not nearly: weir_mem_live counts what the pool has handed out and
 * not got back, whatever chunks it keeps warm. A loop at rest holds its door with one receive
 * buffer, its listener and its channels; each witness's channel has the same blocks at rest after
 * any number of calls, and everything else a loop keeps (accounts, slots, the wheel) is no pool's.
 * What is missing to equality is a leak, of a part of 48 bytes as well as of a megabyte. */
#ifndef WEIR_TESTS_WIRE_H
#define WEIR_TESTS_WIRE_H
#include "weir/chan.h"
#include "weir/loop.h"
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { WIRE_LOOPS_MAX = 2, WIRE_SOCKETS_MAX = 256, WIRE_PATIENCE_MS = 10000 };

struct wire_kind {
    const char *name, *transport, *trigger;
    unsigned loops;
};

struct wire {
    const struct wire_kind *kind;
    struct weir_group *group;
    struct sockaddr_in address;
    int witness[WIRE_LOOPS_MAX];
    void (*greet)(int fd);   /* what a witness begins with; NULL: nothing. Set before wire_open */
    void (*testify)(int fd); /* one verified call */
    int (*balance)(void);    /* what the services still owe, 0 demanded in peace; NULL: nothing */
    uint64_t before[WIRE_LOOPS_MAX], most[WIRE_LOOPS_MAX];
    const char *attack;
    int sockets[WIRE_SOCKETS_MAX]; /* the attacker's */
    unsigned n_sockets;
};

/* Runs tests once for every kind that this machine has (a line tells which it has not): how many
 * failed. Tests find their wire here. */
extern struct wire wire;
int wire_run(const char *name, const struct CMUnitTest *tests, size_t n, int (*open)(void **state),
             int (*close)(void **state));

/* Serves stages for wire.kind. */
void wire_open(const struct weir_stage *stages, unsigned n, const struct weir_limits *limits,
               void (*testify)(int fd), int (*balance)(void));
void wire_close(void);

void wire_attack(const char *name);
void wire_peace(void);
/* Every witness makes a call and gets the right answer. */
void wire_testify(void);
/* Asks each loop what it holds; wire.most keeps the largest excess over `before`. Fails above max.
 */
void wire_bounded(uint64_t max_excess);

/* A blocking socket with patience; receive_bytes: SO_RCVBUF before it connects, 0: the default. */
int wire_dial(int receive_bytes);
void wire_send(int fd, const void *data, size_t n);
/* The same, each byte in a send(2) and a segment of its own. */
void wire_send_bytes(int fd, const void *data, size_t n);
/* As much as the socket takes at once. */
size_t wire_send_some(int fd, const void *data, size_t n);
/* Waits until fd can be written, ms at most. */
bool wire_writable(int fd, int ms);
/* Bytes; 0 the peer's orderly end, -1 its reset. */
long wire_recv(int fd, void *data, size_t n);
void wire_end_output(int fd);
void wire_hang_up(int fd); /* FIN */
void wire_reset(int fd);   /* RST, whatever is unread */

/* Fails the test with the transport and the attack in front. */
_Noreturn void wire_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define wire_demand(condition) \
    ((condition) ? (void)0 : wire_fail("line %d: %s", __LINE__, #condition))

/* xorshift: the same numbers for the same seed. seed is not 0. */
uint64_t wire_random(uint64_t *seed);

#endif
