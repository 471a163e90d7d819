/* One run: connections on client loops, a barrier between warm-up and window, and what was counted.
 *
 *        all connections are warm: edge 0, t0             edge 1
 *   WARM -----------------------------------> WINDOW ----------------> ENDED
 *                                             shares done, time is up,
 *                                             nobody is left, signal
 *
 * A worker is everything of one loop; only that loop's thread touches it, except the relaxed
 * counters, which the progress line reads. After weir_group_join the main thread reads all of it.
 */
#ifndef LOAD_RUN_H
#define LOAD_RUN_H
#include "load/options.h"
#include "load/payload.h"
#include "weir/chan.h"
#include "weir/hist.h"
#include "weir/linkd.h"
#include "weir/loop.h"
#include "weir/stats.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

enum { LOAD_ERRORS_MAX = 32, LOAD_DEAD_AFTER = 5 };

enum load_fault { /* what went wrong, from the client's point of view */
                  LOAD_FAULT_CONNECT,
                  LOAD_FAULT_CLOSED,  /* the connection ended with the request in flight */
                  LOAD_FAULT_TIMEOUT, /* no answer in time */
                  LOAD_FAULT_SIBLING, /* given up because another request of its connection timed
                                         out */
                  LOAD_FAULT_VERIFY,  /* an answer, but not the right bytes */
                  LOAD_FAULT_ANSWER,  /* the peer answered with an error */
                  LOAD_FAULT_LOCAL,   /* this side could not send it */
};

struct load_error { /* one class of errors */
    enum load_fault fault;
    int code;      /* enum weir_error; 0: none (the peer closed the connection) */
    unsigned wire; /* linkd: the ERROR frame's code */
    bool warmup;
    uint64_t count;
    uint64_t at_ns; /* the first: when, and its text */
    char first[120];
};

struct load_counters {
    _Atomic uint64_t started, ok, failed, timed_out, cancelled;
};

enum load_outcome { LOAD_OK, LOAD_FAILED, LOAD_TIMED_OUT, LOAD_CANCELLED };

struct load_conn;

struct load_slot { /* room for one request in flight */
    struct load_conn *conn;
    struct load_slot *next; /* in the free list, or in the order of sending */
    struct weir_linkd_call *call;
    uint64_t intended_ns; /* when it was due; --short: when its connect began */
    uint64_t sent_ns;     /* when it was handed to the connection */
    uint64_t seq;
    bool busy, expired;
};

enum load_state { LOAD_IDLE, LOAD_WAITING, LOAD_CONNECTING, LOAD_UP, LOAD_CLOSING };

struct load_conn { /* conn.c draws the states */
    struct load_worker *worker;
    struct weir_chan *chan; /* UP and CLOSING */
    union {
        struct weir_ctx *ctx;             /* echo */
        struct weir_linkd_client *client; /* linkd */
    } peer;
    struct load_slot *slots, *free, *oldest,
        *newest; /* oldest..newest: echo's answers come in this order */
    uint64_t seq, left, warm_left;
    uint64_t connect_ns; /* when the last connect began */
    size_t got;          /* echo: bytes of the oldest request's answer */
    uint32_t index, in_flight, fails;
    enum load_state state;
    bool tried, arrived, finished, dead, answered, watching;
    struct weir_timer again, watch; /* reconnect; oldest request's timeout */
    struct weir_stage stage;
    struct load_conn *self; /* the stage's config points here */
    struct weir_linkd_client_options linkd;
};

struct load_worker {
    struct load_run *run;
    struct weir_loop *loop;
    struct load_conn *conns;
    struct load_slot *slots;
    unsigned n_conns;
    bool measuring, ended;
    uint64_t warm_until_ns, end_ns, last_done_ns;
    struct load_counters window, warmup;
    struct weir_hist *response, *service, *lag, *connect;
    void *hist_memory;
    struct load_error errors[LOAD_ERRORS_MAX];
    unsigned n_errors;
    uint64_t errors_dropped; /* of classes beyond the table */
    _Atomic uint64_t opened;
    struct weir_timer end;
};

enum load_end {
    LOAD_END_NOT,
    LOAD_END_DONE,
    LOAD_END_TIME,
    LOAD_END_DEAD,
    LOAD_END_SIGNAL,
    LOAD_END_BROKEN
};

struct load_edge { /* what the machine had spent at one end of the window */
    uint64_t at_ns;
    uint64_t user_ns, system_ns; /* this process */
    uint64_t server_ns, server_wait_ns;
    unsigned server_threads;                                      /* 0: not asked, or it is gone */
    uint64_t busy_ns, received, received_bytes, sent, sent_bytes; /* this process' loops */
};

struct load_protocol {
    const char *name;
    void (*prepare)(struct load_conn *c);                  /* its stage and options */
    int (*send)(struct load_conn *c, struct load_slot *s); /* one request; < 0: nothing was sent */
    void (*expire)(struct load_conn *c,
                   uint64_t sent_until); /* requests sent until then have timed out */
};

extern const struct load_protocol load_echo, load_linkd;

struct load_run {
    /* Constant. */
    const struct load_options *o;
    const struct load_protocol *protocol;
    struct load_payload payload;
    struct weir_group *group;
    struct load_worker *workers;
    unsigned n_workers;
    pthread_t main_thread;
    char transport[32], transport_why[120];
    /* Any thread. */
    _Atomic unsigned warming; /* connections that are not warm */
    _Atomic unsigned live;    /* connections neither finished nor dead */
    _Atomic bool opened;      /* some connection was */
    _Atomic int end;          /* enum load_end */
    _Atomic bool edge_taken;  /* edges[1] is there */
    /* Written by the thread that opens, and the one that ends, the window. */
    struct load_edge edges[2];
    _Atomic uint64_t t0_ns; /* 0: it never began */
};

/* --- run.c: main thread */
/* Everything but the threads. 0, or an error with a line of explanation on stderr. */
int load_run_init(struct load_run *r, const struct load_options *o);
/* Until the run has ended, for whatever reason; loops are joined then. 0, or an error of the
 * library. */
int load_run_go(struct load_run *r);
void load_run_fini(struct load_run *r);
/* --- run.c: any thread */
uint64_t load_clock(void);
/* The last connection is warm: opens the window. */
void load_run_release(struct load_run *r);
/* The first caller ends the window. */
void load_run_finish(struct load_run *r, enum load_end why);

/* --- conn.c: the worker's loop */
void load_conn_init(struct load_conn *c, struct load_worker *w, struct load_slot *slots,
                    uint32_t index);
/* Whatever this connection should do now: connect, send, close, report that it is done. */
void load_conn_pump(struct load_conn *c, uint64_t now);
/* The run is over: closes. */
void load_conn_stop(struct load_conn *c);
/* From the protocol. A request ended; s is free afterwards. */
void load_conn_answered(struct load_conn *c, struct load_slot *s, uint64_t now);
void load_conn_missed(struct load_conn *c, struct load_slot *s, enum load_outcome how,
                      const struct load_error *e);
/* Every request in flight is lost with the connection, which the caller closes. */
void load_conn_lose(struct load_conn *c, const struct load_error *e);
/* One more failure in a row on a connection that stays: after enough of them the run does not wait
 * for it. */
void load_conn_unanswered(struct load_conn *c);
/* The channel is gone. */
void load_conn_closed(struct load_conn *c, int why);

/* The code of an ended connection as an error has it: that its channel is gone is how this side
 * sees that the peer has closed. */
static inline int load_code_of_end(int code) {
    return code == WEIR_EGONE ? 0 : code;
}

static inline void load_bump(_Atomic uint64_t *counter) { /* one writer */
    uint64_t v = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, v + 1, memory_order_relaxed);
}

/* --- ledger.c */
/* Counts one more error of e's class. now: for the first one's time. */
void load_fault_count(struct load_worker *w, const struct load_error *e, uint64_t now);
void load_fault_merge(struct load_error *to, unsigned *n, uint64_t *dropped,
                      const struct load_error *e);
/* "connect EREFUSED", "answer 4 overloaded". */
void load_fault_name(const struct load_error *e, char *out, size_t cap);

#endif
