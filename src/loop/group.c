#include "loop/group.h"
#include "mem/pool.h"
#include "mem/raw.h"

struct weir_group *weir__loop_group_new(const struct weir__loop_world *world, void *world_data) {
    struct weir_group *g = weir__mem_raw_new(sizeof *g);
    if (!g)
        return NULL;
    g->world = world;
    g->world_data = world_data;
    weir__base_list_init(&g->owned);
    return g;
}

void weir__loop_group_own(struct weir_group *g, struct weir__loop_owned *o) {
    weir__base_list_push_back(&g->owned, &o->link);
}

void weir__loop_group_disown(struct weir_group *g) {
    struct weir__base_link *link;
    while ((link = weir__base_list_pop_front(&g->owned))) {
        struct weir__loop_owned *o = container_of(link, struct weir__loop_owned, link);
        o->free(o);
    }
}

void weir__loop_group_free(struct weir_group *g) {
    must(weir__base_list_empty(&g->owned));
    weir__mem_raw_free(g);
}

int weir__loop_visit(struct weir_loop *l, weir__loop_call_fn *fn, void *user) {
    struct weir_mem *mem = weir__mem_current;
    struct weir_loop *before = weir__loop_enter(l);
    int rc = fn(l, user);
    weir__loop_enter(before);
    weir__mem_enter(mem);
    return rc;
}

int weir__loop_group_call(struct weir_group *g, struct weir_loop *l, weir__loop_call_fn *fn,
                          void *user) {
    return g->world->call ? g->world->call(g, l, fn, user) : weir__loop_visit(l, fn, user);
}

void weir__loop_group_log(struct weir_group *g, const char *line) {
    if (g && g->world->log)
        g->world->log(g, line);
}

int weir_group_start(struct weir_group *g) {
    return g->world->start(g);
}

int weir_group_run(struct weir_group *g) {
    return g->world->run(g);
}

int weir_group_join(struct weir_group *g) {
    return g->world->join(g);
}

void weir_group_stop(struct weir_group *g, uint32_t drain_ms) {
    for (unsigned i = 0; i < g->n_loops; i++)
        weir__loop_stop(g->loops[i], drain_ms);
}

unsigned weir_group_loops(const struct weir_group *g) {
    return g->n_loops;
}

struct weir_loop *weir_group_loop(struct weir_group *g, unsigned index) {
    return index < g->n_loops ? g->loops[index] : NULL;
}

const char *weir_group_transport(const struct weir_group *g, const char **why) {
    if (why)
        *why = g->why;
    return g->transport;
}

/* --- statistics --------------------------------------------------------------------------- */

static uint64_t get(_Atomic uint64_t *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

int weir_group_loop_stats(struct weir_group *g, unsigned index, struct weir_loop_stats *out) {
    if (index >= g->n_loops)
        return WEIR_EINVAL;
    struct weir_loop *l = g->loops[index];
    struct weir__loop_counters *c = &l->counters;
    struct weir__io_stats *io = &l->io->stats;
    *out = (struct weir_loop_stats){
        .index = index,
        .at_ns = get(&c->at_ns),
        .busy_ns = get(&c->busy_ns),
        .poll_ns = get(&c->poll_ns),
        .cpu_ns = get(&c->cpu_ns),
        .turns = get(&c->turns),
        .sleeps = get(&c->sleeps),
        .tasks = get(&c->tasks),
        .timers = get(&c->timers),
        .turn_max_ns = get(&c->turn_max_ns),
        .channels = get(&c->channels),
        .opened = get(&c->opened),
        .closed = get(&c->closed),
        .refused_fds = get(&c->refused_fds),
        .listeners = get(&c->listeners),
        .listeners_lost = get(&c->listeners_lost),
        .handed = get(&c->handed),
        .handed_lost = get(&c->handed_lost),
        .received = get(&io->receives),
        .received_bytes = get(&io->received_bytes),
        .sent = get(&io->sends),
        .sent_bytes = get(&io->sent_bytes),
        .control_calls = get(&io->control_calls),
        .memory_live = get(&c->memory_live),
        .memory_chunks = get(&c->memory_chunks),
        .inbox = get(&l->inbox->pushed),
        .wakes = get(&l->inbox->wakes),
        .dropped_dead = get(&c->dropped_dead),
        .file_copied_bytes = get(&c->file_copied_bytes),
    };
    return 0;
}

int weir_group_pause_stats(struct weir_group *g, unsigned index,
                           struct weir_pause_stats out[WEIR_PAUSES]) {
    if (index >= g->n_loops)
        return WEIR_EINVAL;
    struct weir_loop *l = g->loops[index];
    unsigned known = atomic_load_explicit(&l->pauses_known, memory_order_relaxed);
    for (unsigned i = 0; i < WEIR_PAUSES; i++)
        out[i] = (struct weir_pause_stats){
            .known = known >> i & 1,
            .count = get(&l->pauses[i].count),
            .longest_ns = get(&l->pauses[i].longest_ns),
            .total_ns = get(&l->pauses[i].total_ns),
        };
    return 0;
}

const char *weir_pause_name(enum weir_pause_kind kind) {
    static const char *const names[WEIR_PAUSES] = {"run_queue", "fault", "throttle", "memory",
                                                   "turn"};
    return (unsigned)kind < WEIR_PAUSES ? names[kind] : "?";
}

unsigned weir_group_long_turns(struct weir_group *g, struct weir_long_turn *out, unsigned n_max) {
    return g->world->long_turns ? g->world->long_turns(g, out, n_max) : 0;
}

void weir_loop_file_copied(struct weir_loop *l, uint64_t n) {
    weir__loop_add(&l->counters.file_copied_bytes, n);
}

int weir_group_handler_stats(struct weir_group *g, unsigned index, struct weir_handler_stats *out,
                             unsigned n_max) {
    if (index >= g->n_loops)
        return WEIR_EINVAL;
    struct weir__loop_account *a = &g->loops[index]->account;
    unsigned n = atomic_load_explicit(&a->n_handlers, memory_order_acquire);
    for (unsigned i = 0; i < n && i < n_max; i++) {
        struct weir__loop_handler *h = &a->handlers[i];
        out[i] = (struct weir_handler_stats){
            .name = h->name,
            .calls = get(&h->calls),
            .bytes = get(&h->bytes),
            .sampled = get(&h->sampled),
            .sampled_ns = get(&h->sampled_ns),
            .offloads = get(&h->offloads),
            .offload_ns = get(&h->offload_ns),
        };
    }
    return (int)n;
}
