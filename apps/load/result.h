/* What a run found, merged over its workers. */
#ifndef LOAD_RESULT_H
#define LOAD_RESULT_H
#include "load/run.h"
#include <stdio.h>

enum { LOAD_REASONS_MAX = 8, LOAD_REASON_BYTES = 120, LOAD_QUANTILES = 5 };

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
    uint64_t not_started; /* of the requests that were asked for */
    uint64_t finished;    /* answered, right or wrong */
    uint64_t window_ns, opened;
    bool balanced;
    const struct weir_hist *response, *service, *lag, *connect;
    double rate;                     /* ok per second */
    double little;                   /* rate x mean response */
    unsigned configured;             /* connections x in flight */
    double user_us, system_us;       /* of the client, per finished request */
    double busy;                     /* share of the window in which the client's loops worked */
    double sends, receives;          /* system calls per finished request */
    double received_rate, sent_rate; /* bytes per second, as the sockets saw them */
    bool server_known;
    double server_us, server_wait_us; /* per finished request */
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
/* Schema weir.load/1, to path or "-". 0, or 2 with a line on stderr. */
int load_json_write(const struct load_result *res, const char *path);

#endif
