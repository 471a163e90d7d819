/* The io_uring door.
 *
 * What the owner wants and what the kernel does are separate words of a socket. Ops go, seen from
 * above, like at every door:
 *
 *      free -- submit --> armed (busy) -- ends --> ended (busy + ended) -- next() --> free
 *
 * and below, one request per op and socket at most:
 *
 *      none --- todo ---> entry in the ring (kernel) --- completion ---> none
 *
 * A receive that is cancelled ends above at once; its request stays in the kernel, and what it
 * brings is parked until the next arm. Connections are not taken from a backlog that nobody serves:
 * a cancelled accept is cancelled below too, ends when the kernel says so, and a connection that
 * was quicker is parked. The descriptor is closed when the kernel has no
 * request of the socket any more. */
#ifndef WEIR_IO_URING_DOOR_H
#define WEIR_IO_URING_DOOR_H
#include "base/compiler.h"
#include "base/list.h"
#include "io/io.h"
#include "io/uring/ring.h"
#include "os/dgram.h"
#include <sys/socket.h>
#include <sys/uio.h>

enum { WEIR__URING_CLOSED = 32 }; /* an op bit behind enum weir__io_op, so that it ends last */
enum { WEIR__URING_FILE_STEP = 256 * 1024 };
enum { WEIR__URING_ACCEPTS = 16 }; /* taken at once, per request that brought one */
/* Token of the poll on the eventfd; cancels have 0. */
#define WEIR__URING_BELL (UINT64_C(64) << 56)

enum weir__uring_flag {
    WEIR__URING_LISTENER = 1,
    WEIR__URING_DGRAM = 2,
    WEIR__URING_FOREIGN = 4,    /* watched: the descriptor is not ours */
    WEIR__URING_APART = 8,      /* not connected (yet) */
    WEIR__URING_SHUT = 16,      /* our side has ended its stream */
    WEIR__URING_FAILED = 32,    /* a send failed: nothing more can be sent */
    WEIR__URING_OVER = 64,      /* receiving has ended for good, with recv_code */
    WEIR__URING_RESET = 128,    /* closing is an abort */
    WEIR__URING_FULL = 256,     /* the socket took nothing last time: poll before the next send */
    WEIR__URING_EMPTY = 512,    /* the socket had nothing last time: poll before the next receive */
    WEIR__URING_STOP = 1024,    /* the send, or accept, in flight is to be cancelled */
    WEIR__URING_POLLED = 2048,  /* the receive in the kernel is a poll */
    WEIR__URING_FDS_IN = 4096,  /* the receive that is armed is a recv_fds */
    WEIR__URING_BY_CALL = 8192, /* the send in flight is made of system calls, after polls */
    WEIR__URING_NO_STREAM = WEIR__URING_LISTENER | WEIR__URING_DGRAM | WEIR__URING_FOREIGN |
                            WEIR__URING_APART,
    WEIR__URING_NO_SEND = WEIR__URING_NO_STREAM | WEIR__URING_SHUT | WEIR__URING_FAILED,
};

/* What a gather needs until its completion. */
struct weir__uring_gather {
    struct msghdr msg;
    struct iovec iov[WEIR__IO_SEND_SLICES_MAX];
};

struct weir__uring_file {
    struct weir_file *file;
    uint64_t off;
};

/* What a datagram socket received and nobody pulled yet: the i-th at buf + i * stride. */
struct weir__uring_inbox {
    struct weir_slice buf;
    size_t stride, bytes_max; /* bytes_max: of the present arm */
    unsigned at, n;
    bool ip;
    struct weir__os_dgram got[WEIR__OS_DGRAMS_MAX];
};

struct weir__uring_sock {
    struct weir__io_sock base;
    int fd;
    uint16_t flags;
    uint8_t busy, ended;          /* above */
    uint8_t todo, cancel, kernel; /* below: to be submitted, to be cancelled, in the kernel */
    uint8_t accepts;              /* taken since a request brought one */
    int code, recv_code, send_code;
    int over_code; /* the end of receiving, learned while an earlier last waits to be pulled */
    int parked_fd; /* a connection that nobody waits for, or -1 */
    int64_t credit;
    struct weir_slice parked;     /* received while nobody waited */
    const struct weir_part *part; /* the send in flight, as at the epoll door */
    size_t skip;
    uint64_t sent, total;
    struct weir__uring_file file;
    struct weir__uring_gather *gather;
    union {
        const struct weir__io_message *messages; /* `total` of them, `sent` are gone */
        const struct weir__io_fds *fds_out;
    };
    union {
        struct weir__uring_inbox *inbox; /* of a datagram socket */
        struct weir__io_fds *fds_in;
    };
    struct weir__base_fifo_link done;
    struct weir__base_link ready, work, all; /* parked things for an arm; something to submit */
};

struct weir__uring {
    struct weir__io io;
    struct weir__uring_ring ring;
    struct weir__base_fifo done;
    struct weir__base_list ready, work, all;
    struct weir_slice hot; /* datagrams are received here, whole; used: bytes handed out of it */
    size_t used;
    int bell;
    bool bell_armed, broken, started;
};

static inline struct weir__uring *weir__uring_of(struct weir__io *io) {
    return container_of(io, struct weir__uring, io);
}

static inline struct weir__uring_sock *weir__uring_sock_of(struct weir__io_sock *s) {
    return container_of(s, struct weir__uring_sock, base);
}

static inline unsigned weir__uring_armed(const struct weir__uring_sock *s) {
    return s->busy & ~(unsigned)s->ended;
}

/* Why `op` is refused now; `never`: flags under which it is outside the contract. 0: it is not. */
static inline int weir__uring_refused(const struct weir__uring_sock *s, unsigned op,
                                      unsigned never) {
    if (likely(!(s->busy & (WEIR__URING_CLOSED | op)) && !(s->flags & never)))
        return 0;
    if (s->busy & WEIR__URING_CLOSED)
        return WEIR_EGONE;
    if (s->busy & op || !(s->flags & never & WEIR__URING_FAILED))
        return WEIR_EBUG;
    return WEIR_ERESET;
}

/* sock.c: opening, arming, ending */
int weir__uring_listen(struct weir__io *io, const struct weir__io_listen *o, void *user,
                       struct weir__io_sock **out);
int weir__uring_attach(struct weir__io *io, intptr_t handle, void *user,
                       struct weir__io_sock **out);
int weir__uring_connect(struct weir__io *io, const struct weir__io_connect *o, void *user,
                        struct weir__io_sock **out);
int weir__uring_watch(struct weir__io *io, intptr_t fd, unsigned mask, void *user,
                      struct weir__io_sock **out);
int weir__uring_accept_arm(struct weir__io *io, struct weir__io_sock *s, int64_t credit);
int weir__uring_recv_arm(struct weir__io *io, struct weir__io_sock *s, int64_t credit);
int weir__uring_recv_dgram_arm(struct weir__io *io, struct weir__io_sock *s, size_t bytes_max);
int weir__uring_recv_fds(struct weir__io *io, struct weir__io_sock *s, struct weir__io_fds *m);
void weir__uring_cancel(struct weir__io *io, struct weir__io_sock *s, unsigned ops);
void weir__uring_close(struct weir__io *io, struct weir__io_sock *s, bool abort);
void weir__uring_end(struct weir__uring *d, struct weir__uring_sock *s, unsigned op, int code);
/* Closes the descriptor when nothing of the socket is armed or in the kernel any more. */
void weir__uring_settle(struct weir__uring *d, struct weir__uring_sock *s);
void weir__uring_forget(struct weir__uring *d, struct weir__uring_sock *s);

/* issue.c: requests */
void weir__uring_todo(struct weir__uring *d, struct weir__uring_sock *s, unsigned op);
void weir__uring_undo(struct weir__uring *d, struct weir__uring_sock *s, unsigned op);
/* Fills the ring from door.work and gives it to the kernel. 0 or a negative errno. */
int weir__uring_flush(struct weir__uring *d);

/* send.c */
int weir__uring_send(struct weir__io *io, struct weir__io_sock *s, const struct weir_chain *c);
int weir__uring_send_file(struct weir__io *io, struct weir__io_sock *s, struct weir_file *f,
                          uint64_t off, uint64_t n);
int weir__uring_send_dgram(struct weir__io *io, struct weir__io_sock *s,
                           const struct weir__io_message *m, unsigned n);
int weir__uring_send_fds(struct weir__io *io, struct weir__io_sock *s,
                         const struct weir__io_fds *m);
void weir__uring_prepare_send(struct weir__uring *d, struct weir__uring_sock *s,
                              struct uring_sqe *e);
void weir__uring_sent(struct weir__uring *d, struct weir__uring_sock *s, int res);
void weir__uring_send_clear(struct weir__uring_sock *s);

/* recv.c */
/* What a receive or an accept brought; true: *out is a completion. */
bool weir__uring_received(struct weir__uring *d, struct weir__uring_sock *s,
                          const struct uring_cqe *e, struct weir__io_done *out);
bool weir__uring_accepted(struct weir__uring *d, struct weir__uring_sock *s, int res,
                          struct weir__io_done *out);
/* What is parked, for an armed op. */
bool weir__uring_unpark(struct weir__uring *d, struct weir__uring_sock *s,
                        struct weir__io_done *out);

#endif
