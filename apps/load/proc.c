#include "load/proc.h"
#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LISTENERS_MAX = 1024, TCP_LISTEN = 0x0A };

unsigned load_proc_cpu(unsigned pid, uint64_t *cpu_ns, uint64_t *wait_ns) {
    char path[320];
    unsigned threads = 0;
    *cpu_ns = *wait_ns = 0;
    snprintf(path, sizeof path, "/proc/%u/task", pid);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        uint64_t cpu, wait;
        snprintf(path, sizeof path, "/proc/%u/task/%s/schedstat", pid, e->d_name);
        FILE *f = isdigit((unsigned char)e->d_name[0]) ? fopen(path, "re") : NULL;
        if (!f)
            continue;
        if (fscanf(f, "%" SCNu64 " %" SCNu64, &cpu, &wait) == 2) {
            *cpu_ns += cpu;
            *wait_ns += wait;
            threads++;
        }
        fclose(f);
    }
    if (d)
        closedir(d);
    return threads;
}

struct listeners {
    unsigned long inode[LISTENERS_MAX];
    bool owned[LISTENERS_MAX];
    unsigned n, owners;
};

static void read_table(const char *path, unsigned port, struct listeners *l) {
    char line[512];
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        unsigned at, state;
        unsigned long inode;
        int got = sscanf(line, "%*s %*[0-9A-F]:%x %*s %x %*s %*s %*s %*s %*s %lu", &at, &state,
                         &inode);
        if (got == 3 && at == port && state == TCP_LISTEN && l->n < LISTENERS_MAX)
            l->inode[l->n++] = inode;
    }
    if (f)
        fclose(f);
}

/* Marks the listeners that this process has open. true: it has one. */
static bool read_owner(const char *pid, struct listeners *l) {
    char path[64], link[64];
    bool any = false;
    snprintf(path, sizeof path, "/proc/%.20s/fd", pid);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        unsigned long inode;
        ssize_t n = readlinkat(dirfd(d), e->d_name, link, sizeof link - 1);
        if (n <= 0)
            continue;
        link[n] = 0;
        if (sscanf(link, "socket:[%lu]", &inode) != 1)
            continue;
        for (unsigned i = 0; i < l->n; i++)
            if (l->inode[i] == inode)
                any = l->owned[i] = true;
    }
    if (d)
        closedir(d);
    return any;
}

bool load_proc_listeners(unsigned port, unsigned expected, char *why, size_t cap) {
    struct listeners *l = calloc(1, sizeof *l);
    if (!l) {
        snprintf(why, cap, "out of memory");
        return false;
    }
    read_table("/proc/net/tcp", port, l);
    read_table("/proc/net/tcp6", port, l);
    DIR *d = opendir("/proc");
    for (struct dirent *e; d && (e = readdir(d));)
        if (isdigit((unsigned char)e->d_name[0]))
            l->owners += read_owner(e->d_name, l);
    if (d)
        closedir(d);
    bool foreign = false;
    for (unsigned i = 0; i < l->n; i++)
        foreign |= !l->owned[i];
    unsigned owners = l->owners + foreign, n = l->n;
    free(l);
    if (n == expected && owners == 1)
        return true;
    snprintf(why, cap, "port %u has %u listener%s of %u process%s", port, n, n == 1 ? "" : "s",
             owners, owners == 1 ? "" : "es");
    return false;
}
