/* How the io_uring door is made, and what this kernel lets it do. */
#ifndef WEIR_IO_URING_URING_H
#define WEIR_IO_URING_URING_H
#include "io/io.h"

/* What a kernel may lack and the door can do without. Bits, for weir__io_config.uring_without. */
enum weir__uring_feature {
    WEIR__URING_DEFER = 1,        /* completions come when the loop asks, not by interruption */
    WEIR__URING_NO_SQARRAY = 2,   /* one indirection less */
    WEIR__URING_RING_FD = 4,      /* the ring is known without a look into the file table */
    WEIR__URING_MULTI_ACCEPT = 8, /* one request brings many connections */
    WEIR__URING_MULTI_RECV = 16,  /* one request brings all that comes */
    WEIR__URING_INC_BUFFERS = 32, /* several pieces share a large buffer */
    WEIR__URING_FAIR_RECV = 64,   /* a socket gives way after one buffer full */
    WEIR__URING_ZERO_COPY = 128,  /* large sends without a copy, for who asks for them */
    WEIR__URING_SYNC_SEND = 256,  /* sends are tried by system call first */
    WEIR__URING_FEATURES = 511,
};

struct weir__uring_feature_name {
    unsigned bit;
    const char *name, *what;
};
/* All of them, oldest first; ends with bit 0. */
extern const struct weir__uring_feature_name weir__uring_features[];

/* The features that work here, after trying each (about a millisecond); `without` are not tried.
 * ENOTSUP: io_uring as a whole cannot be used, *why says it (static storage). */
int weir__uring_probe(unsigned without, unsigned *has, const char **why);

/* ENOTSUP: not on this machine (*why says what is missing, static storage); ENOMEM; EFDS. */
int weir__uring_new(const struct weir__io_config *c, struct weir__io **out, const char **why);

#endif
