/* The tuning case in miniature: where the handler fills one loop, one change (more loops) and what
 * it did. */
#include "demo/demo.h"
#include "cli/opt.h"
#include "demo/report.h"
#include "weir/host.h"
#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    ROUNDS = 16,
    PAYLOAD = 8192,
    CONNECTIONS = 100,
    WARMUP = 10,
    SHARE_MIN = 20,
    SHARE_MAX = 300,
    TRIALS = 50
};

struct arguments {
    const char *out;
    uint64_t blocks, loops, share, seed;
};

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Requests per connection that keep one loop busy for about three seconds here, at most the 300 of
 * the full case. */
static unsigned choose_share(void) {
    static const uint8_t data[PAYLOAD + 32];
    uint8_t digest[EVP_MAX_MD_SIZE];
    uint64_t start = now_ns();
    for (int i = 0; i < ROUNDS * TRIALS; i++)
        if (EVP_Digest(data, sizeof data, digest, NULL, EVP_sha256(), NULL) != 1)
            return SHARE_MIN;
    uint64_t request_ns = (now_ns() - start) / TRIALS + 1;
    uint64_t share = UINT64_C(3000000000) / request_ns / CONNECTIONS;
    return share < SHARE_MIN ? SHARE_MIN : share > SHARE_MAX ? SHARE_MAX : (unsigned)share;
}

/* Every folder of the path. 0 or -1 with errno. */
static int make_folder(const char *path) {
    char part[512];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof part) {
        errno = ENAMETOOLONG;
        return -1;
    }
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i])
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        if (mkdir(part, 0755) < 0 && errno != EEXIST)
            return -1;
    }
    return 0;
}

static void progress(const struct arguments *a, unsigned block, unsigned loops) {
    unsigned all = (unsigned)a->blocks * 2;
    char text[24];
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\rblock %u of %u, %s ...  ", block + 1, all,
                loops_text(loops, text, sizeof text));
    if (isatty(STDERR_FILENO) && block + 1 == all)
        fprintf(stderr, "\n");
}

static void print_table(const struct trial *t) {
    char x[120], y[120], z[80], name[40];
    printf("%-34s %24s %24s   %s\n", "", loops_text(t->a.loops, x, sizeof x),
           loops_text(t->b.loops, y, sizeof y), "after / before");
    for (enum metric m = 0; m < METRIC_COUNT; m++) {
        snprintf(name, sizeof name, "%s %s", metric_infos[m].name, metric_infos[m].unit);
        printf("%-34s %24s %24s   %s\n", name, span_text(span_of(&t->a, m), m, x, sizeof x),
               span_text(span_of(&t->b, m), m, y, sizeof y), change_text(t, m, z, sizeof z));
    }
    printf("%-34s %24s %24s\n\n", "busy, each loop (last block)", busy_text(&t->a, x, sizeof x),
           busy_text(&t->b, y, sizeof y));
}

/* --- running --------------------------------------------------------------------------------- */

static uint64_t draw(uint64_t *state) { /* SplitMix64 */
    uint64_t x = *state += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static int run_one(const struct arguments *arguments, const struct workload *w, struct side *s,
                   unsigned number) {
    struct block *b = &s->blocks[s->n];
    progress(arguments, number, s->loops);
    if (block_run(w, s->loops, number + 1, b) < 0)
        return -1;
    if (b->invalid[0])
        fprintf(stderr, "weir demo: block %u is invalid: %s\n", number + 1, b->invalid);
    s->n++;
    return 0;
}

/* Pairs of one block of each side, which of them first is drawn: what drifts or alternates on the
 * machine does not fall on one side only. */
static int run_blocks(const struct arguments *arguments, const struct workload *w,
                      struct trial *t) {
    uint64_t state = t->seed;
    for (unsigned i = 0; i < arguments->blocks; i++) {
        bool swap = draw(&state) & 1;
        if (run_one(arguments, w, swap ? &t->b : &t->a, 2 * i) < 0 ||
            run_one(arguments, w, swap ? &t->a : &t->b, 2 * i + 1) < 0)
            return -1;
    }
    return 0;
}

/* Of both sides: blocks that say themselves that they do not count, or had errors. */
static bool went_wrong(const struct trial *t) {
    return side_valid(&t->a) < t->a.n || side_valid(&t->b) < t->b.n ||
           span_of(&t->a, METRIC_ERRORS).high > 0 || span_of(&t->b, METRIC_ERRORS).high > 0;
}

static int conclude(const struct workload *w, const struct trial *t) {
    char text[TEXT_MAX], path[560];
    print_table(t);
    printf("%s\n\n", verdict_text(t, text, sizeof text));
    printf("%s\n\n", hot_text(&t->a, text, sizeof text));
    printf("%s\n\n", machine_text(t, text, sizeof text));
    snprintf(path, sizeof path, "%s/report.html", w->out);
    if (report_write(path, w, t) < 0)
        return cli_complain("demo", "%s: %s", path, strerror(errno)) - 1;
    printf("report: %s\n", path);
    return went_wrong(t) ? 3 : 0;
}

static struct trial trial_of(const struct arguments *arguments) {
    struct weir_host host = {.size = sizeof host};
    struct trial t = {.a = {.loops = 1},
                      .b = {.loops = (unsigned)arguments->loops},
                      .seed = arguments->seed ? arguments->seed : now_ns() % 1000000000 + 1};
    if (weir_host_read(&host) >= 0)
        t.cpus = host.cpus;
    return t;
}

static int demo(const struct arguments *arguments) {
    struct workload w = {
        .out = arguments->out,
        .connections = CONNECTIONS,
        .per_connection = arguments->share ? (unsigned)arguments->share : choose_share(),
        .warmup = WARMUP,
        .payload = PAYLOAD,
    };
    struct trial t = trial_of(arguments);
    if (make_folder(w.out) < 0)
        return cli_complain("demo", "--out: %s: %s", w.out, strerror(errno));
    printf("linkd digest server, %u connections x %u requests of %u bytes, %u blocks a side, 1 "
           "loop against %u, seed %" PRIu64 "\n\n",
           w.connections, w.per_connection, w.payload, (unsigned)arguments->blocks, t.b.loops,
           t.seed);
    fflush(stdout);
    return run_blocks(arguments, &w, &t) < 0 ? 1 : conclude(&w, &t);
}

int weir_demo_main(int argc, char **argv) {
    struct arguments a = {.out = "build/demo", .blocks = 4, .loops = 2};
    const struct cli_option options[] = {
        {.name = "out",
         .kind = CLI_TEXT,
         .value = &a.out,
         .argument = "DIR",
         .help = "folder of the report"},
        {.name = "blocks",
         .kind = CLI_COUNT,
         .value = &a.blocks,
         .argument = "N",
         .help = "blocks of each side; fewer than 4 cannot tell a difference",
         .min = 2,
         .max = BLOCKS_MAX},
        {.name = "loops",
         .kind = CLI_COUNT,
         .value = &a.loops,
         .argument = "N",
         .help = "loops after the change",
         .min = 2,
         .max = BLOCK_LOOPS_MAX},
        {.name = "requests",
         .kind = CLI_COUNT,
         .value = &a.share,
         .argument = "N",
         .help = "requests of each connection; 0: about three seconds a block",
         .max = 100000},
        {.name = "seed",
         .kind = CLI_COUNT,
         .value = &a.seed,
         .argument = "N",
         .help = "of the order inside each pair of blocks; 0: from the clock",
         .max = INT64_MAX},
    };
    const struct cli_command command = {
        .name = "demo",
        .summary = "Runs the tuning case of a linkd server in miniature and leaves a report.",
        .text = "Starts `weir linkd --handler digest` with one loop, measures it with `weir load`, "
                "makes one change (more\n"
                "loops), measures again in turn, and says what that did and whether the difference "
                "can be told from noise.\n"
                "CHANGED needs blocks that do not overlap and a chance of at most 5 %; NO VERDICT: "
                "errors, over 20 % of a CPU\n"
                "used by other programs, or fewer CPUs than loops. Exit codes: 0 measured, 1 a "
                "child failed, 2 usage,\n"
                "3 some block is INVALID or had errors.\n",
        .examples = "weir demo\nweir demo --out /tmp/demo --blocks 6\n",
        .options = options,
        .n_options = CLI_LENGTH(options),
    };
    int rc = cli_parse(&command, argc, argv, NULL);
    return rc < 0 ? cli_exit(rc) : demo(&a);
}
