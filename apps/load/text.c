/* The report for people. */
#include "load/result.h"
#include "weir/host.h"
#include <inttypes.h>
#include <string.h>

static const char *time_text(double ns, char out[16]) {
    if (ns < 1e3)
        snprintf(out, 16, "%.0f ns", ns);
    else if (ns < 1e6)
        snprintf(out, 16, "%.*f us", ns < 1e5 ? 1 : 0, ns / 1e3);
    else if (ns < 1e9)
        snprintf(out, 16, "%.*f ms", ns < 1e7 ? 3 : ns < 1e8 ? 2 : 1, ns / 1e6);
    else
        snprintf(out, 16, "%.3f s", ns / 1e9);
    return out;
}

static const char *rate_text(double bytes, char out[24]) {
    if (bytes < 1 << 20)
        snprintf(out, 24, "%.1f KiB/s", bytes / 1024);
    else
        snprintf(out, 24, "%.1f MiB/s", bytes / (1 << 20));
    return out;
}

/* 1234567 -> "1,234,567". */
static const char *count_text(uint64_t v, char out[32]) {
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%" PRIu64, v), k = 0;
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0)
            out[k++] = ',';
        out[k++] = digits[i];
    }
    out[k] = 0;
    return out;
}

static void print_head(const struct load_result *res, FILE *out) {
    const struct load_run *r = res->run;
    const struct load_options *o = r->o;
    fprintf(out,
            "mode      closed loop%s, %u connection%s x %u in flight, %u client loop%s on %s, "
            "seed %" PRIu64 "\n",
            o->is_short ? ", a connection per request" : "", o->connections,
            o->connections == 1 ? "" : "s", o->in_flight, r->n_workers,
            r->n_workers == 1 ? "" : "s", r->transport, o->seed);
    if (r->transport_why[0])
        fprintf(out, "          (not the transport that was asked for: %s)\n", r->transport_why);
    fprintf(out, "target    %s, payload %zu bytes", o->target, o->payload);
    if (o->linkd)
        fprintf(out, ", service %u", o->service);
    fprintf(out, ", answers %s\n",
            !o->linkd || o->verify == LOAD_VERIFY_ECHO ? "verified byte for byte"
            : o->verify == LOAD_VERIFY_DIGEST          ? "verified as digests"
                                                       : "not verified");
}

static void print_ledger(const char *name, const struct load_ledger *l, FILE *out) {
    char n[6][32];
    fprintf(out,
            "%-9s started %s = ok %s + failed %s + timed out %s + cancelled %s + in flight %s\n",
            name, count_text(l->started, n[0]), count_text(l->ok, n[1]),
            count_text(l->failed, n[2]), count_text(l->timed_out, n[3]),
            count_text(l->cancelled, n[4]), count_text(l->in_flight, n[5]));
}

static void print_hist(const char *name, const struct weir_hist *h, FILE *out) {
    char text[16];
    uint64_t n = weir_hist_count(h);
    fprintf(out, "%-9s", name);
    for (unsigned i = 0; i < LOAD_QUANTILES; i++) {
        double q = load_quantiles[i].q;
        fprintf(out, " %9s",
                load_quantile_known(n, q) ? time_text((double)weir_hist_at(h, q), text) : "-");
    }
    fprintf(out, " %9s", n ? time_text((double)weir_hist_max(h), text) : "-");
    fprintf(out, " %9s\n", n ? time_text(weir_hist_mean(h), text) : "-");
}

static void print_latency(const struct load_result *res, FILE *out) {
    fprintf(out, "%-9s", "latency");
    for (unsigned i = 0; i < LOAD_QUANTILES; i++)
        fprintf(out, " %9s", load_quantiles[i].name);
    fprintf(out, " %9s %9s\n", "max", "mean");
    print_hist("response", res->response, out);
    print_hist("service", res->service, out);
    print_hist("lag", res->lag, out);
    print_hist("connect", res->connect, out);
}

/* A client beside its server takes CPUs from it: whoever reads the figures must know. */
static void print_cpus(const struct load_result *res, FILE *out) {
    struct weir_host host = {.size = sizeof host};
    if (!res->run->o->stats_pid || weir_host_read(&host) < 0)
        return;
    fprintf(out, "cpus      %u usable here, shared by this client and its server\n", host.cpus);
}

static void print_costs(const struct load_result *res, FILE *out) {
    char mean[16];
    if (!res->ledger.ok || !res->window_ns)
        return;
    fprintf(out, "little    L %.1f of %u configured (%.2f): %.1f req/s x %s mean response%s\n",
            res->little, res->configured, res->little / res->configured, res->rate,
            time_text(weir_hist_mean(res->response), mean),
            res->run->o->is_short ? " (the rest: waiting for closes)" : "");
    fprintf(out,
            "client    %.2f us CPU per request (user %.2f, system %.2f), %.2f sends and %.2f "
            "receives per request, loops %.0f %% busy\n",
            res->user_us + res->system_us, res->user_us, res->system_us, res->sends, res->receives,
            res->busy * 100);
    if (res->server_known)
        fprintf(
            out,
            "server    %.2f us CPU per request, %.2f us waiting for a CPU (pid %u, %u threads)\n",
            res->server_us, res->server_wait_us, res->run->o->stats_pid, res->server_threads);
    else if (res->run->o->stats_pid)
        fprintf(out, "server    pid %u was gone at an edge of the window\n",
                res->run->o->stats_pid);
    print_cpus(res, out);
}

static void print_errors(const struct load_result *res, FILE *out) {
    char name[96], count[32];
    if (!res->n_errors)
        fprintf(out, "errors    none\n");
    for (unsigned i = 0; i < res->n_errors; i++) {
        const struct load_error *e = &res->errors[i];
        load_fault_name(e, name, sizeof name);
        fprintf(out, "%-9s %s x %s%s, first: %s\n", i ? "" : "errors", name,
                count_text(e->count, count), e->warmup ? " (warm-up)" : "", e->first);
    }
    if (res->errors_dropped)
        fprintf(out, "          and %s of other classes\n", count_text(res->errors_dropped, count));
}

static void print_verdict(const struct load_result *res, FILE *out) {
    const struct load_options *o = res->run->o;
    fprintf(out, "%s", res->n_reasons ? "INVALID: " : "VALID");
    for (unsigned i = 0; i < res->n_reasons; i++)
        fprintf(out, "%s%s", i ? "; " : "", res->reasons[i]);
    if (res->end == LOAD_END_SIGNAL && !res->n_reasons) {
        fprintf(out, " so far (interrupted after %.1f", (double)res->window_ns / 1e9);
        if (o->duration_ns)
            fprintf(out, " of %.1f", (double)o->duration_ns / 1e9);
        fprintf(out, " s)");
    }
    fputc('\n', out);
}

void load_text_print(const struct load_result *res, FILE *out) {
    char sent[24], received[24];
    print_head(res, out);
    if (res->warmup.started)
        print_ledger("warm-up", &res->warmup, out);
    fprintf(out, "window    %.3f s%s\n", (double)res->window_ns / 1e9,
            res->end == LOAD_END_SIGNAL ? ", interrupted" : "");
    print_ledger("requests", &res->ledger, out);
    if (!res->balanced)
        fprintf(out, "          THE LEDGER DOES NOT BALANCE\n");
    fprintf(out, "rate      %.1f req/s answered, %s sent, %s received\n", res->rate,
            rate_text(res->sent_rate, sent), rate_text(res->received_rate, received));
    print_latency(res, out);
    print_costs(res, out);
    print_errors(res, out);
    print_verdict(res, out);
}
