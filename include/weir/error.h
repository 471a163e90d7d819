/* Errors: every int result is 0 or a count on success and one of these on failure. The hundreds say
 * how far the damage goes. */
#ifndef WEIR_ERROR_H
#define WEIR_ERROR_H
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif

enum weir_error {
    /* 1xx refused: the call did nothing, the object lives on. */
    WEIR_EGONE = -100,    /* the ref is dead */
    WEIR_EFULL = -101,    /* a stated limit is reached */
    WEIR_ENOMEM = -102,   /* no memory, or the loop's budget is used up */
    WEIR_ESTOPPED = -103, /* the loop or group has stopped: this will never run */
    WEIR_EINVAL = -104,   /* an argument is outside what the function documents */
    WEIR_EINUSE = -105,   /* somebody else listens on that address */
    WEIR_ENOTSUP = -106,  /* this machine or build does not have it */
    WEIR_EAGAIN = -107,   /* not now: an event will say when */
    WEIR_EFDS = -108,     /* out of file descriptors (process or system) */
    /* 2xx connection: this connection is dead, no other is touched. */
    WEIR_EPROTO = -200,     /* the peer broke the protocol */
    WEIR_ETOOBIG = -201,    /* a message is over its configured limit */
    WEIR_ERESET = -202,     /* the peer reset the connection */
    WEIR_ETIMEDOUT = -203,  /* a deadline passed */
    WEIR_EREFUSED = -204,   /* nobody listens there */
    WEIR_EUNREACH = -205,   /* no route to that address */
    WEIR_ECANCELLED = -206, /* cancelled or aborted by this side */
    WEIR_ETRUNCATED = -207, /* a stream or file ended before its promised length */
    WEIR_EIO = -208,        /* the kernel reported an input/output error, or would not say which */
    WEIR_EIDLE = -209,      /* idle longer than allowed */
    /* 3xx call: one request or stream on a shared connection is over, its neighbours live. */
    WEIR_ECALL = -300,     /* the peer answered with an error */
    WEIR_EDEADLINE = -301, /* the call's deadline passed */
    /* 4xx bug: a promise inside the library or by its user was broken; counted, never silent. */
    WEIR_EBUG = -400,
};

/* A system error that has no name above: WEIR_ESYS(errno). */
#define WEIR_ESYS(e) (-10000 - (e))
/* A socket option that the kernel refused: n is an enum weir_socket_option (weir/socket.h). */
#define WEIR_ESOCKOPT(n) (-20000 - (n))

enum weir_severity {
    WEIR_SEV_OK,
    WEIR_SEV_REFUSED,
    WEIR_SEV_CONNECTION,
    WEIR_SEV_CALL,
    WEIR_SEV_BUG,
    WEIR_SEV_SYSTEM
};

/* One line for people: what happened and which limit it met. Any thread; static storage; never
 * NULL, also for unknown codes. */
const char *weir_strerror(int code);
/* The word of a code ("EGONE"), for logs and JSON. Any thread; static storage; "E?" for unknown
 * codes. */
const char *weir_errname(int code);
/* How far the damage of `code` goes. Any thread. */
enum weir_severity weir_severity(int code);

#ifdef __cplusplus
}
#endif
#endif
