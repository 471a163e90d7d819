/* A client and a server back to back, both ours: whatever the plan does, every call ends exactly
 * once on both ends, every byte that is delivered is the right one, and once the plan is over
 * everything that can finish does. */
#include "fuzz/linkd_host.h"

enum { CALLS_MAX = 24, SPINS_MAX = 20000 };

struct record { /* the client's view of one call */
    uint64_t sent, got;
    bool over;
};

struct talk {
    struct weir_mem *m;
    struct fuzz_end client, server;
    struct record records[CALLS_MAX];
    uint64_t started, ended, server_open, server_done;
    bool settling;
};

static struct fuzz_plan *now_plan;
static struct talk *now_talk;

static void check_bytes(uint64_t id, uint64_t from, const struct weir_chain *c) {
    for (const struct weir_part *p = c->first; p; from += p->slice.n, p = p->next)
        for (size_t i = 0; i < p->slice.n; i += 256) {
            size_t n = p->slice.n - i < 256 ? p->slice.n - i : 256;
            must(!memcmp(p->slice.p + i, fuzz_pattern(id, from + i), n));
        }
}

/* ---- server: 0 echoes whole messages, now or later; 1 echoes piece by piece; 2 fails ---- */

static int whole_call(struct weir_linkd_call *x, void *user) {
    (void)user;
    now_talk->server_open++;
    check_bytes(weir_linkd_id(x), 0, weir_linkd_payload(x));
    if (now_talk->settling || fuzz_one_in(now_plan, 2))
        return weir_linkd_answer(x, weir_linkd_payload(x));
    return 0;
}

static int piece_call(struct weir_linkd_call *x, void *user) {
    (void)user;
    (void)x;
    now_talk->server_open++;
    return 0;
}

static int fail_call(struct weir_linkd_call *x, void *user) {
    (void)x;
    (void)user;
    now_talk->server_open++;
    return WEIR_EFULL;
}

static int piece_body(struct weir_linkd_call *x, struct weir_chain *in, bool last) {
    bool *full = weir_linkd_state(x);
    while (in->bytes && !*full) {
        struct weir_chain piece = {0};
        uint64_t n = now_plan->n ? 1 + fuzz_below(now_plan, 30000) : 30000;
        must(weir_chain_move(weir_linkd_mem(x), &piece, in, n < in->bytes ? n : in->bytes) == 0);
        int64_t room = weir_linkd_write(x, &piece);
        must(room >= 0);
        *full = room == 0;
    }
    return last && !in->bytes ? weir_linkd_end(x) : 0;
}

static void piece_room(struct weir_linkd_call *x, uint64_t room) {
    must(room > 0);
    *(bool *)weir_linkd_state(x) = false;
    weir_linkd_resume(x);
}

static void any_done(struct weir_linkd_call *x, int why) {
    (void)x;
    (void)why;
    now_talk->server_done++;
}

static const struct weir_linkd_service services[] = {
    {.name = "whole", .call = whole_call, .done = any_done},
    {.name = "pieces",
     .state_size = sizeof(bool),
     .call = piece_call,
     .body = piece_body,
     .room = piece_room,
     .done = any_done},
    {.name = "fail", .call = fail_call, .done = any_done},
};
static const struct weir_linkd_route routes[] = {
    {0, &services[0], NULL}, {1, &services[1], NULL}, {2, &services[2], NULL}};
static const struct weir_linkd_server_options server_options = {.size = sizeof server_options,
                                                                .routes = routes,
                                                                .n_routes = 3,
                                                                .calls_max = 16,
                                                                .message_max = 4 << 20,
                                                                .held_max = 16 << 20};
static const struct weir_linkd_client_options client_options = {.size = sizeof client_options,
                                                                .calls_max = CALLS_MAX,
                                                                .message_max = 4 << 20,
                                                                .held_max = 16 << 20};

/* ---- client ---- */

static void reply(const struct weir_linkd_reply *r, void *user) {
    struct record *v = user;
    uint64_t id = weir_linkd_id(r->call);
    must(!v->over);
    if (!r->code) {
        uint64_t n = r->last || now_talk->settling ? r->payload->bytes : r->payload->bytes / 2;
        struct weir_chain taken = {0};
        must(weir_chain_move(now_talk->m, &taken, r->payload, n) == 0);
        check_bytes(id, v->got, &taken);
        v->got += taken.bytes;
        weir_chain_fini(&taken);
    }
    must(v->got <= v->sent);
    if (!r->last)
        return;
    must(r->status != 0 || v->got == v->sent);
    v->over = true;
    now_talk->ended++;
}

static void start(struct talk *t, struct fuzz_plan *f) {
    struct weir_linkd_request o = {.size = sizeof o,
                                   .service = (uint16_t)fuzz_below(f, 4),
                                   .more = fuzz_one_in(f, 2),
                                   .stream = fuzz_one_in(f, 2),
                                   .deadline_ms = fuzz_one_in(f, 4) ? 1 + fuzz_below(f, 20) : 0};
    if (t->started == CALLS_MAX)
        return;
    struct record *v = &t->records[t->started];
    size_t n = fuzz_one_in(f, 4) ? fuzz_below(f, fuzz_one_in(f, 4) ? 1500000 : 50000)
                                 : fuzz_below(f, 200);
    struct weir_chain c = fuzz_chain(t->m, t->client.k.next_id, 0, n);
    v->sent = n;
    if (weir_linkd_start(&t->client.k, &o, &c, NULL, reply, v) == 0)
        t->started++;
    weir_chain_fini(&c);
}

static void write_more(struct talk *t, struct weir_linkd_call *x, size_t n) {
    struct record *v = x->k.user;
    struct weir_chain c = fuzz_chain(t->m, x->id, v->sent, n);
    if (weir_linkd_write(x, &c) >= 0)
        v->sent += n;
    weir_chain_fini(&c);
}

/* ---- the wire ---- */

static void carry(struct talk *t, struct fuzz_end *from, struct fuzz_end *to, uint64_t n) {
    if (weir__linkd_ready(&from->s) && from->s.out.bytes < 64 << 10)
        must(weir__linkd_pull(&from->s, 64 << 10) >= 0);
    must(weir_chain_move(t->m, &to->in, &from->s.out,
                         n < from->s.out.bytes ? n : from->s.out.bytes) == 0);
    int rc = weir__linkd_read(&to->s, &to->in, 256 << 10);
    must(rc >= 0); /* two sound ends never break the protocol */
}

static void step(struct talk *t, struct fuzz_plan *f) {
    struct weir_linkd_call *x = fuzz_any(f, &t->client), *y = fuzz_any(f, &t->server);
    switch (fuzz_below(f, 10)) {
    case 0:
    case 1: start(t, f); break;
    case 2: carry(t, &t->client, &t->server, fuzz_below(f, 100000)); break;
    case 3: carry(t, &t->server, &t->client, fuzz_below(f, 100000)); break;
    case 4:
        if (x)
            write_more(t, x, fuzz_below(f, 70000));
        break;
    case 5:
        if (x)
            weir_linkd_end(x);
        break;
    case 6:
        if (x && fuzz_one_in(f, 2))
            weir_linkd_cancel(x);
        break;
    case 7:
        if (y && y->service == 0 && y->flags & WEIR__LINKD_CALLED)
            weir_linkd_answer(y, weir_linkd_payload(y));
        else if (y && fuzz_one_in(f, 6))
            weir_linkd_fail(y, WEIR_LINKD_INTERNAL, "no");
        break;
    case 8:
        t->client.now_ns = t->server.now_ns += fuzz_below(f, 8) * 1000000u;
        weir__linkd_expire(&t->client.s, t->client.now_ns);
        weir__linkd_expire(&t->server.s, t->server.now_ns);
        break;
    default:
        if (x)
            weir_linkd_resume(x);
        if (y)
            weir_linkd_resume(y);
    }
}

/* Ends what waits for its owner, on both ends. */
static void settle(struct talk *t) {
    for (uint32_t i = 0; i < t->client.s.table.size; i++) {
        struct weir_linkd_call *x = t->client.s.table.slots[i];
        if (x) {
            weir_linkd_end(x);
            weir_linkd_resume(x);
        }
    }
    for (uint32_t i = 0; i < t->server.s.table.size; i++) {
        struct weir_linkd_call *y = t->server.s.table.slots[i];
        if (y && y->route && y->service == 0 && y->flags & WEIR__LINKD_CALLED)
            weir_linkd_answer(y, weir_linkd_payload(y));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static struct talk t;
    struct fuzz_plan f = {data, n};
    memset(&t, 0, sizeof t);
    t.m = weir_mem_open("fuzz");
    now_plan = &f;
    now_talk = &t;
    t.client.now_ns = t.server.now_ns = 1;
    fuzz_open_client(&t.client, &client_options, t.m, 1);
    fuzz_open_server(&t.server, &server_options, t.m, 2);
    while (f.n)
        step(&t, &f);
    t.settling = true;
    for (unsigned spin = 0;
         t.client.s.open || t.server.s.open || t.client.s.out.bytes || t.server.in.bytes; spin++) {
        must(spin < SPINS_MAX);
        settle(&t);
        carry(&t, &t.client, &t.server, UINT64_MAX);
        carry(&t, &t.server, &t.client, UINT64_MAX);
    }
    must(t.started == t.ended && t.server_open == t.server_done);
    must(!t.server.s.table.count && !t.client.s.table.count);
    must(t.client.stats.malformed + t.server.stats.malformed == 0);
    fuzz_close(&t.client);
    fuzz_close(&t.server);
    must(weir_mem_live(t.m) == 0);
    weir_mem_close(t.m);
    return 0;
}
