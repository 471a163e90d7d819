#include "cli/serving.h"
#include "cli/census.h"
#include "cli/features.h"
#include "weir/host.h"
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STAGES_MAX = 8 };

const char *const serving_transports[] = {"auto", "epoll", "uring", NULL};
const char *const serving_triggers[] = {"lt", "et", NULL};
const char *const serving_placements[] = {"reuseport", "handoff", NULL};

struct serving serving_defaults(const char *program, const char *listen) {
    return (struct serving){
        .program = program,
        .listen = listen,
        .transport = "auto",
        .trigger = "lt",
        .placement = "reuseport",
        .backlog = 4096,
        .drain_ns = 500000000,
        .high_bytes = 64 << 10,
        .inspect = INSPECT_DEFAULTS,
    };
}

int serving_parse(struct serving *s, struct cli_command *command, int argc, char **argv) {
    command->given = &s->inspect.given;
    s->inspect.command = command;
    int rc = cli_parse(command, argc, argv, NULL);
    if (rc >= 0 && features_env(&s->uring_features))
        s->inspect.from_env |= inspect_row(&s->inspect, "uring-features");
    return rc;
}

/* --- the group ------------------------------------------------------------------------------- */

/* A server that meets its descriptor limit below the hard one was only not told. */
static void raise_files(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Before the first line on stdout: who reads it may send SIGTERM at once. */
static void hold_signals(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN); /* stdout may be a pipe that nobody reads any more */
}

static int no_loops(const struct serving *s, int rc) {
    struct weir_host host = {.size = sizeof host};
    uint64_t loops = s->loops;
    char memory[32];
    if (rc != WEIR_ENOMEM || !s->memory_bytes)
        return cli_complain(s->program, "the loops cannot be made: %s", weir_strerror(rc));
    if (!loops && weir_host_read(&host) >= 0)
        loops = host.cpus;
    cli_bytes_text(s->memory_bytes, memory);
    return cli_complain(s->program, "--memory: %s is too little for %" PRIu64 " loop%s", memory,
                        loops, loops == 1 ? "" : "s");
}

/* Options that do not go together, in the words of the command line. */
static int at_odds(const struct serving *s) {
    if (!strcmp(s->transport, "uring") && strcmp(s->trigger, "lt") != 0)
        return cli_complain(s->program, "--trigger: %s is for epoll only", s->trigger);
    if (!s->steer)
        return 0;
    if (strcmp(s->placement, "reuseport") != 0)
        return cli_complain(s->program, "--steer needs --placement reuseport");
    if (s->join)
        return cli_complain(s->program, "--steer does not go with --join");
    if (!s->pin)
        return cli_complain(s->program, "--steer follows CPUs: it needs --pin");
    return 0;
}

int serving_group(const struct serving *s, struct weir_group **out) {
    struct inspect_pools pools;
    inspect_pools(&s->inspect, &pools);
    struct weir_group_options o = {
        .size = sizeof o,
        .loops = (unsigned)s->loops,
        .transport = s->transport,
        .trigger = s->inspect.given & inspect_row(&s->inspect, "trigger") ? s->trigger : NULL,
        .pin = s->pin,
        .workers = s->workers,
        .memory_max = s->memory_bytes,
        .drain_ms = (uint32_t)(s->drain_ns / 1000000),
        .watchdog_ms = inspect_watchdog(&s->inspect),
        .pools = &pools.options,
        .uring_features = s->uring_features,
    };
    int rc = at_odds(s);
    if (!rc)
        rc = features_check(s->uring_features, s->program, s->inspect.from_env);
    if (rc)
        return rc;
    struct weir_socket_options sockets;
    rc = sockets_read(&s->sockets, s->program, &sockets);
    if (!rc && strncmp(s->listen, "unix:", 5) != 0)
        rc = sockets_try(s->program, &sockets, true);
    if (rc)
        return rc;
    hold_signals();
    raise_files();
    rc = weir_group_new(&o, out);
    return rc < 0 ? no_loops(s, rc) : 0;
}

/* --- serving --------------------------------------------------------------------------------- */

/* The file of a unix socket. A successor may have put its own in the same place by the time this
 * process ends: only the one that was made here is taken away. */
struct place {
    const char *path; /* NULL: not a unix socket */
    struct stat made;
};

static void place_note(struct place *p, const char *address) {
    p->path = strncmp(address, "unix:", 5) ? NULL : address + 5;
    if (p->path && lstat(p->path, &p->made) < 0)
        p->path = NULL;
}

static void place_leave(const struct place *p) {
    struct stat now;
    if (p->path && lstat(p->path, &now) == 0 && now.st_dev == p->made.st_dev &&
        now.st_ino == p->made.st_ino)
        (void)unlink(p->path);
}

static int listen_failed(const struct serving *s, const struct weir_group *g, int rc) {
    const char *why = weir_server_why(g);
    if (rc == WEIR_EINUSE)
        return cli_complain(
            s->program,
            "--listen: %s is in use; stop who listens there, take another address, or share it "
            "with --join",
            s->listen);
    if (why[0])
        return cli_complain(s->program, "--%s: %s",
                            s->steer && rc == WEIR_EINVAL ? "steer" : "listen", why);
    return cli_complain(s->program, "--listen: %s cannot be used: %s", s->listen,
                        weir_strerror(rc));
}

static int serve(const struct serving *s, struct weir_group *g, const struct weir_stage *stages,
                 unsigned n_stages, struct weir_server **out) {
    struct weir_server_options o = {
        .size = sizeof o,
        .address = s->listen,
        .stages = stages,
        .n_stages = n_stages,
        .join = s->join,
        .backlog = (int)s->backlog,
        .placement = strcmp(s->placement, "handoff") ? WEIR_REUSEPORT : WEIR_HANDOFF,
        .steer = s->steer,
        .limits = {.high_bytes = (uint32_t)s->high_bytes,
                   .zero_copy_bytes = (uint32_t)s->zero_copy_bytes,
                   .idle_ms = (uint32_t)((s->idle_ns + 999999) / 1000000), /* 0 is never */
                   .drain_ms = (uint32_t)(s->drain_ns / 1000000)},
    };
    (void)sockets_read(&s->sockets, s->program, &o.socket); /* the group's making looked at it */
    return weir_serve(g, &o, out);
}

static void announce(const struct serving *s, const struct weir_group *g,
                     const struct weir_server *server, const struct weir_admin *admin,
                     const char *handler) {
    struct weir_host host = {.size = sizeof host};
    const char *why;
    const char *transport = weir_group_transport(g, &why);
    printf("listening on %s\n", weir_server_address(server));
    if (admin)
        printf("admin on %s\n", weir_admin_address(admin));
    printf("transport %s%s%s%s, loops %u of ", transport, why ? " (" : "", why ? why : "",
           why ? ")" : "", weir_group_loops(g));
    if (weir_host_read(&host) < 0)
        printf("an unknown number of usable CPUs");
    else
        printf("%u usable CPU%s", host.cpus, host.cpus == 1 ? "" : "s");
    printf("%s, placement %s%s", s->pin ? ", pinned" : "", s->placement,
           s->steer ? " steered by CPU" : "");
    if (s->proxy_from)
        printf(", PROXY headers from %s", s->proxy_from);
    if (strcmp(s->inspect.alloc, "cached") != 0)
        printf(", buffers %s", s->inspect.alloc);
    if (strcmp(s->inspect.mem_debug, "default") != 0)
        printf(", memory debug %s", s->inspect.mem_debug);
    printf(", handler %s\n", handler);
    fflush(stdout);
}

static int run(const struct serving *s, struct weir_group *g, const struct weir_server *server,
               const struct weir_admin *admin, const char *handler) {
    int rc = weir_group_start(g);
    if (rc < 0) {
        weir_group_stop(g, 0);
        weir_group_join(g);
        return cli_complain(s->program, "the loops cannot be started: %s", weir_strerror(rc)) - 1;
    }
    struct place place, admin_place;
    place_note(&place, weir_server_address(server));
    place_note(&admin_place, admin ? weir_admin_address(admin) : "");
    announce(s, g, server, admin, handler);
    rc = weir_group_run(g);
    place_leave(&place);
    place_leave(&admin_place);
    return rc < 0 ? cli_complain(s->program, "a loop broke: %s", weir_strerror(rc)) - 1 : 0;
}

static int give_up(struct weir_group *g, struct census *c, int code) {
    weir_group_stop(g, 0);
    weir_group_join(g);
    census_free(c);
    return code;
}

int serving_run(const struct serving *s, struct weir_group *g, const struct weir_stage *stages,
                unsigned n_stages, const char *handler) {
    struct weir_stage line[STAGES_MAX];
    struct weir_server *server;
    struct weir_admin *admin;
    struct census *c = s->stats ? census_new(g, s->stats) : NULL;
    struct proxied proxied;
    unsigned n = 0;
    if (s->proxy_from && proxied_read(&proxied, s->program, s->proxy_from))
        return give_up(g, c, 2);
    if (s->proxy_from)
        line[n++] = (struct weir_stage){&weir_proxy_handler, &proxied.options};
    if (s->stats && (!c || census_start(c) < 0))
        return give_up(g, c,
                       cli_complain(s->program, "--stats: %s: %s", s->stats, strerror(errno)));
    if (c)
        line[n++] = census_stage(c);
    for (unsigned i = 0; i < n_stages && n < STAGES_MAX; i++)
        line[n++] = stages[i];
    int rc = serve(s, g, line, n, &server);
    if (rc < 0) {
        rc = listen_failed(s, g, rc);
        return give_up(g, c, rc);
    }
    rc = inspect_open(&s->inspect, g, &admin);
    if (rc)
        return give_up(g, c, rc);
    rc = run(s, g, server, admin, handler);
    if (c && census_write(c) < 0)
        rc = cli_complain(s->program, "--stats: %s: %s", s->stats, strerror(errno)) - 1;
    census_free(c);
    return rc;
}
