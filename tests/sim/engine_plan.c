#include "sim/engine.h"
#include <stdio.h>
#include <string.h>

enum { CONNS_MIN = 9, MESSAGES_MIN = 220 };

const char *const engine_kind_names[KINDS] = {"echo",   "framed", "source", "stall", "credit",
                                              "half",   "filter", "push",   "hold",  "foreign",
                                              "refuse", "idle",   "raw",    "linkd"};
const char *const engine_habit_names[HABITS] = {
    "plain", "steps",   "slow",    "late", "early", "truncate",   "vanish", "leave",
    "never", "aborted", "haunted", "own",  "away",  "away-close", "hasty"};

uint64_t engine_draw(struct run *r, uint64_t n) {
    return weir__base_rng_below(&r->rng, n);
}

bool engine_chance(struct run *r, unsigned one_in) {
    return engine_draw(r, one_in) == 0;
}

void engine_address(enum kind k, char out[ADDRESS_MAX]) {
    snprintf(out, ADDRESS_MAX, "10.0.0.1:%u", 100 + (unsigned)k);
}

static uint32_t one_of(struct run *r, const uint32_t *values, unsigned n) {
    return values[engine_draw(r, n)];
}
#define ONE_OF(r, ...) \
    one_of(r, (const uint32_t[]){__VA_ARGS__}, ARRAY_LEN(((const uint32_t[]){__VA_ARGS__})))

bool engine_reads_all(enum kind k) {
    return k != REFUSE && k != FOREIGN && k != PUSH && k != SOURCE && k != RAW && k != LINKD;
}

static bool echoes(enum kind k) {
    return k == ECHO || k == FRAMED || k == STALL || k == CREDIT || k == FILTER || k == IDLE;
}

/* One seed in three has a storm; one in four is short of something; the rest must lose nothing. */
static void draw_weather(struct run *r) {
    r->storm = engine_chance(r, 3);
    r->scarce = engine_chance(r, 4);
    r->halt = engine_chance(r, 10);
    r->halt_ns = 1000000 * (1000 + 1 + engine_draw(r, 60));
    r->spread_us = ONE_OF(r, 1, 1000, 60000);
    r->loops = 2 + (unsigned)engine_draw(r, LOOPS_MAX - 1);
    r->weather = (struct weir_sim_options){
        .size = sizeof r->weather,
        .seed = r->seed,
        .loops = r->loops,
        .segment_max = ONE_OF(r, 40, 300, 1400, 4000),
        .delay_us_max = ONE_OF(r, 50, 1000, 5000),
        .window_bytes = ONE_OF(r, 1000, 4000, 16000, 0),
        .reset_ppm = r->storm ? ONE_OF(r, 300, 2000, 10000) : 0,
        .enomem_ppm = ONE_OF(r, 0, 0, 5000, 50000),
    };
    if (r->scarce && engine_chance(r, 2))
        r->weather.refuse_ppm = 200000;
    if (r->scarce && engine_chance(r, 2))
        r->weather.backlog_max = 1;
}

static void draw_limits(struct run *r) {
    struct weir_limits *l = &r->limits;
    l->high_bytes = ONE_OF(r, 500, 2048, 8192, 65536);
    l->low_bytes = ONE_OF(r, 1, l->high_bytes / 2, l->high_bytes - 1);
    l->batch_bytes = ONE_OF(r, 0, 256, 1000, 4096);
    l->drain_ms = 20000; /* far more than a slow end needs: what is cut short is a fault */
    l->linger_ms = 10000;
    l->read_while_full = engine_chance(r, 5);
}

/* Few jobs at a time, so that input waits for them; they come back in any order. More of these
 * worlds are stopped in the middle, some with jobs that have not run. */
static void draw_jobs(struct run *r) {
    r->offloads = true;
    r->halt = r->halt || engine_chance(r, 6);
    r->limits.offload_max = ONE_OF(r, 1, 2, 5, 0);
    r->weather.job_us_max = ONE_OF(r, 100, 3000, 60000);
    r->weather.job_enomem_ppm = r->scarce ? ONE_OF(r, 0, 50000) : 0;
}

/* --- what is said ---------------------------------------------------------------------------- */

static void fill(struct run *r, uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)weir__base_rng_next(&r->rng);
}

static size_t message_bytes(struct run *r) {
    switch (engine_draw(r, 8)) {
    case 0: return 1 + engine_draw(r, 3);
    case 1: return 400 + engine_draw(r, 500);
    default: return 3 + engine_draw(r, 200);
    }
}

/* The first message is the head. In a framed one the others begin with their length. */
static void draw_request(struct conn *c) {
    struct run *r = c->run;
    const uint8_t head[HEAD] = {0xc0, (uint8_t)c->id, (uint8_t)~c->id, 0x0d};
    unsigned n = 18 + (unsigned)engine_draw(r, 12);
    memcpy(c->data, head, HEAD);
    c->message_end[c->n_messages++] = c->n_data = HEAD;
    while (c->n_messages < n) {
        size_t bytes = message_bytes(r);
        if (c->kind == FRAMED)
            bytes += 2;
        fill(r, c->data + c->n_data, bytes);
        if (c->kind == FRAMED) {
            c->data[c->n_data] = (uint8_t)((bytes - 2) >> 8);
            c->data[c->n_data + 1] = (uint8_t)(bytes - 2);
        }
        c->message_end[c->n_messages++] = c->n_data += bytes;
    }
    r->messages += n;
}

static void draw_reply(struct conn *c) {
    struct run *r = c->run;
    if (c->kind == REFUSE || c->kind == LINKD)
        return;
    if (echoes(c->kind)) {
        c->reply = c->data;
        c->n_reply = c->n_data;
        return;
    }
    c->reply = r->noise;
    c->n_reply = c->kind == HOLD  ? engine_draw(r, 3000)
                 : c->kind == RAW ? RAW_BYTES
                                  : engine_draw(r, DATA_MAX);
}

/* TRUNCATE stops inside the last message: only a server of frames minds. */
static void truncate_request(struct conn *c) {
    size_t last = c->message_end[c->n_messages - 2];
    c->cut_at = last + 1 + engine_draw(c->run, c->n_data - last - 1);
    c->n_data = c->cut_at;
    c->message_end[c->n_messages - 1] = c->n_data;
    if (echoes(c->kind))
        c->n_reply = c->kind == FRAMED ? last : c->n_data;
}

/* --- who says it ----------------------------------------------------------------------------- */

static enum habit draw_habit(struct run *r, enum kind k) {
    if (k == RAW)
        return engine_chance(r, 2) ? OWN : AWAY;
    if (k == LINKD)
        return OWN;
    if (engine_chance(r, 12))
        return HASTY;
    enum habit h = (enum habit)engine_draw(r, HABITS - 1);
    if (h == AWAY_CLOSE && (k == HOLD || k == IDLE || k == HALF || k == REFUSE || k == FOREIGN))
        h = AWAY;
    if (h == TRUNCATE && (k == HOLD || k == IDLE))
        h = EARLY;
    return h;
}

static void draw_conn(struct run *r) {
    struct conn *c = &r->conns[r->n_conns];
    c->run = r;
    c->id = r->n_conns++;
    c->kind = (enum kind)engine_draw(r, KINDS);
    c->habit = draw_habit(r, c->kind);
    c->weir = c->habit >= RAW_HABITS;
    c->breaks = c->habit == VANISH || c->habit == LEAVE || c->habit == NEVER ||
                c->habit == ABORTED || c->habit == HAUNTED || c->habit == HASTY;
    c->begin_ns = 1000000000 + 1000 * engine_draw(r, r->spread_us);
    c->act_ns = c->begin_ns + 1000 * engine_draw(r, 80000);
    c->at = (unsigned)engine_draw(r, r->loops);
    c->other_at = (unsigned)engine_draw(r, r->loops);
    draw_request(c);
    draw_reply(c);
    if (c->habit == TRUNCATE)
        truncate_request(c);
    if (c->habit == VANISH)
        c->cut_at = 1 + engine_draw(r, c->n_data);
    c->server_ends = c->kind == HOLD || c->kind == FOREIGN || c->kind == REFUSE ||
                     c->kind == IDLE || c->kind == RAW ||
                     (c->kind != LINKD && c->kind != HALF && engine_chance(r, 3));
    c->shut = c->habit == EARLY || c->habit == TRUNCATE || c->habit == AWAY_CLOSE;
    engine_say("conn %u: %s, %s%s%s, %zu bytes in %u messages, %zu back", c->id,
               engine_kind_names[c->kind], engine_habit_names[c->habit],
               c->breaks ? ", may break" : "", c->server_ends ? ", server ends" : "", c->n_data,
               c->n_messages, c->n_reply);
}

/* A haunted channel leaves its slot, and the aborts under way to it, to one that must not break. */
static void draw_heirs(struct run *r) {
    unsigned next = 0;
    for (unsigned i = 0; i < r->n_conns; i++) {
        struct conn *c = &r->conns[i];
        while (next < r->n_conns &&
               !(r->conns[next].weir && !r->conns[next].breaks && r->conns[next].kind != LINKD))
            next++;
        if (c->habit != HAUNTED || next == r->n_conns)
            continue;
        c->heir = &r->conns[next++];
        c->heir->begin_ns = c->act_ns + 300000000; /* at the latest */
        engine_say("conn %u is the heir of conn %u", c->heir->id, c->id);
    }
}

/* Every kind listens on every loop, our clients and the peers that never go need theirs, and then
 * there is room for a few more at a time. */
static uint32_t draw_wall(struct run *r) {
    uint32_t n = r->loops * (KINDS - 1) + 1 + (uint32_t)engine_draw(r, 4);
    for (unsigned i = 0; i < r->n_conns; i++)
        n += r->conns[i].weir || r->conns[i].habit == NEVER;
    return n;
}

/* Sends that stay pinned, of any size or of large ones only; by the seed alone, which leaves what
 * is drawn as it is. */
static void draw_pins(struct run *r) {
    uint32_t most = r->limits.batch_bytes ? r->limits.batch_bytes : 4096;
    r->limits.zero_copy_bytes = (const uint32_t[]){1, 200, most}[r->seed / 3 % 3];
}

void engine_plan(struct run *r) {
    weir__base_rng_seed(&r->rng, r->seed * 2 + 1);
    draw_weather(r);
    draw_limits(r);
    fill(r, r->noise, sizeof r->noise);
    while (r->n_conns < CONNS_MIN || (r->messages < MESSAGES_MIN && r->n_conns < CONNS_MAX))
        draw_conn(r);
    draw_heirs(r);
    if (r->scarce && engine_chance(r, 2))
        r->weather.emfile_at = draw_wall(r);
    if (engine_chance(r, 3))
        draw_jobs(r);
    if (r->seed % 3 == 0)
        draw_pins(r);
}

void engine_place(struct run *r) {
    for (unsigned i = 0; i < r->n_conns; i++) {
        struct conn *c = &r->conns[i];
        c->loop = weir_group_loop(r->group, c->at);
        c->other = weir_group_loop(r->group, c->other_at);
    }
}
