#include "load/options.h"
#include "cli/opt.h"
#include "cli/sockets.h"
#include "load/payload.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CONNECTIONS_MAX = 1000000, IN_FLIGHT_MAX = 4096, SLOTS_MAX = 4000000, LOOPS_MAX = 256 };

/* Of one answer, in bytes: some seconds. */
static const uint64_t hashed_max = UINT64_C(1) << 30;

/* The parser writes wide numbers and texts; check() moves them where they belong. */
struct raw {
    uint64_t connections, loops, in_flight, duration, timeout, service, rounds, seed, stats_pid,
        loops_expected;
    const char *requests, *warmup, *bytes, *verify, *json, *transport, *rate, *target;
    bool is_short, quiet;
    struct sockets sockets;
};

static const char *const transports[] = {"auto", "epoll", "uring", NULL};
static const char *const verifies[] = {"none", "echo", "digest", NULL};

static const char text[] =
    "TARGET is echo://HOST:PORT (bytes that come back) or linkd://HOST:PORT (frames and calls);\n"
    "unix:/PATH may stand in place of HOST:PORT.\n"
    "Closed loop: every connection sends its next request when an answer has come.\n"
    "Latencies: response is from when a request is due to its answer, service from when it is\n"
    "sent; lag is the part before that (--short: the connect). '-': too few values to tell.\n"
    "little: L = rate x mean response is how many requests were in flight on average; much less\n"
    "than -c x -m asks for: the client held some back.\n"
    "INVALID: a wrong answer, over 1 % failed or timed out, fewer than 100 ok, a window under\n"
    "1 s, or trouble of the client. Exit codes: 0 VALID, 2 usage or preflight (no report),\n"
    "3 INVALID, 4 unreachable (without any connection only a line and --json), 130 interrupted\n"
    "(the report so far).\n";

static const char examples[] =
    "weir load -c 100 -d 10s echo://127.0.0.1:9988\n"
    "weir load -c 100 -d 5s --short echo://127.0.0.1:9988\n"
    "weir load -c 100 -n 300/conn --warmup 10/conn -b 8k linkd://127.0.0.1:9093\n"
    "weir load -c 16 -m 8 -d 5s --json - -q linkd://127.0.0.1:9093\n";

#define NO_LIMIT 0
#define OPTION(n, l, k, v, a, h, low, high)                                                  \
    {                                                                                        \
        .name = (n), .letter = (l), .kind = (k), .value = (v), .argument = (a), .help = (h), \
        .min = (low), .max = (high)                                                          \
    }

static int parse(struct raw *r, int argc, char **argv) {
    const struct cli_option options[] = {
        OPTION("connections", 'c', CLI_COUNT, &r->connections, "N", "connections", 1,
               CONNECTIONS_MAX),
        OPTION("loops", 't', CLI_COUNT, &r->loops, "N", "client loops, a thread each", 1,
               LOOPS_MAX),
        OPTION("requests", 'n', CLI_TEXT, &r->requests, "N|N/conn", "stop after so many requests",
               0, NO_LIMIT),
        OPTION("duration", 'd', CLI_DURATION, &r->duration, "TIME",
               "length of the window (default 10s without -n); with -n: whichever comes first", 0,
               NO_LIMIT),
        OPTION("bytes", 'b', CLI_TEXT, &r->bytes, "BYTES",
               "payload of a request (default 12 for echo, 8k for linkd)", 0, NO_LIMIT),
        OPTION("in-flight", 'm', CLI_COUNT, &r->in_flight, "N", "requests in flight per connection",
               1, IN_FLIGHT_MAX),
        OPTION("short", 0, CLI_FLAG, &r->is_short, NULL,
               "a connection per request: connect, exchange, close", 0, NO_LIMIT),
        OPTION("warmup", 0, CLI_TEXT, &r->warmup, "TIME|N|N/conn",
               "not measured, before the window", 0, NO_LIMIT),
        OPTION("timeout", 0, CLI_DURATION, &r->timeout, "TIME", "of a request, and of a connect",
               1000000, UINT64_C(3600000000000)),
        OPTION("service", 0, CLI_COUNT, &r->service, "N", "linkd: the service number", 0,
               UINT16_MAX),
        {.name = "verify",
         .kind = CLI_CHOICE,
         .value = &r->verify,
         .choices = verifies,
         .help = "linkd: what an answer must be (echo targets are always verified)"},
        OPTION("digest-rounds", 0, CLI_COUNT, &r->rounds, "N",
               "--verify digest: the server's rounds (at most 64 payloads take turns)", 1, 1000000),
        OPTION("seed", 0, CLI_COUNT, &r->seed, "N",
               "of the payloads (0: from the clock; the report has it)", 0, INT64_MAX),
        {.name = "transport",
         .kind = CLI_CHOICE,
         .value = &r->transport,
         .choices = transports,
         .help = "of the client"},
        OPTION("stats-pid", 0, CLI_COUNT, &r->stats_pid, "PID",
               "the server's process: its CPU time per request", 1, INT32_MAX),
        OPTION("loops-expected", 0, CLI_COUNT, &r->loops_expected, "N",
               "refuse unless one process has N listeners on the port", 1, 1024),
        SOCKETS_OPTIONS(&r->sockets),
        OPTION("json", 0, CLI_TEXT, &r->json, "FILE|-", "the report as JSON (weir.load/1)", 0,
               NO_LIMIT),
        OPTION("quiet", 'q', CLI_FLAG, &r->quiet, NULL, "no report, no progress line", 0, NO_LIMIT),
        OPTION("rate", 'R', CLI_TEXT, &r->rate, "N", "open loop: not in this version", 0, NO_LIMIT),
    };
    const struct cli_command command = {
        .name = "load",
        .summary = "Measures a server: rates, latencies, errors and what a request costs.",
        .operands = "TARGET",
        .text = text,
        .examples = examples,
        .options = options,
        .n_options = CLI_LENGTH(options),
        .operands_min = 1,
        .operands_max = 1,
    };
    int rc = cli_parse(&command, argc, argv, &r->target);
    return rc < 0 ? cli_exit(rc) : -1;
}

/* --- what the words mean --------------------------------------------------------------------- */

/* "300", "300/conn", and where a time is allowed "2s". */
static bool amount(const char *word, bool time_allowed, struct load_amount *a) {
    char number[32];
    size_t n = strlen(word);
    *a = (struct load_amount){0};
    a->per_conn = n > 5 && !strcmp(word + n - 5, "/conn");
    if (a->per_conn)
        n -= 5;
    if (n >= sizeof number)
        return false;
    memcpy(number, word, n);
    number[n] = 0;
    if (cli_count(number, &a->count))
        return a->count < INT64_MAX / CONNECTIONS_MAX;
    return time_allowed && !a->per_conn && cli_duration(number, &a->ns);
}

/* echo://HOST:PORT. An address may be anything that the library takes; it says so when it does not.
 */
static int target(struct load_options *o, const char *word) {
    static const char *const names[] = {"echo", "linkd", NULL};
    const char *behind = strstr(word, "://");
    char name[16];
    if (!behind)
        return cli_complain(
            "load", "\"%s\" is no target; write echo://HOST:PORT or linkd://HOST:PORT", word);
    size_t n = (size_t)(behind - word) < sizeof name - 1 ? (size_t)(behind - word)
                                                         : sizeof name - 1;
    memcpy(name, word, n);
    name[n] = 0;
    o->target = word;
    o->address = behind + 3;
    o->linkd = !strcmp(name, "linkd");
    if (!o->linkd && strcmp(name, "echo") != 0) {
        const char *near = cli_near(name, names);
        return cli_complain("load", "no target %s://; %s%s%s", name,
                            near ? "did you mean " : "there are echo:// and linkd://",
                            near ? near : "", near ? "://?" : "");
    }
    if (!strchr(o->address, ':'))
        return cli_complain("load", "\"%s\" has no port; write %s://HOST:PORT", word, name);
    return -1;
}

static int check_amounts(struct load_options *o, const struct raw *r) {
    if (r->requests && (!amount(r->requests, false, &o->requests) || !o->requests.count))
        return cli_complain("load",
                            "--requests: \"%s\" is no number of requests, such as 10k or 300/conn",
                            r->requests);
    if (r->warmup && !amount(r->warmup, true, &o->warmup))
        return cli_complain(
            "load", "--warmup: \"%s\" is neither a time nor a number, such as 2s or 10/conn",
            r->warmup);
    o->duration_ns = r->duration ? r->duration : r->requests ? 0 : UINT64_C(10000000000);
    return -1;
}

static int check(struct load_options *o, const struct raw *r) {
    if (r->rate)
        return cli_complain("load", "-R: open loop is not there yet; leave it out for closed loop");
    if (r->is_short && r->in_flight > 1)
        return cli_complain("load",
                            "--short has one request per connection: -m %u does not go with it",
                            o->in_flight);
    if (r->connections * r->in_flight > SLOTS_MAX)
        return cli_complain("load", "-c x -m is over %d requests in flight", SLOTS_MAX);
    uint64_t bytes = o->linkd ? 8192 : 12;
    if (r->bytes && (!cli_bytes(r->bytes, &bytes) || bytes > LOAD_PAYLOAD_MAX))
        return cli_complain(
            "load", "--bytes: \"%s\" is no number of bytes up to 16M, such as 512 or 8k", r->bytes);
    if (!o->linkd && !bytes)
        return cli_complain("load", "--bytes: an echo request has at least one byte");
    o->payload = (size_t)bytes;
    if (!o->linkd && (o->verify || r->service))
        return cli_complain("load", "--%s is for linkd:// targets",
                            o->verify ? "verify" : "service");
    if (o->verify == LOAD_VERIFY_DIGEST && (bytes + LOAD_DIGEST_BYTES) * r->rounds > hashed_max)
        return cli_complain(
            "load", "--verify digest: %u rounds over %zu bytes are too much to compute beforehand",
            o->digest_rounds, o->payload);
    return check_amounts(o, r);
}

static uint64_t seed_of_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return ((uint64_t)t.tv_sec * 1000003 + (uint64_t)t.tv_nsec) % 1000000000 + 1;
}

int load_options_parse(struct load_options *o, int argc, char **argv) {
    struct raw r = {.connections = 10,
                    .loops = 1,
                    .in_flight = 1,
                    .timeout = UINT64_C(10000000000),
                    .verify = "none",
                    .rounds = 16,
                    .transport = "auto"};
    int rc = parse(&r, argc, argv);
    *o = (struct load_options){0};
    if (rc >= 0 || (rc = target(o, r.target)) >= 0)
        return rc;
    o->is_short = r.is_short;
    o->quiet = r.quiet;
    o->connections = (unsigned)r.connections;
    o->loops = (unsigned)(r.loops < r.connections ? r.loops : r.connections);
    o->in_flight = (unsigned)r.in_flight;
    o->timeout_ns = r.timeout;
    o->seed = r.seed ? r.seed : seed_of_clock();
    o->service = (unsigned)r.service;
    o->verify = !strcmp(r.verify, "echo")     ? LOAD_VERIFY_ECHO
                : !strcmp(r.verify, "digest") ? LOAD_VERIFY_DIGEST
                                              : LOAD_VERIFY_NONE;
    o->digest_rounds = (unsigned)r.rounds;
    o->json = r.json;
    o->transport = !strcmp(r.transport, "auto") ? NULL : r.transport;
    if (sockets_read(&r.sockets, "load", &o->socket) || sockets_try("load", &o->socket, false))
        return 2;
    o->stats_pid = (unsigned)r.stats_pid;
    o->loops_expected = (unsigned)r.loops_expected;
    return check(o, &r);
}

uint64_t load_options_share(const struct load_options *o, const struct load_amount *a,
                            unsigned index) {
    if (!a->count)
        return UINT64_MAX;
    if (a->per_conn)
        return a->count;
    return a->count / o->connections + (index < a->count % o->connections);
}
