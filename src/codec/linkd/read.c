/* Reading: frame by frame, the usual request the direct way (direct.h). */
#include "codec/linkd/direct.h"

bool weir__linkd_take_cut(struct weir__linkd_session *s, struct weir_chain *in, uint32_t length,
                          struct weir_chain *payload) {
    if (weir_chain_move(s->line->m, payload, in, WEIR_LINKD_HEAD_BYTES + (uint64_t)length) < 0)
        return false;
    weir__mem_chain_drop(payload, WEIR_LINKD_HEAD_BYTES);
    return true;
}

/* In guarded builds a dead call is watched: none is kept, and none is usual. */
static bool is_usual(const struct weir_linkd_service *v) {
#ifdef WEIR__MEM_GUARDED
    (void)v;
    return false;
#else
    return !v->state_size && !v->offloads && !v->body && !v->done;
#endif
}

static struct weir_linkd_call *call_memory(struct weir__linkd_session *s, size_t state_size) {
    struct weir_linkd_call *x = s->line->spare;
    if (!x || state_size)
        return weir__linkd_server_call(s, state_size);
    s->line->spare = NULL;
    x->s = s;
    return x;
}

struct weir_linkd_call *weir__linkd_call_other(struct weir__linkd_session *s, uint16_t service) {
    const struct weir_linkd_route *r = weir__linkd_route(s->line->server, service);
    if (!r || !weir__linkd_room(s, r->handler))
        return NULL;
    struct weir_linkd_call *x = call_memory(s, r->handler->state_size);
    if (!x)
        return NULL;
    x->service = service;
    x->flags = WEIR__LINKD_RECV_DONE | WEIR__LINKD_DIRECT | WEIR__LINKD_CALLED | WEIR__LINKD_BUSY;
    x->flags |= r->handler->body ? WEIR__LINKD_PIECES : 0;
    x->route = r;
    if (is_usual(r->handler)) {
        s->line->usual_service = service;
        s->line->usual = r;
    }
    return x;
}

static void answered(struct weir__linkd_session *s, struct weir_linkd_call *x) {
    if (x->route->handler->done)
        x->route->handler->done(x, 0);
    s->held -= x->offered;
    weir_chain_fini(&x->in);
    weir__linkd_unstage(x);
    weir__linkd_server_drop(x);
}

void weir__linkd_ran(struct weir__linkd_session *s, struct weir_linkd_call *x, int rc) {
    if (!(x->flags & WEIR__LINKD_OVER))
        weir__linkd_server_join(x, rc);
    else if (!weir__base_linked(&x->link)) /* else it is told with what else has ended */
        answered(s, x);
}

void weir__linkd_run_direct(struct weir_linkd_call *x) {
    struct weir__linkd_session *s = x->s;
    s->direct = x;
    int rc = weir__linkd_run_call(s, x);
    s->direct = NULL;
    weir__linkd_ran(s, x, rc);
}

/* False: the frame at the front of in takes the general way. */
WEIR_INLINE bool direct(struct weir__linkd_session *s, struct weir_chain *in) {
    struct weir_linkd_call *x = weir__linkd_begin(s, in, false);
    if (unlikely(!x))
        return false;
    weir__linkd_finish(s, x, weir__linkd_run_call(s, x));
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
