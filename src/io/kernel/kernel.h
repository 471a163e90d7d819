/* What the two doors to the kernel share: the words of a socket, how an op ends, and everything
 * that is one system call. They differ in how they learn that something can be done, and in who
 * does it.
 *
 * An op of a socket is one bit and goes through three states, held in two words:
 *
 *      free -- submit --> armed (busy) -- ends --> ended (busy + ended) -- next() --> free
 *
 * so "armed" is busy & ~ended, and a second submit is refused until the first one's terminal has
 * been pulled. */
#ifndef WEIR_IO_KERNEL_KERNEL_H
#define WEIR_IO_KERNEL_KERNEL_H
#include "base/compiler.h"
#include "base/list.h"
#include "io/io.h"
#include "mem/chain.h"
#include "os/dgram.h"

enum { WEIR__KERNEL_FILE_STEP = 256 * 1024 }; /* bytes of a file per go */

/* Bits behind enum weir__io_op in busy and ended, so that they end later, in this order. */
enum { WEIR__KERNEL_UNPINNED = 32, WEIR__KERNEL_CLOSED = 64 };

enum weir__kernel_flag {
    WEIR__KERNEL_LISTENER = 1,
    WEIR__KERNEL_DGRAM = 2,
    WEIR__KERNEL_FOREIGN = 4,   /* watched: the descriptor is not ours */
    WEIR__KERNEL_APART = 8,     /* not connected (yet) */
    WEIR__KERNEL_SHUT = 16,     /* our side has ended its stream */
    WEIR__KERNEL_FAILED = 32,   /* a send failed: nothing more can be sent */
    WEIR__KERNEL_OVER = 64,     /* receiving has ended for good, with recv_code */
    WEIR__KERNEL_RESET = 128,   /* closing is an abort */
    WEIR__KERNEL_FDS_IN = 256,  /* the receive that is armed is a recv_fds */
    WEIR__KERNEL_FDS_OUT = 512, /* the send in flight is a send_fds */
    WEIR__KERNEL_FILE = 1024,   /* the send in flight is a send_file */
    WEIR__KERNEL_DOOR = 2048,   /* from here on the door's own */
    WEIR__KERNEL_NO_STREAM = WEIR__KERNEL_LISTENER | WEIR__KERNEL_DGRAM | WEIR__KERNEL_FOREIGN |
                             WEIR__KERNEL_APART,
    WEIR__KERNEL_NO_SEND = WEIR__KERNEL_NO_STREAM | WEIR__KERNEL_SHUT | WEIR__KERNEL_FAILED,
};

/* What a datagram socket received and nobody pulled yet: the i-th at buf + i * stride. */
struct weir__kernel_inbox {
    struct weir_slice buf;
    size_t stride, bytes_max; /* bytes_max: of the present arm */
    unsigned at, n;
    bool ip;
    struct weir__os_dgram got[WEIR__OS_DGRAMS_MAX];
};

/* Doors put this first in their own socket struct. */
struct weir__kernel_sock {
    struct weir__io_sock base;
    int fd;
    uint32_t door; /* the door's own: what epoll reports of it, flags of io_uring */
    uint16_t flags;
    uint8_t busy, ended;
    int code, recv_code, send_code; /* of ended ops; code: accept, connect, watch */
    int64_t credit;                 /* receive: bytes; accept: connections; watch: events */
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
        struct weir__kernel_inbox *inbox; /* of a datagram socket */
        struct weir__io_fds *fds_in;
    };
    struct weir__base_fifo_link done;
};

/* Doors put this first in their own door struct. */
struct weir__kernel {
    struct weir__io io;
    struct weir__base_fifo done; /* sockets with ended ops */
    struct weir_slice hot;       /* the receive buffer, whole; used: bytes handed out of it */
    size_t used;
    int bell; /* an eventfd that is never read: each ring is an event of its own */
    unsigned n_entropy;
    uint64_t entropy[16];
};

static inline struct weir__kernel *weir__kernel_of(struct weir__io *io) {
    return container_of(io, struct weir__kernel, io);
}

static inline struct weir__kernel_sock *weir__kernel_sock_of(struct weir__io_sock *s) {
    return container_of(s, struct weir__kernel_sock, base);
}

static inline unsigned weir__kernel_armed(const struct weir__kernel_sock *s) {
    return s->busy & ~(unsigned)s->ended;
}

/* Why `op` is refused now; `never`: flags under which it is outside the contract. 0: it is not. */
static inline int weir__kernel_refused(const struct weir__kernel_sock *s, unsigned op,
                                       unsigned never) {
    if (likely(!(s->busy & (WEIR__KERNEL_CLOSED | op)) && !(s->flags & never)))
        return 0;
    if (s->busy & WEIR__KERNEL_CLOSED)
        return WEIR_EGONE;
    if (s->busy & op || !(s->flags & never & WEIR__KERNEL_FAILED))
        return WEIR_EBUG;
    return WEIR_ERESET;
}

/* --- sock.c: life ---------------------------------------------------------------------------- */

/* The common part of a door whose struct is zeroed: its bell and its first numbers. 0 or a negative
 * errno with *why; _fini in either case. */
int weir__kernel_init(struct weir__kernel *k, const char **why);
void weir__kernel_fini(struct weir__kernel *k);
/* A zeroed door's socket of `bytes`. fd stays the caller's on failure: ENOMEM. */
int weir__kernel_sock_new(struct weir__kernel *k, size_t bytes, int fd, unsigned flags, void *user,
                          struct weir__kernel_sock **out);
/* Frees the socket; its descriptor must be closed. */
void weir__kernel_forget(struct weir__kernel *k, struct weir__kernel_sock *s);
/* The same of a socket that the end of a broken door finds: its descriptor goes too. */
void weir__kernel_abandon(struct weir__kernel *k, struct weir__kernel_sock *s);
/* The three ways to begin, each a socket of `bytes` in *out, or an error. `flags`: the door's own.
 * connect answers whether it goes on: 1; 0: *ended says how it ended at once. */
int weir__kernel_listen(struct weir__kernel *k, size_t bytes, const struct weir__io_listen *o,
                        void *user, struct weir__kernel_sock **out);
int weir__kernel_connect(struct weir__kernel *k, size_t bytes, unsigned flags,
                         const struct weir__io_connect *o, void *user,
                         struct weir__kernel_sock **out, int *ended);
/* An armed op ends with this code. */
void weir__kernel_end(struct weir__kernel *k, struct weir__kernel_sock *s, unsigned op, int code);
/* The first ended op of the first socket with one becomes *out. Returns the socket: one that is
 * CLOSED is the door's to forget. */
struct weir__kernel_sock *weir__kernel_yield(struct weir__kernel *k, struct weir__io_done *out);
/* Closes the descriptor, if it is ours, as the socket's flags say. */
void weir__kernel_close_fd(struct weir__kernel_sock *s);
/* What is parked of datagrams goes. */
void weir__kernel_drop_inbox(struct weir__kernel_sock *s);
/* What an end of the stream is called: a send that met the socket's error has had it, and nobody
 * else will. */
int weir__kernel_eof_code(const struct weir__kernel_sock *s);

/* --- ops.c: the synchronous ops, as both doors have them -------------------------------------- */

void weir__kernel_drop(struct weir__io *io, intptr_t handle);
int weir__kernel_shutdown(struct weir__io *io, struct weir__io_sock *s);
int weir__kernel_set_crypto(struct weir__io *io, struct weir__io_sock *s,
                            const struct weir__io_crypto *keys);
int weir__kernel_local(struct weir__io *io, struct weir__io_sock *s, struct weir_addr *out);
int weir__kernel_peer(struct weir__io *io, struct weir__io_sock *s, struct weir_addr *out);
int64_t weir__kernel_unsent(struct weir__io *io, struct weir__io_sock *s);
intptr_t weir__kernel_handle(struct weir__io *io, struct weir__io_sock *s);
int weir__kernel_queued(struct weir__io *io, struct weir__io_sock *s);
void weir__kernel_wake(struct weir__io *io);
uint64_t weir__kernel_now(struct weir__io *io);
uint64_t weir__kernel_entropy(struct weir__io *io);
/* How long a wait until then may sleep: -1 for ever, 0 not at all. */
int64_t weir__kernel_timeout(uint64_t until_ns);

/* --- pump.c: sends that are system calls ------------------------------------------------------ */

enum { WEIR__KERNEL_BLOCKED = 1, WEIR__KERNEL_YIELDS = 2 }; /* answers of a pump beside codes */

/* Counts a send as over, and what it sent. */
WEIR_INLINE void weir__kernel_count_sent(struct weir__kernel *k, uint64_t bytes) {
    weir__io_count(&k->io.stats.sends, 1);
    weir__io_count(&k->io.stats.sent_bytes, bytes);
}
/* Begins a send of `total`. */
void weir__kernel_send_begin(struct weir__kernel_sock *s, const struct weir_part *first,
                             uint64_t total);
/* n bytes of the chain in flight are gone. */
void weir__kernel_advance(struct weir__kernel_sock *s, size_t n);
/* Lets go of what a send kept. */
void weir__kernel_send_clear(struct weir__kernel_sock *s);
/* Whether a send of c is outside the contract by its size. */
static inline bool weir__kernel_outside(const struct weir_chain *c) {
    return c->bytes == 0 || c->bytes > WEIR__IO_SEND_BYTES_MAX;
}
/* The chain c in one system call: bytes, a negative errno, or WEIR__KERNEL_ODD when it has too many
 * parts or a file region. */
#define WEIR__KERNEL_ODD ((ssize_t)INT32_MIN)
ssize_t weir__kernel_send_chain(int fd, const struct weir_chain *c);
/* Goes on with the send of datagrams, handles or a file. 0 or an error: it is over; BLOCKED: the
 * rest waits for room; YIELDS: the socket takes more, but others should have their turn. */
int weir__kernel_pump(struct weir__kernel *k, struct weir__kernel_sock *s);
/* Submits of those; they answer an error, or 0 and the door pumps. */
int weir__kernel_send_file(struct weir__kernel_sock *s, struct weir_file *f, uint64_t off,
                           uint64_t n);
int weir__kernel_send_dgram(struct weir__kernel_sock *s, const struct weir__io_message *m,
                            unsigned n);
int weir__kernel_send_fds(struct weir__kernel_sock *s, const struct weir__io_fds *m);

/* --- take.c: receives that are system calls --------------------------------------------------- */

/* A fresh receive buffer; false: no memory (counted). */
bool weir__kernel_new_hot(struct weir__kernel *k);
/* Makes room for at least that many bytes at k->used. When nobody holds a slice of the buffer any
 * more it is used again from its start, so that a loop which consumes what it gets allocates
 * nothing and stays in the cache. */
WEIR_INLINE bool weir__kernel_room(struct weir__kernel *k, size_t least) {
    if (likely(weir__mem_buf_exclusive(k->hot))) {
        k->used = 0;
        return true;
    }
    return k->hot.n - k->used >= least || weir__kernel_new_hot(k);
}
/* Receives as many datagrams as the buffer holds. > 0: there are some; else a negative errno, or
 * -ENOMEM with no buffer. */
int weir__kernel_fill_inbox(struct weir__kernel *k, struct weir__kernel_sock *s);
/* The next datagram of the inbox, which has one. */
void weir__kernel_take_dgram(struct weir__kernel *k, struct weir__kernel_sock *s,
                             struct weir__io_done *out);
/* One message with handles into s->fds_in: 0, WEIR__IO_EOF, an error, or WEIR__KERNEL_AGAIN. */
#define WEIR__KERNEL_AGAIN INT32_MIN
int weir__kernel_take_fds(struct weir__kernel *k, struct weir__kernel_sock *s);

#endif
