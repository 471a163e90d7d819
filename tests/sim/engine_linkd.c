/* Calls over linkd: every one is answered exactly once, with what was sent, or told why not. */
#include "loop/loop.h"
#include "sim/engine.h"
#include <string.h>

enum { PAYLOAD_MAX = 3000, SERVICE_ECHO = 1, SERVICE_LATE, SERVICE_ORDERED, SERVICE_UNORDERED };

struct late { /* an answer that comes later */
    struct weir_timer timer;
    struct weir_linkd_ref ref;
    bool called;
};

static int answer(struct weir_linkd_call *x) {
    return weir_linkd_answer(x, weir_linkd_payload(x));
}

static int echo_call(struct weir_linkd_call *x, void *user) {
    (void)user;
    return answer(x);
}

static void late_due(struct weir_timer *t) {
    struct late *p = container_of(t, struct late, timer);
    struct weir_linkd_call *x = weir_linkd_find(t->loop, p->ref);
    DEMAND(p->called, "linkd: a call is done and its timer is not");
    if (x) /* else its channel closes, and done is about to come */
        DEMAND(answer(x) == 0, "linkd: an open call cannot be answered");
}

static int late_call(struct weir_linkd_call *x, void *user) {
    struct run *r = user;
    struct late *p = weir_linkd_state(x);
    struct weir_loop *l = weir__loop_current;
    DEMAND(!p->called, "linkd: a call with another one's state");
    p->called = true;
    p->ref = weir_linkd_call_ref(x);
    weir_timer_arm(l, &p->timer, weir_loop_now(l) + 1000 * engine_draw(r, 5000), late_due);
    return 0;
}

static void late_done(struct weir_linkd_call *x, int why) {
    struct late *p = weir_linkd_state(x);
    (void)why;
    DEMAND(p->called, "linkd: a call that never began is done, or one is done twice");
    p->called = false;
    weir_timer_disarm(&p->timer);
}

/* --- a worker answers ------------------------------------------------------------------------ */

struct task {
    struct weir_linkd_job job;
    struct run *run;
    struct weir_chain answer;
    uint8_t *to; /* room for it */
    bool ran;
};

static void task_run(struct weir_linkd_job *j) {
    struct task *t = container_of(j, struct task, job);
    uint8_t *to = t->to;
    DEMAND(!t->ran, "linkd: a job runs twice");
    t->ran = true;
    for (const struct weir_part *p = j->payload.first; p; p = p->next)
        for (size_t i = 0; i < p->slice.n; i++)
            *to++ = p->slice.p[i] ^ TURN;
}

static void task_free(struct task *t) {
    weir_chain_fini(&t->answer);
    weir_chain_fini(&t->job.payload);
    weir_mem_free(t);
}

static void task_done(struct weir_linkd_call *x, struct weir_linkd_job *j, int status) {
    struct task *t = container_of(j, struct task, job);
    engine_job_done(t->run, status, t->ran);
    DEMAND((x != NULL) == (status == 0), "linkd: a job is done with %s and %s call",
           weir_errname(status), x ? "a" : "no");
    if (x)
        DEMAND(weir_linkd_answer(x, &t->answer) == 0, "linkd: a job cannot answer its call");
    task_free(t);
}

static int task_call(struct weir_linkd_call *x, void *user) {
    struct run *r = user;
    uint64_t n = weir_linkd_payload(x)->bytes;
    bool ordered = weir_linkd_service_number(x) == SERVICE_ORDERED;
    struct task *t = weir_mem_new(weir_linkd_mem(x), sizeof *t);
    DEMAND(t, "no memory for a job");
    *t = (struct task){.job = {.run = task_run, .done = task_done}, .run = r};
    t->to = weir_chain_reserve(weir_linkd_mem(x), &t->answer, n + 1);
    DEMAND(t->to, "no memory for the answer of a job");
    weir_chain_commit(&t->answer, n);
    int rc = weir_linkd_offload(x, &t->job, ordered ? WEIR_ORDERED : WEIR_UNORDERED);
    if (rc == 0) {
        engine_job_taken(r);
        return 0;
    }
    DEMAND(rc != WEIR_EFULL, "linkd: a call came before there was room for its job");
    DEMAND(r->weather.job_enomem_ppm || r->storm || r->halted, "linkd: a job is refused: %s",
           weir_errname(rc));
    engine_deeds[DEED_JOB_REFUSED]++;
    task_free(t);
    return rc;
}

static const struct weir_linkd_service echo = {.name = "echo", .call = echo_call};
static const struct weir_linkd_service late = {
    .name = "late", .state_size = sizeof(struct late), .call = late_call, .done = late_done};
static const struct weir_linkd_service task = {.name = "task", .call = task_call, .offloads = true};

void engine_linkd_serve(struct run *r) {
    r->routes[0] = (struct weir_linkd_route){SERVICE_ECHO, &echo, r};
    r->routes[1] = (struct weir_linkd_route){SERVICE_LATE, &late, r};
    r->routes[2] = (struct weir_linkd_route){SERVICE_ORDERED, &task, r};
    r->routes[3] = (struct weir_linkd_route){SERVICE_UNORDERED, &task, r};
    r->linkd = (struct weir_linkd_server_options){
        .size = sizeof r->linkd, .routes = r->routes, .n_routes = ARRAY_LEN(r->routes)};
    struct weir_stage stages[] = {{&weir_linkd_server, &r->linkd}};
    struct weir_server *server;
    char address[ADDRESS_MAX];
    engine_address(LINKD, address);
    struct weir_server_options o = {.size = sizeof o,
                                    .address = address,
                                    .stages = stages,
                                    .n_stages = 1,
                                    .limits = r->limits,
                                    .placement = r->seed % 3 == 0 ? WEIR_HANDOFF : WEIR_REUSEPORT};
    DEMAND(weir_serve(r->group, &o, &server) == 0, "%s", weir_server_why(r->group));
}

/* --- the client ------------------------------------------------------------------------------ */

static bool offloaded(const struct call *k) {
    return k->service == SERVICE_ORDERED || k->service == SERVICE_UNORDERED;
}

/* Call number i carries `bytes` of the noise from i on. */
static void check_answer(struct call *k, const struct weir_chain *payload) {
    struct conn *c = k->conn;
    const uint8_t *want = c->run->noise + k->number;
    uint8_t got[PAYLOAD_MAX];
    DEMAND(payload->bytes == k->bytes, "linkd: call %u of conn %u: %llu bytes of %zu", k->number,
           c->id, (unsigned long long)payload->bytes, k->bytes);
    DEMAND(weir_chain_read(payload, 0, got, k->bytes) == 0, "linkd: an answer cannot be read");
    for (size_t i = 0; offloaded(k) && i < k->bytes; i++)
        got[i] ^= TURN;
    DEMAND(!memcmp(got, want, k->bytes), "linkd: call %u of conn %u: another answer", k->number,
           c->id);
    if (k->service != SERVICE_ORDERED)
        return;
    DEMAND(k->number >= c->next_ordered, "linkd: conn %u: call %u is answered behind a later one",
           c->id, k->number);
    c->next_ordered = k->number + 1;
}

static bool may_fail(const struct call *k, const struct weir_linkd_reply *r) {
    const struct run *run = k->conn->run;
    if (run->storm || run->halted || (k->cancelled && r->status == WEIR_ECANCELLED))
        return true;
    return run->weather.job_enomem_ppm && offloaded(k) && r->code == WEIR_LINKD_OVERLOADED;
}

/* Its job may be on the way, or back and not first in line. */
static void cancel_one(struct conn *c) {
    struct call *k = &c->call[engine_draw(c->run, CALLS)];
    if (k->over || k->cancelled || !offloaded(k))
        return;
    k->cancelled = true;
    engine_deeds[DEED_JOB_CANCELLED]++;
    weir_linkd_cancel(k->open);
}

static void on_reply(const struct weir_linkd_reply *r, void *user) {
    struct call *k = user;
    struct conn *c = k->conn;
    DEMAND(r->last && !k->over, "linkd: call %u of conn %u is over twice", k->number, c->id);
    k->over = true;
    c->replies++;
    if (r->status == 0)
        check_answer(k, r->payload);
    else
        DEMAND(may_fail(k, r), "linkd: call %u of conn %u: %s, %u", k->number, c->id,
               weir_errname(r->status), r->code);
    if (c->replies == c->calls)
        weir_chan_close(weir_linkd_client_chan(c->linkd), WEIR_DRAIN);
    else if (c->run->offloads && engine_chance(c->run, 6))
        cancel_one(c);
}

static uint16_t draw_service(struct run *r) {
    return (uint16_t)(SERVICE_ECHO + engine_draw(r, r->offloads ? 4 : 2));
}

static void on_open(struct weir_linkd_client *l, void *user) {
    struct conn *c = user;
    c->linkd = l;
    for (unsigned i = 0; i < CALLS; i++) {
        struct call *k = &c->call[i];
        struct weir_chain payload = {0};
        *k = (struct call){.conn = c,
                           .number = i,
                           .service = draw_service(c->run),
                           .bytes = engine_draw(c->run, PAYLOAD_MAX)};
        struct weir_linkd_request o = {.size = sizeof o, .service = k->service};
        engine_chain(c->loop, &payload, c->run->noise + i, k->bytes);
        int rc = weir_linkd_start(l, &o, &payload, &k->open, on_reply, k);
        DEMAND(rc == 0, "linkd: conn %u: a call does not start: %s", c->id, weir_errname(rc));
        c->calls++;
    }
}

static void on_close(struct weir_linkd_client *l, int why, void *user) {
    struct conn *c = user;
    DEMAND(l == c->linkd && !c->linkd_closed, "linkd: conn %u closed twice", c->id);
    engine_say("conn %u (linkd client) closed: %s, %u of %u calls", c->id, weir_errname(why),
               c->replies, c->calls);
    c->linkd_closed = true;
}

static void on_connect(struct weir_chan *ch, int status, void *user) {
    struct conn *c = user;
    (void)ch;
    DEMAND(!c->answered, "linkd: conn %u: connect answered twice", c->id);
    DEMAND(status == 0 || c->run->storm || c->run->scarce || c->run->halted,
           "linkd: conn %u: connect answers %s", c->id, weir_errname(status));
    c->answered = true;
    c->status = status;
}

static void begin(struct weir_loop *l, void *conn) {
    struct conn *c = conn;
    c->linkd_options = (struct weir_linkd_client_options){
        .size = sizeof c->linkd_options, .open = on_open, .close = on_close, .user = c};
    struct weir_stage line[] = {{&weir_linkd_client_handler, &c->linkd_options}};
    char address[ADDRESS_MAX];
    engine_address(LINKD, address);
    struct weir_client_options o = {.size = sizeof o,
                                    .address = address,
                                    .stages = line,
                                    .n_stages = 1,
                                    .limits = c->run->limits};
    int rc = weir_connect(l, &o, on_connect, c);
    DEMAND(rc == 0 || c->run->scarce || c->run->halted, "linkd: connect refuses: %s",
           weir_errname(rc));
    if (rc < 0) {
        c->answered = true;
        c->status = rc;
    }
}

void engine_linkd_begin(struct conn *c) {
    if (weir_loop_post(c->loop, begin, c) < 0) {
        c->answered = true;
        c->status = WEIR_ESTOPPED;
    }
}

void engine_linkd_verdict(const struct conn *c) {
    DEMAND(c->answered, "linkd: conn %u: connect never answered", c->id);
    DEMAND(c->linkd_closed == (c->linkd != NULL), "linkd: conn %u never closed", c->id);
    DEMAND(c->replies == c->calls, "linkd: conn %u: %u of %u calls ended", c->id, c->replies,
           c->calls);
}
