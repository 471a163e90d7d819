/* Temporary: the engine's own HTTP server takes this file's place once it is there. Until then one
 * request per connection, GET only, is read by admin/request.h and answered by admin/page.
 *
 *     READING --a request, or what is wrong with it--> ANSWERED: sends, closes in order
 *        |                                                ^
 *        +--a profile is wanted--> PROFILING --it is there+
 *
 * READING and a peer that takes nothing are bounded by time, both by the number of connections. */
#include "admin/admin.h"
#include "base/assert.h"
#include "loop/loop.h"
#include "mem/raw.h"
#include "serve/listener.h"
#include "weir/admin.h"
#include "weir/chan.h"
#include <inttypes.h>
#include <stdio.h>

enum {
    READ_MS = 5000,        /* from the connection to the end of its request */
    CONNECTIONS_MAX = 64,  /* that get an answer */
    REFUSALS_MAX = 64,     /* more that are told why they get none; the rest is reset */
    IDLE_MS = 2 * READ_MS, /* longer, so that a late request is answered */
    END_MS = 100,          /* for answers that are on their way when the group has ended */
};

struct weir_admin {
    struct weir__loop_owned owned;
    struct weir_group *group; /* of one loop */
    struct weir_server *server;
    struct weir__admin *admin;
    struct weir_admin *self; /* what its stage is configured with */
    /* Its loop. */
    unsigned connections;
};

enum state { READING, PROFILING, ANSWERED };

struct visit { /* a connection */
    struct weir_admin *of;
    struct weir_ctx *ctx;
    struct weir_timer late;
    enum state state;
    bool heard; /* a byte at least */
};

/* --- answering ------------------------------------------------------------------------------- */

static const char *reason_of(int status) {
    switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 431: return "Request Header Fields Too Large";
    default: return "Service Unavailable";
    }
}

static void put_head(struct weir__admin_text *head, const struct weir__admin_page *page) {
    weir__admin_print(head,
                      "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %" PRIu64
                      "\r\n%sCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                      "Connection: close\r\n\r\n",
                      page->status, reason_of(page->status), page->type, page->text.chain.bytes,
                      page->status == 405 ? "Allow: GET\r\n" : "");
}

/* Takes page's text. */
static void send_page(struct visit *v, struct weir__admin_page *page) {
    struct weir__admin_text head = {.mem = weir_ctx_mem(v->ctx)};
    if (page->text.failed) {
        weir_chain_fini(&page->text.chain);
        page->text = (struct weir__admin_text){.mem = head.mem};
        weir__admin_refuse(page, 503, "out of memory");
    }
    put_head(&head, page);
    weir_chain_append(&head.chain, &page->text.chain);
    v->state = ANSWERED;
    weir_timer_disarm(&v->late);
    bool sent = !head.failed && weir_ctx_send(v->ctx, &head.chain) >= 0;
    weir_chain_fini(&head.chain);
    weir_chan_close(weir_ctx_chan(v->ctx), sent ? WEIR_DRAIN : WEIR_ABORT);
}

static struct weir__admin_page page_of(struct visit *v) {
    return (struct weir__admin_page){.text.mem = weir_ctx_mem(v->ctx)};
}

static void refuse(struct visit *v, int status, const char *why) {
    struct weir__admin_page page = page_of(v);
    weir__admin_refuse(&page, status, why);
    send_page(v, &page);
}

/* --- profiles -------------------------------------------------------------------------------- */

struct wish { /* a profile that is being taken for a connection */
    struct weir__loop_node node;
    struct weir_admin *of;
    struct weir__loop_inbox *inbox;
    struct weir_ref chan;
    struct weir_profile *profile;
    int code;
};

static const struct weir_handler handler;

static const struct weir__loop_outside *outside_of(const struct weir_admin *a) {
    return a->admin->watched->world->outside;
}

static void wish_free(struct wish *w) {
    outside_of(w->of)->profile_free(w->profile);
    weir__mem_raw_free(w);
}

static void wish_came(struct weir_loop *l, struct weir__loop_node *n) {
    struct wish *w = container_of(n, struct wish, node);
    struct weir_chan *ch = weir_chan_find(l, w->chan);
    struct weir_ctx *c = ch ? weir_chan_ctx(ch, &handler) : NULL;
    struct visit *v = c ? weir_ctx_state(c) : NULL;
    if (v && v->state == PROFILING) {
        struct weir__admin_page page = page_of(v);
        weir__admin_profile(w->of->admin, w->profile, w->code, &page);
        weir_ctx_unhold(c);
        send_page(v, &page);
    }
    wish_free(w);
}

/* On the profile's thread. */
static void profiled(struct weir_profile *p, int code, void *user) {
    struct wish *w = user;
    w->profile = p;
    w->code = code;
    if (weir__loop_inbox_push(w->inbox, &w->node) < 0)
        wish_free(w);
}

static void profile(struct visit *v, uint32_t seconds) {
    struct weir_profile_options o = {.size = sizeof o, .ms = seconds * 1000};
    struct wish *w = weir__mem_raw_new(sizeof *w);
    if (!w) {
        refuse(v, 503, "out of memory");
        return;
    }
    w->of = v->of;
    w->inbox = weir_ctx_loop(v->ctx)->inbox;
    w->node.run = wish_came;
    w->chan = weir_chan_ref(weir_ctx_chan(v->ctx));
    v->state = PROFILING;
    weir_timer_disarm(&v->late);
    weir_ctx_hold(v->ctx);
    int rc = outside_of(v->of)->profile_start(v->of->admin->watched, &o, profiled, w);
    if (rc >= 0)
        return;
    weir__mem_raw_free(w);
    weir_ctx_unhold(v->ctx);
    refuse(v, 503,
           rc == WEIR_EAGAIN ? "another profile is being taken; ask again when it is over"
                             : weir_strerror(rc));
}

/* --- the handler ----------------------------------------------------------------------------- */

static const char *complaint_of(int status) {
    switch (status) {
    case 405: return "only GET is answered here";
    case 431: return "the request's head is over 8192 bytes";
    default: return "this is no HTTP/1.x GET request without a body";
    }
}

static void request(struct visit *v, struct weir_chain *in) {
    size_t n = in->bytes < WEIR__ADMIN_HEAD_MAX ? in->bytes : WEIR__ADMIN_HEAD_MAX;
    const uint8_t *p = weir_chain_peek(weir_ctx_mem(v->ctx), in, n);
    struct weir__admin_request r;
    if (!p) {
        refuse(v, 503, "out of memory");
        return;
    }
    int rc = weir__admin_request_read((const char *)p, n, &r);
    if (rc < 0) {
        refuse(v, -rc, complaint_of(-rc));
    } else if (rc == 0) {
        weir_ctx_want(v->ctx, in->bytes + 1);
    } else {
        struct weir__admin_page page = page_of(v);
        weir__admin_answer(v->of->admin, &r, &page);
        if (page.profile_s)
            profile(v, page.profile_s);
        else
            send_page(v, &page);
    }
}

static int visit_read(struct weir_ctx *c, struct weir_chain *in) {
    struct visit *v = weir_ctx_state(c);
    v->heard = true;
    if (v->state == READING)
        request(v, in);
    if (v->state != READING)
        weir_chain_drop(in, in->bytes);
    return 0;
}

static void visit_late(struct weir_timer *t) {
    struct visit *v = container_of(t, struct visit, late);
    if (v->heard)
        refuse(v, 408, "the request was not whole after 5 seconds");
    else
        weir_chan_close(weir_ctx_chan(v->ctx), WEIR_DRAIN); /* nobody waits for an answer */
}

static int visit_open(struct weir_ctx *c, const void *config) {
    struct visit *v = weir_ctx_state(c);
    v->of = *(struct weir_admin *const *)config;
    v->ctx = c;
    if (v->of->connections >= CONNECTIONS_MAX + REFUSALS_MAX)
        return WEIR_EFULL;
    v->of->connections++;
    if (v->of->connections > CONNECTIONS_MAX)
        refuse(v, 503, "too many connections");
    else
        weir__loop_timer_in(weir_ctx_loop(c), &v->late, READ_MS, visit_late);
    return 0;
}

static void visit_eof(struct weir_ctx *c, bool clean) {
    struct visit *v = weir_ctx_state(c);
    (void)clean;
    if (v->state != READING)
        return;
    weir_timer_disarm(&v->late);
    weir_chan_close(weir_ctx_chan(c), WEIR_DRAIN);
}

static void visit_event(struct weir_ctx *c, int what, const void *data) {
    struct visit *v = weir_ctx_state(c);
    (void)data;
    if (what == WEIR_EVENT_IDLE && v->state == PROFILING)
        weir_chan_touch(weir_ctx_chan(c));
}

static void visit_close(struct weir_ctx *c, int why) {
    struct visit *v = weir_ctx_state(c);
    (void)why;
    weir_timer_disarm(&v->late);
    v->of->connections--;
}

static const struct weir_handler handler = {
    .name = "admin",
    .state_size = sizeof(struct visit),
    .open = visit_open,
    .read = visit_read,
    .eof = visit_eof,
    .event = visit_event,
    .close = visit_close,
};

/* --- life ------------------------------------------------------------------------------------ */

static void end(struct weir_admin *a) {
    weir_group_stop(a->group, END_MS);
    weir_group_join(a->group);
    weir__admin_free(a->admin);
    weir__mem_raw_free(a);
}

static void owned_free(struct weir__loop_owned *o) {
    end(container_of(o, struct weir_admin, owned));
}

static int begin(struct weir_loop *l, void *user) {
    (void)l;
    struct weir_admin *a = user;
    weir__admin_start(a->admin);
    return 0;
}

static void add_queue(struct weir__serve_listener *s, void *user) {
    struct weir__admin_told *told = user;
    struct weir_loop *l = s->loop;
    uint32_t depth, depth_max;
    intptr_t handle = l->io->ops->handle(l->io, s->sock);
    if (handle < 0 || l->env.group->world->outside->queue(handle, &depth, &depth_max) < 0)
        return;
    told->listeners++;
    told->queue_depth += depth;
    told->queue_depth_max += depth_max;
}

static void tell(struct weir_loop *l, struct weir__admin_told *out) {
    weir__serve_listener_each(l, add_queue, out);
    (void)weir_proxy_stats(l, &out->proxy);
}

static int open_all(struct weir_admin *a, struct weir_group *watched, const char *address) {
    const struct weir_stage line[] = {{&handler, &a->self}};
    struct weir_server_options o = {
        .size = sizeof o,
        .address = address,
        .stages = line,
        .n_stages = 1,
        .limits = {.idle_ms = IDLE_MS, .drain_ms = READ_MS, .half_open = true},
    };
    struct weir_loop *l = weir_group_loop(a->group, 0);
    a->admin = weir__admin_new(watched, l, tell);
    if (!a->admin)
        return WEIR_ENOMEM;
    int rc = weir_serve(a->group, &o, &a->server);
    if (rc < 0)
        return rc;
    rc = weir_group_start(a->group);
    if (rc < 0)
        return rc;
    /* From here on the watched loops may hold what is a's: it ends only after them. */
    (void)weir__loop_group_call(a->group, l, begin, a);
    return 0;
}

int weir_admin_serve(struct weir_group *watched, const char *address, struct weir_admin **out) {
    const struct weir__loop_outside *outside = watched->world->outside;
    watched->server_why[0] = 0;
    if (!outside)
        return WEIR_ENOTSUP;
    struct weir_admin *a = weir__mem_raw_new(sizeof *a);
    if (!a)
        return WEIR_ENOMEM;
    a->self = a;
    int rc = outside->group("weir-admin", &a->group);
    if (rc < 0) {
        weir__mem_raw_free(a);
        return rc;
    }
    rc = open_all(a, watched, address);
    if (rc < 0) {
        snprintf(watched->server_why, sizeof watched->server_why, "%s", weir_server_why(a->group));
        end(a);
        return rc;
    }
    a->owned.free = owned_free;
    weir__loop_group_own(watched, &a->owned);
    *out = a;
    return 0;
}

const char *weir_admin_address(const struct weir_admin *a) {
    return weir_server_address(a->server);
}

struct parameter {
    struct weir_admin *of;
    const char *name, *value, *origin;
};

static int add_parameter(struct weir_loop *l, void *user) {
    (void)l;
    const struct parameter *p = user;
    return weir__admin_parameter_add(p->of->admin, p->name, p->value, p->origin);
}

int weir_admin_parameter(struct weir_admin *a, const char *name, const char *value,
                         const char *origin) {
    struct parameter p = {a, name, value, origin};
    return weir__loop_group_call(a->group, weir_group_loop(a->group, 0), add_parameter, &p);
}
