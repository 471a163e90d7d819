/* What this process may use of its machine. Reading it changes nothing. */
#ifndef WEIR_HOST_H
#define WEIR_HOST_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "weir/error.h"
#include "weir/socket.h"
#ifdef __cplusplus
extern "C" {
#endif

struct weir_host {
    size_t size;   /* sizeof this struct, set before the call */
    unsigned cpus; /* usable: the smaller of the next two, rounded up; at least 1. What a group
                      takes by default */
    unsigned cpus_allowed; /* in the affinity mask */
    uint32_t quota_milli;  /* cgroup CPU quota in thousandths of a CPU; 0: none */
    uint64_t files_now;    /* RLIMIT_NOFILE, soft: descriptors this process may hold */
    uint64_t files_max;    /* hard: how far it may raise that */
};

/* Fills out. EINVAL: not the size of this struct; ESYS: the kernel would not say. Any thread. */
int weir_host_read(struct weir_host *out);

/* What TCP sockets with these options (NULL: the defaults) would really get, every field filled in:
 * tried on a socket that is closed again. Less than asked is a limit of the system. EFDS, ENOMEM,
 * ESYS, and ESOCKOPT: one of them is refused. Any thread. */
int weir_host_socket(const struct weir_socket_options *o, bool listener,
                     struct weir_socket_options *out);

#ifdef __cplusplus
}
#endif
#endif
