/* What an owner does with a call, on either side. */
#include "codec/linkd/place.h"

const char *weir_linkd_code_text(unsigned code) {
    static const char *const text[] = {
        [WEIR_LINKD_MALFORMED] = "malformed",
        [WEIR_LINKD_TOO_LARGE] = "too large",
        [WEIR_LINKD_UNKNOWN_SERVICE] = "unknown service",
        [WEIR_LINKD_OVERLOADED] = "overloaded",
        [WEIR_LINKD_DEADLINE_EXCEEDED] = "deadline exceeded",
        [WEIR_LINKD_CANCELLED] = "cancelled",
        [WEIR_LINKD_INTERNAL] = "internal",
        [WEIR_LINKD_UNAVAILABLE] = "unavailable",
    };
    return code && code < ARRAY_LEN(text) ? text[code] : "unknown code";
}

uint64_t weir_linkd_id(const struct weir_linkd_call *x) {
    return x->id;
}

uint16_t weir_linkd_service_number(const struct weir_linkd_call *x) {
    return x->service;
}

uint64_t weir_linkd_deadline(const struct weir_linkd_call *x) {
    return x->deadline_ns;
}

struct weir_chain *weir_linkd_payload(struct weir_linkd_call *x) {
    return &x->in;
}

void *weir_linkd_state(struct weir_linkd_call *x) {
    return x->s->line->server && x->route->handler->state_size ? x->state : NULL;
}

struct weir_mem *weir_linkd_mem(const struct weir_linkd_call *x) {
    return x->s->line->m;
}

struct weir_linkd_ref weir_linkd_call_ref(const struct weir_linkd_call *x) {
    return (struct weir_linkd_ref){x->s->chan, x->id, x->serial};
}

static void deliver(struct weir_linkd_call *x) {
    if (x->s->line->server)
        weir__linkd_server_deliver(x);
    else
        weir__linkd_client_deliver(x);
}

void weir_linkd_resume(struct weir_linkd_call *x) {
    struct weir__linkd_session *s = x->s;
    uint16_t deaf = s->line->server ? WEIR__LINKD_OVER | WEIR__LINKD_SEND_END : WEIR__LINKD_OVER;
    if (x->flags & deaf)
        return;
    if (x->flags & WEIR__LINKD_BUSY) {
        x->flags |= WEIR__LINKD_AGAIN;
        return;
    }
    weir__linkd_enter(s);
    weir__linkd_account(x);
    if (x->in.bytes && x->flags & WEIR__LINKD_PIECES)
        deliver(x);
    weir__linkd_leave(s);
}

WEIR_INLINE struct weir__linkd_head response_head(const struct weir_linkd_call *x,
                                                  const struct weir_chain *c) {
    return (struct weir__linkd_head){.type = WEIR_LINKD_RESPONSE,
                                     .service = x->service,
                                     .id = x->id,
                                     .length = (uint32_t)c->bytes};
}

/* One RESPONSE is all of it. */
static int answer_whole(struct weir_linkd_call *x, struct weir_chain *c) {
    struct weir__linkd_session *s = x->s;
    struct weir__linkd_head h = response_head(x, c);
    uint8_t *p = weir__linkd_place(s, WEIR_LINKD_HEAD_BYTES, c);
    if (!p)
        return WEIR_ENOMEM;
    weir__linkd_put_head(p, &h);
    s->line->stats->answered++;
    x->flags |= WEIR__LINKD_SEND_END | WEIR__LINKD_SEND_DONE;
    weir__linkd_enter(s);
    weir__linkd_end(x, 0);
    weir__linkd_leave(s);
    return 0;
}

static int answer_stream(struct weir_linkd_call *x, struct weir_chain *c) {
    weir__linkd_enter(x->s);
    weir__linkd_stage(x, c);
    x->flags |= WEIR__LINKD_SEND_END;
    weir__linkd_want_send(x);
    weir__linkd_leave(x->s);
    return 0;
}

WEIR_NOINLINE static int answer_later(struct weir_linkd_call *x, struct weir_chain *c) {
    struct weir_chain none = {0};
    c = c ? c : &none;
    if (x->flags & (WEIR__LINKD_OVER | WEIR__LINKD_SEND_END))
        return WEIR_EGONE;
    if (x->flags & WEIR__LINKD_SEND_BEGUN || x->staged.bytes || !x->s->line->server ||
        c->bytes > x->s->decoder.frame_max)
        return answer_stream(x, c);
    return answer_whole(x, c);
}

/* x, in its DIRECT stage, is over when its call() returns. */
WEIR_INLINE void answered(struct weir_linkd_call *x) {
    x->s->line->stats->answered++;
    x->flags |= WEIR__LINKD_SEND_END | WEIR__LINKD_SEND_DONE | WEIR__LINKD_OVER;
}

WEIR_NOINLINE static int answer_apart(struct weir_linkd_call *x, struct weir_chain *c) {
    struct weir__linkd_head h = response_head(x, c);
    uint8_t *p = weir__linkd_place_apart(x->s, WEIR_LINKD_HEAD_BYTES, c);
    if (unlikely(!p))
        return WEIR_ENOMEM;
    weir__linkd_put_head(p, &h);
    answered(x);
    return 0;
}

WEIR_NOINLINE static int answer_behind(struct weir__linkd_session *s, struct weir_chain *c) {
    weir__mem_chain_append(&s->out, c);
    return 0;
}

/* The usual answer is whole, has room in front, and comes from inside call(). */
int weir_linkd_answer(struct weir_linkd_call *x, struct weir_chain *c) {
    enum { BEGUN = WEIR__LINKD_OVER | WEIR__LINKD_SEND_END | WEIR__LINKD_SEND_BEGUN };
    struct weir__linkd_session *s = x->s;
    if (unlikely((x->flags & (BEGUN | WEIR__LINKD_DIRECT)) != WEIR__LINKD_DIRECT ||
                 x->staged.bytes || !c || c->bytes > s->decoder.frame_max))
        return answer_later(x, c);
    if (unlikely(!weir__linkd_front_room(s, WEIR_LINKD_HEAD_BYTES, c->first)))
        return answer_apart(x, c);
    struct weir__linkd_head h = response_head(x, c);
    weir__linkd_put_head(weir__linkd_widen(WEIR_LINKD_HEAD_BYTES, c), &h);
    answered(x);
    if (unlikely(s->out.first))
        return answer_behind(s, c);
    s->out = *c;
    *c = (struct weir_chain){0};
    return 0;
}

int weir_linkd_end(struct weir_linkd_call *x) {
    struct weir_chain none = {0};
    return weir_linkd_answer(x, &none);
}

int64_t weir_linkd_write(struct weir_linkd_call *x, struct weir_chain *c) {
    struct weir__linkd_session *s = x->s;
    if (x->flags & (WEIR__LINKD_OVER | WEIR__LINKD_SEND_END))
        return WEIR_EGONE;
    weir__linkd_enter(s);
    weir__linkd_stage(x, c);
    weir__linkd_want_send(x);
    int64_t room = (int64_t)s->line->stage_max - (int64_t)x->staged.bytes;
    if (room <= 0) {
        room = 0;
        x->flags |= WEIR__LINKD_FULL;
    }
    weir__linkd_leave(s);
    return room;
}

int weir_linkd_fail(struct weir_linkd_call *x, unsigned code, const char *text) {
    struct weir__linkd_session *s = x->s;
    if (x->flags & WEIR__LINKD_OVER)
        return WEIR_EGONE;
    if (!code || code > UINT16_MAX)
        return WEIR_EINVAL;
    if (!s->line->server) {
        weir_linkd_cancel(x);
        return 0;
    }
    int rc = weir__linkd_put_error(s, x->id, x->service, code, text);
    if (rc < 0)
        return rc;
    s->line->stats->failed++;
    weir__linkd_enter(s);
    weir__linkd_end(x, WEIR_ECALL);
    weir__linkd_leave(s);
    return 0;
}

void weir_linkd_cancel(struct weir_linkd_call *x) {
    struct weir__linkd_session *s = x->s;
    struct weir__linkd_head h = {.type = WEIR_LINKD_CANCEL, .service = x->service, .id = x->id};
    if (x->flags & WEIR__LINKD_OVER)
        return;
    weir__linkd_enter(s);
    s->line->stats->cancelled++;
    if (s->line->server) {
        weir__linkd_abort(x, WEIR_LINKD_CANCELLED, NULL, WEIR_ECALL);
    } else {
        bool told = x->flags & (WEIR__LINKD_SEND_BEGUN | WEIR__LINKD_SEND_DONE);
        int rc = told ? weir__linkd_put(s, &h, NULL) : 0;
        if (rc < 0)
            weir__linkd_die(s, rc);
        weir__linkd_end(x, WEIR_ECANCELLED);
    }
    weir__linkd_leave(s);
}
