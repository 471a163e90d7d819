/* The client's end: starts calls, turns RESPONSE and ERROR into replies. */
#include "codec/linkd/session.h"
#include <string.h>

enum { TEXT_MAX = 1024 }; /* of an ERROR's text, shown contiguous */

void weir__linkd_client_line(struct weir__linkd_line *line,
                             const struct weir_linkd_client_options *o, struct weir_mem *m,
                             const struct weir__linkd_host *host, struct weir_linkd_stats *stats) {
    static const struct weir_linkd_client_options none;
    const struct weir_linkd_client_options *v = o ? o : &none;
    *line = (struct weir__linkd_line){.m = m,
                                      .host = host,
                                      .stats = stats,
                                      .frame_max = v->frame_max,
                                      .message_max = v->message_max,
                                      .held_max = v->held_max,
                                      .calls_max = v->calls_max,
                                      .stage_max = v->stage_max};
    weir__linkd_line_limits(line);
}

void weir__linkd_client_init(struct weir_linkd_client *k, struct weir__linkd_line *line,
                             const struct weir_linkd_client_options *o, uint64_t seed,
                             struct weir_ref chan) {
    *k = (struct weir_linkd_client){.o = o, .next_id = 1};
    weir__linkd_init(&k->s, line, seed, chan);
}

static void pinged(struct weir_linkd_client *k, int status) {
    struct weir__linkd_ping *ping = k->ping;
    k->ping = NULL; /* first: fn may ping again */
    ping->fn(status, ping->user);
    weir_mem_free(ping);
}

void weir__linkd_client_fini(struct weir_linkd_client *k, int why) {
    if (k->ping)
        pinged(k, why);
}

static void tell(struct weir_linkd_call *x, bool last) {
    struct weir_linkd_reply r = {.call = x,
                                 .status = x->why,
                                 .code = x->k.code,
                                 .text = {"", 0},
                                 .payload = &x->in,
                                 .last = last};
    size_t n = x->k.code ? (size_t)x->in.bytes : 0;
    const uint8_t *text = n ? weir_chain_peek(x->s->line->m, &x->in,
                                              n = n < TEXT_MAX ? n : TEXT_MAX)
                            : NULL;
    if (text)
        r.text = (struct weir_str){(const char *)text, n};
    x->k.fn(&r, x->k.user);
}

void weir__linkd_client_finish(struct weir_linkd_call *x) {
    tell(x, true);
    x->s->held -= x->offered;
    weir_chain_fini(&x->in);
    weir_mem_free(x);
}

void weir__linkd_client_deliver(struct weir_linkd_call *x) {
    uint64_t before;
    do {
        x->flags = (uint16_t)((x->flags & ~WEIR__LINKD_AGAIN) | WEIR__LINKD_BUSY);
        before = x->in.bytes;
        tell(x, false);
        x->flags &= (uint16_t)~WEIR__LINKD_BUSY;
        if (x->flags & WEIR__LINKD_OVER)
            return;
        weir__linkd_account(x);
    } while (x->flags & WEIR__LINKD_AGAIN && x->in.bytes && x->in.bytes < before);
}

void weir__linkd_hang_up(struct weir_linkd_call *x) {
    struct weir__linkd_head h = {.type = WEIR_LINKD_CANCEL, .service = x->service, .id = x->id};
    if (x->s->line->server || !(x->flags & WEIR__LINKD_SEND_BEGUN) ||
        x->flags & WEIR__LINKD_SEND_DONE)
        return;
    int rc = weir__linkd_put(x->s, &h, NULL);
    if (rc < 0)
        weir__linkd_die(x->s, rc);
}

static void response(struct weir_linkd_call *x, const struct weir__linkd_head *h,
                     struct weir_chain *payload) {
    struct weir__linkd_session *s = x->s;
    bool last = !(h->flags & WEIR_LINKD_MORE), whole = !(x->flags & WEIR__LINKD_PIECES);
    if (!last)
        x->flags |= WEIR__LINKD_RECV_STREAM;
    if (x->flags & WEIR__LINKD_RECV_STREAM && !weir__linkd_charge(x, h)) {
        s->line->stats->malformed++;
        weir__linkd_abort(x, WEIR_LINKD_MALFORMED, NULL, WEIR_EPROTO);
        return;
    }
    if (whole && x->in.bytes + h->length > s->line->message_max) {
        s->line->stats->too_large++;
        weir__linkd_abort(x, WEIR_LINKD_TOO_LARGE, NULL, WEIR_ETOOBIG);
        return;
    }
    if (s->held + h->length > s->line->held_max) {
        s->line->stats->overloaded++;
        weir__linkd_abort(x, WEIR_LINKD_OVERLOADED, NULL, WEIR_EFULL);
        return;
    }
    s->held += h->length;
    x->offered += h->length;
    weir_chain_append(&x->in, payload);
    if (last) {
        x->flags |= WEIR__LINKD_RECV_DONE;
        s->line->stats->answered++;
        weir__linkd_hang_up(x);
        weir__linkd_end(x, 0);
    } else if (whole) {
        weir__linkd_refund(x, h->length);
    } else {
        weir__linkd_client_deliver(x);
    }
}

static void error(struct weir_linkd_call *x, struct weir_chain *payload) {
    struct weir__linkd_session *s = x->s;
    uint64_t code = 0;
    weir_chain_fini(&x->in);
    s->held -= x->offered;
    if (weir_chain_get_be(payload, 0, 2, &code) == 0)
        weir_chain_drop(payload, 2);
    x->k.code = (uint16_t)code;
    x->offered = payload->bytes;
    s->held += x->offered;
    weir_chain_append(&x->in, payload);
    x->flags |= WEIR__LINKD_RECV_DONE;
    s->line->stats->failed++;
    weir__linkd_hang_up(x);
    weir__linkd_end(x, !code                                  ? WEIR_EPROTO
                       : code == WEIR_LINKD_DEADLINE_EXCEEDED ? WEIR_EDEADLINE
                       : code == WEIR_LINKD_CANCELLED         ? WEIR_ECANCELLED
                                                              : WEIR_ECALL);
}

static bool is_ours(const struct weir__linkd_ping *ping, const struct weir__linkd_head *h,
                    const struct weir_chain *payload) {
    uint8_t data[WEIR_LINKD_PING_MAX];
    return ping && h->length == ping->n &&
           (!ping->n || (weir_chain_read(payload, 0, data, ping->n) == 0 &&
                         !memcmp(data, ping->data, ping->n)));
}

void weir__linkd_client_frame(struct weir__linkd_session *s, const struct weir__linkd_head *h,
                              struct weir_chain *payload) {
    struct weir_linkd_client *k = (struct weir_linkd_client *)s;
    struct weir_linkd_call *x = weir__linkd_table_find(&s->table, h->id);
    if (h->type == WEIR_LINKD_REQUEST)
        weir__linkd_reject(s, h, h->id ? WEIR_LINKD_UNKNOWN_SERVICE : WEIR_LINKD_MALFORMED);
    else if (h->type == WEIR_LINKD_RESPONSE && x)
        response(x, h, payload);
    else if (h->type == WEIR_LINKD_ERROR && x)
        error(x, payload);
    else if (h->type == WEIR_LINKD_PONG && is_ours(k->ping, h, payload))
        pinged(k, 0);
    else
        s->line->stats->ignored++;
}

/* Stages a request that does not fit one frame, or whose end is not known yet. */
static int stage(struct weir_linkd_call *x, uint32_t deadline_ms, struct weir_chain *payload) {
    uint8_t ms[4];
    weir__base_put_be32(ms, deadline_ms);
    struct weir_chain first = {0};
    int rc = deadline_ms ? weir_chain_write(x->s->line->m, &first, ms, sizeof ms) : 0;
    if (rc < 0)
        return rc;
    weir__linkd_stage(x, &first);
    if (payload)
        weir__linkd_stage(x, payload);
    return 0;
}

static int first_send(struct weir_linkd_call *x, const struct weir_linkd_request *o,
                      struct weir_chain *payload) {
    struct weir__linkd_session *s = x->s;
    uint64_t bytes = (payload ? payload->bytes : 0) + (o->deadline_ms ? 4 : 0);
    if (o->more || bytes > s->decoder.frame_max)
        return stage(x, o->deadline_ms, payload);
    struct weir__linkd_head h = {.type = WEIR_LINKD_REQUEST,
                                 .service = x->service,
                                 .id = x->id,
                                 .flags = o->deadline_ms ? WEIR_LINKD_DEADLINE : 0};
    int rc = weir__linkd_put_chain(s, &h, o->deadline_ms, payload);
    if (rc >= 0)
        x->flags |= WEIR__LINKD_SEND_DONE;
    return rc;
}

static int open_call(struct weir__linkd_session *s, struct weir_linkd_call *x,
                     const struct weir_linkd_request *o, struct weir_chain *payload) {
    int rc = weir__linkd_table_add(&s->table, s->line->m, x);
    if (rc < 0)
        return rc;
    rc = first_send(x, o, payload);
    if (rc < 0) {
        weir__linkd_table_remove(&s->table, x);
        return rc;
    }
    s->open++;
    s->line->stats->calls++;
    if (!o->more)
        x->flags |= WEIR__LINKD_SEND_END;
    if (o->deadline_ms)
        weir__linkd_due(x, o->deadline_ms);
    weir__linkd_want_send(x);
    return 0;
}

int weir_linkd_start(struct weir_linkd_client *k, const struct weir_linkd_request *o,
                     struct weir_chain *payload, struct weir_linkd_call **out,
                     void (*fn)(const struct weir_linkd_reply *r, void *user), void *user) {
    static const struct weir_linkd_request none = {.size = sizeof none};
    struct weir__linkd_session *s = &k->s;
    o = o ? o : &none;
    if (o->size < sizeof *o)
        return WEIR_EINVAL;
    if (s->goaway_in || s->goaway_out || s->ending || s->why)
        return WEIR_ESTOPPED;
    if (s->open >= s->line->calls_max)
        return WEIR_EFULL;
    struct weir_linkd_call *x = weir_mem_new(s->line->m, sizeof *x);
    if (!x)
        return WEIR_ENOMEM;
    x->id = k->next_id;
    x->serial = s->line->serial + 1;
    x->s = s;
    x->service = o->service;
    x->send_credit = x->recv_credit = WEIR_LINKD_CREDIT_BYTES;
    x->flags = o->stream ? WEIR__LINKD_PIECES : 0;
    x->k.fn = fn;
    x->k.user = user;
    x->k.room = o->room;
    int rc = open_call(s, x, o, payload);
    if (rc < 0) {
        weir_mem_free(x);
        return rc;
    }
    k->next_id++;
    s->line->serial++;
    if (out)
        *out = x;
    weir__linkd_enter(s);
    weir__linkd_leave(s);
    return 0;
}

int weir_linkd_ping(struct weir_linkd_client *k, const void *data, size_t n,
                    void (*fn)(int status, void *user), void *user) {
    struct weir__linkd_head h = {.type = WEIR_LINKD_PING, .length = (uint32_t)n};
    if (n > WEIR_LINKD_PING_MAX)
        return WEIR_EINVAL;
    if (k->s.ending || k->s.why)
        return WEIR_ESTOPPED;
    if (k->ping)
        return WEIR_EAGAIN;
    struct weir__linkd_ping *ping = weir_mem_new(k->s.line->m, sizeof *ping);
    if (!ping)
        return WEIR_ENOMEM;
    ping->fn = fn;
    ping->user = user;
    ping->n = (uint8_t)n;
    if (n)
        memcpy(ping->data, data, n);
    int rc = weir__linkd_put(&k->s, &h, data);
    if (rc < 0) {
        weir_mem_free(ping);
        return rc;
    }
    k->ping = ping;
    weir__linkd_enter(&k->s);
    weir__linkd_leave(&k->s);
    return 0;
}

unsigned weir_linkd_open_calls(const struct weir_linkd_client *k) {
    return k->s.open;
}

struct weir_chan *weir_linkd_client_chan(struct weir_linkd_client *k) {
    return k->chan;
}
