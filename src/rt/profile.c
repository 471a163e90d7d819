#include "rt/profile.h"
#include "base/assert.h"
#include "mem/raw.h"
#include "os/clock.h"
#include "os/error.h"
#include "os/symbol.h"
#include "rt/rt.h"
#include "rt/verdict.h"
#include <errno.h>
#include <string.h>

enum {
    MS = 1000,
    MS_MAX = 600000,
    HZ = 199, /* a prime, so that work with a round period is not always met at the same place */
    HZ_MAX = 1000,
    SAMPLES_MAX = 32768, /* 10 MB */
    LOOKS = 32,
    TIMED_MIN = 4,
    NS_PER_MS = 1000000,
};

struct account { /* what a handler had done, over all loops */
    const char *name;
    uint64_t calls, sampled, sampled_ns, cpu_timed, cpu_ns, offload_ns;
};

struct counts {       /* at one end of the window */
    uint64_t busy_ns; /* of loops by the clock, of workers' jobs by their CPU clocks */
    uint64_t cpu_ns;  /* of all threads */
    uint64_t long_turns;
    unsigned n;
    struct account handlers[WEIR__LOOP_HANDLERS_MAX];
};

struct take { /* a profile under way */
    struct weir__rt *rt;
    struct weir_profile_options o;
    struct weir__rt_samples *samples;
    char (*threads)[16];
    unsigned n_threads, n_timed;
    struct weir__rt_window window;
    struct counts before, after;
    unsigned n_turns;
    struct weir_long_turn turns[WEIR_LONG_TURNS]; /* the last ones, at the window's end */
};

struct weir__rt_profile_job { /* a profile with a thread of its own */
    struct weir__os_thread thread;
    struct weir__rt *rt;
    struct weir_profile_options o;
    void (*done)(struct weir_profile *p, int code, void *user);
    void *user;
    int tid; /* of its thread, before it yields */
};

/* --- what the accounting says ---------------------------------------------------------------- */

static struct account *account_of(struct counts *c, const char *name) {
    for (unsigned i = 0; i < c->n; i++)
        if (strcmp(c->handlers[i].name, name) == 0)
            return &c->handlers[i];
    if (c->n == WEIR__LOOP_HANDLERS_MAX)
        return NULL;
    c->handlers[c->n] = (struct account){.name = name};
    return &c->handlers[c->n++];
}

static void count_loop(struct counts *c, struct weir_loop *l) {
    struct weir__loop_account *a = &l->account;
    unsigned n = atomic_load_explicit(&a->n_handlers, memory_order_acquire);
    c->busy_ns += atomic_load_explicit(&l->counters.busy_ns, memory_order_relaxed);
    c->long_turns += atomic_load_explicit(&l->pauses[WEIR_PAUSE_TURN].count, memory_order_relaxed);
    for (unsigned i = 0; i < n; i++) {
        struct weir__loop_handler *h = &a->handlers[i];
        struct account *x = account_of(c, h->name);
        if (!x)
            return;
        x->calls += atomic_load_explicit(&h->calls, memory_order_relaxed);
        x->sampled += atomic_load_explicit(&h->sampled, memory_order_relaxed);
        x->sampled_ns += atomic_load_explicit(&h->sampled_ns, memory_order_relaxed);
        x->cpu_timed += atomic_load_explicit(&h->cpu_timed, memory_order_relaxed);
        x->cpu_ns += atomic_load_explicit(&h->cpu_ns, memory_order_relaxed);
        x->offload_ns += atomic_load_explicit(&h->offload_ns, memory_order_relaxed);
    }
}

/* Under the crowd's mutex. */
static void count(struct take *t, struct counts *c) {
    uint64_t ns;
    *c = (struct counts){
        .busy_ns = atomic_load_explicit(&t->rt->workers->base.cpu_ns, memory_order_relaxed)};
    for (unsigned i = 0; i < t->rt->n_loops; i++)
        count_loop(c, t->rt->loops[i].loop);
    weir__base_list_each(link, &t->rt->crowd.threads) {
        struct weir__rt_seen *s = container_of(link, struct weir__rt_seen, link);
        if (weir__os_sampled_cpu(&s->os, &ns) == 0)
            c->cpu_ns += ns;
    }
}

/* From now on the loops time by their CPU clocks too what they time; NULL: no longer. */
static void time_by(struct take *t, weir__loop_cpu_fn *cpu) {
    for (unsigned i = 0; i < t->rt->n_loops; i++)
        atomic_store_explicit(&t->rt->loops[i].loop->account.cpu_now, cpu, memory_order_relaxed);
}

/* What looking at the CPU clock takes of it: every timed call is so much too long. */
static uint64_t look_ns(void) {
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < LOOKS; i++) {
        uint64_t before = weir__os_clock_thread_cpu(), ns = weir__os_clock_thread_cpu() - before;
        least = ns < least ? ns : least;
    }
    return least;
}

/* Of the CPU time: calls of the window times the mean of those that the CPU clock timed, and jobs.
 * < 0: none was timed. */
static double cpu_share(const struct account *from, const struct account *to, double cpu) {
    double n = (double)(to->cpu_timed - from->cpu_timed), calls = (double)(to->calls - from->calls);
    double ns = (double)(to->cpu_ns - from->cpu_ns) - n * (double)look_ns();
    double jobs = (double)(to->offload_ns - from->offload_ns);
    if (cpu <= 0 || (n == 0 && calls > 0) || (n == 0 && jobs == 0))
        return -1;
    return ((n > 0 && ns > 0 ? calls * ns / n : 0) + jobs) / cpu;
}

/* Few calls, none of them timed in the window: of the busy time, with the mean by the clock of all
 * that were timed so far. < 0: those were too few to have a mean, and the first is no usual one. */
static double busy_share(const struct account *from, const struct account *to, double busy) {
    double mean = to->sampled ? (double)to->sampled_ns / (double)to->sampled : 0;
    double jobs = (double)(to->offload_ns - from->offload_ns);
    if (busy <= 0 || to->sampled < TIMED_MIN)
        return -1;
    return ((double)(to->calls - from->calls) * mean + jobs) / busy;
}

/* What a turn used of a CPU within the window; it is taken to be even. */
static double turn_cpu_ns(const struct take *t, const struct weir_long_turn *turn) {
    uint64_t from = turn->at_ns, until = turn->at_ns + turn->length_ns;
    from = from > t->window.from_ns ? from : t->window.from_ns;
    until = until < t->window.until_ns ? until : t->window.until_ns;
    return until > from ? (double)turn->cpu_ns * (double)(until - from) / (double)turn->length_ns
                        : 0;
}

/* Of the CPU time: what turns used that were so long that the watchdog saw the handler in them. A
 * few timed calls may all be usual ones, so a handler has at least this. Where more turns were long
 * than are remembered, those that are stand for all. < 0: none was. */
static double turns_share(const struct take *t, const char *name, double cpu) {
    double ns = 0, ended = 0, counted = (double)(t->after.long_turns - t->before.long_turns);
    for (unsigned i = 0; i < t->n_turns; i++) {
        const struct weir_long_turn *turn = &t->turns[i];
        double used = turn_cpu_ns(t, turn);
        ended += turn->over && used > 0;
        if (turn->n_handlers && strcmp(turn->handlers[0], name) == 0)
            ns += used;
    }
    if (cpu <= 0 || ns <= 0)
        return -1;
    return ns * (ended > 0 && counted > ended ? counted / ended : 1) / cpu;
}

static void compare_accounts(struct take *t, struct weir_profile *p) {
    double busy = (double)(t->after.busy_ns - t->before.busy_ns), cpu = (double)p->summary.cpu_ns;
    for (unsigned i = 0; i < p->summary.n_handlers; i++) {
        struct weir_profile_handler *h = &p->handlers[i];
        const struct account *to = account_of(&t->after, h->name);
        const struct account *from = account_of(&t->before, h->name);
        double share = to && from ? cpu_share(from, to, cpu) : -1;
        if (share < 0 && to && from)
            share = busy_share(from, to, busy);
        double turns = turns_share(t, h->name, cpu);
        if (to && from && to->cpu_timed - from->cpu_timed < TIMED_MIN && turns > share)
            share = turns;
        h->account_share = share;
    }
}

/* --- the window ------------------------------------------------------------------------------ */

/* All threads that are there now, and room for what they may give. */
static int prepare(struct take *t) {
    struct weir__rt_crowd *c = &t->rt->crowd;
    unsigned n = 0;
    weir__os_mutex_lock(&c->mutex);
    while (c->loops < c->loops_max && !c->ending)
        weir__os_cond_wait(&c->changed, &c->mutex); /* the group has only just started */
    weir__base_list_each(link, &c->threads) n++;
    weir__os_mutex_unlock(&c->mutex);
    t->n_threads = n;
    if (!n)
        return WEIR_ESTOPPED;
    uint64_t most = (uint64_t)SAMPLES_MAX * 1000 / t->o.ms / n;
    if (t->o.hz > most)
        t->o.hz = most ? (unsigned)most : 1;
    uint64_t room = (uint64_t)t->o.hz * t->o.ms / 1000 * n + 64;
    t->samples = weir__mem_raw_new(sizeof *t->samples + room * sizeof t->samples->at[0]);
    t->threads = weir__mem_raw_new(n * sizeof *t->threads);
    if (!t->samples || !t->threads)
        return WEIR_ENOMEM;
    t->samples->n_max = (uint32_t)room;
    t->window.threads = (const char(*)[16])t->threads;
    return 0;
}

static int begin(struct take *t) {
    struct weir__rt_crowd *c = &t->rt->crowd;
    int error = -ESRCH;
    weir__os_mutex_lock(&c->mutex);
    count(t, &t->before);
    time_by(t, weir__os_clock_thread_cpu);
    t->window.from_ns = weir__os_clock_mono();
    unsigned n = 0;
    weir__base_list_each(link, &c->threads) {
        struct weir__rt_seen *s = container_of(link, struct weir__rt_seen, link);
        if (n == t->n_threads)
            break; /* it came since */
        memcpy(t->threads[n], s->name, sizeof s->name);
        int rc = weir__rt_seen_sample(s, t->samples, n++, t->o.hz);
        if (rc < 0)
            error = rc;
        else
            t->n_timed++;
    }
    weir__os_mutex_unlock(&c->mutex);
    return t->n_timed ? 0 : weir__os_error(error);
}

static void wait_for_window(struct take *t) {
    struct weir__rt_crowd *c = &t->rt->crowd;
    uint64_t until = t->window.from_ns + (uint64_t)t->o.ms * NS_PER_MS;
    weir__os_mutex_lock(&c->mutex);
    while (!c->ending && weir__os_cond_wait_until(&c->changed, &c->mutex, until))
        continue;
    weir__os_mutex_unlock(&c->mutex);
}

static void end(struct take *t) {
    struct weir__rt_crowd *c = &t->rt->crowd;
    weir__os_mutex_lock(&c->mutex);
    weir__base_list_each(link, &c->threads)
        weir__rt_seen_sample_end(container_of(link, struct weir__rt_seen, link));
    t->window.until_ns = weir__os_clock_mono();
    time_by(t, NULL);
    count(t, &t->after);
    weir__os_mutex_unlock(&c->mutex);
    t->n_turns = weir__rt_watchdog_turns(&t->rt->watchdog, t->turns, WEIR_LONG_TURNS);
}

/* --- what it says ---------------------------------------------------------------------------- */

static int conclude(struct take *t, struct weir_profile *p) {
    uint32_t taken = atomic_load(&t->samples->taken), n_max = t->samples->n_max;
    uint32_t n = taken < n_max ? taken : n_max;
    struct weir__os_symbols *symbols;
    int rc = weir__os_error(weir__os_symbols_new(&symbols));
    if (rc < 0)
        return rc;
    rc = weir__rt_fold(p, t->samples->at, n, &t->window, symbols);
    weir__os_symbols_free(symbols);
    if (rc < 0)
        return rc;
    struct weir_profile_summary *s = &p->summary;
    s->window_ns = t->window.until_ns - t->window.from_ns;
    s->hz = t->o.hz;
    s->threads = t->n_timed;
    s->lost = taken - n;
    s->cpu_ns = t->after.cpu_ns > t->before.cpu_ns ? t->after.cpu_ns - t->before.cpu_ns : 0;
    compare_accounts(t, p);
    weir__rt_verdict(s);
    return 0;
}

static int run(struct take *t, struct weir_profile *p) {
    int rc = prepare(t);
    if (rc < 0)
        return rc;
    rc = begin(t);
    if (rc >= 0)
        wait_for_window(t);
    end(t);
    return rc < 0 ? rc : conclude(t, p);
}

static int take(struct weir__rt *rt, const struct weir_profile_options *o,
                struct weir_profile **out) {
    struct take *t = weir__mem_raw_new(sizeof *t);
    struct weir_profile *p = weir__mem_raw_new(sizeof *p);
    int rc = WEIR_ENOMEM;
    if (t && p) {
        t->rt = rt;
        t->o = *o;
        rc = run(t, p);
        weir__mem_raw_free(t->samples);
        weir__mem_raw_free(t->threads);
    }
    weir__mem_raw_free(t);
    if (rc < 0)
        weir_profile_free(p);
    else
        *out = p;
    return rc;
}

/* --- who may take one ------------------------------------------------------------------------ */

static int options_of(const struct weir_profile_options *o, struct weir_profile_options *out) {
    *out = (struct weir_profile_options){.size = sizeof *out};
    if (o && (o->size < sizeof(size_t) || o->size > sizeof *out))
        return WEIR_EINVAL;
    if (o)
        memcpy(out, o, o->size);
    out->ms = out->ms ? out->ms : MS;
    out->hz = out->hz ? out->hz : HZ;
    return out->ms <= MS_MAX && out->hz <= HZ_MAX ? 0 : WEIR_EINVAL;
}

/* Whether this is the thread of the last profile, which the next one would have to wait for. */
static bool from_done(const struct weir__rt_crowd *c) {
    return c->job && c->job->tid == weir__os_thread_tid();
}

/* One profile of a group at a time. */
static int claim(struct weir_group *g, struct weir__rt **out) {
    if (g->world != &weir__rt_world)
        return WEIR_ENOTSUP;
    struct weir__rt *rt = g->world_data;
    struct weir__rt_crowd *c = &rt->crowd;
    weir__os_mutex_lock(&c->mutex);
    int rc = !c->open || c->ending ? WEIR_ESTOPPED
             : c->code == -ENOTSUP ? WEIR_ENOTSUP
             : c->code < 0         ? weir__os_error(c->code)
             : c->profiling        ? WEIR_EAGAIN
             : from_done(c)        ? WEIR_EAGAIN
                                   : 0;
    if (rc == 0)
        c->profiling = true;
    weir__os_mutex_unlock(&c->mutex);
    *out = rt;
    return rc;
}

static void yield(struct weir__rt *rt) {
    struct weir__rt_crowd *c = &rt->crowd;
    weir__os_mutex_lock(&c->mutex);
    c->profiling = false;
    weir__os_cond_broadcast(&c->changed);
    weir__os_mutex_unlock(&c->mutex);
}

int weir_profile_take(struct weir_group *g, const struct weir_profile_options *options,
                      struct weir_profile **out) {
    struct weir_profile_options o;
    struct weir__rt *rt;
    int rc = options_of(options, &o);
    if (rc >= 0 && weir__loop_current && weir__loop_current->env.group == g)
        rc = WEIR_EINVAL;
    if (rc < 0 || (rc = claim(g, &rt)) < 0)
        return rc;
    rc = take(rt, &o, out);
    yield(rt);
    return rc;
}

static void job_body(void *user) {
    struct weir__rt_profile_job *j = user;
    struct weir_profile *p = NULL;
    j->tid = weir__os_thread_tid();
    int rc = take(j->rt, &j->o, &p);
    yield(j->rt); /* first, so that who learns from done that it is over can take the next */
    j->done(p, rc, j->user);
}

void weir__rt_profile_job_join(struct weir__rt_crowd *c) {
    if (c->job) {
        weir__os_thread_join(&c->job->thread);
        weir__mem_raw_free(c->job);
    }
    c->job = NULL;
}

int weir_profile_start(struct weir_group *g, const struct weir_profile_options *options,
                       void (*done)(struct weir_profile *p, int code, void *user), void *user) {
    struct weir_profile_options o;
    struct weir__rt *rt;
    int rc = options_of(options, &o);
    if (rc < 0 || (rc = claim(g, &rt)) < 0)
        return rc;
    weir__rt_profile_job_join(&rt->crowd); /* it has yielded: only its done may still run */
    struct weir__rt_profile_job *j = weir__mem_raw_new(sizeof *j);
    rc = WEIR_ENOMEM;
    if (j) {
        *j = (struct weir__rt_profile_job){.rt = rt, .o = o, .done = done, .user = user};
        /* Its thread needs the mutex, so that it cannot be over before it is known. */
        weir__os_mutex_lock(&rt->crowd.mutex);
        rc = weir__os_error(weir__os_thread_start(&j->thread, "weir-profile", job_body, j));
        rt->crowd.job = rc >= 0 ? j : NULL;
        weir__os_mutex_unlock(&rt->crowd.mutex);
    }
    if (rc >= 0)
        return 0;
    weir__mem_raw_free(j);
    yield(rt);
    return rc;
}

/* --- reading --------------------------------------------------------------------------------- */

const char *weir_profile_folded(const struct weir_profile *p, size_t *n) {
    if (n)
        *n = p->folded.n;
    return p->folded.at;
}

const struct weir_profile_summary *weir_profile_summary(const struct weir_profile *p) {
    return &p->summary;
}

const char *weir_profile_phase_name(enum weir_profile_phase phase) {
    static const char *const names[WEIR_PROFILE_PHASES] = {"wait", "receive", "send", "handler",
                                                           "other"};
    return (unsigned)phase < WEIR_PROFILE_PHASES ? names[phase] : "?";
}

void weir_profile_free(struct weir_profile *p) {
    if (!p)
        return;
    weir__rt_fold_fini(p);
    weir__mem_raw_free(p);
}
