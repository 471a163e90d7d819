/* CPUs that this process may really use: the affinity mask and the cgroup quota, not what the host
 * has. */
#ifndef WEIR_OS_CPU_H
#define WEIR_OS_CPU_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WEIR__OS_CPUS_MAX = 1024 };

/* min(affinity, quota rounded up), at least 1. */
unsigned weir__os_cpu_count(void);
/* CPU numbers of the affinity mask, ascending: how many (at most max), or a negative errno. */
int weir__os_cpu_list(unsigned *out, unsigned max);

/* Quotas are in thousandths of a CPU; 0 = no limit. The rest is text in, number out. */

/* cgroup v2 cpu.max: "max 100000", "150000 100000". Text that makes no sense: 0. */
uint64_t weir__os_cpu_quota_v2(const char *cpu_max);
/* cgroup v1 cpu.cfs_quota_us ("-1" = none) and cpu.cfs_period_us. */
uint64_t weir__os_cpu_quota_v1(const char *quota_us, const char *period_us);
/* The path of this process in /proc/self/cgroup text: v2 the line "0::/path", v1 the line that
 * names the controller cpu. false: no such line, or it does not fit. */
bool weir__os_cpu_cgroup(const char *proc_cgroup, bool v2, char *path, size_t cap);

/* Reads a whole small file as text: its length or a negative errno. */
typedef int weir__os_cpu_read_fn(void *user, const char *path, char *buf, size_t cap);
/* The smallest quota from the process's group up to the root, over v2 and v1. */
uint64_t weir__os_cpu_quota(weir__os_cpu_read_fn *read, void *user);

#endif
