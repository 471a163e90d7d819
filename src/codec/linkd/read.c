/* Reading: frame by frame, the usual request the direct way.
 *
 *   in --- a plain REQUEST, all there, breaks nothing ---> call() --- answered ---> ended, kept
 *    |                                                        |
 *    |                                                        +--- not yet -------> table
 *    +---- everything else: weir__linkd_step()
 *
 * The direct way decides nothing by itself: what is not as usual is left to the general one, which
 * says why. */
#include "codec/linkd/server.h"

/* One whole request without a flag: all of it is there, no rule or limit stands against it. */
WEIR_INLINE bool is_direct(const struct weir__linkd_session *s, const struct weir_chain *in,
                           uint64_t first, uint64_t id, uint32_t length) {
    return likely(first >> 16 == WEIR__LINKD_PLAIN && length < s->direct_below &&
                  in->bytes >= WEIR_LINKD_HEAD_BYTES + length && id &&
                  s->open < s->line->calls_max && s->held + length <= s->line->held_max &&
                  !weir__linkd_table_find(&s->table, id));
}

WEIR_NOINLINE static bool take_cut(struct weir__linkd_session *s, struct weir_chain *in,
                                   uint64_t whole, struct weir_chain *payload) {
    if (weir_chain_move(s->line->m, payload, in, whole) < 0)
        return false;
    weir__mem_chain_drop(payload, WEIR_LINKD_HEAD_BYTES);
    return true;
}

/* A frame off the front of in, without its header; payload is empty. Usually it is all that has
 * arrived, and its first part goes on behind the header. False: no memory, nothing moved. */
WEIR_INLINE bool take(struct weir__linkd_session *s, struct weir_chain *in, uint32_t length,
                      struct weir_chain *payload) {
    uint64_t whole = WEIR_LINKD_HEAD_BYTES + (uint64_t)length;
    struct weir_part *first = in->first;
    if (in->bytes > whole || unlikely(first->slice.n == WEIR_LINKD_HEAD_BYTES))
        return take_cut(s, in, whole, payload);
    first->slice.p += WEIR_LINKD_HEAD_BYTES;
    first->slice.n -= WEIR_LINKD_HEAD_BYTES;
    payload->first = first;
    payload->last = in->last;
    payload->bytes = length;
    *in = (struct weir_chain){0};
    return true;
}

/* NULL: no memory. */
WEIR_INLINE struct weir_linkd_call *call_new(struct weir__linkd_session *s, uint64_t id,
                                             uint16_t service, const struct weir_linkd_route *r) {
    struct weir_linkd_call *x = s->line->spare;
    size_t state_size = r->handler->state_size;
    if (likely(x && !state_size))
        s->line->spare = NULL;
    else if (unlikely(!(x = weir__linkd_server_call(s, state_size))))
        return NULL;
    x->s = s;
    x->id = id;
    x->service = service;
    x->flags = WEIR__LINKD_RECV_DONE | WEIR__LINKD_DIRECT | WEIR__LINKD_CALLED | WEIR__LINKD_BUSY;
    x->flags |= r->handler->body ? WEIR__LINKD_PIECES : 0;
    x->route = r;
    return x;
}

/* What was answered at once is as weir__linkd_server_call() made it, but for what call_new() sets:
 * the line keeps one. Not in guarded builds, where a dead call is watched. */
WEIR_INLINE bool keep(struct weir__linkd_session *s, struct weir_linkd_call *x) {
#ifdef WEIR__MEM_GUARDED
    (void)s, (void)x;
    return false;
#else
    if (unlikely(s->line->spare || x->staged.first || x->route->handler->state_size))
        return false;
    x->deadline_ns = 0;
    s->line->spare = x;
    return true;
#endif
}

WEIR_INLINE void finish(struct weir__linkd_session *s, struct weir_linkd_call *x) {
    if (x->route->handler->done)
        x->route->handler->done(x, 0);
    s->held -= x->offered;
    if (x->in.first)
        weir_chain_fini(&x->in);
    if (likely(keep(s, x)))
        return;
    weir__linkd_unstage(x);
    weir_mem_free(x);
}

/* The usual call is answered from inside call(): it never is in the table. */
WEIR_INLINE void run(struct weir__linkd_session *s, struct weir_linkd_call *x) {
    s->direct = x;
    int rc = weir__linkd_run_call(s, x);
    s->direct = NULL;
    if (unlikely(!(x->flags & WEIR__LINKD_OVER)))
        weir__linkd_server_join(x, rc);
    else if (likely(!weir__base_linked(&x->link)))
        finish(s, x);
}

void weir__linkd_call_direct(struct weir__linkd_session *s, struct weir_linkd_call *x) {
    run(s, x);
}

/* The request at the front of in, from its bytes to its answer. False: it takes the general way,
 * nothing is touched. */
WEIR_INLINE bool direct(struct weir__linkd_session *s, struct weir_chain *in) {
    const uint8_t *p = weir__mem_chain_front(in, WEIR_LINKD_HEAD_BYTES);
    if (unlikely(!p || s->decoder.skip))
        return false;
    uint64_t first = weir__base_get_be64(p), id = weir__base_get_be64(p + 8);
    uint32_t length = weir__base_get_be32(p + 16);
    if (!is_direct(s, in, first, id, length))
        return false;
    const struct weir_linkd_route *r = weir__linkd_route(s->line->server, (uint16_t)first);
    if (unlikely(!r) || unlikely(!weir__linkd_room(s, r->handler)))
        return false;
    struct weir_linkd_call *x = call_new(s, id, (uint16_t)first, r);
    if (unlikely(!x))
        return false;
    if (unlikely(!take(s, in, length, &x->in))) {
        weir_mem_free(x);
        return false;
    }
    x->serial = ++s->serial;
    x->offered = length;
    s->held += length;
    s->open++;
    s->line->stats->calls++;
    weir__linkd_enter(s);
    run(s, x);
    if (likely(weir__base_list_empty(&s->finished)))
        s->depth--; /* we are in read: nothing else is to be done */
    else
        weir__linkd_settle(s);
    return true;
}

/* The frame at the front of in makes a call that its service cannot offload now. A first frame of
 * several does not: such a message is collected first. */
WEIR_NOINLINE static bool waits_for_room(struct weir__linkd_session *s, struct weir_chain *in) {
    struct weir__linkd_head h;
    const uint8_t *p = s->decoder.skip ? NULL
                                       : weir_chain_peek(s->line->m, in, WEIR_LINKD_HEAD_BYTES);
    if (!p || s->goaway_out || weir__linkd_judge(p, &h) != WEIR__LINKD_GOOD ||
        h.type != WEIR_LINKD_REQUEST || h.flags & WEIR_LINKD_MORE)
        return false;
    const struct weir_linkd_route *r = weir__linkd_route(s->line->server, h.service);
    return r && !weir__linkd_room(s, r->handler);
}

/* The result of weir__linkd_read, but for s->why. */
WEIR_INLINE int read_all(struct weir__linkd_session *s, struct weir_chain *in, uint64_t out_max) {
    while (likely(!s->why)) {
        if (unlikely(s->out.bytes >= out_max))
            return 1;
        if (!in->first) {
            s->decoder.want = s->decoder.skip ? 1 : 2;
            return 0;
        }
        if (likely(direct(s, in)))
            continue;
        if (unlikely(s->line->offloads) && waits_for_room(s, in))
            return 2;
        if (weir__linkd_step(s, in) <= 0)
            return 0;
    }
    return 0;
}

int weir__linkd_read(struct weir__linkd_session *s, struct weir_chain *in, uint64_t out_max) {
    must(!s->depth);
    s->quiet = true;
    int more = read_all(s, in, out_max);
    s->quiet = false;
    if (unlikely(s->why))
        weir_chain_fini(in);
#ifdef WEIR_CHECKED
    weir__linkd_invariants(s);
#endif
    return unlikely(s->why) ? s->why : more;
}
