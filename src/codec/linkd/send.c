/* Everything that puts bytes into `out`: single frames, and streams by turns under their credit. */
#include "codec/linkd/place.h"
#include <string.h>

enum {
    STREAM_FRAME_BYTES = 32 << 10, /* one stream's turn: half a first batch of a channel, so that
                                      two streams share it */
    TEXT_MAX = 256,
};

int weir__linkd_put(struct weir__linkd_session *s, const struct weir__linkd_head *h,
                    const void *payload) {
    uint8_t *p = weir_chain_reserve(s->line->m, &s->out, WEIR_LINKD_HEAD_BYTES + h->length);
    if (unlikely(!p))
        return WEIR_ENOMEM;
    weir__linkd_put_head(p, h);
    if (h->length)
        memcpy(p + WEIR_LINKD_HEAD_BYTES, payload, h->length);
    weir_chain_commit(&s->out, WEIR_LINKD_HEAD_BYTES + h->length);
    return 0;
}

static int put_head(struct weir__linkd_session *s, const struct weir__linkd_head *h) {
    uint8_t *p = weir_chain_reserve(s->line->m, &s->out, WEIR_LINKD_HEAD_BYTES);
    if (unlikely(!p))
        return WEIR_ENOMEM;
    weir__linkd_put_head(p, h);
    weir_chain_commit(&s->out, WEIR_LINKD_HEAD_BYTES);
    return 0;
}

bool weir__linkd_head_new(struct weir__linkd_line *line) {
    struct weir_slice fresh;
    if (weir_slice_new(line->m, WEIR__LINKD_SHARED_BYTES, &fresh) < 0)
        return false;
    weir_slice_release(&line->head);
    line->head = fresh;
    return true;
}

int weir__linkd_put_chain(struct weir__linkd_session *s, struct weir__linkd_head *h,
                          uint32_t deadline_ms, struct weir_chain *payload) {
    struct weir_chain none = {0};
    uint32_t extra = h->flags & WEIR_LINKD_DEADLINE ? 4 : 0;
    payload = payload ? payload : &none;
    h->length = (uint32_t)payload->bytes + extra;
    uint8_t *p = weir__linkd_place(s, WEIR_LINKD_HEAD_BYTES + extra, payload);
    if (unlikely(!p))
        return WEIR_ENOMEM;
    weir__linkd_put_head(p, h);
    if (extra)
        weir__base_put_be32(p + WEIR_LINKD_HEAD_BYTES, deadline_ms);
    return 0;
}

int weir__linkd_put_error(struct weir__linkd_session *s, uint64_t id, uint16_t service,
                          unsigned code, const char *text) {
    uint8_t data[2 + TEXT_MAX];
    text = text ? text : weir_linkd_code_text(code);
    size_t n = strnlen(text, TEXT_MAX);
    struct weir__linkd_head h = {
        .type = WEIR_LINKD_ERROR, .service = service, .id = id, .length = 2 + (uint32_t)n};
    weir__base_put_be16(data, (uint16_t)code);
    memcpy(data + 2, text, n);
    return weir__linkd_put(s, &h, data);
}

static bool sendable(const struct weir_linkd_call *x) {
    if (x->flags & (WEIR__LINKD_OVER | WEIR__LINKD_SEND_DONE))
        return false;
    if (!x->staged.bytes)
        return x->flags & WEIR__LINKD_SEND_END;
    return x->send_credit > 0;
}

void weir__linkd_want_send(struct weir_linkd_call *x) {
    if (!weir__base_linked(&x->link) && sendable(x))
        weir__base_list_push_back(&x->s->sending, &x->link);
}

/* Moves n staged bytes behind a header. ENOMEM: x is as before. */
static int frame(struct weir_linkd_call *x, uint64_t n, bool last) {
    struct weir__linkd_session *s = x->s;
    struct weir_chain piece = {0};
    struct weir__linkd_head h = {.service = x->service, .id = x->id, .length = (uint32_t)n};
    int rc = weir_chain_move(s->line->m, &piece, &x->staged, n);
    if (rc < 0)
        return rc;
    h.type = s->line->server ? WEIR_LINKD_RESPONSE : WEIR_LINKD_REQUEST;
    h.flags = last ? 0 : WEIR_LINKD_MORE;
    if (!s->line->server && x->deadline_ns && !(x->flags & WEIR__LINKD_SEND_BEGUN))
        h.flags |= WEIR_LINKD_DEADLINE; /* its four bytes were staged first */
    rc = put_head(s, &h);
    if (rc < 0) {
        weir_chain_append(&piece, &x->staged);
        x->staged = piece;
        return rc;
    }
    s->staged -= n;
    weir_chain_append(&s->out, &piece);
    return 0;
}

static void tell_room(struct weir_linkd_call *x) {
    struct weir__linkd_session *s = x->s;
    if (!(x->flags & WEIR__LINKD_FULL) || x->staged.bytes > s->line->stage_max / 2)
        return;
    if (x->flags & WEIR__LINKD_SEND_END)
        return; /* its owner has let go of it */
    x->flags &= (uint16_t)~WEIR__LINKD_FULL;
    void (*room)(struct weir_linkd_call *, uint64_t) = s->line->server ? x->route->handler->room
                                                                       : x->k.room;
    if (room)
        room(x, s->line->stage_max - x->staged.bytes);
}

static int send_one(struct weir_linkd_call *x) {
    struct weir__linkd_session *s = x->s;
    uint64_t n = x->staged.bytes, max = STREAM_FRAME_BYTES;
    max = max < s->decoder.frame_max ? max : s->decoder.frame_max;
    max = max < x->send_credit ? max : x->send_credit;
    n = n < max ? n : max;
    bool last = x->flags & WEIR__LINKD_SEND_END && n == x->staged.bytes;
    int rc = frame(x, n, last);
    if (rc < 0)
        return rc;
    x->send_credit -= n;
    x->flags |= WEIR__LINKD_SEND_BEGUN;
    if (last) {
        x->flags |= WEIR__LINKD_SEND_DONE;
        if (s->line->server) {
            s->line->stats->answered++;
            weir__linkd_end(x, 0);
        }
        return 0;
    }
    weir__linkd_want_send(x);
    tell_room(x);
    return 0;
}

int64_t weir__linkd_pull(struct weir__linkd_session *s, uint64_t room) {
    uint64_t before = s->out.bytes;
    struct weir__base_link *l;
    bool was_quiet = s->quiet;
    s->quiet = true;
    weir__linkd_enter(s);
    while (!s->why && s->out.bytes - before < room &&
           (l = weir__base_list_pop_front(&s->sending))) {
        struct weir_linkd_call *x = container_of(l, struct weir_linkd_call, link);
        int rc = send_one(x);
        if (rc < 0) {
            weir__base_list_push_front(&s->sending, &x->link);
            weir__linkd_die(s, rc);
        }
    }
    int64_t framed = (int64_t)(s->out.bytes - before);
    weir__linkd_leave(s);
    s->quiet = was_quiet;
    return s->why ? s->why : framed;
}

/* ---- credit for what arrives ---- */

bool weir__linkd_charge(struct weir_linkd_call *x, const struct weir__linkd_head *h) {
    if (h->length > x->recv_credit)
        return false;
    x->recv_credit -= h->length;
    return true;
}

/* In halves of the window, so that a stream of small pieces does not cost a CREDIT each. */
void weir__linkd_refund(struct weir_linkd_call *x, uint64_t bytes) {
    struct weir__linkd_head h = {
        .type = WEIR_LINKD_CREDIT, .service = x->service, .id = x->id, .length = 4};
    uint8_t data[4];
    if ((x->flags & (WEIR__LINKD_RECV_STREAM | WEIR__LINKD_RECV_DONE)) != WEIR__LINKD_RECV_STREAM)
        return;
    x->refund += (uint32_t)bytes;
    if (x->refund < WEIR_LINKD_CREDIT_BYTES / 2)
        return;
    weir__base_put_be32(data, x->refund);
    int rc = weir__linkd_put(x->s, &h, data);
    if (rc < 0) {
        weir__linkd_die(x->s, rc);
        return;
    }
    x->recv_credit += x->refund;
    x->refund = 0;
}

void weir__linkd_account(struct weir_linkd_call *x) {
    must(x->in.bytes <= x->offered); /* a payload chain is only ever taken from */
    uint64_t taken = x->offered - x->in.bytes;
    x->offered = x->in.bytes;
    x->s->held -= taken;
    if (taken && x->flags & WEIR__LINKD_PIECES) /* what is collected was refunded when it arrived */
        weir__linkd_refund(x, taken);
}
