/* What the kernel is told about a socket. Accepted connections inherit it from their listener,
 * without a system call of their own. */
#ifndef WEIR_SOCKET_H
#define WEIR_SOCKET_H
#include <stdbool.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

struct weir_socket_options {   /* 0 in a field: the default in the comment. Stream sockets over IP;
                                  elsewhere only the buffers count */
    bool nagle;                /* let the kernel join small sends; off: TCP_NODELAY */
    bool no_keepalive;         /* never probe an idle peer; off: the three below hold */
    uint32_t keepalive_idle_s; /* without traffic before the first probe: 60 */
    uint32_t keepalive_interval_s; /* from probe to probe: 15 */
    uint32_t keepalive_count;      /* probes without an answer that end the connection: 4 */
    uint32_t user_timeout_ms; /* sent bytes may stay unacknowledged so long: the kernel's, about
                                      15 minutes, since a route may come back. Set, it bounds the
                                      probes too */
    uint32_t rcvbuf_bytes, sndbuf_bytes; /* fixed buffers, before connecting: the kernel's tuning.
                                            More than rmem_max or wmem_max is cut to that without a
                                            word: weir_host_socket tells what it became */
    uint32_t notsent_lowat_bytes;        /* writable while less than this is unsent: the kernel's */
    uint32_t fastopen_max; /* listener: pending TCP Fast Open requests; client: not 0 sends
                                     the first bytes with the SYN; off */
    uint32_t busy_poll_us; /* a receive may spin on the device queue so long; off. Raising it needs
                              CAP_NET_ADMIN */
};

enum weir_socket_option { /* which one the kernel refused: the n of WEIR_ESOCKOPT(n) */
                          WEIR_SOCKET_NODELAY = 1,
                          WEIR_SOCKET_KEEPALIVE,
                          WEIR_SOCKET_KEEPALIVE_IDLE,
                          WEIR_SOCKET_KEEPALIVE_INTERVAL,
                          WEIR_SOCKET_KEEPALIVE_COUNT,
                          WEIR_SOCKET_USER_TIMEOUT,
                          WEIR_SOCKET_RCVBUF,
                          WEIR_SOCKET_SNDBUF,
                          WEIR_SOCKET_NOTSENT_LOWAT,
                          WEIR_SOCKET_FASTOPEN,
                          WEIR_SOCKET_BUSY_POLL,
};

#ifdef __cplusplus
}
#endif
#endif
