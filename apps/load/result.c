#include "load/result.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>

enum { WINDOW_MIN_MS = 1000, OK_MIN = 100 };

/* Of the requests started: more failures than these, and rates and latencies are about the few that
 * got through. */
static const double missed_max = 0.01;

const struct load_quantile load_quantiles[LOAD_QUANTILES] = {
    {"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}, {"p99.9", 0.999}};

/* Some value must lie above the quantile with 97.5 %: 1 - q^n, so n >= 36 for p90, 368 for p99,
 * 3,688 for p99.9. */
bool load_quantile_known(uint64_t n, double q) {
    return (double)n * log(q) <= log(0.025);
}

static void add_counters(struct load_ledger *to, const struct load_counters *from) {
    to->started += atomic_load(&from->started);
    to->ok += atomic_load(&from->ok);
    to->failed += atomic_load(&from->failed);
    to->timed_out += atomic_load(&from->timed_out);
    to->cancelled += atomic_load(&from->cancelled);
}

static bool balances(const struct load_ledger *l) {
    return l->started == l->ok + l->failed + l->timed_out + l->cancelled + l->in_flight;
}

/* Requests that still sit in slots belong to the phase their worker is in. */
static void add_worker(struct load_result *res, struct load_worker *w, struct load_worker *first) {
    add_counters(&res->ledger, &w->window);
    add_counters(&res->warmup, &w->warmup);
    res->opened += atomic_load(&w->opened);
    struct load_ledger *l = w->measuring ? &res->ledger : &res->warmup;
    for (unsigned i = 0; i < w->n_conns; i++) {
        const struct load_conn *c = &w->conns[i];
        for (unsigned k = 0; k < res->run->o->in_flight; k++)
            l->in_flight += c->slots[k].busy;
        if (c->left != UINT64_MAX)
            res->not_started += c->left;
    }
    for (unsigned i = 0; i < w->n_errors; i++)
        load_fault_merge(res->errors, &res->n_errors, &res->errors_dropped, &w->errors[i]);
    res->errors_dropped += w->errors_dropped;
    if (w == first)
        return;
    weir_hist_merge(first->response, w->response);
    weir_hist_merge(first->service, w->service);
    weir_hist_merge(first->lag, w->lag);
    weir_hist_merge(first->connect, w->connect);
}

static uint64_t window_of(const struct load_result *res) {
    const struct load_run *r = res->run;
    uint64_t t0 = atomic_load(&r->t0_ns), t1 = 0;
    if (!t0)
        return 0;
    if (res->end == LOAD_END_TIME)
        return r->o->duration_ns;
    if (res->end != LOAD_END_DONE)
        t1 = r->edges[1].at_ns;
    for (unsigned i = 0; i < r->n_workers; i++)
        if (r->workers[i].last_done_ns > t1)
            t1 = r->workers[i].last_done_ns;
    return t1 > t0 ? t1 - t0 : 0;
}

static void add_costs(struct load_result *res) {
    const struct load_edge *a = &res->run->edges[0], *b = &res->run->edges[1];
    double n = (double)res->ledger.ok, seconds = (double)res->window_ns / 1e9;
    double between = (double)(b->at_ns - a->at_ns);
    if (!res->ledger.ok || !res->window_ns)
        return;
    res->rate = (double)res->ledger.ok / seconds;
    res->little = res->rate * weir_hist_mean(res->response) / 1e9;
    res->user_us = (double)(b->user_ns - a->user_ns) / 1e3 / n;
    res->system_us = (double)(b->system_ns - a->system_ns) / 1e3 / n;
    if (between > 0) /* a turn that began before the first edge counts whole: at most all of it */
        res->busy = fmin(1, (double)(b->busy_ns - a->busy_ns) / between / res->run->n_workers);
    res->sends = (double)(b->sent - a->sent) / n;
    res->receives = (double)(b->received - a->received) / n;
    res->sent_rate = (double)(b->sent_bytes - a->sent_bytes) / seconds;
    res->received_rate = (double)(b->received_bytes - a->received_bytes) / seconds;
    res->server_known = a->server_threads && b->server_threads && b->server_ns >= a->server_ns;
    res->server_threads = b->server_threads;
    if (!res->server_known)
        return;
    res->server_us = (double)(b->server_ns - a->server_ns) / 1e3 / n;
    res->server_wait_us = b->server_wait_ns >= a->server_wait_ns
                              ? (double)(b->server_wait_ns - a->server_wait_ns) / 1e3 / n
                              : 0;
}

/* --- verdict --------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void invalid(struct load_result *res,
                                                          const char *format, ...) {
    va_list a;
    if (res->n_reasons == LOAD_REASONS_MAX)
        return;
    va_start(a, format);
    vsnprintf(res->reasons[res->n_reasons++], LOAD_REASON_BYTES, format, a);
    va_end(a);
}

static uint64_t wrong_answers(const struct load_result *res) {
    uint64_t n = 0;
    for (unsigned i = 0; i < res->n_errors; i++)
        if (res->errors[i].fault == LOAD_FAULT_VERIFY)
            n += res->errors[i].count;
    return n;
}

/* What the answers say against the run. */
static void judge_answers(struct load_result *res) {
    const struct load_ledger *l = &res->ledger;
    uint64_t missed = l->failed + l->timed_out, wrong = wrong_answers(res);
    if (!l->ok && !l->failed)
        invalid(res, "no request finished");
    else if (!l->ok)
        invalid(res, "no request was ok");
    else if (l->ok < OK_MIN)
        invalid(res, "%" PRIu64 " requests were ok, fewer than %d", l->ok, OK_MIN);
    if (wrong)
        invalid(res, "%" PRIu64 " answer%s wrong", wrong, wrong == 1 ? " was" : "s were");
    if ((double)missed > missed_max * (double)l->started)
        invalid(res, "%.1f %% of the requests failed or timed out, over %.0f %%",
                (double)missed * 100 / (double)l->started, missed_max * 100);
}

static void judge(struct load_result *res, int rc) {
    bool cut = res->end != LOAD_END_TIME && res->end != LOAD_END_SIGNAL;
    if (rc < 0 || res->end == LOAD_END_BROKEN)
        invalid(res, "the client's loops failed: %s", weir_strerror(rc < 0 ? rc : WEIR_ENOMEM));
    if (!res->balanced)
        invalid(res, "the ledger does not balance: a bug in weir load");
    if (!atomic_load(&res->run->t0_ns))
        invalid(res, "the measured window never began");
    else
        judge_answers(res);
    if (res->window_ns && res->window_ns < WINDOW_MIN_MS * UINT64_C(1000000))
        invalid(res,
                "the window is %.3f s, shorter than 1 s: measure longer with -d or a larger -n",
                (double)res->window_ns / 1e9);
    if (cut && atomic_load(&res->run->t0_ns) && res->not_started)
        invalid(res, "%" PRIu64 " requests were never started: their connections kept failing",
                res->not_started);
    if (res->end == LOAD_END_DEAD && res->run->o->duration_ns && res->window_ns)
        invalid(res, "it ended after %.1f of %.1f s: every connection kept failing",
                (double)res->window_ns / 1e9, (double)res->run->o->duration_ns / 1e9);
    if (weir_hist_saturated(res->response))
        invalid(res, "some latencies were over the histogram's range");
}

static int exit_code_of(const struct load_result *res) {
    bool anyone = false;
    const struct load_run *r = res->run;
    for (unsigned i = 0; i < r->n_workers; i++)
        for (unsigned k = 0; k < r->workers[i].n_conns; k++)
            anyone |= r->workers[i].conns[k].finished;
    if (res->end == LOAD_END_SIGNAL)
        return 130;
    if (res->end == LOAD_END_DEAD && !anyone)
        return 4;
    return res->n_reasons ? 3 : 0;
}

void load_result_make(struct load_result *res, struct load_run *r, int rc) {
    struct load_worker *first = &r->workers[0];
    *res = (struct load_result){.run = r, .end = (enum load_end)atomic_load(&r->end)};
    for (unsigned i = 0; i < r->n_workers; i++)
        add_worker(res, &r->workers[i], first);
    res->response = first->response;
    res->service = first->service;
    res->lag = first->lag;
    res->connect = first->connect;
    res->configured = r->o->connections * r->o->in_flight;
    res->balanced = balances(&res->ledger) && balances(&res->warmup) &&
                    weir_hist_count(res->response) == res->ledger.ok;
    res->window_ns = window_of(res);
    add_costs(res);
    judge(res, rc);
    res->exit_code = exit_code_of(res);
}

const struct load_error *load_result_worst(const struct load_result *res) {
    const struct load_error *worst = NULL;
    for (unsigned i = 0; i < res->n_errors; i++)
        if (!worst || res->errors[i].count > worst->count)
            worst = &res->errors[i];
    return worst;
}
