/* One block: a fresh server, one load run against it, what both say afterwards. */
#ifndef APPS_DEMO_BLOCK_H
#define APPS_DEMO_BLOCK_H

enum metric {
    METRIC_REQUESTS,
    METRIC_ERRORS,
    METRIC_RATE, /* requests per second */
    METRIC_P50,  /* milliseconds, as the rest of the latencies */
    METRIC_P95,
    METRIC_P99,
    METRIC_MEAN,
    METRIC_LITTLE,
    METRIC_CPU_REQUEST, /* microseconds of server CPU */
    METRIC_CPU,         /* percent of one CPU, all loops together */
    METRIC_BUSY,        /* percent, the mean of the loops */
    METRIC_WAIT,        /* percent of the busy time in which a loop was ready and had no CPU */
    METRIC_HOT,         /* percent of the loops' CPU time in the hottest handler, at least */
    METRIC_FOREIGN,     /* percent of one CPU that other programs used meanwhile */
    METRIC_COUNT,
};

enum { BLOCK_LOOPS_MAX = 16 };

struct block {
    double value[METRIC_COUNT];
    double busy[BLOCK_LOOPS_MAX]; /* percent, per loop */
    unsigned n_loops;
    char hot[32];       /* the handler with most estimated time */
    double hot_samples; /* that its time is estimated from */
    char invalid[160];  /* why the load run says that its numbers count for nothing; "" otherwise */
};

struct workload {
    const char *out; /* folder for the children's JSON */
    unsigned connections, per_connection, warmup, payload;
};

/* Runs a block with `loops` server loops. 0, or -1 after one line on stderr. */
int block_run(const struct workload *w, unsigned loops, unsigned number, struct block *out);

#endif
