/* Channels and handlers: one connection, a pipeline of handlers, bytes in both directions.
 *
 * Pointers (chan, ctx) are used on their loop's thread only; a weir_ref on any thread.
 * "takes x": on >= 0 the callee owns x and has emptied it; on < 0 x is untouched. */
#ifndef WEIR_CHAN_H
#define WEIR_CHAN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "weir/loop.h"
#include "weir/mem.h"
#include "weir/socket.h"
#ifdef __cplusplus
extern "C" {
#endif

struct weir_chan;
struct weir_ctx; /* one handler's place in one channel's pipeline */
struct weir_server;

enum weir_close {
    WEIR_DRAIN, /* stop reading, send what is accepted, shut down, wait (bounded) for the peer,
                   close */
    WEIR_ABORT, /* close now; the peer sees a reset */
};

enum weir_event {
    WEIR_EVENT_IDLE = 1,      /* no bytes for idle_ms; the channel closes with EIDLE unless somebody
                             calls weir_chan_touch */
    WEIR_EVENT_DRAIN = 2,     /* an orderly close begins; the last moment to send, or to hold */
    WEIR_EVENT_IDLE_READ = 3, /* no bytes from the peer for read_idle_ms; again after each further
                                  one. Only told */
    WEIR_EVENT_IDLE_WRITE = 4, /* the transport took no bytes for write_idle_ms; as IDLE_READ */
    WEIR_EVENT_USER = 1000,
};

struct weir_handler {
    const char *name;  /* the name in statistics and reports */
    size_t state_size; /* zeroed per channel; 0 = shareable */
    /* The channel is open. < 0 closes it with that reason. */
    int (*open)(struct weir_ctx *c, const void *config);
    /* Bytes. Take from the front of in; what is left is kept, counted, and offered again on more
     * bytes, credit, wake, or when this channel is writable again. Leaving at least what
     * weir_ctx_want asked for pauses the socket. < 0 closes with that reason. */
    int (*read)(struct weir_ctx *c, struct weir_chain *in);
    /* The end of this channel's read batch; its flush follows. */
    void (*read_done)(struct weir_ctx *c);
    /* The peer sends no more, and every byte was taken. clean false: the stream ended inside
     * something (bytes below want were dropped). A handler without it passes it on; when the last
     * one returned the channel drains and closes, unless half_open was chosen. */
    void (*eof)(struct weir_ctx *c, bool clean);
    /* Outbound filter: pass on with weir_ctx_send(c, ...). Takes out. */
    int (*write)(struct weir_ctx *c, struct weir_chain *out);
    /* Nothing is in flight and `room` bytes are wanted: send now, may overshoot by one unit. Bytes
     * sent; 0: nothing more to pull until weir_ctx_ready; < 0 closes. */
    int64_t (*pull)(struct weir_ctx *c, uint64_t room);
    /* yes false: the output is at its high mark; true: below its low mark again. Never from inside
     * a send. */
    void (*writable)(struct weir_ctx *c, bool yes);
    void (*event)(struct weir_ctx *c, int what, const void *data);
    /* Exactly once, last; why is 0 or the error that ended the channel. */
    void (*close)(struct weir_ctx *c, int why);
};

void *weir_ctx_state(struct weir_ctx *c);
struct weir_mem *weir_ctx_mem(struct weir_ctx *c);
struct weir_chan *weir_ctx_chan(struct weir_ctx *c);
struct weir_loop *weir_ctx_loop(struct weir_ctx *c);
/* Bytes to the next handler that reads. Takes in: >= 0 once taken, whatever that handler does (its
 * error closes the channel); c stays valid until its close. EGONE: the channel is closing. */
int weir_ctx_forward(struct weir_ctx *c, struct weir_chain *in);
/* Bytes towards the socket, flushed at the end of the read batch or in the next drain. Takes out,
 * also beyond the high mark: that one is for whoever asks weir_ctx_room or has `writable`, and
 * stops the reading. EFULL: over held_max; EGONE: closing. */
int weir_ctx_send(struct weir_ctx *c, struct weir_chain *out);
/* Bytes until the high mark; <= 0: stop, writable(true) will come. */
int64_t weir_ctx_room(const struct weir_ctx *c);
/* No read below this many bytes (0 and 1: any). Holds until changed. */
void weir_ctx_want(struct weir_ctx *c, size_t bytes);
/* Offer my leftover input again, soon. */
void weir_ctx_wake(struct weir_ctx *c);
/* I have something to pull. */
void weir_ctx_ready(struct weir_ctx *c);
/* While any handler holds, a draining channel stays writable: what was accepted is still being
 * answered. Counted; the drain deadline bounds it. */
void weir_ctx_hold(struct weir_ctx *c);
void weir_ctx_unhold(struct weir_ctx *c);
/* For a pull handler that is a filter: asks the next one towards the tail. As pull. */
int64_t weir_ctx_pull(struct weir_ctx *c, uint64_t room);
/* Sends an event to the handlers behind c (towards the tail) that have `event`. */
void weir_ctx_notify(struct weir_ctx *c, int what, const void *data);
/* Puts h behind c (towards the tail) and opens it. ENOMEM, EGONE, or open's error (then it is not
 * in). */
int weir_ctx_insert_next(struct weir_ctx *c, const struct weir_handler *h, const void *config);
/* Takes c out: its leftover input goes to the next reader, its close is called with 0; c is invalid
 * from then on. Nothing happens from inside its own open or close. */
void weir_ctx_remove(struct weir_ctx *c);

struct weir_loop *weir_chan_loop(const struct weir_chan *ch);
/* Read credit: 0 pauses, -1 unlimited (the start), n: deliver at most n more bytes. */
void weir_chan_credit(struct weir_chan *ch, int64_t bytes);
/* Hands queued bytes to the transport now if nothing is in flight. Seldom needed: batches and
 * drains flush. */
void weir_chan_flush(struct weir_chan *ch);
/* No more output: what is queued is sent, then the write side closes. Input goes on. */
void weir_chan_shutdown(struct weir_chan *ch);
void weir_chan_close(struct weir_chan *ch, enum weir_close how);
/* As close(WEIR_DRAIN), with a reason for the handlers' close. */
void weir_chan_fail(struct weir_chan *ch, int why);
/* Go on reading while the output is above its high mark, from now on, or not; see struct
 * weir_limits. For the side of a protocol that must take answers to be able to send: two ends that
 * both stop wait for each other for ever. Clients begin with yes. */
void weir_chan_read_while_full(struct weir_chan *ch, bool yes);
/* Counts as activity for idle_ms. */
void weir_chan_touch(struct weir_chan *ch);
/* read_idle_ms from now on; 0: off. */
void weir_chan_read_idle(struct weir_chan *ch, uint32_t ms);
struct weir_ref weir_chan_ref(const struct weir_chan *ch);
/* The channel of a ref of this loop; NULL: gone. Loop. */
struct weir_chan *weir_chan_find(struct weir_loop *l, struct weir_ref r);
/* The text form of an end's address, terminated, cut to cap. 0 or an error. Behind a proxy that
 * told them (weir/proxy.h) they are the client's; weir_chan_proxy_peer is always the socket's other
 * end. */
int weir_chan_local(struct weir_chan *ch, char *text, size_t cap);
int weir_chan_peer(struct weir_chan *ch, char *text, size_t cap);
int weir_chan_proxy_peer(struct weir_chan *ch, char *text, size_t cap);
/* The first context of the pipeline (next to the socket), for programs that drive a channel from
 * outside its handlers. */
struct weir_ctx *weir_chan_head(struct weir_chan *ch);
/* The context of the handler with this address, or NULL. */
struct weir_ctx *weir_chan_ctx(struct weir_chan *ch, const struct weir_handler *h);

struct weir_chan_counters { /* bytes; file regions count their length */
    uint64_t staged, queued, inflight;
    uint64_t pinned;   /* sent without a copy, and still read by the transport */
    uint64_t held;     /* capacity of the buffers behind them */
    uint64_t leftover; /* input that handlers left */
};
void weir_chan_counters(const struct weir_chan *ch, struct weir_chan_counters *out);
/* Body or stream bytes accepted from the application and not framed yet; delta may be negative. For
 * codecs that queue before framing. */
void weir_ctx_stage(struct weir_ctx *c, int64_t delta);

/* Sends from any thread, in each thread's order. Shares and takes out. EGONE: dead now; ENOMEM. A
 * ref that dies on the way: dropped, counted. */
int weir_send(struct weir_ref r, struct weir_chain *out);
/* Closes from any thread. EGONE: dead now. Never fails for want of memory. */
int weir_close(struct weir_ref r, enum weir_close how);

struct weir_stage { /* one handler of a pipeline, socket side first; config outlives the server or
                       channel */
    const struct weir_handler *handler;
    const void *config;
};

struct weir_limits {                /* 0 in a field: the default in the comment */
    uint32_t high_bytes, low_bytes; /* output marks: 64 KiB, half of high */
    uint32_t held_max;              /* memory behind one channel's output: 16 MiB */
    uint32_t batch_bytes; /* most bytes in flight: starts at 64 KiB, grows to 256 KiB; a value fixes
                             it */
    /* A flight of at least so many bytes is sent without a copy where the transport can: io_uring,
     * from 32 KiB on, to another machine (the loopback always copies). At most batch_bytes; 0: off.
     * Its memory stays pinned, and counts as held, until the peer has acknowledged it; more than
     * half of held_max is never pinned, the rest is copied. 64 KiB is a start; what is smaller
     * costs more for the notice than the copy would. */
    uint32_t zero_copy_bytes;
    uint32_t idle_ms; /* no bytes either way: an IDLE event, then close with EIDLE; off */
    uint32_t read_idle_ms, write_idle_ms; /* IDLE_READ and IDLE_WRITE events; off */
    uint32_t linger_ms;   /* after the last byte was sent: wait for the peer's end: 1000 */
    uint32_t drain_ms;    /* a DRAIN close may take: 5000 */
    uint32_t offload_max; /* jobs of one channel that are out (weir/job.h): 64 */
    bool read_while_full; /* go on reading while the output is above its high mark */
    bool half_open;       /* the peer's end of stream does not close this side */
};

struct weir_server_options {
    size_t size;
    const char *address; /* "127.0.0.1:9988", "[::]:80", ":0", "unix:/path" */
    const struct weir_stage *stages;
    unsigned n_stages;
    const int *fds; /* inherited listeners (hot upgrade) instead of address: number i goes to loop i
                       modulo loops */
    unsigned n_fds;
    int backlog; /* 4096 */
    bool join;   /* share the address with another process */
    enum weir_placement placement;
    bool steer; /* REUSEPORT, pinned, at most one loop per CPU: a connection goes to the loop of the
                   CPU that received it */
    struct weir_socket_options socket; /* of the listeners, and so of what they accept */
    struct weir_limits limits;
};

/* Opens one listener per loop; they accept once the group runs. A unix path has one, on loop 0; its
 * file stays when the server ends, and one whose owner is gone is replaced. The server belongs to
 * the group. Before start, where an address in use is tried for a second; or later on any thread
 * but a loop's, where it is tried once, because loop 0 waits. Takes the fds (on < 0 some of them
 * may be closed). EINVAL (weir_server_why says what), ESOCKOPT (a socket option was refused),
 * ENOTSUP (steer, where the transport has no kernel), EINUSE (someone else listens and join is
 * off), ENOMEM, EFDS, ESTOPPED, ESYS. */
int weir_serve(struct weir_group *g, const struct weir_server_options *o, struct weir_server **out);
/* The address it listens on, with the port the kernel chose. Lives as long as the server. */
const char *weir_server_address(const struct weir_server *s);
/* Why the last weir_serve on this group failed, for people; "" when it did not. */
const char *weir_server_why(const struct weir_group *g);

struct weir_client_options {
    size_t size;
    const char *address;
    const struct weir_stage *stages;
    unsigned n_stages;
    uint32_t connect_ms; /* 0: 10,000 */
    /* Stop reading while the output is above its high mark, as servers do. Off, since a client and
     * a server that both stop wait for each other for ever; on for a client that answers what it
     * reads, such as a proxy. limits.read_while_full says nothing here. */
    bool stop_while_full;
    struct weir_socket_options socket;
    struct weir_limits limits;
};

/* Connects. fn is called exactly once, never from inside this call: (channel, 0) after its handlers
 * opened, or (NULL, why): EREFUSED, ETIMEDOUT, EUNREACH, EFDS, ESTOPPED ... Loop. < 0: refused now,
 * fn is not called: EINVAL, ENOMEM, EFDS, ESTOPPED (the loop drains). */
int weir_connect(struct weir_loop *l, const struct weir_client_options *o,
                 void (*fn)(struct weir_chan *ch, int status, void *user), void *user);

/* A channel with no socket, for testing handlers: push bytes in, read what comes out, turn the
 * clock. */
struct weir_embedded;
/* ENOMEM, or the error a handler's open gave (then out is NULL). Runs on the calling thread, which
 * becomes its loop. */
int weir_embedded_new(const struct weir_stage *stages, unsigned n_stages,
                      const struct weir_limits *limits, struct weir_embedded **out);
struct weir_chan *weir_embedded_chan(struct weir_embedded *e);
/* Bytes arrive; everything due runs. EGONE: it is closed. ENOMEM. */
int weir_embedded_push(struct weir_embedded *e, const void *data, size_t n);
void weir_embedded_eof(struct weir_embedded *e);
/* Lets a handler's sends complete only when asked (true), or at once (false, the start). */
void weir_embedded_hold(struct weir_embedded *e, bool hold);
/* The clock goes forward; what is due runs. */
void weir_embedded_advance(struct weir_embedded *e, uint32_t ms);
/* All bytes that came out so far; valid until the next call on e. */
const uint8_t *weir_embedded_out(struct weir_embedded *e, size_t *n);
/* 1 open, 0 closed in order, < 0 the reason. */
int weir_embedded_state(const struct weir_embedded *e);
/* Ends it; the number of things that leaked, 0 demanded. */
int weir_embedded_free(struct weir_embedded *e);

#ifdef __cplusplus
}
#endif
#endif
