#include "base/addr.h"
#include "mem/raw.h"
#include "serve/listener.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CLAIM_MS = 1000, LATE_CLAIM_MS = 1, BACKLOG = 4096, STEER_MAX = 256 };

struct opening { /* what the listeners are made from, one after the other */
    struct weir_server *server;
    const struct weir_server_options *options;
    struct weir_addr addr; /* with the real port from the first listener on */
    unsigned next;
    struct weir__serve_seat *seat; /* that is opened now */
    unsigned cpus[STEER_MAX];
};

WEIR_PRINTF(3, 4) static int fail(struct weir_group *g, int rc, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(g->server_why, sizeof g->server_why, format, args);
    va_end(args);
    return rc;
}

static int options_of(struct weir_group *g, const struct weir_server_options *o,
                      struct weir_addr *addr) {
    const char *why = NULL;
    *addr = (struct weir_addr){0};
    if (!o || o->size != sizeof *o)
        return fail(g, WEIR_EINVAL, "size: set it to sizeof(struct weir_server_options)");
    if (!o->stages || !o->n_stages)
        return fail(g, WEIR_EINVAL, "its pipeline has no stages");
    if (o->backlog < 0)
        return fail(g, WEIR_EINVAL, "the backlog is negative");
    if (o->placement != WEIR_REUSEPORT && o->placement != WEIR_HANDOFF)
        return fail(g, WEIR_EINVAL, "its placement is none: WEIR_REUSEPORT or WEIR_HANDOFF");
    if (o->n_fds)
        return o->fds ? 0 : fail(g, WEIR_EINVAL, "there are no inherited listeners at all");
    if (!o->address)
        return fail(g, WEIR_EINVAL, "there is no address");
    if (weir__base_addr_parse(o->address, addr, &why) < 0)
        return fail(g, WEIR_EINVAL, "\"%s\" is no address: %s", o->address, why ? why : "?");
    return 0;
}

/* Whether the CPUs of the loops say which listener a connection belongs to. */
static int steering_of(struct weir_group *g, const struct weir_server_options *o,
                       struct opening *op) {
    if (!o->steer)
        return 0;
    if (o->placement != WEIR_REUSEPORT || op->addr.kind == WEIR__ADDR_UNIX)
        return fail(g, WEIR_EINVAL,
                    "steering chooses among the listeners of one port, one per "
                    "loop: it needs placement reuseport and no unix path");
    if (o->join || o->n_fds)
        return fail(g, WEIR_EINVAL,
                    "steering counts the listeners of its port: it goes neither "
                    "with join nor with inherited listeners");
    if (g->n_loops > STEER_MAX)
        return fail(g, WEIR_EINVAL, "steering knows %d loops at most", STEER_MAX);
    for (unsigned i = 0; i < g->n_loops; i++) {
        int cpu = g->loops[i]->cpu;
        if (cpu < 0)
            return fail(g, WEIR_EINVAL, "steering follows CPUs: the loops must be pinned");
        op->cpus[i] = (unsigned)cpu;
        for (unsigned j = 0; j < i; j++)
            if (op->cpus[j] == op->cpus[i])
                return fail(g, WEIR_EINVAL,
                            "steering needs a CPU for each loop: loops %u and %u share CPU %d", j,
                            i, cpu);
    }
    return 0;
}

static unsigned listeners_of(const struct weir_group *g, const struct weir_server_options *o,
                             const struct weir_addr *addr) {
    if (o->n_fds)
        return o->n_fds;
    bool one = addr->kind == WEIR__ADDR_UNIX || o->placement == WEIR_HANDOFF;
    return one ? 1 : g->n_loops;
}

static struct weir__io_listen listen_of(const struct opening *op, const struct weir_loop *l) {
    const struct weir_server_options *o = op->options;
    bool running = atomic_load_explicit(&l->counters.turns, memory_order_relaxed) > 0;
    bool claims = op->next == 0 && !o->join && !o->n_fds;
    return (struct weir__io_listen){
        .addr = op->addr,
        .handle = o->n_fds ? o->fds[op->next] : -1,
        .backlog = o->backlog ? o->backlog : BACKLOG,
        .claim_ms = !claims   ? 0
                    : running ? LATE_CLAIM_MS
                              : CLAIM_MS,
        .reuse_port = op->addr.kind != WEIR__ADDR_UNIX,
        .steer = o->steer && op->next == 0 ? op->cpus : NULL,
        .n_steer = op->server->n,
        .options = &o->socket,
    };
}

/* The first one settles the port and the name. */
static int name_of(struct opening *op, struct weir_loop *l, struct weir__serve_listener *s) {
    struct weir_server *server = op->server;
    int rc = l->io->ops->local(l->io, s->sock, &op->addr);
    if (rc >= 0)
        weir__base_addr_format(&op->addr, server->address, sizeof server->address);
    return rc;
}

static int listening(struct opening *op, struct weir_loop *l, struct weir__chan_plan *plan) {
    struct weir__serve_listener *s = &op->server->listeners[op->next];
    struct weir__io_listen listen = listen_of(op, l);
    s->server = op->server;
    int rc = weir__serve_listener_open(s, l, plan, &listen);
    if (rc < 0) {
        weir__chan_plan_release(plan);
        return rc;
    }
    return op->next == 0 ? name_of(op, l, s) : 0;
}

static const char *name_in(const struct opening *op) {
    if (op->next)
        return op->server->address;
    return op->options->address ? op->options->address : "inherited";
}

static int plan_for(struct opening *op, struct weir_loop *l, struct weir__chan_plan **plan) {
    const struct weir_server_options *o = op->options;
    struct weir_group *g = op->server->group;
    if (l->phase != WEIR__LOOP_RUNNING)
        return fail(g, WEIR_ESTOPPED, "%s: the loops are stopping", name_in(op));
    int rc = weir__chan_plan_new(l, o->stages, o->n_stages, &o->limits, plan);
    return rc < 0 ? fail(g, rc, "%s: its pipeline: %s", name_in(op), weir_strerror(rc)) : 0;
}

static int open_one(struct weir_loop *l, void *user) {
    struct opening *op = user;
    const struct weir_server_options *o = op->options;
    struct weir_group *g = op->server->group;
    const char *name = name_in(op);
    struct weir__chan_plan *plan;
    int rc = plan_for(op, l, &plan);
    if (rc < 0)
        return rc;
    rc = listening(op, l, plan);
    if (rc == WEIR_EINUSE)
        return fail(g, rc, "%s: somebody else listens there", name);
    if (rc == WEIR_EINVAL && o->n_fds)
        return fail(g, rc, "inherited descriptor %d does not listen", o->fds[op->next]);
    if (rc == WEIR_ENOTSUP && o->steer)
        return fail(g, rc, "%s: transport %s cannot steer", name, g->transport);
    return rc < 0 ? fail(g, rc, "%s: %s", name, weir_strerror(rc)) : rc;
}

static int close_one(struct weir_loop *l, void *user) {
    (void)l;
    weir__serve_listener_close(user);
    return 0;
}

static int seat_open(struct weir_loop *l, void *user) {
    struct opening *op = user;
    struct weir__chan_plan *plan;
    int rc = plan_for(op, l, &plan);
    if (rc >= 0)
        weir__serve_seat_open(op->seat, l, plan);
    return rc;
}

static int seat_leave(struct weir_loop *l, void *user) {
    (void)l;
    weir__serve_seat_leave(user);
    return 0;
}

/* The seats on every other loop, before there is anybody to sit. */
static int open_seats(struct opening *op) {
    struct weir_group *g = op->server->group;
    struct weir__serve_listener *s = &op->server->listeners[op->next];
    int rc = weir__serve_seats_new(s, g->n_loops);
    for (unsigned i = 0; rc >= 0 && i < g->n_loops; i++) {
        op->seat = &s->seats[i];
        if (i != op->next % g->n_loops)
            rc = weir__loop_group_call(g, g->loops[i], seat_open, op);
    }
    return rc;
}

static void close_all(struct opening *op) {
    struct weir_server *server = op->server;
    struct weir_group *g = server->group;
    for (unsigned i = 0; i <= op->next; i++) {
        struct weir__serve_listener *s = &server->listeners[i];
        weir__loop_group_call(g, g->loops[i % g->n_loops], close_one, s);
        for (unsigned k = 0; k < s->n_seats; k++)
            weir__loop_group_call(g, g->loops[k], seat_leave, &s->seats[k]);
    }
}

static int open_all(struct opening *op) {
    struct weir_server *server = op->server;
    struct weir_group *g = server->group;
    for (; op->next < server->n; op->next++) {
        int rc = op->options->placement == WEIR_HANDOFF ? open_seats(op) : 0;
        if (rc >= 0)
            rc = weir__loop_group_call(g, g->loops[op->next % g->n_loops], open_one, op);
        if (rc >= 0)
            continue;
        close_all(op);
        if (!g->server_why[0])
            fail(g, rc, "%s",
                 rc == WEIR_ENOMEM
                     ? weir_strerror(rc)
                     : "not from a loop's thread, and not once the loops have stopped");
        return rc;
    }
    return 0;
}

static void server_free(struct weir__loop_owned *o) {
    struct weir_server *server = container_of(o, struct weir_server, owned);
    for (unsigned i = 0; i < server->n; i++)
        weir__serve_seats_free(&server->listeners[i]);
    weir__mem_raw_free(server);
}

int weir_serve(struct weir_group *g, const struct weir_server_options *o,
               struct weir_server **out) {
    struct opening op = {.options = o};
    g->server_why[0] = 0;
    int rc = options_of(g, o, &op.addr);
    if (rc >= 0)
        rc = steering_of(g, o, &op);
    if (rc < 0)
        return rc;
    unsigned n = listeners_of(g, o, &op.addr);
    struct weir_server *server = weir__mem_raw_new(sizeof *server +
                                                   n * sizeof server->listeners[0]);
    if (!server)
        return fail(g, WEIR_ENOMEM, "%s", weir_strerror(WEIR_ENOMEM));
    server->group = g;
    server->n = n;
    server->owned.free = server_free;
    /* Also when opening fails: what was opened before ends on its own loop, in its own time. */
    weir__loop_group_own(g, &server->owned);
    op.server = server;
    rc = open_all(&op);
    if (rc < 0)
        return rc;
    *out = server;
    return 0;
}

const char *weir_server_address(const struct weir_server *s) {
    return s->address;
}

const char *weir_server_why(const struct weir_group *g) {
    return g->server_why;
}
