/* What loops do beside connections: timers, tasks, other threads, pipelines that change, and peers
 * that are asked whether they live. */
#include "sweep/rooms.h"
#include "sweep/world.h"
#include "weir/heartbeat.h"

/* --- timers and tasks ------------------------------------------------------------------------- */

struct clockwork {
    struct weir_timer timer;
    unsigned fired, posted, stopped;
};

static void on_timer(struct weir_timer *t) {
    struct clockwork *c = (struct clockwork *)(void *)t;
    if (++c->fired < 3)
        weir_timer_arm(t->loop, t, weir_loop_now(t->loop) + 10000000, on_timer);
}

static void on_post(struct weir_loop *l, void *user) {
    struct clockwork *c = user;
    c->posted++;
    if (c->posted == 1 && weir_loop_post(l, on_post, c) < 0)
        c->posted++;
}

static void on_stop(struct weir_loop *l, void *user) {
    (void)l;
    ((struct clockwork *)user)->stopped++;
}

static int timers(const char *door) {
    struct world w;
    struct clockwork c = {0};
    int rc = world_open(&w, door);
    if (rc < 0)
        return rc;
    struct weir_loop *l = w.side[CLIENT].loop, *before = weir__loop_enter(l);
    for (unsigned i = 0; i < 40; i++) /* doors fetch it in advance */
        (void)weir__loop_entropy(l);
    weir_timer_arm(l, &c.timer, weir_loop_now(l) + 5000000, on_timer);
    rc = weir_loop_on_stop(l, on_stop, &c);
    unsigned stops = rc == 0;
    weir__loop_enter(before);
    if (rc == 0)
        rc = weir_loop_post(l, on_post, &c); /* from a thread that is no loop's */
    world_until(&w, rc < 0 || (c.fired == 3 && c.posted >= 2) || w.side[CLIENT].ended);
    bool broke = w.side[CLIENT].ended;
    rc = world_close(&w, rc);
    if (!broke && c.stopped != stops)
        sweep_finding("told %u times of %u that the loop stops", c.stopped, stops);
    return rc;
}

/* --- from elsewhere --------------------------------------------------------------------------- */

/* A thread with a pool of its own sends and closes by reference. */
static int foreign(const char *door) {
    struct world w;
    struct end s = {.echo = true}, c = {.want = 4000, .stay = true};
    struct weir_chain out = {0};
    static const uint8_t bytes[2000];
    int rc = world_open(&w, door);
    if (rc < 0)
        return rc;
    rc = end_serve(&w, SERVER, &s);
    if (rc == 0)
        rc = end_dial(&w, CLIENT, &c);
    if (rc == 0)
        world_until(&w, c.answers && (s.opens || end_over(&c)));
    struct weir_mem *m = weir_mem_open("foreign");
    rc = rc < 0 ? rc : m ? c.status : WEIR_ENOMEM;
    for (unsigned i = 0; i < 2 && rc == 0; i++) {
        rc = weir_chain_write(m, &out, bytes, sizeof bytes);
        if (rc == 0)
            rc = weir_send(c.ref, &out);
        weir_chain_fini(&out);
    }
    world_until(&w, rc < 0 || c.got >= 4000 || end_over(&c));
    if (rc == 0)
        rc = weir_close(c.ref, WEIR_DRAIN);
    world_until(&w, rc < 0 || end_over(&c));
    rc = world_close(&w, rc < 0 ? rc : end_result(&c));
    weir_mem_close(m);
    return rc;
}

/* --- pipelines -------------------------------------------------------------------------------- */

static int pass(struct weir_ctx *c, struct weir_chain *in) {
    int rc = weir_ctx_forward(c, in);
    return rc < 0 ? rc : 0;
}

static int pass_out(struct weir_ctx *c, struct weir_chain *out) {
    return weir_ctx_send(c, out);
}

static int pass_open(struct weir_ctx *c, const void *config) {
    (void)config;
    *(void **)weir_ctx_state(c) = weir_mem_new(weir_ctx_mem(c), 100);
    return *(void **)weir_ctx_state(c) ? 0 : WEIR_ENOMEM;
}

static void pass_close(struct weir_ctx *c, int why) {
    (void)why;
    weir_mem_free(*(void **)weir_ctx_state(c));
}

static const struct weir_handler passing = {.name = "passing",
                                            .state_size = sizeof(void *),
                                            .open = pass_open,
                                            .read = pass,
                                            .write = pass_out,
                                            .close = pass_close};

/* The first bytes change the pipeline around them. */
static int insert_read(struct weir_ctx *c, struct weir_chain *in) {
    int rc = weir_ctx_insert_next(c, &passing, NULL);
    if (rc >= 0)
        rc = weir_ctx_forward(c, in);
    if (rc < 0)
        return rc;
    weir_ctx_remove(c);
    return 0;
}

static const struct weir_handler inserting = {
    .name = "inserting", .state_size = 8, .read = insert_read};

static int pipeline(const char *door) {
    struct world w;
    struct weir_stage front = {&inserting, NULL};
    struct end s = {.echo = true, .front = &front},
               c = {.send = 2000, .want = 2000, .front = &front};
    int rc = world_open(&w, door);
    return rc < 0 ? rc : world_close(&w, end_talk(&w, &s, &c));
}

/* --- a peer that may be gone -------------------------------------------------------------- */

static int ask(struct weir_ctx *c, void *user) {
    struct weir_chain out = {0};
    (void)user;
    int rc = weir_chain_write(weir_ctx_mem(c), &out, "ping", 4);
    if (rc == 0)
        rc = weir_ctx_send(c, &out);
    weir_chain_fini(&out);
    return rc < 0 ? rc : 0;
}

static const struct weir_heartbeat_options heartbeat = {
    .size = sizeof heartbeat, .interval_ms = 50, .missed_max = 2, .ping = ask};

/* A peer that says nothing but what it is asked for. */
static int heartbeat_answered(const char *door) {
    struct world w;
    struct weir_stage front = {&weir_heartbeat_handler, &heartbeat};
    struct end s = {.front = &front, .want = 12}, c = {.echo = true};
    int rc = world_open(&w, door);
    if (rc < 0)
        return rc;
    rc = end_talk(&w, &s, &c);
    if (rc == 0)
        rc = end_result(&s);
    return world_close(&w, rc);
}

static int heartbeat_missed(const char *door) {
    struct world w;
    struct weir_stage front = {&weir_heartbeat_handler, &heartbeat};
    struct end s = {.front = &front}, c = {0};
    int rc = world_open(&w, door);
    if (rc < 0)
        return rc;
    rc = world_close(&w, end_talk(&w, &s, &c));
    if (rc == 0 && s.opens && s.why == 0)
        sweep_finding("silence closed nothing");
    return rc == WEIR_ERESET && s.why == WEIR_ETIMEDOUT ? 0 : rc;
}

const struct sweep_scenario sweep_loops[] = {
    {"timers", timers, .variants = sweep_doors},
    {"foreign", foreign, .variants = sweep_doors},
    {"pipeline", pipeline, .variants = sweep_doors},
    {"heartbeat_answered", heartbeat_answered, .variants = sweep_doors},
    {"heartbeat_missed", heartbeat_missed, .variants = sweep_doors},
    {0},
};
