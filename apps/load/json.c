/* The report for programs: one object, schema weir.load/1. Times in nanoseconds; what is not known
 * is null. */
#include "cli/opt.h"
#include "load/result.h"
#include <errno.h>
#include <jansson.h>
#include <string.h>

static json_t *number(uint64_t v) {
    return json_integer((json_int_t)v);
}

static json_t *ledger_json(const struct load_ledger *l) {
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "started", number(l->started), "ok",
                     number(l->ok), "failed", number(l->failed), "timed_out", number(l->timed_out),
                     "cancelled", number(l->cancelled), "in_flight", number(l->in_flight));
}

static json_t *hist_json(const struct weir_hist *h) {
    uint64_t n = weir_hist_count(h);
    json_t *p = json_object();
    for (unsigned i = 0; i < LOAD_QUANTILES; i++) {
        double q = load_quantiles[i].q;
        json_object_set_new(p, load_quantiles[i].name + 1,
                            load_quantile_known(n, q) ? number(weir_hist_at(h, q)) : json_null());
    }
    return json_pack("{s:o,s:o,s:o,s:o,s:o}", "n", number(n), "min",
                     n ? number(weir_hist_min(h)) : json_null(), "mean",
                     n ? json_real(weir_hist_mean(h)) : json_null(), "max",
                     n ? number(weir_hist_max(h)) : json_null(), "p", p);
}

static json_t *errors_json(const struct load_result *res) {
    json_t *list = json_array();
    for (unsigned i = 0; i < res->n_errors; i++) {
        const struct load_error *e = &res->errors[i];
        char name[96];
        load_fault_name(e, name, sizeof name);
        json_array_append_new(list,
                              json_pack("{s:s,s:s,s:o,s:b,s:s}", "class", name, "code",
                                        e->code ? weir_errname(e->code) : "", "count",
                                        number(e->count), "warmup", e->warmup, "first", e->first));
    }
    return list;
}

static json_t *options_json(const struct load_result *res) {
    const struct load_options *o = res->run->o;
    static const char *const verify[] = {"none", "echo", "digest"};
    return json_pack("{s:i,s:i,s:i,s:o,s:b,s:o,s:s,s:i,s:s,s:i}", "connections",
                     (int)o->connections, "loops", (int)res->run->n_workers, "in_flight",
                     (int)o->in_flight, "payload_bytes", number(o->payload), "short", o->is_short,
                     "timeout_ns", number(o->timeout_ns), "transport", res->run->transport,
                     "service", (int)o->service, "verify", o->linkd ? verify[o->verify] : "echo",
                     "digest_rounds", o->verify == LOAD_VERIFY_DIGEST ? (int)o->digest_rounds : 0);
}

static json_t *client_json(const struct load_result *res) {
    return json_pack("{s:f,s:f,s:f,s:f,s:f,s:f,s:o}", "cpu_us_per_request",
                     res->user_us + res->system_us, "user_us_per_request", res->user_us,
                     "system_us_per_request", res->system_us, "busy_share", res->busy,
                     "sends_per_request", res->sends, "receives_per_request", res->receives,
                     "connections_opened", number(res->opened));
}

static json_t *server_json(const struct load_result *res) {
    if (!res->server_known)
        return json_null();
    return json_pack("{s:i,s:i,s:f,s:f}", "pid", (int)res->run->o->stats_pid, "threads",
                     (int)res->server_threads, "cpu_us_per_request", res->server_us,
                     "wait_us_per_request", res->server_wait_us);
}

static json_t *validity_json(const struct load_result *res) {
    json_t *reasons = json_array();
    for (unsigned i = 0; i < res->n_reasons; i++)
        json_array_append_new(reasons, json_string(res->reasons[i]));
    return json_pack("{s:b,s:o}", "ok", res->n_reasons == 0, "reasons", reasons);
}

static json_t *result_json(const struct load_result *res) {
    static const char *const end[] = {"none",        "done",        "time",
                                      "unreachable", "interrupted", "broken"};
    const struct load_options *o = res->run->o;
    json_t *j = json_pack("{s:s,s:{s:s,s:s},s:s,s:s,s:o,s:o}", "schema", "weir.load/1", "tool",
                          "name", "weir load", "version", WEIR_VERSION, "target", o->target, "mode",
                          "closed", "seed", number(o->seed), "options", options_json(res));
    if (!j)
        return NULL;
    json_object_set_new(j, "end", json_string(end[res->end]));
    json_object_set_new(j, "window", json_pack("{s:o}", "ns", number(res->window_ns)));
    json_object_set_new(j, "achieved",
                        json_pack("{s:f,s:f,s:f}", "requests_per_s", res->rate, "sent_bytes_per_s",
                                  res->sent_rate, "received_bytes_per_s", res->received_rate));
    json_object_set_new(j, "ledger", ledger_json(&res->ledger));
    json_object_set_new(j, "warmup", ledger_json(&res->warmup));
    json_object_set_new(j, "latency",
                        json_pack("{s:o,s:o,s:o,s:o}", "response", hist_json(res->response),
                                  "service", hist_json(res->service), "lag", hist_json(res->lag),
                                  "connect", hist_json(res->connect)));
    json_object_set_new(j, "errors", errors_json(res));
    json_object_set_new(j, "little",
                        json_pack("{s:f,s:i,s:f}", "l", res->little, "configured",
                                  (int)res->configured, "ratio", res->little / res->configured));
    json_object_set_new(j, "client", client_json(res));
    json_object_set_new(j, "server", server_json(res));
    json_object_set_new(j, "validity", validity_json(res));
    json_object_set_new(j, "exit_code", json_integer(res->exit_code));
    return j;
}

FILE *load_json_open(const char *path) {
    FILE *f = strcmp(path, "-") != 0 ? fopen(path, "we") : stdout;
    if (!f)
        cli_complain("load", "--json %s: %s", path, strerror(errno));
    return f;
}

int load_json_write(const struct load_result *res, FILE *out) {
    json_t *j = result_json(res);
    errno = ENOMEM;
    bool good = j && json_dumpf(j, out, JSON_INDENT(2)) == 0 && fputc('\n', out) != EOF &&
                fflush(out) == 0;
    int saved = errno;
    if (out != stdout && fclose(out) != 0 && good) {
        good = false;
        saved = errno;
    }
    json_decref(j);
    return good ? 0 : cli_complain("load", "--json %s: %s", res->run->o->json, strerror(saved));
}
