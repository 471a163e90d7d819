#include "admin/snapshot.h"
#include "mem/raw.h"

struct weir__admin_snapshot *weir__admin_snapshot_new(const struct weir_group *g) {
    unsigned n = weir_group_loops(g);
    struct weir__admin_snapshot *s = weir__mem_raw_new(sizeof *s + n * sizeof s->loops[0]);
    if (s)
        s->n_loops = n;
    return s;
}

void weir__admin_snapshot_free(struct weir__admin_snapshot *s) {
    weir__mem_raw_free(s);
}

void weir__admin_snapshot_take(struct weir__admin_snapshot *s, struct weir_group *g, uint64_t now) {
    const struct weir__loop_outside *outside = g->world->outside;
    s->at_ns = now;
    s->process = (struct weir__loop_process){0};
    s->long_turn_ns = s->n_loops ? g->loops[0]->env.long_turn_ns : 0;
    if (outside)
        outside->process(g, &s->process);
    for (unsigned i = 0; i < s->n_loops; i++) {
        (void)weir_group_loop_stats(g, i, &s->loops[i].stats);
        (void)weir_group_pause_stats(g, i, s->loops[i].pauses);
    }
}

bool weir__admin_switches(struct weir_group *g, unsigned index, struct weir__loop_switches *out) {
    const struct weir__loop_outside *outside = g->world->outside;
    return outside && outside->switches(g, index, out);
}
