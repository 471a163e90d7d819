/* Two loops, a server's and a client's, on real doors and on one thread, in a time of their own: it
 * stands still while the kernel has something for them, and jumps to the next deadline when not.
 * And the ends of connections in it. Everything here bears that anything fails. */
#ifndef WEIR_TESTS_SWEEP_WORLD_H
#define WEIR_TESTS_SWEEP_WORLD_H
#include "io/io.h"
#include "loop/group.h"
#include "loop/loop.h"
#include "weir.h"

enum { SERVER, CLIENT, SIDES };

struct world;

struct side {
    struct world *world;
    struct weir_mem *mem;
    struct weir__loop_inbox *inbox;
    struct weir__io *io;
    const struct weir__io_ops *door; /* the door's own */
    struct weir__io_ops ops;         /* the same in the world's time */
    struct weir_group *group;
    struct weir_loop *loop;
    uint64_t worked;
    int error; /* what its loop broke with */
    bool ended, stuck, nap;
};

struct world {
    struct side side[SIDES];
    uint64_t skew_ns, limit_ns;
    unsigned idle, graces;
    bool late;    /* the limit has passed */
    bool stalled; /* nothing will ever happen again, and somebody waited */
    char address[128];
};

/* 0, or an error and nothing is left. door: "lt", "et", "uring". */
int world_open(struct world *w, const char *door);
/* Ends both loops, and finds what is left. Returns rc, or what a loop broke with. */
int world_close(struct world *w, int rc);
/* Turns both loops once; false: there is no point in more of it. */
bool world_step(struct world *w);
#define world_until(w, cond)             \
    do {                                 \
        while (!(cond) && world_step(w)) \
            continue;                    \
    } while (0)
/* Turns while something happens without time passing. */
void world_settle(struct world *w);
/* Turns for so long. */
void world_wait_ms(struct world *w, uint64_t ms);

/* One end of connections, as its handler sees it. */
struct end {
    struct world *world;
    unsigned who;
    /* The script. */
    bool echo;      /* send back what comes */
    uint64_t send;  /* bytes to send when it opens */
    bool whole;     /* in one piece */
    uint64_t want;  /* close when that many have come */
    bool proxy;     /* begin with a PROXY line and "hello" */
    bool shut;      /* end the stream behind what was sent */
    bool stay;      /* do not close at `want` */
    int64_t credit; /* != 0: read credit from the start */
    struct weir_limits limits;
    uint32_t sndbuf_bytes; /* of a server's connections */
    uint32_t connect_ms;
    const struct weir_stage *front; /* a handler before it */
    const struct weir_stage *only;  /* instead of it */
    struct weir_file *file;
    /* What happened. */
    unsigned dials, answers, opens, closes, eofs, idles;
    int status, why; /* of the last answer, of the first close that was not 0 */
    uint64_t got;
    struct weir_ctx *ctx;   /* of the last one; NULL: closed */
    struct weir_chan *chan; /* of the last answer */
    struct weir_ref ref;
};

/* The handler behind every end. */
extern const struct weir_handler end_handler;

int end_serve(struct world *w, unsigned who, struct end *e);
int end_dial(struct world *w, unsigned who, struct end *e);
/* e serves, c dials; until c is closed again or was refused. */
int end_talk(struct world *w, struct end *s, struct end *c);
/* n bytes from it. */
int end_send(struct end *e, uint64_t n);
void end_close(struct end *e, enum weir_close how);
bool end_over(const struct end *e);
/* How it went, as one number. */
int end_result(const struct end *e);

#endif
