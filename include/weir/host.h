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

enum weir_uring_state {
    WEIR_URING_WORKS,
    WEIR_URING_OFF,    /* the list takes it away: it was not tried */
    WEIR_URING_MISSING /* not on this machine */
};

struct weir_uring_feature {
    const char *name, *what; /* "multi-recv", and in a few words what it does; static storage */
    enum weir_uring_state state;
};

enum { WEIR_URING_FEATURES_MAX = 16 };

struct weir_host_uring {
    size_t size;     /* sizeof this struct, set before the call */
    const char *why; /* io_uring cannot be used at all, and the cause; NULL: it can. Static storage,
                        as the next */
    const char *why_not_auto; /* why transport "auto" is epoll here; NULL: it is io_uring */
    unsigned n_features;
    struct weir_uring_feature features[WEIR_URING_FEATURES_MAX]; /* the oldest first */
};

/* Fills out with what io_uring does in this process, each feature tried (some milliseconds, and
 * everything is closed again). features: a list as weir_group_options.uring_features; NULL: all.
 * EINVAL: not the size of this struct, or, with the names filled in, a feature of another name. Any
 * thread. */
int weir_host_uring(const char *features, struct weir_host_uring *out);

#ifdef __cplusplus
}
#endif
#endif
