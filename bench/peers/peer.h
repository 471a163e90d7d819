#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

/* What every peer server shares: flags, the listening socket, and the line that tells its port.
 * Peers call the operating system directly: they are what Weir is compared with, not part of it. */

enum peer_work {
    PEER_ECHO = 1,   /* bytes come back as they are */
    PEER_LINKD = 2,  /* linkd REQUEST answered by RESPONSE with the same id and payload */
    PEER_DIGEST = 4, /* linkd REQUEST answered by 16 chained rounds of SHA-256 */
};

enum { PEER_BACKLOG = 4096 };

struct peer_options {
    struct sockaddr_in address;
    enum peer_work work;
    bool edge_triggered;
};

/* Parses `--listen IP:PORT --work echo|linkd|digest --trigger lt|et --version`. `works` is the OR
 * of what this program can do. Prints usage and exits with 2 when the flags make no sense. */
void peer_options_parse(int argc, char **argv, unsigned works, const char *version,
                        struct peer_options *options);

/* A bound non-blocking IPv4 socket that does not listen yet, without Nagle's algorithm; exits with
 * 1 on failure. SIGPIPE is ignored from here on. */
int peer_bind(const struct peer_options *options);

/* Prints `listening on IP:PORT` for a socket that listens, and flushes it. */
void peer_announce(int listener);

/* Switches Nagle's algorithm off. */
void peer_nodelay(int fd);

/* `IP:PORT` to an address; false when it is neither. */
bool peer_address_parse(const char *text, struct sockaddr_in *address);

/* Prints "what: strerror(errno)" and exits with 1. */
_Noreturn void peer_die(const char *what);

#endif
