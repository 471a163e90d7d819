/* The pulse of one connection, for the handlers of this room that send a ping of their own. */
#ifndef WEIR_HANDLER_HEARTBEAT_H
#define WEIR_HANDLER_HEARTBEAT_H
#include "weir/chan.h"

enum { WEIR__HANDLER_MISSED_MAX = 3 }; /* the default */

struct weir__handler_pulse { /* {0} to begin */
    uint32_t beat_ms;        /* when the last ping was due */
    uint32_t missed;
};

/* IDLE_READ came. 1: ping now; 0: nothing to do; ETIMEDOUT: missed_max (0: the default) pings in a
 * row had no answer. */
int weir__handler_beat(struct weir__handler_pulse *h, struct weir_chan *ch, uint32_t missed_max);
/* The same look between two beats: a peer that has shown a sign of life has missed none. */
void weir__handler_heard(struct weir__handler_pulse *h, struct weir_chan *ch);

#endif
