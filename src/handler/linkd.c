/* linkd on a channel: feeds a session with bytes, carries off its frames, keeps one timer for the
 * earliest deadline of its calls. */
#include "codec/linkd/session.h"
#include "loop/local.h"
#include "weir/linkd.h"

enum { OUT_MAX = 64 * 1024 }; /* answers collected before they are handed on: one batch */

struct
    line { /* what the connections of one loop with the same options share, while there are any */
    struct weir__linkd_line codec;
    struct weir__base_link link;
    const void
        *options; /* they outlive their connections, so while it lives an address is a name */
    uint32_t conns;
    const char *service; /* whose account this is */
    struct weir__loop_handler *account;
};

struct conn {
    struct weir_ctx *ctx;
    struct weir_loop *loop;
    struct weir_timer timer;
    uint64_t staged;   /* what the channel was told of s.staged */
    uint64_t armed_ns; /* what the timer waits for; 0: nothing */
    bool held;         /* calls are open: a drain waits for their answers */
    union {
        struct weir__linkd_session s;
        struct weir_linkd_client k; /* its session comes first */
    };
};

static struct conn *conn_of(struct weir__linkd_session *s) {
    return container_of(s, struct conn, s);
}

/* --- what is shared ----------------------------------------------------------------------- */

struct shared { /* of one loop */
    struct weir__base_list lines;
    struct weir_linkd_stats stats;
    bool ready;
};

static struct shared *shared_of(struct weir_loop *l) {
    static const char key;
    struct shared *h = weir__loop_local(l, &key, sizeof *h);
    if (h && !h->ready) {
        weir__base_list_init(&h->lines);
        h->ready = true;
    }
    return h;
}

static struct line *line_of(struct conn *n) {
    return container_of(n->s.line, struct line, codec);
}

/* One more connection on the line of these options; a fresh line has conns 1. NULL: no memory. */
static struct line *line_get(struct shared *h, const void *options, struct weir_mem *m) {
    weir__base_list_each(link, &h->lines) {
        struct line *line = container_of(link, struct line, link);
        if (line->options == options) {
            line->conns++;
            return line;
        }
    }
    struct line *line = weir_mem_new(m, sizeof *line);
    if (!line)
        return NULL;
    line->options = options;
    line->conns = 1;
    weir__base_list_push_front(&h->lines, &line->link);
    return line;
}

static void line_put(struct line *line) {
    if (--line->conns)
        return;
    weir__linkd_line_fini(&line->codec);
    weir__base_list_remove(&line->link);
    weir_mem_free(line);
}

/* --- after every step --------------------------------------------------------------------- */

static void due(struct weir_timer *t);

static void watch_deadline(struct conn *n) {
    uint64_t at = n->s.deadline_ns;
    if (likely(at == UINT64_MAX && !n->armed_ns))
        return;
    if (at == n->armed_ns || (at == UINT64_MAX && n->armed_ns))
        return; /* a deadline that went away costs one empty wake-up, not a disarm per call */
    n->armed_ns = at;
    weir_timer_arm(weir_ctx_loop(n->ctx), &n->timer, at, due);
}

static void watch_calls(struct conn *n) {
    bool open = n->s.open > 0 && !n->s.why; /* after an offence nobody is waited for */
    if (likely(open == n->held))
        return;
    n->held = open;
    if (open)
        weir_ctx_hold(n->ctx);
    else
        weir_ctx_unhold(n->ctx);
}

/* The channel shows what the streams of its calls hold. */
static void watch_staged(struct conn *n) {
    if (likely(n->s.staged == n->staged))
        return;
    weir_ctx_stage(n->ctx, (int64_t)(n->s.staged - n->staged));
    n->staged = n->s.staged;
}

/* Frames go to the channel, the rest of the state follows. < 0: the connection must end with this.
 */
static int settle(struct conn *n) {
    int rc = n->s.out.bytes ? weir_ctx_send(n->ctx, &n->s.out) : 0;
    if (unlikely(weir__linkd_ready(&n->s)))
        weir_ctx_ready(n->ctx);
    watch_deadline(n);
    watch_calls(n);
    watch_staged(n);
    return unlikely(rc < 0) ? rc : n->s.why;
}

static void kick(struct weir__linkd_session *s) {
    struct conn *n = conn_of(s);
    int rc = settle(n);
    if (rc < 0)
        weir_chan_fail(weir_ctx_chan(n->ctx), rc);
}

static uint64_t now(struct weir__linkd_session *s) {
    return weir_loop_now(conn_of(s)->loop);
}

/* Statistics name the service, not the protocol: that is where the time goes. */
static void enter(struct weir__linkd_session *s, const char *service) {
    struct conn *n = conn_of(s);
    struct line *line = line_of(n);
    if (unlikely(service != line->service)) {
        line->service = service;
        line->account = weir__loop_name(n->loop, service);
    }
    weir__loop_attribute(n->loop, line->account, n->s.chan.v);
}

static void leave(struct weir__linkd_session *s) {
    weir__loop_attribute_end(conn_of(s)->loop);
}

static const struct weir__linkd_host host = {
    .kick = kick, .now_ns = now, .enter = enter, .leave = leave};

static void due(struct weir_timer *t) {
    struct conn *n = container_of(t, struct conn, timer);
    n->armed_ns = 0;
    weir__linkd_expire(&n->s, now(&n->s));
    kick(&n->s);
}

/* --- the handlers' callbacks -------------------------------------------------------------- */

/* Nothing may follow the last ERROR: the calls end now, not when the channel has drained. */
WEIR_COLD static int broken(struct conn *n, int why) {
    weir__linkd_fini(&n->s, why);
    watch_calls(n);
    watch_staged(n);
    return why;
}

static int conn_read(struct weir_ctx *c, struct weir_chain *in) {
    struct conn *n = weir_ctx_state(c);
    int more, rc;
    do {
        more = weir__linkd_read(&n->s, in, OUT_MAX);
        rc = settle(n);
        if (unlikely(more < 0 || rc < 0))
            return broken(n, more < 0 ? more : rc);
    } while (more == 1 && weir_ctx_room(c) > 0);
    weir_ctx_want(
        c, more == 1 ? 1 : n->s.decoder.want); /* 1: whole frames wait for room, and for writable */
    return 0;
}

static int64_t conn_pull(struct weir_ctx *c, uint64_t room) {
    struct conn *n = weir_ctx_state(c);
    int64_t framed = weir__linkd_pull(&n->s, room);
    int rc = settle(n);
    return rc < 0 ? rc : framed;
}

/* Calls that wait for bytes of the peer would hold the drain for nothing. */
static void conn_eof(struct weir_ctx *c, bool clean) {
    struct conn *n = weir_ctx_state(c);
    (void)clean;
    weir__linkd_eof(&n->s);
    kick(&n->s);
}

static void conn_close(struct weir_ctx *c, int why) {
    struct conn *n = weir_ctx_state(c);
    weir_timer_disarm(&n->timer);
    if (n->held)
        weir_ctx_unhold(c); /* the channel may outlive its handler */
    n->held = false;
    weir__linkd_fini(&n->s, why < 0 ? why : WEIR_EGONE);
    watch_staged(n);
    line_put(line_of(n));
}

/* --- server ------------------------------------------------------------------------------- */

static int server_open(struct weir_ctx *c, const void *config) {
    struct conn *n = weir_ctx_state(c);
    const struct weir_linkd_server_options *o = config;
    struct weir_mem *m = weir_ctx_mem(c);
    if (!o || o->size != sizeof *o || (!o->n_routes && !o->fallback))
        return WEIR_EINVAL;
    n->ctx = c;
    n->loop = weir_ctx_loop(c);
    struct shared *h = shared_of(n->loop);
    struct line *line = h ? line_get(h, o, m) : NULL;
    if (!line)
        return WEIR_ENOMEM;
    if (line->conns == 1)
        weir__linkd_server_line(&line->codec, o, m, &host, &h->stats);
    weir__linkd_server_init(&n->s, &line->codec, weir__loop_entropy(n->loop),
                            weir_chan_ref(weir_ctx_chan(c)));
    weir_ctx_want(c, 2); /* enough to know who does not speak linkd */
    return 0;
}

/* An orderly end: no new calls, those that are open are answered first. */
static void server_event(struct weir_ctx *c, int what, const void *data) {
    struct conn *n = weir_ctx_state(c);
    (void)data;
    if (what == WEIR_EVENT_DRAIN && !n->s.why)
        (void)weir__linkd_goaway(
            &n->s); /* no memory for it: the close says the same, less kindly */
}

const struct weir_handler weir_linkd_server = {
    .name = "linkd",
    .state_size = sizeof(struct conn),
    .open = server_open,
    .read = conn_read,
    .pull = conn_pull,
    .eof = conn_eof,
    .event = server_event,
    .close = conn_close,
};

/* --- client ------------------------------------------------------------------------------- */

static int client_open(struct weir_ctx *c, const void *config) {
    struct conn *n = weir_ctx_state(c);
    const struct weir_linkd_client_options *o = config;
    struct weir_mem *m = weir_ctx_mem(c);
    if (o && o->size != sizeof *o)
        return WEIR_EINVAL;
    n->ctx = c;
    n->loop = weir_ctx_loop(c);
    struct shared *h = shared_of(n->loop);
    struct line *line = h ? line_get(h, o, m) : NULL;
    if (!line)
        return WEIR_ENOMEM;
    if (line->conns == 1)
        weir__linkd_client_line(&line->codec, o, m, &host, &h->stats);
    weir__linkd_client_init(&n->k, &line->codec, o, weir__loop_entropy(n->loop),
                            weir_chan_ref(weir_ctx_chan(c)));
    n->k.chan = weir_ctx_chan(c);
    weir_chan_read_while_full(weir_ctx_chan(c), true); /* answers make room at the other end */
    weir_ctx_want(c, 2);                               /* enough to know who does not speak linkd */
    if (o && o->open)
        o->open(&n->k, o->user);
    return 0;
}

static void client_close(struct weir_ctx *c, int why) {
    struct conn *n = weir_ctx_state(c);
    const struct weir_linkd_client_options *o = n->k.o;
    conn_close(c, why);
    if (o && o->close)
        o->close(&n->k, why, o->user);
}

/* No new calls; the open ones get their answers while the channel drains. */
static void client_event(struct weir_ctx *c, int what, const void *data) {
    struct conn *n = weir_ctx_state(c);
    (void)data;
    if (what == WEIR_EVENT_DRAIN)
        n->k.s.goaway_in = true;
}

const struct weir_handler weir_linkd_client_handler = {
    .name = "linkd-client",
    .state_size = sizeof(struct conn),
    .open = client_open,
    .read = conn_read,
    .pull = conn_pull,
    .eof = conn_eof,
    .event = client_event,
    .close = client_close,
};

struct weir_loop *weir_linkd_loop(const struct weir_linkd_call *x) {
    return weir_ctx_loop(conn_of(x->s)->ctx);
}

struct weir_linkd_client *weir_linkd_client_of(struct weir_chan *ch) {
    struct weir_ctx *c = weir_chan_ctx(ch, &weir_linkd_client_handler);
    return c ? &((struct conn *)weir_ctx_state(c))->k : NULL;
}

struct weir_linkd_call *weir_linkd_find(struct weir_loop *l, struct weir_linkd_ref r) {
    struct weir_chan *ch = weir_chan_find(l, r.chan);
    if (!ch)
        return NULL;
    struct weir_ctx *c = weir_chan_ctx(ch, &weir_linkd_server);
    if (!c)
        c = weir_chan_ctx(ch, &weir_linkd_client_handler);
    return c ? weir__linkd_find(&((struct conn *)weir_ctx_state(c))->s, r.id, r.serial) : NULL;
}
