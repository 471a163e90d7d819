#include "rt/watchdog.h"
#include "os/clock.h"
#include "os/error.h"
#include "os/file.h"
#include "os/symbol.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    LOOKS = 4,            /* within the limit */
    PICTURE_LOOK_MS = 2,  /* while a picture is awaited */
    PICTURE_WAIT_MS = 50, /* then the turn is told of without one */
    PAUSES_MS = 100,
    NS_PER_MS = 1000000,
};

/* --- what is news, pure ---------------------------------------------------------------------- */

enum weir__rt_turn_news weir__rt_turn_look(struct weir__rt_turn_watch *w,
                                           const struct weir__rt_turn_view *v, uint64_t limit_ns) {
    if (v->long_turns != w->counted) {
        w->counted = v->long_turns;
        return WEIR__RT_OVER;
    }
    bool runs = v->at_ns > v->ended_ns, is_long = runs && v->now_ns > v->at_ns + limit_ns;
    if (!is_long || v->at_ns == w->noted_at_ns)
        return WEIR__RT_CALM;
    w->noted_at_ns = v->at_ns;
    return WEIR__RT_BEGAN;
}

bool weir__rt_may_say(struct weir__rt_said *s, uint64_t now_ns, unsigned *hushed) {
    if (!s->since_ns || now_ns - s->since_ns >= (uint64_t)WEIR__RT_SAID_S * 1000 * NS_PER_MS) {
        s->since_ns = now_ns;
        s->n = 0;
    }
    if (s->n == WEIR__RT_SAID_MAX) {
        s->hushed++;
        return false;
    }
    s->n++;
    *hushed = s->hushed;
    s->hushed = 0;
    return true;
}

/* --- words ----------------------------------------------------------------------------------- */

struct text {
    char *at;
    size_t n, cap;
};

WEIR_PRINTF(2, 3) static void add(struct text *t, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(t->at + t->n, t->cap - t->n, fmt, args);
    va_end(args);
    if (n > 0)
        t->n += (size_t)n < t->cap - t->n ? (size_t)n : t->cap - t->n - 1;
}

static void add_handlers(struct text *t, const struct weir_long_turn *x) {
    add(t, x->n_handlers ? ", in handler %s" : ", outside any handler", x->handlers[0]);
    for (unsigned i = 1; i < x->n_handlers; i++)
        add(t, " < %s", x->handlers[i]);
    if (x->channel)
        add(t, " (channel %llx)", (unsigned long long)x->channel);
}

static void say(struct weir__rt_watchdog *w, const struct weir_long_turn *x) {
    char line[sizeof x->stack + 512];
    struct text t = {.at = line, .cap = sizeof line};
    unsigned hushed, ms = (unsigned)(x->length_ns / NS_PER_MS);
    if (!weir__rt_may_say(&w->said, weir__os_clock_mono(), &hushed))
        return;
    add(&t, x->over ? "loop %u: a turn of %u ms is over" : "loop %u: a turn has run %u ms", x->loop,
        ms);
    if (x->stack[0] || x->n_handlers) {
        add_handlers(&t, x);
        if (!x->over && x->stack[0])
            add(&t, ": %s", x->stack);
    }
    if (hushed)
        add(&t, " (%u lines about other turns were left out)", hushed);
    weir__loop_group_log(w->group, line);
}

/* Down to the loop's own turn, which is the same below every one. */
static void name_stack(const struct weir__os_stack *at, char *out, size_t cap) {
    struct weir__os_symbols *symbols;
    struct text t = {.at = out, .cap = cap};
    out[0] = 0;
    if (weir__os_symbols_new(&symbols) < 0)
        return;
    for (unsigned i = 0; i < at->n; i++) {
        char name[160];
        weir__os_symbols_name(symbols, at->pc[i] - (i > 0), true, name, sizeof name);
        if (strncmp(name, "weir__loop_turn+", 16) == 0 || t.n + strlen(name) + 4 > cap)
            break;
        add(&t, i ? " < %s" : "%s", name);
    }
    weir__os_symbols_free(symbols);
}

/* --- the ring of long turns ------------------------------------------------------------------ */

static struct weir_long_turn *find(struct weir__rt_watchdog *w, unsigned loop, uint64_t at_ns) {
    for (unsigned i = 0; i < WEIR_LONG_TURNS; i++)
        if (w->turns[i].at_ns == at_ns && w->turns[i].loop == loop)
            return &w->turns[i];
    return NULL;
}

/* A loop has one turn at a time: those before this one are over, even where no look met their end.
 * They are then as long as they were last seen. */
static void end_earlier(struct weir__rt_watchdog *w, const struct weir_long_turn *x) {
    for (unsigned i = 0; i < WEIR_LONG_TURNS; i++)
        if (w->turns[i].loop == x->loop && w->turns[i].at_ns < x->at_ns)
            w->turns[i].over = true;
}

/* Puts x in its place, a new one or that of the same turn, whose picture stays. x is then what
 * stands there. */
static void keep(struct weir__rt_watchdog *w, struct weir_long_turn *x) {
    weir__os_mutex_lock(&w->crowd->mutex);
    struct weir_long_turn *have = find(w, x->loop, x->at_ns);
    if (have) {
        have->over = x->over;
        have->length_ns = x->length_ns;
        have->cpu_ns = x->cpu_ns;
        *x = *have;
    } else {
        end_earlier(w, x);
        w->turns[w->n_turns++ % WEIR_LONG_TURNS] = *x;
    }
    weir__os_mutex_unlock(&w->crowd->mutex);
}

/* The loop publishes its CPU time at the end of a turn, so that what came since is this turn's.
 * Under the crowd's mutex, or on the watchdog's thread: loops end after that. */
static uint64_t cpu_so_far(const struct weir__rt_watchdog *w, const struct weir_long_turn *t) {
    const struct weir__rt_seen *s = w->loops[t->loop].seen;
    uint64_t now, before = atomic_load(&s->loop->counters.cpu_ns);
    if (!atomic_load(&s->os.tid) || weir__os_sampled_cpu(&s->os, &now) < 0 || now < before)
        return 0;
    return now - before < t->length_ns ? now - before : t->length_ns;
}

unsigned weir__rt_watchdog_turns(struct weir__rt_watchdog *w, struct weir_long_turn *out,
                                 unsigned n_max) {
    uint64_t now = weir__os_clock_mono();
    unsigned n = 0;
    weir__os_mutex_lock(&w->crowd->mutex);
    unsigned have = w->n_turns < WEIR_LONG_TURNS ? (unsigned)w->n_turns : WEIR_LONG_TURNS;
    for (; n < n_max && n < have; n++) {
        out[n] = w->turns[(w->n_turns - 1 - n) % WEIR_LONG_TURNS];
        if (out[n].over)
            continue;
        out[n].length_ns = now > out[n].at_ns ? now - out[n].at_ns : 0;
        out[n].cpu_ns = cpu_so_far(w, &out[n]);
    }
    weir__os_mutex_unlock(&w->crowd->mutex);
    return n;
}

/* --- looks ----------------------------------------------------------------------------------- */

/* What ended is read before what began, so that a turn that ends meanwhile looks idle, not long;
 * the count before the last long turn, so that this is that turn or a later one. */
static struct weir__rt_turn_view view_of(struct weir_loop *l) {
    struct weir__loop_counters *c = &l->counters;
    struct weir__rt_turn_view v = {.now_ns = weir__os_clock_mono()};
    v.long_turns = atomic_load_explicit(&l->pauses[WEIR_PAUSE_TURN].count, memory_order_acquire);
    v.long_at_ns = atomic_load_explicit(&c->long_at_ns, memory_order_relaxed);
    v.long_ns = atomic_load_explicit(&c->long_ns, memory_order_relaxed);
    v.long_cpu_ns = atomic_load_explicit(&c->long_cpu_ns, memory_order_relaxed);
    v.ended_ns = atomic_load_explicit(&c->at_ns, memory_order_acquire);
    v.at_ns = atomic_load_explicit(&c->turn_at_ns, memory_order_relaxed);
    return v;
}

/* The running turn, with its picture when it was taken. */
static void tell_running(struct weir__rt_watchdog *w, struct weir__rt_watched *x, uint64_t now_ns) {
    const struct weir__rt_picture *p = &x->seen->picture;
    struct weir_long_turn t = {.loop = x->seen->loop->env.index, .at_ns = x->turns.noted_at_ns};
    t.length_ns = now_ns - t.at_ns;
    t.cpu_ns = cpu_so_far(w, &t);
    if (weir__rt_picture_taken(x->seen)) {
        t.channel = p->channel;
        t.n_handlers = p->n_handlers;
        memcpy(t.handlers, p->handlers, sizeof t.handlers);
        name_stack(&p->at, t.stack, sizeof t.stack);
    }
    x->asked_ns = 0;
    keep(w, &t);
    say(w, &t);
}

static void look_at_picture(struct weir__rt_watchdog *w, struct weir__rt_watched *x,
                            uint64_t now_ns) {
    if (x->asked_ns && (weir__rt_picture_taken(x->seen) ||
                        now_ns - x->asked_ns > (uint64_t)PICTURE_WAIT_MS * NS_PER_MS))
        tell_running(w, x, now_ns);
}

static void look_at_turn(struct weir__rt_watchdog *w, struct weir__rt_watched *x) {
    struct weir__rt_turn_view v = view_of(x->seen->loop);
    look_at_picture(w, x, v.now_ns);
    switch (weir__rt_turn_look(&x->turns, &v, w->limit_ns)) {
    case WEIR__RT_CALM: break;
    case WEIR__RT_BEGAN:
        x->asked_ns = v.now_ns;
        if (!weir__rt_picture_ask(x->seen, v.at_ns))
            tell_running(w, x, v.now_ns);
        break;
    case WEIR__RT_OVER:
        if (x->asked_ns && x->turns.noted_at_ns == v.long_at_ns)
            tell_running(w, x, v.now_ns);
        struct weir_long_turn t = {.loop = x->seen->loop->env.index,
                                   .over = true,
                                   .at_ns = v.long_at_ns,
                                   .length_ns = v.long_ns,
                                   .cpu_ns = v.long_cpu_ns};
        keep(w, &t);
        say(w, &t);
        break;
    }
}

static int read_text(void *user, const char *path, char *buf, size_t cap) {
    (void)user;
    return weir__os_file_text(path, buf, cap);
}

static void look_at_pauses(struct weir__rt_watchdog *w, uint64_t now_ns) {
    if (now_ns < w->pauses_at_ns)
        return;
    w->pauses_at_ns = now_ns + (uint64_t)PAUSES_MS * NS_PER_MS;
    for (unsigned i = 0; i < w->group->n_loops; i++) {
        struct weir__rt_watched *x = &w->loops[i];
        int tid = atomic_load(&x->seen->os.tid);
        if (tid)
            weir__rt_pause_loop_look(&x->pauses, x->seen->loop, tid, read_text, NULL);
    }
    weir__rt_pause_quota_look(&w->quota, w->group->loops, w->group->n_loops, read_text, NULL);
}

/* When to look again: soon, while a picture is awaited. */
static uint64_t look(struct weir__rt_watchdog *w) {
    uint64_t pause_ns = w->limit_ns / LOOKS, soon_ns = (uint64_t)PICTURE_LOOK_MS * NS_PER_MS;
    uint64_t most_ns = (uint64_t)PAUSES_MS * NS_PER_MS;
    pause_ns = pause_ns > most_ns ? most_ns : pause_ns < NS_PER_MS ? NS_PER_MS : pause_ns;
    for (unsigned i = 0; i < w->group->n_loops; i++) {
        struct weir__rt_watched *x = &w->loops[i];
        if (!atomic_load(&x->seen->os.tid))
            continue; /* it has not begun, or has ended */
        look_at_turn(w, x);
        if (x->asked_ns && soon_ns < pause_ns)
            pause_ns = soon_ns;
    }
    uint64_t now_ns = weir__os_clock_mono();
    look_at_pauses(w, now_ns);
    return now_ns + pause_ns;
}

static void body(void *user) {
    struct weir__rt_watchdog *w = user;
    weir__rt_pause_quota_init(&w->quota, read_text, NULL);
    for (;;) {
        uint64_t until_ns = look(w);
        weir__os_mutex_lock(&w->crowd->mutex);
        while (!w->end && weir__os_cond_wait_until(&w->crowd->changed, &w->crowd->mutex, until_ns))
            continue;
        bool end = w->end;
        weir__os_mutex_unlock(&w->crowd->mutex);
        if (end)
            break;
    }
    (void)look(w); /* what ended since */
}

int weir__rt_watchdog_start(struct weir__rt_watchdog *w, struct weir__rt_watched *loops) {
    if (!w->limit_ns)
        return 0;
    w->loops = loops;
    int rc = weir__os_thread_start(&w->thread, "weir-watch", body, w);
    if (rc < 0)
        return weir__os_error(rc);
    weir__os_mutex_lock(&w->crowd->mutex);
    w->started = true;
    weir__os_mutex_unlock(&w->crowd->mutex);
    return 0;
}

void weir__rt_watchdog_stop(struct weir__rt_watchdog *w) {
    weir__os_mutex_lock(&w->crowd->mutex);
    bool started = w->started;
    w->end = true;
    weir__os_cond_broadcast(&w->crowd->changed);
    weir__os_mutex_unlock(&w->crowd->mutex);
    if (started)
        weir__os_thread_join(&w->thread);
}
