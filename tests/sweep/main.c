/* sweep [SCENARIO...] [--variant lt|et|uring|apart] [--full] [--seed N] [--fault FAULT] [--quiet]
 * sweep --list
 *
 * Each scenario runs in a child, so that one that crashes or hangs tells which failure did it, and
 * the next failure has its turn. */
#include "sweep/sweep.h"
#include "base/rng.h"
#include "os/fault.h"
#include "weir/error.h"
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    WARM_RUNS = 3,
    PATIENCE_S = 20, /* of the wall, for one run */
    THIN = 20,       /* without --full, one in so many of the repetitive failures */
    LEAK_RUNS = 3,   /* what grows every time is a leak */
    SHORT_ALWAYS = 700,
    RING_START = 130,
    FINDINGS_SHOWN = 12,
};

const char *const sweep_doors[] = {"lt", "et", "uring", NULL};

/* Shared between the child and its parent. */
struct report {
    uint32_t allocations, calls, planned, run, spoilt, findings, next;
    char what[160]; /* what fails now */
};
static struct report *report;

static struct options {
    bool full, quiet;
    uint64_t seed;
    const char *only_fault, *variant;
} options = {.seed = 1};

static char scenario_name[96];

/* --- what fails ------------------------------------------------------------------------------- */

static const char *const places[SWEEP_PLACES] = {"pool", "heap", "os", "ring", "op", "libc"};

/* "os:12:0:3:32:once": place, kind, thread, n-th, errno (-bytes: a short transfer). */
static void fault_text(const struct sweep_fault *f, char *out, size_t cap) {
    const struct sweep_errnos *e = sweep_errnos(f->place, f->kind);
    snprintf(out, cap, "%s:%u:%u:%u:%d:%s (%s, %s)", places[f->place], f->kind, f->thread, f->nth,
             f->error ? f->error : -(int)f->short_max, f->persist ? "on" : "once",
             e ? e->name : "?", f->error ? strerrorname_np(f->error) : "short");
}

static bool fault_parse(const char *text, struct sweep_fault *f) {
    char place[8], mode[8];
    int error;
    *f = (struct sweep_fault){0};
    if (sscanf(text, "%7[a-z]:%u:%u:%u:%d:%7[a-z]", place, &f->kind, &f->thread, &f->nth, &error,
               mode) != 6)
        return false;
    f->error = error > 0 ? error : 0;
    f->short_max = error < 0 ? (uint32_t)-error : 0;
    f->persist = !strcmp(mode, "on");
    for (unsigned p = 0; p < SWEEP_PLACES; p++)
        if (!strcmp(place, places[p])) {
            f->place = (enum sweep_place)p;
            return true;
        }
    return false;
}

struct plan {
    struct sweep_fault *faults;
    unsigned n, max;
    uint64_t rng;
};

static void add(struct plan *p, struct sweep_fault f) {
    if (p->n == p->max) {
        p->max = p->max ? p->max * 2 : 1024;
        p->faults = realloc(p->faults, p->max * sizeof f);
        if (!p->faults)
            abort();
    }
    p->faults[p->n++] = f;
}

/* The first failure of every n is always there; of the rest a part, unless --full. */
static bool chosen(struct plan *p, bool first) {
    return first || options.full || weir__base_splitmix(&p->rng) % THIN == 0;
}

/* Edge-triggered, "not now" and "no more than this" promise an event that a lie never brings. */
static bool honest(const char *variant, enum sweep_place place, unsigned kind, int error) {
    if (strcmp(variant, "et") != 0 || place != SWEEP_OS)
        return true;
    bool transfer = kind == WEIR__OS_RECV || kind == WEIR__OS_SEND || kind == WEIR__OS_SENDFILE ||
                    kind == WEIR__OS_ACCEPT || kind == WEIR__OS_FDS;
    return !transfer || (error != EAGAIN && error != 0);
}

/* One byte once; from then on a little more, so that megabytes come to an end. */
static void plan_short(struct plan *p, const char *variant, struct sweep_fault f, uint32_t max) {
    f.error = 0;
    if (max == 0 || !honest(variant, f.place, f.kind, 0))
        return;
    for (unsigned i = 0; i < 2; i++) {
        f.persist = i == 1;
        f.short_max = f.persist ? SHORT_ALWAYS : max;
        if (chosen(p, f.nth == 1))
            add(p, f);
    }
}

/* The start of an io_uring door is the same in every scenario: a hundred buffers. */
static bool starts_ring(const char *variant, const struct sweep_fault *f) {
    return !strcmp(variant, "uring") && f->place <= SWEEP_HEAP && f->nth > RING_START / 16 &&
           f->nth < RING_START && strncmp(scenario_name, "echo.", 5) != 0;
}

static void plan_kind(struct plan *p, const char *variant, struct sweep_fault f, uint32_t n) {
    const struct sweep_errnos *e = sweep_errnos(f.place, f.kind);
    unsigned n_errnos = 0;
    while (e && n_errnos < SWEEP_ERRNOS && e->once[n_errnos])
        n_errnos++;
    for (f.nth = 1; f.nth <= n && e; f.nth++) {
        f.persist = false;
        for (unsigned i = 0; i < SWEEP_ERRNOS && (f.error = e->once[i]) != 0; i++)
            if (honest(variant, f.place, f.kind, f.error) &&
                chosen(p, (i == f.nth % n_errnos && !starts_ring(variant, &f)) ||
                              (f.nth == 1 && i < 6)))
                add(p, f);
        f.persist = true;
        for (unsigned i = 0; i < SWEEP_ERRNOS && (f.error = e->persist[i]) != 0; i++)
            if (chosen(p, f.nth <= 2))
                add(p, f);
        f.error = 0;
        plan_short(p, variant, f, e->short_max);
    }
}

static void plan_all(struct plan *p, const char *variant, const struct sweep_counts *c) {
    for (unsigned t = 0; t < SWEEP_THREADS; t++)
        for (unsigned place = 0; place < SWEEP_PLACES; place++)
            for (unsigned kind = 0; kind < SWEEP_KINDS; kind++) {
                struct sweep_fault f = {
                    .place = (enum sweep_place)place, .thread = t, .kind = kind};
                uint32_t n = c->n[t][place][kind];
                *(place <= SWEEP_HEAP ? &report->allocations : &report->calls) += n;
                plan_kind(p, variant, f, n);
            }
}

/* --- one run ---------------------------------------------------------------------------------- */

void sweep_finding(const char *fmt, ...) {
    va_list ap;
    if (report->findings++ >= FINDINGS_SHOWN)
        return;
    printf("    %s: ", scenario_name);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("; with %s\n", report->what);
    fflush(stdout);
}

static bool persists; /* what fails now */

bool sweep_persists(void) {
    return persists;
}

void sweep_gave_up(void) {
    if (!persists)
        sweep_finding("it was in vain to wait");
}

static unsigned count_fds(void) {
    unsigned n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

/* What nobody outside may notice: it was tried again, or waited for. */
static bool passes(const struct sweep_fault *f) {
    if (f->error == 0 || f->error == EINTR)
        return true;
    if (f->place == SWEEP_RING)
        return f->kind == SWEEP_FULL    ? f->error == EAGAIN
               : f->kind == SWEEP_ENTER ? f->error == EAGAIN || f->error == EBUSY
                                        : false;
    if (f->place != SWEEP_OS && f->place != SWEEP_OP)
        return false;
    bool transfer = f->place == SWEEP_OP || f->kind == WEIR__OS_RECV || f->kind == WEIR__OS_SEND ||
                    f->kind == WEIR__OS_SENDFILE;
    return f->error == EAGAIN && transfer;
}

/* Every code that a caller may see has a name, but for the errno that was put in. */
static void judge(int rc, const struct sweep_fault *f) {
    if (rc < 0 && f && passes(f))
        sweep_finding("it ended with %s", weir_errname(rc));
    if (rc >= 0 || (f && f->error && rc == WEIR_ESYS(f->error)))
        return;
    if (rc == WEIR_EBUG || !strcmp(weir_errname(rc), "E?"))
        sweep_finding("it ended with %d %s", rc, weir_errname(rc));
}

struct level {
    unsigned fds;
    int64_t heap;
};

static int run_once(const struct sweep_scenario *s, const char *variant,
                    const struct sweep_fault *f, struct sweep_counts *counts, uint32_t *hits) {
    persists = f && f->persist;
    alarm(PATIENCE_S);
    if (s->cold)
        sweep_cool();
    sweep_begin(f);
    int rc = s->run(variant);
    uint32_t n = sweep_end(counts);
    if (s->cold)
        sweep_warm();
    alarm(0);
    if (hits)
        *hits = n;
    judge(rc, f);
    return rc;
}

static struct level level_now(void) {
    struct level l = {count_fds(), sweep_heap_live()};
    return l;
}

/* Caches grow once, leaks every time. */
static void check_heap(const struct sweep_scenario *s, const char *variant,
                       const struct sweep_fault *f, int64_t before) {
    int64_t last = sweep_heap_live();
    unsigned grew = last > before;
    for (unsigned i = 1; grew == i && i < LEAK_RUNS; i++) {
        run_once(s, variant, f, NULL, NULL);
        grew += sweep_heap_live() > last;
        last = sweep_heap_live();
    }
    if (grew == LEAK_RUNS)
        sweep_finding("the heap grows by %lld blocks each time",
                      (long long)(last - before) / LEAK_RUNS);
}

static void run_fault(const struct sweep_scenario *s, const char *variant,
                      const struct sweep_fault *f) {
    struct level before = level_now();
    uint32_t hits;
    int rc = run_once(s, variant, f, NULL, &hits);
    report->spoilt += hits > 0;
    unsigned fds = count_fds();
    if (fds != before.fds)
        sweep_finding("%d descriptors are left", (int)(fds - before.fds));
    if (!s->cold)
        check_heap(s, variant, f, before.heap);
    if (options.only_fault)
        printf("    %s: %s, %u spoilt\n", scenario_name, rc ? weir_errname(rc) : "success", hits);
}

/* --- a scenario ------------------------------------------------------------------------------- */

static void on_crash(int sig) {
    char line[400];
    const char *how = sig == SIGALRM ? "hangs" : "crashes";
    int n = snprintf(line, sizeof line, "    %s: %s; with %s\n", scenario_name, how, report->what);
    if (write(STDOUT_FILENO, line, (size_t)n) != n)
        _exit(4);
    signal(sig, SIG_DFL);
    raise(sig);
}

static bool warm_up(const struct sweep_scenario *s, const char *variant,
                    struct sweep_counts *counts) {
    snprintf(report->what, sizeof report->what, "nothing failing");
    for (unsigned i = 0; i < WARM_RUNS; i++) {
        struct level before = level_now();
        int rc = run_once(s, variant, NULL, counts, NULL);
        if (rc != 0)
            sweep_finding("it fails with %s", weir_errname(rc));
        if (i > 0 && count_fds() != before.fds)
            sweep_finding("descriptors are left");
    }
    return report->findings == 0;
}

static void run_planned(const struct sweep_scenario *s, const char *variant, struct plan *p) {
    for (; report->next < p->n;) {
        const struct sweep_fault *f = &p->faults[report->next++];
        fault_text(f, report->what, sizeof report->what);
        run_fault(s, variant, f);
        report->run++;
    }
}

static int child(const struct sweep_scenario *s, const char *variant) {
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM};
    struct sweep_counts counts;
    struct plan plan = {.rng = options.seed};
    struct sweep_fault f;
    for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++)
        signal(fatal[i], on_crash);
    prctl(PR_SET_TIMERSLACK, 1);
    if (options.quiet && !freopen("/dev/null", "w", stderr))
        return 4;
    if (!warm_up(s, variant, &counts))
        return 0;
    report->allocations = report->calls = 0;
    if (options.only_fault) {
        if (!fault_parse(options.only_fault, &f))
            return 4;
        add(&plan, f);
    } else {
        plan_all(&plan, variant, &counts);
    }
    report->planned = plan.n;
    run_planned(s, variant, &plan);
    free(plan.faults);
    return 0;
}

static bool run_scenario(const struct sweep_scenario *s, const char *variant) {
    *report = (struct report){0};
    uint32_t crashes = 0;
    for (bool again = true; again && crashes < FINDINGS_SHOWN;) {
        int status = 0;
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0)
            exit(child(s, variant));
        if (pid < 0 || waitpid(pid, &status, 0) != pid)
            return false;
        bool crashed = WIFSIGNALED(status) || WEXITSTATUS(status) != 0;
        crashes += crashed;
        report->findings += crashed;
        again = crashed && report->next > 0 && report->next < report->planned;
    }
    printf("%-7s %-26s %5u allocations, %5u calls: %6u runs, %6u spoilt, %u findings\n",
           report->findings ? "FAILED" : "ok", scenario_name, report->allocations, report->calls,
           report->run, report->spoilt, report->findings);
    fflush(stdout);
    return report->findings == 0;
}

/* --- all of them ------------------------------------------------------------------------------ */

struct sum {
    unsigned scenarios, failed;
    uint64_t runs, findings;
};

static bool wanted(char **names, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        if (!strncmp(scenario_name, names[i], strlen(names[i])))
            return true;
    return n == 0;
}

static void one(const struct sweep_scenario *s, const char *variant, bool list, struct sum *sum) {
    if (list) {
        puts(scenario_name);
        return;
    }
    sum->failed += !run_scenario(s, variant);
    sum->scenarios++;
    sum->runs += report->run;
    sum->findings += report->findings;
}

/* The doors have a group each; whatever else there is has one together. */
static const char *variant_group(const char *variant) {
    for (const char *const *d = sweep_doors; *d; d++)
        if (!strcmp(*d, variant))
            return variant;
    return "apart";
}

static void all(char **names, unsigned n, bool list, struct sum *sum) {
    static const char *const unnamed[] = {"", NULL};
    for (unsigned r = 0; sweep_rooms[r]; r++)
        for (const struct sweep_scenario *s = sweep_rooms[r]; s->name; s++) {
            const char *const *v = s->variants ? s->variants : unnamed;
            for (; *v; v++) {
                if (options.variant && strcmp(variant_group(*v), options.variant) != 0)
                    continue;
                snprintf(scenario_name, sizeof scenario_name, "%s%s%s", s->name, **v ? "." : "",
                         *v);
                if (wanted(names, n))
                    one(s, *v, list, sum);
            }
        }
}

static int usage(void) {
    fputs("sweep [SCENARIO...] [--variant lt|et|uring|apart] [--full] [--seed N] [--fault FAULT] "
          "[--quiet] | --list\n",
          stderr);
    return 2;
}

int main(int argc, char **argv) {
    struct sum sum = {0};
    bool list = false;
    unsigned n = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--full"))
            options.full = true;
        else if (!strcmp(argv[i], "--quiet"))
            options.quiet = true;
        else if (!strcmp(argv[i], "--list"))
            list = true;
        else if (!strcmp(argv[i], "--seed") && i + 1 < argc)
            options.seed = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--variant") && i + 1 < argc)
            options.variant = argv[++i];
        else if (!strcmp(argv[i], "--fault") && i + 1 < argc)
            options.only_fault = argv[++i];
        else if (argv[i][0] == '-')
            return usage();
        else
            argv[1 + n++] = argv[i];
    }
    report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (report == MAP_FAILED)
        return 2;
    all(argv + 1, n, list, &sum);
    if (list)
        return 0;
    printf("sweep: %u scenarios, %llu runs, %u failed, %llu findings\n", sum.scenarios,
           (unsigned long long)sum.runs, sum.failed, (unsigned long long)sum.findings);
    return sum.failed || (!sum.scenarios && !options.variant);
}
