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
#include "weir/socket.h"

struct weir__io;

/* What a socket is to its owner. Doors put this first in their own socket struct. */
struct weir__io_sock {
    uint64_t ref; /* {slot 24, generation 40}: what weir_ref and kernel tokens are made of */
    void *user;   /* comes back with every completion */
};

enum {
    WEIR__IO_SEND_BYTES_MAX = 256 * 1024,
    WEIR__IO_SEND_SLICES_MAX = 64,
    WEIR__IO_RECV_BYTES = 64 * 1024, /* the most one RECEIVED or DGRAM carries */
    WEIR__IO_MESSAGES_MAX = 64,      /* of one send_dgram */
    WEIR__IO_SEGMENTS_MAX = 64,      /* datagrams that one message is cut into */
    WEIR__IO_HANDLES_MAX = 64,       /* of one send_fds */
    WEIR__IO_FDS_BYTES_MAX = 4096,   /* beside them */
};

enum weir__io_op { /* bits, for cancel */
                   WEIR__IO_ACCEPT = 1,
                   WEIR__IO_CONNECT = 2,
                   WEIR__IO_RECV = 4, /* recv_arm, recv_dgram_arm, recv_fds */
                   WEIR__IO_SEND = 8, /* send, send_zc, send_file, send_dgram, send_fds */
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
    WEIR__IO_FDS,      /* the last of a recv_fds */
    WEIR__IO_UNPINNED, /* a pinned send lets go of its bytes; behind its SENT, before CLOSED */
};

enum {                      /* codes > 0 of a last completion */
       WEIR__IO_EOF = 1,    /* RECEIVED, FDS: the peer will send no more */
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
    bool truncated;          /* DGRAM: the rest of it is lost */
    bool pinned;             /* SENT of a send_zc: its bytes stay untouched until UNPINNED */
    bool copied;             /* UNPINNED: they were copied after all, pinning was in vain */
    uint8_t ecn;             /* DGRAM: the two bits of its IP header; 0 where there is none */
    uint16_t segment_bytes;  /* DGRAM with `gro`: several of that length, the last may be shorter;
                                0: one */
    struct weir_slice slice; /* RECEIVED, DGRAM: owned by the receiver */
    uint64_t count; /* SENT: bytes, of send_dgram messages, that the transport took, also on failure
                        (a lower bound with EIO). FDS: bytes */
    intptr_t handle;       /* ACCEPTED: owned by the receiver; WATCHED: the ready mask; SENT that is
                        pinned, UNPINNED: the number of the send, one per socket */
    struct weir_addr peer; /* DGRAM only */
};
_Static_assert(sizeof(struct weir__io_done) <= 184, "it is filled for every event");

struct weir__io_listen {
    struct weir_addr addr;
    intptr_t handle;   /* an inherited listener instead of addr; -1 none. Taken on success */
    int backlog;       /* 0: the door's default, 4096 */
    uint32_t claim_ms; /* > 0: first bind alone without SO_REUSEPORT, retried so long; EINUSE when
                          it never works */
    bool reuse_port;   /* several listeners share the address */
    bool datagram; /* a bound datagram socket: for recv_dgram_arm, not accept_arm. A unix address
                          without a path: a name of the kernel's choice */
    bool gro;      /* datagram: the kernel may hand over several of a peer as one */
    const struct weir_socket_options *options; /* NULL: defaults. Not for `handle`, which has its
                                                  own; sim has no kernel to tell */
    const unsigned *steer; /* with reuse_port: what CPU steer[i] received goes to the i-th listener
                              of the address; NULL: the kernel picks. ENOTSUP: not here */
    unsigned n_steer;
};

struct weir__io_connect {
    struct weir_addr addr;
    const struct weir_socket_options *options; /* as of a listener */
};

/* One datagram to send, or with segment_bytes > 0 (UDP only) as many of that length as it makes. */
struct weir__io_message {
    struct weir_addr to;
    struct weir_chain chain; /* no file regions; may be empty */
    uint16_t segment_bytes;
};

/* A message over a unix stream socket. The caller keeps it where it is until the terminal. */
struct weir__io_fds {
    void *data; /* sent: n bytes; received: room for n, then n that came */
    size_t n;
    unsigned n_handles; /* received: so many came */
    intptr_t handles[WEIR__IO_HANDLES_MAX];
};

/* Keys for the kernel's own TLS: one direction. */
struct weir__io_crypto {
    bool tx;
    const void *info; /* the kernel's struct tls12_crypto_info_..., `bytes` long */
    size_t bytes;
};

enum { WEIR__IO_WATCH_READ = 1, WEIR__IO_WATCH_WRITE = 2 };

struct weir__io_ops {
    const char *name;
    void (*free)(struct weir__io *io); /* every socket must have had its CLOSED, unless start failed
                                          or wait broke */

    /* Opening. On success *out lives until its CLOSED. ENOMEM, EFDS, EINUSE, EINVAL, ESYS,
     * ESOCKOPT. */
    int (*listen)(struct weir__io *io, const struct weir__io_listen *o, void *user,
                  struct weir__io_sock **out);
    /* A stream of an accepted or received handle. Takes handle. */
    int (*attach)(struct weir__io *io, intptr_t handle, void *user, struct weir__io_sock **out);
    /* A stream that CONNECTED will tell about. */
    int (*connect)(struct weir__io *io, const struct weir__io_connect *o, void *user,
                   struct weir__io_sock **out);
    /* Closes an accepted or received handle that nobody attaches. */
    void (*drop)(struct weir__io *io, intptr_t handle);

    /* Submitting. 0 accepted. < 0 refused, nothing happened: EGONE after close, ERESET after a
     * failed send, EBUG for a second arm or anything outside the contract. Whatever the network or
     * the peer causes comes as a terminal, also when it is known at once. */

    /* ACCEPTED per connection, at most `credit` (-1: no end). */
    int (*accept_arm)(struct weir__io *io, struct weir__io_sock *s, int64_t credit);
    /* RECEIVED per piece, `credit` bytes in all (-1: no end). */
    int (*recv_arm)(struct weir__io *io, struct weir__io_sock *s, int64_t credit);
    /* 1 done whole, 0 SENT follows; c stays the caller's and untouched until then. */
    int (*send)(struct weir__io *io, struct weir__io_sock *s, const struct weir_chain *c);
    /* As send, but SENT may say `pinned`: then c's parts stay untouched until UNPINNED; c itself
     * may move. After an answer of 1 it never does. A door may always copy, and never pin. */
    int (*send_zc)(struct weir__io *io, struct weir__io_sock *s, const struct weir_chain *c);
    /* As send: bytes [off, off + n) of f. ETRUNCATED: it ends earlier. */
    int (*send_file)(struct weir__io *io, struct weir__io_sock *s, struct weir_file *f,
                     uint64_t off, uint64_t n);
    /* DGRAM per datagram, without end; of a longer one than bytes_max (0: 64 KiB, which is also
     * the most) the rest is lost. Of a datagram socket. */
    int (*recv_dgram_arm)(struct weir__io *io, struct weir__io_sock *s, size_t bytes_max);
    /* 1 all n were taken, 0 SENT follows with how many: in order, up to the first that failed.
     * ETOOBIG: that one is too long for its path. ENOMEM: no room that the kernel would announce,
     * try later. One that cannot reach its peer counts as taken and lost. m and its chains stay the
     * caller's and untouched until then. */
    int (*send_dgram)(struct weir__io *io, struct weir__io_sock *s,
                      const struct weir__io_message *m, unsigned n);
    /* 1 done whole, 0 SENT follows: one message of 1 to 4096 bytes with up to 64 handles, whole or
     * not at all. Handles stay the caller's. Of a unix stream. */
    int (*send_fds)(struct weir__io *io, struct weir__io_sock *s, const struct weir__io_fds *m);
    /* FDS follows: the bytes that came, of one message, and its handles, owned by the receiver.
     * ETOOBIG: there were more than m holds or the process can have; all of them are closed, and
     * the bytes lost. Of a unix stream that never had a recv_arm, for that drops the handles of
     * what it receives. */
    int (*recv_fds)(struct weir__io *io, struct weir__io_sock *s, struct weir__io_fds *m);
    /* WATCHED once: a foreign descriptor is ready. sim: ENOTSUP. */
    int (*watch)(struct weir__io *io, intptr_t fd, unsigned mask, void *user,
                 struct weir__io_sock **out);
    /* The named ops that are armed end. */
    void (*cancel)(struct weir__io *io, struct weir__io_sock *s, unsigned ops);
    /* CLOSED follows, behind everything else. */
    void (*close)(struct weir__io *io, struct weir__io_sock *s, bool abort);

    /* Synchronous. 0 or an error. */

    /* Ends our side of the stream. With no send in flight. */
    int (*shutdown)(struct weir__io *io, struct weir__io_sock *s);
    /* From here on the kernel makes (tx: no send in flight) or opens (nothing armed to receive,
     * nothing parked) this stream's TLS records. ENOTSUP: it cannot, nothing changed. EINVAL: keys
     * that it does not know; nothing changed. */
    int (*set_crypto)(struct weir__io *io, struct weir__io_sock *s,
                      const struct weir__io_crypto *keys);
    int (*local)(struct weir__io *io, struct weir__io_sock *s, struct weir_addr *out);
    int (*peer)(struct weir__io *io, struct weir__io_sock *s, struct weir_addr *out);
    /* Bytes the transport holds, not yet acknowledged. */
    int64_t (*unsent)(struct weir__io *io, struct weir__io_sock *s);
    /* Bytes, datagrams or handles that the door holds for the next arm. */
    int64_t (*parked)(struct weir__io *io, struct weir__io_sock *s);
    /* The handle behind a socket, for send_fds; the socket keeps it. EGONE after close. */
    intptr_t (*handle)(struct weir__io *io, struct weir__io_sock *s);
    /* A listener: 1 somebody waits to be accepted, 0 nobody does. */
    int (*queued)(struct weir__io *io, struct weir__io_sock *s);

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

/* Requests to a ring, by what they ask for. */
enum weir__io_request {
    WEIR__IO_REQUEST_ACCEPT,
    WEIR__IO_REQUEST_RECV,
    WEIR__IO_REQUEST_SEND,
    WEIR__IO_REQUEST_ZERO_COPY,
    WEIR__IO_REQUEST_POLL,
    WEIR__IO_REQUEST_CANCEL,
    WEIR__IO_REQUESTS,
};

struct weir__io_stats { /* cumulative; written by the loop, read anywhere */
    _Atomic uint64_t waits, sleeps, events, stale, accepts, receives, received_bytes, sends,
        sent_bytes, partial_sends, control_calls /* epoll_ctl or ring submissions */, parked,
        no_buffer, opened, closed, dgrams_lost /* by an error that belongs to their peer */;
    /* Of a ring: system calls; receives that found no buffer; completions that did not fit at
     * first; sends that went without a copy, and those that were copied after all. */
    _Atomic uint64_t enters, starved, overflows, zero_copies, copied_after_all;
    _Atomic uint64_t requests[WEIR__IO_REQUESTS];
    /* System calls that no other counter tells: of a ring all but its enters, of epoll those that
     * moved nothing, or went on with a send. */
    _Atomic uint64_t other_calls;
};

struct weir__io {
    const struct weir__io_ops *ops;
    struct weir_mem *mem; /* receive buffers come from here */
    struct weir__io_slots *slots;
    bool sends_inline; /* send may answer 1 */
    bool rings;        /* it asks by requests in a ring */
    /* The buffer that receives go to: the door holds a reference on it and never looks at what it
     * has given away. NULL: there is none like that. */
    const struct weir_buf *receiving;
    struct weir__io_stats stats;
};

/* How a door is made. The door keeps mem and slots by pointer; both outlive it. */
struct weir__io_config {
    struct weir_mem *mem;
    struct weir__io_slots *slots;
    bool edge;              /* epoll: edge-triggered */
    bool defer;             /* sends never answer 1 (the suite uses it) */
    unsigned uring_without; /* of enum weir__uring_feature: what is not to be used */
};

/* System calls so far that wait, accept, receive, send, or say what is to be waited for. Not in it:
 * those that open, name, set up or close a socket, and wake-ups. Any thread. */
static inline uint64_t weir__io_system_calls(const struct weir__io *io) {
    const struct weir__io_stats *s = &io->stats;
    uint64_t n = s->other_calls + s->enters;
    return io->rings ? n
                     : n + s->waits + s->control_calls + s->accepts + s->receives + s->sends +
                           s->partial_sends;
}

static inline void weir__io_count(_Atomic uint64_t *counter, uint64_t n) {
    __atomic_store_n((uint64_t *)counter,
                     __atomic_load_n((uint64_t *)counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

#endif
