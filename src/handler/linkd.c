/* linkd on a channel: feeds a session with bytes, carries off its frames, keeps one timer for the
 * earliest deadline of its calls. */
#include "base/footprint.h"
#include "chan/local.h"
#include "chan/offload.h"
#include "codec/linkd/direct.h"
#include "handler/heartbeat.h"
#include "loop/account.h"
#include "loop/local.h"
#include "weir/linkd.h"

enum { OUT_MAX = 64 * 1024 }; /* answers collected before they are handed on: one batch */

struct conn;

/* What the connections of one loop with the same options share, while there are any. */
struct line {
    struct weir__linkd_line codec;
    struct weir__base_link link;
    const void
        *options; /* they outlive their connections, so while it lives an address is a name */
    uint32_t conns;
    struct weir__loop_account *frames;
    const char *service; /* whose account this is */
    struct weir__loop_handler *account;
    struct conn *rested; /* one without a channel, for the next that has something to do */
};

/* What a server's channel holds of it. The session is there only while there is something to do:
 *
 *     at rest -- bytes come, a drain begins, a ping is due --> up
 *        ^                                                     |
 *        +----- no call is open, no byte is left to take ------+
 *
 * Looked at when bytes, a job or a deadline were dealt with; a call answered at another time keeps
 * it until then. The session that was up last is kept, still warm, for the next connection. */
struct seat {
    struct line *line;
    struct conn *conn; /* NULL: at rest */
    struct weir_ref chan;
};
_Static_assert(sizeof(struct seat) <= WEIR__IDLE_STATE, "see base/footprint.h");

struct conn {
    struct weir_ctx *ctx;
    struct weir_loop *loop;
    struct weir_timer timer;
    uint64_t staged;   /* what the channel was told of s.staged */
    uint64_t armed_ns; /* what the timer waits for; 0: nothing */
    uint64_t away;     /* bytes that its jobs have with them */
    bool held;         /* calls are open: a drain waits for their answers */
    bool too_far;      /* a request waits until fewer bytes are away */
    bool removed;      /* by a callback of its own: it ends with the turn */
    struct weir__handler_pulse pulse;
    struct weir__loop_grave grave; /* removed */
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
static struct line *line_get(struct weir_loop *l, const void *options, struct weir_mem *m) {
    struct shared *h = shared_of(l);
    if (!h)
        return NULL;
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
    line->frames = weir__loop_account_of(l);
    weir__base_list_push_front(&h->lines, &line->link);
    return line;
}

static void conn_free(struct conn *n, int why) {
    weir__linkd_fini(&n->s, why);
    weir_mem_free(n);
}

static void line_put(struct line *line) {
    if (--line->conns)
        return;
    if (line->rested)
        conn_free(line->rested, 0);
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
    if (unlikely(n->removed))
        return 0; /* the channel goes on without it */
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
static struct weir__loop_handler *account_of(struct conn *n, const char *service) {
    struct line *line = line_of(n);
    if (unlikely(service != line->service)) {
        line->service = service;
        line->account = weir__loop_name(n->loop, service);
    }
    return line->account;
}

static void enter(struct weir__linkd_session *s, const char *service) {
    struct conn *n = conn_of(s);
    weir__loop_frame_enter(line_of(n)->frames, account_of(n, service), s->chan.v);
}

static void leave(struct weir__linkd_session *s) {
    weir__loop_frame_leave(line_of(conn_of(s))->frames);
}

/* By number of jobs, which the channel counts, and by what they hold. */
static bool offload_room(struct weir__linkd_session *s) {
    struct conn *n = conn_of(s);
    if (unlikely(n->away >= s->line->held_max)) {
        n->too_far = true;
        return false;
    }
    return weir_ctx_offload_room(n->ctx);
}

static const struct weir__linkd_host host = {
    .kick = kick, .now_ns = now, .enter = enter, .leave = leave, .room = offload_room};

static void rest_outside(struct conn *n);

static void due(struct weir_timer *t) {
    struct conn *n = container_of(t, struct conn, timer);
    n->armed_ns = 0;
    weir__linkd_expire(&n->s, now(&n->s));
    kick(&n->s);
    if (n->s.line->server)
        rest_outside(n);
}

/* --- the handlers' callbacks -------------------------------------------------------------- */

/* Nothing may follow the last ERROR: the calls end now, not when the channel has drained. */
WEIR_COLD static int broken(struct conn *n, int why) {
    weir__linkd_die(&n->s, why); /* it is over also where it was the channel that refused */
    weir__linkd_fini(&n->s, why);
    watch_calls(n);
    watch_staged(n);
    return why;
}

static int conn_read(struct weir_ctx *c, struct conn *n, struct weir_chain *in) {
    int more, rc;
    do {
        more = weir__linkd_read(&n->s, in, OUT_MAX);
        rc = settle(n);
        if (unlikely(n->removed))
            return 0;
        if (unlikely(more < 0 || rc < 0))
            return broken(n, more < 0 ? more : rc);
    } while (more == 1 && weir_ctx_room(c) > 0);
    weir_ctx_want(c, more ? 1 : n->s.decoder.want); /* 1: whole frames wait for room of some kind */
    return 0;
}

static int64_t conn_pull(struct conn *n, uint64_t room) {
    int64_t framed = weir__linkd_pull(&n->s, room);
    int rc = settle(n);
    return rc < 0 || n->removed ? rc : framed;
}

/* Calls that wait for bytes of the peer would hold the drain for nothing. */
static void conn_eof(struct conn *n) {
    weir__linkd_eof(&n->s);
    kick(&n->s);
}

/* False: a callback of its calls has removed it. What was answered before is sent, the calls that
 * are open end as that callback returns, and n itself with the turn: `bury` sees to it. */
static bool conn_close(struct conn *n, int why, void (*bury)(struct weir__loop_grave *g)) {
    why = why < 0 ? why : WEIR_EGONE;
    weir_timer_disarm(&n->timer);
    if (unlikely(n->s.depth))
        (void)weir_ctx_send(n->ctx, &n->s.out);
    weir__linkd_stop(&n->s, why);
    watch_calls(n); /* the channel may outlive its handler */
    watch_staged(n);
    if (unlikely(n->s.depth)) {
        n->removed = true;
        n->grave.bury = bury;
        weir__loop_bury(n->loop, &n->grave);
        return false;
    }
    weir__linkd_fini(&n->s, why);
    return true;
}

static struct conn *buried(struct weir__loop_grave *g) {
    struct conn *n = container_of(g, struct conn, grave);
    weir__linkd_fini(&n->s, n->s.why);
    return n;
}

static void beat(struct conn *n, uint32_t missed_max) {
    struct weir_chan *ch = weir_ctx_chan(n->ctx);
    int rc = weir__handler_beat(&n->pulse, ch, missed_max);
    if (rc == 1)
        rc = weir__linkd_beat(&n->s);
    if (rc < 0)
        weir_chan_fail(ch, rc);
}

/* --- server ------------------------------------------------------------------------------- */

static void session_begin(struct conn *n, struct line *line) {
    struct weir_ref nobody = {0};
    weir__linkd_server_init(&n->s, &line->codec, weir__loop_entropy(n->loop), nobody);
}

static struct conn *conn_new(struct weir_ctx *c, struct line *line) {
    struct conn *n = weir_mem_new(weir_ctx_mem(c), sizeof *n);
    if (!n)
        return NULL;
    n->loop = weir_ctx_loop(c);
    session_begin(n, line);
    return n;
}

WEIR_INLINE void lend(struct seat *seat, struct weir_ctx *c, struct conn *n) {
    seat->line->rested = NULL;
    n->ctx = c;
    n->s.chan = seat->chan;
    seat->conn = n;
}

/* NULL: no memory. */
static struct conn *up(struct weir_ctx *c, struct seat *seat) {
    if (seat->conn)
        return seat->conn;
    struct conn *n = seat->line->rested ? seat->line->rested : conn_new(c, seat->line);
    if (n)
        lend(seat, c, n);
    return n;
}

/* Nothing but its output would be lost without it, and nothing of it is left for the next. */
WEIR_INLINE bool may_rest(const struct conn *n) {
    const struct weir__linkd_session *s = &n->s;
    uint32_t left = s->open | s->drains | s->beats | s->decoder.skip | n->pulse.missed;
    uint64_t more = n->armed_ns | n->away | n->staged | (uint64_t)s->why;
    return !(left | more) && !(s->goaway_out | s->goaway_in | n->held) &&
           s->deadline_ns == UINT64_MAX;
}

WEIR_INLINE void rest(struct seat *seat, struct conn *n) {
    struct line *line = seat->line;
    seat->conn = NULL;
    if (unlikely(n->s.table.slots))
        weir__linkd_table_fini(&n->s.table); /* they are empty, and it may rest for long */
    if (unlikely(line->rested))
        conn_free(n, 0);
    else
        line->rested = n;
}

/* Behind what happened outside of a read. */
static void rest_outside(struct conn *n) {
    if (!n->s.depth && !n->s.out.bytes && may_rest(n))
        rest(weir__chan_ctx_state(n->ctx), n);
}

/* What ended is as good as new, and as large: no memory comes or goes with a connection that had
 * one. */
static void renew(struct conn *n) {
    struct line *line = line_of(n);
    *n = (struct conn){.loop = n->loop};
    session_begin(n, line);
}

static int server_open(struct weir_ctx *c, const void *config) {
    struct seat *seat = weir_ctx_state(c);
    const struct weir_linkd_server_options *o = config;
    struct weir_mem *m = weir_ctx_mem(c);
    if (!o || o->size != sizeof *o || (!o->n_routes && !o->fallback))
        return WEIR_EINVAL;
    struct weir_loop *l = weir_ctx_loop(c);
    struct line *line = line_get(l, o, m);
    if (!line)
        return WEIR_ENOMEM;
    if (line->conns == 1) {
        weir__linkd_server_line(&line->codec, o, m, &host, &shared_of(l)->stats);
        line->codec.receiving = weir__loop_receiving(l);
    }
    seat->line = line;
    seat->chan = weir_chan_ref(weir_ctx_chan(c));
    weir_ctx_want(c, 2); /* enough to know who does not speak linkd */
    if (o->heartbeat_ms)
        weir_chan_read_idle(weir_ctx_chan(c), o->heartbeat_ms);
    return 0;
}

/* Anything but one request that is answered at once. */
static WEIR_NOINLINE int read_more(struct weir_ctx *c, struct weir_chain *in) {
    struct seat *seat = weir__chan_ctx_state(c);
    struct conn *n = up(c, seat);
    if (unlikely(!n))
        return WEIR_ENOMEM;
    int rc = conn_read(c, n, in);
    if (unlikely(n->removed))
        return rc;
    if (unlikely(n->pulse.missed))
        weir__handler_heard(&n->pulse, weir_ctx_chan(c));
    if (!in->bytes && !n->s.out.bytes && may_rest(n))
        rest(seat, n);
    return rc;
}

/* The request that is all of in. False: it is not one like that, nothing has happened. */
WEIR_INLINE bool run_alone(struct conn *n, struct weir_chain *in) {
    struct weir__linkd_session *s = &n->s;
    s->quiet = true;
    struct weir_linkd_call *x = weir__linkd_begin(s, in, true);
    if (likely(x)) {
        const struct weir_linkd_route *r = x->route;
        const struct weir_linkd_service *v = r->handler;
        struct weir__loop_account *frames = line_of(n)->frames;
        weir__loop_frame_enter(frames, account_of(n, v->name), s->chan.v);
        int rc = v->call(x, r->user);
        weir__loop_frame_leave(frames);
        weir__linkd_finish(s, x, rc);
    }
    s->quiet = false;
    return likely(x);
}

/* What a session that was at rest can have to do when a call of it has run: that one is open, has
 * work away, or something has ended the connection. */
WEIR_INLINE bool is_spent(const struct conn *n) {
    return !(n->s.open | (unsigned)n->s.why | n->s.goaway_out | n->away);
}

/* What usually comes is one request, all of it, and it is answered before its call returns.
 * Whatever is not like that is looked at by read_more, also an answer that the channel does not
 * take. */
static int server_read(struct weir_ctx *c, struct weir_chain *in) {
    struct seat *seat = weir__chan_ctx_state(c);
    struct conn *n = seat->line->rested;
    if (unlikely(seat->conn || !n))
        return read_more(c, in);
    lend(seat, c, n);
    if (unlikely(!run_alone(n, in) || weir_ctx_send(c, &n->s.out) < 0 || !is_spent(n)))
        return n->removed ? 0 : read_more(c, in);
    check(may_rest(n) && !n->s.out.bytes);
    rest(seat, n);
    weir__chan_ctx_want(c, 2);
    return 0;
}

static int64_t server_pull(struct weir_ctx *c, uint64_t room) {
    struct seat *seat = weir_ctx_state(c);
    return seat->conn ? conn_pull(seat->conn, room) : 0;
}

static void server_eof(struct weir_ctx *c, bool clean) {
    struct seat *seat = weir_ctx_state(c);
    (void)clean;
    if (seat->conn)
        conn_eof(seat->conn);
}

/* An orderly end: no new calls, those that are open are answered first. No memory for it: the close
 * says the same, less kindly. */
static void server_event(struct weir_ctx *c, int what, const void *data) {
    struct seat *seat = weir_ctx_state(c);
    const struct weir_linkd_server_options *o = seat->line->options;
    bool drain = what == WEIR_EVENT_DRAIN, ping = what == WEIR_EVENT_IDLE_READ && o->heartbeat_ms;
    struct conn *n = drain || ping ? up(c, seat) : NULL;
    (void)data;
    if (!n || n->s.why)
        return;
    if (drain) {
        (void)weir__linkd_goaway(&n->s);
        return;
    }
    beat(n, o->heartbeat_missed_max);
    rest_outside(n); /* where nothing was asked */
}

static void server_bury(struct weir__loop_grave *g) {
    struct conn *n = buried(g);
    struct line *line = line_of(n);
    weir_mem_free(n);
    line_put(line);
}

static void server_close(struct weir_ctx *c, int why) {
    struct seat *seat = weir_ctx_state(c);
    struct line *line = seat->line;
    struct conn *n = seat->conn;
    if (n && !conn_close(n, why, server_bury)) {
        seat->conn = NULL;
        return;
    }
    if (n) {
        renew(n);
        rest(seat, n);
    }
    line_put(line);
}

const struct weir_handler weir_linkd_server = {
    .name = "linkd",
    .state_size = sizeof(struct seat),
    .open = server_open,
    .read = server_read,
    .pull = server_pull,
    .eof = server_eof,
    .event = server_event,
    .close = server_close,
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
    struct line *line = line_get(n->loop, o, m);
    if (!line)
        return WEIR_ENOMEM;
    if (line->conns == 1) {
        weir__linkd_client_line(&line->codec, o, m, &host, &shared_of(n->loop)->stats);
        line->codec.receiving = weir__loop_receiving(n->loop);
    }
    weir__linkd_client_init(&n->k, &line->codec, o, weir__loop_entropy(n->loop),
                            weir_chan_ref(weir_ctx_chan(c)));
    n->k.chan = weir_ctx_chan(c);
    weir_chan_read_while_full(weir_ctx_chan(c), true); /* answers make room at the other end */
    weir_ctx_want(c, 2);                               /* enough to know who does not speak linkd */
    if (o && o->heartbeat_ms)
        weir_chan_read_idle(weir_ctx_chan(c), o->heartbeat_ms);
    if (o && o->open)
        o->open(&n->k, o->user);
    return 0;
}

static int client_read(struct weir_ctx *c, struct weir_chain *in) {
    return conn_read(c, weir_ctx_state(c), in);
}

static int64_t client_pull(struct weir_ctx *c, uint64_t room) {
    return conn_pull(weir_ctx_state(c), room);
}

static void client_eof(struct weir_ctx *c, bool clean) {
    (void)clean;
    conn_eof(weir_ctx_state(c));
}

static void client_end(struct conn *n, int why) {
    const struct weir_linkd_client_options *o = n->k.o;
    line_put(line_of(n));
    if (o && o->close)
        o->close(&n->k, why, o->user);
}

static void client_bury(struct weir__loop_grave *g) {
    client_end(buried(g), 0);
}

static void client_close(struct weir_ctx *c, int why) {
    struct conn *n = weir_ctx_state(c);
    if (conn_close(n, why, client_bury))
        client_end(n, why);
}

/* No new calls; the open ones get their answers while the channel drains. */
static void client_event(struct weir_ctx *c, int what, const void *data) {
    struct conn *n = weir_ctx_state(c);
    (void)data;
    if (what == WEIR_EVENT_DRAIN)
        n->k.s.goaway_in = true;
    else if (what == WEIR_EVENT_IDLE_READ && n->k.o && n->k.o->heartbeat_ms && !n->s.why)
        beat(n, n->k.o->heartbeat_missed_max);
}

const struct weir_handler weir_linkd_client_handler = {
    .name = "linkd-client",
    .state_size = sizeof(struct conn),
    .open = client_open,
    .read = client_read,
    .pull = client_pull,
    .eof = client_eof,
    .event = client_event,
    .close = client_close,
};

/* --- jobs --------------------------------------------------------------------------------- */

static void job_run(struct weir_job *job) {
    struct weir_linkd_job *j = container_of(job, struct weir_linkd_job, job);
    j->run(j);
}

/* Its call, if that still waits for it; one whose job never ran ends here. */
static struct weir_linkd_call *job_call(struct weir_ctx *c, struct weir_linkd_job *j, int status) {
    struct conn *n = ((struct seat *)weir_ctx_state(c))->conn;
    if (!n)
        return NULL; /* the call is over, and the connection at rest */
    struct weir_linkd_call *x = weir__linkd_find(&n->s, j->call.id, j->call.serial);
    n->away -= j->bytes;
    if (n->too_far && n->away < n->s.line->held_max) {
        n->too_far = false;
        weir_ctx_wake(c);
    }
    if (x && status < 0 && weir_linkd_fail(x, weir__linkd_code_of(status), NULL) < 0)
        weir_chan_fail(weir_ctx_chan(c),
                       WEIR_ENOMEM); /* a call must not hang for want of a frame */
    return status < 0 ? NULL : x;
}

static void job_done(struct weir_ctx *c, struct weir_job *job, int status) {
    struct weir_linkd_job *j = container_of(job, struct weir_linkd_job, job);
    struct weir_linkd_call *x = c ? job_call(c, j, status) : NULL;
    j->done(x, j, x || status < 0 ? status : WEIR_EGONE);
    struct seat *seat = c ? weir_ctx_state(c) : NULL;
    if (seat && seat->conn)
        rest_outside(seat->conn);
}

int weir_linkd_offload(struct weir_linkd_call *x, struct weir_linkd_job *j, enum weir_order order) {
    struct conn *n = conn_of(x->s);
    if (!x->s->line->server)
        return WEIR_EINVAL;
    if (x->flags & (WEIR__LINKD_OVER | WEIR__LINKD_SEND_END))
        return WEIR_EGONE;
    if (n->away >= x->s->line->held_max)
        return WEIR_EFULL;
    j->job.run = job_run;
    j->job.done = job_done;
    j->call = weir_linkd_call_ref(x);
    j->bytes = x->in.bytes;
    j->payload = x->in;
    int rc = weir__chan_offload(n->ctx, &j->job, order, account_of(n, x->route->handler->name));
    if (rc < 0) {
        j->payload = (struct weir_chain){0};
        return rc;
    }
    x->in = (struct weir_chain){0};
    n->away += j->bytes;
    weir_linkd_resume(x); /* a streamed request is refunded what left with the job */
    return 0;
}

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
    struct conn *n = c ? ((struct seat *)weir_ctx_state(c))->conn : NULL;
    if (!n && (c = weir_chan_ctx(ch, &weir_linkd_client_handler)))
        n = weir_ctx_state(c);
    return n ? weir__linkd_find(&n->s, r.id, r.serial) : NULL;
}
