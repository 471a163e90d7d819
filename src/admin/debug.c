/* The pages for people: who held a loop, what is wrong, where the time goes. */
#include "admin/admin.h"
#include "loop/loop.h"
#include <inttypes.h>
#include <string.h>

enum { SAMPLES_MIN = 20 };

static double ms(uint64_t ns) {
    return (double)ns / 1e6;
}

/* --- /debug/loops ---------------------------------------------------------------------------- */

static void loop_line(struct weir__admin_text *t, const struct weir__admin *a, unsigned i) {
    const struct weir_loop_stats *s = &a->now->loops[i].stats;
    double seen = (double)(s->busy_ns + s->poll_ns);
    weir__admin_print(t,
                      "loop %u: %s, %" PRIu64 " connection%s, busy %.1f %%, longest turn %.3f ms\n",
                      i, weir__admin_stuck(a, i, a->now->at_ns) ? "STUCK" : "turns", s->channels,
                      weir__admin_s(s->channels), seen > 0 ? (double)s->busy_ns / seen * 100 : 0,
                      ms(s->turn_max_ns));
}

/* Of all loops together; those beyond the room are left out. */
struct times {
    unsigned n;
    struct handler_time {
        const char *name;
        uint64_t sampled;
        double ns; /* calls times their mean */
    } of[WEIR__ADMIN_HANDLERS_MAX];
};

static void add_time(struct times *all, const struct weir_handler_stats *h) {
    unsigned i = 0;
    while (i < all->n && strcmp(all->of[i].name, h->name) != 0)
        i++;
    if (i == WEIR__ADMIN_HANDLERS_MAX || !h->sampled)
        return;
    if (i == all->n)
        all->of[all->n++] = (struct handler_time){.name = h->name};
    all->of[i].sampled += h->sampled;
    all->of[i].ns += (double)h->calls * (double)h->sampled_ns / (double)h->sampled;
}

/* What too few timed calls say is chance. */
static void drop_chance(struct times *all) {
    unsigned n = 0;
    for (unsigned i = 0; i < all->n; i++)
        if (all->of[i].sampled >= SAMPLES_MIN)
            all->of[n++] = all->of[i];
    all->n = n;
}

static void take_times(struct times *all, struct weir_group *g) {
    struct weir_handler_stats h[WEIR__ADMIN_HANDLERS_MAX];
    for (unsigned loop = 0; loop < weir_group_loops(g); loop++) {
        int n = weir_group_handler_stats(g, loop, h, WEIR__ADMIN_HANDLERS_MAX);
        for (int i = 0; i < n && i < WEIR__ADMIN_HANDLERS_MAX; i++)
            add_time(all, &h[i]);
    }
    drop_chance(all);
}

static void handler_lines(struct weir__admin_text *t, struct weir_group *g) {
    struct times all = {0};
    double sum = 0;
    take_times(&all, g);
    for (unsigned i = 0; i < all.n; i++)
        sum += all.of[i].ns;
    if (sum > 0)
        weir__admin_print(t, "\nhandlers, by what their timed calls took so far\n");
    for (unsigned i = 0; i < all.n && sum > 0; i++)
        weir__admin_print(t, "  %-24s %5.1f %%  %.3f s\n", weir__admin_name(all.of[i].name).text,
                          all.of[i].ns / sum * 100, all.of[i].ns / 1e9);
}

static void turn_lines(struct weir__admin_text *t, const struct weir__admin *a,
                       const struct weir_long_turn *turn) {
    uint64_t now = a->now->at_ns;
    uint64_t waiting = turn->loop < a->now->n_loops ? a->now->loops[turn->loop].stats.channels : 0;
    weir__admin_print(t, "\n%s %.1f s ago on loop %u: %.1f ms, of which %.1f ms on a CPU\n",
                      turn->over ? "long turn" : "LONG TURN THAT STILL RUNS, begun",
                      now > turn->at_ns ? ms(now - turn->at_ns) / 1e3 : 0, turn->loop,
                      ms(turn->length_ns), ms(turn->cpu_ns));
    weir__admin_print(t, "  handler      ");
    for (unsigned i = 0; i < turn->n_handlers; i++)
        weir__admin_print(t, "%s%s", i ? " < " : "", weir__admin_name(turn->handlers[i]).text);
    weir__admin_print(t, "%s\n",
                      turn->n_handlers ? ""
                      : turn->stack[0] ? "none: the loop itself, a timer or a task"
                                       : "not seen");
    weir__admin_print(t, "  stack        %s\n", turn->stack[0] ? turn->stack : "not taken");
    weir__admin_print(
        t, "  connections  %" PRIu64 " on this loop now, which wait%s while a turn lasts\n",
        waiting, waiting == 1 ? "s" : "");
}

void weir__admin_loops(struct weir__admin *a, struct weir__admin_text *t) {
    struct weir__admin_turns turns;
    const struct weir__admin_snapshot *now = weir__admin_look(a);
    turns.n = weir_group_long_turns(a->watched, turns.turns, WEIR_LONG_TURNS);
    for (unsigned i = 0; i < now->n_loops; i++)
        loop_line(t, a, i);
    handler_lines(t, a->watched);
    if (!turns.n)
        weir__admin_print(t, "\nno long turn so far\n");
    for (unsigned i = 0; i < turns.n; i++)
        turn_lines(t, a, &turns.turns[i]);
}

/* --- /debug/findings ------------------------------------------------------------------------- */

struct found {
    double window_s; /* 0: it is too early to say anything */
    unsigned n;
    struct weir__admin_turns turns;
    struct weir__admin_finding findings[WEIR__ADMIN_FINDINGS_MAX];
};

static void find(struct weir__admin *a, unsigned seconds, struct found *out) {
    const struct weir__admin_snapshot *now = weir__admin_look(a);
    const struct weir__admin_snapshot *past = weir__admin_past(a, now->at_ns, seconds);
    out->turns.n = weir_group_long_turns(a->watched, out->turns.turns, WEIR_LONG_TURNS);
    out->n = past ? weir__admin_find(past, now, &out->turns, out->findings) : 0;
    out->window_s = past ? ms(now->at_ns - past->at_ns) / 1e3 : 0;
}

static json_t *finding_json(const struct weir__admin_finding *f) {
    json_t *o = json_pack("{s:s, s:s}", "kind", weir__admin_kind_name(f->kind), "advice",
                          f->advice);
    json_object_set_new(o, "text", weir__admin_string(f->text));
    json_object_set_new(o, "handler", weir__admin_string(f->handler));
    json_object_set_new(o, "stack", weir__admin_string(f->stack));
    json_t *evidence = json_object();
    json_object_set_new(o, "loop", f->loop < 0 ? json_null() : json_integer(f->loop));
    for (unsigned i = 0; i < f->n_numbers; i++)
        json_object_set_new(evidence, f->numbers[i].name, json_real(f->numbers[i].value));
    json_object_set_new(o, "evidence", evidence);
    return o;
}

static void findings_json(const struct weir__admin *a, const struct found *found,
                          struct weir__admin_text *t) {
    json_t *all = json_array();
    for (unsigned i = 0; i < found->n; i++)
        json_array_append_new(all, finding_json(&found->findings[i]));
    weir__admin_json(t, json_pack("{s:s, s:s, s:I, s:f, s:o}", "schema", "weir.findings/1",
                                  "start_id", a->start_id, "at_ns", (json_int_t)a->now->at_ns,
                                  "window_s", found->window_s, "findings", all));
}

static void finding_lines(struct weir__admin_text *t, const struct weir__admin_finding *f) {
    weir__admin_print(t, "\n%s\n  %s\n  %s\n", weir__admin_kind_name(f->kind), f->text, f->advice);
    for (unsigned i = 0; i < f->n_numbers; i++)
        weir__admin_print(t, "  %-22s %.6g\n", f->numbers[i].name, f->numbers[i].value);
    if (f->stack)
        weir__admin_print(t, "  stack: %s\n", f->stack);
}

void weir__admin_findings(struct weir__admin *a, unsigned seconds, bool json,
                          struct weir__admin_text *t) {
    struct found found = {0};
    find(a, seconds, &found);
    if (json) {
        findings_json(a, &found, t);
        return;
    }
    if (found.window_s <= 0)
        weir__admin_print(t, "nothing can be said before the server has run for a second\n");
    else
        weir__admin_print(t, "%u finding%s in the last %.1f s\n", found.n, weir__admin_s(found.n),
                          found.window_s);
    for (unsigned i = 0; i < found.n; i++)
        finding_lines(t, &found.findings[i]);
}
