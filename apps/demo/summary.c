#include "demo/summary.h"
#include "weir/host.h"
#include <stdio.h>
#include <string.h>

const struct metric_info metric_infos[METRIC_COUNT] = {
    [METRIC_REQUESTS] = {"requests", "", 0, false},
    [METRIC_ERRORS] = {"errors", "", 0, false},
    [METRIC_RATE] = {"throughput", "req/s", 0, true},
    [METRIC_P50] = {"p50", "ms", 2, true},
    [METRIC_P95] = {"p95", "ms", 2, true},
    [METRIC_P99] = {"p99", "ms", 2, true},
    [METRIC_MEAN] = {"mean", "ms", 2, true},
    [METRIC_LITTLE] = {"Little's L", "in flight", 1, false},
    [METRIC_CPU_REQUEST] = {"server CPU", "us/request", 1, true},
    [METRIC_CPU] = {"server CPU", "% of one CPU", 1, true},
    [METRIC_BUSY] = {"busy share", "% per loop", 1, true},
    [METRIC_HOT] = {"hottest handler", "% of busy time", 1, true},
    [METRIC_FOREIGN] = {"other programs", "% of one CPU", 1, false},
};

struct span span_of(const struct side *s, enum metric m) {
    double v[BLOCKS_MAX];
    for (unsigned i = 0; i < s->n; i++) {
        double x = s->blocks[i].value[m];
        unsigned at = i;
        for (; at && v[at - 1] > x; at--)
            v[at] = v[at - 1];
        v[at] = x;
    }
    double middle = s->n % 2 ? v[s->n / 2] : (v[s->n / 2 - 1] + v[s->n / 2]) / 2;
    return (struct span){middle, v[0], v[s->n - 1]};
}

enum verdict verdict_of(const struct side *a, const struct side *b, enum metric m) {
    struct span x = span_of(a, m), y = span_of(b, m);
    return y.low > x.high ? VERDICT_HIGHER : y.high < x.low ? VERDICT_LOWER : VERDICT_UNCLEAR;
}

/* Two of all ways to deal the ranks are a full separation: 2 / C(a + b, a). */
double verdict_chance(unsigned blocks_a, unsigned blocks_b) {
    double ways = 1;
    for (unsigned i = 1; i <= blocks_a; i++)
        ways = ways * (blocks_b + i) / i;
    return 2 / ways;
}

/* --- texts ----------------------------------------------------------------------------------- */

const char *span_text(struct span s, enum metric m, char *text, size_t cap) {
    int d = metric_infos[m].decimals;
    if (s.low == s.high)
        snprintf(text, cap, "%.*f", d, s.median);
    else
        snprintf(text, cap, "%.*f (%.*f..%.*f)", d, s.median, d, s.low, d, s.high);
    return text;
}

const char *change_text(const struct side *a, const struct side *b, enum metric m, char *text,
                        size_t cap) {
    struct span x = span_of(a, m), y = span_of(b, m);
    text[0] = 0;
    if (!metric_infos[m].compare || x.median <= 0)
        return text;
    bool apart = verdict_of(a, b, m) != VERDICT_UNCLEAR;
    snprintf(text, cap, "x %.2f%s", y.median / x.median, apart ? "" : "  not distinguishable");
    return text;
}

const char *busy_text(const struct side *s, char *text, size_t cap) {
    const struct block *b = &s->blocks[s->n - 1];
    size_t n = 0;
    text[0] = 0;
    for (unsigned i = 0; i < b->n_loops && n < cap; i++)
        n += (size_t)snprintf(text + n, cap - n, "%s%.0f %%", i ? ", " : "", b->busy[i]);
    return text;
}

const char *loops_text(unsigned loops, char *text, size_t cap) {
    snprintf(text, cap, "%u loop%s", loops, loops == 1 ? "" : "s");
    return text;
}

const char *verdict_text(const struct side *a, const struct side *b, char *text, size_t cap) {
    struct span x = span_of(a, METRIC_RATE), y = span_of(b, METRIC_RATE);
    enum verdict v = verdict_of(a, b, METRIC_RATE);
    char before[24], after[24];
    loops_text(a->loops, before, sizeof before);
    loops_text(b->loops, after, sizeof after);
    if (v == VERDICT_UNCLEAR)
        snprintf(text, cap,
                 "NOT DISTINGUISHABLE: the throughputs with %s (%.0f..%.0f req/s) and with %s "
                 "(%.0f..%.0f) overlap; these "
                 "blocks show no difference.",
                 before, x.low, x.high, after, y.low, y.high);
    else
        snprintf(text, cap,
                 "CHANGED: throughput x %.2f; every block with %s was %s than every block with %s. "
                 "Without a difference "
                 "chance does that in %.0f %% of such runs.",
                 y.median / x.median, after, v == VERDICT_HIGHER ? "faster" : "slower", before,
                 verdict_chance(a->n, b->n) * 100);
    return text;
}

const char *hot_text(const struct side *a, char *text, size_t cap) {
    const struct block *b = &a->blocks[a->n - 1];
    struct span busy = span_of(a, METRIC_BUSY), hot = span_of(a, METRIC_HOT);
    bool proven = busy.median >= 80 && hot.median >= 60;
    char before[24];
    snprintf(text, cap,
             "%s: with %s a loop is busy %.0f %% of the time, and %.0f %% of that is inside the "
             "handler \"%s\", which runs "
             "the service digest (%.0f %% of the sampled time of all handlers)%s",
             proven ? "PROVEN, the handler is the hot spot"
                    : "NOT PROVEN that the handler is the hot spot",
             loops_text(a->loops, before, sizeof before), busy.median, hot.median, b->hot,
             b->hot_share, proven ? "." : "; look elsewhere first.");
    return text;
}

/* Above this share of a CPU other programs decide what is measured. */
static const double foreign_high = 20;

const char *machine_text(const struct side *a, const struct side *b, char *text, size_t cap) {
    struct weir_host h = {.size = sizeof h};
    double x = span_of(a, METRIC_FOREIGN).high, y = span_of(b, METRIC_FOREIGN).high,
           most = x > y ? x : y;
    if (weir_host_read(&h) < 0)
        h.cpus = 0;
    int n = snprintf(
        text, cap,
        "This process may use %u CPU%s, and the load generator shares them with the server: with "
        "more loops "
        "than CPUs left over, the gain ends there and not in the server.",
        h.cpus, h.cpus == 1 ? "" : "s");
    if (most > foreign_high)
        snprintf(
            text + n, cap - (size_t)n,
            " Other programs used up to %.0f %% of a CPU meanwhile: on a quiet machine the blocks "
            "lie closer together.",
            most);
    return text;
}
