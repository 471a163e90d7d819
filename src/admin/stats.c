/* The page /stats: everything that is counted, as JSON (weir.stats/1). */
#include "admin/admin.h"
#include "admin/field.h"
#include "loop/loop.h"
#include <stdio.h>
#include <string.h>

#ifdef WEIR_CHECKED
static const int checked = 1;
#else
static const int checked = 0;
#endif

static void set(json_t *o, const char *name, uint64_t v) {
    json_object_set_new(o, name, weir__admin_integer(v));
}

static double share(double part, double whole) {
    return whole > 0 ? part / whole : 0;
}

/* --- one loop -------------------------------------------------------------------------------- */

static json_t *handlers_json(struct weir_group *g, unsigned loop) {
    struct weir_handler_stats h[WEIR__ADMIN_HANDLERS_MAX];
    int n = weir_group_handler_stats(g, loop, h, WEIR__ADMIN_HANDLERS_MAX);
    json_t *all = json_array();
    for (int i = 0; i < n && i < WEIR__ADMIN_HANDLERS_MAX; i++) {
        json_t *o = json_object();
        json_object_set_new(o, "name", weir__admin_string(h[i].name));
        set(o, "calls", h[i].calls);
        set(o, "bytes", h[i].bytes);
        set(o, "sampled", h[i].sampled);
        set(o, "sampled_ns", h[i].sampled_ns);
        double mean = share((double)h[i].sampled_ns, (double)h[i].sampled);
        set(o, "estimated_ns", (uint64_t)(mean * (double)h[i].calls));
        set(o, "offloads", h[i].offloads);
        set(o, "offload_ns", h[i].offload_ns);
        json_array_append_new(all, o);
    }
    return all;
}

static json_t *pauses_json(const struct weir__admin_loop *l) {
    json_t *all = json_object();
    for (unsigned kind = 0; kind < WEIR_PAUSES; kind++) {
        const struct weir_pause_stats *p = &l->pauses[kind];
        json_t *o = json_null();
        if (p->known) {
            o = json_object();
            set(o, "count", p->count);
            set(o, "longest_ns", p->longest_ns);
            set(o, "total_ns", p->total_ns);
        }
        json_object_set_new(all, weir_pause_name((enum weir_pause_kind)kind), o);
    }
    return all;
}

static json_t *pool_json(const struct weir__admin_told *t) {
    if (!t->at_ns)
        return json_null();
    json_t *o = json_object();
    set(o, "at_ns", t->at_ns);
    weir__admin_memory_fields(o, &t->memory);
    return o;
}

static json_t *queue_json(const struct weir__admin *a, unsigned index) {
    const struct weir__admin_loop *l = &a->now->loops[index];
    uint64_t accepts = weir__admin_accepts(a, index);
    json_t *o = json_object();
    set(o, "accepts", accepts);
    json_object_set_new(o, "accepts_per_turn",
                        json_real(share((double)accepts, (double)l->stats.turns)));
    set(o, "listeners", l->told.listeners);
    set(o, "depth", l->told.queue_depth);
    set(o, "depth_max", l->told.queue_depth_max);
    return o;
}

static json_t *proxy_json(const struct weir_proxy_stats *s) {
    json_t *o = json_object(), *refused = json_object();
    set(o, "headers", s->headers);
    set(o, "without", s->without);
    set(o, "silent", s->silent);
    for (unsigned i = 0; i < weir__admin_n_refusal_fields; i++) {
        const struct weir__admin_field *f = &weir__admin_refusal_fields[i];
        set(refused, f->name, weir__admin_field_of(f, s));
    }
    json_object_set_new(o, "refused", refused);
    return o;
}

/* Whether its thread gave its CPU away, or had it taken. */
static json_t *switches_json(struct weir_group *g, unsigned index) {
    struct weir__loop_switches s;
    if (!weir__admin_switches(g, index, &s))
        return json_null();
    json_t *o = json_object();
    set(o, "voluntary", s.voluntary);
    set(o, "involuntary", s.involuntary);
    return o;
}

static json_t *requests_json(const struct weir__io_stats *s) {
    json_t *o = json_object();
    for (unsigned i = 0; i < WEIR__IO_REQUESTS; i++)
        set(o, weir__admin_io_requests[i],
            atomic_load_explicit(&s->requests[i], memory_order_relaxed));
    return o;
}

/* What the door asked of the kernel, by kind. */
static json_t *io_json(const struct weir__io *io) {
    json_t *o = json_object();
    set(o, "system_calls", weir__io_system_calls(io));
    for (unsigned i = 0; i < weir__admin_n_io_fields; i++) {
        const struct weir__admin_io_field *f = &weir__admin_io_fields[i];
        if (!f->ring || io->rings)
            set(o, f->name, weir__admin_io_field_of(f, &io->stats));
    }
    if (io->rings)
        json_object_set_new(o, "requests", requests_json(&io->stats));
    return o;
}

static json_t *loop_json(const struct weir__admin *a, unsigned index) {
    const struct weir__admin_loop *l = &a->now->loops[index];
    json_t *o = json_object();
    set(o, "index", index);
    for (unsigned i = 0; i < weir__admin_n_loop_fields; i++)
        set(o, weir__admin_loop_fields[i].name,
            weir__admin_field_of(&weir__admin_loop_fields[i], &l->stats));
    double busy = (double)l->stats.busy_ns, seen = busy + (double)l->stats.poll_ns;
    json_object_set_new(o, "busy_share", json_real(share(busy, seen)));
    json_object_set_new(o, "stuck", json_boolean(weir__admin_stuck(a, index, a->now->at_ns)));
    json_object_set_new(o, "pauses", pauses_json(l));
    json_object_set_new(o, "switches", switches_json(a->watched, index));
    json_object_set_new(o, "pool", pool_json(&l->told));
    json_object_set_new(o, "accept_queue", queue_json(a, index));
    json_object_set_new(o, "proxy", proxy_json(&l->told.proxy));
    json_object_set_new(o, "io", io_json(a->watched->loops[index]->io));
    json_object_set_new(o, "handlers", handlers_json(a->watched, index));
    return o;
}

static json_t *loops_json(const struct weir__admin *a) {
    json_t *all = json_array();
    for (unsigned i = 0; i < a->now->n_loops; i++)
        json_array_append_new(all, loop_json(a, i));
    return all;
}

/* --- the whole ------------------------------------------------------------------------------- */

static void own(json_t *owners, const char *name, const struct weir__mem_stats *m,
                struct weir__mem_stats *sum) {
    json_array_append_new(owners, json_pack("{s:s, s:I, s:I}", "name", name, "live_bytes",
                                            (json_int_t)m->live_bytes, "resident_bytes",
                                            (json_int_t)m->resident_bytes));
    sum->live_bytes += m->live_bytes;
    sum->resident_bytes += m->resident_bytes;
}

/* What is resident, by owner: the pools, and the rest that nobody here can name (the program, the
 * C library and its heap, stacks). A pool counts pages that it has used once, and so they can be a
 * little more than the kernel sees. */
static json_t *memory_json(const struct weir__admin *a) {
    uint64_t resident = a->now->process.resident_bytes;
    json_t *o = json_object(), *owners = json_array();
    struct weir__mem_stats sum = {0}, admin;
    for (unsigned i = 0; i < a->now->n_loops; i++) {
        char name[32];
        snprintf(name, sizeof name, "loop %u", i);
        own(owners, name, &a->now->loops[i].told.memory, &sum);
    }
    weir__mem_stats(a->loop->mem, &admin);
    own(owners, "admin", &admin, &sum);
    uint64_t other = resident > sum.resident_bytes ? resident - sum.resident_bytes : 0;
    json_array_append_new(owners, json_pack("{s:s, s:n, s:I}", "name", "other", "live_bytes",
                                            "resident_bytes", (json_int_t)other));
    set(o, "resident_bytes", resident);
    set(o, "pool_bytes", sum.resident_bytes);
    set(o, "live_bytes", sum.live_bytes);
    set(o, "other_bytes", other);
    json_object_set_new(o, "fragmentation",
                        json_real(share((double)sum.resident_bytes, (double)sum.live_bytes)));
    json_object_set_new(o, "owners", owners);
    return o;
}

static json_t *connections_json(const struct weir__admin *a) {
    uint64_t sum = 0, most = 0;
    unsigned n = a->now->n_loops;
    for (unsigned i = 0; i < n; i++) {
        uint64_t channels = a->now->loops[i].stats.channels;
        sum += channels;
        most = channels > most ? channels : most;
    }
    json_t *o = json_object();
    set(o, "open", sum);
    set(o, "loop_max", most);
    json_object_set_new(o, "imbalance", json_real(share((double)most * n, (double)sum)));
    return o;
}

static json_t *workers_json(struct weir_group *g) {
    struct weir_worker_stats w;
    if (weir_group_worker_stats(g, &w) < 0)
        return json_null();
    json_t *o = json_object();
    set(o, "threads", w.threads);
    set(o, "jobs", w.jobs);
    set(o, "finished", w.finished);
    set(o, "stopped", w.stopped);
    set(o, "waiting", w.waiting);
    set(o, "waiting_max", w.waiting_max);
    set(o, "cpu_ns", w.cpu_ns);
    return o;
}

static json_t *parameters_json(const struct weir__admin *a) {
    json_t *all = json_array();
    for (unsigned i = 0; i < a->n_parameters; i++) {
        const struct weir__admin_parameter *p = &a->parameters[i];
        json_t *o = json_object();
        json_object_set_new(o, "name", weir__admin_string(p->name));
        json_object_set_new(o, "value", weir__admin_string(p->value));
        json_object_set_new(o, "origin", weir__admin_string(p->origin));
        json_array_append_new(all, o);
    }
    return all;
}

static json_t *transport_json(struct weir_group *g) {
    const char *why;
    const char *name = weir_group_transport(g, &why);
    return json_pack("{s:s, s:s?}", "name", name, "why", why);
}

void weir__admin_stats(struct weir__admin *a, struct weir__admin_text *t) {
    const struct weir__admin_snapshot *now = weir__admin_look(a);
    json_t *o = json_pack("{s:s, s:s, s:I, s:s, s:b, s:I, s:I, s:I, s:b}", "schema", "weir.stats/1",
                          "start_id", a->start_id, "pid", (json_int_t)now->process.id, "version",
                          WEIR_VERSION, "checked", checked, "at_ns", (json_int_t)now->at_ns,
                          "uptime_ns", (json_int_t)(now->at_ns - a->start_ns), "usable_cpus",
                          (json_int_t)now->process.cpus, "draining", weir__admin_draining(a));
    json_object_set_new(o, "transport", transport_json(a->watched));
    json_object_set_new(o, "parameters", parameters_json(a));
    json_object_set_new(o, "connections", connections_json(a));
    json_object_set_new(o, "memory", memory_json(a));
    json_object_set_new(o, "workers", workers_json(a->watched));
    json_object_set_new(o, "loops", loops_json(a));
    weir__admin_json(t, o);
}
