/* Runs the cases on one pair of doors, one line each:
 * transport_suite PAIR [--case NAME] [--seed N] | --list */
#include "suite/suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SKIPPED = 77, SEEDS = 6 };

static const struct suite_case *const groups[] = {
    suite_order,   suite_marks, suite_credit, suite_pull,  suite_close,    suite_life,
    suite_connect, suite_many,  suite_file,   suite_proxy, suite_pipeline, suite_threads,
    suite_stop,    suite_dgram, suite_fds,    suite_pin,
};

struct run {
    const struct pair_kind *kind;
    const char *only_case;
    uint64_t seed; /* 0: the fixed list */
    unsigned passed, failed;
};

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool is_sim(const struct pair_kind *k) {
    return !strcmp(k->door[SERVER], "sim");
}

static bool run_once(const struct run *r, const struct suite_case *c, uint64_t seed) {
    static struct pair p;
    const char *why = "";
    struct weir__iosim_options sim = c->sim;
    sim.seed = seed;
    if (pair_open(&p, r->kind, &sim, &why) < 0) {
        fprintf(stderr, "cannot open the doors: %s\n", why);
        return false;
    }
    if (setjmp(p.escape)) {
        if (is_sim(r->kind))
            fprintf(stderr, "    again: transport_suite sim --case %s --seed %llu\n", c->name,
                    (unsigned long long)seed);
        return false;
    }
    c->run(&p);
    return p.closed; /* a case that forgets to close is no case */
}

static bool run_seeds(const struct run *r, const struct suite_case *c) {
    if (!is_sim(r->kind) || r->seed)
        return run_once(r, c, r->seed);
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        if (!run_once(r, c, seed))
            return false;
    return true;
}

static void run_case(struct run *r, const struct suite_case *c) {
    bool sim = is_sim(r->kind), at_a_name = !strncmp(r->kind->name, "unix-", 5);
    if ((c->only & ~(unsigned)RESETS) == (sim ? REAL_ONLY : SIM_ONLY))
        return;
    if (c->only & RESETS && at_a_name && !sim)
        return;
    if (r->only_case && strcmp(r->only_case, c->name) != 0)
        return;
    double began = seconds();
    bool ok = run_seeds(r, c);
    printf("%-6s %-9s %-45s %6.0f ms\n", ok ? "ok" : "FAILED", r->kind->name, c->name,
           (seconds() - began) * 1e3);
    fflush(stdout);
    *(ok ? &r->passed : &r->failed) += 1;
}

static bool doors_are_here(const struct pair_kind *k) {
    static struct pair p;
    const char *why = "";
    struct weir__iosim_options sim = {.seed = 1};
    if (pair_open(&p, k, &sim, &why) < 0) {
        printf("skipped %s: %s\n", k->name, why);
        return false;
    }
    if (setjmp(p.escape))
        exit(1);
    pair_close(&p);
    return true;
}

static int list(void) {
    for (size_t g = 0; g < ARRAY_LEN(groups); g++)
        for (const struct suite_case *c = groups[g]; c->name; c++)
            puts(c->name);
    return 0;
}

static int usage(void) {
    fputs("transport_suite PAIR [--case NAME] [--seed N] | --list\npairs:", stderr);
    for (const struct pair_kind *k = pair_kinds; k->name; k++)
        fprintf(stderr, " %s", k->name);
    fputc('\n', stderr);
    return 2;
}

int main(int argc, char **argv) {
    struct run r = {0};
    if (argc == 2 && !strcmp(argv[1], "--list"))
        return list();
    r.kind = argc > 1 ? pair_kind_of(argv[1]) : NULL;
    for (int i = 2; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--case"))
            r.only_case = argv[i + 1];
        else if (!strcmp(argv[i], "--seed"))
            r.seed = strtoull(argv[i + 1], NULL, 10);
        else
            return usage();
    }
    if (!r.kind)
        return usage();
    if (!doors_are_here(r.kind))
        return SKIPPED;
    double began = seconds();
    for (size_t g = 0; g < ARRAY_LEN(groups); g++)
        for (const struct suite_case *c = groups[g]; c->name; c++)
            run_case(&r, c);
    printf("suite.%s: %u passed, %u failed, %.1f s\n", r.kind->name, r.passed, r.failed,
           seconds() - began);
    return r.failed || !r.passed;
}
