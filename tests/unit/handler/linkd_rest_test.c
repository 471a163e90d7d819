/* Connections of one loop that take turns with one linkd session: nothing of one is left for the
 * next, however the one before has ended. */
#include "kit/linkd.h"
#include "weir.h"
#include "weir/sim.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

enum { ECHO, QUIT, WORK, PARK };

static struct weir_linkd_ref parked;
static bool work_resets; /* a job's done() resets its channel before it answers */

/* --- services -------------------------------------------------------------------------------- */

static int echo_call(struct weir_linkd_call *x, void *user) {
    (void)user;
    return weir_linkd_answer(x, weir_linkd_payload(x));
}

static void reset(struct weir_linkd_call *x) {
    struct weir_chan *ch = weir_chan_find(weir_linkd_loop(x), weir_linkd_call_ref(x).chan);
    assert_non_null(ch);
    weir_chan_close(ch, WEIR_ABORT);
}

/* Its answer finds the channel closing. */
static int quit_call(struct weir_linkd_call *x, void *user) {
    (void)user;
    reset(x);
    return weir_linkd_answer(x, weir_linkd_payload(x));
}

static void work_run(struct weir_linkd_job *j) {
    (void)j;
}

static void work_done(struct weir_linkd_call *x, struct weir_linkd_job *j, int status) {
    assert_true(!x == (status < 0));
    if (x && work_resets)
        reset(x);
    if (x)
        assert_int_equal(weir_linkd_answer(x, &j->payload), 0);
    weir_chain_fini(&j->payload);
    weir_mem_free(j);
}

static int work_call(struct weir_linkd_call *x, void *user) {
    struct weir_linkd_job *j = weir_mem_new(weir_linkd_mem(x), sizeof *j);
    (void)user;
    assert_non_null(j);
    j->run = work_run;
    j->done = work_done;
    int rc = weir_linkd_offload(x, j, WEIR_ORDERED);
    if (rc < 0)
        weir_mem_free(j);
    return rc;
}

static int park_call(struct weir_linkd_call *x, void *user) {
    (void)user;
    parked = weir_linkd_call_ref(x);
    return 0;
}

static void answer_parked(struct weir_loop *l, void *user) {
    struct weir_linkd_call *x = weir_linkd_find(l, parked);
    (void)user;
    assert_non_null(x);
    assert_int_equal(weir_linkd_answer(x, weir_linkd_payload(x)), 0);
}

static const struct weir_linkd_service echo = {.name = "echo", .call = echo_call};
static const struct weir_linkd_service quit = {.name = "quit", .call = quit_call};
static const struct weir_linkd_service work = {.name = "work", .call = work_call, .offloads = true};
static const struct weir_linkd_service park = {.name = "park", .call = park_call};
static const struct weir_linkd_route routes[] = {
    {ECHO, &echo, NULL}, {QUIT, &quit, NULL}, {WORK, &work, NULL}, {PARK, &park, NULL}};

/* --- a world --------------------------------------------------------------------------------- */

struct world {
    struct weir_sim *sim;
    struct weir_linkd_server_options options;
    struct weir_stage line[1];
};

static void begin(struct world *w, uint32_t heartbeat_ms) {
    struct weir_sim_options o = {.size = sizeof o, .seed = 1};
    struct weir_server *server;
    w->options = (struct weir_linkd_server_options){
        .size = sizeof w->options, .routes = routes, .n_routes = 4, .heartbeat_ms = heartbeat_ms};
    w->line[0] = (struct weir_stage){&weir_linkd_server, &w->options};
    struct weir_server_options so = {
        .size = sizeof so, .address = "10.0.0.1:7", .stages = w->line, .n_stages = 1};
    assert_non_null(w->sim = weir_sim_new(&o));
    assert_int_equal(weir_serve(weir_sim_group(w->sim), &so, &server), 0);
}

static void end(struct world *w) {
    weir_group_stop(weir_sim_group(w->sim), 1000);
    assert_int_equal(weir_group_join(weir_sim_group(w->sim)), 0);
    assert_int_equal(weir_sim_free(w->sim), 0);
}

static struct weir_sim_peer *dial(struct world *w) {
    struct weir_sim_peer *p = weir_sim_dial(w->sim, "10.0.0.1:7");
    assert_non_null(p);
    return p;
}

static void run(struct world *w, uint64_t ms) {
    weir_sim_run(w->sim, ms, NULL, NULL);
}

static void push(struct weir_sim_peer *p, struct kit_frame f) {
    uint8_t bytes[256];
    assert_true(kit_frame_bytes(&f, NULL) <= sizeof bytes);
    int rc = weir_sim_peer_send(p, bytes, kit_frame_bytes(&f, bytes));
    assert_true(rc == 0 || weir_sim_peer_state(p) != 0);
}

static void request(struct weir_sim_peer *p, uint64_t id, unsigned service, const char *text) {
    push(p, (struct kit_frame){
                .type = WEIR_LINKD_REQUEST, .service = service, .id = id, .text = text});
}

/* The peer has had this one response, and nothing else. */
static void expect(const struct weir_sim_peer *p, uint64_t id, const char *text) {
    const uint8_t *got;
    struct weir__linkd_head h;
    assert_int_equal(weir_sim_peer_got(p, &got), WEIR_LINKD_HEAD_BYTES + strlen(text));
    assert_int_equal(weir__linkd_judge(got, &h), WEIR__LINKD_GOOD);
    assert_true(h.type == WEIR_LINKD_RESPONSE && h.id == id);
    assert_memory_equal(got + WEIR_LINKD_HEAD_BYTES, text, strlen(text));
}

/* --- tests ----------------------------------------------------------------------------------- */

/* The session is not left deaf to what is answered later. */
static void after_a_channel_that_closed_inside_a_call(void **state) {
    struct world w;
    (void)state;
    begin(&w, 0);
    struct weir_sim_peer *a = dial(&w), *b = dial(&w);
    request(a, 1, QUIT, "secret");
    run(&w, 10);
    assert_true(weir_sim_peer_state(a) < 0);
    request(b, 2, PARK, "mine");
    run(&w, 10);
    struct weir_loop *l = weir_group_loop(weir_sim_group(w.sim), 0);
    assert_int_equal(weir_loop_post(l, answer_parked, NULL), 0);
    run(&w, 10);
    expect(b, 2, "mine");
    end(&w);
}

/* The answer that could not be sent is nobody else's. */
static void after_an_answer_that_found_no_channel(void **state) {
    struct world w;
    (void)state;
    begin(&w, 0);
    struct weir_sim_peer *a = dial(&w), *b = dial(&w);
    work_resets = true;
    request(a, 1, WORK, "secret");
    run(&w, 10);
    work_resets = false;
    assert_true(weir_sim_peer_state(a) < 0);
    request(b, 2, ECHO, "mine");
    run(&w, 10);
    expect(b, 2, "mine");
    end(&w);
}

static uint64_t live(struct world *w) {
    return weir_mem_live(weir_loop_mem(weir_group_loop(weir_sim_group(w->sim), 0)));
}

/* Connections that were asked for a sign of life, and gave one, share a session as before. */
static void after_a_heartbeat(void **state) {
    enum { PEERS = 8 };
    struct weir_sim_peer *peers[PEERS];
    struct world w;
    (void)state;
    begin(&w, 100);
    for (unsigned i = 0; i < PEERS; i++) {
        peers[i] = dial(&w);
        request(peers[i], 1, ECHO, "x");
    }
    run(&w, 50);
    uint64_t before = live(&w);
    for (unsigned beats = 0; beats < 3; beats++) {
        run(&w, 90);
        for (unsigned i = 0; i < PEERS; i++)
            push(peers[i], (struct kit_frame){.type = WEIR_LINKD_PONG});
        run(&w, 10);
        assert_true(live(&w) <= before);
    }
    end(&w);
}

/* The timer fires when nobody reads. */
static void after_a_deadline(void **state) {
    enum { PEERS = 8 };
    struct weir_sim_peer *peers[PEERS];
    struct world w;
    (void)state;
    begin(&w, 0);
    for (unsigned i = 0; i < PEERS; i++) {
        peers[i] = dial(&w);
        request(peers[i], 1, ECHO, "x");
    }
    run(&w, 50);
    uint64_t before = live(&w);
    for (unsigned i = 0; i < PEERS; i++)
        push(peers[i], (struct kit_frame){.type = WEIR_LINKD_REQUEST,
                                          .flags = WEIR_LINKD_DEADLINE,
                                          .service = PARK,
                                          .id = 2,
                                          .data = "\0\0\0\x32",
                                          .n = 4});
    run(&w, 20);
    assert_true(live(&w) > before);
    run(&w, 100);
    assert_true(live(&w) <= before);
    end(&w);
}

/* --- many connections, many seeds ------------------------------------------------------------ */

enum { CROWD = 6, CALLS = 40, SEEDS = 300 };

struct guest {
    struct weir_sim_peer *peer;
    size_t seen;
    unsigned ends[CALLS + 1]; /* frames that ended the call of this id */
};

static uint64_t chance;

static unsigned draw(unsigned n) {
    chance = chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(chance >> 33) % n;
}

static void one_request(struct guest *g, unsigned number, uint64_t id) {
    static const unsigned services[] = {ECHO, ECHO, WORK, WORK, PARK, PARK, ECHO, QUIT};
    uint8_t data[12] = {[3] = (uint8_t)(1 + draw(30)), [4] = (uint8_t)number, [5] = (uint8_t)id};
    bool deadline = draw(3) == 0;
    unsigned service = services[draw(draw(8) ? 7 : 8)];
    deadline |= service == PARK; /* or it would never end */
    push(g->peer, (struct kit_frame){.type = WEIR_LINKD_REQUEST,
                                     .flags = deadline ? WEIR_LINKD_DEADLINE : 0,
                                     .service = service,
                                     .id = id,
                                     .data = data + (deadline ? 0 : 4),
                                     .n = deadline ? 12 : 8});
    if (draw(6) == 0)
        push(g->peer, (struct kit_frame){.type = WEIR_LINKD_CANCEL, .service = service, .id = id});
}

/* What it got is its own. */
static void look(struct guest *g, unsigned number) {
    const uint8_t *got;
    size_t n = weir_sim_peer_got(g->peer, &got);
    while (n - g->seen >= WEIR_LINKD_HEAD_BYTES) {
        struct weir__linkd_head h;
        const uint8_t *p = got + g->seen;
        assert_int_equal(weir__linkd_judge(p, &h), WEIR__LINKD_GOOD);
        if (n - g->seen < WEIR_LINKD_HEAD_BYTES + h.length)
            return;
        g->seen += WEIR_LINKD_HEAD_BYTES + h.length;
        p += WEIR_LINKD_HEAD_BYTES;
        if (h.type == WEIR_LINKD_PING) {
            push(g->peer, (struct kit_frame){.type = WEIR_LINKD_PONG});
        } else if (h.type != WEIR_LINKD_GOAWAY) {
            assert_in_range(h.id, 1, CALLS);
            g->ends[h.id]++;
        }
        if (h.type == WEIR_LINKD_RESPONSE)
            assert_true(p[0] == number && p[1] == h.id);
    }
}

static void one_crowd(uint64_t seed) {
    struct guest guests[CROWD] = {0};
    struct world w;
    chance = seed;
    begin(&w, seed % 3 ? 0 : 7);
    for (unsigned i = 0; i < CROWD; i++)
        guests[i].peer = dial(&w);
    for (unsigned id = 1; id <= CALLS; id++) {
        for (unsigned i = 0; i < CROWD; i++)
            if (weir_sim_peer_state(guests[i].peer) == 0)
                one_request(&guests[i], i, id);
        run(&w, draw(12));
        for (unsigned i = 0; i < CROWD; i++)
            look(&guests[i], i);
    }
    run(&w, 50);
    for (unsigned i = 0; i < CROWD; i++) {
        look(&guests[i], i);
        for (unsigned id = 1; weir_sim_peer_state(guests[i].peer) == 0 && id <= CALLS; id++)
            assert_in_range(guests[i].ends[id], 1, 1);
    }
    end(&w);
}

static void in_any_order(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        one_crowd(seed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_a_channel_that_closed_inside_a_call),
        cmocka_unit_test(after_an_answer_that_found_no_channel),
        cmocka_unit_test(after_a_heartbeat),
        cmocka_unit_test(after_a_deadline),
        cmocka_unit_test(in_any_order),
    };
    return cmocka_run_group_tests_name("handler/linkd_rest", tests, NULL, NULL);
}
