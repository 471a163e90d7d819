#include "admin/admin.h"
#include "loop/local.h"
#include "loop/loop.h"
#include "mem/raw.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct weir__admin *weir__admin_new(struct weir_group *watched, struct weir_loop *l,
                                    weir__admin_tell_fn *tell) {
    unsigned n = weir_group_loops(watched);
    struct weir__admin *a = weir__mem_raw_new(sizeof *a + n * sizeof a->notes[0]);
    if (!a)
        return NULL;
    a->watched = watched;
    a->loop = l;
    a->tell = tell;
    bool whole = (a->now = weir__admin_snapshot_new(watched)) != NULL;
    for (unsigned i = 0; i < WEIR__ADMIN_HISTORY && whole; i++)
        whole = (a->history[i] = weir__admin_snapshot_new(watched)) != NULL;
    for (unsigned i = 0; i < n; i++)
        a->notes[i] = (struct weir__admin_note){.admin = a, .loop = i};
    if (whole)
        return a;
    weir__admin_free(a);
    return NULL;
}

void weir__admin_free(struct weir__admin *a) {
    if (!a)
        return;
    for (unsigned i = 0; i < WEIR__ADMIN_HISTORY; i++)
        weir__admin_snapshot_free(a->history[i]);
    weir__admin_snapshot_free(a->now);
    weir__mem_raw_free(a);
}

int weir__admin_parameter_add(struct weir__admin *a, const char *name, const char *value,
                              const char *origin) {
    struct weir__admin_parameter *p = &a->parameters[a->n_parameters];
    if (a->n_parameters == WEIR__ADMIN_PARAMETERS_MAX)
        return WEIR_EFULL;
    if (!*name || !*origin || strlen(name) >= sizeof p->name || strlen(value) >= sizeof p->value ||
        strlen(origin) >= sizeof p->origin)
        return WEIR_EINVAL;
    snprintf(p->name, sizeof p->name, "%s", name);
    snprintf(p->value, sizeof p->value, "%s", value);
    snprintf(p->origin, sizeof p->origin, "%s", origin);
    a->n_parameters++;
    return 0;
}

/* --- notes ----------------------------------------------------------------------------------- */

static void note_returned(struct weir_loop *l, struct weir__loop_node *n) {
    (void)l;
    struct weir__admin_note *note = container_of(n, struct weir__admin_note, node);
    note->told = note->fresh;
    note->away = false;
}

/* On the watched loop. When the admin's has ended the note stays away, which nobody sees. */
static void note_read(struct weir_loop *l, struct weir__loop_node *n) {
    struct weir__admin_note *note = container_of(n, struct weir__admin_note, node);
    note->fresh = (struct weir__admin_told){.at_ns = l->now_ns};
    weir__mem_publish(l->mem, &note->fresh.memory);
    note->admin->tell(l, &note->fresh);
    n->run = note_returned;
    (void)weir__loop_inbox_push(note->admin->loop->inbox, n);
}

static void send_note(struct weir__admin *a, struct weir__admin_note *note, uint64_t now) {
    if (note->away)
        return;
    note->node.run = note_read;
    note->away = true;
    note->sent_ns = now;
    if (weir__loop_inbox_push(a->watched->loops[note->loop]->inbox, &note->node) < 0)
        note->away = false; /* it has ended */
}

bool weir__admin_stuck(const struct weir__admin *a, unsigned index, uint64_t now) {
    const struct weir__admin_note *note = &a->notes[index];
    return note->away && now > note->sent_ns &&
           now - note->sent_ns > (uint64_t)WEIR__ADMIN_STUCK_MS * 1000000;
}

bool weir__admin_draining(const struct weir__admin *a) {
    for (unsigned i = 0; i < a->watched->n_loops; i++)
        if (atomic_load_explicit(&a->watched->loops[i]->stop_ms, memory_order_relaxed))
            return true;
    return false;
}

uint64_t weir__admin_accepts(const struct weir__admin *a, unsigned index) {
    return atomic_load_explicit(&a->watched->loops[index]->io->stats.accepts, memory_order_relaxed);
}

/* --- snapshots ------------------------------------------------------------------------------- */

static void take(struct weir__admin *a, struct weir__admin_snapshot *s) {
    weir__admin_snapshot_take(s, a->watched, a->loop->now_ns);
    for (unsigned i = 0; i < s->n_loops; i++)
        s->loops[i].told = a->notes[i].told;
}

const struct weir__admin_snapshot *weir__admin_look(struct weir__admin *a) {
    take(a, a->now);
    return a->now;
}

const struct weir__admin_snapshot *weir__admin_past(const struct weir__admin *a, uint64_t now,
                                                    unsigned seconds) {
    const struct weir__admin_snapshot *found = NULL;
    for (unsigned back = 0; back < a->n_history; back++) {
        unsigned at = (a->newest + WEIR__ADMIN_HISTORY - back) % WEIR__ADMIN_HISTORY;
        const struct weir__admin_snapshot *s = a->history[at];
        uint64_t age = now > s->at_ns ? now - s->at_ns : 0;
        if (found && age > (uint64_t)seconds * 1000000000)
            break;
        if (age >= (uint64_t)WEIR__ADMIN_WINDOW_MIN_MS * 1000000)
            found = s;
    }
    return found;
}

static void tick(struct weir_timer *t) {
    struct weir__admin *a = container_of(t, struct weir__admin, tick);
    uint64_t now = a->loop->now_ns;
    for (unsigned i = 0; i < a->watched->n_loops; i++)
        send_note(a, &a->notes[i], now);
    a->newest = (a->newest + 1) % WEIR__ADMIN_HISTORY;
    a->n_history += a->n_history < WEIR__ADMIN_HISTORY;
    take(a, a->history[a->newest]);
    weir__loop_timer_in(a->loop, &a->tick, WEIR__ADMIN_TICK_MS, tick);
}

void weir__admin_start(struct weir__admin *a) {
    snprintf(a->start_id, sizeof a->start_id, "%016" PRIx64, weir__loop_entropy(a->loop));
    a->start_ns = a->loop->now_ns;
    tick(&a->tick);
}
