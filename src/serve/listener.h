/* A listener: one listening socket on one loop, and what it does when descriptors run out.
 *
 *     NEW         its loop does not run yet
 *      |
 *      v    EFDS, ENOMEM
 *     OPEN --------------> WALL  accepting failed: descriptors or kernel memory are out
 *      |   <--------------
 *      |        50 ms
 *      | stop
 *      v
 *     EMPTYING <-------+         takes what the kernel has queued
 *      |               |
 *      | nobody queued | somebody came since
 *      v               |
 *     CANCELLING ------+
 *      |     |         |
 *      |     | last    |
 *      |     v         |
 *      |   PARKED -----+         takes what the door had already accepted
 *      |     |
 *      |last | last
 *      v     v
 *     CLOSING --CLOSED--> CLOSED
 *
 * NEW and WALL go to CLOSING on stop, every state on abort; OPEN when accepting fails for another
 * reason, EMPTYING when it fails at all. A queue is emptied because closing a listener resets
 * everyone in it. */
#ifndef WEIR_SERVE_LISTENER_H
#define WEIR_SERVE_LISTENER_H
#include "chan/chan.h"
#include "loop/group.h"
#include "loop/loop.h"
#include "serve/handoff.h"

enum weir__serve_state {
    WEIR__SERVE_UNUSED, /* it was never opened */
    WEIR__SERVE_NEW,
    WEIR__SERVE_OPEN,
    WEIR__SERVE_WALL,
    WEIR__SERVE_EMPTYING,
    WEIR__SERVE_CANCELLING,
    WEIR__SERVE_PARKED,
    WEIR__SERVE_CLOSING,
    WEIR__SERVE_CLOSED,
};

enum {
    WEIR__SERVE_RETRY_MS = 50,   /* from a free descriptor to the next accept, at most */
    WEIR__SERVE_LOOK_MS = 1,     /* from an empty queue to the end of accepting, at most */
    WEIR__SERVE_QUIET_MS = 1000, /* accepting so long without meeting the wall ends a burst */
};

struct weir__serve_listener {
    struct weir__loop_sink sink;
    struct weir__loop_member member;
    struct weir__loop_node arm;
    struct weir_server *server;
    struct weir_loop *loop;
    struct weir__io_sock *sock;
    struct weir__chan_plan *plan;
    struct weir_timer retry; /* WALL: when to accept; EMPTYING: when to look */
    enum weir__serve_state state;
    /* Handing over: one seat per loop, or none. */
    struct weir__serve_seat *seats;
    unsigned n_seats, turn; /* turn: whose it is among equals */
};

struct weir_server { /* lives as long as the group: nodes and sockets of its listeners point into it
                      */
    struct weir__loop_owned owned;
    struct weir_group *group;
    _Atomic uint64_t wall_ns; /* when any listener last met the wall; 0: never */
    char address[WEIR__ADDR_TEXT_MAX];
    unsigned n;
    struct weir__serve_listener listeners[];
};

/* Opens the listener on l and has it armed once l runs; takes plan. What weir__io listen says. On
 * l, or before it runs. */
int weir__serve_listener_open(struct weir__serve_listener *s, struct weir_loop *l,
                              struct weir__chan_plan *plan, const struct weir__io_listen *o);
/* fn(s, user) for every listener of l that accepts. On l. */
void weir__serve_listener_each(struct weir_loop *l,
                               void (*fn)(struct weir__serve_listener *s, void *user), void *user);
/* Closes at once, from any state. */
void weir__serve_listener_close(struct weir__serve_listener *s);
/* A connection for the loop of this plan; takes handle, also when it finds no room. That loop. */
void weir__serve_admit(struct weir_server *server, struct weir__chan_plan *plan, intptr_t handle);

#endif
