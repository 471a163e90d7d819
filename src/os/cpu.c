#include "os/cpu.h"
#include "os/fault.h"
#include "os/file.h"
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

/* A leading decimal number; false: none there, or it is too long. *s moves behind it. */
static bool number(const char **s, uint64_t *out) {
    uint64_t v = 0;
    const char *p = *s;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (v > UINT64_MAX / 10000)
            return false;
        v = v * 10 + (uint64_t)(*p - '0');
    }
    if (p == *s)
        return false;
    *s = p;
    *out = v;
    return true;
}

/* Thousandths of a CPU, never rounded down to "no limit". */
static uint64_t quota(uint64_t part, uint64_t period) {
    if (period == 0)
        return 0;
    uint64_t m = (part * 1000 + period - 1) / period;
    return m ? m : 1;
}

uint64_t weir__os_cpu_quota_v2(const char *cpu_max) {
    uint64_t part, period;
    if (!number(&cpu_max, &part) || *cpu_max++ != ' ' || !number(&cpu_max, &period))
        return 0;
    return quota(part, period);
}

uint64_t weir__os_cpu_quota_v1(const char *quota_us, const char *period_us) {
    uint64_t part, period;
    if (!number(&quota_us, &part) || !number(&period_us, &period))
        return 0;
    return quota(part, period);
}

/* Does the comma list `list` of n bytes name this controller? */
static bool lists(const char *list, size_t n, const char *word) {
    size_t len = strlen(word);
    for (const char *end = list + n; list < end;) {
        const char *comma = memchr(list, ',', (size_t)(end - list));
        const char *stop = comma ? comma : end;
        if ((size_t)(stop - list) == len && memcmp(list, word, len) == 0)
            return true;
        list = stop + 1;
    }
    return false;
}

/* Lines are "id:controllers:path"; the v2 hierarchy has id 0 and no controllers. */
bool weir__os_cpu_cgroup(const char *proc_cgroup, bool v2, char *path, size_t cap) {
    for (const char *line = proc_cgroup; *line;) {
        const char *end = strchrnul(line, '\n'), *list = memchr(line, ':', (size_t)(end - line));
        const char *at = list ? memchr(list + 1, ':', (size_t)(end - list - 1)) : NULL;
        if (at) {
            size_t n = (size_t)(end - at - 1), words = (size_t)(at - list - 1);
            bool match = v2 ? words == 0 && line[0] == '0' : lists(list + 1, words, "cpu");
            if (match && n > 0 && n < cap && at[1] == '/') {
                memcpy(path, at + 1, n);
                path[n] = 0;
                return true;
            }
        }
        line = *end ? end + 1 : end;
    }
    return false;
}

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a == 0 ? b : b == 0 ? a : a < b ? a : b;
}

static uint64_t quota_at(weir__os_cpu_read_fn *read, void *user, const char *root, bool v2,
                         const char *path) {
    char name[768], part[64], period[64];
    const char *file = v2 ? "cpu.max" : "cpu.cfs_quota_us";
    if (snprintf(name, sizeof name, "%s%s/%s", root, path, file) >= (int)sizeof name)
        return 0;
    if (read(user, name, part, sizeof part) < 0)
        return 0;
    if (v2)
        return weir__os_cpu_quota_v2(part);
    snprintf(name, sizeof name, "%s%s/cpu.cfs_period_us", root, path);
    return read(user, name, period, sizeof period) < 0 ? 0 : weir__os_cpu_quota_v1(part, period);
}

/* Every ancestor limits too: the smallest quota from the group up to the root. */
static uint64_t quota_along(weir__os_cpu_read_fn *read, void *user, const char *root, bool v2,
                            char *path) {
    uint64_t least = 0;
    for (;;) {
        char *slash = strrchr(path, '/');
        if (slash && slash[1] == 0) {
            *slash = 0;
            continue;
        }
        least = smaller(least, quota_at(read, user, root, v2, path));
        if (!slash)
            return least;
        *slash = 0;
    }
}

uint64_t weir__os_cpu_quota(weir__os_cpu_read_fn *read, void *user) {
    static const struct {
        const char *root;
        bool v2;
    } trees[] = {{"/sys/fs/cgroup", true},
                 {"/sys/fs/cgroup/unified", true},
                 {"/sys/fs/cgroup/cpu", false},
                 {"/sys/fs/cgroup/cpu,cpuacct", false}};
    char groups[4096], path[512];
    uint64_t least = 0;
    if (read(user, "/proc/self/cgroup", groups, sizeof groups) < 0)
        return 0;
    for (size_t i = 0; i < sizeof trees / sizeof trees[0]; i++)
        if (weir__os_cpu_cgroup(groups, trees[i].v2, path, sizeof path))
            least = smaller(least, quota_along(read, user, trees[i].root, trees[i].v2, path));
    return least;
}

int weir__os_cpu_list(unsigned *out, unsigned max) {
    cpu_set_t set;
    unsigned n = 0;
    int rc = weir__os_fault(WEIR__OS_AFFINITY, NULL);
    if (rc < 0)
        return rc;
    if (sched_getaffinity(0, sizeof set, &set) < 0)
        return -errno;
    for (unsigned cpu = 0; cpu < CPU_SETSIZE && n < max; cpu++)
        if (CPU_ISSET(cpu, &set))
            out[n++] = cpu;
    return (int)n;
}

static int read_text(void *user, const char *path, char *buf, size_t cap) {
    (void)user;
    return weir__os_file_text(path, buf, cap);
}

unsigned weir__os_cpu_count(void) {
    unsigned cpus[WEIR__OS_CPUS_MAX];
    int n = weir__os_cpu_list(cpus, WEIR__OS_CPUS_MAX);
    uint64_t allowed = n > 0 ? (uint64_t)n : 1;
    uint64_t quota_cpus = (weir__os_cpu_quota(read_text, NULL) + 999) / 1000;
    return (unsigned)smaller(allowed, quota_cpus);
}
