/* The server's end: REQUEST and CANCEL in, calls to the service's handler. */
#include "codec/linkd/server.h"

enum {
    DRAINS_MAX = 32
}; /* ended calls whose streamed request is still coming; older ones are forgotten */

static bool any_offloads(const struct weir_linkd_server_options *o) {
    for (unsigned i = 0; i < o->n_routes; i++)
        if (o->routes[i].handler->offloads)
            return true;
    return o->fallback && o->fallback->handler->offloads;
}

void weir__linkd_server_line(struct weir__linkd_line *line,
                             const struct weir_linkd_server_options *o, struct weir_mem *m,
                             const struct weir__linkd_host *host, struct weir_linkd_stats *stats) {
    *line = (struct weir__linkd_line){.m = m,
                                      .server = o,
                                      .host = host,
                                      .stats = stats,
                                      .frame_max = o->frame_max,
                                      .message_max = o->message_max,
                                      .held_max = o->held_max,
                                      .calls_max = o->calls_max,
                                      .stage_max = o->stage_max,
                                      .offloads = any_offloads(o),
                                      .usual_service = UINT32_MAX};
    weir__linkd_line_limits(line);
}

void weir__linkd_server_init(struct weir__linkd_session *s, struct weir__linkd_line *line,
                             uint64_t seed, struct weir_ref chan) {
    weir__linkd_init(s, line, seed, chan);
    uint32_t most = line->message_max < line->frame_max ? line->message_max : line->frame_max;
    s->direct_below = line->server->deadline_ms ? 0 : most + 1;
}

unsigned weir__linkd_code_of(int rc) {
    switch (rc) {
    case WEIR_EINVAL:
    case WEIR_EPROTO: return WEIR_LINKD_MALFORMED;
    case WEIR_ETOOBIG: return WEIR_LINKD_TOO_LARGE;
    case WEIR_EFULL:
    case WEIR_ENOMEM:
    case WEIR_EAGAIN: return WEIR_LINKD_OVERLOADED;
    case WEIR_EDEADLINE: return WEIR_LINKD_DEADLINE_EXCEEDED;
    case WEIR_ECANCELLED: return WEIR_LINKD_CANCELLED;
    case WEIR_ESTOPPED:
    case WEIR_EGONE: return WEIR_LINKD_UNAVAILABLE;
    default: return WEIR_LINKD_INTERNAL;
    }
}

void weir__linkd_server_drop(struct weir_linkd_call *x) {
#ifndef WEIR__MEM_GUARDED
    struct weir__linkd_session *s = x->s;
    if (!s->line->spare && !(x->route && x->route->handler->state_size)) {
        *x = (struct weir_linkd_call){.send_credit = WEIR_LINKD_CREDIT_BYTES,
                                      .recv_credit = WEIR_LINKD_CREDIT_BYTES};
        s->line->spare = x;
        return;
    }
#endif
    weir_mem_free(x);
}

static void forget(struct weir_linkd_call *x) {
    struct weir__linkd_session *s = x->s;
    weir__base_list_remove(&x->link);
    weir__linkd_table_remove(&s->table, x);
    s->drains--;
    weir__linkd_server_drop(x);
}

/* x is over and stays in the table as the mark of an id whose frames are swallowed. */
static void drain(struct weir_linkd_call *x) {
    struct weir__linkd_session *s = x->s;
    weir__base_list_push_back(&s->draining, &x->link);
    if (++s->drains > DRAINS_MAX)
        forget(container_of(weir__base_list_first(&s->draining), struct weir_linkd_call, link));
}

void weir__linkd_server_refuse(struct weir__linkd_session *s, const struct weir__linkd_head *h,
                               unsigned code) {
    struct weir_linkd_call *x = weir__linkd_table_find(&s->table, h->id);
    if (x && x->flags & WEIR__LINKD_DRAIN) {
        if (!(h->flags & WEIR_LINKD_MORE))
            forget(x);
        return;
    }
    weir__linkd_reject(s, h, code);
    if (!(h->flags & WEIR_LINKD_MORE) || x || !h->id)
        return;
    x = weir_mem_new(s->line->m, sizeof *x); /* without it the peer gets one ERROR more per frame */
    if (!x)
        return;
    x->id = h->id;
    x->s = s;
    x->flags = WEIR__LINKD_OVER | WEIR__LINKD_DRAIN;
    if (weir__linkd_table_add(&s->table, s->line->m, x) < 0)
        weir_mem_free(x);
    else
        drain(x);
}

void weir__linkd_server_finish(struct weir_linkd_call *x) {
    struct weir__linkd_session *s = x->s;
    if (x->flags & WEIR__LINKD_CALLED && x->route->handler->done)
        x->route->handler->done(x, x->why);
    s->held -= x->offered;
    x->offered = 0;
    weir_chain_fini(&x->in);
    if (x->flags & WEIR__LINKD_DRAIN)
        drain(x);
    else
        weir__linkd_server_drop(x);
}

static void failed(struct weir_linkd_call *x, int rc) {
    weir__linkd_abort(x, weir__linkd_code_of(rc), NULL, rc);
}

static int run_body(struct weir_linkd_call *x) {
    struct weir__linkd_session *s = x->s;
    const struct weir_linkd_service *v = x->route->handler;
    if (s->line->host->enter)
        s->line->host->enter(s, v->name);
    int rc = v->body(x, &x->in, x->flags & WEIR__LINKD_RECV_DONE);
    if (s->line->host->leave)
        s->line->host->leave(s);
    return rc;
}

void weir__linkd_server_deliver(struct weir_linkd_call *x) {
    uint64_t before;
    do {
        x->flags = (uint16_t)((x->flags & ~WEIR__LINKD_AGAIN) | WEIR__LINKD_BUSY);
        before = x->in.bytes;
        int rc = run_body(x);
        x->flags &= (uint16_t)~WEIR__LINKD_BUSY;
        if (x->flags & (WEIR__LINKD_OVER | WEIR__LINKD_SEND_END))
            return;
        weir__linkd_account(x);
        if (rc < 0) {
            failed(x, rc);
            return;
        }
    } while (x->flags & WEIR__LINKD_AGAIN && x->in.bytes && x->in.bytes < before);
}

void weir__linkd_server_join(struct weir_linkd_call *x, int rc) {
    struct weir__linkd_session *s = x->s;
    x->flags &= (uint16_t)~WEIR__LINKD_BUSY;
    int added = weir__linkd_table_add(&s->table, s->line->m, x);
    if (added >= 0) {
        x->flags &= (uint16_t)~WEIR__LINKD_DIRECT;
        s->open++;
    }
    s->held += x->in.bytes - x->offered;
    x->offered = x->in.bytes;
    if (x->flags & WEIR__LINKD_SEND_END && added >= 0)
        return;
    if (added < 0 || rc < 0)
        failed(x, added < 0 ? added : rc);
    else if (x->flags & WEIR__LINKD_PIECES)
        weir__linkd_server_deliver(x);
}

static void invoke(struct weir_linkd_call *x) {
    x->flags |= WEIR__LINKD_CALLED | WEIR__LINKD_BUSY;
    if (x->flags & WEIR__LINKD_DIRECT) {
        weir__linkd_run_direct(x);
        return;
    }
    int rc = weir__linkd_run_call(x->s, x);
    x->flags &= (uint16_t)~WEIR__LINKD_BUSY;
    if (x->flags & (WEIR__LINKD_OVER | WEIR__LINKD_SEND_END))
        return;
    weir__linkd_account(x);
    if (rc < 0)
        failed(x, rc);
    else if (x->flags & WEIR__LINKD_PIECES)
        weir__linkd_server_deliver(x);
}

/* A frame's payload joins its call, which is told as its service wants it. */
static void arrived(struct weir_linkd_call *x, struct weir_chain *payload) {
    struct weir__linkd_session *s = x->s;
    uint64_t n = payload->bytes;
    s->held += n;
    x->offered += n;
    weir_chain_append(&x->in, payload);
    if (x->flags & WEIR__LINKD_PIECES) {
        if (x->flags & WEIR__LINKD_CALLED)
            weir__linkd_server_deliver(x);
        else
            invoke(x);
    } else if (x->in.bytes > s->line->message_max) {
        s->line->stats->too_large++;
        weir__linkd_abort(x, WEIR_LINKD_TOO_LARGE, NULL, WEIR_ETOOBIG);
    } else if (x->flags & WEIR__LINKD_RECV_DONE) {
        invoke(x);
    } else {
        weir__linkd_refund(x, n);
    }
}

static void more(struct weir_linkd_call *x, const struct weir__linkd_head *h,
                 struct weir_chain *payload) {
    struct weir__linkd_session *s = x->s;
    if (!(h->flags & WEIR_LINKD_MORE))
        x->flags |= WEIR__LINKD_RECV_DONE;
    if (h->flags & WEIR_LINKD_DEADLINE || h->service != x->service || !weir__linkd_charge(x, h)) {
        s->line->stats->malformed++;
        weir__linkd_abort(x, WEIR_LINKD_MALFORMED, NULL, WEIR_EPROTO);
    } else if (s->held + h->length > s->line->held_max) {
        s->line->stats->overloaded++;
        weir__linkd_abort(x, WEIR_LINKD_OVERLOADED, NULL, WEIR_EFULL);
    } else if (!(x->flags & WEIR__LINKD_SEND_END)) { /* answered already: nobody is interested */
        arrived(x, payload);
    }
}

/* Why a new request is not taken; 0: it is. */
static unsigned admit(const struct weir__linkd_session *s, const struct weir__linkd_head *h) {
    if (!h->id || (h->flags & WEIR_LINKD_DEADLINE && h->length < 4))
        return WEIR_LINKD_MALFORMED;
    if (h->flags & WEIR_LINKD_MORE && h->length > WEIR_LINKD_CREDIT_BYTES)
        return WEIR_LINKD_MALFORMED;
    if (s->goaway_out)
        return WEIR_LINKD_UNAVAILABLE;
    return s->open >= s->line->calls_max || s->held + h->length > s->line->held_max
               ? WEIR_LINKD_OVERLOADED
               : 0;
}

static void take_deadline(struct weir_linkd_call *x, const struct weir__linkd_head *h,
                          struct weir_chain *payload) {
    uint32_t limit = x->s->line->server->deadline_ms;
    uint64_t ms = limit;
    if (h->flags & WEIR_LINKD_DEADLINE) {
        if (weir_chain_get_be(payload, 0, 4, &ms) < 0)
            return; /* never: admit() saw the four bytes, and file regions do not arrive */
        weir_chain_drop(payload, 4);
        ms = limit && ms > limit ? limit : ms;
    } else if (!limit) {
        return;
    }
    weir__linkd_due(x, (uint32_t)ms);
    if (h->flags & WEIR_LINKD_DEADLINE)
        weir__linkd_refund(x, 4);
}

struct weir_linkd_call *weir__linkd_server_call(struct weir__linkd_session *s, size_t state_size) {
    struct weir_linkd_call *x = weir_mem_new(s->line->m, sizeof *x + state_size);
    if (!x)
        return NULL;
    x->s = s;
    x->send_credit = x->recv_credit = WEIR_LINKD_CREDIT_BYTES;
    return x;
}

/* The first of several frames: the call is entered at once. */
static int begin_stream(struct weir_linkd_call *x, const struct weir__linkd_head *h) {
    int rc = weir__linkd_table_add(&x->s->table, x->s->line->m, x);
    if (rc < 0)
        return rc;
    x->s->open++;
    x->flags |= WEIR__LINKD_RECV_STREAM;
    weir__linkd_charge(x, h);
    return 0;
}

static int open_call(struct weir_linkd_call *x, const struct weir__linkd_head *h,
                     const struct weir_linkd_route *r) {
    x->id = h->id;
    x->serial = x->s->line->serial + 1;
    x->service = h->service;
    x->flags = r->handler->body ? WEIR__LINKD_PIECES : 0;
    x->route = r;
    if (h->flags & WEIR_LINKD_MORE && begin_stream(x, h) < 0)
        return WEIR_ENOMEM;
    if (!(h->flags & WEIR_LINKD_MORE))
        x->flags |= WEIR__LINKD_RECV_DONE | WEIR__LINKD_DIRECT;
    x->s->line->serial++;
    x->s->line->stats->calls++;
    return 0;
}

static void request(struct weir__linkd_session *s, const struct weir__linkd_head *h,
                    struct weir_chain *payload) {
    unsigned code = admit(s, h);
    const struct weir_linkd_route *r = weir__linkd_route(s->line->server, h->service);
    if (code || !r) {
        weir__linkd_server_refuse(s, h, code ? code : WEIR_LINKD_UNKNOWN_SERVICE);
        return;
    }
    struct weir_linkd_call *x = weir__linkd_server_call(s, r->handler->state_size);
    if (!x || open_call(x, h, r) < 0) {
        weir_mem_free(x);
        weir__linkd_server_refuse(s, h, WEIR_LINKD_OVERLOADED);
        return;
    }
    if (h->flags & WEIR_LINKD_DEADLINE || s->line->server->deadline_ms)
        take_deadline(x, h, payload);
    arrived(x, payload);
}

static void cancel(struct weir__linkd_session *s, struct weir_linkd_call *x, bool by_error) {
    if (!x || x->flags & WEIR__LINKD_OVER) {
        s->line->stats->ignored++;
        if (x && x->flags & WEIR__LINKD_DRAIN)
            forget(x);
        return;
    }
    x->flags |= WEIR__LINKD_RECV_DONE;
    if (by_error) {
        s->line->stats->failed++;
        weir__linkd_end(x, WEIR_ECALL);
        return;
    }
    s->line->stats->cancelled++;
    weir__linkd_abort(x, WEIR_LINKD_CANCELLED, NULL, WEIR_ECANCELLED);
}

void weir__linkd_server_frame(struct weir__linkd_session *s, const struct weir__linkd_head *h,
                              struct weir_chain *payload) {
    struct weir_linkd_call *x = weir__linkd_table_find(&s->table, h->id);
    if (likely(h->type == WEIR_LINKD_REQUEST)) {
        if (likely(!x))
            request(s, h, payload);
        else if (x->flags & (WEIR__LINKD_DRAIN | WEIR__LINKD_RECV_DONE))
            weir__linkd_server_refuse(s, h, WEIR_LINKD_MALFORMED);
        else
            more(x, h, payload);
    } else if (h->type == WEIR_LINKD_CANCEL || h->type == WEIR_LINKD_ERROR) {
        cancel(s, x, h->type == WEIR_LINKD_ERROR);
    } else {
        s->line->stats->ignored++; /* RESPONSE and PONG: we asked for nothing */
    }
}
