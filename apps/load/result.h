/* What a run found, merged over its workers. */
#ifndef LOAD_RESULT_H
#define LOAD_RESULT_H
#include "load/run.h"
#include <stdio.h>

enum { LOAD_REASONS_MAX = 12, LOAD_REASON_BYTES = 160, LOAD_QUANTILES = 5 };

struct load_quantile {
    const char *name; /* "p99" */
    double q;
};

extern const struct load_quantile load_quantiles[LOAD_QUANTILES];

struct load_ledger {
    uint64_t started, ok, failed, timed_out, cancelled,
        in_flight; /* in_flight: counted in the slots, not by subtraction */
};

struct load_result { /* the histograms are the first worker's: it dies with the run */
    const struct load_run *run;
    enum load_end end;
    struct load_ledger ledger, warmup;
    uint64_t not_started;       /* of the requests that were asked for */
    uint64_t window_ns, opened; /* opened: with --short in the window, else ever */
    bool balanced;
    const struct weir_hist *response, *service, *lag, *connect;
    double rate;               /* ok per second */
    double little;             /* rate x mean response */
    unsigned configured;       /* connections x in flight */
    double user_us, system_us; /* of the client, per ok request */
    double busy; /* share of the time between the edges in which the client's loops worked */
    double sends, receives;          /* system calls per ok request */
    double received_rate, sent_rate; /* bytes per second, as the sockets saw them */
    bool server_known;
    double server_us, server_wait_us; /* per ok request */
    unsigned server_threads;
    struct load_error errors[LOAD_ERRORS_MAX];
    unsigned n_errors;
    uint64_t errors_dropped;
    char reasons[LOAD_REASONS_MAX][LOAD_REASON_BYTES]; /* why it is invalid */
    unsigned n_reasons;
    int exit_code;
};

/* Takes the run apart: after load_run_go, once. rc: what that answered. */
void load_result_make(struct load_result *res, struct load_run *r, int rc);
/* false: n values cannot tell that quantile (their 95 % interval would reach past the largest of
 * them). */
bool load_quantile_known(uint64_t n, double q);
/* The first error that mattered most (the most frequent one), or NULL. */
const struct load_error *load_result_worst(const struct load_result *res);

void load_text_print(const struct load_result *res, FILE *out);
/* The file for load_json_write, stdout for "-". NULL: there is a line on stderr. */
FILE *load_json_open(const char *path);
/* Schema weir.load/1; closes out. 0, or 2 with a line on stderr. */
int load_json_write(const struct load_result *res, FILE *out);

#endif
