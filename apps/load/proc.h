/* What /proc knows of the server under test. */
#ifndef LOAD_PROC_H
#define LOAD_PROC_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CPU time of all threads of pid, and the time they waited for a CPU. Returns the number of
 * threads, 0 when there is none. */
unsigned load_proc_cpu(unsigned pid, uint64_t *cpu_ns, uint64_t *wait_ns);

/* Are there exactly `expected` listening sockets on this TCP port, all of one process? false: why
 * says what there is. Sockets of other users' processes have no visible owner and count as one. */
bool load_proc_listeners(unsigned port, unsigned expected, char *why, size_t cap);

#endif
