#include "base/addr.h"
#include "mem/raw.h"
#include "serve/listener.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CLAIM_MS = 1000, LATE_CLAIM_MS = 1, BACKLOG = 4096 };

struct opening { /* what the listeners are made from, one after the other */
    struct weir_server *server;
    const struct weir_server_options *options;
    struct weir_addr addr; /* with the real port from the first listener on */
    unsigned next;
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
    if (o->n_fds)
        return o->fds ? 0 : fail(g, WEIR_EINVAL, "there are no inherited listeners at all");
    if (!o->address)
        return fail(g, WEIR_EINVAL, "there is no address");
    if (weir__base_addr_parse(o->address, addr, &why) < 0)
        return fail(g, WEIR_EINVAL, "\"%s\" is no address: %s", o->address, why ? why : "?");
    return 0;
}

static unsigned listeners_of(const struct weir_group *g, const struct weir_server_options *o,
                             const struct weir_addr *addr) {
    if (o->n_fds)
        return o->n_fds;
    return addr->kind == WEIR__ADDR_UNIX ? 1 : g->n_loops;
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

static int open_one(struct weir_loop *l, void *user) {
    struct opening *op = user;
    const struct weir_server_options *o = op->options;
    struct weir_group *g = op->server->group;
    const char *name = op->next ? op->server->address : o->address ? o->address : "inherited";
    struct weir__chan_plan *plan;
    if (l->phase != WEIR__LOOP_RUNNING)
        return fail(g, WEIR_ESTOPPED, "%s: the loops are stopping", name);
    int rc = weir__chan_plan_new(l, o->stages, o->n_stages, &o->limits, &plan);
    if (rc < 0)
        return fail(g, rc, "%s: its pipeline: %s", name, weir_strerror(rc));
    rc = listening(op, l, plan);
    if (rc == WEIR_EINUSE)
        return fail(g, rc, "%s: somebody else listens there", name);
    if (rc == WEIR_EINVAL && o->n_fds)
        return fail(g, rc, "inherited descriptor %d does not listen", o->fds[op->next]);
    return rc < 0 ? fail(g, rc, "%s: %s", name, weir_strerror(rc)) : rc;
}

static int close_one(struct weir_loop *l, void *user) {
    (void)l;
    weir__serve_listener_close(user);
    return 0;
}

static int open_all(struct opening *op) {
    struct weir_server *server = op->server;
    struct weir_group *g = server->group;
    for (; op->next < server->n; op->next++) {
        int rc = weir__loop_group_call(g, g->loops[op->next % g->n_loops], open_one, op);
        if (rc >= 0)
            continue;
        for (unsigned i = 0; i <= op->next; i++)
            weir__loop_group_call(g, g->loops[i % g->n_loops], close_one, &server->listeners[i]);
        if (!g->server_why[0])
            fail(g, rc, "not from a loop's thread, and not once the loops have stopped");
        return rc;
    }
    return 0;
}

static void server_free(struct weir__loop_owned *o) {
    struct weir_server *server = container_of(o, struct weir_server, owned);
    weir__mem_raw_free(server);
}

int weir_serve(struct weir_group *g, const struct weir_server_options *o,
               struct weir_server **out) {
    struct opening op = {.options = o};
    g->server_why[0] = 0;
    int rc = options_of(g, o, &op.addr);
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
