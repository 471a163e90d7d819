#include "loop/loop.h"
#include "loop/group.h"
#include "mem/pool.h"
#include "mem/raw.h"
#include <stdalign.h>
#include <string.h>

WEIR_TLS struct weir_loop *weir__loop_current;

int weir__loop_new(const struct weir__loop_env *env, struct weir_loop **out) {
    struct weir_loop *l = weir__mem_raw_new(sizeof *l);
    if (!l)
        return WEIR_ENOMEM;
    l->env = *env;
    l->io = env->io;
    l->mem = env->mem;
    l->inbox = env->inbox;
    l->cpu = -1;
    l->slots = &l->inbox->slots;
    l->pauses_known = env->long_turn_ns ? 1u << WEIR_PAUSE_TURN : 0;
    l->now_ns = l->drained_ns = l->io->ops->now(l->io);
    l->stride = l->to_look = 1;
    weir__loop_inbox_open(l->inbox, l);
    weir__base_list_init(&l->members);
    weir__base_list_init(&l->stoppers);
    weir__base_list_init(&l->locals);
    weir__time_wheel_init(&l->wheel, l->now_ns);
    weir__loop_account_init(&l->account, l->io);
    l->work_member.stop = weir__loop_work_stop;
    *out = l;
    return 0;
}

static void run_nodes(struct weir_loop *l, struct weir__loop_node *n) {
    while (n) {
        struct weir__loop_node *next = n->next;
        l->worked++;
        n->run(l, n);
        n = next;
    }
}

static void drop_stoppers(struct weir_loop *l);

struct local {
    struct weir__base_link link;
    const void *key;
    alignas(16) uint8_t bytes[];
};

void *weir__loop_local(struct weir_loop *l, const void *key, size_t bytes) {
    weir__base_list_each(link, &l->locals) {
        struct local *x = container_of(link, struct local, link);
        if (x->key == key)
            return x->bytes;
    }
    struct local *x = weir__mem_raw_new(sizeof *x + bytes);
    if (!x)
        return NULL;
    x->key = key;
    weir__base_list_push_front(&l->locals, &x->link);
    return x->bytes;
}

static void drop_locals(struct weir_loop *l) {
    struct weir__base_link *link;
    while ((link = weir__base_list_pop_front(&l->locals)))
        weir__mem_raw_free(container_of(link, struct local, link));
}

void weir__loop_free(struct weir_loop *l) {
    must(weir__base_list_empty(&l->members));
    drop_stoppers(l);
    drop_locals(l);
    if (!l->deaf)
        run_nodes(l, weir__loop_inbox_close(l->inbox));
    must(weir__base_fifo_empty(&l->dirty) && weir__base_fifo_empty(&l->graves));
    weir__time_wheel_forget(&l->wheel); /* a program's timers end with their loop */
    weir__time_wheel_fini(&l->wheel);
    weir__mem_raw_free(l);
}

struct weir_loop *weir__loop_enter(struct weir_loop *l) {
    struct weir_loop *before = weir__loop_current;
    weir__loop_current = l;
    weir__mem_enter(l ? l->mem : NULL);
    return before;
}

int weir__loop_start(struct weir_loop *l) {
    return l->io->ops->start ? l->io->ops->start(l->io) : 0;
}

void weir__loop_wake(struct weir_loop *l) {
    l->io->ops->wake(l->io);
}

void weir__loop_stop(struct weir_loop *l, uint32_t drain_ms) {
    uint64_t want = (uint64_t)drain_ms + 1, have = atomic_load(&l->stop_ms);
    do {
        if (have && have <= want)
            return;
    } while (!atomic_compare_exchange_weak(&l->stop_ms, &have, want));
    weir__loop_wake(l);
}

struct weir__loop_handler *weir__loop_name(struct weir_loop *l, const char *name) {
    return weir__loop_intern(&l->account, name);
}

void weir__loop_attribute(struct weir_loop *l, struct weir__loop_handler *h, uint64_t ref) {
    weir__loop_frame_enter(&l->account, h, ref);
}

void weir__loop_attribute_end(struct weir_loop *l) {
    weir__loop_frame_leave(&l->account);
}

struct weir__loop_account *weir__loop_account_of(struct weir_loop *l) {
    return &l->account;
}

const struct weir_buf *const *weir__loop_receiving(const struct weir_loop *l) {
    return &l->io->receiving;
}

uint64_t weir__loop_entropy(struct weir_loop *l) {
    return l->io->ops->entropy(l->io);
}

/* --- drain -------------------------------------------------------------------------------- */

void weir__loop_dirty_mark(struct weir_loop *l, struct weir__loop_dirty *d) {
    if (d->queued)
        return;
    d->queued = true;
    weir__base_fifo_push(&l->dirty, &d->link);
}

/* Takes the list as it stood: what becomes dirty again waits for the next drain, so that no source
 * can fill a fast socket for ever. */
static WEIR_NOINLINE void drain_list(struct weir_loop *l) {
    struct weir__base_fifo now = l->dirty;
    struct weir__base_fifo_link *link;
    l->dirty = (struct weir__base_fifo){0};
    while ((link = weir__base_fifo_pop(&now))) {
        struct weir__loop_dirty *d = container_of(link, struct weir__loop_dirty, link);
        d->queued = false;
        l->worked++;
        d->drain(d);
    }
}

static void drain(struct weir_loop *l) {
    if (!weir__base_fifo_empty(&l->dirty))
        drain_list(l);
    l->since_drain = 0;
    l->drained_ns = l->now_ns;
}

/* --- dispatch ----------------------------------------------------------------------------- */

/* Looks at the clock, and drains when it is time for that. Brisk completions share a look: a slow
 * one costs as much as hundreds of looks, a brisk one as much as a few. */
static WEIR_NOINLINE void look(struct weir_loop *l) {
    uint64_t now = l->io->ops->now(l->io);
    bool brisk = now - l->now_ns < WEIR__LOOP_BRISK_NS;
    l->now_ns = now;
    l->since_drain += l->stride - l->to_look;
    if (unlikely(l->since_drain >= WEIR__LOOP_DRAIN_EVERY) ||
        unlikely(now - l->drained_ns >= WEIR__LOOP_DRAIN_NS))
        drain(l);
    brisk = brisk && l->since_drain + WEIR__LOOP_STRIDE <= WEIR__LOOP_DRAIN_EVERY;
    l->to_look = l->stride = brisk ? WEIR__LOOP_STRIDE : 1;
}

static unsigned dispatch(struct weir_loop *l, unsigned budget) {
    struct weir__io *io = l->io;
    struct weir__io_done d;
    unsigned n = 0;
    while (n < budget && io->ops->next(io, &d)) {
        struct weir__loop_sink *sink = d.user;
        sink->done(sink, &d);
        n++;
        if (--l->to_look == 0)
            look(l);
    }
    if (l->to_look != l->stride) /* what follows is told the time as it is now */
        look(l);
    if (n == budget)
        l->look_only = true;
    l->worked += n;
    return n;
}

/* --- timers ------------------------------------------------------------------------------- */

_Static_assert(sizeof(struct weir__time_node) <= sizeof(((struct weir_timer *)0)->link),
               "weir_timer has room for a wheel node");

static struct weir__time_node *timer_node(struct weir_timer *t) {
    return (struct weir__time_node *)(void *)t->link;
}

void weir_timer_arm(struct weir_loop *l, struct weir_timer *t, uint64_t deadline_ns,
                    void (*fn)(struct weir_timer *t)) {
    t->loop = l;
    t->fn = fn;
    weir__time_wheel_arm(&l->wheel, timer_node(t), deadline_ns, l->now_ns);
}

bool weir_timer_disarm(struct weir_timer *t) {
    return t->loop && weir__time_wheel_disarm(&t->loop->wheel, timer_node(t));
}

static void run_timers(struct weir_loop *l) {
    struct weir__time_node *n;
    while ((n = weir__time_wheel_pop(&l->wheel, l->now_ns))) {
        struct weir_timer *t = container_of((void *(*)[4])(void *)n, struct weir_timer, link);
        weir__loop_add(&l->counters.timers, 1);
        l->worked++;
        t->fn(t);
    }
}

/* --- inbox and tasks ---------------------------------------------------------------------- */

/* Nodes and fifo links share their first word, so a node waits in a fifo without another field. */
_Static_assert(offsetof(struct weir__loop_node, next) ==
                   offsetof(struct weir__base_fifo_link, next),
               "a node is a fifo link");

static void fifo_add(struct weir__base_fifo *f, struct weir__loop_node *n) {
    weir__base_fifo_push(f, (struct weir__base_fifo_link *)(void *)n);
}

void weir__loop_task(struct weir_loop *l, struct weir__loop_node *n) {
    fifo_add(&l->tasks, n);
}

void weir__loop_closer(struct weir_loop *l, struct weir__loop_node *n) {
    fifo_add(&l->closers, n);
}

/* A close request shares one node per slot among all threads, so it may stand before what its own
 * thread pushed earlier. Therefore closes found in one take run only after the next take: whatever
 * was pushed before the request is in by then. */
static void run_closers(struct weir_loop *l) {
    struct weir__base_fifo due = l->closers;
    struct weir__base_fifo_link *link;
    l->closers = (struct weir__base_fifo){0};
    run_nodes(l, weir__loop_inbox_take(l->inbox));
    while ((link = weir__base_fifo_pop(&due))) {
        struct weir__loop_node *n = (struct weir__loop_node *)(void *)link;
        l->worked++;
        n->run(l, n);
    }
}

/* Those that arrive while closers run get their turn too, a few times; then the rest of the loop
 * gets its own. */
static void run_inbox(struct weir_loop *l) {
    run_nodes(l, weir__loop_inbox_take(l->inbox));
    for (unsigned round = 0; round < 4 && !weir__base_fifo_empty(&l->closers); round++)
        run_closers(l);
    if (unlikely(!weir__base_fifo_empty(&l->closers)))
        l->look_only = true;
}

/* As they stood: a task that asks for another go gets it in the next turn, when I/O has had its
 * own. */
static void run_tasks(struct weir_loop *l) {
    struct weir__base_fifo_link *link = NULL, *last = l->tasks.last;
    for (unsigned i = 0;
         i < WEIR__LOOP_TASKS_MAX && !weir__base_fifo_empty(&l->tasks) && link != last; i++) {
        link = weir__base_fifo_pop(&l->tasks);
        struct weir__loop_node *n = (struct weir__loop_node *)(void *)link;
        weir__loop_add(&l->counters.tasks, 1);
        l->worked++;
        n->run(l, n);
    }
}

struct posted {
    struct weir__loop_node node;
    void (*fn)(struct weir_loop *l, void *user);
    void *user;
};

static void posted_run(struct weir_loop *l, struct weir__loop_node *n) {
    struct posted *p = container_of(n, struct posted, node);
    p->fn(l, p->user);
    weir__mem_raw_free(p);
}

static void posted_arrive(struct weir_loop *l, struct weir__loop_node *n) {
    n->run = posted_run;
    weir__loop_task(l, n);
}

int weir_loop_post(struct weir_loop *l, void (*fn)(struct weir_loop *l, void *user), void *user) {
    struct posted *p = weir__mem_raw_new(sizeof *p);
    if (!p)
        return WEIR_ENOMEM;
    p->node.run = posted_arrive;
    p->fn = fn;
    p->user = user;
    int rc = weir__loop_inbox_push(l->inbox, &p->node);
    if (rc < 0)
        weir__mem_raw_free(p);
    return rc;
}

/* --- the end ------------------------------------------------------------------------------ */

void weir__loop_member_add(struct weir_loop *l, struct weir__loop_member *m) {
    weir__base_list_push_back(&l->members, &m->link);
    l->late |= l->phase != WEIR__LOOP_RUNNING;
}

void weir__loop_member_remove(struct weir_loop *l, struct weir__loop_member *m) {
    (void)l;
    weir__base_list_remove(&m->link);
}

void weir__loop_bury(struct weir_loop *l, struct weir__loop_grave *g) {
    weir__base_fifo_push(&l->graves, &g->link);
}

static void bury(struct weir_loop *l) {
    struct weir__base_fifo_link *link;
    while ((link = weir__base_fifo_pop(&l->graves))) {
        struct weir__loop_grave *g = container_of(link, struct weir__loop_grave, link);
        g->bury(g);
    }
}

struct stopper {
    struct weir__base_link link;
    void (*fn)(struct weir_loop *l, void *user);
    void *user;
};

int weir_loop_on_stop(struct weir_loop *l, void (*fn)(struct weir_loop *l, void *user),
                      void *user) {
    struct stopper *s = weir__mem_raw_new(sizeof *s);
    if (!s)
        return WEIR_ENOMEM;
    s->fn = fn;
    s->user = user;
    weir__base_list_push_back(&l->stoppers, &s->link);
    return 0;
}

static void run_stoppers(struct weir_loop *l) {
    struct weir__base_link *link;
    while ((link = weir__base_list_pop_front(&l->stoppers))) {
        struct stopper *s = container_of(link, struct stopper, link);
        s->fn(l, s->user);
        weir__mem_raw_free(s);
    }
}

static void drop_stoppers(struct weir_loop *l) {
    struct weir__base_link *link;
    while ((link = weir__base_list_pop_front(&l->stoppers)))
        weir__mem_raw_free(container_of(link, struct stopper, link));
}

static void stop_members(struct weir_loop *l, bool abort) {
    weir__base_list_each(link, &l->members) {
        struct weir__loop_member *m = container_of(link, struct weir__loop_member, link);
        m->stop(m, abort);
    }
}

/* Whoever's post was not refused sees it run, so the inbox closes while the loop can still do what
 * comes out of it. */
static void end(struct weir_loop *l) {
    if (!l->deaf) {
        l->deaf = true;
        run_nodes(l, weir__loop_inbox_close(l->inbox));
        run_inbox(l);
    }
    if (weir__base_list_empty(&l->members) && weir__base_fifo_empty(&l->tasks))
        l->phase = WEIR__LOOP_ENDED;
}

static void new_deadline(struct weir_loop *l, uint64_t stop) {
    uint64_t until = l->now_ns + (stop - 1) * 1000000;
    if (!l->stop_seen || until < l->drain_until_ns)
        l->drain_until_ns = until;
    l->stop_seen = stop;
}

/* RUNNING -> DRAINING -> ABORTING -> ENDED; each step at most once, ENDED as soon as no member is
 * left. */
static void advance_phase(struct weir_loop *l) {
    uint64_t stop = atomic_load_explicit(&l->stop_ms, memory_order_relaxed);
    if (likely(!stop))
        return;
    if (stop != l->stop_seen)
        new_deadline(l, stop);
    if (l->phase == WEIR__LOOP_RUNNING) {
        l->phase = WEIR__LOOP_DRAINING;
        run_stoppers(l);
        stop_members(l, false);
    }
    if (l->phase == WEIR__LOOP_DRAINING && l->now_ns >= l->drain_until_ns) {
        l->phase = WEIR__LOOP_ABORTING;
        stop_members(l, true);
    }
    if (l->late) {
        l->late = false;
        stop_members(l, l->phase == WEIR__LOOP_ABORTING);
    }
    if (weir__base_list_empty(&l->members))
        end(l); /* also while tasks are waiting: who posts without end would keep it from ending */
}

bool weir__loop_abandon(struct weir_loop *l) {
    check(weir__loop_current == l);
    l->phase = WEIR__LOOP_ABORTING;
    do {
        l->late = false;
        run_stoppers(l);
        stop_members(l, true);
        if (unlikely(l->works)) {
            weir__loop_work_await(l);
            run_inbox(l);
        }
        while (dispatch(l, WEIR__LOOP_DISPATCH_MAX))
            ;
        run_tasks(l);
        drain(l);
        bury(l);
        end(l);
    } while (l->late || !weir__base_fifo_empty(&l->tasks));
    return l->phase == WEIR__LOOP_ENDED;
}

/* --- the turn ----------------------------------------------------------------------------- */

uint64_t weir__loop_deadline(const struct weir_loop *l) {
    if (l->look_only || !weir__base_fifo_empty(&l->dirty) || !weir__base_fifo_empty(&l->tasks))
        return 0;
    uint64_t stop = atomic_load_explicit(&l->stop_ms, memory_order_relaxed);
    if (unlikely(stop && l->phase == WEIR__LOOP_RUNNING))
        return 0;
    uint64_t next = weir__time_wheel_next(&l->wheel);
    if (unlikely(l->phase == WEIR__LOOP_DRAINING && l->drain_until_ns < next))
        next = l->drain_until_ns;
    return next;
}

static void sample_cpu(struct weir_loop *l) {
    if (l->now_ns - l->sampled_cpu_ns < 1000000)
        return;
    l->sampled_cpu_ns = l->now_ns;
    if (l->env.cpu_now)
        atomic_store_explicit(&l->counters.cpu_ns, l->env.cpu_now(), memory_order_relaxed);
    struct weir__mem_stats m;
    if (!weir__mem_tick(l->mem, &m))
        return;
    atomic_store_explicit(&l->counters.memory_live, m.live_bytes, memory_order_relaxed);
    atomic_store_explicit(&l->counters.memory_chunks, m.chunk_bytes + m.huge_bytes,
                          memory_order_relaxed);
}

/* Results of much work come one by one, and a wake-up for each costs more than the result may be
 * worth. While they keep coming the loop sleeps a moment in which nobody rings, and finds several:
 * who waits for one of so many waits longer for his turn than for this. bench/offload.py measures
 * what it brings: 1.58 times the calls of no offload became 1.66. */
static uint64_t gather(struct weir_loop *l, uint64_t until) {
    uint64_t ns = l->gather_ns;
    l->gather_ns = 0;
    if (likely(ns < WEIR__LOOP_GATHER_MIN_NS) || l->works < WEIR__LOOP_CROWD)
        return until;
    ns = ns < WEIR__LOOP_GATHER_MAX_NS ? ns : WEIR__LOOP_GATHER_MAX_NS;
    if (until <= l->now_ns + ns)
        return until;
    weir__loop_inbox_awake(l->inbox);
    return l->now_ns + ns;
}

static int turn_wait(struct weir_loop *l) {
    uint64_t until = weir__loop_deadline(l);
    if (until && !weir__loop_inbox_doze(l->inbox))
        until = 0;
    until = gather(l, until);
    uint64_t before = l->now_ns;
    l->look_only = false;
    int slept = l->io->ops->wait(l->io, until);
    weir__loop_inbox_awake(l->inbox);
    l->now_ns = l->io->ops->now(l->io);
    if (slept == 1 && l->now_ns - before > WEIR__LOOP_NAP_NS) {
        l->slept++;
        weir__loop_add(&l->counters.sleeps, 1);
        weir__loop_add(&l->counters.poll_ns, l->now_ns - before);
    } else {
        weir__loop_add(&l->counters.busy_ns, l->now_ns - before);
    }
    return slept;
}

/* Where nothing runs after the dispatch, its last look at the clock still tells the time. */
static void turn_work(struct weir_loop *l) {
    unsigned done = dispatch(l, WEIR__LOOP_DISPATCH_MAX);
    uint64_t worked = l->worked;
    drain(l);
    run_timers(l);
    if (unlikely(!weir__loop_inbox_empty(l->inbox) || !weir__base_fifo_empty(&l->closers)))
        run_inbox(l);
    if (unlikely(!weir__base_fifo_empty(&l->tasks)))
        run_tasks(l);
    drain(l);
    if (l->io->ops->submit) {
        l->io->ops->submit(l->io);
        if (done < WEIR__LOOP_DISPATCH_MAX)
            dispatch(l, WEIR__LOOP_DISPATCH_MAX - done);
        drain(l);
    }
    advance_phase(l);
    drain(l);
    bool idle = l->worked == worked && weir__base_fifo_empty(&l->graves) &&
                l->phase == WEIR__LOOP_RUNNING && !l->io->ops->submit;
    bury(l);
    if (!idle)
        l->now_ns = l->io->ops->now(l->io);
}

/* A sample is at most 1 ms of work old, and long turns are longer. */
static uint64_t cpu_since_sample(const struct weir_loop *l, uint64_t otherwise) {
    uint64_t before = atomic_load_explicit(&l->counters.cpu_ns, memory_order_relaxed);
    uint64_t used = l->env.cpu_now ? l->env.cpu_now() - before : otherwise;
    return used < otherwise ? used : otherwise;
}

static WEIR_COLD void note_turn(struct weir_loop *l, uint64_t started, uint64_t took) {
    uint64_t limit = l->env.long_turn_ns;
    struct weir__loop_counters *c = &l->counters;
    if (took > atomic_load_explicit(&c->turn_max_ns, memory_order_relaxed))
        atomic_store_explicit(&c->turn_max_ns, took, memory_order_relaxed);
    l->notable_ns = limit && limit < took ? limit : l->counters.turn_max_ns;
    if (!limit || took <= limit)
        return;
    atomic_store_explicit(&c->long_at_ns, started, memory_order_relaxed);
    atomic_store_explicit(&c->long_ns, took, memory_order_relaxed);
    atomic_store_explicit(&c->long_cpu_ns, cpu_since_sample(l, took), memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    weir__base_pause_add(&l->pauses[WEIR_PAUSE_TURN], 1, took);
}

static void turn_account(struct weir_loop *l, uint64_t started) {
    uint64_t took = l->now_ns - started;
    weir__loop_add(&l->counters.busy_ns, took);
    weir__loop_add(&l->counters.turns, 1);
    if (unlikely(took > l->notable_ns))
        note_turn(l, started, took);
    atomic_store_explicit(&l->counters.at_ns, l->now_ns, memory_order_relaxed);
    sample_cpu(l);
}

int weir__loop_turn(struct weir_loop *l) {
    check(weir__loop_current == l);
    int slept = turn_wait(l);
    if (slept < 0)
        return slept;
    uint64_t started = l->now_ns;
    atomic_store_explicit(&l->counters.turn_at_ns, started, memory_order_relaxed);
    turn_work(l);
    turn_account(l, started);
    return l->phase != WEIR__LOOP_ENDED;
}

void weir__loop_settle(struct weir_loop *l) {
    uint64_t before;
    do {
        before = l->worked;
        l->look_only = true;
        weir__loop_turn(l);
    } while ((l->worked != before || weir__loop_deadline(l) == 0) && l->phase != WEIR__LOOP_ENDED);
}

/* --- public small things ------------------------------------------------------------------ */

unsigned weir_loop_index(const struct weir_loop *l) {
    return l->env.index;
}

uint64_t weir_loop_now(const struct weir_loop *l) {
    return l->now_ns;
}

struct weir_mem *weir_loop_mem(struct weir_loop *l) {
    return l->mem;
}
