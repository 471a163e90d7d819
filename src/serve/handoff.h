/* Handing connections over: a listener accepts for all loops, and each connection goes to the loop
 * with the fewest channels.
 *
 * A seat is a listener's way to one other loop: a ring of handles that the listener's loop fills
 * and the seat's loop empties, and one inbox node that says so. Nothing is allocated on the way: a
 * connection that no ring has room for stays on the listener's own loop.
 *
 *     NEW --open--> OPEN --bye, or abort--> LEFT
 *
 * An open seat keeps its loop from ending, so that a drain loses nobody who is in transit: the
 * listener says bye once it has closed. A handle that comes to a seat which has left is closed. */
#ifndef WEIR_SERVE_HANDOFF_H
#define WEIR_SERVE_HANDOFF_H
#include "chan/chan.h"
#include "loop/loop.h"

struct weir__serve_listener;

enum { WEIR__SERVE_TRANSIT_MAX = 256 };

enum weir__serve_seat_state { WEIR__SERVE_SEAT_NEW, WEIR__SERVE_SEAT_OPEN, WEIR__SERVE_SEAT_LEFT };

struct weir__serve_seat {
    struct weir__loop_node call, bye;
    struct weir__loop_member member;
    struct weir__serve_listener *from;
    struct weir_loop *loop;
    struct weir__chan_plan *plan;
    enum weir__serve_seat_state state; /* of its loop */
    bool gone;                         /* of the listener's loop: this seat's has ended */
    _Atomic bool called;               /* the node is in the inbox, and not yet looked at */
    _Atomic uint32_t transit;          /* handles that are no channel yet */
    _Atomic uint32_t put, got;         /* positions in the ring */
    _Atomic intptr_t handles[WEIR__SERVE_TRANSIT_MAX];
};

/* Seats for s on all n loops, NEW; its own is never used. ENOMEM. */
int weir__serve_seats_new(struct weir__serve_listener *s, unsigned n);
void weir__serve_seats_free(struct weir__serve_listener *s);
/* Takes plan. On the seat's loop, or before that runs. */
void weir__serve_seat_open(struct weir__serve_seat *seat, struct weir_loop *l,
                           struct weir__chan_plan *plan);
/* From any state. On the seat's loop, or before that runs. */
void weir__serve_seat_leave(struct weir__serve_seat *seat);
/* Gives handle to the loop with the fewest channels. false: that is the listener's own. On the
 * listener's loop. */
bool weir__serve_hand(struct weir__serve_listener *s, intptr_t handle);
/* The listener hands nothing over any more. On its loop. */
void weir__serve_seats_end(struct weir__serve_listener *s);

#endif
