/* differ [--seed N] [--seeds N] [--door NAME] [--show]
 *
 * Runs scripts on every door and compares their traces with those of the first, and the
 * distribution of bytes per gather over the whole run. --door: that one against the first only.
 * --show prints the traces. */
#include "differ/differ.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SEEDS = 250, DOORS = 5, APART_MAX_PPM = 10000 };

static const char *const names[DOORS] = {"lt", "et", "defer", "uring", "sim"};

struct door {
    const char *name;
    const struct pair_kind *kind;
    double seconds;
    bool gone; /* not on this machine, or not asked for */
    struct gathers gathers;
    struct trace traces[CHANNELS_MAX];
};

static struct door doors[DOORS];

/* Where it is, for when the library itself gives up. */
static volatile uint64_t at_seed;
static const char *volatile at_door;

static void on_abort(int signal_number) {
    (void)signal_number;
    printf("seed %llu: %s gives up\n", (unsigned long long)at_seed, at_door);
    fflush(stdout);
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* --- traces ---------------------------------------------------------------------------------- */

static const char *line_at(const char *text, unsigned n) {
    while (n-- && text)
        text = strchr(text, '\n') ? strchr(text, '\n') + 1 : NULL;
    return text ? text : "";
}

static int line_length(const char *line) {
    return (int)strcspn(line, "\n");
}

/* Two lines before the first that differs, and one behind it. */
static void tell_difference(const struct door *a, const struct door *b, unsigned channel) {
    const char *x = a->traces[channel].text, *y = b->traces[channel].text;
    unsigned at = 0;
    size_t same = 0;
    for (; x[same] && x[same] == y[same]; same++)
        at += x[same] == '\n';
    for (unsigned i = at > 2 ? at - 2 : 0; i < at; i++)
        printf("  both:  %.*s\n", line_length(line_at(x, i)), line_at(x, i));
    for (unsigned i = at; i < at + 2; i++) {
        printf("  %-6s %.*s\n", a->name, line_length(line_at(x, i)), line_at(x, i));
        printf("  %-6s %.*s\n", b->name, line_length(line_at(y, i)), line_at(y, i));
    }
}

static bool same_traces(const struct plan *plan, const struct door *a, const struct door *b) {
    for (unsigned i = 0; i < plan->n_channels; i++) {
        if (!strcmp(a->traces[i].text, b->traces[i].text))
            continue;
        const struct weir_limits *l = &plan->channels[i].limits;
        printf("seed %llu: %s differs from %s on channel %u (batch %u, high %u%s%s):\n",
               (unsigned long long)plan->seed, b->name, a->name, i, l->batch_bytes, l->high_bytes,
               l->half_open ? ", half open" : "", l->read_while_full ? ", reads while full" : "");
        tell_difference(a, b, i);
        return false;
    }
    return true;
}

/* --- one seed -------------------------------------------------------------------------------- */

static bool run_on(struct door *d, const struct plan *plan, bool show) {
    static struct world w;
    const char *why;
    double began = seconds();
    at_seed = plan->seed;
    at_door = d->name;
    int rc = world_run(&w, plan, d->kind, &d->gathers, &why);
    d->seconds += seconds() - began;
    memcpy(d->traces, w.traces, sizeof d->traces);
    for (unsigned i = 0; show && i < plan->n_channels; i++)
        printf("%s, channel %u:\n%s", d->name, i, d->traces[i].text);
    if (rc == 0) {
        printf("no %s here: %s\n", d->name, why);
        d->gone = true;
    }
    if (rc < 0)
        printf("seed %llu: %s does not come to its end\n", (unsigned long long)plan->seed, d->name);
    return rc >= 0;
}

static bool run_seed(uint64_t seed, bool show) {
    static struct plan plan;
    plan_draw(&plan, seed);
    for (int i = 0; i < DOORS; i++) {
        if (doors[i].gone)
            continue;
        if (!run_on(&doors[i], &plan, show))
            return false;
        if (!doors[i].gone && !same_traces(&plan, &doors[0], &doors[i]))
            return false;
    }
    return true;
}

/* --- gathers --------------------------------------------------------------------------------- */

/* Half the sum of the differences of the frequencies, in millionths. */
static unsigned total_variation_ppm(const struct gathers *a, const struct gathers *b) {
    double sum = 0;
    for (size_t i = 0; i < ARRAY_LEN(a->count) && a->total && b->total; i++) {
        double x = (double)a->count[i] / (double)a->total;
        double y = (double)b->count[i] / (double)b->total;
        sum += x > y ? x - y : y - x;
    }
    return (unsigned)(sum / 2 * 1e6 + 0.5);
}

static bool same_gathers(void) {
    bool same = true;
    for (int i = 0; i < DOORS; i++) {
        const struct gathers *g = &doors[i].gathers;
        unsigned ppm = total_variation_ppm(&doors[0].gathers, g);
        if (doors[i].gone)
            continue;
        bool near = ppm <= APART_MAX_PPM;
        printf("  %-6s %8llu gathers of %12llu bytes, %7.4f %% from %s, %5.1f s%s\n", doors[i].name,
               (unsigned long long)g->total, (unsigned long long)g->bytes, ppm / 1e4, doors[0].name,
               doors[i].seconds, near ? "" : ": too far");
        same &= near;
    }
    return same;
}

/* --- all of them ----------------------------------------------------------------------------- */

static int usage(void) {
    fputs("differ [--seed N] [--seeds N] [--door lt|et|defer|uring|sim] [--show]\n", stderr);
    return 2;
}

struct run {
    uint64_t first, seeds;
    const char *door;
    bool show;
};

static bool read_arguments(struct run *r, int argc, char **argv) {
    const char *one = getenv("WEIR_SEED"), *many = getenv("WEIR_DIFFER_SEEDS");
    *r = (struct run){.first = 1, .seeds = many ? strtoull(many, NULL, 10) : SEEDS};
    if (one)
        *r = (struct run){.first = strtoull(one, NULL, 10), .seeds = 1};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--show"))
            r->show = true;
        else if (i + 1 == argc)
            return false;
        else if (!strcmp(argv[i], "--seed"))
            *r = (struct run){strtoull(argv[++i], NULL, 10), 1, r->door, r->show};
        else if (!strcmp(argv[i], "--seeds"))
            r->seeds = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--door"))
            r->door = argv[++i];
        else
            return false;
    }
    return true;
}

int main(int argc, char **argv) {
    struct run r;
    double began = seconds();
    if (!read_arguments(&r, argc, argv))
        return usage();
    signal(SIGABRT, on_abort);
    for (int i = 0; i < DOORS; i++) {
        doors[i].name = names[i];
        doors[i].kind = pair_kind_of(names[i]);
        doors[i].gone = r.door && i > 0 && strcmp(r.door, names[i]) != 0;
    }
    for (uint64_t seed = r.first; seed < r.first + r.seeds; seed++)
        if (!run_seed(seed, r.show)) {
            printf("again: differ --seed %llu --show\n", (unsigned long long)seed);
            return 1;
        }
    printf("%llu scripts, the same on every door, in %.1f s\n", (unsigned long long)r.seeds,
           seconds() - began);
    return same_gathers() ? 0 : 1;
}
