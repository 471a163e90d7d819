/* What both ends share: birth and end, what a frame means, the order of endings, deadlines. */
#include "codec/linkd/session.h"
#include <string.h>

void weir__linkd_line_limits(struct weir__linkd_line *line) {
    static const struct weir_buf *const nothing = NULL;
    uint32_t most = line->frame_max ? line->frame_max : WEIR_LINKD_FRAME_BYTES;
    most = most < WEIR_LINKD_FRAME_MAX ? most : WEIR_LINKD_FRAME_MAX;
    line->frame_max = most;
    line->message_max = line->message_max ? line->message_max : most;
    line->held_max = line->held_max ? line->held_max : 8 << 20;
    line->held_max = line->held_max > most ? line->held_max : most;
    line->calls_max = line->calls_max ? line->calls_max : 1024;
    line->stage_max = line->stage_max ? line->stage_max : 64 << 10;
    line->receiving = &nothing;
}

void weir__linkd_line_fini(struct weir__linkd_line *line) {
    weir_slice_release(&line->head);
    weir_mem_free(line->spare);
    line->spare = NULL;
}

void weir__linkd_init(struct weir__linkd_session *s, struct weir__linkd_line *line, uint64_t seed,
                      struct weir_ref chan) {
    *s = (struct weir__linkd_session){.line = line, .chan = chan, .deadline_ns = UINT64_MAX};
    weir__linkd_decoder_init(&s->decoder, line->frame_max);
    weir__linkd_table_init(&s->table, seed);
    weir__base_list_init(&s->sending);
    weir__base_list_init(&s->finished);
    weir__base_list_init(&s->draining);
}

static void finish(struct weir_linkd_call *x) {
    if (x->s->line->server)
        weir__linkd_server_finish(x);
    else
        weir__linkd_client_finish(x);
}

void weir__linkd_settle(struct weir__linkd_session *s) {
    struct weir__base_link *l;
    if (s->depth == 1)
        while ((l = weir__base_list_pop_front(&s->finished)))
            finish(container_of(l, struct weir_linkd_call, link));
    if (--s->depth || s->quiet || s->ending)
        return;
    if (s->out.bytes || weir__linkd_ready(s) || s->why)
        s->line->host->kick(s);
}

void weir__linkd_die(struct weir__linkd_session *s, int why) {
    if (!s->why)
        s->why = why;
    s->direct_below = 0;
}

void weir__linkd_end(struct weir_linkd_call *x, int why) {
    struct weir__linkd_session *s = x->s;
    check(s->depth && !(x->flags & WEIR__LINKD_OVER));
    x->flags |= WEIR__LINKD_OVER;
    x->why = why;
    s->open -= !(x->flags & WEIR__LINKD_DIRECT);
    if (weir__base_linked(&x->link))
        weir__base_list_remove(&x->link);
    weir__linkd_unstage(x);
    if (s->line->server && !(x->flags & WEIR__LINKD_RECV_DONE) && !s->ending)
        x->flags |= WEIR__LINKD_DRAIN; /* the id stays taken until the peer has finished it */
    else if (!(x->flags & WEIR__LINKD_DIRECT))
        weir__linkd_table_remove(&s->table, x);
    weir__base_list_push_back(&s->finished, &x->link);
}

void weir__linkd_abort(struct weir_linkd_call *x, unsigned code, const char *text, int why) {
    struct weir__linkd_session *s = x->s;
    int rc = weir__linkd_put_error(s, x->id, x->service, code, text);
    if (rc < 0)
        weir__linkd_die(s, rc);
    s->line->stats->failed++;
    weir__linkd_end(x, why);
}

void weir__linkd_reject(struct weir__linkd_session *s, const struct weir__linkd_head *h,
                        unsigned code) {
    struct weir_linkd_stats *n = s->line->stats;
    int rc = weir__linkd_put_error(s, h->id, h->service, code, NULL);
    if (rc < 0)
        weir__linkd_die(s, rc);
    *(code == WEIR_LINKD_MALFORMED    ? &n->malformed
      : code == WEIR_LINKD_TOO_LARGE  ? &n->too_large
      : code == WEIR_LINKD_OVERLOADED ? &n->overloaded
                                      : &n->failed) += 1;
}

static void pong(struct weir__linkd_session *s, const struct weir__linkd_head *h,
                 const struct weir_chain *payload) {
    struct weir__linkd_head reply = {
        .type = WEIR_LINKD_PONG, .service = h->service, .length = h->length};
    uint8_t data[WEIR_LINKD_PING_MAX];
    int rc = h->length ? weir_chain_read(payload, 0, data, h->length) : 0;
    if (rc >= 0)
        rc = weir__linkd_put(s, &reply, data);
    if (rc < 0)
        weir__linkd_die(s, rc);
    s->line->stats->pings++;
}

static void credit(struct weir__linkd_session *s, const struct weir__linkd_head *h,
                   const struct weir_chain *payload) {
    struct weir_linkd_call *x = weir__linkd_table_find(&s->table, h->id);
    uint64_t bytes;
    if (!x || x->flags & WEIR__LINKD_OVER) {
        s->line->stats->ignored++;
        return;
    }
    if (weir_chain_get_be(payload, 0, 4, &bytes) == 0) /* file regions never arrive */
        x->send_credit += bytes;
    weir__linkd_want_send(x);
}

static void goaway(struct weir__linkd_session *s) {
    struct weir_linkd_client *k = (struct weir_linkd_client *)s;
    bool first = !s->goaway_in;
    s->goaway_in = true;
    if (first && !s->line->server && k->o && k->o->goaway)
        k->o->goaway(k, k->o->user);
}

static void dispatch(struct weir__linkd_session *s, const struct weir__linkd_head *h,
                     struct weir_chain *payload) {
    if (h->type == WEIR_LINKD_PING)
        pong(s, h, payload);
    else if (h->type == WEIR_LINKD_CREDIT)
        credit(s, h, payload);
    else if (h->type == WEIR_LINKD_GOAWAY)
        goaway(s);
    else if (h->type == WEIR_LINKD_PONG && !h->length && s->beats)
        s->beats--; /* that bytes came is all it was for */
    else if (h->type == WEIR_LINKD_ERROR && !h->id)
        weir__linkd_die(s, WEIR_EPROTO); /* the peer could not read us */
    else if (s->line->server)
        weir__linkd_server_frame(s, h, payload);
    else
        weir__linkd_client_frame(s, h, payload);
}

/* A frame over the configured limit: its call ends, its payload is being skipped by the decoder. */
static void refused(struct weir__linkd_session *s, const struct weir__linkd_head *h) {
    struct weir_linkd_call *x = weir__linkd_table_find(&s->table, h->id);
    unsigned incoming = s->line->server ? WEIR_LINKD_REQUEST : WEIR_LINKD_RESPONSE;
    if (x && !(x->flags & (WEIR__LINKD_OVER | WEIR__LINKD_RECV_DONE)) && h->type == incoming) {
        s->line->stats->too_large++;
        if (!(h->flags & WEIR_LINKD_MORE))
            x->flags |= WEIR__LINKD_RECV_DONE;
        weir__linkd_abort(x, WEIR_LINKD_TOO_LARGE, NULL, WEIR_ETOOBIG);
    } else if (s->line->server && h->type == WEIR_LINKD_REQUEST) {
        weir__linkd_server_refuse(s, h, WEIR_LINKD_TOO_LARGE);
    } else if (h->type == WEIR_LINKD_ERROR) { /* never answered, or two ends could go on for ever */
        if (x && !(x->flags & WEIR__LINKD_OVER)) {
            x->flags |= WEIR__LINKD_RECV_DONE;
            weir__linkd_hang_up(x);
            weir__linkd_end(x, WEIR_ECALL);
        }
    } else {
        weir__linkd_reject(s, h, WEIR_LINKD_TOO_LARGE);
    }
}

WEIR_COLD static int broke(struct weir__linkd_session *s, const struct weir__linkd_head *h,
                           int rc) {
    unsigned code = s->decoder.code;
    if (rc == WEIR_EPROTO && code && !s->why) {
        (*(code == WEIR_LINKD_TOO_LARGE ? &s->line->stats->too_large
                                        : &s->line->stats->malformed))++;
        weir__linkd_put_error(s, h->id, h->service, code, NULL);
    }
    weir__linkd_die(s, rc);
    return rc;
}

int weir__linkd_step(struct weir__linkd_session *s, struct weir_chain *in) {
    struct weir__linkd_head h = {0};
    struct weir_chain payload = {0};
    int event = weir__linkd_next(&s->decoder, s->line->m, in, &h, &payload);
    if (event == WEIR__LINKD_WANT)
        return event;
    if (event < 0)
        return broke(s, &h, event);
    weir__linkd_enter(s);
    if (event == WEIR__LINKD_FRAME)
        dispatch(s, &h, &payload);
    else
        refused(s, &h);
    weir__linkd_leave(s);
    weir_chain_fini(&payload);
    return event;
}

void weir__linkd_due(struct weir_linkd_call *x, uint32_t ms) {
    struct weir__linkd_session *s = x->s;
    x->deadline_ns = s->line->host->now_ns(s) + (uint64_t)ms * 1000000;
    x->deadline_ns += !x->deadline_ns; /* 0 means none */
    if (x->deadline_ns < s->deadline_ns)
        s->deadline_ns = x->deadline_ns;
}

static void expired(struct weir_linkd_call *x) {
    struct weir__linkd_session *s = x->s;
    s->line->stats->expired++;
    if (s->line->server) {
        weir__linkd_abort(x, WEIR_LINKD_DEADLINE_EXCEEDED, NULL, WEIR_EDEADLINE);
        return;
    }
    struct weir__linkd_head h = {.type = WEIR_LINKD_CANCEL, .service = x->service, .id = x->id};
    int rc = weir__linkd_put(s, &h, NULL);
    if (rc < 0)
        weir__linkd_die(s, rc);
    weir__linkd_end(x, WEIR_EDEADLINE);
}

/* One scan of the open calls: calls have no timers of their own, and there is at most one wake-up
 * per due call. */
void weir__linkd_expire(struct weir__linkd_session *s, uint64_t now_ns) {
    uint64_t next = UINT64_MAX;
    if (now_ns < s->deadline_ns)
        return;
    bool was_quiet = s->quiet;
    s->quiet = true;
    weir__linkd_enter(s);
    for (uint32_t i = 0; i < s->table.size;) {
        struct weir_linkd_call *x = s->table.slots[i];
        if (x && !(x->flags & WEIR__LINKD_OVER) && x->deadline_ns) {
            if (x->deadline_ns <= now_ns) {
                expired(x); /* another call may have moved into this slot: look again */
                continue;
            }
            next = x->deadline_ns < next ? x->deadline_ns : next;
        }
        i++;
    }
    s->deadline_ns = next; /* callbacks run from here on and may lower it */
    weir__linkd_leave(s);
    s->quiet = was_quiet;
}

int weir__linkd_beat(struct weir__linkd_session *s) {
    struct weir__linkd_head h = {.type = WEIR_LINKD_PING};
    weir__linkd_enter(s);
    int rc = weir__linkd_put(s, &h, NULL);
    s->beats += rc >= 0;
    weir__linkd_leave(s);
    return rc;
}

int weir__linkd_goaway(struct weir__linkd_session *s) {
    struct weir__linkd_head h = {.type = WEIR_LINKD_GOAWAY};
    if (s->goaway_out)
        return 0;
    weir__linkd_enter(s);
    int rc = weir__linkd_put(s, &h, NULL);
    if (rc >= 0) {
        s->goaway_out = true;
        s->direct_below = 0;
    }
    weir__linkd_leave(s);
    return rc;
}

struct weir_linkd_call *weir__linkd_find(struct weir__linkd_session *s, uint64_t id,
                                         uint64_t serial) {
    struct weir_linkd_call *x = s->direct && s->direct->id == id
                                    ? s->direct
                                    : weir__linkd_table_find(&s->table, id);
    return x && x->serial == serial && !(x->flags & WEIR__LINKD_OVER) ? x : NULL;
}

static void end_all(struct weir__linkd_session *s, int why) {
    struct weir__base_link *l;
    while ((l = weir__base_list_pop_front(&s->draining))) {
        struct weir_linkd_call *x = container_of(l, struct weir_linkd_call, link);
        weir__linkd_table_remove(&s->table, x);
        weir_mem_free(x);
    }
    s->drains = 0;
    for (uint32_t i = 0; s->table.count && i < s->table.size;)
        if (s->table.slots[i])
            weir__linkd_end(s->table.slots[i], why);
        else
            i++;
    if (s->direct && !(s->direct->flags & WEIR__LINKD_OVER))
        weir__linkd_end(s->direct, why);
}

void weir__linkd_eof(struct weir__linkd_session *s) {
    weir__linkd_enter(s);
    for (uint32_t i = 0; i < s->table.size;) {
        struct weir_linkd_call *x = s->table.slots[i];
        if (x && !(x->flags & (WEIR__LINKD_OVER | WEIR__LINKD_RECV_DONE)))
            weir__linkd_end(x, WEIR_EGONE); /* another call may have moved into this slot */
        else
            i++;
    }
    weir__linkd_leave(s);
}

void weir__linkd_stop(struct weir__linkd_session *s, int why) {
    weir__linkd_die(s, why);
    s->ending = true;
    weir__linkd_enter(s);
    end_all(s, why);
    weir__linkd_leave(s);
}

void weir__linkd_fini(struct weir__linkd_session *s, int why) {
    must(!s->depth);
    weir__linkd_stop(s, why);
    if (!s->line->server)
        weir__linkd_client_fini((struct weir_linkd_client *)s, why);
    weir_chain_fini(&s->out);
    must(!s->open && !s->table.count && !s->held && !s->staged);
    weir__linkd_table_fini(&s->table);
}

void weir__linkd_invariants(const struct weir__linkd_session *s) {
#ifdef WEIR_CHECKED
    uint64_t held = 0, staged = 0;
    uint32_t open = 0, drains = 0;
    for (uint32_t i = 0; i < s->table.size; i++) {
        const struct weir_linkd_call *x = s->table.slots[i];
        if (!x)
            continue;
        held += x->offered;
        staged += x->staged.bytes;
        open += !(x->flags & WEIR__LINKD_OVER);
        drains += (x->flags & WEIR__LINKD_DRAIN) != 0;
        must(x->s == s && x->recv_credit + x->refund <= WEIR_LINKD_CREDIT_BYTES);
        must(x->flags & WEIR__LINKD_OVER || !x->deadline_ns || x->deadline_ns >= s->deadline_ns);
    }
    must(open == s->open && drains == s->drains && held == s->held);
    must(staged == s->staged);
    must(!s->depth && weir__base_list_empty(&s->finished));
#else
    (void)s;
#endif
}
