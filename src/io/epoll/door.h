/* The epoll door: readiness turned into completions.
 *
 * An op of a socket is one bit and goes through three states, held in two words:
 *
 *      free -- submit --> armed (busy) -- ends --> ended (busy + ended) -- next() --> free
 *
 * so "armed" is busy & ~ended, and a second submit is refused until the first one's terminal has
 * been pulled. What the kernel is asked to report (sock.events) follows lazily: it grows when an op
 * needs it, and shrinks only when an event came that nobody wanted. */
#ifndef WEIR_IO_EPOLL_DOOR_H
#define WEIR_IO_EPOLL_DOOR_H
#include "base/compiler.h"
#include "base/footprint.h"
#include "base/list.h"
#include "io/io.h"
#include "os/dgram.h"
#include <sys/epoll.h>

enum {
    WEIR__EPOLL_EVENTS = 256,          /* per wait */
    WEIR__EPOLL_AGAIN = 64,            /* receives per wait beyond one per event */
    WEIR__EPOLL_ACCEPTS = 16,          /* per event of a listener */
    WEIR__EPOLL_REST_MIN = 16 * 1024,  /* a receive buffer with less room left is given up */
    WEIR__EPOLL_FILE_STEP = 256 * 1024 /* bytes of a file per go */
};

enum { WEIR__EPOLL_CLOSED = 32 }; /* an op bit behind enum weir__io_op, so that it ends last */

enum weir__epoll_flag {
    WEIR__EPOLL_LISTENER = 1,
    WEIR__EPOLL_DGRAM = 2,
    WEIR__EPOLL_FOREIGN = 4,     /* watched: the descriptor is not ours */
    WEIR__EPOLL_EDGE = 8,        /* registered edge-triggered */
    WEIR__EPOLL_REGISTERED = 16, /* known to epoll, perhaps with no events */
    WEIR__EPOLL_READABLE = 32,   /* edge: not known to be drained */
    WEIR__EPOLL_ENDING = 64,     /* RDHUP, HUP or ERR was seen: short is not drained */
    WEIR__EPOLL_GO_ON = 128,     /* the file send gave way to others and is not blocked */
    WEIR__EPOLL_APART = 256,     /* not connected (yet) */
    WEIR__EPOLL_SHUT = 512,      /* our side has ended its stream */
    WEIR__EPOLL_FAILED = 1024,   /* a send failed: nothing more can be sent */
    WEIR__EPOLL_OVER = 2048,     /* receiving has ended for good, with recv_code */
    WEIR__EPOLL_RESET = 4096,    /* closing is an abort */
    WEIR__EPOLL_FDS_IN = 8192,   /* the receive that is armed is a recv_fds */
    WEIR__EPOLL_FDS_OUT = 16384, /* the send in flight is a send_fds */
    WEIR__EPOLL_FILE = 32768,    /* the send in flight is a send_file */
    WEIR__EPOLL_NO_STREAM = WEIR__EPOLL_LISTENER | WEIR__EPOLL_DGRAM | WEIR__EPOLL_FOREIGN |
                            WEIR__EPOLL_APART,
    WEIR__EPOLL_NO_SEND = WEIR__EPOLL_NO_STREAM | WEIR__EPOLL_SHUT | WEIR__EPOLL_FAILED,
};

/* What a datagram socket received and nobody pulled yet: the i-th at buf + i * stride. */
struct weir__epoll_inbox {
    struct weir_slice buf;
    size_t stride, bytes_max; /* bytes_max: of the present arm */
    unsigned at, n;
    bool ip;
    struct weir__os_dgram got[WEIR__OS_DGRAMS_MAX];
};

struct weir__epoll_sock {
    struct weir__io_sock base;
    int fd;
    uint32_t events; /* what epoll reports of it */
    uint8_t busy, ended;
    uint16_t flags;
    int code, recv_code, send_code; /* of ended ops; code: accept, connect, watch */
    int64_t credit;                 /* receive: bytes; accept: connections */
    uint64_t sent, total;           /* of the send in flight: bytes, or messages */
    union {
        struct { /* a chain from `part` on, less its first `skip` bytes */
            const struct weir_part *part;
            size_t skip;
        };
        struct {
            struct weir_file *file;
            uint64_t off;
        };
        const struct weir__io_message *messages;
        const struct weir__io_fds *fds_out;
    };
    union {
        struct weir__epoll_inbox *inbox; /* of a datagram socket */
        struct weir__io_fds *fds_in;
    };
    struct weir__base_fifo_link done;
    struct weir__base_link again;
};
_Static_assert(sizeof(struct weir__epoll_sock) <= WEIR__IDLE_SOCKET, "see base/footprint.h");

struct weir__epoll {
    struct weir__io io;
    int ep;
    bool edge, defer, broken;
    uint32_t heeded;        /* not so: events that an edge-triggered socket always shows */
    int at, n;              /* the next of n events */
    unsigned accepts, goes; /* accepted of the present event; second goes left in this wait */
    struct weir__base_fifo done;
    struct weir__base_list again;
    struct weir_slice hot; /* the receive buffer, whole; used: bytes handed out of it */
    size_t used;
    uint64_t entropy[16];
    unsigned n_entropy;
    int bell; /* eventfd; never read: edge-triggered, each ring is an event */
    struct epoll_event events[WEIR__EPOLL_EVENTS];
};

static inline struct weir__epoll *weir__epoll_of(struct weir__io *io) {
    return container_of(io, struct weir__epoll, io);
}

static inline struct weir__epoll_sock *weir__epoll_sock_of(struct weir__io_sock *s) {
    return container_of(s, struct weir__epoll_sock, base);
}

static inline unsigned weir__epoll_armed(const struct weir__epoll_sock *s) {
    return s->busy & ~(unsigned)s->ended;
}

/* Why `op` is refused now; `never`: flags under which it is outside the contract. 0: it is not. */
static inline int weir__epoll_refused(const struct weir__epoll_sock *s, unsigned op,
                                      unsigned never) {
    if (likely(!(s->busy & (WEIR__EPOLL_CLOSED | op)) && !(s->flags & never)))
        return 0;
    if (s->busy & WEIR__EPOLL_CLOSED)
        return WEIR_EGONE;
    if (s->busy & op || !(s->flags & never & WEIR__EPOLL_FAILED))
        return WEIR_EBUG;
    return WEIR_ERESET;
}

/* sock.c: life and kernel interest */
int weir__epoll_listen(struct weir__io *io, const struct weir__io_listen *o, void *user,
                       struct weir__io_sock **out);
int weir__epoll_attach(struct weir__io *io, intptr_t handle, void *user,
                       struct weir__io_sock **out);
int weir__epoll_connect(struct weir__io *io, const struct weir__io_connect *o, void *user,
                        struct weir__io_sock **out);
int weir__epoll_watch(struct weir__io *io, intptr_t fd, unsigned mask, void *user,
                      struct weir__io_sock **out);
void weir__epoll_cancel(struct weir__io *io, struct weir__io_sock *s, unsigned ops);
void weir__epoll_close(struct weir__io *io, struct weir__io_sock *s, bool abort);
/* The kernel reports what the armed ops need: 0 or an error. */
int weir__epoll_interest(struct weir__epoll *d, struct weir__epoll_sock *s);
/* The kernel reports nothing that no armed op needs; `dead`: hang-up or error, which only leaving
 * epoll silences. */
void weir__epoll_narrow(struct weir__epoll *d, struct weir__epoll_sock *s, bool dead);
/* An armed op ends with this code. */
void weir__epoll_end(struct weir__epoll *d, struct weir__epoll_sock *s, unsigned op, int code);
/* Frees the socket; its descriptor must be closed. */
void weir__epoll_forget(struct weir__epoll *d, struct weir__epoll_sock *s);
/* Another go in this turn. */
void weir__epoll_again(struct weir__epoll *d, struct weir__epoll_sock *s);

/* recv.c */
int weir__epoll_accept_arm(struct weir__io *io, struct weir__io_sock *s, int64_t credit);
int weir__epoll_recv_arm(struct weir__io *io, struct weir__io_sock *s, int64_t credit);
int weir__epoll_recv_dgram_arm(struct weir__io *io, struct weir__io_sock *s, size_t bytes_max);
int weir__epoll_recv_fds(struct weir__io *io, struct weir__io_sock *s, struct weir__io_fds *m);
/* next() of the door, and its rarer half. */
bool weir__epoll_next(struct weir__io *io, struct weir__io_done *out);
bool weir__epoll_next_slow(struct weir__epoll *d, struct weir__io_done *out);
/* One receive; true: *out is a completion. False: nothing came, or the op ended and waits on
 * door.done. */
bool weir__epoll_receive(struct weir__epoll *d, struct weir__epoll_sock *s,
                         struct weir__io_done *out);
/* One accept; *drained: nothing more to get from this event. */
bool weir__epoll_accept(struct weir__epoll *d, struct weir__epoll_sock *s,
                        struct weir__io_done *out, bool *drained);

/* send.c */
int weir__epoll_send(struct weir__io *io, struct weir__io_sock *s, const struct weir_chain *c);
int weir__epoll_send_file(struct weir__io *io, struct weir__io_sock *s, struct weir_file *f,
                          uint64_t off, uint64_t n);
int weir__epoll_send_dgram(struct weir__io *io, struct weir__io_sock *s,
                           const struct weir__io_message *m, unsigned n);
int weir__epoll_send_fds(struct weir__io *io, struct weir__io_sock *s,
                         const struct weir__io_fds *m);
/* Goes on with the armed send as far as the socket takes it. */
void weir__epoll_send_on(struct weir__epoll *d, struct weir__epoll_sock *s);
/* Lets go of what a send kept. */
void weir__epoll_send_clear(struct weir__epoll_sock *s);

#endif
