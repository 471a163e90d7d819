#include "kit/actor.h"
#include "base/assert.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* --- the pattern ----------------------------------------------------------------------------- */

enum { PERIOD = 65521, TABLE = PERIOD + 65536 }; /* a prime, so that no buffer size hides a shift */

static const uint8_t *pattern_at(uint64_t at) {
    static uint8_t table[TABLE];
    static bool made;
    for (size_t i = 0; i < TABLE && !made; i++)
        table[i] = (uint8_t)((i % PERIOD) * 31 ^ (i % PERIOD) >> 8);
    made = true;
    return table + at % PERIOD;
}

void pattern_fill(uint8_t *out, uint64_t at, size_t n) {
    for (size_t cut; n; n -= cut, at += cut, out += cut) {
        cut = n < 65536 ? n : 65536;
        memcpy(out, pattern_at(at), cut);
    }
}

bool pattern_is(const uint8_t *p, uint64_t at, size_t n) {
    for (size_t cut; n; n -= cut, at += cut, p += cut) {
        cut = n < 65536 ? n : 65536;
        if (memcmp(p, pattern_at(at), cut) != 0)
            return false;
    }
    return true;
}

/* --- the trace ------------------------------------------------------------------------------- */

WEIR_PRINTF(2, 0) static void append(struct actor *a, const char *fmt, va_list ap) {
    if (a->n_text >= ACTOR_TRACE_MAX)
        return;
    if (a->n_text) {
        memcpy(a->text + a->n_text, "; ", 3);
        a->n_text += 2;
    }
    size_t room = sizeof a->text - a->n_text;
    int n = vsnprintf(a->text + a->n_text, room, fmt, ap);
    a->n_text += (size_t)n < room ? (size_t)n : room - 1;
}

WEIR_PRINTF(2, 3) static void append_text(struct actor *a, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    append(a, fmt, ap);
    va_end(ap);
}

static void end_run(struct actor *a) {
    if (!a->run)
        return;
    if (a->pattern)
        append_text(a, "read %llu %s", (unsigned long long)a->run, a->run_bad ? "BAD" : "ok");
    else if (a->run <= ACTOR_TEXT_MAX)
        append_text(a, "read %llu '%.*s'", (unsigned long long)a->run, (int)a->run, a->run_text);
    else
        append_text(a, "read %llu", (unsigned long long)a->run);
    a->run = 0;
    a->run_bad = false;
}

void note(struct actor *a, const char *fmt, ...) {
    va_list ap;
    end_run(a);
    va_start(ap, fmt);
    append(a, fmt, ap);
    va_end(ap);
}

const char *actor_trace(struct actor *a) {
    static char out[sizeof a->text];
    size_t n_text = a->n_text;
    uint64_t run = a->run;
    bool bad = a->run_bad;
    end_run(a); /* only as it looks now: more may follow */
    memcpy(out, a->text, a->n_text);
    out[a->n_text] = 0;
    a->n_text = n_text;
    a->run = run;
    a->run_bad = bad;
    return out;
}

void expect_at(struct actor *a, const char *file, int line, const char *want) {
    const char *have = actor_trace(a);
    if (strcmp(have, want) != 0)
        pair_fail(a->pair, file, line, "expected of the %s:\n    %s",
                  a->who == SERVER ? "server" : "client", want);
}

static void note_bytes(struct actor *a, const uint8_t *p, size_t n) {
    if (!a->run)
        a->run_at = a->got;
    if (a->pattern && !pattern_is(p, a->got, n))
        a->run_bad = true;
    for (size_t i = 0; i < n && a->run + i < ACTOR_TEXT_MAX; i++)
        a->run_text[a->run + i] = (char)(p[i] >= ' ' && p[i] < 127 ? p[i] : '.');
    a->run += n;
    a->got += n;
}

void actor_take(struct actor *a, struct weir_chain *in, uint64_t n) {
    uint64_t left = n;
    must(n <= in->bytes);
    for (const struct weir_part *p = in->first; left; p = p->next) {
        size_t cut = p->slice.n < left ? p->slice.n : (size_t)left;
        note_bytes(a, p->slice.p, cut);
        left -= cut;
    }
    weir_chain_drop(in, n);
}

/* --- the handler ----------------------------------------------------------------------------- */

static struct actor *of(struct weir_ctx *c) {
    struct actor *a = *(struct actor **)weir_ctx_state(c);
    a->ctx = c;
    return a;
}

static int on_open(struct weir_ctx *c, const void *config) {
    *(struct actor **)weir_ctx_state(c) = (struct actor *)(uintptr_t)config;
    struct actor *a = of(c);
    a->ref = weir_chan_ref(weir_ctx_chan(c));
    a->opens++;
    note(a, "open");
    int rc = a->open ? a->open(a) : 0;
    if (rc < 0) { /* its close is not owed */
        a->refusals++;
        a->ctx = NULL;
    }
    return rc;
}

static int on_read(struct weir_ctx *c, struct weir_chain *in) {
    struct actor *a = of(c);
    a->reads++;
    if (a->read)
        return a->read(a, in);
    actor_take(a, in, in->bytes);
    return 0;
}

static void on_read_done(struct weir_ctx *c) {
    struct actor *a = of(c);
    if (a->read_done)
        a->read_done(a);
}

static void on_eof(struct weir_ctx *c, bool clean) {
    struct actor *a = of(c);
    a->eofs++;
    note(a, clean ? "eof clean" : "eof unclean");
    if (a->eof)
        a->eof(a);
}

static int64_t on_pull(struct weir_ctx *c, uint64_t room) {
    struct actor *a = of(c);
    a->pulls++;
    return a->pull ? a->pull(a, room) : 0;
}

static void on_writable(struct weir_ctx *c, bool yes) {
    struct actor *a = of(c);
    *(yes ? &a->writables : &a->fulls) += 1;
    if (!a->hush_marks)
        note(a, yes ? "writable" : "full");
    if (a->writable)
        a->writable(a, yes);
}

static void on_event(struct weir_ctx *c, int what, const void *data) {
    (void)data;
    struct actor *a = of(c);
    if (what == WEIR_EVENT_IDLE)
        note(a, "idle");
    else if (what == WEIR_EVENT_DRAIN)
        note(a, "drain");
    else
        note(a, "event %d", what);
    if (a->event)
        a->event(a, what);
}

static void on_close(struct weir_ctx *c, int why) {
    struct actor *a = of(c);
    a->closes++;
    a->why = why;
    note(a, "close %s", why ? weir_errname(why) : "0");
    if (a->close)
        a->close(a);
    a->ctx = NULL;
}

#define COMMON                                                                               \
    .name = "actor", .state_size = sizeof(struct actor *), .open = on_open, .read = on_read, \
    .read_done = on_read_done, .eof = on_eof, .pull = on_pull, .writable = on_writable,      \
    .close = on_close

const struct weir_handler actor_handler = {COMMON};
const struct weir_handler actor_event_handler = {COMMON, .event = on_event};

void actors_sample(struct pair *p) {
    for (struct actor *a = p->actors; a; a = a->next) {
        if (!a->ctx)
            continue;
        struct weir_chan_counters n;
        weir_chan_counters(weir_ctx_chan(a->ctx), &n);
        a->max_queued = n.queued > a->max_queued ? n.queued : a->max_queued;
        a->max_held = n.held > a->max_held ? n.held : a->max_held;
        a->max_leftover = n.leftover > a->max_leftover ? n.leftover : a->max_leftover;
        a->max_inflight = n.inflight > a->max_inflight ? n.inflight : a->max_inflight;
    }
}

/* --- beginnings ------------------------------------------------------------------------------ */

static void join(struct pair *p, enum pair_who who, struct actor *a) {
    if (a->pair)
        return;
    a->pair = p;
    a->who = who;
    a->next = p->actors;
    p->actors = a;
}

static unsigned stages_of(const struct actor *a, struct weir_stage *out) {
    memcpy(out, a->front, a->n_front * sizeof *out);
    out[a->n_front] = (struct weir_stage){a->handler ? a->handler : &actor_handler, a};
    return a->n_front + 1;
}

void serve(struct pair *p, enum pair_who who, struct actor *a) {
    struct weir_stage stages[ACTOR_STAGES_MAX];
    struct weir_server_options o = {.size = sizeof o, .limits = a->limits};
    struct weir_server *server;
    char address[128];
    pair_address(p, address, sizeof address);
    o.address = p->listen_at[0] ? p->listen_at : address;
    o.stages = stages;
    o.n_stages = stages_of(a, stages);
    join(p, who, a);
    int rc = weir_serve(p->side[who].group, &o, &server);
    if (rc < 0)
        fail_case(p, "cannot serve: %s", weir_server_why(p->side[who].group));
    snprintf(p->address, sizeof p->address, "%s", weir_server_address(server));
}

static void on_connected(struct weir_chan *ch, int status, void *user) {
    struct actor *a = user;
    a->answers++;
    a->status = status;
    if (status < 0)
        note(a, "connect %s", weir_errname(status));
    if (a->connected)
        a->connected(a, ch);
}

void dial(struct pair *p, enum pair_who who, struct actor *a) {
    struct weir_stage stages[ACTOR_STAGES_MAX];
    struct weir_client_options o = {.size = sizeof o, .address = p->address, .limits = a->limits};
    o.stages = stages;
    o.n_stages = stages_of(a, stages);
    o.connect_ms = a->connect_ms;
    join(p, who, a);
    struct weir_loop *before = pair_act_as(p, who);
    unsigned answers = a->answers;
    int rc = weir_connect(p->side[who].loop, &o, on_connected, a);
    weir__loop_enter(before);
    demand(p, a->answers == answers); /* never from inside the call */
    if (rc < 0)
        note(a, "refused %s", weir_errname(rc));
    else
        a->dials++;
}

void link_up(struct pair *p, struct actor *s, struct actor *c) {
    serve(p, SERVER, s);
    dial(p, CLIENT, c);
    until(p, s->opens && c->answers);
}

/* --- words ----------------------------------------------------------------------------------- */

int send_chain(struct actor *a, struct weir_chain *c) {
    struct weir_loop *before = pair_act_as(a->pair, a->who);
    int rc = a->ctx ? weir_ctx_send(a->ctx, c) : WEIR_EGONE;
    if (rc < 0)
        weir_chain_fini(c);
    weir__loop_enter(before);
    return rc < 0 ? rc : 0;
}

int say(struct actor *a, const char *text) {
    struct weir_loop *before = pair_act_as(a->pair, a->who);
    struct weir_chain c = {0};
    must(weir_chain_write(a->pair->side[a->who].mem, &c, text, strlen(text)) == 0);
    int rc = send_chain(a, &c);
    weir__loop_enter(before);
    return rc;
}

static void add_pattern(struct weir_mem *m, struct weir_chain *c, uint64_t at, uint64_t n) {
    for (uint64_t done = 0; done < n;) {
        size_t cut = n - done < ACTOR_PIECE ? (size_t)(n - done) : ACTOR_PIECE;
        struct weir_slice s;
        must(weir_slice_new(m, cut, &s) == 0);
        pattern_fill(s.p, at + done, cut);
        must(weir_chain_add(m, c, &s) == 0);
        done += cut;
    }
}

int pour(struct actor *a, uint64_t n) {
    struct weir_loop *before = pair_act_as(a->pair, a->who);
    struct weir_chain c = {0};
    add_pattern(a->pair->side[a->who].mem, &c, a->poured, n);
    int rc = send_chain(a, &c);
    if (rc == 0)
        a->poured += n;
    weir__loop_enter(before);
    return rc;
}

int pour_to_goal(struct actor *a) {
    while (a->ctx && a->poured < a->goal && weir_ctx_room(a->ctx) > 0) {
        uint64_t left = a->goal - a->poured, step = a->step ? a->step : ACTOR_PIECE;
        int rc = pour(a, left < step ? left : step);
        if (rc < 0)
            return rc;
    }
    return 0;
}

#define ACT(a, call)                                                  \
    do {                                                              \
        struct weir_loop *before_ = pair_act_as((a)->pair, (a)->who); \
        if ((a)->ctx)                                                 \
            call;                                                     \
        weir__loop_enter(before_);                                    \
    } while (0)

void close_it(struct actor *a, enum weir_close how) {
    ACT(a, weir_chan_close(weir_ctx_chan(a->ctx), how));
}

void shut_it(struct actor *a) {
    ACT(a, weir_chan_shutdown(weir_ctx_chan(a->ctx)));
}

void credit_it(struct actor *a, int64_t bytes) {
    ACT(a, weir_chan_credit(weir_ctx_chan(a->ctx), bytes));
}

void wake_it(struct actor *a) {
    ACT(a, weir_ctx_wake(a->ctx));
}

void ready_it(struct actor *a) {
    ACT(a, weir_ctx_ready(a->ctx));
}

struct weir_chan_counters counters_of(struct actor *a) {
    struct weir_chan_counters n = {0};
    if (a->ctx)
        weir_chan_counters(weir_ctx_chan(a->ctx), &n);
    return n;
}

int64_t room_of(struct actor *a) {
    return a->ctx ? weir_ctx_room(a->ctx) : 0;
}

bool all_sent(struct actor *a) {
    struct weir_chan_counters n = counters_of(a);
    return n.queued + n.inflight == 0;
}
