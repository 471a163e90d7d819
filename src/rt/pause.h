/* What keeps loops from their work, as the kernel tells it: waiting in the run queue, major faults,
 * a used-up CPU quota. Looked at a few times per second by one thread. */
#ifndef WEIR_RT_PAUSE_H
#define WEIR_RT_PAUSE_H
#include "loop/loop.h"
#include "os/cpu.h"

enum { WEIR__RT_QUOTA_FILES = 8 };

struct weir__rt_pause_quota { /* the cpu.stat files that limit this process */
    char paths[WEIR__RT_QUOTA_FILES][512];
    unsigned n;
    uint64_t count, ns; /* as of the last look */
};

struct weir__rt_pause_loop { /* as of the last look */
    uint64_t waited_ns, faults;
};

/* Texts of the kernel. False: not of that form. */
bool weir__rt_pause_schedstat(const char *text, uint64_t *ran_ns, uint64_t *waited_ns);
bool weir__rt_pause_stat(const char *text, uint64_t *major_faults);
bool weir__rt_pause_cpu_stat(const char *text, uint64_t *count, uint64_t *ns);

/* Finds the files, of both cgroup versions, from the process's group up to the root. */
void weir__rt_pause_quota_init(struct weir__rt_pause_quota *q, weir__os_cpu_read_fn *read,
                               void *user);
/* One look; adds what has grown since the last one to the pauses of every loop. */
void weir__rt_pause_quota_look(struct weir__rt_pause_quota *q, struct weir_loop *const *loops,
                               unsigned n, weir__os_cpu_read_fn *read, void *user);
/* The same for the loop that thread tid runs. */
void weir__rt_pause_loop_look(struct weir__rt_pause_loop *p, struct weir_loop *l, int tid,
                              weir__os_cpu_read_fn *read, void *user);

#endif
