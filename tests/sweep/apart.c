/* What needs no two loops of its own: groups with their threads, the simulation, embedded channels,
 * frames, the host. */
#include "loop/group.h"
#include "sweep/rooms.h"
#include "sweep/world.h"
#include "weir/host.h"
#include "weir/sim.h"
#include <stdio.h>
#include <string.h>

/* --- groups ----------------------------------------------------------------------------------- */

enum { GROUP_PATIENCE_MS = 2000 };

struct crew {
    struct weir_group *group;
    struct end server, client;
    char address[128];
};

static const char *const transports[] = {"lt", "et", "uring", NULL};

static int group_new(struct crew *c, unsigned loops, const char *transport, bool pin) {
    struct weir_group_options o = {.size = sizeof o, .loops = loops, .pin = pin, .drain_ms = 100};
    o.transport = !strcmp(transport, "uring") ? "uring" : "epoll";
    o.trigger = !strcmp(transport, "et") ? "et" : "lt";
    return weir_group_new(&o, &c->group);
}

static int group_life(const char *transport) {
    struct crew c = {0};
    int rc = group_new(&c, 2, transport, true);
    if (rc < 0)
        return rc;
    rc = weir_group_start(c.group);
    weir_group_stop(c.group, 50);
    int ended = weir_group_join(c.group);
    return rc < 0 ? rc : ended;
}

static int group_never_started(const char *transport) {
    struct crew c = {0};
    struct weir_server *server;
    struct weir_stage stage = {&end_handler, &c.server};
    struct weir_server_options o = {
        .size = sizeof o, .address = "127.0.0.1:0", .stages = &stage, .n_stages = 1};
    int rc = group_new(&c, 2, transport, false);
    if (rc < 0)
        return rc;
    rc = weir_serve(c.group, &o, &server);
    int ended = weir_group_join(c.group);
    return rc < 0 ? rc : ended;
}

static void group_dialled(struct weir_chan *ch, int status, void *user) {
    struct crew *c = user;
    (void)ch;
    c->client.answers++;
    c->client.status = status < 0 ? status : 0;
    weir_group_stop(c->group, 100);
}

static void group_dial(struct weir_loop *l, void *user) {
    struct crew *c = user;
    struct weir_stage stage = {&end_handler, &c->client};
    struct weir_client_options o = {.size = sizeof o, .address = c->address, .stages = &stage};
    o.n_stages = 1;
    o.connect_ms = GROUP_PATIENCE_MS;
    int rc = weir_connect(l, &o, group_dialled, c);
    if (rc < 0) {
        c->client.status = rc;
        weir_group_stop(c->group, 0);
    }
}

/* weir_group_run, ended by its second loop, which has talked to its first. */
static int group_run(const char *transport) {
    struct crew c = {.server = {.echo = true}, .client = {.send = 1000}};
    struct weir_server *server;
    struct weir_stage stage = {&end_handler, &c.server};
    struct weir_server_options o = {
        .size = sizeof o, .address = "127.0.0.1:0", .stages = &stage, .n_stages = 1};
    int rc = group_new(&c, 1, transport, false);
    if (rc < 0)
        return rc;
    rc = weir_serve(c.group, &o, &server);
    if (rc == 0) {
        snprintf(c.address, sizeof c.address, "%s", weir_server_address(server));
        rc = weir_loop_post(weir_group_loop(c.group, 0), group_dial, &c);
    }
    if (rc < 0) {
        weir_group_join(c.group);
        return rc;
    }
    rc = weir_group_run(c.group);
    return rc < 0 ? rc : c.client.status;
}

/* A server that is opened while the loops run. */
static int group_serve_late(const char *transport) {
    struct crew c = {0};
    struct weir_server *server;
    struct weir_stage stage = {&end_handler, &c.server};
    struct weir_server_options o = {
        .size = sizeof o, .address = "127.0.0.1:0", .stages = &stage, .n_stages = 1};
    int rc = group_new(&c, 1, transport, false);
    if (rc < 0)
        return rc;
    rc = weir_group_start(c.group);
    if (rc == 0)
        rc = weir_serve(c.group, &o, &server);
    weir_group_stop(c.group, 50);
    int ended = weir_group_join(c.group);
    return rc < 0 ? rc : ended;
}

static int host(const char *variant) {
    (void)variant;
    struct weir_host h = {.size = sizeof h};
    return weir_host_read(&h);
}

/* --- the simulation --------------------------------------------------------------------------- */

static bool client_over(void *user) {
    return end_over(user);
}

static void sim_answered(struct weir_chan *ch, int status, void *user) {
    struct end *e = user;
    (void)ch;
    e->answers++;
    e->status = status < 0 ? status : 0;
}

static int sim_talk(struct weir_sim *sim, struct end *s, struct end *c) {
    struct weir_server *server;
    struct weir_stage stages[2] = {{&end_handler, s}, {&end_handler, c}};
    struct weir_server_options so = {
        .size = sizeof so, .address = "10.0.0.1:80", .stages = &stages[0], .n_stages = 1};
    struct weir_client_options co = {
        .size = sizeof co, .address = "10.0.0.1:80", .stages = &stages[1], .n_stages = 1};
    struct weir_loop *l = weir_group_loop(weir_sim_group(sim), 0);
    int rc = weir_serve(weir_sim_group(sim), &so, &server);
    if (rc < 0)
        return rc;
    struct weir_loop *before = weir__loop_enter(l);
    rc = weir_connect(l, &co, sim_answered, c);
    weir__loop_enter(before);
    if (rc < 0)
        return rc;
    c->dials++;
    if (weir_sim_run(sim, 20000, client_over, c) == 1)
        return end_result(c);
    sweep_gave_up();
    return WEIR_ETIMEDOUT;
}

static void sim_end(struct weir_sim *w) {
    weir_group_stop(weir_sim_group(w), 100);
    weir_group_join(weir_sim_group(w));
}

static int sim(const char *variant) {
    (void)variant;
    struct end s = {.echo = true}, c = {.send = 5000, .want = 5000};
    struct weir_sim_options o = {.size = sizeof o, .seed = 7};
    struct weir_sim *w = weir_sim_new(&o);
    if (!w)
        return WEIR_ENOMEM;
    int rc = sim_talk(w, &s, &c);
    sim_end(w);
    int left = weir_sim_free(w);
    if (left)
        sweep_finding("%d things are left in the simulation", left);
    return rc;
}

static int sim_peer(const char *variant) {
    (void)variant;
    struct end s = {.echo = true};
    struct weir_server *server;
    struct weir_stage stage = {&end_handler, &s};
    struct weir_server_options o = {
        .size = sizeof o, .address = "10.0.0.1:80", .stages = &stage, .n_stages = 1};
    struct weir_sim *w = weir_sim_new(NULL);
    if (!w)
        return WEIR_ENOMEM;
    int rc = weir_serve(weir_sim_group(w), &o, &server);
    struct weir_sim_peer *p = rc < 0 ? NULL : weir_sim_dial(w, "10.0.0.1:80");
    rc = rc < 0 ? rc : p ? weir_sim_peer_send(p, "hello", 5) : WEIR_ENOMEM;
    weir_sim_run(w, 100, NULL, NULL);
    const uint8_t *bytes;
    if (rc == 0 && weir_sim_peer_got(p, &bytes) != 5)
        rc = WEIR_ETRUNCATED;
    if (p)
        weir_sim_peer_close(p);
    sim_end(w);
    if (weir_sim_free(w))
        sweep_finding("things are left in the simulation");
    return rc;
}

/* --- without sockets -------------------------------------------------------------------------- */

static int push_three(struct end s) {
    struct weir_stage stage = {&end_handler, &s};
    struct weir_embedded *e;
    int rc = weir_embedded_new(&stage, 1, NULL, &e);
    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < 3 && rc == 0; i++)
        rc = weir_embedded_push(e, "hello", 5);
    size_t n = 0;
    weir_embedded_out(e, &n);
    weir_embedded_eof(e);
    weir_embedded_advance(e, 10000);
    int state = weir_embedded_state(e);
    if (rc == 0 && state == 0 && !s.credit && n != 15)
        rc = WEIR_ETRUNCATED;
    if (state == 1 && !s.credit)
        sweep_finding("the channel stays open");
    if (weir_embedded_free(e))
        sweep_finding("things are left");
    return rc < 0 ? rc : state < 0 ? state : 0;
}

static int embedded(const char *variant) {
    (void)variant;
    return push_three((struct end){.echo = true});
}

/* Less credit than comes. */
static int embedded_credit(const char *variant) {
    (void)variant;
    return push_three((struct end){.echo = true, .credit = 7});
}

static int on_frame(struct weir_ctx *c, struct weir_chain *frame, void *user) {
    (void)user;
    return weir_frame_send(c, frame);
}

static int frames(const char *kind) {
    struct weir_frame_options o = {.size = sizeof o, .frame_max = 1000, .width = 2};
    struct weir_frame_format format;
    struct weir_frame_service service = {.format = &format, .frame = on_frame};
    struct weir_stage stage = {&weir_frame_handler, &service};
    struct weir_embedded *e;
    bool line = !strcmp(kind, "line");
    o.kind = line ? WEIR_FRAME_LINE : WEIR_FRAME_LENGTH;
    int rc = weir_frame_format_init(&format, &o, NULL);
    if (rc == 0)
        rc = weir_embedded_new(&stage, 1, NULL, &e);
    if (rc < 0)
        return rc;
    const char *text = line ? "one\ntwo\nth" : "\0\3one\0\3two\0\5th";
    rc = weir_embedded_push(e, text, line ? 10 : 14);
    if (rc == 0)
        rc = weir_embedded_push(e, line ? "ree\n" : "ree", line ? 4 : 3);
    weir_embedded_eof(e);
    weir_embedded_advance(e, 10000);
    int state = weir_embedded_state(e);
    if (state == 1)
        sweep_finding("the channel stays open");
    if (weir_embedded_free(e))
        sweep_finding("things are left");
    return rc < 0 ? rc : state < 0 ? state : 0;
}

static const char *const frame_kinds[] = {"length", "line", NULL};

const struct sweep_scenario sweep_apart[] = {
    {"group_life", group_life, .variants = transports},
    {"group_never_started", group_never_started, .variants = transports},
    {"group_run", group_run, .variants = transports},
    {"group_serve_late", group_serve_late, .variants = transports},
    {"host", host, .cold = false},
    {"sim", sim, .cold = false},
    {"sim_cold", sim, .cold = true},
    {"sim_peer", sim_peer, .cold = false},
    {"embedded", embedded, .cold = false},
    {"embedded_cold", embedded, .cold = true},
    {"embedded_credit", embedded_credit, .cold = false},
    {"frames", frames, .variants = frame_kinds},
    {0},
};
