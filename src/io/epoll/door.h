/* The epoll door: readiness turned into completions (io/kernel has what is common to the doors).
 *
 * What the kernel is asked to report (the door's word of a socket) follows lazily: it grows when an
 * op needs it, and shrinks only when an event came that nobody wanted. */
#ifndef WEIR_IO_EPOLL_DOOR_H
#define WEIR_IO_EPOLL_DOOR_H
#include "base/compiler.h"
#include "base/footprint.h"
#include "io/kernel/kernel.h"
#include <sys/epoll.h>

enum {
    WEIR__EPOLL_EVENTS = 256,         /* per wait */
    WEIR__EPOLL_AGAIN = 64,           /* receives per wait beyond one per event */
    WEIR__EPOLL_ACCEPTS = 16,         /* per event of a listener */
    WEIR__EPOLL_REST_MIN = 16 * 1024, /* a receive buffer with less room left is given up */
};

enum weir__epoll_flag { /* of a socket, beside the common ones */
                        WEIR__EPOLL_EDGE = WEIR__KERNEL_DOOR, /* registered edge-triggered */
                        WEIR__EPOLL_REGISTERED = WEIR__KERNEL_DOOR
                                                 << 1, /* known to epoll, perhaps with no events */
                        WEIR__EPOLL_READABLE = WEIR__KERNEL_DOOR
                                               << 2, /* edge: not known to be drained */
                        WEIR__EPOLL_ENDING = WEIR__KERNEL_DOOR
                                             << 3, /* RDHUP, HUP or ERR was seen: short is not
                                                        drained */
                        WEIR__EPOLL_GO_ON = WEIR__KERNEL_DOOR
                                            << 4, /* the file send gave way to others and is not
                                                        blocked */
};
_Static_assert((int)WEIR__EPOLL_GO_ON <= UINT16_MAX, "flags are 16 bits");

struct weir__epoll_sock {
    struct weir__kernel_sock k; /* its word: what epoll reports of it */
    struct weir__base_link again;
};
_Static_assert(sizeof(struct weir__epoll_sock) <= WEIR__IDLE_SOCKET, "see base/footprint.h");

struct weir__epoll {
    struct weir__kernel k;
    int ep;
    bool edge, defer, broken;
    uint32_t heeded;        /* not so: events that an edge-triggered socket always shows */
    int at, n;              /* the next of n events */
    unsigned accepts, goes; /* accepted of the present event; second goes left in this wait */
    struct weir__base_list again;
    struct epoll_event events[WEIR__EPOLL_EVENTS];
};

static inline struct weir__epoll *weir__epoll_of(struct weir__io *io) {
    return container_of(io, struct weir__epoll, k.io);
}

static inline struct weir__epoll_sock *weir__epoll_sock_of(struct weir__io_sock *s) {
    return container_of(s, struct weir__epoll_sock, k.base);
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
 * the list of what has ended. */
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

#endif
