/* The same script on every door, and what a program can see of it compared: transports differ in
 * when things happen, never in what happens.
 *
 *   main.c      seeds, doors, the comparison of traces and of gathers
 *   plan.c      draws a script, with a model of what each step must lead to
 *   world.c     runs a script on one door: a round of steps, then a barrier
 *   subject.c   the channel under test: its handler, and the words of the script
 *   peer.c      the other end: a kernel socket or a peer of the simulated network
 *
 * A round is one step per channel. Then everybody waits for the model's goal and for quiet, and
 * each channel writes a line into its trace. What docs/adr/0001 leaves open is no part of a line:
 * cuts, `more`, order between sockets and between the two directions of one. A peer that does not
 * read leaves open how much the transport swallows; so behind one a script either says less than
 * any transport holds (SWALLOWED_SURELY) or hands over a first flight that none holds
 * (SWALLOWED_NEVER): then that flight is stuck everywhere, and all behind it waits. */
#ifndef WEIR_TESTS_DIFFER_H
#define WEIR_TESTS_DIFFER_H
#include "kit/actor.h"
#include "kit/pair.h"

enum {
    CHANNELS_MAX = 3,
    ROUNDS_MAX = 16,
    TRACE_MAX = 24 * 1024,
    WORDS_MAX = 640, /* of one direction in one round */
    SIZE_MAX_BYTES = 1024 * 1024,
    SNDBUF_BYTES = 16 * 1024, /* the kernel doubles both */
    RCVBUF_BYTES = 16 * 1024,
    WINDOW_BYTES = 24 * 1024, /* of the simulated network */
    SWALLOWED_SURELY = 2 * 1024,
    SWALLOWED_NEVER = 128 * 1024,
    PENDING_MAX = 24 * 1024, /* input that may wait unread */
    PULLS_SHOWN = 6,
};

/* What one step does to one channel; n, m, piece are its numbers. */
enum deed {
    REST,
    WRITE,      /* n bytes in pieces, with one send */
    WRITE_MANY, /* m sends of n bytes each */
    WRITE_PUSH, /* n bytes, an explicit flush, m bytes */
    SOURCE,     /* n bytes more to pull, at most `piece` at a time, m: each overshoots */
    REFILL,     /* sends pieces while there is room, and again when writable: n bytes */
    PEER_SEND,  /* n bytes */
    CREDIT,     /* n bytes; 0: pause */
    CREDIT_ALL,
    ALLOW,     /* the handler takes n bytes more, and leaves what comes behind them */
    ALLOW_ALL, /* it takes everything again */
    WANT,      /* from now on units of n bytes */
    PING,      /* m times: the peer sends n bytes, and waits for as many */
    PEER_STOP, /* it does not read */
    PEER_GO,   /* it reads, n bytes at a time; 0: all */
    PEER_SHUT,
    PEER_LAST, /* n bytes, and its end right behind them */
    PEER_RESET,
    SHUT,
    CLOSE,
    ABORT,
    DEEDS,
};

struct goal {       /* after the step's round */
    bool closed;    /* the channel, and the peer knows */
    bool sent;      /* nothing is left to send; without `peer_idle` the peer has it */
    bool peer_idle; /* it does not read */
    bool takes;     /* the handler has taken `taken` bytes */
    uint64_t taken;
};

struct step {
    enum deed deed;
    uint32_t n, m, piece;
};

/* `also`: something for the other direction at the same time, or rest. Then receiving flushes in
 * between, and what the sender sees on the way depends on when: only where it leads is compared. */
struct turn {
    struct step step, also;
    struct goal goal;
};

struct plan {
    uint64_t seed;
    unsigned n_channels, n_rounds;
    struct weir__iosim_options sim;
    struct channel_plan {
        struct weir_limits limits;
        struct turn turns[ROUNDS_MAX];
    } channels[CHANNELS_MAX];
};

extern const char *const deed_names[DEEDS];
void plan_draw(struct plan *plan, uint64_t seed);
/* The turn's steps with their numbers; valid until the next call. */
const char *plan_says(const struct turn *t);

struct words { /* what does not fit is counted and hashed */
    char text[WORDS_MAX];
    size_t n;
    unsigned more;
    uint32_t hash;
};
WEIR_PRINTF(2, 3) void words_add(struct words *w, const char *fmt, ...);

struct world;

struct subject {
    struct world *world;
    struct weir_ctx *ctx; /* NULL: not open yet, or closed */
    bool opened, closed, answers;
    bool bad;  /* other bytes came, or it was asked for more with a flight under way */
    bool busy; /* both directions at once: this round's words about writing do not count */
    uint64_t in, allow, poured, source_left, refill_left;
    uint32_t unit, source_piece, source_over, refill_piece;
    /* Of this round. */
    struct words reads, writes;
    unsigned pulls;
    uint64_t pulls_hash;
};

extern const struct weir_handler subject_handler;
void subject_do(struct subject *s, const struct step *step);
bool subject_has_sent(const struct subject *s);

enum peer_end { PEER_OPEN, PEER_EOF, PEER_BROKEN, PEER_LEFT };

struct peer {
    struct world *world;
    int fd; /* real doors; -1 otherwise */
    struct weir__iosim_peer *sim;
    enum peer_end end;
    bool got_bad, shut, is_shut, shut_at_eof;
    uint64_t said, sent, got;
    uint32_t sip; /* bytes at a time; 0: none */
    uint32_t ping_n, ping_left;
    uint64_t ping_at; /* the answer is whole */
};

/* Connects; it is up when the other side says so. */
void peer_open(struct peer *p, struct world *w, const char *address);
void peer_do(struct peer *p, const struct step *step);
/* Moves what can be moved; true: something did. */
bool peer_pump(struct peer *p);
void peer_close(struct peer *p);

struct trace {
    char text[TRACE_MAX];
    size_t n;
};

struct gathers { /* by their number of bytes */
    uint32_t count[WEIR__IO_SEND_BYTES_MAX + 1];
    uint64_t total, bytes;
};

/* A script on one door. */
struct world {
    const struct plan *plan;
    struct pair pair;
    unsigned round;
    struct subject subjects[CHANNELS_MAX];
    struct peer peers[CHANNELS_MAX];
    struct trace traces[CHANNELS_MAX];
};

/* 1: it ran; 0: the door is not here, *why; < 0: it did not come to its end, and has said so. */
int world_run(struct world *w, const struct plan *plan, const struct pair_kind *kind,
              struct gathers *gathers, const char **why);

#endif
