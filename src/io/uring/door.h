/* The io_uring door.
 *
 * What the owner wants and what the kernel does are separate words of a socket. Ops go, seen from
 * above, like at every door (io/kernel), and below, one request per op and socket at most:
 *
 *      none --- todo ---> entry in the ring (kernel) --- its last completion ---> none
 *
 * A receive that is cancelled ends above at once; its request stays in the kernel, and what it
 * brings is parked until the next arm. One that would bring more and more is cancelled below when
 * it brings something that nobody waits for. Connections are not taken from a backlog that nobody
 * serves: a cancelled accept is cancelled below too, ends when the kernel says so, and connections
 * that were quicker are parked. The descriptor is closed when the kernel has no request of the
 * socket any more, and no bytes of it. */
#ifndef WEIR_IO_URING_DOOR_H
#define WEIR_IO_URING_DOOR_H
#include "base/footprint.h"
#include "io/kernel/kernel.h"
#include "io/uring/buffers.h"
#include "io/uring/uring.h"
#include <sys/socket.h>
#include <sys/uio.h>

enum {
    WEIR__URING_ACCEPTS = 16, /* taken at once, per request that brought one */
    WEIR__URING_MSGS = 64,    /* gathers between two entries into the kernel */
    WEIR__URING_IOVS = 1024,
};

/* Kinds of tokens beside the op bits. */
enum {
    WEIR__URING_BELL_KIND = 64,
    WEIR__URING_ZC_KIND = 128, /* a zero-copy send: plus its number */
};
/* Token of the poll on the eventfd; cancels have 0. */
#define WEIR__URING_BELL ((uint64_t)WEIR__URING_BELL_KIND << 56)

/* In the door's word of a socket. */
enum weir__uring_flag {
    WEIR__URING_FULL = 1,    /* the socket took nothing last time: poll before the next send */
    WEIR__URING_EMPTY = 2,   /* it had nothing last time: poll before the next receive */
    WEIR__URING_STOP = 4,    /* the send, or accept, in flight is to be cancelled */
    WEIR__URING_POLLED = 8,  /* the receive in the kernel is a poll */
    WEIR__URING_MULTI = 16,  /* the receive in the kernel goes on and on */
    WEIR__URING_FLOODS = 32, /* it had more than a buffer takes: a request per piece */
    WEIR__URING_TOLD = 64,   /* its owner knows how receiving ended */
};

/* Connections that came when nobody waited. */
struct weir__uring_strays {
    unsigned n, n_max;
    int fds[];
};

struct weir__uring_pins;

struct weir__uring_sock {
    struct weir__kernel_sock k;
    uint8_t todo, cancel, kernel; /* to be submitted, to be cancelled, in the kernel */
    union {
        uint8_t accepts; /* of a listener: taken since a request brought one */
        uint8_t batch;   /* the one that brought something last */
    };
    int over_code; /* how receiving ended, for good */
    union {
        struct weir_chain parked;          /* received while nobody waited */
        struct weir__uring_strays *strays; /* of a listener */
    };
    struct weir__uring_pins *pins;      /* of zero-copy sends; NULL before the first */
    struct weir__base_link ready, work; /* parked things for an arm; something to submit */
};
_Static_assert(sizeof(struct weir__uring_sock) <= WEIR__IDLE_URING_SOCKET, "see base/footprint.h");

/* What gathers need until the kernel has taken their entries. */
struct weir__uring_vectors {
    unsigned n_msgs, n_iovs;
    struct msghdr msgs[WEIR__URING_MSGS];
    struct iovec iovs[WEIR__URING_IOVS];
};

struct weir__uring {
    struct weir__kernel k;
    struct weir__uring_ring ring;
    struct weir__uring_buffers buffers;
    unsigned has; /* of enum weir__uring_feature */
    struct weir__base_list ready, work;
    bool bell_armed, broken, started;
    int failed;    /* what a system call between two waits said */
    bool brought;  /* the last system call let completions in: it may have stopped short */
    uint8_t batch; /* number of the completions that the last system call let in */
    struct weir__uring_vectors vectors;
};

static inline struct weir__uring *weir__uring_of(struct weir__io *io) {
    return container_of(io, struct weir__uring, k.io);
}

static inline struct weir__uring_sock *weir__uring_sock_of(struct weir__io_sock *s) {
    return container_of(s, struct weir__uring_sock, k.base);
}

static inline bool weir__uring_armed(const struct weir__uring_sock *s, unsigned op) {
    return weir__kernel_armed(&s->k) & op;
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
/* Something is parked for an armed op. */
void weir__uring_ready(struct weir__uring *d, struct weir__uring_sock *s);

/* issue.c: requests */
void weir__uring_todo(struct weir__uring *d, struct weir__uring_sock *s, unsigned op);
void weir__uring_undo(struct weir__uring *d, struct weir__uring_sock *s, unsigned op);
/* Gives the kernel what buffers it should have. false: it has none, and there is no memory. */
bool weir__uring_refill(struct weir__uring *d);
/* Fills the ring from door.work, which hands over what is there when the ring is full. What does
 * not fit stays. 0 or a negative errno. */
int weir__uring_fill(struct weir__uring *d);
/* Gives the kernel what the ring holds, and sleeps as ring_enter does. */
int weir__uring_enter(struct weir__uring *d, int64_t timeout_ns);

/* send.c */
int weir__uring_send(struct weir__io *io, struct weir__io_sock *s, const struct weir_chain *c);
int weir__uring_send_zc(struct weir__io *io, struct weir__io_sock *s, const struct weir_chain *c);
int weir__uring_send_file(struct weir__io *io, struct weir__io_sock *s, struct weir_file *f,
                          uint64_t off, uint64_t n);
int weir__uring_send_dgram(struct weir__io *io, struct weir__io_sock *s,
                           const struct weir__io_message *m, unsigned n);
int weir__uring_send_fds(struct weir__io *io, struct weir__io_sock *s,
                         const struct weir__io_fds *m);
/* false: there is no room for its vectors now. */
bool weir__uring_prepare_send(struct weir__uring *d, struct weir__uring_sock *s,
                              struct uring_sqe *e);
void weir__uring_sent(struct weir__uring *d, struct weir__uring_sock *s, int res);
/* After the last of a send was pulled. */
void weir__uring_send_clear(struct weir__uring_sock *s);

/* recv.c */
/* What a receive brought; true: *out is a completion. */
bool weir__uring_received(struct weir__uring *d, struct weir__uring_sock *s,
                          const struct uring_cqe *e, struct weir__io_done *out);
/* An armed receive ends with the end of the stream. */
void weir__uring_end_over(struct weir__uring *d, struct weir__uring_sock *s);
/* What is parked, for an armed receive. */
bool weir__uring_unpark(struct weir__uring *d, struct weir__uring_sock *s,
                        struct weir__io_done *out);

/* accept.c */
bool weir__uring_accepted(struct weir__uring *d, struct weir__uring_sock *s, int res,
                          struct weir__io_done *out);
/* A stray, or what a look at the listener finds, for an armed accept. */
bool weir__uring_accept_more(struct weir__uring *d, struct weir__uring_sock *s,
                             struct weir__io_done *out);
void weir__uring_drop_strays(struct weir__uring_sock *s);

#endif
