/* The direct way of a request: from its bytes to its call, and from its answer to its end, without
 * a place in the table. It comes in two halves, so that who reads runs the call between them with
 * what it needs around it.
 *
 *   in --- a plain REQUEST, all there, breaks nothing --> begin --> call() --> end --> kept
 *    |                                                                          |
 *    +---- everything else: weir__linkd_step()              table <-- not yet --+
 *
 * It decides nothing by itself: what is not as usual is left to the general way, which says why. */
#ifndef WEIR_CODEC_LINKD_DIRECT_H
#define WEIR_CODEC_LINKD_DIRECT_H
#include "codec/linkd/server.h"

/* No rule or limit stands against one more call. Where no call is open none can: a frame is never
 * longer than what may be held. */
WEIR_INLINE bool weir__linkd_admits(const struct weir__linkd_session *s, uint64_t id,
                                    uint32_t length) {
    return likely(!s->table.count) ||
           (s->open < s->line->calls_max && s->held + length <= s->line->held_max &&
            !weir__linkd_table_lookup(&s->table, id));
}

/* NULL: no such service, no room for it, no memory. */
struct weir_linkd_call *weir__linkd_call_other(struct weir__linkd_session *s, uint16_t service);
/* The usual call is of the service that the last one was of, which knows nothing but call(), and
 * takes the memory that the last one left: it is as weir__linkd_server_call() makes it. */
WEIR_INLINE struct weir_linkd_call *weir__linkd_call_new(struct weir__linkd_session *s,
                                                         uint16_t service) {
    struct weir__linkd_line *line = s->line;
    struct weir_linkd_call *x = line->spare;
    if (unlikely(service != line->usual_service || !x))
        return weir__linkd_call_other(s, service);
    line->spare = NULL;
    x->s = s;
    x->service = service;
    x->flags = WEIR__LINKD_RECV_DONE | WEIR__LINKD_DIRECT | WEIR__LINKD_CALLED | WEIR__LINKD_BUSY;
    x->route = line->usual;
    return x;
}

/* A frame off the front of in, without its header; payload is empty. False: no memory, nothing
 * moved. */
bool weir__linkd_take_cut(struct weir__linkd_session *s, struct weir_chain *in, uint32_t length,
                          struct weir_chain *payload);
/* Usually it is all that has arrived, and its first part goes on behind the header. */
WEIR_INLINE bool weir__linkd_take(struct weir__linkd_session *s, struct weir_chain *in,
                                  uint32_t length, struct weir_chain *payload) {
    struct weir_part *first = in->first;
    if (in->bytes != WEIR_LINKD_HEAD_BYTES + (uint64_t)length)
        return weir__linkd_take_cut(s, in, length, payload);
    first->slice.p += WEIR_LINKD_HEAD_BYTES;
    first->slice.n -= WEIR_LINKD_HEAD_BYTES;
    payload->first = first;
    payload->last = in->last;
    payload->bytes = length;
    *in = (struct weir_chain){0};
    return true;
}

/* The request at the front of in, whose call() is to be run now: it has a payload, no flag, and all
 * of it is there. NULL: it takes the general way, nothing is touched. Inside read: the session is
 * quiet. alone: the session has nothing else to do, and takes nothing that is not all of in. */
WEIR_INLINE struct weir_linkd_call *weir__linkd_begin(struct weir__linkd_session *s,
                                                      struct weir_chain *in, bool alone) {
    const struct weir_part *part = in->first;
    weir__mem_chain_enter(in);
    if (unlikely(!part || part->slice.n <= WEIR_LINKD_HEAD_BYTES || !part->slice.p))
        return NULL;
    const uint8_t *p = part->slice.p;
    uint64_t first = weir__base_get_be64(p), id = weir__base_get_be64(p + 8);
    uint32_t length = weir__base_get_be32(p + 16);
    uint64_t whole = WEIR_LINKD_HEAD_BYTES + (uint64_t)length;
    if (unlikely(first >> 16 != WEIR__LINKD_PLAIN || length >= s->direct_below || !id) ||
        unlikely(alone ? in->bytes != whole : in->bytes < whole))
        return NULL;
    if (!alone && unlikely(s->decoder.skip || !weir__linkd_admits(s, id, length)))
        return NULL;
    struct weir_linkd_call *x = weir__linkd_call_new(s, (uint16_t)first);
    if (unlikely(!x))
        return NULL;
    if (unlikely(!weir__linkd_take(s, in, length, &x->in))) {
        weir_mem_free(x);
        return NULL;
    }
    x->id = id;
    x->serial = ++s->line->serial;
    s->line->stats->calls++;
    s->direct = x;
    weir__linkd_enter(s);
    return x;
}

/* call() of x has returned rc. */
void weir__linkd_ran(struct weir__linkd_session *s, struct weir_linkd_call *x, int rc);

/* The other half of begin: call() has returned rc. */
WEIR_INLINE void weir__linkd_finish(struct weir__linkd_session *s, struct weir_linkd_call *x,
                                    int rc) {
    struct weir__linkd_line *line = s->line;
    s->direct = NULL;
    if (unlikely(!(x->flags & WEIR__LINKD_OVER) || !weir__base_list_empty(&s->finished)) ||
        unlikely(x->route != line->usual || line->spare || x->staged.first)) {
        weir__linkd_ran(s, x, rc);
        weir__linkd_leave(s);
        return;
    }
    if (x->in.first)
        weir_chain_fini(&x->in);
    line->spare = x; /* as it was before begin, but for what that sets */
    s->depth--;      /* we are in read: nothing else is to be done */
}

#endif
