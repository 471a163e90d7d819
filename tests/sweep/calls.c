/* linkd over a connection: calls that are small, streamed, cancelled, late, and open at the end. */
#include "sweep/rooms.h"
#include "sweep/world.h"

enum { ECHO, PARK, STREAM, SERVICES };
enum { STREAM_BYTES = 600000 };

/* --- the server ------------------------------------------------------------------------------- */

static int fill(struct weir_linkd_call *x, struct weir_chain *c, size_t n) {
    static const uint8_t zeros[16384];
    int rc = 0;
    for (size_t cut; rc == 0 && n; n -= cut) {
        cut = n < sizeof zeros ? n : sizeof zeros;
        rc = weir_chain_write(weir_linkd_mem(x), c, zeros, cut);
    }
    return rc;
}

static int on_echo(struct weir_linkd_call *x, void *user) {
    (void)user;
    return weir_linkd_answer(x, weir_linkd_payload(x));
}

static int on_park(struct weir_linkd_call *x, void *user) {
    (void)x, (void)user;
    return 0;
}

static void write_on(struct weir_linkd_call *x, uint64_t room) {
    uint64_t *sent = weir_linkd_state(x);
    int rc = 0;
    for (int64_t left = (int64_t)room; rc >= 0 && left > 0 && *sent < STREAM_BYTES;) {
        struct weir_chain c = {0};
        rc = fill(x, &c, 20000);
        left = rc < 0 ? 0 : weir_linkd_write(x, &c);
        rc = left < 0 ? (int)left : rc;
        *sent += rc < 0 ? 0 : 20000;
        weir_chain_fini(&c);
    }
    if (rc >= 0 && *sent >= STREAM_BYTES)
        rc = weir_linkd_end(x);
    if (rc < 0 && rc != WEIR_EGONE && weir_linkd_fail(x, WEIR_LINKD_INTERNAL, NULL) == WEIR_ENOMEM)
        weir_chan_close(weir_chan_find(weir_linkd_loop(x), weir_linkd_call_ref(x).chan),
                        WEIR_ABORT);
}

static int on_stream(struct weir_linkd_call *x, void *user) {
    (void)user;
    write_on(x, 1);
    return 0;
}

static const struct weir_linkd_service echo = {.name = "echo", .call = on_echo};
static const struct weir_linkd_service park = {.name = "park", .call = on_park};
static const struct weir_linkd_service stream = {
    .name = "stream", .state_size = sizeof(uint64_t), .call = on_stream, .room = write_on};
static const struct weir_linkd_route routes[SERVICES] = {
    {ECHO, &echo, NULL}, {PARK, &park, NULL}, {STREAM, &stream, NULL}};
static const struct weir_linkd_server_options server_options = {
    .size = sizeof server_options, .routes = routes, .n_routes = SERVICES};

/* --- the client ------------------------------------------------------------------------------- */

struct talk {
    struct weir_linkd_client_options options;
    struct weir_linkd_request request;
    size_t payload; /* bytes of each request, or of one piece */
    unsigned calls, pieces;
    bool cancel, ping, pipelined, leave_open;
    bool busy; /* starting: what ends meanwhile begins and closes nothing */
    unsigned started, ended, pings;
    int error;
    uint64_t got;
    struct weir_linkd_client *client;
};

static void begin(struct talk *t);

static void go_on(struct talk *t) {
    if (t->started < t->calls && t->error == 0)
        begin(t);
    else if (t->ended == t->started && t->client)
        weir_chan_close(weir_linkd_client_chan(t->client), WEIR_DRAIN);
}

static void on_reply(const struct weir_linkd_reply *r, void *user) {
    struct talk *t = user;
    t->got += r->payload->bytes;
    weir_chain_drop(r->payload, r->payload->bytes);
    if (!r->last) {
        weir_linkd_resume(r->call);
        return;
    }
    t->ended++;
    if (r->status < 0)
        t->error = r->status;
    if (!t->busy)
        go_on(t);
}

static int write_pieces(struct talk *t, struct weir_linkd_call *x) {
    int rc = 0;
    for (unsigned i = 0; i < t->pieces && rc == 0; i++) {
        struct weir_chain c = {0};
        rc = fill(x, &c, t->payload);
        int64_t room = rc < 0 ? rc : weir_linkd_write(x, &c);
        rc = room < 0 ? (int)room : 0;
        weir_chain_fini(&c);
    }
    return rc < 0 ? rc : weir_linkd_end(x);
}

static int start_one(struct talk *t) {
    static const uint8_t zeros[32768];
    struct weir_chain c = {0};
    struct weir_linkd_call *x;
    struct weir_mem *m = weir_loop_mem(weir_chan_loop(weir_linkd_client_chan(t->client)));
    int rc = weir_chain_write(m, &c, zeros, t->payload);
    if (rc == 0)
        rc = weir_linkd_start(t->client, &t->request, &c, &x, on_reply, t);
    weir_chain_fini(&c);
    if (rc < 0)
        return rc;
    t->started++;
    if (t->request.more && (rc = write_pieces(t, x)) < 0)
        weir_linkd_cancel(x);
    else if (t->cancel)
        weir_linkd_cancel(x);
    return 0;
}

static void begin(struct talk *t) {
    int rc;
    t->busy = true;
    do
        rc = start_one(t);
    while (rc == 0 && t->pipelined && t->started < t->calls && t->client);
    t->busy = false;
    if (rc < 0)
        t->error = rc;
    if (t->ended == t->started)
        go_on(t);
}

static void on_pong(int status, void *user) {
    struct talk *t = user;
    t->pings++;
    if (status < 0)
        t->error = status;
}

static void on_client_open(struct weir_linkd_client *k, void *user) {
    struct talk *t = user;
    t->client = k;
    if (t->ping) {
        int rc = weir_linkd_ping(k, "abc", 3, on_pong, t);
        t->pings -= rc >= 0;
        t->error = rc < 0 ? rc : 0;
    }
    begin(t);
}

static void on_client_close(struct weir_linkd_client *k, int why, void *user) {
    struct talk *t = user;
    (void)k;
    t->client = NULL;
    if (why < 0 && t->error == 0)
        t->error = why;
}

static int run_talk(const char *door, struct talk *t) {
    struct world w;
    struct weir_stage server = {&weir_linkd_server, &server_options};
    struct weir_stage client = {&weir_linkd_client_handler, &t->options};
    struct end s = {.only = &server}, c = {.only = &client};
    t->options = (struct weir_linkd_client_options){
        .size = sizeof t->options, .open = on_client_open, .close = on_client_close, .user = t};
    t->request.size = sizeof t->request;
    int rc = world_open(&w, door);
    if (rc < 0)
        return rc;
    rc = end_serve(&w, SERVER, &s);
    if (rc == 0)
        rc = end_dial(&w, CLIENT, &c);
    if (rc == 0) {
        world_until(&w, c.answers && (!t->client ||
                                      (t->leave_open && (t->started == t->calls || t->error))));
        world_settle(&w);
        rc = c.status < 0 ? c.status : t->error;
    }
    rc = world_close(&w, rc);
    if (t->started != t->ended || t->pings || t->client)
        sweep_finding("%u calls, %u ended; %d pings unanswered", t->started, t->ended,
                      -(int)t->pings);
    return rc;
}

/* --- what is said ----------------------------------------------------------------------------- */

static int small(const char *door) {
    struct talk t = {.payload = 100, .calls = 3, .ping = true};
    return run_talk(door, &t);
}

static int pipelined(const char *door) {
    struct talk t = {.payload = 30000, .calls = 20, .pipelined = true};
    return run_talk(door, &t);
}

static int streamed_up(const char *door) {
    struct talk t = {.payload = 30000, .calls = 1, .pieces = 10, .request = {.more = true}};
    return run_talk(door, &t);
}

static int streamed_down(const char *door) {
    struct talk t = {.payload = 1, .calls = 2, .pipelined = true};
    t.request.service = STREAM;
    t.request.stream = true;
    int rc = run_talk(door, &t);
    return rc == 0 && t.got != 2 * STREAM_BYTES ? WEIR_ETRUNCATED : rc;
}

static int cancelled(const char *door) {
    struct talk t = {.payload = 100, .calls = 2, .pipelined = true, .cancel = true};
    t.request.service = PARK;
    int rc = run_talk(door, &t);
    return rc == WEIR_ECANCELLED ? 0 : rc;
}

static int late(const char *door) {
    struct talk t = {.payload = 100, .calls = 2, .pipelined = true};
    t.request.service = PARK;
    t.request.deadline_ms = 50;
    int rc = run_talk(door, &t);
    return rc == WEIR_EDEADLINE || rc == WEIR_ECALL ? 0 : rc;
}

static int unknown(const char *door) {
    struct talk t = {.payload = 100, .calls = 2, .pipelined = true};
    t.request.service = 99;
    int rc = run_talk(door, &t);
    return rc == WEIR_ECALL ? 0 : rc;
}

/* Both loops stop while calls are open: the drain waits for them as long as it may. */
static int open_at_the_end(const char *door) {
    struct talk t = {.payload = 100, .calls = 3, .pipelined = true, .leave_open = true};
    t.request.service = PARK;
    return run_talk(door, &t);
}

const struct sweep_scenario sweep_calls[] = {
    {"linkd_small", small, .variants = sweep_doors},
    {"linkd_pipelined", pipelined, .variants = sweep_doors},
    {"linkd_streamed_up", streamed_up, .variants = sweep_doors},
    {"linkd_streamed_down", streamed_down, .variants = sweep_doors},
    {"linkd_cancelled", cancelled, .variants = sweep_doors},
    {"linkd_late", late, .variants = sweep_doors},
    {"linkd_unknown", unknown, .variants = sweep_doors},
    {"linkd_open_at_the_end", open_at_the_end, .variants = sweep_doors},
    {0},
};
