/* linkd: calls over a connection, answered in any order. */
#include "load/run.h"
#include <string.h>

static bool right_digest(const struct load_slot *s, const struct weir_chain *answer) {
    const struct load_run *r = s->conn->worker->run;
    const uint8_t *want = load_payload_answer(&r->payload, s->conn->index, s->seq);
    if (answer->bytes != LOAD_DIGEST_BYTES)
        return false;
    for (const struct weir_part *p = answer->first; p; want += p->slice.n, p = p->next)
        if (memcmp(want, p->slice.p, p->slice.n) != 0)
            return false;
    return true;
}

static bool right(const struct load_slot *s, const struct weir_chain *answer) {
    const struct load_run *r = s->conn->worker->run;
    if (r->o->verify == LOAD_VERIFY_DIGEST)
        return right_digest(s, answer);
    if (r->o->verify != LOAD_VERIFY_ECHO)
        return true;
    size_t off = 0;
    if (answer->bytes != r->payload.bytes)
        return false;
    for (const struct weir_part *p = answer->first; p; off += p->slice.n, p = p->next)
        if (!load_payload_matches(&r->payload, s->conn->index, s->seq, off, p->slice.p, p->slice.n))
            return false;
    return true;
}

static void answer_failed(struct load_slot *s, const struct weir_linkd_reply *r) {
    struct load_conn *c = s->conn;
    struct load_error e = {.fault = r->status == WEIR_ECALL ? LOAD_FAULT_ANSWER : LOAD_FAULT_CLOSED,
                           .code = load_code_of_end(r->status),
                           .wire = r->code};
    if (r->code)
        e.fault = LOAD_FAULT_ANSWER;
    for (size_t i = 0; i < r->text.n && i + 1 < sizeof e.first; i++) { /* untrusted */
        char ch = r->text.p[i];
        e.first[i] = ch >= ' ' && ch < 127 ? ch : '?';
    }
    load_conn_missed(c, s, LOAD_FAILED, &e);
    if (!r->code && c->state == LOAD_UP) { /* not an answer: the connection is no good any more */
        c->state = LOAD_CLOSING;
        weir_chan_close(c->chan, WEIR_ABORT);
    }
}

static void call_expired(struct load_slot *s) {
    struct load_conn *c = s->conn;
    struct load_error e = {
        .fault = LOAD_FAULT_TIMEOUT, .code = WEIR_EDEADLINE, .first = "no answer within --timeout"};
    load_conn_missed(c, s, LOAD_TIMED_OUT, &e);
    load_conn_unanswered(c);
}

static void replied(const struct weir_linkd_reply *r, void *user) {
    struct load_slot *s = user;
    struct load_conn *c = s->conn;
    uint64_t now = weir_loop_now(c->worker->loop);
    if (c->worker->ended || !s->busy) /* not busy: it was lost, and counted, with its connection */
        return;
    s->call = NULL;
    struct load_error wrong = {.fault = LOAD_FAULT_VERIFY,
                               .first = "the answer is not the right one"};
    if (s->expired)
        call_expired(s);
    else if (r->status < 0)
        answer_failed(s, r);
    else if (!right(s, r->payload))
        load_conn_missed(c, s, LOAD_FAILED, &wrong);
    else
        load_conn_answered(c, s, now);
    load_conn_pump(c, now);
}

static void opened(struct weir_linkd_client *k, void *user) {
    struct load_conn *c = user;
    c->peer.client = k;
}

static void closed(struct weir_linkd_client *k, int why, void *user) {
    (void)k;
    load_conn_closed(user, why);
}

static void linkd_prepare(struct load_conn *c) {
    const struct load_options *o = c->worker->run->o;
    uint64_t held = (o->payload + (UINT64_C(1) << 20)) * o->in_flight;
    c->linkd = (struct weir_linkd_client_options){
        .size = sizeof c->linkd,
        .message_max = o->payload > WEIR_LINKD_FRAME_BYTES ? (uint32_t)o->payload : 0,
        .held_max = held < UINT32_MAX ? (uint32_t)held : UINT32_MAX,
        .calls_max = o->in_flight + 1,
        .open = opened,
        .close = closed,
        .user = c,
    };
    c->stage = (struct weir_stage){&weir_linkd_client_handler, &c->linkd};
}

static int linkd_send(struct load_conn *c, struct load_slot *s) {
    struct weir_chain out = {0};
    const struct load_run *r = c->worker->run;
    struct weir_linkd_request q = {.size = sizeof q, .service = (uint16_t)r->o->service};
    int rc = load_payload_write(&r->payload, weir_loop_mem(c->worker->loop), c->index, s->seq,
                                &out);
    if (rc >= 0)
        rc = weir_linkd_start(c->peer.client, &q, &out, &s->call, replied, s);
    if (rc < 0)
        weir_chain_fini(&out);
    return rc;
}

/* Each reply comes from inside cancel, or behind the callback that runs. */
static void linkd_expire(struct load_conn *c, uint64_t sent_until) {
    for (unsigned i = 0; i < c->worker->run->o->in_flight && c->state == LOAD_UP; i++) {
        struct load_slot *s = &c->slots[i];
        if (!s->busy || s->expired || !s->call || s->sent_ns > sent_until)
            continue;
        s->expired = true;
        weir_linkd_cancel(s->call);
    }
}

const struct load_protocol load_linkd = {
    .name = "linkd", .prepare = linkd_prepare, .send = linkd_send, .expire = linkd_expire};
