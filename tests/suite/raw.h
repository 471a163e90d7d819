/* Sockets of a door without a channel: what the contract says below what channels use of it. */
#ifndef WEIR_TESTS_SUITE_RAW_H
#define WEIR_TESTS_SUITE_RAW_H
#include "suite/suite.h"

enum { RAW_DONE_MAX = 256 };

struct raw {
    struct weir__loop_sink sink;
    struct pair *p;
    enum pair_who who;
    struct weir__io *io;
    const struct weir__io_ops *ops;
    struct weir__io_sock *sock;
    struct weir__io_done done[RAW_DONE_MAX]; /* what came; the slices are ours */
    unsigned n;
};

/* Runs `call` as r's loop. */
#define as(r, call) (pair_act_as((r)->p, (r)->who), raw_back(call))
int64_t raw_back(int64_t rc);

void raw_init(struct raw *r, struct pair *p, enum pair_who who);
/* Listens (or, datagram, binds) at an address of the pair's kind; address NULL: a new one. */
void raw_listen(struct raw *r, struct weir__io_listen o, const char *address);
struct weir_addr raw_local(struct raw *r);
/* A connection: s is the server's end, c the client's. */
void raw_connection(struct pair *p, struct raw *s, struct raw *c, const char *address);
/* The i-th completion, which must be of that kind. */
struct weir__io_done *raw_is(struct raw *r, unsigned i, enum weir__io_kind kind);
/* Waits until n completions came in all. */
#define raw_until(r, count) until((r)->p, (r)->n >= (count))
/* Closes, and waits for it; lets go of every slice. */
void raw_close(struct raw *r);
void raw_drop(struct raw *r);
/* n bytes of the pattern from `at` on, in a chain of r's loop. */
void raw_fill(struct raw *r, struct weir_chain *c, uint64_t at, size_t n);
void raw_fini(struct raw *r, struct weir_chain *c);

#endif
