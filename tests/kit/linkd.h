/* linkd frames as text, and a session of either side with a scripted owner. Everything that happens
 * is told in one line of text, so that a test reads: push a frame, expect "call 7 'abc'|out
 * RESPONSE 7 'abc'". */
#ifndef WEIR_TESTS_KIT_LINKD_H
#define WEIR_TESTS_KIT_LINKD_H
#include "codec/linkd/session.h"

struct kit_frame { /* one frame for the wire; zeroes for what is not named */
    unsigned type, flags, service;
    uint64_t id;
    const char *text; /* payload, terminated; or data */
    const void *data;
    size_t n;
    bool lie; /* the header says `length` */
    uint32_t length;
};

/* Services of the scripted server, by number. */
enum kit_service {
    KIT_ECHO,   /* answers with its payload */
    KIT_PARK,   /* answers nothing by itself */
    KIT_STREAM, /* takes every piece, answers nothing by itself */
    KIT_LAZY,   /* takes no piece by itself */
    KIT_FAIL,   /* call() returns EFULL */
    KIT_SPEAK,  /* fails with 7 and a text */
    KIT_NONE,   /* no such service */
};

struct kit_linkd {
    struct weir_mem *m;
    struct weir_linkd_stats stats;
    uint64_t now_ns;
    unsigned kicks;
    struct weir_linkd_server_options so;
    struct weir_linkd_client_options co;
    bool client;
    struct weir__linkd_line line;
    union {
        struct weir__linkd_session s;
        struct weir_linkd_client k;
    };
    struct weir_chain in;
    char log[8192]; /* what the owner heard, '|' between */
};

void kit_linkd_open_server(struct kit_linkd *t);
void kit_linkd_open_client(struct kit_linkd *t);
/* Ends the session with ECANCELLED and demands that nothing leaked. */
void kit_linkd_close(struct kit_linkd *t);
/* Bytes of f at p (or only their number, p NULL). */
size_t kit_frame_bytes(const struct kit_frame *f, uint8_t *p);
/* Appends f to the unread input. */
void kit_linkd_queue(struct kit_linkd *t, struct kit_frame f);
/* Reads what is queued; the result of weir__linkd_read. */
int kit_linkd_run(struct kit_linkd *t);
int kit_linkd_push(struct kit_linkd *t, struct kit_frame f);
int kit_linkd_push_bytes(struct kit_linkd *t, const void *data, size_t n);
/* What the owner heard and what was sent since last asked. Long payloads are told as their length.
 */
const char *kit_linkd_told(struct kit_linkd *t);
/* Appends to what the owner heard. */
void kit_linkd_say(struct kit_linkd *t, const char *format, ...) WEIR_PRINTF(2, 3);
/* The open call of this id, or NULL. */
struct weir_linkd_call *kit_linkd_call(struct kit_linkd *t, uint64_t id);
/* A chain of n bytes 'x', or of text when n is 0. */
struct weir_chain kit_chain(struct weir_mem *m, const char *text, size_t n);
/* A reply callback that tells "reply STATUS 'payload'" (code and text where there are any); user:
 * the kit. */
void kit_linkd_reply(const struct weir_linkd_reply *r, void *user);

#endif
