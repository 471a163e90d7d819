/* echo: what is sent comes back, byte for byte and in order. */
#include "load/run.h"

static struct load_conn *conn_of(struct weir_ctx *x) {
    return *(struct load_conn **)weir_ctx_state(x);
}

static int echo_open(struct weir_ctx *x, const void *config) {
    struct load_conn *const *self = config;
    *(struct load_conn **)weir_ctx_state(x) = *self;
    (*self)->peer.ctx = x;
    return 0;
}

/* The bytes of one slice against the requests in flight. < 0: they are wrong, and every request of
 * this connection is lost. */
static int compare(struct load_conn *c, const uint8_t *data, size_t n, uint64_t now) {
    const struct load_payload *p = &c->worker->run->payload;
    while (n) {
        struct load_slot *s = c->oldest;
        size_t part = n < p->bytes - c->got ? n : p->bytes - c->got;
        if (!s || !load_payload_matches(p, c->index, s->seq, c->got, data, part))
            return WEIR_EPROTO;
        data += part;
        n -= part;
        c->got += part;
        if (c->got == p->bytes) {
            c->got = 0;
            load_conn_answered(c, s, now);
        }
    }
    return 0;
}

static int echo_read(struct weir_ctx *x, struct weir_chain *in) {
    struct load_conn *c = conn_of(x);
    uint64_t now = weir_loop_now(c->worker->loop);
    int rc = 0;
    bool late = c->worker->ended || now >= c->worker->end_ns;
    for (const struct weir_part *p = in->first; p && rc >= 0 && !late && c->state == LOAD_UP;
         p = p->next)
        rc = compare(c, p->slice.p, p->slice.n, now);
    weir_chain_drop(in, in->bytes);
    if (rc < 0) {
        struct load_error e = {.fault = LOAD_FAULT_VERIFY,
                               .first = "the answer is not what was sent"};
        if (!c->oldest)
            load_fault_count(c->worker, &e, now);
        load_conn_lose(c, &e);
        weir_chan_close(weir_ctx_chan(x), WEIR_ABORT);
        return 0;
    }
    load_conn_pump(c, now);
    return 0;
}

/* The peer's end is the end: nobody waits for answers that cannot come. */
static void echo_eof(struct weir_ctx *x, bool clean) {
    struct load_conn *c = conn_of(x);
    struct load_error e = {.fault = LOAD_FAULT_CLOSED};
    enum weir_close how = c->oldest ? WEIR_ABORT : WEIR_DRAIN;
    (void)clean;
    if (!c->worker->ended)
        load_conn_lose(c, &e);
    weir_chan_close(weir_ctx_chan(x), how);
}

static void echo_close(struct weir_ctx *x, int why) {
    load_conn_closed(conn_of(x), why);
}

static const struct weir_handler handler = {
    .name = "load-echo",
    .state_size = sizeof(struct load_conn *),
    .open = echo_open,
    .read = echo_read,
    .eof = echo_eof,
    .close = echo_close,
};

static void echo_prepare(struct load_conn *c) {
    c->self = c;
    c->stage = (struct weir_stage){&handler, &c->self};
}

static int echo_send(struct load_conn *c, struct load_slot *s) {
    struct weir_chain out = {0};
    const struct load_payload *p = &c->worker->run->payload;
    int rc = load_payload_write(p, weir_ctx_mem(c->peer.ctx), c->index, s->seq, &out);
    if (rc >= 0)
        rc = weir_ctx_send(c->peer.ctx, &out);
    if (rc < 0)
        weir_chain_fini(&out);
    return rc;
}

/* The stream has lost its place: those behind the late one cannot be answered either. */
static void echo_expire(struct load_conn *c, uint64_t sent_until) {
    struct load_error late = {
        .fault = LOAD_FAULT_TIMEOUT, .code = WEIR_EDEADLINE, .first = "no answer within --timeout"};
    struct load_error given_up = {.fault = LOAD_FAULT_SIBLING,
                                  .first = "an earlier request of its connection timed out"};
    struct load_slot *s, *next;
    for (s = c->oldest; s; s = next) {
        next = s->next;
        if (s->sent_ns <= sent_until)
            load_conn_missed(c, s, LOAD_TIMED_OUT, &late);
        else
            load_conn_missed(c, s, LOAD_CANCELLED, &given_up);
    }
    c->state = LOAD_CLOSING;
    c->answered = false; /* for the count of failures in a row */
    weir_chan_close(c->chan, WEIR_ABORT);
}

const struct load_protocol load_echo = {
    .name = "echo", .prepare = echo_prepare, .send = echo_send, .expire = echo_expire};
