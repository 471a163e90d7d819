#include "os/proc.h"
#include "os/file.h"
#include "os/sock.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Lines of /proc/stat are at most this long, so that this holds at least 256 CPUs. */
enum { STAT_BYTES = 256 * 128, STATUS_BYTES = 16384 };

int weir__os_proc_id(void) {
    return (int)getpid();
}

/* --- text ------------------------------------------------------------------------------------ */

/* The nth number of a line (0 the first) that begins at p. */
static bool number_at(const char *p, unsigned nth, uint64_t *out) {
    for (;; nth--) {
        char *end;
        *out = strtoull(p, &end, 10);
        if (end == p || *p == '-')
            return false;
        if (nth == 0)
            return true;
        p = end;
        if (*p != ' ')
            return false;
    }
}

uint64_t weir__os_proc_statm(const char *text, uint64_t page_bytes) {
    uint64_t pages;
    return number_at(text, 1, &pages) ? pages * page_bytes : 0;
}

static bool holds(const unsigned *cpus, unsigned n, unsigned cpu) {
    for (unsigned i = 0; i < n; i++)
        if (cpus[i] == cpu)
            return true;
    return false;
}

/* "cpu3 user nice system idle iowait ..."; the sum line "cpu " has no number. */
uint64_t weir__os_proc_stat_idle(const char *text, const unsigned *cpus, unsigned n) {
    uint64_t sum = 0, idle, iowait;
    for (const char *line = text; line && !strncmp(line, "cpu", 3);) {
        char *rest;
        unsigned long cpu = strtoul(line + 3, &rest, 10);
        bool numbered = line[3] >= '0' && line[3] <= '9';
        if (numbered && holds(cpus, n, (unsigned)cpu) && number_at(rest, 3, &idle) &&
            number_at(rest, 4, &iowait))
            sum += idle + iowait;
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return sum;
}

/* The number of a line "word:<tab>number". */
static bool labelled(const char *text, const char *word, uint64_t *out) {
    size_t n = strlen(word);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, word, n) && line[n] == ':' && line[n + 1] == '\t')
            return number_at(line + n + 2, 0, out);
        if (!*line)
            break;
    }
    return false;
}

bool weir__os_proc_status_switches(const char *text, uint64_t *voluntary, uint64_t *involuntary) {
    return labelled(text, "voluntary_ctxt_switches", voluntary) &&
           labelled(text, "nonvoluntary_ctxt_switches", involuntary);
}

/* --- the kernel ------------------------------------------------------------------------------ */

uint64_t weir__os_proc_resident(void) {
    char text[128];
    if (weir__os_file_text("/proc/self/statm", text, sizeof text) < 0)
        return 0;
    return weir__os_proc_statm(text, (uint64_t)sysconf(_SC_PAGESIZE));
}

int weir__os_proc_switches(int tid, uint64_t *voluntary, uint64_t *involuntary) {
    char path[64], text[STATUS_BYTES];
    snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
    int rc = weir__os_file_text(path, text, sizeof text);
    if (rc < 0)
        return rc;
    return weir__os_proc_status_switches(text, voluntary, involuntary) ? 0 : -ENODATA;
}

uint64_t weir__os_proc_idle(const unsigned *cpus, unsigned n) {
    char text[STAT_BYTES];
    int fd = weir__os_file_open(AT_FDCWD, "/proc/stat", O_RDONLY);
    if (fd < 0)
        return 0;
    ssize_t got = weir__os_file_read(fd, text, sizeof text - 1, 0);
    weir__os_close(fd);
    if (got <= 0)
        return 0;
    text[got] = 0;
    uint64_t tick_ns = 1000000000 / (uint64_t)sysconf(_SC_CLK_TCK);
    return weir__os_proc_stat_idle(text, cpus, n) * tick_ns;
}
