/* Zero-copy sends: the kernel sends from the caller's own pages, and says later that it has let go
 * of them.
 *
 *      free -- begin --> in flight -- SENT, some notices to come --> pinned -- the last --> free
 *                            +------ SENT, all notices here -----------------------------^
 *
 * A send may take several requests, each with its notice, and notices come in any order; so sends
 * have numbers. Who is told again and again that his bytes were copied after all (the loopback
 * always does) stops asking. */
#ifndef WEIR_IO_URING_PIN_H
#define WEIR_IO_URING_PIN_H
#include "io/uring/door.h"

enum {
    WEIR__URING_PINS_MAX = 32,
    WEIR__URING_PIN_BYTES_MIN = 32 * 1024, /* a smaller send is copied faster than pinned */
    WEIR__URING_PIN_VAIN_MAX = 8,          /* in a row, then never again */
};

struct weir__uring_pins {
    uint32_t used, pinned, due, copied; /* bit per number */
    int current;                        /* the send in flight, or -1 */
    bool copying;                       /* its rest is copied */
    bool off;
    uint8_t vain;
    uint8_t notices[WEIR__URING_PINS_MAX]; /* to come */
};

/* Whether the send of c that follows goes without a copy. */
bool weir__uring_pin_begin(struct weir__uring *d, struct weir__uring_sock *s,
                           const struct weir_chain *c);
/* Makes a request of the send in flight one without a copy, if it is to be. */
void weir__uring_pin_prepare(struct weir__uring *d, struct weir__uring_sock *s,
                             struct uring_sqe *e);
/* Whether res says that only this way of sending failed: the rest is copied. */
bool weir__uring_pin_gives_up(struct weir__uring_sock *s, int res);
/* Token of the send in the kernel. */
uint64_t weir__uring_pin_token(const struct weir__uring_sock *s);
/* A completion with a number. true: it is the result of the request; else a notice. */
bool weir__uring_pin_completed(struct weir__uring *d, struct weir__uring_sock *s,
                               const struct uring_cqe *e);
/* Completes a SENT, and an UNPINNED, that is about to be returned. */
void weir__uring_pin_sent(struct weir__uring_sock *s, struct weir__io_done *out);
void weir__uring_pin_freed(struct weir__uring *d, struct weir__uring_sock *s,
                           struct weir__io_done *out);
/* No notice comes any more: the ring is gone. */
void weir__uring_pin_forget(struct weir__uring *d, struct weir__uring_sock *s);

#endif
