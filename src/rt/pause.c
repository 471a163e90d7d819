#include "rt/pause.h"
#include <stdio.h>
#include <string.h>

/* --- texts ----------------------------------------------------------------------------------- */

bool weir__rt_pause_schedstat(const char *text, uint64_t *ran_ns, uint64_t *waited_ns) {
    unsigned long long ran, waited;
    if (sscanf(text, "%llu %llu", &ran, &waited) != 2)
        return false;
    *ran_ns = ran;
    *waited_ns = waited;
    return true;
}

/* The name in parentheses may hold anything, so fields are counted from its end. */
bool weir__rt_pause_stat(const char *text, uint64_t *major_faults) {
    const char *end = strrchr(text, ')');
    unsigned long long n;
    if (!end || sscanf(end + 1, " %*c %*s %*s %*s %*s %*s %*s %*s %*s %llu", &n) != 1)
        return false;
    *major_faults = n;
    return true;
}

/* The value of a line "word value". */
static bool value_of(const char *text, const char *word, uint64_t *out) {
    size_t n = strlen(word);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        unsigned long long v;
        if (strncmp(line, word, n) == 0 && line[n] == ' ' && sscanf(line + n, "%llu", &v) == 1) {
            *out = v;
            return true;
        }
        if (!*line)
            break;
    }
    return false;
}

bool weir__rt_pause_cpu_stat(const char *text, uint64_t *count, uint64_t *ns) {
    uint64_t time;
    if (!value_of(text, "nr_throttled", count))
        return false;
    if (value_of(text, "throttled_usec", &time))
        *ns = time * 1000;
    else if (value_of(text, "throttled_time", &time))
        *ns = time;
    else
        return false;
    return true;
}

/* --- looks ----------------------------------------------------------------------------------- */

static void known(struct weir_loop *l, enum weir_pause_kind kind) {
    atomic_fetch_or_explicit(&l->pauses_known, 1u << kind, memory_order_relaxed);
}

static bool look_at_quota(const struct weir__rt_pause_quota *q, weir__os_cpu_read_fn *read,
                          void *user, uint64_t *count, uint64_t *ns) {
    char text[2048];
    uint64_t more, longer;
    *count = *ns = 0;
    for (unsigned i = 0; i < q->n; i++) {
        if (read(user, q->paths[i], text, sizeof text) < 0 ||
            !weir__rt_pause_cpu_stat(text, &more, &longer))
            return false;
        *count += more;
        *ns += longer;
    }
    return q->n > 0;
}

/* Ancestors limit too. A group without a quota, and the root, may have no such lines. */
static void add_along(struct weir__rt_pause_quota *q, weir__os_cpu_read_fn *read, void *user,
                      const char *root, char *path) {
    char text[2048];
    uint64_t count, ns;
    for (;;) {
        char *slash = strrchr(path, '/');
        if (slash && slash[1] == 0) {
            *slash = 0;
            continue;
        }
        char *file = q->paths[q->n];
        int n = snprintf(file, sizeof q->paths[0], "%s%s/cpu.stat", root, path);
        if (n < (int)sizeof q->paths[0] && read(user, file, text, sizeof text) >= 0 &&
            weir__rt_pause_cpu_stat(text, &count, &ns))
            q->n++;
        if (!slash || q->n == WEIR__RT_QUOTA_FILES)
            return;
        *slash = 0;
    }
}

void weir__rt_pause_quota_init(struct weir__rt_pause_quota *q, weir__os_cpu_read_fn *read,
                               void *user) {
    static const struct {
        const char *root;
        bool v2;
    } trees[] = {{"/sys/fs/cgroup", true},
                 {"/sys/fs/cgroup/unified", true},
                 {"/sys/fs/cgroup/cpu", false},
                 {"/sys/fs/cgroup/cpu,cpuacct", false}};
    char groups[4096], path[400];
    *q = (struct weir__rt_pause_quota){0};
    if (read(user, "/proc/self/cgroup", groups, sizeof groups) < 0)
        return;
    /* The last two trees are one, under two names. */
    for (size_t i = 0; i < ARRAY_LEN(trees) && (q->n == 0 || i < 2); i++)
        if (q->n < WEIR__RT_QUOTA_FILES &&
            weir__os_cpu_cgroup(groups, trees[i].v2, path, sizeof path))
            add_along(q, read, user, trees[i].root, path);
    (void)look_at_quota(q, read, user, &q->count, &q->ns); /* what was before us is not ours */
}

void weir__rt_pause_quota_look(struct weir__rt_pause_quota *q, struct weir_loop *const *loops,
                               unsigned n, weir__os_cpu_read_fn *read, void *user) {
    uint64_t count, ns;
    if (!look_at_quota(q, read, user, &count, &ns))
        return;
    for (unsigned i = 0; i < n; i++) {
        known(loops[i], WEIR_PAUSE_THROTTLE);
        if (count > q->count)
            weir__base_pause_add(&loops[i]->pauses[WEIR_PAUSE_THROTTLE], count - q->count,
                                 ns > q->ns ? ns - q->ns : 0);
    }
    q->count = count;
    q->ns = ns;
}

void weir__rt_pause_loop_look(struct weir__rt_pause_loop *p, struct weir_loop *l, int tid,
                              weir__os_cpu_read_fn *read, void *user) {
    char path[64], text[1024];
    uint64_t ran, waited, faults;
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", tid);
    /* A kernel that does not account says 0 everywhere. */
    if (read(user, path, text, sizeof text) >= 0 && weir__rt_pause_schedstat(text, &ran, &waited) &&
        ran) {
        known(l, WEIR_PAUSE_RUN_QUEUE);
        if (waited > p->waited_ns)
            weir__base_pause_add(&l->pauses[WEIR_PAUSE_RUN_QUEUE], 1, waited - p->waited_ns);
        p->waited_ns = waited;
    }
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    if (read(user, path, text, sizeof text) >= 0 && weir__rt_pause_stat(text, &faults)) {
        known(l, WEIR_PAUSE_FAULT);
        if (faults > p->faults)
            weir__base_pause_add(&l->pauses[WEIR_PAUSE_FAULT], faults - p->faults, 0);
        p->faults = faults;
    }
}
