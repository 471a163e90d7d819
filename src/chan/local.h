/* What a handler of the library may ask of its channel beside the public face. */
#ifndef WEIR_CHAN_LOCAL_H
#define WEIR_CHAN_LOCAL_H
#include "base/addr.h"
#include "base/compiler.h"
#include "weir/chan.h"
#include <stdalign.h>

struct weir_ctx {
    struct weir_chan *chan;
    struct weir_ctx *prev, *next; /* towards the socket, towards the tail */
    const struct weir_handler *handler;
    struct weir__loop_handler *account;
    struct weir_chain in; /* what it left; offered again */
    size_t want;
    uint64_t offered; /* what of `in` the read that runs now was given, counted in chan->leftover
                         until it returns */
    uint32_t seat;    /* its number in the channel, for jobs to come back to; 0: none yet */
    uint8_t opened : 1, eof_seen : 1, reading : 1, stalled : 1, removed : 1, inserted : 1;
    alignas(16) uint8_t state[];
};

/* weir_ctx_state and weir_ctx_want, for the read of every frame. */
WEIR_INLINE void *weir__chan_ctx_state(struct weir_ctx *c) {
    return c->state;
}
WEIR_INLINE void weir__chan_ctx_want(struct weir_ctx *c, size_t bytes) {
    if (unlikely(c->want != bytes))
        weir_ctx_want(c, bytes);
}

/* Who is behind the proxy that connected: what weir_chan_peer and weir_chan_local tell instead of
 * the socket's ends, where the kind is not NONE. One block of the channel's pool, and its end. */
struct weir__chan_origin {
    struct weir_addr peer, local;
};
/* Takes o, from weir_mem_new; once. */
void weir__chan_set_origin(struct weir_chan *ch, struct weir__chan_origin *o);
struct weir__chan_origin *weir__chan_origin(const struct weir_chan *ch);
/* The address of the socket's other end, whatever the origin says. EGONE. */
int weir__chan_socket_peer(struct weir_chan *ch, struct weir_addr *out);

/* From a handler's open: those behind it wait until weir__chan_open_rest. */
void weir__chan_hold_openings(struct weir_chan *ch);
/* Opens them, unless the channel closes. */
void weir__chan_open_rest(struct weir_chan *ch);

/* Begins the end (OPEN -> DRAINING, or with abort -> CLOSING); later calls can only make it an
 * abort. The first why stays. */
void weir__chan_close(struct weir_chan *ch, int why, bool abort);

struct weir__chan_signs {
    uint64_t life_ns; /* the peer last sent a byte; full: took one */
    bool full;        /* not read because the peer takes no output */
    bool deaf;        /* not read for another reason: whether the peer is silent is not known */
};
struct weir__chan_signs weir__chan_signs(const struct weir_chan *ch);

#endif
