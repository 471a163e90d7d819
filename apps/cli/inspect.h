/* How a server is looked into: its admin address, its watchdog, and what its settings came from. */
#ifndef APPS_CLI_INSPECT_H
#define APPS_CLI_INSPECT_H
#include "cli/opt.h"
#include "weir/admin.h"
#include "weir/mem.h"

struct inspect {
    const char *admin;    /* an address; NULL: none */
    uint64_t watchdog_ms; /* 0: off */
    const char *alloc, *mem_debug;
    uint64_t given;    /* the options that were on the command line, by their row */
    uint64_t from_env; /* those that the environment has set, and the command line has not */
    const struct cli_command *command;
};

struct inspect_pools { /* what weir_group_options.pools points at */
    struct weir_mem_options options;
    struct weir_mem_debug debug;
};

extern const char *const inspect_allocs[], *const inspect_mem_debugs[];

/* The defaults. */
#define INSPECT_DEFAULTS \
    { .watchdog_ms = 100, .alloc = "cached", .mem_debug = "default" }

/* The rows of an option table; i is a struct inspect with its defaults. */
#define INSPECT_OPTIONS(i)                                                                       \
    {.name = "admin",                                                                            \
     .kind = CLI_TEXT,                                                                           \
     .value = &(i)->admin,                                                                       \
     .argument = "ADDR",                                                                         \
     .help = "HTTP pages about this server (docs/admin.md); keep it on the loopback"},           \
        {.name = "watchdog-ms",                                                                  \
         .kind = CLI_COUNT,                                                                      \
         .value = &(i)->watchdog_ms,                                                             \
         .argument = "MS",                                                                       \
         .help = "report a turn of a loop that is longer, with its stack; 0: off",               \
         .max = 3600000},                                                                        \
        {.name = "alloc",                                                                        \
         .kind = CLI_CHOICE,                                                                     \
         .value = &(i)->alloc,                                                                   \
         .help = "buffers: a pool with a cache, without one, or the system's heap",              \
         .choices = inspect_allocs},                                                             \
    {                                                                                            \
        .name = "mem-debug", .kind = CLI_CHOICE, .value = &(i)->mem_debug,                       \
        .help = "slow, each adds to the one before: leaks at the end, all, poison, guard pages", \
        .choices = inspect_mem_debugs                                                            \
    }

/* The bit of this option's row, for the two sets; 0: the command has none of that name. */
uint64_t inspect_row(const struct inspect *i, const char *name);
/* What weir_group_options.watchdog_ms should be. */
uint32_t inspect_watchdog(const struct inspect *i);
/* Fills in how pools are set up; out stays where it is until the group is made. */
void inspect_pools(const struct inspect *i, struct inspect_pools *out);
/* Opens the admin address, if there is one, and shows the settings on it. *out: NULL without one.
 * 0, or the exit code after one line. */
int inspect_open(const struct inspect *i, struct weir_group *g, struct weir_admin **out);

#endif
