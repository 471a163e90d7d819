/* The tuning case in miniature: where the handler fills one loop, one change (more loops) and what
 * it did. */
#include "demo/demo.h"
#include "cli/opt.h"
#include "demo/report.h"
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
    uint64_t blocks, loops, share;
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

static void print_table(const struct side *a, const struct side *b) {
    char x[120], y[120], z[80], name[40];
    printf("%-30s %26s %26s   %s\n", "", loops_text(a->loops, x, sizeof x),
           loops_text(b->loops, y, sizeof y), "after / before");
    for (enum metric m = 0; m < METRIC_COUNT; m++) {
        snprintf(name, sizeof name, "%s %s", metric_infos[m].name, metric_infos[m].unit);
        printf("%-30s %26s %26s   %s\n", name, span_text(span_of(a, m), m, x, sizeof x),
               span_text(span_of(b, m), m, y, sizeof y), change_text(a, b, m, z, sizeof z));
    }
    printf("%-30s %26s %26s\n\n", "busy, each loop (last block)", busy_text(a, x, sizeof x),
           busy_text(b, y, sizeof y));
}

static int run_blocks(const struct arguments *arguments, const struct workload *w, struct side *a,
                      struct side *b) {
    for (unsigned i = 0; i < arguments->blocks * 2; i++) {
        struct side *s = i % 2 ? b : a;
        progress(arguments, i, s->loops);
        if (block_run(w, s->loops, i + 1, &s->blocks[s->n]) < 0)
            return -1;
        if (s->blocks[s->n].invalid[0])
            fprintf(stderr, "weir demo: block %u is invalid: %s\n", i + 1, s->blocks[s->n].invalid);
        s->n++;
    }
    return 0;
}

static int invalid_blocks(const struct side *s) {
    int n = 0;
    for (unsigned i = 0; i < s->n; i++)
        n += s->blocks[i].invalid[0] != 0;
    return n;
}

static int conclude(const struct workload *w, const struct side *a, const struct side *b) {
    char text[600], path[560];
    print_table(a, b);
    printf("%s\n\n", verdict_text(a, b, text, sizeof text));
    printf("%s\n\n", hot_text(a, text, sizeof text));
    printf("%s\n\n", machine_text(a, b, text, sizeof text));
    snprintf(path, sizeof path, "%s/report.html", w->out);
    if (report_write(path, w, a, b) < 0)
        return cli_complain("demo", "%s: %s", path, strerror(errno)) - 1;
    printf("report: %s\n", path);
    int bad = invalid_blocks(a) + invalid_blocks(b);
    if (bad)
        printf("INVALID: %d of the blocks do not count; see above\n", bad);
    return bad ? 3 : 0;
}

static int demo(const struct arguments *arguments) {
    struct workload w = {
        .out = arguments->out,
        .connections = CONNECTIONS,
        .per_connection = arguments->share ? (unsigned)arguments->share : choose_share(),
        .warmup = WARMUP,
        .payload = PAYLOAD,
    };
    struct side a = {.loops = 1}, b = {.loops = (unsigned)arguments->loops};
    if (make_folder(w.out) < 0)
        return cli_complain("demo", "--out: %s: %s", w.out, strerror(errno));
    printf(
        "linkd digest server, %u connections x %u requests of %u bytes, %u blocks a side, 1 loop "
        "against %u\n\n",
        w.connections, w.per_connection, w.payload, (unsigned)arguments->blocks, b.loops);
    fflush(stdout);
    return run_blocks(arguments, &w, &a, &b) < 0 ? 1 : conclude(&w, &a, &b);
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
         .help = "blocks of each side",
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
    };
    const struct cli_command command = {
        .name = "demo",
        .summary = "Runs the tuning case of a linkd server in miniature and leaves a report.",
        .text = "Starts `weir linkd --handler digest` with one loop, measures it with `weir load`, "
                "makes one change (more\n"
                "loops), measures again in turn, and says what that did and whether the difference "
                "can be told from noise.\n",
        .examples = "weir demo\nweir demo --out /tmp/demo --blocks 6\n",
        .options = options,
        .n_options = CLI_LENGTH(options),
    };
    int rc = cli_parse(&command, argc, argv, NULL);
    return rc < 0 ? cli_exit(rc) : demo(&a);
}
