/* The whole engine in one scenario per seed: servers of every kind, clients and raw peers on
 * several loops, faults, and what must hold whatever happens. One integer replays a scenario.
 *
 *   engine_test.c    seeds, one world per seed, the verdict at its end, the tally of faults
 *   engine_plan.c    draws a scenario: weather, connections, what each sends and must get
 *   engine_end.c     one side of one channel: the rules that every callback is held to
 *   engine_line.c    the servers' handlers
 *   engine_client.c  clients with channels; their sends and closes from other loops
 *   engine_peer.c    raw peers and raw listeners
 *   engine_linkd.c   calls over linkd */
#ifndef WEIR_TESTS_SIM_ENGINE_H
#define WEIR_TESTS_SIM_ENGINE_H
#include "base/compiler.h"
#include "base/rng.h"
#include "weir/chan.h"
#include "weir/linkd.h"
#include "weir/sim.h"
#include <stdbool.h>
#include <stdint.h>

enum {
    CONNS_MAX = 64,
    ENDS_MAX = 192,
    MESSAGES_MAX = 40,
    DATA_MAX = 24 * 1024, /* bytes of one direction */
    HEAD = 4,             /* what every request begins with: who it is from */
    PIECE_MAX = 2048,     /* the most a handler sends at once */
    LOOPS_MAX = 4,
    DEAD_MAX = 256,
    CALLS = 24,
    ADDRESS_MAX = 32,
    RAW_BYTES = 9000, /* what a raw server says */
    TURN = 0x5a,      /* a worker answers with these bits turned */
};

enum kind {          /* what serves a connection */
            ECHO,    /* sends back what comes, as it comes */
            FRAMED,  /* whole frames only: wants, and leaves what is not whole */
            SOURCE,  /* pulled: frames its answer only when asked */
            STALL,   /* takes what it likes, and wakes itself */
            CREDIT,  /* pauses, resumes, counts */
            HALF,    /* answers after the peer's end */
            FILTER,  /* an echo behind filters that come and go */
            PUSH,    /* pushes its answer up to the mark, and goes on when writable */
            HOLD,    /* answers while it is already closing */
            FOREIGN, /* another loop answers, and closes */
            REFUSE,  /* a handler in the middle does not open */
            IDLE,    /* an echo that goes when nobody speaks */
            RAW,     /* no server of ours: a raw listener, for our clients */
            LINKD,
            KINDS,
};

enum habit { /* how the other end behaves */
             PLAIN,
             STEPS,    /* message by message */
             SLOW,     /* reads a little at a time */
             LATE,     /* does not read at first */
             EARLY,    /* shuts down behind its last byte */
             TRUNCATE, /* shuts down in the middle of something */
             VANISH,   /* resets after so many bytes */
             LEAVE,    /* closes without reading what comes */
             NEVER,    /* never reads */
             ABORTED,  /* another loop aborts the server's channel */
             HAUNTED,  /* another loop aborts it in every turn, until its ref is dead */
             RAW_HABITS,
             OWN = RAW_HABITS, /* our client sends from its own loop */
             AWAY,             /* another loop sends for it */
             AWAY_CLOSE,       /* ... and closes behind the last message */
             HASTY,            /* gives up connecting at once */
             HABITS,
};

struct run;
struct end;

struct conn {
    struct run *run;
    unsigned id;
    enum kind kind;
    enum habit habit;
    bool weir;        /* the client's end is a channel of ours */
    bool breaks;      /* something is planned that may cut it short */
    bool server_ends; /* the server closes first */
    bool shut;        /* the client's end has said, or will say by itself, that it sends no more */
    uint64_t begin_ns, act_ns;
    uint64_t cut_at;       /* VANISH, TRUNCATE: bytes */
    unsigned at, other_at; /* loops */
    struct weir_loop *loop, *other;
    uint8_t data[DATA_MAX]; /* what the client sends */
    size_t n_data, message_end[MESSAGES_MAX];
    unsigned n_messages, sent; /* messages */
    const uint8_t *reply;      /* what it must get */
    size_t n_reply;
    struct end *client, *server;
    /* A raw end. */
    struct weir_sim_peer *peer;
    bool begun, acted, resumed;
    uint64_t reset_ns; /* since when it is known to be reset */
    struct conn *heir; /* HAUNTED: begins where and when this one ends, in its slot */
    /* A client of ours. */
    bool answered; /* connect has said what came of it */
    bool said;     /* every message is with the channel */
    int status;
    /* FOREIGN: the answer on another loop. */
    size_t told;
    /* LINKD */
    struct weir_linkd_client_options linkd_options;
    struct weir_linkd_client *linkd;
    struct call {
        struct conn *conn;
        unsigned number;
        uint16_t service;
        size_t bytes;
        struct weir_linkd_call *open; /* until it is over */
        bool over, cancelled;
    } call[CALLS];
    unsigned calls, replies;
    unsigned next_ordered; /* no answer in order may come for a call before this one */
    bool linkd_closed;
};

struct end { /* one side of one channel, as its handler sees it */
    struct run *run;
    struct conn *conn; /* NULL: the head has not come yet */
    struct weir_ctx *ctx;
    struct weir_ref ref;
    enum kind kind;
    bool client, open, closed, eof, clean, full, told_full, shut, draining, held, counting, settled,
        own_only;
    int why;
    unsigned drains;
    uint64_t got, sent; /* bytes */
    const uint8_t *expect;
    size_t n_expect;
    int64_t credit;     /* what may still come; -1 no limit */
    uint64_t seen;      /* bytes that had come when the credit was given */
    uint64_t last_ns;   /* something came or went */
    uint64_t doomed_ns; /* a send was accepted that must fail */
    struct weir_timer timer;
};

struct role { /* a server's config: which kind, in which run */
    struct run *run;
    enum kind kind;
};

struct run {
    uint64_t seed;
    struct weir_sim *sim;
    struct weir_group *group;
    struct weir__base_rng rng;
    struct weir_sim_options weather;
    unsigned loops;
    bool storm;  /* any connection may be reset at any time */
    bool scarce; /* a connection may fail to come up */
    bool halt;   /* the group is stopped in the middle of it all */
    uint64_t halt_ns;
    bool offloads; /* workers answer some of it */
    unsigned jobs_taken, jobs_done;
    uint32_t spread_us; /* within how long all connections begin */
    bool halted;
    struct weir_limits limits;
    uint8_t noise[DATA_MAX]; /* answers that are no echo */
    struct role roles[KINDS];
    struct weir_linkd_route routes[4];
    struct weir_linkd_server_options linkd;
    struct weir_sim_peer *raw; /* the raw listener */
    struct conn conns[CONNS_MAX];
    unsigned n_conns, messages;
    struct end ends[ENDS_MAX];
    unsigned n_ends;
    struct weir_ref dead[DEAD_MAX]; /* refs of channels that are gone */
    unsigned n_dead;
    struct weir_timer ghosts; /* on loop 0: pokes dead refs, and keeps time going */
    uint64_t looks;
};

/* What went over all seeds, by the scenario's own hand. */
enum deed {
    DEED_SHUT_EARLY,
    DEED_TRUNCATED,
    DEED_VANISHED,
    DEED_LEFT,
    DEED_NEVER_READ,
    DEED_FOREIGN_SEND,
    DEED_FOREIGN_CLOSE,
    DEED_FOREIGN_ABORT,
    DEED_DEAD_REF,
    DEED_FULL,
    DEED_PAUSED,
    DEED_FILTERED,
    DEED_STALLED,
    DEED_BURNT,
    DEED_HALTED,
    DEED_TIMED_OUT,
    DEED_JOB_DONE,
    DEED_JOB_REFUSED,
    DEED_JOB_GONE,
    DEED_JOB_STOPPED,
    DEED_JOB_CANCELLED,
    DEED_PINNED,
    DEEDS,
};
extern uint64_t engine_deeds[DEEDS];
extern bool engine_verbose;
extern const char *const engine_kind_names[KINDS], *const engine_habit_names[HABITS];

/* Says `seed N: ...` and ends the program: the world is in a state that cannot be trusted. */
_Noreturn void engine_fail(const char *format, ...) WEIR_PRINTF(1, 2);
#define DEMAND(cond, ...)             \
    do {                              \
        if (!(cond))                  \
            engine_fail(__VA_ARGS__); \
    } while (0)
void engine_say(const char *format, ...) WEIR_PRINTF(1, 2);

/* --- engine_plan.c */
uint64_t engine_draw(struct run *r, uint64_t n);
bool engine_chance(struct run *r, unsigned one_in);
/* Where the servers of this kind listen. */
void engine_address(enum kind k, char out[ADDRESS_MAX]);
/* Before there is a world. */
void engine_plan(struct run *r);
/* When there is one. */
void engine_place(struct run *r);
/* Everything the server of this kind gets must be what was sent, whole, when nothing breaks. */
bool engine_reads_all(enum kind k);

/* --- engine_end.c */
struct end *engine_end_open(struct run *r, struct weir_ctx *c, enum kind k, bool client);
struct end *engine_end_of(struct weir_ctx *c);
/* Held to in every callback: open, within bounds. */
void engine_end_look(struct end *e);
/* The first n bytes of in are the next ones expected; they go behind out (NULL: they are dropped).
 */
void engine_end_take(struct end *e, struct weir_chain *in, size_t n, struct weir_chain *out);
/* Sends, and looks at the mark. Takes out. */
int engine_end_send(struct end *e, struct weir_chain *out);
/* Sends the next n bytes of `from`. */
int engine_end_write(struct end *e, const uint8_t *from, size_t n);
void engine_end_eof(struct end *e, bool clean);
void engine_end_writable(struct end *e, bool yes);
void engine_end_event(struct end *e, int what);
void engine_end_close(struct end *e, int why);
void engine_end_later(struct end *e, uint64_t us, void (*fn)(struct weir_timer *t));
/* A chain of n bytes in the pool of the loop that runs. */
void engine_chain(struct weir_loop *l, struct weir_chain *out, const uint8_t *bytes, size_t n);

/* A job was taken; or what came of it: 0, or a negative code. */
void engine_job_taken(struct run *r);
void engine_job_done(struct run *r, int status, bool ran);

/* --- engine_line.c */
void engine_serve(struct run *r);
extern const struct weir_handler engine_front;
/* On the loop that answers for it: one message of a FOREIGN answer, then itself again. */
void engine_foreign(struct weir_loop *l, void *conn);

/* --- engine_client.c */
void engine_client_begin(struct conn *c);
/* As above, from inside a callback of loop l, and on it. */
void engine_client_begin_here(struct conn *c, struct weir_loop *l);
void engine_ghosts(struct run *r);

/* --- engine_peer.c */
void engine_peer_begin(struct conn *c);
void engine_peer_tick(struct conn *c);
void engine_raw_tick(struct run *r);
bool engine_peer_done(const struct conn *c);
void engine_peer_verdict(const struct conn *c);

/* --- engine_linkd.c */
void engine_linkd_serve(struct run *r);
void engine_linkd_begin(struct conn *c);
void engine_linkd_verdict(const struct conn *c);

#endif
