/* Socket options of a command, for servers and clients: their rows in the table, and what they come
 * to. */
#ifndef APPS_CLI_SOCKETS_H
#define APPS_CLI_SOCKETS_H
#include "cli/opt.h"
#include "weir/socket.h"

struct sockets { /* as the parser wrote them; {0} = nothing asked */
    const char *bdp, *keepalive;
    uint64_t rcvbuf_bytes, sndbuf_bytes, notsent_lowat_bytes, user_timeout_ms, fastopen,
        busy_poll_us;
    bool nagle;
};

enum { SOCKETS_BYTES_MAX = 1 << 30 }; /* the kernel doubles it, and counts in an int */

#define SOCKETS_OPTIONS(s)                                                                        \
    {.name = "bdp",                                                                               \
     .kind = CLI_TEXT,                                                                            \
     .value = &(s)->bdp,                                                                          \
     .argument = "RATE,RTT",                                                                      \
     .help = "buffers for a path, 10Gbit,50ms: rate x round trip / 8 bytes each"},                \
        {.name = "rcvbuf",                                                                        \
         .kind = CLI_BYTES,                                                                       \
         .value = &(s)->rcvbuf_bytes,                                                             \
         .argument = "BYTES",                                                                     \
         .help = "fixed receive buffer; 0: the kernel tunes it",                                  \
         .max = SOCKETS_BYTES_MAX},                                                               \
        {.name = "sndbuf",                                                                        \
         .kind = CLI_BYTES,                                                                       \
         .value = &(s)->sndbuf_bytes,                                                             \
         .argument = "BYTES",                                                                     \
         .help = "fixed send buffer; 0: the kernel tunes it",                                     \
         .max = SOCKETS_BYTES_MAX},                                                               \
        {.name = "notsent-lowat",                                                                 \
         .kind = CLI_BYTES,                                                                       \
         .value = &(s)->notsent_lowat_bytes,                                                      \
         .argument = "BYTES",                                                                     \
         .help = "writable only while less than this is unsent; 0: the kernel's",                 \
         .max = SOCKETS_BYTES_MAX},                                                               \
        {.name = "nagle",                                                                         \
         .kind = CLI_FLAG,                                                                        \
         .value = &(s)->nagle,                                                                    \
         .help = "let the kernel delay small sends to join them (no TCP_NODELAY)"},               \
        {.name = "keepalive",                                                                     \
         .kind = CLI_TEXT,                                                                        \
         .value = &(s)->keepalive,                                                                \
         .argument = "IDLE,INTERVAL,COUNT|off",                                                   \
         .help = "seconds, seconds, probes until a silent peer is dead (default 60,15,4)"},       \
        {.name = "user-timeout-ms",                                                               \
         .kind = CLI_COUNT,                                                                       \
         .value = &(s)->user_timeout_ms,                                                          \
         .argument = "MS",                                                                        \
         .help = "sent bytes may stay unacknowledged so long; 0: the kernel's",                   \
         .max = INT32_MAX},                                                                       \
        {.name = "fastopen",                                                                      \
         .kind = CLI_COUNT,                                                                       \
         .value = &(s)->fastopen,                                                                 \
         .argument = "N",                                                                         \
         .help = "TCP Fast Open: requests that may be pending (client: 1); 0: off",               \
         .max = 65535},                                                                           \
    {                                                                                             \
        .name = "busy-poll-us", .kind = CLI_COUNT, .value = &(s)->busy_poll_us, .argument = "US", \
        .help = "a receive may spin on the device so long; 0: off", .max = 1000000                \
    }

/* What a path holds. 0, or 2 after one line: it is none, or more than one socket holds. */
int sockets_bdp(const char *text, const char *program, uint64_t *bytes);
/* 0, or 2 after one line of complaint. Buffers given by hand win over --bdp. */
int sockets_read(const struct sockets *s, const char *program, struct weir_socket_options *out);
/* Tries them: 0; 2 after one line when the kernel refuses one. One line on stderr for each buffer
 * that the system's limit cuts. */
int sockets_try(const char *program, const struct weir_socket_options *o, bool listener);

#endif
