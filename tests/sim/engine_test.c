#include "sim/engine.h"
#include <signal.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum {
    SEEDS = 300,          /* unless WEIR_SIM_SEEDS says how many */
    RUN_MS = 60000,       /* virtual: far more than any scenario needs */
    STEPS_MAX = 20000000, /* more than any scenario takes: something spins */
    TICK_NS = 200000,
    FAULTS_MAX = 32,
    REPLAY_EVERY = 50,
};

static const char *const deed_names[DEEDS] = {
    "shut-early",      "truncated",     "vanished",      "left",     "never-read",
    "foreign-send",    "foreign-close", "foreign-abort", "dead-ref", "full",
    "paused",          "filtered",      "stalled",       "burnt",    "halted",
    "connect-timeout", "job-done",      "job-refused",   "job-gone", "job-stopped",
    "job-cancelled",   "pinned"};

uint64_t engine_deeds[DEEDS];
bool engine_verbose;
static uint64_t current, faults[FAULTS_MAX];
static char line[400];

/* --- saying so ------------------------------------------------------------------------------- */

void engine_fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = snprintf(line, sizeof line, "seed %llu: ", (unsigned long long)current);
    vsnprintf(line + n, sizeof line - (size_t)n, format, args);
    va_end(args);
    puts(line);
    fflush(stdout);
    _Exit(1);
}

void engine_say(const char *format, ...) {
    va_list args;
    if (!engine_verbose)
        return;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

/* What an assertion or a bad access leaves: the seed, and the usual end. */
static void on_signal(int number) {
    int n = snprintf(line, sizeof line, "seed %llu: stopped by signal %d\n",
                     (unsigned long long)current, number);
    if (write(STDOUT_FILENO, line, (size_t)n) < 0)
        _Exit(2);
    signal(number, SIG_DFL);
    raise(number);
}

/* --- one world ------------------------------------------------------------------------------- */

struct steps {
    struct run *run;
    uint64_t next_ns, steps;
};

static void begin(struct conn *c) {
    c->begun = true;
    if (c->kind == LINKD)
        engine_linkd_begin(c);
    else if (c->weir)
        engine_client_begin(c);
    else
        engine_peer_begin(c);
}

static void tick(struct run *r, uint64_t now) {
    for (unsigned i = 0; i < r->n_conns; i++) {
        struct conn *c = &r->conns[i];
        if (!c->begun && now >= c->begin_ns)
            begin(c);
        engine_peer_tick(c);
    }
    engine_raw_tick(r);
    if (r->halt && !r->halted && now >= r->halt_ns) {
        r->halted = true;
        engine_deeds[DEED_HALTED]++;
        weir_group_stop(r->group, (uint32_t)engine_draw(r, 3) * 100);
    }
}

static bool over(const struct conn *c) {
    if (!c->begun)
        return false;
    if (c->kind == LINKD)
        return c->answered && (!c->linkd || c->linkd_closed);
    if (!c->weir)
        return engine_peer_done(c) && (!c->server || c->server->closed || c->habit == NEVER);
    return c->answered && (!c->client || c->client->closed) && (!c->server || c->server->closed);
}

static bool stepped(struct steps *s) {
    struct run *r = s->run;
    uint64_t now = weir_sim_now(r->sim);
    DEMAND(++s->steps < STEPS_MAX, "something spins");
    if (now < s->next_ns)
        return false;
    s->next_ns = now + TICK_NS;
    tick(r, now);
    return true;
}

static bool all_over(void *user) {
    struct steps *s = user;
    if (!stepped(s))
        return false;
    for (unsigned i = 0; i < s->run->n_conns; i++)
        if (!over(&s->run->conns[i]))
            return s->run->halted;
    return true;
}

static bool all_closed(void *user) {
    struct steps *s = user;
    const struct run *r = s->run;
    stepped(s);
    for (unsigned i = 0; i < r->n_ends; i++)
        if (!r->ends[i].closed)
            return false;
    for (unsigned i = 0; i < r->n_conns; i++) {
        const struct conn *c = &r->conns[i];
        if (c->weir && c->begun && (!c->answered || (c->linkd && !c->linkd_closed)))
            return false;
    }
    return true;
}

static void not_over(const struct run *r, int rc) {
    for (unsigned i = 0; i < r->n_conns; i++) {
        const struct conn *c = &r->conns[i];
        const uint8_t *got;
        if (!over(c))
            engine_fail(
                "conn %u (%s, %s) does not go on (%d): %zu of %zu bytes came, %zu of %zu back",
                c->id, engine_kind_names[c->kind], engine_habit_names[c->habit], rc,
                c->server ? (size_t)c->server->got : 0, c->n_data,
                c->peer     ? weir_sim_peer_got(c->peer, &got)
                : c->client ? (size_t)c->client->got
                            : 0,
                c->n_reply);
    }
    engine_fail("the world does not go on (%d)", rc);
}

static void end_verdict(const struct run *r, const struct end *e) {
    const struct conn *c = e->conn;
    DEMAND(e->closed, "a channel (%s) was never closed", engine_kind_names[e->kind]);
    if (r->storm || r->halt || !c || c->breaks)
        return;
    if (e->kind == IDLE && !e->client) {
        DEMAND(e->why == WEIR_EIDLE || e->eof, "conn %u (idle): ended with %s", c->id,
               weir_errname(e->why));
    } else if (e->kind != RAW) {
        DEMAND(e->why == 0, "conn %u (%s%s): ended with %s", c->id, engine_kind_names[e->kind],
               e->client ? " client" : "", weir_errname(e->why));
    }
    size_t all = e->n_expect;
    if (!e->client && c->habit == TRUNCATE && c->kind == FRAMED)
        all = c->n_reply;
    if (e->client ? c->habit != AWAY_CLOSE : engine_reads_all(e->kind))
        DEMAND(e->got == all, "conn %u (%s%s): %llu bytes came, not %zu", c->id,
               engine_kind_names[e->kind], e->client ? " client" : "", (unsigned long long)e->got,
               all);
}

static void verdict(const struct run *r) {
    DEMAND(r->jobs_done == r->jobs_taken, "%u jobs of %u are done", r->jobs_done, r->jobs_taken);
    for (unsigned i = 0; i < r->n_ends; i++)
        end_verdict(r, &r->ends[i]);
    for (unsigned i = 0; i < r->n_conns; i++) {
        const struct conn *c = &r->conns[i];
        if (!c->begun)
            continue;
        if (c->kind == LINKD)
            engine_linkd_verdict(c);
        else if (c->peer)
            engine_peer_verdict(c);
        else
            DEMAND(c->answered, "conn %u: connect never answered", c->id);
    }
}

static void tally(struct weir_sim *s) {
    const char *name;
    for (unsigned i = 0; weir_sim_fault(s, i, &name), name; i++)
        faults[i] += weir_sim_fault(s, i, NULL);
}

static void set_up(struct run *r, uint64_t seed) {
    char address[ADDRESS_MAX];
    memset(r, 0, sizeof *r);
    r->seed = seed;
    engine_plan(r);
    r->sim = weir_sim_new(&r->weather);
    DEMAND(r->sim, "no world");
    r->group = weir_sim_group(r->sim);
    engine_serve(r);
    engine_linkd_serve(r);
    engine_address(RAW, address);
    r->raw = weir_sim_listen(r->sim, address);
    DEMAND(r->raw, "no raw listener");
    engine_place(r);
    engine_ghosts(r);
}

static uint64_t one(uint64_t seed) {
    static struct run r;
    current = seed;
    set_up(&r, seed);
    struct steps s = {.run = &r};
    int rc = weir_sim_run(r.sim, RUN_MS, all_over, &s);
    if (rc != 1)
        not_over(&r, rc);
    weir_group_stop(r.group, (uint32_t)engine_draw(&r, 2) * 500);
    rc = weir_sim_run(r.sim, RUN_MS, all_closed, &s);
    DEMAND(rc == 1, "a channel or a connect does not end with its group (%d)", rc);
    DEMAND(weir_group_join(r.group) == 0, "the loops ended with an error");
    verdict(&r);
    uint64_t trace = weir_sim_trace(r.sim);
    tally(r.sim);
    int left = weir_sim_free(r.sim);
    DEMAND(left == 0, "%d things were left", left);
    return trace;
}

/* --- all of them ----------------------------------------------------------------------------- */

static bool never_here(const char *name) {
    return !strncmp(name, "dgram", 5); /* channels carry no datagrams */
}

static void show(const char *name, uint64_t n, bool demanded) {
    print_message("  %-16s %llu\n", name, (unsigned long long)n);
    if (demanded && n == 0)
        fail_msg("no %s in all these seeds", name);
}

static void tell(uint64_t seeds) {
    struct weir_sim *s = weir_sim_new(NULL);
    const char *name;
    print_message("injected over %llu seeds:\n", (unsigned long long)seeds);
    for (unsigned i = 0; weir_sim_fault(s, i, &name), name; i++)
        if (!never_here(name))
            show(name, faults[i], seeds >= SEEDS);
    for (unsigned i = 0; i < DEEDS; i++)
        show(deed_names[i], engine_deeds[i], seeds >= SEEDS);
    assert_int_equal(weir_sim_free(s), 0);
}

static void the_engine_survives_every_seed(void **state) {
    (void)state;
    const char *only = getenv("WEIR_SEED"), *many = getenv("WEIR_SIM_SEEDS");
    uint64_t seeds = many ? strtoull(many, NULL, 10) : SEEDS;
    for (int i = 0; i < 3; i++) /* here: cmocka has its own by now */
        signal((int[]){SIGABRT, SIGSEGV, SIGBUS}[i], on_signal);
    if (only) {
        engine_verbose = true;
        one(strtoull(only, NULL, 10));
        return;
    }
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        uint64_t trace = one(seed);
        if (seed % REPLAY_EVERY == 0)
            DEMAND(trace == one(seed), "a second run of the same seed went another way");
    }
    tell(seeds);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_engine_survives_every_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
