/* What every server program shares: its options, its start, its lines on stdout, its numbers at the
 * end. */
#ifndef APPS_CLI_SERVING_H
#define APPS_CLI_SERVING_H
#include "cli/features.h"
#include "cli/inspect.h"
#include "cli/opt.h"
#include "cli/proxied.h"
#include "cli/sockets.h"
#include "weir/chan.h"

struct serving {
    const char *program; /* "echo" */
    const char *listen, *transport, *trigger;
    const char *uring_features; /* a list; NULL: all that work */
    const char *stats;          /* a file, "-" for stdout, NULL: none */
    uint64_t loops, drain_ns, idle_ns, high_bytes, zero_copy_bytes, memory_bytes;
    bool pin, join;
    unsigned workers; /* 0: the library's default */
    const char *placement;
    bool steer;
    uint64_t backlog;
    const char *proxy_from; /* NULL: no PROXY headers */
    struct sockets sockets;
    struct inspect inspect;
};

extern const char *const serving_transports[], *const serving_triggers[],
                                                   *const serving_placements[];

enum { SERVING_LOOPS_MAX = 256 };

/* The rows of an option table; s is a struct serving with its defaults. */
#define SERVING_OPTIONS(s)                                                           \
    {.name = "listen",                                                               \
     .letter = 'l',                                                                  \
     .kind = CLI_TEXT,                                                               \
     .value = &(s)->listen,                                                          \
     .argument = "ADDR",                                                             \
     .help = "IP:PORT, localhost:PORT or unix:/PATH; port 0: any free"},             \
        {.name = "loops",                                                            \
         .letter = 'n',                                                              \
         .kind = CLI_COUNT,                                                          \
         .value = &(s)->loops,                                                       \
         .argument = "N",                                                            \
         .help = "event loops; 0: one per usable CPU",                               \
         .max = SERVING_LOOPS_MAX},                                                  \
        {.name = "transport",                                                        \
         .kind = CLI_CHOICE,                                                         \
         .value = &(s)->transport,                                                   \
         .help = "auto: uring where it is the cheaper one",                          \
         .choices = serving_transports},                                             \
        {.name = "trigger",                                                          \
         .kind = CLI_CHOICE,                                                         \
         .value = &(s)->trigger,                                                     \
         .help = "epoll: level- or edge-triggered; given, auto is epoll",            \
         .choices = serving_triggers},                                               \
        FEATURES_OPTION(&(s)->uring_features),                                       \
        {.name = "pin",                                                              \
         .kind = CLI_FLAG,                                                           \
         .value = &(s)->pin,                                                         \
         .help = "loop i stays on the i-th usable CPU"},                             \
        {.name = "join",                                                             \
         .kind = CLI_FLAG,                                                           \
         .value = &(s)->join,                                                        \
         .help = "share the address with a process that listens there already"},     \
        {.name = "drain",                                                            \
         .kind = CLI_DURATION,                                                       \
         .value = &(s)->drain_ns,                                                    \
         .argument = "TIME",                                                         \
         .help = "how long open connections may finish after SIGTERM",               \
         .min = 1000000,                                                             \
         .max = 3600000000000},                                                      \
        {.name = "idle",                                                             \
         .kind = CLI_DURATION,                                                       \
         .value = &(s)->idle_ns,                                                     \
         .argument = "TIME",                                                         \
         .help = "close a connection without traffic after this; 0: never",          \
         .max = 86400000000000},                                                     \
        {.name = "high",                                                             \
         .kind = CLI_BYTES,                                                          \
         .value = &(s)->high_bytes,                                                  \
         .argument = "BYTES",                                                        \
         .help = "high mark of a connection's output",                               \
         .min = 1024,                                                                \
         .max = 1 << 30},                                                            \
        {.name = "zero-copy",                                                        \
         .kind = CLI_BYTES,                                                          \
         .value = &(s)->zero_copy_bytes,                                             \
         .argument = "BYTES",                                                        \
         .help = "io_uring: send from so many bytes on without a copy; 0: never",    \
         .max = 256 << 10},                                                          \
        {.name = "memory",                                                           \
         .kind = CLI_BYTES,                                                          \
         .value = &(s)->memory_bytes,                                                \
         .argument = "BYTES",                                                        \
         .help = "limit of all buffers together; 0: none"},                          \
        {.name = "placement",                                                        \
         .kind = CLI_CHOICE,                                                         \
         .value = &(s)->placement,                                                   \
         .help = "a listener per loop, or one that feeds the emptiest",              \
         .choices = serving_placements},                                             \
        {.name = "steer",                                                            \
         .kind = CLI_FLAG,                                                           \
         .value = &(s)->steer,                                                       \
         .help = "with --pin: to the loop of the CPU that received it"},             \
        {.name = "backlog",                                                          \
         .kind = CLI_COUNT,                                                          \
         .value = &(s)->backlog,                                                     \
         .argument = "N",                                                            \
         .help = "connections that may wait to be accepted, per listener",           \
         .min = 1,                                                                   \
         .max = INT32_MAX},                                                          \
        PROXIED_OPTIONS(&(s)->proxy_from), SOCKETS_OPTIONS(&(s)->sockets),           \
        INSPECT_OPTIONS(&(s)->inspect), {                                            \
        .name = "stats", .kind = CLI_TEXT, .value = &(s)->stats, .argument = "FILE", \
        .help = "at the end, write what each loop did as JSON; -: stdout"            \
    }

/* The defaults. */
struct serving serving_defaults(const char *program, const char *listen);
/* As cli_parse, for the command whose table holds SERVING_OPTIONS(s). command lives as long as s.
 */
int serving_parse(struct serving *s, struct cli_command *command, int argc, char **argv);
/* Raises the limit on open files and makes the group. 0, or the exit code after one line. */
int serving_group(const struct serving *s, struct weir_group **out);
/* Serves with these stages until SIGTERM or SIGINT; handler goes into the start line. The exit
 * code; g is gone. */
int serving_run(const struct serving *s, struct weir_group *g, const struct weir_stage *stages,
                unsigned n_stages, const char *handler);

#endif
