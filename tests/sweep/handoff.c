/* One listener for several loops, which hands its connections over: in real threads, where the
 * clients live on the listener's own loop, and in the simulation. */
#include "loop/group.h"
#include "sweep/rooms.h"
#include "sweep/world.h"
#include "weir/sim.h"
#include <stdio.h>
#include <string.h>

enum { CLIENTS = 4, BYTES = 100, IDLE_MS = 500 };

/* --- the ends, of which several loops have some ----------------------------------------------- */

static int echo_read(struct weir_ctx *c, struct weir_chain *in) {
    int rc = weir_ctx_send(c, in);
    return rc < 0 ? rc : 0;
}

static const struct weir_handler echoing = {.name = "echoing", .state_size = 8, .read = echo_read};

struct crew { /* all clients, of one loop */
    struct weir_group *group;
    bool hurry; /* stop as soon as one is connected */
    unsigned dials, answers, opens, closes;
    uint64_t got;
    int error; /* the first */
    char address[128];
};

static struct crew *of(struct weir_ctx *c) {
    return *(struct crew **)weir_ctx_state(c);
}

static bool is_over(const struct crew *c) {
    return c->answers == c->dials && c->opens == c->closes;
}

static void note(struct crew *c, int rc) {
    if (rc < 0 && c->error == 0)
        c->error = rc;
    if (is_over(c) || (c->hurry && c->opens))
        weir_group_stop(c->group, 100);
}

static int client_open(struct weir_ctx *c, const void *config) {
    static const uint8_t bytes[BYTES];
    struct crew *crew = *(struct crew **)weir_ctx_state(c) = (struct crew *)(uintptr_t)config;
    struct weir_chain out = {0};
    int rc = weir_chain_write(weir_ctx_mem(c), &out, bytes, sizeof bytes);
    if (rc == 0)
        rc = weir_ctx_send(c, &out);
    weir_chain_fini(&out);
    crew->opens += rc >= 0;
    return rc < 0 ? rc : 0;
}

static int client_read(struct weir_ctx *c, struct weir_chain *in) {
    if (in->bytes < BYTES) {
        weir_ctx_want(c, BYTES);
        return 0;
    }
    of(c)->got += in->bytes;
    weir_chain_drop(in, in->bytes);
    weir_chan_close(weir_ctx_chan(c), WEIR_DRAIN);
    return 0;
}

static void client_close(struct weir_ctx *c, int why) {
    of(c)->closes++;
    note(of(c), why);
}

static const struct weir_handler client = {.name = "client",
                                           .state_size = sizeof(struct crew *),
                                           .open = client_open,
                                           .read = client_read,
                                           .close = client_close};

static void dialled(struct weir_chan *ch, int status, void *user) {
    struct crew *c = user;
    (void)ch;
    c->answers++;
    note(c, status);
}

static void dial(struct weir_loop *l, void *user) {
    struct crew *c = user;
    struct weir_stage stage = {&client, c};
    struct weir_client_options o = {.size = sizeof o,
                                    .address = c->address,
                                    .stages = &stage,
                                    .n_stages = 1,
                                    .connect_ms = IDLE_MS,
                                    .limits = {.idle_ms = IDLE_MS}};
    int rc = 0;
    for (unsigned i = 0; i < CLIENTS && rc >= 0; i++) {
        rc = weir_connect(l, &o, dialled, c);
        c->dials += rc >= 0;
    }
    if (rc < 0)
        note(c, rc);
}

static int serve(struct crew *c, const char *address) {
    struct weir_stage stage = {&echoing, NULL};
    struct weir_server *server;
    struct weir_server_options o = {.size = sizeof o,
                                    .address = address,
                                    .stages = &stage,
                                    .n_stages = 1,
                                    .placement = WEIR_HANDOFF};
    int rc = weir_serve(c->group, &o, &server);
    if (rc < 0)
        return rc;
    snprintf(c->address, sizeof c->address, "%s", weir_server_address(server));
    return weir_loop_post(weir_group_loop(c->group, 0), dial, c);
}

static int result(const struct crew *c) {
    if (!is_over(c))
        sweep_finding("%u connects, %u answers; %u opens, %u closes", c->dials, c->answers,
                      c->opens, c->closes);
    if (c->error < 0)
        return c->hurry && c->error == WEIR_ESTOPPED ? 0 : c->error;
    return c->hurry || c->got == CLIENTS * BYTES ? 0 : WEIR_ETRUNCATED;
}

/* --- real threads ----------------------------------------------------------------------------- */

static int in_threads(const char *transport, bool hurry) {
    struct weir_group_options o = {.size = sizeof o, .loops = 2, .drain_ms = 100};
    struct crew c = {.hurry = hurry};
    o.transport = !strcmp(transport, "uring") ? "uring" : "epoll";
    o.trigger = !strcmp(transport, "et") ? "et" : "lt";
    int rc = weir_group_new(&o, &c.group);
    if (rc < 0)
        return rc;
    rc = serve(&c, "127.0.0.1:0");
    if (rc < 0) {
        weir_group_join(c.group);
        return rc;
    }
    rc = weir_group_run(c.group);
    int ended = result(&c);
    return rc < 0 ? rc : ended;
}

static int handoff(const char *transport) {
    return in_threads(transport, false);
}

/* The loops end while connections are on their way from one to the other. */
static int handoff_stopped(const char *transport) {
    return in_threads(transport, true);
}

/* --- the simulation --------------------------------------------------------------------------- */

static int in_simulation(bool hurry) {
    struct weir_sim_options o = {.size = sizeof o, .seed = 11, .loops = 3};
    struct weir_sim *w = weir_sim_new(&o);
    struct crew c = {.hurry = hurry};
    if (!w)
        return WEIR_ENOMEM;
    c.group = weir_sim_group(w);
    int rc = serve(&c, "10.0.0.1:80");
    if (rc < 0)
        weir_group_stop(c.group, 0);
    weir_group_join(c.group);
    if (weir_sim_free(w))
        sweep_finding("things are left in the simulation");
    int ended = result(&c);
    return rc < 0 ? rc : ended;
}

static int sim_handoff(const char *variant) {
    (void)variant;
    return in_simulation(false);
}

static int sim_handoff_stopped(const char *variant) {
    (void)variant;
    return in_simulation(true);
}

const struct sweep_scenario sweep_handoff[] = {
    {"handoff", handoff, .variants = sweep_doors},
    {"handoff_stopped", handoff_stopped, .variants = sweep_doors},
    {"sim_handoff", sim_handoff, .cold = false},
    {"sim_handoff_stopped", sim_handoff_stopped, .cold = false},
    {0},
};
