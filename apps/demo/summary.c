#include "demo/summary.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { HOT_BLOCKS_MIN = 3, HOT_SAMPLES_MIN = 100 };

/* A service is accounted for under its own name, apart from the handler that calls it. */
static const char service_asked[] = "digest";

static const double chance_max = 0.05;
/* Percent. */
static const double foreign_max =
    20; /* of a CPU: above it other programs decide what is measured */
static const double busy_min = 80, wait_max = 20, hot_min = 60;

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
    [METRIC_WAIT] = {"waiting for a CPU", "% of busy time", 1, false},
    [METRIC_HOT] = {"hottest handler", "% of CPU, at least", 1, true},
    [METRIC_FOREIGN] = {"other programs", "% of one CPU", 1, false},
};

/* --- blocks that count ----------------------------------------------------------------------- */

static bool counts(const struct block *b) {
    return !b->invalid[0];
}

unsigned side_valid(const struct side *s) {
    unsigned n = 0;
    for (unsigned i = 0; i < s->n; i++)
        n += counts(&s->blocks[i]);
    return n;
}

static const struct block *last_valid(const struct side *s) {
    const struct block *last = NULL;
    for (unsigned i = 0; i < s->n; i++)
        if (counts(&s->blocks[i]))
            last = &s->blocks[i];
    return last;
}

static const struct block *first_invalid(const struct side *s) {
    for (unsigned i = 0; i < s->n; i++)
        if (!counts(&s->blocks[i]))
            return &s->blocks[i];
    return NULL;
}

struct span span_of(const struct side *s, enum metric m) {
    double v[BLOCKS_MAX];
    unsigned n = 0;
    for (unsigned i = 0; i < s->n; i++) {
        if (!counts(&s->blocks[i]))
            continue;
        double x = s->blocks[i].value[m];
        unsigned at = n++;
        for (; at && v[at - 1] > x; at--)
            v[at] = v[at - 1];
        v[at] = x;
    }
    if (!n)
        return (struct span){0};
    double middle = n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
    return (struct span){middle, v[0], v[n - 1]};
}

/* --- verdict --------------------------------------------------------------------------------- */

static enum verdict apart(const struct trial *t, enum metric m) {
    struct span x = span_of(&t->a, m), y = span_of(&t->b, m);
    return y.low > x.high ? VERDICT_HIGHER : y.high < x.low ? VERDICT_LOWER : VERDICT_UNCLEAR;
}

/* Two of all ways to deal the ranks are a full separation: 2 / C(a + b, a). */
double verdict_chance(unsigned blocks_a, unsigned blocks_b) {
    double ways = 1;
    for (unsigned i = 1; i <= blocks_a; i++)
        ways = ways * (blocks_b + i) / i;
    return ways > 2 ? 2 / ways : 1;
}

static double chance_of(const struct trial *t) {
    return verdict_chance(side_valid(&t->a), side_valid(&t->b));
}

enum verdict verdict_of(const struct trial *t, enum metric m) {
    char why[TEXT_MAX];
    if (doubt_text(t, why, sizeof why)[0])
        return VERDICT_NONE;
    return chance_of(t) <= chance_max ? apart(t, m) : VERDICT_UNCLEAR;
}

/* --- texts ----------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static void append(char *text, size_t cap, const char *format,
                                                         ...) {
    size_t n = strlen(text);
    va_list a;
    va_start(a, format);
    vsnprintf(text + n, cap - n, format, a);
    va_end(a);
}

const char *span_text(struct span s, enum metric m, char *text, size_t cap) {
    int d = metric_infos[m].decimals;
    if (s.low == s.high)
        snprintf(text, cap, "%.*f", d, s.median);
    else
        snprintf(text, cap, "%.*f (%.*f..%.*f)", d, s.median, d, s.low, d, s.high);
    return text;
}

const char *change_text(const struct trial *t, enum metric m, char *text, size_t cap) {
    struct span x = span_of(&t->a, m), y = span_of(&t->b, m);
    enum verdict v = verdict_of(t, m);
    text[0] = 0;
    if (!metric_infos[m].compare || x.median <= 0)
        return text;
    snprintf(text, cap, "x %.2f%s", y.median / x.median,
             v == VERDICT_NONE      ? "  no verdict"
             : v == VERDICT_UNCLEAR ? "  not distinguishable"
                                    : "");
    return text;
}

const char *busy_text(const struct side *s, char *text, size_t cap) {
    const struct block *b = last_valid(s);
    text[0] = 0;
    for (unsigned i = 0; b && i < b->n_loops; i++)
        append(text, cap, "%s%.0f %%", i ? ", " : "", b->busy[i]);
    return text;
}

const char *loops_text(unsigned loops, char *text, size_t cap) {
    snprintf(text, cap, "%u loop%s", loops, loops == 1 ? "" : "s");
    return text;
}

static double most(const struct trial *t, enum metric m) {
    double x = span_of(&t->a, m).high, y = span_of(&t->b, m).high;
    return x > y ? x : y;
}

const char *doubt_text(const struct trial *t, char *text, size_t cap) {
    unsigned loops = t->a.loops > t->b.loops ? t->a.loops : t->b.loops;
    text[0] = 0;
    if (!side_valid(&t->a) || !side_valid(&t->b))
        append(text, cap, "; one side has no block that counts");
    if (most(t, METRIC_ERRORS) > 0)
        append(text, cap, "; up to %.0f requests of a block failed", most(t, METRIC_ERRORS));
    if (most(t, METRIC_FOREIGN) > foreign_max)
        append(text, cap, "; other programs used up to %.0f %% of a CPU meanwhile, over %.0f %%",
               most(t, METRIC_FOREIGN), foreign_max);
    if (t->cpus && t->cpus < loops)
        append(text, cap, "; %u loops have to share %u CPU%s", loops, t->cpus,
               t->cpus == 1 ? "" : "s");
    if (text[0])
        memmove(text, text + 2, strlen(text + 2) + 1); /* without the first "; " */
    return text;
}

static void append_overlap(const struct trial *t, char *text, size_t cap) {
    struct span x = span_of(&t->a, METRIC_RATE), y = span_of(&t->b, METRIC_RATE);
    char before[24], after[24];
    append(text, cap,
           "NOT DISTINGUISHABLE: the throughputs with %s (%.0f..%.0f req/s) and with %s "
           "(%.0f..%.0f) overlap; these blocks show no difference.",
           loops_text(t->a.loops, before, sizeof before), x.low, x.high,
           loops_text(t->b.loops, after, sizeof after), y.low, y.high);
}

static void append_apart(const struct trial *t, enum verdict v, char *text, size_t cap) {
    struct span x = span_of(&t->a, METRIC_RATE), y = span_of(&t->b, METRIC_RATE);
    double chance = chance_of(t);
    bool enough = chance <= chance_max;
    char before[24], after[24];
    append(text, cap, "%s: ", enough ? "CHANGED" : "NOT DISTINGUISHABLE");
    if (enough)
        append(text, cap, "throughput x %.2f; ", y.median / x.median);
    append(text, cap,
           "every block with %s was %s than every block with %s, and of runs without a difference "
           "%.*f %% come out so%s",
           loops_text(t->b.loops, after, sizeof after), v == VERDICT_HIGHER ? "faster" : "slower",
           loops_text(t->a.loops, before, sizeof before), chance < 0.1 ? 1 : 0, chance * 100,
           enough ? "." : ": more than 5 %, so take more --blocks.");
}

const char *verdict_text(const struct trial *t, char *text, size_t cap) {
    const struct block *bad = first_invalid(&t->a);
    unsigned all = t->a.n + t->b.n, valid = side_valid(&t->a) + side_valid(&t->b);
    enum verdict v = apart(t, METRIC_RATE);
    char why[TEXT_MAX];
    text[0] = 0;
    if (!bad)
        bad = first_invalid(&t->b);
    if (bad)
        append(text, cap, "INVALID: %u of the %u blocks do%s not count (%s). ", all - valid, all,
               all - valid == 1 ? "es" : "", bad->invalid);
    if (doubt_text(t, why, sizeof why)[0])
        append(text, cap, "NO VERDICT: %s.", why);
    else if (v == VERDICT_UNCLEAR)
        append_overlap(t, text, cap);
    else
        append_apart(t, v, text, cap);
    return text;
}

/* --- the hot spot ---------------------------------------------------------------------------- */

static double fewest_samples(const struct side *s) {
    double least = -1;
    for (unsigned i = 0; i < s->n; i++)
        if (counts(&s->blocks[i]) && (least < 0 || s->blocks[i].hot_samples < least))
            least = s->blocks[i].hot_samples;
    return least < 0 ? 0 : least;
}

static bool same_hot(const struct side *s, const char *name) {
    for (unsigned i = 0; i < s->n; i++)
        if (counts(&s->blocks[i]) && strcmp(s->blocks[i].hot, name) != 0)
            return false;
    return true;
}

/* What keeps the handler from being the hot spot beyond doubt. NULL: nothing. */
static const char *hot_doubt(const struct side *a) {
    const struct block *b = last_valid(a);
    if (side_valid(a) < HOT_BLOCKS_MIN)
        return "fewer than 3 blocks count";
    if (!b->hot[0])
        return "no handler was seen";
    if (span_of(a, METRIC_ERRORS).high > 0)
        return "requests failed";
    if (!same_hot(a, b->hot))
        return "not every block has the same hottest handler";
    if (fewest_samples(a) < HOT_SAMPLES_MIN)
        return "a block has fewer than 100 samples of it";
    if (span_of(a, METRIC_BUSY).median < busy_min)
        return "the loops are not full, look elsewhere first";
    if (span_of(a, METRIC_WAIT).median > wait_max)
        return "the loops wait for a CPU, which is a pause and not work";
    if (span_of(a, METRIC_HOT).median < hot_min)
        return "its share is too small, look elsewhere first";
    return NULL;
}

const char *hot_text(const struct side *a, char *text, size_t cap) {
    const struct block *b = last_valid(a);
    const char *doubt = hot_doubt(a);
    char before[24];
    text[0] = 0;
    append(text, cap, doubt ? "NOT PROVEN that the handler is the hot spot (%s)" : "PROVEN%s",
           doubt ? doubt : ", the handler is the hot spot");
    if (!b) {
        append(text, cap, ".");
        return text;
    }
    append(text, cap,
           ": with %s a loop is busy %.0f %% of the time, %.0f %% of that waiting for a CPU, and "
           "at least %.0f %% of the server's CPU time is inside the handler \"%s\"",
           loops_text(a->loops, before, sizeof before), span_of(a, METRIC_BUSY).median,
           span_of(a, METRIC_WAIT).median, span_of(a, METRIC_HOT).median, b->hot);
    if (!strcmp(b->hot, service_asked))
        append(text, cap, ", the service that all requests ask for");
    append(text, cap, " (blocks that count: %u, each with at least %.0f samples).", side_valid(a),
           fewest_samples(a));
    return text;
}

const char *machine_text(const struct trial *t, char *text, size_t cap) {
    snprintf(text, cap,
             "This process may use %u CPU%s, and the load generator shares them with the server: "
             "with more loops than CPUs left over, the gain ends there and not in the server.",
             t->cpus, t->cpus == 1 ? "" : "s");
    return text;
}
