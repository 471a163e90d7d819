/* What the kernel says about this process and its CPUs in /proc. The parsers are text in, number
 * out; text that makes no sense is 0. */
#ifndef WEIR_OS_PROC_H
#define WEIR_OS_PROC_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int weir__os_proc_id(void);
/* Resident bytes of this process now; 0: unknown. */
uint64_t weir__os_proc_resident(void);
/* Idle time of these CPUs together since boot, in steps of a clock tick; 0: unknown. */
uint64_t weir__os_proc_idle(const unsigned *cpus, unsigned n);
/* Context switches so far of a thread of this process. 0 or a negative errno. */
int weir__os_proc_switches(int tid, uint64_t *voluntary, uint64_t *involuntary);

/* /proc/self/task/TID/status: its context switches. False: they are not in it. */
bool weir__os_proc_status_switches(const char *text, uint64_t *voluntary, uint64_t *involuntary);
/* /proc/self/statm: the resident pages. */
uint64_t weir__os_proc_statm(const char *text, uint64_t page_bytes);
/* /proc/stat: the clock ticks that these CPUs were idle or waited for a disk. */
uint64_t weir__os_proc_stat_idle(const char *text, const unsigned *cpus, unsigned n);

#endif
