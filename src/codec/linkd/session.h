/* One linkd connection without its channel: open calls, credits, deadlines, what is to be sent. The
 * handler room feeds it bytes and carries off its output; neither side of it knows a socket or a
 * clock.
 *
 * A call:
 *
 *     first frame of a REQUEST (server), start (client)
 *       |
 *       v
 *     OPEN
 *       |    last byte framed (server), last RESPONSE (client), ERROR, CANCEL, deadline, fini
 *       v
 *     OVER
 *       |    no callback of the session runs: done() (server), the last reply (client)
 *       |
 *       +--> freed
 *       |
 *       +--> DRAIN --> freed
 *            server: the rest of a streamed request is still coming and is swallowed
 *
 * and while it is OPEN, each direction by itself:
 *
 *     incoming   first frame --> more ... --> RECV_DONE
 *     outgoing   staged ... --> SEND_END --> SEND_DONE
 *
 * Callbacks may do anything to any call: an ended call only moves to `finished`, and is told and
 * freed when `depth` is back at 0. */
#ifndef WEIR_CODEC_LINKD_SESSION_H
#define WEIR_CODEC_LINKD_SESSION_H
#include "base/assert.h"
#include "base/list.h"
#include "codec/linkd/decoder.h"
#include "codec/linkd/table.h"
#include "mem/chain.h"
#include <stdalign.h>

struct weir__linkd_session;

/* What a session needs from the world around it. */
struct weir__linkd_host {
    /* Something happened outside weir__linkd_read/_pull: out has bytes, weir__linkd_ready() is
     * true, the next deadline is earlier, or `why` is set. May not touch the session before it
     * returns, except to move `out` away. */
    void (*kick)(struct weir__linkd_session *s);
    uint64_t (*now_ns)(struct weir__linkd_session *s); /* asked only where a deadline is set */
    /* Around a service's call() and body(), for accounting; both or neither. */
    void (*enter)(struct weir__linkd_session *s, const char *service);
    void (*leave)(struct weir__linkd_session *s);
    /* Whether a call may be offloaded now; false: the host reads again when it may. NULL:
     * always. */
    bool (*room)(struct weir__linkd_session *s);
};

struct weir__linkd_ping {
    void (*fn)(int status, void *user);
    void *user;
    uint8_t n, data[WEIR_LINKD_PING_MAX];
};

enum weir__linkd_call_flag {
    WEIR__LINKD_RECV_STREAM = 1 << 0, /* incoming in more than one frame: credit governs it */
    WEIR__LINKD_RECV_DONE = 1 << 1,
    WEIR__LINKD_SEND_BEGUN = 1 << 2, /* a frame with MORE went out */
    WEIR__LINKD_SEND_END = 1 << 3,   /* nothing more will be written */
    WEIR__LINKD_SEND_DONE = 1 << 4,
    WEIR__LINKD_OVER = 1 << 5,
    WEIR__LINKD_DRAIN = 1 << 6,
    WEIR__LINKD_BUSY = 1 << 7,   /* its own incoming callback runs */
    WEIR__LINKD_AGAIN = 1 << 8,  /* resume was asked meanwhile */
    WEIR__LINKD_CALLED = 1 << 9, /* the owner knows it: done() is due */
    WEIR__LINKD_FULL = 1 << 10,  /* a write answered 0: room() is due */
    WEIR__LINKD_PIECES =
        1 << 11, /* the owner takes piece by piece; else the message is collected */
    WEIR__LINKD_DIRECT =
        1 << 12, /* all has arrived and call() runs: s->direct, not in the table yet */
};

struct weir_linkd_call {
    uint64_t id, serial, deadline_ns; /* 0: none */
    struct weir__linkd_session *s;
    struct weir_chain in;     /* arrived, not taken */
    uint64_t offered;         /* in.bytes when it was last accounted; counted in s->held */
    struct weir_chain staged; /* written, not framed */
    uint64_t send_credit;
    uint32_t recv_credit, refund; /* refund: taken, not yet told to the peer */
    uint16_t service, flags;
    int why;
    union {
        const struct weir_linkd_route *route; /* server */
        struct {                              /* client */
            void (*fn)(const struct weir_linkd_reply *r, void *user);
            void *user;
            void (*room)(struct weir_linkd_call *x, uint64_t room);
            uint16_t code; /* of the peer's ERROR */
        } k;
    };
    struct weir__base_link link; /* sending, finished or draining */
    alignas(16) uint8_t state[];
};

/* What the sessions of one loop with the same options share: the world, the limits with their
 * defaults, and what a session needs only while it works, so that an idle one does not hold it. */
struct weir__linkd_line {
    struct weir_mem *m;
    const struct weir_linkd_server_options *server; /* NULL: the client's end */
    const struct weir__linkd_host *host;
    struct weir_linkd_stats *stats;
    const struct weir_buf *const *receiving; /* the buffer on which the host holds a reference
                                                without looking at it; may name none */
    uint64_t serial;                         /* of the last call */
    uint32_t frame_max, message_max, held_max, calls_max, stage_max;
    bool offloads;          /* one of its services does */
    uint32_t usual_service; /* the number of the last call that was of the usual kind (see
                                      direct.h), and where it went; UINT32_MAX: none was */
    const struct weir_linkd_route *usual;
    struct weir_slice head;        /* what is left of the buffer that headers share (place.h) */
    struct weir_linkd_call *spare; /* one to be used again; server, may be NULL */
};

struct weir__linkd_session {
    struct weir_chain out; /* frames for the peer; the host takes them away */
    struct weir__linkd_line *line;
    struct weir__linkd_table table;
    struct weir__linkd_decoder decoder;
    uint32_t depth;  /* callbacks of the session that run now */
    uint32_t open;   /* calls in the table that are not OVER */
    uint32_t drains; /* members of draining */
    int why;         /* < 0: the connection must end with this once out is sent */
    bool quiet;      /* inside read, pull or expire: the host looks by itself afterwards */
    bool goaway_out, goaway_in, ending;
    uint32_t beats; /* PINGs of weir__linkd_beat whose PONG has not come */
    struct weir__base_list sending, finished, draining;
    uint64_t staged;      /* bytes in all calls' staged */
    uint64_t held;        /* bytes that calls were offered: of their `in` when last accounted */
    uint64_t deadline_ns; /* no call is due before this; UINT64_MAX: none */
    struct weir_linkd_call *direct; /* the call in its DIRECT stage */
    struct weir_ref chan;
    uint32_t direct_below; /* a server takes plain requests with fewer bytes the direct way; 0
                              once it takes none, or the connection must end */
};

struct weir_linkd_client {
    struct weir__linkd_session s;              /* first */
    const struct weir_linkd_client_options *o; /* NULL: defaults */
    struct weir__linkd_ping *ping;
    uint64_t next_id;
    struct weir_chan *chan; /* the host's */
};

/* ---- for the host ---- */

/* A line in place; o and stats outlive it (client: o NULL, defaults). It ends after its
 * sessions. */
void weir__linkd_server_line(struct weir__linkd_line *line,
                             const struct weir_linkd_server_options *o, struct weir_mem *m,
                             const struct weir__linkd_host *host, struct weir_linkd_stats *stats);
void weir__linkd_client_line(struct weir__linkd_line *line,
                             const struct weir_linkd_client_options *o, struct weir_mem *m,
                             const struct weir__linkd_host *host, struct weir_linkd_stats *stats);
void weir__linkd_line_fini(struct weir__linkd_line *line);
/* A session in place, on memory that stays where it is. seed: from the loop's entropy. */
void weir__linkd_server_init(struct weir__linkd_session *s, struct weir__linkd_line *line,
                             uint64_t seed, struct weir_ref chan);
/* o: the line's. */
void weir__linkd_client_init(struct weir_linkd_client *k, struct weir__linkd_line *line,
                             const struct weir_linkd_client_options *o, uint64_t seed,
                             struct weir_ref chan);
/* The peer sends no more: calls whose request (server) or reply (client) is not whole end with
 * EGONE. */
void weir__linkd_eof(struct weir__linkd_session *s);
/* Ends every call with `why` and takes no more of anything; inside a callback of the session the
 * calls are told when that has returned. weir__linkd_fini() follows. */
void weir__linkd_stop(struct weir__linkd_session *s, int why);
/* Stops, tells everybody, frees everything. Not from inside a callback of the session. */
void weir__linkd_fini(struct weir__linkd_session *s, int why);
/* Takes frames from the front of in. 0: all that was whole is taken; decoder.want says how many
 * bytes it takes to go on. 1: stopped because out holds out_max bytes; call again when it is gone.
 * 2: stopped before a request whose service offloads and has no room for it. < 0 (also in s->why):
 * send out, then close; in is emptied. */
int weir__linkd_read(struct weir__linkd_session *s, struct weir_chain *in, uint64_t out_max);
/* Frames about `room` bytes of streams into out, in turn, one frame of each call. Returns the bytes
 * framed; 0: nothing to send now. */
int64_t weir__linkd_pull(struct weir__linkd_session *s, uint64_t room);
/* A pull would frame something. */
static inline bool weir__linkd_ready(const struct weir__linkd_session *s) {
    return !weir__base_list_empty(&s->sending);
}
/* Ends the calls whose deadline is at or before now_ns. Afterwards s->deadline_ns is the next one
 * (UINT64_MAX: none). */
void weir__linkd_expire(struct weir__linkd_session *s, uint64_t now_ns);
/* Asks the peer for a sign of life: a PING without payload, whose PONG is swallowed. ENOMEM. */
int weir__linkd_beat(struct weir__linkd_session *s);
/* Tells the peer that no new calls are taken (server: further ones get ERROR 8). Idempotent.
 * ENOMEM. */
int weir__linkd_goaway(struct weir__linkd_session *s);
/* The call of this id and serial, if it is open. */
struct weir_linkd_call *weir__linkd_find(struct weir__linkd_session *s, uint64_t id,
                                         uint64_t serial);
void weir__linkd_invariants(const struct weir__linkd_session *s);

/* ---- between the files of this room ---- */

/* The limits that were given (0: the default) become those that hold. */
void weir__linkd_line_limits(struct weir__linkd_line *line);
void weir__linkd_init(struct weir__linkd_session *s, struct weir__linkd_line *line, uint64_t seed,
                      struct weir_ref chan);
static inline void weir__linkd_enter(struct weir__linkd_session *s) {
    s->depth++;
}
/* Back from an entry point or a callback: at depth 0 ended calls are told, and the host is kicked.
 */
void weir__linkd_settle(struct weir__linkd_session *s);
static inline void weir__linkd_leave(struct weir__linkd_session *s) {
    if (s->depth > 1 || (s->quiet && weir__base_list_empty(&s->finished)))
        s->depth--;
    else
        weir__linkd_settle(s);
}
/* x leaves the open calls; its owner hears `why` when the session settles. */
void weir__linkd_end(struct weir_linkd_call *x, int why);
/* Remembers that the connection must end. */
void weir__linkd_die(struct weir__linkd_session *s, int why);
/* Written, to be framed later. Takes c. */
static inline void weir__linkd_stage(struct weir_linkd_call *x, struct weir_chain *c) {
    x->s->staged += c->bytes;
    weir_chain_append(&x->staged, c);
}
/* What was staged is dropped. */
static inline void weir__linkd_unstage(struct weir_linkd_call *x) {
    x->s->staged -= x->staged.bytes;
    weir_chain_fini(&x->staged);
}
void weir__linkd_due(struct weir_linkd_call *x, uint32_t ms);

/* Frames straight into out. ENOMEM. */
int weir__linkd_put(struct weir__linkd_session *s, const struct weir__linkd_head *h,
                    const void *payload);
/* One frame with this payload, which it takes (NULL: none); deadline_ms: in front of it where h has
 * the flag. ENOMEM. */
int weir__linkd_put_chain(struct weir__linkd_session *s, struct weir__linkd_head *h,
                          uint32_t deadline_ms, struct weir_chain *payload);
int weir__linkd_put_error(struct weir__linkd_session *s, uint64_t id, uint16_t service,
                          unsigned code, const char *text);
/* ERROR to the peer, `why` to the owner. No memory for the frame: the connection ends. */
void weir__linkd_abort(struct weir_linkd_call *x, unsigned code, const char *text, int why);
/* ERROR for an id that is no call. */
void weir__linkd_reject(struct weir__linkd_session *s, const struct weir__linkd_head *h,
                        unsigned code);

/* Incoming bytes of a call. */
bool weir__linkd_charge(struct weir_linkd_call *x, const struct weir__linkd_head *h);
void weir__linkd_account(struct weir_linkd_call *x);
void weir__linkd_refund(struct weir_linkd_call *x, uint64_t bytes);
/* Something may have become sendable. */
void weir__linkd_want_send(struct weir_linkd_call *x);

/* Acts on the next event of in: what weir__linkd_next says. */
int weir__linkd_step(struct weir__linkd_session *s, struct weir_chain *in);
/* Runs call() of x, in its DIRECT stage, and ends x if that has answered. */
void weir__linkd_run_direct(struct weir_linkd_call *x);

/* By role. */
void weir__linkd_server_frame(struct weir__linkd_session *s, const struct weir__linkd_head *h,
                              struct weir_chain *payload);
/* ERROR for a request that is not taken; where more frames of it follow, they are swallowed. */
void weir__linkd_server_refuse(struct weir__linkd_session *s, const struct weir__linkd_head *h,
                               unsigned code);
/* A call of nobody yet: what differs from call to call is 0. NULL: no memory. */
struct weir_linkd_call *weir__linkd_server_call(struct weir__linkd_session *s, size_t state_size);
/* x is over and told: it goes, unless it may serve as the line's spare. */
void weir__linkd_server_drop(struct weir_linkd_call *x);
/* call() has returned rc without an answer: x needs its place in the table. */
void weir__linkd_server_join(struct weir_linkd_call *x, int rc);
void weir__linkd_server_deliver(struct weir_linkd_call *x);
void weir__linkd_server_finish(struct weir_linkd_call *x);
void weir__linkd_client_frame(struct weir__linkd_session *s, const struct weir__linkd_head *h,
                              struct weir_chain *payload);
void weir__linkd_client_deliver(struct weir_linkd_call *x);
void weir__linkd_client_finish(struct weir_linkd_call *x);
/* The server is done with a call whose request is not finished: tells it not to wait for the rest.
 * Nothing on a server's call. */
void weir__linkd_hang_up(struct weir_linkd_call *x);
void weir__linkd_client_fini(struct weir_linkd_client *k, int why);
unsigned weir__linkd_code_of(int rc);

#endif
