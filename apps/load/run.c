#include "load/run.h"
#include "cli/opt.h"
#include "load/progress.h"
#include "load/proc.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { DRAIN_MS = 200, PROGRESS_MS = 500, FDS_SPARE = 64 };

/* --- edges of the window --------------------------------------------------------------------- */

uint64_t load_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t of_timeval(struct timeval t) {
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

static void take_edge(const struct load_run *r, struct load_edge *e) {
    struct rusage own;
    *e = (struct load_edge){0};
    if (r->o->stats_pid)
        e->server_threads = load_proc_cpu(r->o->stats_pid, &e->server_ns, &e->server_wait_ns);
    for (unsigned i = 0; i < r->n_workers; i++) {
        struct weir_loop_stats s;
        if (weir_group_loop_stats(r->group, i, &s) < 0)
            continue;
        e->busy_ns += s.busy_ns;
        e->received += s.received;
        e->received_bytes += s.received_bytes;
        e->sent += s.sent;
        e->sent_bytes += s.sent_bytes;
    }
    getrusage(RUSAGE_SELF, &own);
    e->user_ns = of_timeval(own.ru_utime);
    e->system_ns = of_timeval(own.ru_stime);
    e->at_ns = load_clock();
}

void load_run_finish(struct load_run *r, enum load_end why) {
    int not_yet = LOAD_END_NOT;
    if (!atomic_compare_exchange_strong(&r->end, &not_yet, (int)why))
        return;
    take_edge(r, &r->edges[1]);
    atomic_store(&r->edge_taken, true);
    pthread_kill(r->main_thread, SIGUSR1);
}

/* --- a worker's loop ------------------------------------------------------------------------- */

static void time_is_up(struct weir_timer *t) {
    struct load_worker *w = (struct load_worker *)((char *)t - offsetof(struct load_worker, end));
    w->ended = true;
    load_run_finish(w->run, LOAD_END_TIME);
}

static void begin_window(struct weir_loop *l, void *user) {
    struct load_worker *w = user;
    uint64_t t0 = atomic_load(&w->run->t0_ns), duration = w->run->o->duration_ns;
    if (w->ended)
        return;
    w->measuring = true;
    if (w->run->o->is_short) { /* connects belong to requests here, and those were the warm-up's */
        weir_hist_reset(w->connect);
        atomic_store_explicit(&w->opened, 0, memory_order_relaxed);
    }
    if (duration) {
        w->end_ns = t0 + duration;
        weir_timer_arm(l, &w->end, w->end_ns, time_is_up);
    }
    for (unsigned i = 0; i < w->n_conns; i++)
        load_conn_pump(&w->conns[i], weir_loop_now(l));
}

void load_run_release(struct load_run *r) {
    take_edge(r, &r->edges[0]);
    atomic_store(&r->t0_ns, r->edges[0].at_ns);
    for (unsigned i = 0; i < r->n_workers; i++)
        if (weir_loop_post(r->workers[i].loop, begin_window, &r->workers[i]) < 0)
            load_run_finish(r, LOAD_END_BROKEN);
}

static void stop_worker(struct weir_loop *l, void *user) {
    struct load_worker *w = user;
    (void)l;
    w->ended = true;
    weir_timer_disarm(&w->end);
    for (unsigned i = 0; i < w->n_conns; i++)
        load_conn_stop(&w->conns[i]);
}

static void start_worker(struct weir_loop *l, void *user) {
    struct load_worker *w = user;
    uint64_t now = weir_loop_now(l);
    if (weir_loop_on_stop(l, stop_worker, w) < 0) {
        load_run_finish(w->run, LOAD_END_BROKEN);
        return;
    }
    w->warm_until_ns = now + w->run->o->warmup.ns;
    for (unsigned i = 0; i < w->n_conns; i++)
        load_conn_pump(&w->conns[i], now);
}

/* --- making and unmaking --------------------------------------------------------------------- */

static bool worker_hists(struct load_worker *w) {
    size_t each = weir_hist_bytes(WEIR_HIST_NS_MAX);
    struct weir_hist **all[] = {&w->response, &w->service, &w->lag, &w->connect};
    char *at = w->hist_memory = malloc(each * CLI_LENGTH(all));
    if (!at)
        return false;
    for (unsigned i = 0; i < CLI_LENGTH(all); i++, at += each)
        *all[i] = weir_hist_init(at, each, WEIR_HIST_NS_MAX);
    return true;
}

/* Connection i belongs to loop i modulo loops. */
static bool worker_init(struct load_run *r, unsigned index) {
    struct load_worker *w = &r->workers[index];
    const struct load_options *o = r->o;
    w->run = r;
    w->loop = weir_group_loop(r->group, index);
    w->end_ns = UINT64_MAX;
    w->n_conns = (o->connections - index + r->n_workers - 1) / r->n_workers;
    w->conns = calloc(w->n_conns, sizeof w->conns[0]);
    w->slots = calloc((size_t)w->n_conns * o->in_flight, sizeof w->slots[0]);
    if (!w->conns || !w->slots || !worker_hists(w))
        return false;
    for (unsigned i = 0; i < w->n_conns; i++)
        load_conn_init(&w->conns[i], w, w->slots + (size_t)i * o->in_flight,
                       index + i * r->n_workers);
    return true;
}

/* Programs raise limits; the library does not. */
static int raise_fds(unsigned connections) {
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) < 0)
        return 0;
    l.rlim_cur = l.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &l); /* the check below tells */
    (void)getrlimit(RLIMIT_NOFILE, &l);
    if (l.rlim_cur >= (rlim_t)connections + FDS_SPARE)
        return 0;
    return cli_complain(
        "load", "-c %u needs %u open files and this process may have %llu: raise \"ulimit -n\"",
        connections, connections + FDS_SPARE, (unsigned long long)l.rlim_cur);
}

static int group_init(struct load_run *r) {
    struct weir_group_options g = {
        .size = sizeof g, .loops = r->o->loops, .transport = r->o->transport};
    const char *why;
    int rc = weir_group_new(&g, &r->group);
    if (rc < 0)
        return cli_complain("load", "the loops cannot be made: %s", weir_strerror(rc));
    snprintf(r->transport, sizeof r->transport, "%s", weir_group_transport(r->group, &why));
    snprintf(r->transport_why, sizeof r->transport_why, "%s", why && g.transport ? why : "");
    r->n_workers = weir_group_loops(r->group);
    return 0;
}

int load_run_init(struct load_run *r, const struct load_options *o) {
    *r = (struct load_run){.o = o, .protocol = o->linkd ? &load_linkd : &load_echo};
    int rc = raise_fds(o->connections);
    if (rc || (rc = group_init(r)))
        return rc;
    atomic_init(&r->warming, o->connections);
    atomic_init(&r->live, o->connections);
    r->workers = calloc(r->n_workers, sizeof r->workers[0]);
    bool made = r->workers && load_payload_init(&r->payload, o->seed, o->payload) >= 0;
    if (made && o->verify == LOAD_VERIFY_DIGEST)
        made = load_payload_digest(&r->payload, o->digest_rounds) >= 0;
    for (unsigned i = 0; made && i < r->n_workers; i++)
        made = worker_init(r, i);
    if (made)
        return 0;
    load_run_fini(r);
    return cli_complain("load", "not enough memory for %u connections", o->connections);
}

void load_run_fini(struct load_run *r) {
    for (unsigned i = 0; r->workers && i < r->n_workers; i++) {
        free(r->workers[i].conns);
        free(r->workers[i].slots);
        free(r->workers[i].hist_memory);
    }
    free(r->workers);
    load_payload_fini(&r->payload);
    if (r->group)
        (void)weir_group_join(r->group);
    r->group = NULL;
    r->workers = NULL;
}

/* --- the main thread ------------------------------------------------------------------------- */

static bool start_all(struct load_run *r) {
    if (weir_group_start(r->group) < 0)
        return false;
    for (unsigned i = 0; i < r->n_workers; i++)
        if (weir_loop_post(r->workers[i].loop, start_worker, &r->workers[i]) < 0)
            return false;
    return true;
}

/* Until the end is decided and its edge is taken; a signal decides it. */
static void wait_for_end(struct load_run *r, const sigset_t *signals) {
    struct timespec period = {.tv_nsec = PROGRESS_MS * 1000000l};
    struct load_progress p;
    load_progress_init(&p, r);
    while (!atomic_load(&r->edge_taken)) {
        int got = sigtimedwait(signals, NULL, &period);
        if (got == SIGINT || got == SIGTERM)
            load_run_finish(r, LOAD_END_SIGNAL);
        else if (got < 0 && errno == EAGAIN)
            load_progress_show(&p, r);
    }
    load_progress_fini(&p);
}

int load_run_go(struct load_run *r) {
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGUSR1);                  /* load_run_finish */
    pthread_sigmask(SIG_BLOCK, &signals, &before); /* the loops' threads inherit it */
    r->main_thread = pthread_self();
    bool started = start_all(r);
    if (started)
        wait_for_end(r, &signals);
    weir_group_stop(r->group, DRAIN_MS);
    int rc = weir_group_join(r->group);
    r->group = NULL;
    struct timespec now = {0};
    while (sigtimedwait(&signals, NULL, &now) >
           0) /* one that came too late must not end the report */
        continue;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started ? rc : WEIR_ENOMEM;
}
