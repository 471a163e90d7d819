/* What a handler of the library may ask of its channel beside the public face. */
#ifndef WEIR_CHAN_LOCAL_H
#define WEIR_CHAN_LOCAL_H
#include "base/addr.h"
#include "weir/chan.h"

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
