/* The simulated world around a group of loops: one thread, virtual time.
 *
 *   run:  some loop is due --> the seed picks one of them --> one turn, time moves a little
 *         none is          --> time moves to the next event or deadline
 *
 * A loop is due when its door has something, its inbox has something, or its deadline has come.
 * One that is not due after its turn sleeps, and its next wait says so. */
#include "weir/sim.h"
#include "base/assert.h"
#include "io/sim/sim.h"
#include "loop/group.h"
#include "mem/pool.h"
#include "mem/raw.h"
#include "sim/files.h"
#include "sim/workers.h"
#include <stdio.h>
#include <string.h>

enum {
    TURN_NS_MIN = 200, /* a turn takes time, so that nothing can spin for ever within one instant */
    TURN_NS_MAX = 3000,
    GATHER_NS_MAX = 50000, /* now and then a loop comes late, and finds several things at once */
    ABORT_MS = 60000,
    LONG_TURN_NS = 100000000, /* as weir_group_options.watchdog_ms by default */
};

struct sim_loop {
    struct weir_mem *mem;
    struct weir__loop_inbox *inbox;
    struct weir__io *io;
    struct weir_loop *loop;
    bool ended;
};

struct weir_sim {
    struct weir__iosim_net *net;
    struct weir__sim_workers workers;
    struct weir__sim_files files;
    struct weir_group *group;
    bool started;
    unsigned n_loops;
    struct sim_loop loops[];
};

static const struct weir__loop_world world;

/* --- birth and death ------------------------------------------------------------------------- */

static int loop_init(struct weir_sim *s, unsigned index, uint64_t memory_max) {
    struct sim_loop *l = &s->loops[index];
    char name[16];
    snprintf(name, sizeof name, "sim-%u", index);
    l->mem = weir__mem_pool_new(name);
    l->inbox = weir__loop_inbox_get();
    if (!l->mem || !l->inbox)
        return WEIR_ENOMEM;
    if (memory_max)
        weir__mem_budget_set(l->mem, memory_max);
    struct weir__io_config c = {.mem = l->mem, .slots = &l->inbox->slots};
    int rc = weir__iosim_door_new(s->net, &c, &l->io);
    if (rc < 0)
        return rc;
    struct weir__loop_env env = {
        .io = l->io,
        .mem = l->mem,
        .inbox = l->inbox,
        .group = s->group,
        .workers = &s->workers.base,
        .files = &s->files.base,
        .index = index,
        .long_turn_ns = LONG_TURN_NS,
    };
    rc = weir__loop_new(&env, &l->loop);
    if (rc >= 0)
        s->group->loops[s->group->n_loops++] = l->loop;
    return rc;
}

/* Armed timers are their owner's memory: forgotten, and counted. */
static unsigned drop_timers(struct weir_loop *l) {
    unsigned armed = (unsigned)l->wheel.armed;
    weir__time_wheel_init(&l->wheel, l->now_ns);
    return armed;
}

/* Returns what was still alive. A loop with members cannot be freed: it stays. */
static unsigned loop_fini(struct sim_loop *l) {
    struct weir_mem *before = weir__mem_enter(l->mem);
    unsigned members = 0, timers = 0;
    if (l->loop) {
        timers = drop_timers(l->loop);
        weir__base_list_each(link, &l->loop->members) members++;
        if (members == 0)
            weir__loop_free(l->loop);
    }
    if (l->io)
        l->io->ops->free(l->io);
    weir__mem_enter(before);
    if (members)
        return members + timers;
    unsigned pieces = l->mem ? (unsigned)weir__mem_pool_free(l->mem) : 0;
    if (l->inbox)
        weir__loop_inbox_put(l->inbox);
    return timers + pieces;
}

static unsigned sim_fini(struct weir_sim *s) {
    unsigned left = 0;
    for (unsigned i = 0; i < s->n_loops; i++)
        left += loop_fini(&s->loops[i]);
    left += weir__sim_files_fini(&s->files) + weir__iosim_net_free(s->net);
    if (s->group)
        weir__loop_group_free(s->group);
    weir__mem_raw_free(s);
    return left;
}

static bool options_of(const struct weir_sim_options *o, struct weir_sim_options *out) {
    *out = (struct weir_sim_options){.size = sizeof *out};
    if (o && (o->size < sizeof(size_t) || o->size > sizeof *out))
        return false;
    if (o)
        memcpy(out, o, o->size);
    if (!out->loops)
        out->loops = 1;
    return out->loops <= WEIR__LOOP_LOOPS_MAX;
}

static struct weir__iosim_options net_options(const struct weir_sim_options *o) {
    return (struct weir__iosim_options){
        .seed = o->seed,
        .segment_max = o->segment_max,
        .delay_us_max = o->delay_us_max,
        .window_bytes = o->window_bytes,
        .backlog_max = o->backlog_max,
        .bytes_per_s = o->bytes_per_s,
        .reset_ppm = o->reset_ppm,
        .refuse_ppm = o->refuse_ppm,
        .enomem_ppm = o->enomem_ppm,
        .loss_ppm = o->loss_ppm,
        .reorder_ppm = o->reorder_ppm,
        .emfile_at = o->emfile_at,
    };
}

struct weir_sim *weir_sim_new(const struct weir_sim_options *options) {
    struct weir_sim_options o;
    if (!options_of(options, &o))
        return NULL;
    struct weir__iosim_options net = net_options(&o);
    struct weir_sim *s = weir__mem_raw_new(sizeof *s + o.loops * sizeof s->loops[0]);
    if (!s)
        return NULL;
    if (weir__iosim_net_new(&net, &s->net) < 0) {
        weir__mem_raw_free(s);
        return NULL;
    }
    weir__sim_workers_init(&s->workers, s->net, o.job_us_max, o.job_enomem_ppm);
    weir__sim_files_init(&s->files, s->net, o.cold_ppm, o.file_eio_ppm);
    s->group = weir__loop_group_new(&world, s);
    bool ok = s->group != NULL;
    uint64_t each = o.memory_max ? o.memory_max / o.loops + 1 : 0;
    for (unsigned i = 0; ok && i < o.loops; i++) {
        s->n_loops++;
        ok = loop_init(s, i, each) >= 0;
    }
    if (!ok) {
        (void)sim_fini(s);
        return NULL;
    }
    s->group->transport = "sim";
    return s;
}

struct weir_group *weir_sim_group(struct weir_sim *s) {
    return s->group;
}

static int abandon(struct weir_loop *l, void *user) {
    (void)user;
    return weir__loop_abandon(l);
}

static bool all_ended(void *user) {
    const struct weir_sim *s = user;
    for (unsigned i = 0; i < s->n_loops; i++)
        if (!s->loops[i].ended)
            return false;
    return true;
}

int weir_sim_free(struct weir_sim *s) {
    unsigned left = all_ended(s) || !s->started ? 0 : weir__iosim_open(s->net);
    if (!s->started) {
        for (unsigned i = 0; i < s->n_loops; i++)
            weir__loop_visit(s->loops[i].loop, abandon, NULL);
    } else if (!all_ended(s)) {
        weir_group_stop(s->group, 0);
        weir_sim_run(s, ABORT_MS, all_ended, s);
    }
    weir__loop_group_disown(s->group);
    left += sim_fini(s);
    return (int)left;
}

/* --- running --------------------------------------------------------------------------------- */

static bool due(const struct weir_sim *s, const struct sim_loop *l) {
    return !l->ended && (weir__iosim_due(l->io) || atomic_load(&l->inbox->head) != NULL ||
                         weir__loop_deadline(l->loop) <= weir__iosim_now(s->net));
}

static struct sim_loop *pick(struct weir_sim *s) {
    struct sim_loop *chosen = NULL;
    uint64_t n = 0;
    for (unsigned i = 0; i < s->n_loops; i++)
        if (due(s, &s->loops[i]) && weir__iosim_draw(s->net, ++n) == 0)
            chosen = &s->loops[i];
    return chosen;
}

static int turn_once(struct weir_loop *l, void *user) {
    (void)user;
    return weir__loop_turn(l);
}

static void pass(struct weir_sim *s, uint64_t ns) {
    weir__iosim_advance(s->net, weir__iosim_now(s->net) + ns);
}

static void turn(struct weir_sim *s, struct sim_loop *l) {
    if (weir__iosim_draw(s->net, 8) == 0)
        pass(s, weir__iosim_draw(s->net, GATHER_NS_MAX));
    int rc = weir__loop_visit(l->loop, turn_once, NULL);
    must(rc >= 0);
    l->ended = rc == 0;
    if (!due(s, l))
        weir__iosim_sleep(l->io);
    pass(s, TURN_NS_MIN + weir__iosim_draw(s->net, TURN_NS_MAX - TURN_NS_MIN));
}

/* The next time at which anything can happen; UINT64_MAX: never. */
static uint64_t next_ns(const struct weir_sim *s) {
    uint64_t at = weir__iosim_next_ns(s->net), work = weir__sim_workers_next_ns(&s->workers);
    at = work < at ? work : at;
    for (unsigned i = 0; i < s->n_loops; i++) {
        uint64_t until = s->loops[i].ended ? UINT64_MAX : weir__loop_deadline(s->loops[i].loop);
        at = until < at ? until : at;
    }
    return at;
}

static int world_start(struct weir_group *g) {
    struct weir_sim *s = g->world_data;
    for (unsigned i = 0; i < s->n_loops && !s->started; i++)
        must(weir__loop_start(s->loops[i].loop) == 0);
    s->started = true;
    return 0;
}

int weir_sim_run(struct weir_sim *s, uint64_t ms, bool (*until)(void *user), void *user) {
    uint64_t end = weir__iosim_now(s->net) + ms * 1000000;
    must(!weir__loop_current);
    world_start(s->group);
    for (;;) {
        if (until && until(user))
            return 1;
        if (weir__iosim_now(s->net) >= end)
            return 0;
        weir__sim_workers_run(&s->workers);
        struct sim_loop *l = pick(s);
        if (l) {
            turn(s, l);
            continue;
        }
        uint64_t at = next_ns(s);
        if (at == UINT64_MAX && until)
            return WEIR_ESTOPPED;
        weir__iosim_advance(s->net, at < end ? at : end);
    }
}

static int world_run(struct weir_group *g) {
    struct weir_sim *s = g->world_data;
    while (!all_ended(s)) {
        int rc = weir_sim_run(s, 1000, all_ended, s);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static const struct weir__loop_world world = {
    .start = world_start,
    .run = world_run,
    .join = world_run,
};

void weir_sim_file(struct weir_sim *s, const char *path, const void *bytes, size_t n) {
    weir__sim_files_put(&s->files, path, bytes, n);
}

void weir_sim_burn(struct weir_sim *s, uint64_t us) {
    weir__iosim_burn(s->net, us);
}

uint64_t weir_sim_now(const struct weir_sim *s) {
    return weir__iosim_now(s->net);
}

uint64_t weir_sim_trace(const struct weir_sim *s) {
    return weir__iosim_trace_hash(s->net);
}

uint64_t weir_sim_fault(const struct weir_sim *s, unsigned index, const char **name) {
    uint64_t faults[WEIR__IOSIM_FAULTS];
    weir__iosim_faults(s->net, faults);
    if (name)
        *name = weir__iosim_fault_name((enum weir__iosim_fault)index);
    return index < WEIR__IOSIM_FAULTS ? faults[index] : 0;
}

/* --- peers ----------------------------------------------------------------------------------- */

static struct weir__iosim_peer *raw(const struct weir_sim_peer *p) {
    return (struct weir__iosim_peer *)(uintptr_t)p;
}

static struct weir_sim_peer *public(struct weir__iosim_peer *p) {
    return (struct weir_sim_peer *)p;
}

struct weir_sim_peer *weir_sim_dial(struct weir_sim *s, const char *address) {
    struct weir_addr to;
    if (weir__base_addr_parse(address, &to, NULL) < 0)
        return NULL;
    return public(weir__iosim_dial(s->net, &to));
}

struct weir_sim_peer *weir_sim_listen(struct weir_sim *s, const char *address) {
    struct weir_addr at;
    if (weir__base_addr_parse(address, &at, NULL) < 0)
        return NULL;
    return public(weir__iosim_peer_listen(s->net, &at));
}

struct weir_sim_peer *weir_sim_accept(struct weir_sim_peer *listener) {
    return public(weir__iosim_peer_accept(raw(listener)));
}

int weir_sim_peer_send(struct weir_sim_peer *p, const void *data, size_t n) {
    return weir__iosim_peer_send(raw(p), data, n);
}

void weir_sim_peer_read(struct weir_sim_peer *p, uint32_t bytes, uint32_t every_us) {
    weir__iosim_peer_read(raw(p), bytes, every_us);
}

void weir_sim_peer_shutdown(struct weir_sim_peer *p) {
    weir__iosim_peer_shutdown(raw(p));
}

void weir_sim_peer_reset(struct weir_sim_peer *p) {
    weir__iosim_peer_reset(raw(p));
}

void weir_sim_peer_reset_at(struct weir_sim_peer *p, uint64_t sent_bytes) {
    weir__iosim_peer_reset_at(raw(p), sent_bytes);
}

void weir_sim_peer_close(struct weir_sim_peer *p) {
    weir__iosim_peer_close(raw(p));
}

size_t weir_sim_peer_got(const struct weir_sim_peer *p, const uint8_t **out) {
    return weir__iosim_peer_got(raw(p), out);
}

int weir_sim_peer_state(const struct weir_sim_peer *p) {
    return weir__iosim_peer_state(raw(p));
}

uint64_t weir_sim_peer_sent(const struct weir_sim_peer *p) {
    return weir__iosim_peer_sent(raw(p));
}
