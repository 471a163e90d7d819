/* Actors: the ends of connections in a case. An actor is a scripted handler that writes what
 * happens to it into a trace, "open; read 5 'hello'; eof clean; close 0", which must be the same on
 * every door: reads that follow each other are one.
 *
 * One actor may serve many connections; its words then mean the one whose callback runs, or ran
 * last. */
#ifndef WEIR_TESTS_KIT_ACTOR_H
#define WEIR_TESTS_KIT_ACTOR_H
#include "kit/pair.h"

enum { ACTOR_TRACE_MAX = 4096, ACTOR_TEXT_MAX = 48, ACTOR_STAGES_MAX = 4, ACTOR_PIECE = 16 * 1024 };

struct actor {
    /* The script; each may be NULL. Traces are written before it runs. */
    int (*open)(struct actor *a);
    int (*read)(struct actor *a, struct weir_chain *in); /* actor_take; NULL: everything */
    void (*read_done)(struct actor *a);
    void (*eof)(struct actor *a);
    void (*writable)(struct actor *a, bool yes);
    int64_t (*pull)(struct actor *a, uint64_t room);
    void (*event)(struct actor *a, int what); /* with actor_event_handler */
    void (*close)(struct actor *a);
    void (*connected)(struct actor *a, struct weir_chan *ch);
    const struct weir_handler *handler;            /* NULL: actor_handler */
    struct weir_stage front[ACTOR_STAGES_MAX - 1]; /* handlers before it */
    unsigned n_front;
    struct weir_limits limits;
    uint32_t connect_ms;
    bool pattern;        /* what it reads is poured, not said: shown as its length and "ok" */
    bool hush_marks;     /* full and writable are counted only */
    uint64_t goal, step; /* for the script */
    struct actor *other; /* for the script */
    /* What happened. */
    struct pair *pair;
    enum pair_who who;
    struct actor *next;
    struct weir_ctx *ctx; /* NULL: closed */
    struct weir_ref ref;
    unsigned opens, refusals, closes, eofs, fulls, writables, pulls, reads, dials, answers;
    int why, status; /* of the last close, of the last connect */
    uint64_t got, poured;
    uint64_t max_queued, max_held, max_leftover, max_inflight;
    /* The trace; the run of reads at its end is not in text yet. */
    char text[ACTOR_TRACE_MAX + 128];
    size_t n_text;
    uint64_t run, run_at;
    bool run_bad;
    char run_text[ACTOR_TEXT_MAX + 1];
};

/* open, read, read_done, eof, pull, writable, close; the second one has event as well. */
extern const struct weir_handler actor_handler, actor_event_handler;

/* a listens on its loop; p->address says where. */
void serve(struct pair *p, enum pair_who who, struct actor *a);
/* a connects to p->address; several times if asked so. */
void dial(struct pair *p, enum pair_who who, struct actor *a);
/* The usual beginning: s serves, c dials, both have opened. */
void link_up(struct pair *p, struct actor *s, struct actor *c);

/* Words for scripts and cases. 0 or an error. */
int say(struct actor *a, const char *text);
/* The next n bytes of the pattern. */
int pour(struct actor *a, uint64_t n);
int send_chain(struct actor *a, struct weir_chain *c);
void close_it(struct actor *a, enum weir_close how);
void shut_it(struct actor *a);
void credit_it(struct actor *a, int64_t bytes);
void wake_it(struct actor *a);
void ready_it(struct actor *a);
struct weir_chan_counters counters_of(struct actor *a);
int64_t room_of(struct actor *a);
/* The transport has everything. */
bool all_sent(struct actor *a);
/* Pours until its output is full or `goal` bytes were poured; for open and writable scripts. */
int pour_to_goal(struct actor *a);
/* Takes n bytes off in and notes them. */
void actor_take(struct actor *a, struct weir_chain *in, uint64_t n);
WEIR_PRINTF(2, 3) void note(struct actor *a, const char *fmt, ...);

/* Bytes [at, at + n) of the pattern. */
void pattern_fill(uint8_t *out, uint64_t at, size_t n);
bool pattern_is(const uint8_t *p, uint64_t at, size_t n);

/* The trace so far; valid until the next call on a. */
const char *actor_trace(struct actor *a);
void expect_at(struct actor *a, const char *file, int line, const char *want);
#define expect(a, want) expect_at(a, __FILE__, __LINE__, want)
/* Both are closed and this is how it went. */
#define expect_end(p, s, s_want, c, c_want)                             \
    do {                                                                \
        until(p, (s)->opens && !(s)->ctx && (c)->answers && !(c)->ctx); \
        expect(s, s_want);                                              \
        expect(c, c_want);                                              \
    } while (0)

/* For pair.c: notes the highest counters. */
void actors_sample(struct pair *p);

#endif
