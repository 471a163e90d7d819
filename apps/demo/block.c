#include "demo/block.h"
#include "cli/opt.h"
#include "demo/child.h"
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { LISTEN_MS = 5000, STOP_MS = 3000, PATH_CAP = 560, HANDLERS_MAX = 32 };

struct paths {
    char stats[PATH_CAP], load[PATH_CAP];
};

/* --- JSON ------------------------------------------------------------------------------------ */

/* The value at a path of keys, NULL where there is none. */
static const json_t *at(const json_t *j, const char *key, ...) {
    va_list keys;
    va_start(keys, key);
    for (; key && j; key = va_arg(keys, const char *))
        j = json_object_get(j, key);
    va_end(keys);
    return j;
}

static double number(const json_t *j) {
    return j ? json_number_value(j) : 0;
}

static json_t *load_json(const char *path) {
    json_error_t error;
    json_t *j = json_load_file(path, 0, &error);
    if (!j)
        cli_complain("demo", "%s: %s", path, error.text);
    return j;
}

/* --- what the two sides say ------------------------------------------------------------------ */

static void read_load(const json_t *j, struct block *b) {
    const json_t *response = at(j, "latency", "response", NULL);
    b->value[METRIC_REQUESTS] = number(at(j, "ledger", "ok", NULL));
    b->value[METRIC_ERRORS] = number(at(j, "ledger", "failed", NULL)) +
                              number(at(j, "ledger", "timed_out", NULL)) +
                              number(at(j, "ledger", "cancelled", NULL));
    b->value[METRIC_RATE] = number(at(j, "achieved", "requests_per_s", NULL));
    b->value[METRIC_LITTLE] = number(at(j, "little", "l", NULL));
    b->value[METRIC_P50] = number(at(response, "p", "50", NULL)) / 1e6;
    b->value[METRIC_P95] = number(at(response, "p", "95", NULL)) / 1e6;
    b->value[METRIC_P99] = number(at(response, "p", "99", NULL)) / 1e6;
    b->value[METRIC_MEAN] = number(at(response, "mean", NULL)) / 1e6;
    const char *why = json_string_value(json_array_get(at(j, "validity", "reasons", NULL), 0));
    snprintf(b->invalid, sizeof b->invalid, "%s", why ? why : "");
}

struct handler_sum { /* of all loops */
    const char *name;
    double ns, samples;
};

static void add_handler(struct handler_sum *sums, unsigned *n, const json_t *handler) {
    const char *name = json_string_value(at(handler, "name", NULL));
    unsigned i = 0;
    while (name && i < *n && strcmp(sums[i].name, name) != 0)
        i++;
    if (!name || i == HANDLERS_MAX)
        return;
    if (i == *n)
        sums[(*n)++] = (struct handler_sum){.name = name};
    sums[i].ns += number(at(handler, "estimated_ns", NULL));
    sums[i].samples += number(at(handler, "sampled", NULL));
}

/* Handlers are timed by the clock on the wall, so that a wait for a CPU looks like work: all of it
 * is held against the hottest one. */
static void read_hot(const json_t *loops, double busy_ns, double cpu_ns, struct block *b) {
    struct handler_sum sums[HANDLERS_MAX] = {{0}}, best = {.name = ""};
    const json_t *loop, *handler;
    double wait_ns = busy_ns > cpu_ns ? busy_ns - cpu_ns : 0;
    unsigned n = 0;
    size_t i, k;
    json_array_foreach(loops, i, loop) {
        json_array_foreach(at(loop, "handlers", NULL), k, handler) {
            add_handler(sums, &n, handler);
        }
    }
    for (unsigned s = 0; s < n; s++)
        if (sums[s].ns > best.ns)
            best = sums[s];
    double hot_ns = best.ns > wait_ns ? best.ns - wait_ns : 0;
    snprintf(b->hot, sizeof b->hot, "%s", best.name);
    b->hot_samples = best.samples;
    b->value[METRIC_WAIT] = busy_ns > 0 ? wait_ns / busy_ns * 100 : 0;
    b->value[METRIC_HOT] = cpu_ns > 0 ? fmin(100, hot_ns / cpu_ns * 100) : 0;
}

static void read_stats(const json_t *j, const struct workload *w, struct block *b) {
    const json_t *loops = at(j, "loops", NULL), *loop;
    double cpu_ns = 0, busy_ns = 0, wall_ns = 0, share = 0;
    size_t i;
    json_array_foreach(loops, i, loop) {
        if (i == BLOCK_LOOPS_MAX)
            break;
        const json_t *window = at(loop, "window", NULL);
        b->busy[i] = number(at(window, "busy_share", NULL)) * 100;
        b->n_loops = (unsigned)i + 1;
        share += b->busy[i];
        cpu_ns += number(at(window, "cpu_ns", NULL));
        busy_ns += number(at(window, "busy_ns", NULL));
        double wall = number(at(window, "wall_ns", NULL));
        wall_ns = wall > wall_ns ? wall : wall_ns;
    }
    double served = b->value[METRIC_REQUESTS] + b->value[METRIC_ERRORS] +
                    (double)w->connections * w->warmup;
    b->value[METRIC_BUSY] = b->n_loops ? share / b->n_loops : 0;
    b->value[METRIC_CPU] = wall_ns > 0 ? cpu_ns / wall_ns * 100 : 0;
    b->value[METRIC_CPU_REQUEST] = served > 0 ? cpu_ns / served / 1000 : 0;
    read_hot(loops, busy_ns, cpu_ns, b);
}

static int read_block(const struct workload *w, const struct paths *p, struct block *b) {
    json_t *load = load_json(p->load), *stats = load_json(p->stats);
    int rc = load && stats ? 0 : -1;
    if (rc == 0) {
        read_load(load, b);
        read_stats(stats, w, b);
    }
    json_decref(load);
    json_decref(stats);
    return rc;
}

/* --- the machine meanwhile ------------------------------------------------------------------- */

struct usage { /* seconds */
    double wall, machine, children;
};

static double seconds(struct timeval t) {
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static struct usage usage_now(void) {
    double user = 0, nice = 0, system = 0, idle = 0, io = 0, irq = 0, soft = 0;
    struct usage u = {0};
    struct timespec now;
    struct rusage mine;
    FILE *in = fopen("/proc/stat", "re");
    if (in && fscanf(in, "cpu %lf %lf %lf %lf %lf %lf %lf", &user, &nice, &system, &idle, &io, &irq,
                     &soft) == 7)
        u.machine = (user + nice + system + irq + soft) / (double)sysconf(_SC_CLK_TCK);
    if (in)
        fclose(in);
    getrusage(RUSAGE_CHILDREN, &mine);
    u.children = seconds(mine.ru_utime) + seconds(mine.ru_stime);
    clock_gettime(CLOCK_MONOTONIC, &now);
    u.wall = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    return u;
}

static double foreign_percent(struct usage from, struct usage to) {
    double wall = to.wall - from.wall,
           others = to.machine - from.machine - (to.children - from.children);
    return others > 0 && wall > 0 ? others / wall * 100 : 0;
}

/* --- the two processes ----------------------------------------------------------------------- */

static int start_server(struct child *server, const struct paths *p, unsigned loops, char *address,
                        size_t cap) {
    static const char said[] = "listening on ";
    char count[16], line[200];
    snprintf(count, sizeof count, "%u", loops);
    const char *argv[] = {"weir",    "linkd", "--handler", "digest", "--listen", "127.0.0.1:0",
                          "--loops", count,   "--stats",   p->stats, NULL};
    int rc = child_start(server, (char *const *)argv, true);
    if (rc < 0)
        return cli_complain("demo", "the server cannot be started: %s", strerror(-rc));
    if (!child_line(server, line, sizeof line, LISTEN_MS) ||
        strncmp(line, said, strlen(said)) != 0) {
        child_stop(server, STOP_MS);
        return cli_complain("demo", "the server did not say where it listens");
    }
    snprintf(address, cap, "linkd://%s", line + strlen(said));
    return 0;
}

static int run_load(const struct workload *w, const struct paths *p, const char *address) {
    char connections[16], requests[32], warmup[32], payload[16];
    snprintf(connections, sizeof connections, "%u", w->connections);
    snprintf(requests, sizeof requests, "%u/conn", w->per_connection);
    snprintf(warmup, sizeof warmup, "%u/conn", w->warmup);
    snprintf(payload, sizeof payload, "%u", w->payload);
    const char *argv[] = {"weir",   "load",   address, "-c",       connections, "-n",
                          requests, "-b",     payload, "--warmup", warmup,      "--verify",
                          "digest", "--json", p->load, "-q",       NULL};
    struct child load;
    int rc = child_start(&load, (char *const *)argv, false);
    if (rc < 0)
        return cli_complain("demo", "the load generator cannot be started: %s", strerror(-rc));
    rc = child_wait(&load);
    if (rc != 0 && rc != 3) /* 3: it measured and says itself that the run counts for nothing */
        return cli_complain("demo", "the load generator ended with code %d", rc);
    return 0;
}

int block_run(const struct workload *w, unsigned loops, unsigned number_of, struct block *out) {
    struct paths p;
    struct child server;
    char address[240];
    *out = (struct block){0};
    snprintf(p.stats, sizeof p.stats, "%s/block-%u.server.json", w->out, number_of);
    snprintf(p.load, sizeof p.load, "%s/block-%u.load.json", w->out, number_of);
    struct usage before = usage_now();
    if (start_server(&server, &p, loops, address, sizeof address) != 0)
        return -1;
    int rc = run_load(w, &p, address);
    int code = child_stop(&server, STOP_MS);
    if (rc == 0 && code != 0)
        rc = cli_complain("demo", "the server ended with code %d", code);
    if (rc != 0 || read_block(w, &p, out) < 0)
        return -1;
    out->value[METRIC_FOREIGN] = foreign_percent(before, usage_now());
    return 0;
}
