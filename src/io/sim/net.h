/* What the files of this room share: the network's objects.
 *
 *   door --- sock --- file --- end === stream === end --- peer        file: what a handle names
 *                          \-- port (a listener or a bound datagram socket) */
#ifndef WEIR_IO_SIM_NET_H
#define WEIR_IO_SIM_NET_H
#include "base/list.h"
#include "base/rng.h"
#include "io/io.h"
#include "io/sim/heap.h"
#include "io/sim/sim.h"

struct weir__iosim_door;
struct weir__iosim_sock;
struct weir__iosim_file;
struct weir__iosim_stream;

enum { WEIR__IOSIM_DGRAMS_MAX = 256 };

enum weir__iosim_event_kind {
    WEIR__IOSIM_EV_SEGMENT,  /* stream: seg arrives at side */
    WEIR__IOSIM_EV_FIN,      /* stream: the end of input arrives at side */
    WEIR__IOSIM_EV_RESET,    /* stream: code arrives at side */
    WEIR__IOSIM_EV_WINDOW,   /* stream: side may send n more bytes */
    WEIR__IOSIM_EV_SYN,      /* stream: a connect reaches its address; n tries before */
    WEIR__IOSIM_EV_UP,       /* stream: side 0 hears the answer, code */
    WEIR__IOSIM_EV_DGRAM,    /* seg arrives where its route leads */
    WEIR__IOSIM_EV_TERMINAL, /* sock: op ends with code */
    WEIR__IOSIM_EV_CANCEL,   /* sock: the cancel of op's arm n lands */
    WEIR__IOSIM_EV_READY,    /* sock: held input shows up */
    WEIR__IOSIM_EV_CLOSED,   /* sock: is closed */
    WEIR__IOSIM_EV_READ,     /* peer: a slow reader's next sip */
    WEIR__IOSIM_EV_UNPIN,    /* sock: send number n lets go of its bytes */
};

struct weir__iosim_route {
    struct weir_addr from, to;
};

struct weir__iosim_seg { /* bytes on their way or unread */
    struct weir__iosim_seg *next;
    uint32_t n, off;                 /* data[off, n) is unread */
    struct weir__iosim_route *route; /* datagrams */
    struct weir__iosim_file **files; /* a message with handles; a reference each */
    uint32_t n_files;
    uint8_t data[];
};

enum weir__iosim_owner { WEIR__IOSIM_NOBODY, WEIR__IOSIM_SOCK, WEIR__IOSIM_PEER };

struct weir__iosim_end { /* one side of a stream */
    struct weir__iosim_stream *stream;
    uint8_t side;
    bool up, closed;
    enum weir__iosim_owner owner_kind;
    void *owner;
    struct weir__iosim_end *queue_next; /* in a port's backlog */
    struct weir_addr local;
    /* input */
    struct weir__iosim_seg *in, *in_last;
    uint64_t in_bytes;
    uint64_t parked; /* the first bytes of in that the kernel handed over already */
    bool in_fin;
    int error; /* reset or refused: after the bytes of in */
    /* output */
    uint64_t window, used;    /* used: on the way, unread there, or their credit on its way back */
    uint64_t transit;         /* on the way */
    uint64_t last_arrival_ns; /* order is kept within a direction */
    bool fin_sent;
};

struct weir__iosim_stream {
    struct weir__base_link link; /* in net->streams */
    struct weir__iosim_net *net;
    struct weir__iosim_end end[2]; /* 0 connected, 1 accepted */
    uint32_t events;               /* pending ones that name this stream */
};

struct weir__iosim_port {
    struct weir__base_link link; /* in net->ports */
    struct weir__iosim_net *net;
    struct weir_addr addr;
    bool datagram, reuse_port, gro;
    uint32_t backlog, queued;
    struct weir__iosim_end *queue, *queue_last; /* connections nobody accepted yet */
    struct weir__iosim_seg *dgrams, *dgrams_last;
    uint64_t last_arrival_ns;     /* of datagrams from here */
    struct weir__base_list socks; /* more than one after a hand-over */
    struct weir__iosim_peer *raw; /* a raw listener */
};

struct weir__iosim_file {
    uint32_t refs; /* handles, and messages on their way */
    struct weir__iosim_end *end;
    struct weir__iosim_port *port;
};

struct weir__iosim_content {
    struct weir__base_link link;
    const struct weir_file *file;
    const uint8_t *bytes;
    uint64_t n;
};

struct weir__iosim_net {
    struct weir_mem *mem;
    struct weir__iosim_options opt;
    struct weir__base_rng rng;
    uint64_t now_ns, seq, trace, serial;
    struct weir__iosim_heap events;
    struct weir__base_list streams, ports, peers, contents;
    struct weir__iosim_file **files; /* by handle - WEIR__IOSIM_HANDLE_MIN */
    uint32_t n_files, cap_files, handles;
    uint32_t doors, socks, leaked, names;
    uint16_t next_port;
    uint64_t faults[WEIR__IOSIM_FAULTS];
};

enum { WEIR__IOSIM_HANDLE_MIN = 3 };

/* net.c */
void *weir__iosim_alloc(struct weir__iosim_net *net, size_t n);
/* An array of pointers with room for one more than n. */
void *weir__iosim_room(struct weir__iosim_net *net, void *array, uint32_t n, uint32_t *cap);
void weir__iosim_fault(struct weir__iosim_net *net, enum weir__iosim_fault f);
bool weir__iosim_coin(struct weir__iosim_net *net, uint32_t one_in);
uint64_t weir__iosim_latency_ns(struct weir__iosim_net *net);
void weir__iosim_at(struct weir__iosim_net *net, uint64_t at_ns, struct weir__iosim_event e);
void weir__iosim_fold(struct weir__iosim_net *net, uint64_t v);
void weir__iosim_fold_bytes(struct weir__iosim_net *net, const uint8_t *p, size_t n);

/* file.c: handles and what they name */
struct weir__iosim_file *weir__iosim_file_new(struct weir__iosim_net *net,
                                              struct weir__iosim_end *end,
                                              struct weir__iosim_port *port);
bool weir__iosim_handles_full(struct weir__iosim_net *net);
/* Takes f. The caller asked weir__iosim_handles_full before. */
intptr_t weir__iosim_handle_new(struct weir__iosim_net *net, struct weir__iosim_file *f);
struct weir__iosim_file *weir__iosim_handle_file(struct weir__iosim_net *net, intptr_t handle);
void weir__iosim_file_unref(struct weir__iosim_net *net, struct weir__iosim_file *f, bool abort);
void weir__iosim_handle_close(struct weir__iosim_net *net, intptr_t handle, bool abort);
/* Bytes [off, off + n) of f as send_file sees them; returns how many are there. */
size_t weir__iosim_file_read(struct weir__iosim_net *net, const struct weir_file *f, uint64_t off,
                             uint8_t *out, size_t n);
/* Where f ends now, as far as anybody described it. */
uint64_t weir__iosim_file_bytes(struct weir__iosim_net *net, const struct weir_file *f);

/* stream.c */
struct weir__iosim_stream *weir__iosim_stream_new(struct weir__iosim_net *net);
void weir__iosim_stream_look(struct weir__iosim_stream *st); /* frees it when nothing holds it */
void weir__iosim_stream_event(struct weir__iosim_net *net, const struct weir__iosim_event *e);
struct weir__iosim_end *weir__iosim_end_other(struct weir__iosim_end *e);
struct weir__iosim_seg *weir__iosim_seg_new(struct weir__iosim_net *net, size_t n);
void weir__iosim_seg_free(struct weir__iosim_net *net, struct weir__iosim_seg *s);
/* How many of `left` bytes the next segment takes; 0: the window is full. */
size_t weir__iosim_end_cut(struct weir__iosim_end *e, uint64_t left);
void weir__iosim_end_put(struct weir__iosim_end *e, struct weir__iosim_seg *seg); /* takes seg */
void weir__iosim_end_fin(struct weir__iosim_end *e);
void weir__iosim_end_reset(struct weir__iosim_end *e,
                           enum weir__iosim_fault why); /* RST to the other side */
void weir__iosim_end_close(struct weir__iosim_end *e, bool abort);
size_t weir__iosim_end_take(struct weir__iosim_end *e, uint8_t *out, size_t n);
bool weir__iosim_end_park(
    struct weir__iosim_end *e); /* the kernel hands over some of in; true: something */
void weir__iosim_end_event(struct weir__iosim_end *to, uint64_t at_ns, struct weir__iosim_event e);
uint64_t weir__iosim_end_arrival_ns(struct weir__iosim_end *from, size_t n);

/* port.c */
int weir__iosim_port_new(struct weir__iosim_net *net, const struct weir__io_listen *o,
                         struct weir__iosim_port **out);
void weir__iosim_port_free(struct weir__iosim_port *p);
void weir__iosim_connect(struct weir__iosim_stream *st, const struct weir_addr *to);
void weir__iosim_syn(struct weir__iosim_stream *st, uint32_t tries);
struct weir__iosim_end *weir__iosim_port_pop(struct weir__iosim_port *p);
void weir__iosim_dgram_send(struct weir__iosim_port *from,
                            struct weir__iosim_seg *seg); /* takes seg */
void weir__iosim_dgram_arrive(struct weir__iosim_net *net, struct weir__iosim_seg *seg);

/* sock.c: ops and their endings */
enum weir__iosim_op {
    WEIR__IOSIM_OP_ACCEPT,
    WEIR__IOSIM_OP_CONNECT,
    WEIR__IOSIM_OP_RECV,
    WEIR__IOSIM_OP_SEND,
    WEIR__IOSIM_OPS,
};

struct weir__iosim_pin { /* a send whose bytes are still needed */
    struct weir__iosim_pin *next;
    uint32_t number;
    struct weir_chain chain; /* its parts; the owner may keep them elsewhere by now */
    uint64_t hash;           /* of its bytes: nobody may change them */
};

struct weir__iosim_sock {
    struct weir__io_sock base;
    struct weir__iosim_door *door;
    struct weir__iosim_file *file; /* NULL once closed */
    intptr_t handle;
    uint64_t serial;                  /* its name in the trace */
    struct weir__base_link door_link; /* in door->all */
    struct weir__base_link port_link; /* in port->socks */
    uint32_t ready_at, terminal_at;   /* place in the door's arrays + 1; 0 not there */
    /* bits 1 << op: armed until its last completion was yielded; then at most one of: cancelling
     * (the cancel has not landed), ending (the terminal is decided and on its way), ended (waits
     * for next) */
    uint8_t armed, cancelling, ending, ended;
    bool datagram, connected, shut, held, closing, abort, closed;
    bool send_failed; /* dead for writing; what the send met also ends receiving */
    int latched;      /* how receiving ended; 0: it did not */
    intptr_t *parked; /* handles a cancelled accept had been given */
    uint32_t n_parked, cap_parked;
    uint32_t events; /* pending ones that name this socket */
    uint32_t arm[WEIR__IOSIM_OPS];
    int code[WEIR__IOSIM_OPS];
    int64_t accept_credit, recv_credit;
    const struct weir_chain *send;
    const struct weir_file *send_file;
    uint64_t send_off, send_bytes, sent_bytes; /* of send_dgram: messages */
    const struct weir__io_fds *send_fds;
    struct weir__io_fds *recv_fds;
    size_t dgram_bytes_max;
    bool plain;         /* had a recv_arm */
    bool may_pin;       /* the send in flight */
    uint32_t zc_number; /* of the last send_zc */
    uint64_t zc_hash;
    struct weir__iosim_pin *pins, *unpinned; /* without their notice; notices for next */
};

int weir__iosim_sock_new(struct weir__iosim_door *d, struct weir__iosim_file *f, intptr_t handle,
                         void *user, struct weir__iosim_sock **out);
void weir__iosim_sock_free(struct weir__iosim_sock *s);
void weir__iosim_sock_forget(struct weir__iosim_sock *s); /* one its user never closed */
int weir__iosim_sock_arm(struct weir__iosim_sock *s, enum weir__iosim_op op); /* EGONE, EBUG */
void weir__iosim_sock_end(struct weir__iosim_sock *s, enum weir__iosim_op op, int code);
void weir__iosim_sock_end_later(struct weir__iosim_sock *s, enum weir__iosim_op op, int code);
void weir__iosim_sock_cancel(struct weir__iosim_sock *s, unsigned ops);
void weir__iosim_sock_close(struct weir__iosim_sock *s, bool abort);
void weir__iosim_sock_push(struct weir__iosim_sock *s); /* the send in flight goes on */
void weir__iosim_sock_look(struct weir__iosim_sock *s); /* is there something to receive? */
void weir__iosim_sock_hold(struct weir__iosim_sock *s); /* what is there may show up later */
void weir__iosim_sock_up(struct weir__iosim_sock *s, int code);
void weir__iosim_sock_event(const struct weir__iosim_event *e);
/* Yields one terminal of s, which has one. */
void weir__iosim_sock_yield(struct weir__iosim_sock *s, struct weir__io_done *out);
/* No buffer for a receive: false, for it is a terminal now. */
bool weir__iosim_sock_no_buffer(struct weir__iosim_sock *s);
/* How receiving ended at a stream whose input is all taken. */
int weir__iosim_sock_over(const struct weir__iosim_sock *s);
/* Yields one receive, accept or datagram; false: nothing was there after all. */
bool weir__iosim_sock_receive(struct weir__iosim_sock *s, struct weir__io_done *out);

static inline bool weir__iosim_sock_live(const struct weir__iosim_sock *s, enum weir__iosim_op op) {
    return (s->armed & ~s->ending & ~s->ended) >> op & 1;
}

/* message.c: datagrams, and messages with handles */
bool weir__iosim_dgram_one(struct weir__iosim_sock *s, struct weir__io_done *out);
int weir__iosim_dgrams_out(struct weir__iosim_sock *s, const struct weir__io_message *m,
                           unsigned n);
bool weir__iosim_fds_one(struct weir__iosim_sock *s);
/* false: the window is full. */
bool weir__iosim_fds_out(struct weir__iosim_sock *s, struct weir__iosim_end *e);

/* pin.c: zero-copy sends */
uint64_t weir__iosim_chain_hash(const struct weir_chain *c);
/* The send that has just ended may keep its bytes. */
void weir__iosim_pin(struct weir__iosim_sock *s, struct weir__io_done *out);
void weir__iosim_pin_event(struct weir__iosim_sock *s, uint32_t number);
void weir__iosim_pin_yield(struct weir__iosim_sock *s, struct weir__io_done *out);
void weir__iosim_pins_free(struct weir__iosim_sock *s);

/* door.c */
struct weir__iosim_door {
    struct weir__io io;
    struct weir__iosim_net *net;
    struct weir__base_rng entropy;
    uint32_t index, socks;
    uint64_t until_ns;
    bool started, woken, asleep;
    struct weir__base_list all;
    struct weir__iosim_sock **ready, **terminals; /* unordered: the seed picks */
    uint32_t n_ready, cap_ready, n_terminals, cap_terminals;
};

void weir__iosim_door_ready(struct weir__iosim_sock *s, bool yes);
void weir__iosim_door_terminal(struct weir__iosim_sock *s, bool yes);
void weir__iosim_door_free(struct weir__io *io);
int weir__iosim_door_start(struct weir__io *io);
int weir__iosim_door_wait(struct weir__io *io, uint64_t until_ns);
bool weir__iosim_door_next(struct weir__io *io, struct weir__io_done *out);
void weir__iosim_door_wake(struct weir__io *io);
uint64_t weir__iosim_door_now(struct weir__io *io);
uint64_t weir__iosim_door_entropy(struct weir__io *io);

/* ops.c */
extern const struct weir__io_ops weir__iosim_ops;

/* peer.c */
void weir__iosim_peer_in(struct weir__iosim_peer *p);
void weir__iosim_peer_out(struct weir__iosim_peer *p);
void weir__iosim_peer_up(struct weir__iosim_peer *p, int code);
void weir__iosim_peer_sip(struct weir__iosim_peer *p);
void weir__iosim_peer_queue(struct weir__iosim_peer *listener, struct weir__iosim_end *e);
void weir__iosim_peers_free(struct weir__iosim_net *net);

#endif
