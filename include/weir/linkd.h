/* linkd: calls over one connection (docs/linkd.md has the wire).
 *
 * A server sees calls: an id, a service number, a deadline and a payload chain. It answers, fails
 * or streams. A client makes calls and gets replies. Both are handlers on a channel: put
 * {&weir_linkd_server, &options} or {&weir_linkd_client_handler, &options} at the end of a
 * pipeline. Calls and clients are pointers: use them on their loop's thread only. What outlives a
 * callback keeps a weir_linkd_ref. "takes c": on >= 0 the callee owns c and has emptied it; on < 0
 * c is untouched. */
#ifndef WEIR_LINKD_H
#define WEIR_LINKD_H
#include "weir/chan.h"
#include "weir/error.h"
#include "weir/job.h"
#include "weir/mem.h"
#include "weir/str.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* The wire, version 1: every field big-endian. */
enum weir_linkd_wire {
    WEIR_LINKD_MAGIC = 0x4C4B,
    WEIR_LINKD_VERSION = 1,
    WEIR_LINKD_HEAD_BYTES = 20,
    WEIR_LINKD_PING_MAX = 64, /* payload bytes of PING and PONG */
    WEIR_LINKD_CREDIT_BYTES =
        256 << 10, /* what either side may send of one streamed message before any CREDIT */
    WEIR_LINKD_FRAME_BYTES = 1 << 20, /* default limit of one frame's payload */
    WEIR_LINKD_FRAME_MAX = 16 << 20,  /* hard limit */
};

enum weir_linkd_type {
    WEIR_LINKD_REQUEST = 1,
    WEIR_LINKD_RESPONSE,
    WEIR_LINKD_ERROR,
    WEIR_LINKD_PING,
    WEIR_LINKD_PONG,
    WEIR_LINKD_CANCEL,
    WEIR_LINKD_GOAWAY,
    WEIR_LINKD_CREDIT,
};

enum weir_linkd_flag {
    WEIR_LINKD_DEADLINE =
        1, /* the payload starts with u32 milliseconds; first frame of a REQUEST only */
    WEIR_LINKD_MORE = 2, /* frames of the same type and id follow; REQUEST and RESPONSE only */
};

/* The u16 in front of an ERROR frame's text. */
enum weir_linkd_code {
    WEIR_LINKD_MALFORMED = 1,
    WEIR_LINKD_TOO_LARGE,
    WEIR_LINKD_UNKNOWN_SERVICE,
    WEIR_LINKD_OVERLOADED,
    WEIR_LINKD_DEADLINE_EXCEEDED,
    WEIR_LINKD_CANCELLED,
    WEIR_LINKD_INTERNAL,
    WEIR_LINKD_UNAVAILABLE,
};

/* The phrase of an ERROR code ("too large"). Any thread; static storage; "unknown code" otherwise.
 */
const char *weir_linkd_code_text(unsigned code);

struct weir_linkd_call;   /* one call, on either side; dead after its done() or its last reply */
struct weir_linkd_client; /* the client's end of one connection; lives as long as its channel */

/* A call from anywhere on its loop, at any time; survives the call. {0}: none. */
struct weir_linkd_ref {
    struct weir_ref chan;
    uint64_t id, serial;
};

/* ---- server ---- */

struct weir_linkd_service {
    const char *name;  /* for attribution and logs */
    size_t state_size; /* zeroed bytes per call, from weir_linkd_state() */

    /* A call has arrived: with its whole payload where body is NULL, else with its first frame's.
     * Answer now or later. < 0: the matching ERROR is sent (EINVAL and EPROTO 1, ETOOBIG 2, EFULL,
     * ENOMEM and EAGAIN 4, EDEADLINE 5, ECANCELLED 6, ESTOPPED and EGONE 8, everything else 7),
     * then done() comes. */
    int (*call)(struct weir_linkd_call *x, void *user);

    /* More of the request. Take from the front of in; what stays is not refunded to the peer's
     * credit and is offered again with more bytes or by weir_linkd_resume(). Called at least once
     * after call(); last: the request is complete. < 0 as for call. NULL: the whole message is
     * collected first, up to message_max. */
    int (*body)(struct weir_linkd_call *x, struct weir_chain *in, bool last);

    /* A stream that had no room may take this many bytes. Never from inside weir_linkd_write().
     * NULL: not interested. */
    void (*room)(struct weir_linkd_call *x, uint64_t room);

    /* The call is over and x dies with this: exactly once for every call() that was made. why: 0
     * answered, or the reason (ECANCELLED by the peer, EDEADLINE, ECALL failed by this side,
     * ETOOBIG, EPROTO, or what ended the connection). The payload is still there. */
    void (*done)(struct weir_linkd_call *x, int why);

    /* call() uses weir_linkd_offload(): a request waits in the connection's input until there is
     * room for its job. */
    bool offloads;
};

/* A call's work on a worker (weir/job.h). Embed it first in a struct of your own, in memory that
 * lives until done(), from weir_linkd_mem() or elsewhere but not the call's state: the call may be
 * cancelled, expire or lose its connection before. Whatever done() needs is had before. */
struct weir_linkd_job {
    void (*run)(struct weir_linkd_job *j); /* on a worker; may read the payload's bytes */
    /* On the loop, exactly once. status 0: run() has run, x wants its answer, and the payload may
     * be part of it. Else x is NULL: the call is over, told to its peer as it should be; EGONE: by
     * a CANCEL, its deadline or its connection; ESTOPPED: run() never ran. */
    void (*done)(struct weir_linkd_call *x, struct weir_linkd_job *j, int status);
    struct weir_chain payload; /* the call's, from the offload on; yours to release in done() */
    /* The library's. */
    struct weir_job job;
    struct weir_linkd_ref call;
    uint64_t bytes;
};

struct weir_linkd_route {
    uint16_t service; /* the number in the frame; 0 is the default service */
    const struct weir_linkd_service *handler;
    void *user; /* passed to call() */
};

struct weir_linkd_server_options { /* outlives the server; zero: the default */
    size_t size;
    const struct weir_linkd_route *routes;
    unsigned n_routes;
    const struct weir_linkd_route
        *fallback;        /* serves every number that no route has; NULL: ERROR 3 */
    uint32_t frame_max;   /* payload bytes of one frame; default 1 MiB, at most 16 MiB */
    uint32_t message_max; /* a collected message; default frame_max */
    uint32_t held_max;  /* request bytes of all open calls of a connection; default 8 MiB, at least
                           frame_max */
    uint32_t calls_max; /* open calls of a connection; default 1024. Over it: ERROR 4 */
    uint32_t stage_max; /* bytes a stream may stage before its room is 0; default 64 KiB */
    uint32_t deadline_ms;  /* for calls that bring none, and the most a call may ask for; 0: none */
    uint32_t heartbeat_ms; /* PING a client that is silent for so long (weir/heartbeat.h); 0:
                                      never */
    uint32_t heartbeat_missed_max; /* PINGs in a row without an answer before the end; default 3 */
};

/* A pipeline's last handler; config: struct weir_linkd_server_options. Any callback may take it out
 * (weir_ctx_remove), its own too: what was answered is sent, every open call ends with EGONE, at
 * once or when the running callback of the connection has returned, and the channel goes on. */
extern const struct weir_handler weir_linkd_server;

/* ---- client ---- */

struct weir_linkd_client_options { /* outlives the channel; zero: the default */
    size_t size;
    uint32_t frame_max, message_max, held_max, calls_max, stage_max; /* as for the server */
    uint32_t heartbeat_ms, heartbeat_missed_max;                     /* as for the server */
    /* The connection can carry calls now. Before anything else of it. */
    void (*open)(struct weir_linkd_client *k, void *user);
    /* The server takes no new calls (GOAWAY); open ones finish. At most once. */
    void (*goaway)(struct weir_linkd_client *k, void *user);
    /* k dies with this, after the last reply of every call. why: what ended the connection; 0: it
     * was taken out of it. */
    void (*close)(struct weir_linkd_client *k, int why, void *user);
    void *user;
};

/* A pipeline's last handler; config: struct weir_linkd_client_options (NULL: defaults). */
extern const struct weir_handler weir_linkd_client_handler;

struct weir_linkd_reply { /* valid inside the callback */
    struct weir_linkd_call *call;
    int status; /* 0; ECALL: the peer's ERROR, see code; EDEADLINE, ECANCELLED, ETOOBIG, EPROTO, or
                   what ended the connection */
    unsigned code;              /* enum weir_linkd_code of a peer's ERROR, else 0 */
    struct weir_str text;       /* the ERROR's text, untrusted, never NULL */
    struct weir_chain *payload; /* take from the front; never NULL (ECALL: the text's bytes).
                                   Released after the last reply */
    bool last;                  /* the call is over and dead when the callback returns */
};

struct weir_linkd_request { /* options of one call */
    size_t size;
    uint16_t service;
    bool more;   /* the payload is only the start: weir_linkd_write() and weir_linkd_end() follow */
    bool stream; /* replies come piece by piece (last = false), else whole up to message_max */
    uint32_t deadline_ms; /* told to the server and kept here; 0: none */
    void (*room)(struct weir_linkd_call *x,
                 uint64_t room); /* with more: as in weir_linkd_service */
};

/* Starts a call. Takes payload (NULL: empty). fn is called at least once, with last exactly once,
 * never from inside this function. out (may be NULL): the call, valid until its last reply. EFULL:
 * calls_max are open; ESTOPPED: the server sent GOAWAY or the connection is closing; EINVAL: not
 * the options' size; ENOMEM. */
int weir_linkd_start(struct weir_linkd_client *k, const struct weir_linkd_request *o,
                     struct weir_chain *payload, struct weir_linkd_call **out,
                     void (*fn)(const struct weir_linkd_reply *r, void *user), void *user);
/* Gives up on a call: the server is told, the last reply comes with ECANCELLED (from here, unless a
 * callback of the connection runs: then behind it). For a client's call; on a server's call it is
 * weir_linkd_fail(x, 6). */
void weir_linkd_cancel(struct weir_linkd_call *x);
/* Sends a PING of n <= 64 bytes; fn comes once, with 0 at its PONG or with what ended the
 * connection. One at a time: EAGAIN. EINVAL, ENOMEM. */
int weir_linkd_ping(struct weir_linkd_client *k, const void *data, size_t n,
                    void (*fn)(int status, void *user), void *user);
/* Calls that are open on this connection. */
unsigned weir_linkd_open_calls(const struct weir_linkd_client *k);
/* The client on this channel (its handler is weir_linkd_client_handler), or NULL. */
struct weir_linkd_client *weir_linkd_client_of(struct weir_chan *ch);
/* The client's channel. */
struct weir_chan *weir_linkd_client_chan(struct weir_linkd_client *k);

/* ---- a call, on either side ---- */

uint64_t weir_linkd_id(const struct weir_linkd_call *x);
uint16_t weir_linkd_service_number(const struct weir_linkd_call *x);
/* Absolute, on the loop's clock, in nanoseconds; 0: none. */
uint64_t weir_linkd_deadline(const struct weir_linkd_call *x);
/* What has arrived and was not taken. Take from the front whenever you like; then
 * weir_linkd_resume() refunds it. Never NULL. */
struct weir_chain *weir_linkd_payload(struct weir_linkd_call *x);
/* The state_size bytes of a server's call; NULL on a client's or where state_size is 0. */
void *weir_linkd_state(struct weir_linkd_call *x);
struct weir_mem *weir_linkd_mem(const struct weir_linkd_call *x);
struct weir_loop *weir_linkd_loop(const struct weir_linkd_call *x);
struct weir_linkd_ref weir_linkd_call_ref(const struct weir_linkd_call *x);
/* The call behind r on loop l, or NULL once it is over. Loop. */
struct weir_linkd_call *weir_linkd_find(struct weir_loop *l, struct weir_linkd_ref r);
/* Offers the untaken payload to body() (or the stream's fn) again and refunds what was taken,
 * behind the running callback if there is one. */
void weir_linkd_resume(struct weir_linkd_call *x);

/* The whole answer, or the rest of a stream. Takes c (NULL: empty). One frame where it fits
 * frame_max and nothing was written before, else a stream. On 0 the call is over for its owner:
 * done(x, 0) comes when the last byte is framed, perhaps from inside; do not use x. EGONE: it was
 * over already; ENOMEM. */
int weir_linkd_answer(struct weir_linkd_call *x, struct weir_chain *c);
/* Runs j away from the loop, with the payload of a server's call that has arrived whole; the call
 * is answered in its done(). Takes j until then, and the call's payload into it (on < 0 that stays
 * in the call; what call() returns then ends it). What a connection has out is bounded by
 * weir_limits.offload_max jobs and held_max bytes. EFULL: over those, seen only where the service
 * does not say `offloads`; EGONE: the call is over; EINVAL: a client's call; and as
 * weir_ctx_offload. */
int weir_linkd_offload(struct weir_linkd_call *x, struct weir_linkd_job *j, enum weir_order order);
/* Ends the call with an ERROR frame; what was staged is dropped. text is copied, cut at 256 bytes;
 * NULL: the code's phrase. done() comes with ECALL, perhaps from inside; do not use x. EGONE;
 * EINVAL: code 0; ENOMEM: the call lives on. */
int weir_linkd_fail(struct weir_linkd_call *x, unsigned code, const char *text);
/* Appends to a streamed message (the server's response, the client's request with more). Takes c.
 * Returns the room left: bytes until stage_max; 0: stop, room() will come. May go over it by the
 * one call. EGONE: the message is ended or the call over; ENOMEM. */
int64_t weir_linkd_write(struct weir_linkd_call *x, struct weir_chain *c);
/* Nothing more will be written. On a server's call the same as weir_linkd_answer(x, NULL). EGONE,
 * ENOMEM. */
int weir_linkd_end(struct weir_linkd_call *x);

/* What a session counted. Plain numbers of one loop. */
struct weir_linkd_stats {
    uint64_t calls;      /* opened */
    uint64_t answered;   /* ended with a whole response */
    uint64_t failed;     /* ended with an ERROR, either direction */
    uint64_t cancelled;  /* by a CANCEL, either direction */
    uint64_t expired;    /* by their deadline */
    uint64_t malformed;  /* frames that broke a rule */
    uint64_t too_large;  /* frames and messages over a limit */
    uint64_t overloaded; /* calls refused at calls_max, held_max or for want of memory */
    uint64_t ignored;    /* RESPONSE, ERROR, CANCEL, CREDIT for an id that is not open, PONG nobody
                            asked for */
    uint64_t pings;      /* answered */
};

#ifdef __cplusplus
}
#endif
#endif
