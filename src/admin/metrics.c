/* The page /metrics: the same numbers as text for Prometheus (exposition format 0.0.4). */
#include "admin/admin.h"
#include "admin/field.h"
#include "loop/loop.h"
#include <inttypes.h>

static void head(struct weir__admin_text *t, const char *name, bool gauge, const char *help) {
    const char *total = gauge ? "" : "_total";
    weir__admin_print(t, "# HELP weir_%s%s %s\n# TYPE weir_%s%s %s\n", name, total, help, name,
                      total, gauge ? "gauge" : "counter");
}

/* A label's value is UTF-8, in which backslash, quote and line feed are escaped. */
static void label(struct weir__admin_text *t, const char *name) {
    json_t *utf8 = weir__admin_string(name);
    const char *s = json_string_value(utf8);
    t->failed |= s == NULL;
    for (; s && *s; s++) {
        if (*s == '\n')
            weir__admin_write(t, "\\n", 2);
        else if (*s == '"' || *s == '\\')
            weir__admin_print(t, "\\%c", *s);
        else
            weir__admin_write(t, s, 1);
    }
    json_decref(utf8);
}

static void value(struct weir__admin_text *t, uint64_t v, enum weir__admin_unit unit) {
    if (unit == WEIR__ADMIN_NS)
        weir__admin_print(t, " %" PRIu64 ".%09" PRIu64 "\n", v / 1000000000, v % 1000000000);
    else
        weir__admin_print(t, " %" PRIu64 "\n", v);
}

static void one(struct weir__admin_text *t, const char *name, bool gauge, const char *help,
                uint64_t v) {
    head(t, name, gauge, help);
    weir__admin_print(t, "weir_%s%s", name, gauge ? "" : "_total");
    value(t, v, WEIR__ADMIN_COUNT);
}

/* --- loops ----------------------------------------------------------------------------------- */

static void loop_field(struct weir__admin_text *t, const struct weir__admin_snapshot *s,
                       const struct weir__admin_field *f) {
    char name[64];
    snprintf(name, sizeof name, "loop_%s", f->metric);
    head(t, name, f->gauge, f->help);
    for (unsigned i = 0; i < s->n_loops; i++) {
        weir__admin_print(t, "weir_%s%s{loop=\"%u\"}", name, f->gauge ? "" : "_total", i);
        value(t, weir__admin_field_of(f, &s->loops[i].stats), f->unit);
    }
}

static void pauses(struct weir__admin_text *t, const struct weir__admin_snapshot *s, bool times) {
    head(t, times ? "loop_pause_seconds" : "loop_pauses", false,
         times ? "Time a loop was kept from its work" : "Times a loop was kept from its work");
    for (unsigned i = 0; i < s->n_loops; i++)
        for (unsigned kind = 0; kind < WEIR_PAUSES; kind++) {
            const struct weir_pause_stats *p = &s->loops[i].pauses[kind];
            if (!p->known)
                continue;
            weir__admin_print(t, "weir_loop_%s_total{loop=\"%u\",kind=\"%s\"}",
                              times ? "pause_seconds" : "pauses", i,
                              weir_pause_name((enum weir_pause_kind)kind));
            value(t, times ? p->total_ns : p->count, times ? WEIR__ADMIN_NS : WEIR__ADMIN_COUNT);
        }
}

static void switches(struct weir__admin_text *t, struct weir_group *g) {
    head(t, "loop_switches", false,
         "Context switches of a loop's thread: it slept (voluntary), or lost its CPU");
    for (unsigned i = 0; i < weir_group_loops(g); i++) {
        struct weir__loop_switches s;
        if (!weir__admin_switches(g, i, &s))
            continue;
        weir__admin_print(t,
                          "weir_loop_switches_total{loop=\"%u\",kind=\"voluntary\"} %" PRIu64 "\n"
                          "weir_loop_switches_total{loop=\"%u\",kind=\"involuntary\"} %" PRIu64
                          "\n",
                          i, s.voluntary, i, s.involuntary);
    }
}

static void system_calls(struct weir__admin_text *t, struct weir_group *g) {
    head(t, "loop_system_calls", false, "System calls that wait, accept, receive and send");
    for (unsigned i = 0; i < weir_group_loops(g); i++) {
        weir__admin_print(t, "weir_loop_system_calls_total{loop=\"%u\"}", i);
        value(t, weir__io_system_calls(g->loops[i]->io), WEIR__ADMIN_COUNT);
    }
}

/* All loops have the same door. */
static bool rings(struct weir_group *g) {
    return weir_group_loops(g) && g->loops[0]->io->rings;
}

static void ring_field(struct weir__admin_text *t, struct weir_group *g,
                       const struct weir__admin_io_field *f) {
    char name[64];
    if (!f->ring || !rings(g))
        return;
    snprintf(name, sizeof name, "loop_%s", f->metric);
    head(t, name, false, f->help);
    for (unsigned i = 0; i < weir_group_loops(g); i++) {
        weir__admin_print(t, "weir_%s_total{loop=\"%u\"}", name, i);
        value(t, weir__admin_io_field_of(f, &g->loops[i]->io->stats), WEIR__ADMIN_COUNT);
    }
}

static void ring_requests(struct weir__admin_text *t, struct weir_group *g) {
    if (!rings(g))
        return;
    head(t, "loop_ring_requests", false, "Requests to the ring");
    for (unsigned i = 0; i < weir_group_loops(g); i++)
        for (unsigned kind = 0; kind < WEIR__IO_REQUESTS; kind++) {
            weir__admin_print(t, "weir_loop_ring_requests_total{loop=\"%u\",kind=\"%s\"}", i,
                              weir__admin_io_requests[kind]);
            value(
                t,
                atomic_load_explicit(&g->loops[i]->io->stats.requests[kind], memory_order_relaxed),
                WEIR__ADMIN_COUNT);
        }
}

static void doors(struct weir__admin_text *t, struct weir_group *g) {
    system_calls(t, g);
    for (unsigned i = 0; i < weir__admin_n_io_fields; i++)
        ring_field(t, g, &weir__admin_io_fields[i]);
    ring_requests(t, g);
}

static const struct weir__admin_field proxy_fields[] = {
    {"headers", "proxy_headers", "PROXY headers read", offsetof(struct weir_proxy_stats, headers),
     WEIR__ADMIN_COUNT, false},
    {"without", "proxy_without", "Connections served without a PROXY header",
     offsetof(struct weir_proxy_stats, without), WEIR__ADMIN_COUNT, false},
    {"silent", "proxy_silent", "Connections that ended before a byte of a PROXY header",
     offsetof(struct weir_proxy_stats, silent), WEIR__ADMIN_COUNT, false},
};

static void proxy(struct weir__admin_text *t, const struct weir__admin_snapshot *s) {
    for (unsigned f = 0; f < ARRAY_LEN(proxy_fields); f++) {
        head(t, proxy_fields[f].metric, false, proxy_fields[f].help);
        for (unsigned i = 0; i < s->n_loops; i++) {
            weir__admin_print(t, "weir_%s_total{loop=\"%u\"}", proxy_fields[f].metric, i);
            value(t, weir__admin_field_of(&proxy_fields[f], &s->loops[i].told.proxy),
                  WEIR__ADMIN_COUNT);
        }
    }
    head(t, "proxy_refused", false,
         "Connections refused for their PROXY header, or for want of it");
    for (unsigned i = 0; i < s->n_loops; i++)
        for (unsigned f = 0; f < weir__admin_n_refusal_fields; f++) {
            const struct weir__admin_field *why = &weir__admin_refusal_fields[f];
            weir__admin_print(t, "weir_proxy_refused_total{loop=\"%u\",reason=\"%s\"}", i,
                              why->name);
            value(t, weir__admin_field_of(why, &s->loops[i].told.proxy), WEIR__ADMIN_COUNT);
        }
}

/* --- handlers -------------------------------------------------------------------------------- */

static const struct weir__admin_field handler_fields[] = {
    {"calls", "handler_calls", "Callbacks of a handler", offsetof(struct weir_handler_stats, calls),
     WEIR__ADMIN_COUNT, false},
    {"bytes", "handler_bytes", "Bytes it took off its input",
     offsetof(struct weir_handler_stats, bytes), WEIR__ADMIN_BYTES, false},
    {"sampled", "handler_sampled", "Callbacks that were timed",
     offsetof(struct weir_handler_stats, sampled), WEIR__ADMIN_COUNT, false},
    {"sampled_ns", "handler_sampled_seconds", "What those took",
     offsetof(struct weir_handler_stats, sampled_ns), WEIR__ADMIN_NS, false},
    {"offloads", "handler_offloads", "Its jobs that ran on workers",
     offsetof(struct weir_handler_stats, offloads), WEIR__ADMIN_COUNT, false},
    {"offload_ns", "handler_offload_seconds", "CPU time of those jobs",
     offsetof(struct weir_handler_stats, offload_ns), WEIR__ADMIN_NS, false},
};

static void handler_field(struct weir__admin_text *t, struct weir_group *g,
                          const struct weir__admin_field *f) {
    head(t, f->metric, false, f->help);
    for (unsigned loop = 0; loop < weir_group_loops(g); loop++) {
        struct weir_handler_stats h[WEIR__ADMIN_HANDLERS_MAX];
        int n = weir_group_handler_stats(g, loop, h, WEIR__ADMIN_HANDLERS_MAX);
        for (int i = 0; i < n && i < WEIR__ADMIN_HANDLERS_MAX; i++) {
            weir__admin_print(t, "weir_%s_total{loop=\"%u\",handler=\"", f->metric, loop);
            label(t, h[i].name);
            weir__admin_write(t, "\"}", 2);
            value(t, weir__admin_field_of(f, &h[i]), f->unit);
        }
    }
}

static void workers(struct weir__admin_text *t, struct weir_group *g) {
    struct weir_worker_stats w;
    if (weir_group_worker_stats(g, &w) < 0)
        return;
    one(t, "worker_threads", true, "Worker threads", w.threads);
    one(t, "worker_jobs", false, "Jobs that workers were given", w.jobs);
    one(t, "worker_jobs_finished", false, "Jobs that ran", w.finished);
    one(t, "worker_jobs_waiting", true, "Jobs that no worker has taken", w.waiting);
    head(t, "worker_cpu_seconds", false, "CPU time of the jobs");
    weir__admin_print(t, "weir_worker_cpu_seconds_total");
    value(t, w.cpu_ns, WEIR__ADMIN_NS);
}

void weir__admin_metrics(struct weir__admin *a, struct weir__admin_text *t) {
    const struct weir__admin_snapshot *s = weir__admin_look(a);
    weir__admin_print(t,
                      "# HELP weir_info What runs here\n# TYPE weir_info gauge\n"
                      "weir_info{version=\"%s\",transport=\"%s\",start_id=\"%s\"} 1\n",
                      WEIR_VERSION, weir_group_transport(a->watched, NULL), a->start_id);
    head(t, "uptime_seconds", true, "Since the admin address was opened");
    weir__admin_print(t, "weir_uptime_seconds");
    value(t, s->at_ns - a->start_ns, WEIR__ADMIN_NS);
    one(t, "loops", true, "Event loops", s->n_loops);
    one(t, "usable_cpus", true, "CPUs this process may use", s->process.cpus);
    one(t, "resident_bytes", true, "Resident memory of the process", s->process.resident_bytes);
    for (unsigned i = 0; i < weir__admin_n_loop_fields; i++)
        loop_field(t, s, &weir__admin_loop_fields[i]);
    pauses(t, s, false);
    pauses(t, s, true);
    switches(t, a->watched);
    doors(t, a->watched);
    proxy(t, s);
    for (unsigned i = 0; i < ARRAY_LEN(handler_fields); i++)
        handler_field(t, a->watched, &handler_fields[i]);
    workers(t, a->watched);
}
