/* The io contract: what a loop asks of the world, and what comes back. Three doors implement it:
 * epoll, uring, sim. docs/adr/0001 has the table, the numbered rules and the reasons; tests/suite
 * has one case per rule.
 *
 * Thread: before start() one thread at a time, and only listen, local, next, close, free (none of
 * them enters the kernel's ring; a close queues its CLOSED at once). From start() on, free()
 * included, only the thread that called it. wake(): any thread, from new until free. */
#ifndef WEIR_IO_IO_H
#define WEIR_IO_IO_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/addr.h"
#include "io/slot.h"
#include "weir/mem.h"

struct weir__io;

/* What a socket is to its owner. Doors put this first in their own socket struct. */
struct weir__io_sock {
    uint64_t ref; /* {slot 24, generation 40}: what weir_ref and kernel tokens are made of */
    void *user;   /* comes back with every completion */
};

enum {
    WEIR__IO_SEND_BYTES_MAX = 256 * 1024,
    WEIR__IO_SEND_SLICES_MAX = 64,
    WEIR__IO_RECV_BYTES = 64 * 1024, /* the most one RECEIVED carries */
};

enum weir__io_op { /* bits, for cancel */
                   WEIR__IO_ACCEPT = 1,
                   WEIR__IO_CONNECT = 2,
                   WEIR__IO_RECV = 4, /* stream or datagram receive */
                   WEIR__IO_SEND = 8, /* send, send_file, send_dgram */
                   WEIR__IO_WATCH = 16,
};

enum weir__io_kind {
    WEIR__IO_ACCEPTED,
    WEIR__IO_CONNECTED,
    WEIR__IO_RECEIVED,
    WEIR__IO_DGRAM,
    WEIR__IO_SENT,
    WEIR__IO_WATCHED,
    WEIR__IO_CLOSED,
};

enum {                      /* codes > 0 of a last completion */
       WEIR__IO_EOF = 1,    /* RECEIVED: the peer will send no more */
       WEIR__IO_CREDIT = 2, /* RECEIVED, ACCEPTED: the credit is used up */
};

/* One completion. `last` = the terminal of its op: it carries `code` and no slice or handle; the
 * others carry those and code 0. */
struct weir__io_done {
    void *user;
    enum weir__io_kind kind;
    int code;
    bool last;
    bool more;               /* RECEIVED: a hint that the next one follows at once */
    struct weir_slice slice; /* RECEIVED, DGRAM: owned by the receiver */
    uint64_t count;  /* SENT: bytes the transport took, also on failure (a lower bound with EIO) */
    intptr_t handle; /* ACCEPTED: owned by the receiver; WATCHED: the ready mask */
    struct weir_addr peer; /* DGRAM only */
};

struct weir__io_listen {
    struct weir_addr addr;
    intptr_t handle;   /* an inherited listener instead of addr; -1 none. Taken on success */
    int backlog;       /* 0: the door's default, 4096 */
    uint32_t claim_ms; /* > 0: first bind alone without SO_REUSEPORT, retried so long; EINUSE when
                          it never works */
    bool reuse_port;   /* several listeners share the address */
    bool datagram;     /* a bound datagram socket: for recv_dgram_arm, not accept_arm */
};

enum { WEIR__IO_WATCH_READ = 1, WEIR__IO_WATCH_WRITE = 2 };

struct weir__io_connect {
    struct weir_addr addr;
};

struct weir__io_ops {
    const char *name;
    void (*free)(struct weir__io *io); /* every socket must have had its CLOSED, unless start failed
                                          or wait broke */

    /* Opening. On success *out lives until its CLOSED. ENOMEM, EFDS, EINUSE, EINVAL, ESYS. */
    int (*listen)(struct weir__io *io, const struct weir__io_listen *o, void *user,
                  struct weir__io_sock **out);
    int (*attach)(struct weir__io *io, intptr_t handle, void *user,
                  struct weir__io_sock **out); /* takes handle */
    int (*connect)(struct weir__io *io, const struct weir__io_connect *o, void *user,
                   struct weir__io_sock **out);
    void (*drop)(struct weir__io *io,
                 intptr_t handle); /* closes an accepted handle that nobody attaches */

    /* Submitting. 0 accepted. < 0 refused, nothing happened: EGONE after close, ERESET after a
     * failed send, EBUG for a second arm or anything outside the contract. Whatever the network or
     * the peer causes comes as a terminal, also when it is known at once. */
    int (*accept_arm)(struct weir__io *io, struct weir__io_sock *s, int64_t credit);
    int (*recv_arm)(struct weir__io *io, struct weir__io_sock *s, int64_t credit);
    int (*send)(struct weir__io *io, struct weir__io_sock *s,
                const struct weir_chain *c); /* 1 done, 0 SENT follows */
    int (*send_file)(struct weir__io *io, struct weir__io_sock *s, struct weir_file *f,
                     uint64_t off, uint64_t n);
    int (*recv_dgram_arm)(struct weir__io *io, struct weir__io_sock *s);
    int (*send_dgram)(struct weir__io *io, struct weir__io_sock *s, const struct weir_addr *to,
                      const struct weir_chain *c);
    int (*watch)(struct weir__io *io, intptr_t fd, unsigned mask, void *user,
                 struct weir__io_sock **out);
    void (*cancel)(struct weir__io *io, struct weir__io_sock *s, unsigned ops);
    void (*close)(struct weir__io *io, struct weir__io_sock *s, bool abort);

    /* Synchronous. 0 or an error. */
    int (*shutdown)(struct weir__io *io, struct weir__io_sock *s);
    int (*local)(struct weir__io *io, struct weir__io_sock *s, struct weir_addr *out);
    int (*peer)(struct weir__io *io, struct weir__io_sock *s, struct weir_addr *out);
    int64_t (*unsent)(
        struct weir__io *io,
        struct weir__io_sock *s); /* bytes the transport holds, not yet acknowledged */
    int64_t (*parked)(
        struct weir__io *io,
        struct weir__io_sock *s); /* bytes or handles the door holds for the next arm */
    int (*queued)(struct weir__io *io, struct weir__io_sock *s); /* a listener: 1 somebody waits to
                                                                    be accepted, 0 nobody does */

    /* Turning. */
    int (*start)(struct weir__io *io); /* once, on the loop's thread, before the first wait */
    /* until_ns on now()'s clock; 0 = only look, UINT64_MAX = for ever. Never sleeps while next()
     * could yield. A wake that no wait has consumed ends this one. 1: it was free to sleep; 0: it
     * only looked; < 0: broken. */
    int (*wait)(struct weir__io *io, uint64_t until_ns);
    bool (*next)(struct weir__io *io, struct weir__io_done *out);
    void (*submit)(struct weir__io *io); /* what was collected goes out, what completed at once is
                                            there for next(); NULL: never collects */
    void (*wake)(struct weir__io *io);   /* any thread */
    uint64_t (*now)(struct weir__io *io);
    uint64_t (*entropy)(struct weir__io *io);
};

struct weir__io_stats { /* cumulative; written by the loop, read anywhere */
    _Atomic uint64_t waits, sleeps, events, stale, accepts, receives, received_bytes, sends,
        sent_bytes, partial_sends, control_calls /* epoll_ctl or ring submissions */, parked,
        no_buffer, opened, closed;
};

struct weir__io {
    const struct weir__io_ops *ops;
    struct weir_mem *mem; /* receive buffers come from here */
    struct weir__io_slots *slots;
    bool sends_inline; /* send may answer 1 */
    struct weir__io_stats stats;
};

/* How a door is made. The door keeps mem and slots by pointer; both outlive it. */
struct weir__io_config {
    struct weir_mem *mem;
    struct weir__io_slots *slots;
    bool edge;  /* epoll: edge-triggered */
    bool defer; /* epoll: sends never answer 1 (the suite uses it) */
};

static inline void weir__io_count(_Atomic uint64_t *counter, uint64_t n) {
    __atomic_store_n((uint64_t *)counter,
                     __atomic_load_n((uint64_t *)counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

#endif
