/* The one injection hook of the system-call wrappers: a plan per thread says which call fails, how
 * and how often. Off, it costs each wrapper one predictable branch on a thread-local pointer. */
#ifndef WEIR_OS_FAULT_H
#define WEIR_OS_FAULT_H
#include "base/compiler.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum weir__os_kind {
    WEIR__OS_ANY, /* matches every call */
    WEIR__OS_SOCKET,
    WEIR__OS_BIND,
    WEIR__OS_LISTEN,
    WEIR__OS_ACCEPT,
    WEIR__OS_CONNECT,
    WEIR__OS_SOCKNAME,
    WEIR__OS_SOCKOPT,
    WEIR__OS_SOCKPAIR,
    WEIR__OS_SHUTDOWN,
    WEIR__OS_RECV,
    WEIR__OS_SEND,
    WEIR__OS_SENDFILE,
    WEIR__OS_FDS,
    WEIR__OS_EPOLL_NEW,
    WEIR__OS_EPOLL_SET,
    WEIR__OS_EPOLL_WAIT,
    WEIR__OS_EVENT,
    WEIR__OS_OPEN,
    WEIR__OS_STAT,
    WEIR__OS_READ,
    WEIR__OS_WRITE,
    WEIR__OS_THREAD,
    WEIR__OS_AFFINITY,
    WEIR__OS_SIGNAL,
    WEIR__OS_TIMER,
    WEIR__OS_ENTROPY,
    WEIR__OS_LIMIT,
    WEIR__OS_MAP,
    WEIR__OS_PROTECT,
    WEIR__OS_KINDS
};

struct weir__os_fault {
    enum weir__os_kind kind;
    uint32_t nth;       /* the n-th such call from now on, first = 1 */
    int error;          /* this errno; 0: not a failure, but a transfer cut to short_max bytes.
                           EINTR is tried again like the kernel's: never with persist */
    bool persist;       /* and every one after it */
    size_t short_max;   /* at least 1 */
    uint64_t seen, hit; /* counted by the hook: calls of this kind, and how many it spoilt */
    struct weir__os_fault *next; /* more faults of the same plan, or NULL */
};

extern WEIR_TLS struct weir__os_fault *weir__os_plan;

/* The plan of the calling thread from now on (NULL: none); returns the one before. The caller keeps
 * it alive. */
struct weir__os_fault *weir__os_fault_set(struct weir__os_fault *plan);

/* 0, or the negative errno to fail with; may lower *bytes (NULL: not a transfer). */
WEIR_COLD int weir__os_fault_hit(enum weir__os_kind kind, size_t *bytes);

WEIR_INLINE int weir__os_fault(enum weir__os_kind kind, size_t *bytes) {
    return unlikely(weir__os_plan != NULL) ? weir__os_fault_hit(kind, bytes) : 0;
}

#endif
