/* What a run is asked to do. */
#ifndef LOAD_OPTIONS_H
#define LOAD_OPTIONS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "weir/socket.h"

enum load_verify { LOAD_VERIFY_NONE, LOAD_VERIFY_ECHO, LOAD_VERIFY_DIGEST };

struct load_amount { /* of requests, for the whole run or for each connection; or a time */
    uint64_t count;
    bool per_conn;
    uint64_t ns; /* 0: it is a count */
};

struct load_options {
    const char *target;  /* as given: echo://HOST:PORT */
    const char *address; /* its part behind :// */
    bool linkd;
    bool is_short; /* a connection per request */
    bool quiet;
    unsigned connections, loops, in_flight; /* in_flight: of one connection */
    struct load_amount requests;            /* count 0: no limit */
    struct load_amount warmup;
    uint64_t duration_ns; /* 0: until the requests are done */
    uint64_t timeout_ns;  /* of one request, and of a connect */
    uint64_t seed;
    size_t payload;
    unsigned service;
    enum load_verify verify;
    unsigned digest_rounds; /* for LOAD_VERIFY_DIGEST */
    const char *json;       /* path, "-" or NULL */
    const char *transport;  /* NULL: auto */
    struct weir_socket_options socket;
    unsigned stats_pid;      /* 0: none */
    unsigned loops_expected; /* 0: do not look */
};

/* Fills o from the command line. < 0: go on; else the exit code (help was shown, or one line said
 * what is wrong). */
int load_options_parse(struct load_options *o, int argc, char **argv);

/* Requests that connection `index` has to make; UINT64_MAX: no limit. */
uint64_t load_options_share(const struct load_options *o, const struct load_amount *a,
                            unsigned index);

#endif
