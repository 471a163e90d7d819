#include "cli/census.h"
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HANDLERS_MAX = 32 };

struct loop_census { /* written on its loop, read after the threads have ended */
    struct census *of;
    struct weir_loop_stats first, last; /* at the first connection; at the latest one that closed */
    struct weir_loop_stats end;         /* when the end began */
    struct weir_handler_stats handlers[HANDLERS_MAX];
    unsigned n_handlers;
    bool opened, closed, taken;
};

struct census {
    struct weir_group *group; /* gone once it has ended */
    struct census *self;      /* what the stage is configured with */
    FILE *out;                /* NULL once it is written */
    char transport[16];
    unsigned n_loops;
    struct loop_census loops[];
};

struct census *census_new(struct weir_group *g, const char *path) {
    unsigned n = weir_group_loops(g);
    struct census *c = calloc(1, sizeof *c + n * sizeof c->loops[0]);
    FILE *out = !c ? NULL : strcmp(path, "-") != 0 ? fopen(path, "we") : stdout;
    if (!out) {
        free(c);
        return NULL;
    }
    c->out = out;
    c->group = g;
    c->n_loops = n;
    snprintf(c->transport, sizeof c->transport, "%s", weir_group_transport(g, NULL));
    for (unsigned i = 0; i < n; i++)
        c->loops[i].of = c;
    return c;
}

void census_free(struct census *c) {
    if (c && c->out && c->out != stdout)
        fclose(c->out);
    free(c);
}

/* --- taking ---------------------------------------------------------------------------------- */

static void take(struct weir_loop *l, void *user) {
    struct loop_census *lc = user;
    struct weir_group *g = lc->of->group;
    unsigned index = weir_loop_index(l);
    lc->taken = weir_group_loop_stats(g, index, &lc->end) >= 0;
    int n = weir_group_handler_stats(g, index, lc->handlers, HANDLERS_MAX);
    lc->n_handlers = n < 0 ? 0 : n > HANDLERS_MAX ? HANDLERS_MAX : (unsigned)n;
}

static void ask_for_the_end(struct weir_loop *l, void *user) {
    (void)weir_loop_on_stop(
        l, take, user); /* without it this loop is missing in the report, which says so */
}

int census_start(struct census *c) {
    int rc = 0;
    for (unsigned i = 0; i < c->n_loops && rc >= 0; i++)
        rc = weir_loop_post(weir_group_loop(c->group, i), ask_for_the_end, &c->loops[i]);
    errno = ENOMEM; /* all that a post can fail with here */
    return rc < 0 ? -1 : 0;
}

struct seat { /* a channel's state: which census it counts in */
    struct loop_census *loop;
};

/* In the middle of a turn. The counters hold the sleep before it already and what it has worked so
 * far not yet, so that the time is now and not the end of the turn before the sleep. */
static bool look(struct weir_ctx *ctx, const struct census *c, struct weir_loop_stats *out) {
    struct weir_loop *l = weir_ctx_loop(ctx);
    struct weir_loop_stats s;
    if (weir_group_loop_stats(c->group, weir_loop_index(l), &s) < 0)
        return false;
    s.at_ns = weir_loop_now(l);
    *out = s;
    return true;
}

static int seat_open(struct weir_ctx *ctx, const void *config) {
    struct census *c = *(struct census *const *)config;
    unsigned index = weir_loop_index(weir_ctx_loop(ctx));
    struct loop_census *lc = &c->loops[index];
    ((struct seat *)weir_ctx_state(ctx))->loop = lc;
    if (!lc->opened)
        lc->opened = look(ctx, c, &lc->first);
    return 0;
}

static void seat_close(struct weir_ctx *ctx, int why) {
    (void)why;
    struct loop_census *lc = ((struct seat *)weir_ctx_state(ctx))->loop;
    lc->closed |= look(ctx, lc->of, &lc->last);
}

static const struct weir_handler seat = {
    .name = "census",
    .state_size = sizeof(struct seat),
    .open = seat_open,
    .close = seat_close,
};

struct weir_stage census_stage(struct census *c) {
    c->self = c;
    return (struct weir_stage){&seat, &c->self};
}

/* --- writing --------------------------------------------------------------------------------- */

static json_t *window_json(const struct loop_census *lc) {
    if (!lc->opened)
        return json_null();
    const struct weir_loop_stats *a = &lc->first, *b = lc->closed ? &lc->last : &lc->end;
    double wall = (double)(b->at_ns - a->at_ns), busy = (double)(b->busy_ns - a->busy_ns);
    double share = wall > 0 ? busy / wall : 0;
    return json_pack("{s:I, s:I, s:I, s:f}", "wall_ns", (json_int_t)(b->at_ns - a->at_ns),
                     "busy_ns", (json_int_t)(b->busy_ns - a->busy_ns), "cpu_ns",
                     (json_int_t)(b->cpu_ns - a->cpu_ns), "busy_share",
                     share < 1 ? share : 1.0); /* the first turn counts whole */
}

static json_t *handlers_json(const struct loop_census *lc) {
    json_t *all = json_array();
    for (unsigned i = 0; i < lc->n_handlers; i++) {
        const struct weir_handler_stats *h = &lc->handlers[i];
        double mean = h->sampled ? (double)h->sampled_ns / (double)h->sampled : 0;
        json_array_append_new(
            all, json_pack("{s:s, s:I, s:I, s:I, s:I, s:f}", "name", h->name, "calls",
                           (json_int_t)h->calls, "bytes", (json_int_t)h->bytes, "sampled",
                           (json_int_t)h->sampled, "sampled_ns", (json_int_t)h->sampled_ns,
                           "estimated_ns", mean * (double)h->calls));
    }
    return all;
}

static json_t *loop_json(const struct loop_census *lc) {
    const struct weir_loop_stats *s = &lc->end;
    double seen = (double)(s->busy_ns + s->poll_ns);
    return json_pack(
        "{s:i, s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
        "s:o, s:o}",
        "index", (int)s->index, "busy_ns", (json_int_t)s->busy_ns, "poll_ns",
        (json_int_t)s->poll_ns, "cpu_ns", (json_int_t)s->cpu_ns, "busy_share",
        seen > 0 ? (double)s->busy_ns / seen : 0.0, "turns", (json_int_t)s->turns, "sleeps",
        (json_int_t)s->sleeps, "turn_max_ns", (json_int_t)s->turn_max_ns, "opened",
        (json_int_t)s->opened, "closed", (json_int_t)s->closed, "refused_fds",
        (json_int_t)s->refused_fds, "received", (json_int_t)s->received, "received_bytes",
        (json_int_t)s->received_bytes, "sent", (json_int_t)s->sent, "sent_bytes",
        (json_int_t)s->sent_bytes, "control_calls", (json_int_t)s->control_calls, "memory_live",
        (json_int_t)s->memory_live, "window", window_json(lc), "handlers", handlers_json(lc));
}

int census_write(struct census *c) {
    json_t *loops = json_array();
    for (unsigned i = 0; i < c->n_loops; i++)
        json_array_append_new(loops, c->loops[i].taken ? loop_json(&c->loops[i]) : json_null());
    json_t *all = json_pack("{s:s, s:s, s:o}", "schema", "weir.stats/1", "transport", c->transport,
                            "loops", loops);
    FILE *out = c->out;
    c->out = NULL;
    errno = ENOMEM; /* what a missing document means */
    bool good = all && json_dumpf(all, out, JSON_INDENT(2)) == 0 && fputc('\n', out) != EOF;
    json_decref(all);
    if ((out == stdout ? fflush(out) : fclose(out)) != 0)
        good = false;
    return good ? 0 : -1;
}
