#include "load/progress.h"
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

struct sum {
    uint64_t started, ok, missed, opened;
};

static uint64_t get(const _Atomic uint64_t *v) {
    return atomic_load_explicit(v, memory_order_relaxed);
}

static struct sum sum_of(const struct load_run *r, bool window) {
    struct sum s = {0};
    for (unsigned i = 0; i < r->n_workers; i++) {
        const struct load_worker *w = &r->workers[i];
        const struct load_counters *c = window ? &w->window : &w->warmup;
        s.started += get(&c->started);
        s.ok += get(&c->ok);
        s.missed += get(&c->failed) + get(&c->timed_out) + get(&c->cancelled);
        s.opened += get(&w->opened);
    }
    return s;
}

void load_progress_init(struct load_progress *p, const struct load_run *r) {
    *p = (struct load_progress){.on = !r->o->quiet && isatty(STDERR_FILENO)};
    p->began_ns = p->last_ns = load_clock();
}

void load_progress_show(struct load_progress *p, const struct load_run *r) {
    if (!p->on)
        return;
    uint64_t now = load_clock(), t0 = atomic_load(&r->t0_ns);
    struct sum s = sum_of(r, t0 != 0);
    if (p->last_ok > s.ok)
        p->last_ok = 0; /* from warm-up to window */
    double rate = (double)(s.ok - p->last_ok) * 1e9 / (double)(now - p->last_ns);
    uint64_t done = s.ok + s.missed, in_flight = s.started > done ? s.started - done : 0;
    fprintf(stderr,
            "\r\033[K%s %.1f s  %.0f req/s  %" PRIu64 " ok  %" PRIu64 " errors  %" PRIu64
            " in flight  %" PRIu64 " connections opened",
            t0 ? "running" : "warming up",
            (double)(now - (t0 && t0 < now ? t0 : p->began_ns)) / 1e9, rate, s.ok, s.missed,
            in_flight, s.opened);
    p->last_ok = s.ok;
    p->last_ns = now;
    p->shown = true;
}

void load_progress_fini(struct load_progress *p) {
    if (p->shown)
        fputs("\r\033[K", stderr);
}
