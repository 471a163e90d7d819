#include "wire/services.h"
#include "wire/peer.h"
#include <stdatomic.h>
#include <string.h>

static _Atomic int open_calls;
static _Atomic uint64_t calls;

static void counted(void) {
    atomic_fetch_add(&open_calls, 1);
    atomic_fetch_add(&calls, 1);
}

static void done(struct weir_linkd_call *x, int why) {
    (void)x, (void)why;
    atomic_fetch_sub(&open_calls, 1);
}

int services_balance(void) {
    return atomic_load(&open_calls);
}

uint64_t services_calls(void) {
    return atomic_load(&calls);
}

static int echo_call(struct weir_linkd_call *x, void *user) {
    (void)user;
    counted();
    return weir_linkd_answer(x, weir_linkd_payload(x));
}

static int answer_number(struct weir_linkd_call *x, uint64_t v, unsigned width) {
    struct weir_chain c = {0};
    int rc = weir_chain_put_be(weir_linkd_mem(x), &c, width, v);
    if (rc >= 0)
        rc = weir_linkd_answer(x, &c);
    weir_chain_fini(&c);
    return rc;
}

static int digest_call(struct weir_linkd_call *x, void *user) {
    struct weir_chain *in = weir_linkd_payload(x);
    static const uint8_t nothing[1];
    const uint8_t *p = in->bytes ? weir_chain_peek(weir_linkd_mem(x), in, (size_t)in->bytes)
                                 : nothing;
    (void)user;
    counted();
    return p ? answer_number(x, peer_digest(p, (size_t)in->bytes), 8) : WEIR_ENOMEM;
}

/* ---- later ---- */

struct later {
    struct weir_timer timer;
    struct weir_linkd_call *call;
};

static void later_due(struct weir_timer *t) {
    struct later *l = (struct later *)t;
    (void)weir_linkd_answer(l->call, weir_linkd_payload(l->call));
}

static int later_call(struct weir_linkd_call *x, void *user) {
    struct later *l = weir_linkd_state(x);
    struct weir_loop *loop = weir_linkd_loop(x);
    uint64_t ms = 0;
    (void)user;
    counted();
    (void)weir_chain_get_be(weir_linkd_payload(x), 0, 1, &ms);
    l->call = x;
    weir_timer_arm(loop, &l->timer, weir_loop_now(loop) + ms * 1000000, later_due);
    return 0;
}

static void later_done(struct weir_linkd_call *x, int why) {
    struct later *l = weir_linkd_state(x);
    (void)weir_timer_disarm(&l->timer);
    done(x, why);
}

/* ---- stream ---- */

enum { STREAM_PIECE = 4096 };

struct stream {
    uint64_t at, end;
};

static int64_t stream_piece(struct weir_linkd_call *x, struct stream *s) {
    struct weir_chain c = {0};
    uint64_t left = s->end - s->at;
    size_t n = left < STREAM_PIECE ? (size_t)left : STREAM_PIECE;
    uint8_t *p = weir_chain_reserve(weir_linkd_mem(x), &c, n);
    if (!p)
        return WEIR_ENOMEM;
    for (size_t i = 0; i < n; i++)
        p[i] = peer_pattern(weir_linkd_id(x), (size_t)s->at + i);
    weir_chain_commit(&c, n);
    int64_t room = weir_linkd_write(x, &c);
    weir_chain_fini(&c);
    s->at += room < 0 ? 0 : n;
    return room;
}

static int stream_on(struct weir_linkd_call *x) {
    struct stream *s = weir_linkd_state(x);
    int64_t room = 1;
    while (room > 0 && s->at < s->end)
        room = stream_piece(x, s);
    if (room < 0)
        return (int)room;
    return s->at == s->end ? weir_linkd_end(x) : 0;
}

static int stream_call(struct weir_linkd_call *x, void *user) {
    struct stream *s = weir_linkd_state(x);
    (void)user;
    counted();
    int rc = weir_chain_get_be(weir_linkd_payload(x), 0, 4, &s->end);
    return rc < 0 ? rc : stream_on(x);
}

static void stream_room(struct weir_linkd_call *x, uint64_t room) {
    (void)room;
    if (stream_on(x) < 0)
        (void)weir_linkd_fail(x, WEIR_LINKD_INTERNAL, NULL);
}

/* ---- pieces ---- */

static int piece_call(struct weir_linkd_call *x, void *user) {
    (void)x, (void)user;
    counted();
    return 0;
}

static int sink_body(struct weir_linkd_call *x, struct weir_chain *in, bool last) {
    uint64_t *n = weir_linkd_state(x);
    *n += in->bytes;
    weir_chain_drop(in, in->bytes);
    return last ? answer_number(x, *n, 4) : 0;
}

static int lazy_body(struct weir_linkd_call *x, struct weir_chain *in, bool last) {
    (void)x, (void)in, (void)last;
    return 0;
}

static const struct weir_linkd_service services[SERVICE_NONE] = {
    [SERVICE_ECHO] = {.name = "echo", .call = echo_call, .done = done},
    [SERVICE_DIGEST] = {.name = "digest", .call = digest_call, .done = done},
    [SERVICE_LATER] = {.name = "later",
                       .state_size = sizeof(struct later),
                       .call = later_call,
                       .done = later_done},
    [SERVICE_STREAM] = {.name = "stream",
                        .state_size = sizeof(struct stream),
                        .call = stream_call,
                        .room = stream_room,
                        .done = done},
    [SERVICE_SINK] = {.name = "sink",
                      .state_size = sizeof(uint64_t),
                      .call = piece_call,
                      .body = sink_body,
                      .done = done},
    [SERVICE_SILENT] = {.name = "silent", .call = piece_call, .done = done},
    [SERVICE_LAZY] = {.name = "lazy", .call = piece_call, .body = lazy_body, .done = done},
};

struct weir_linkd_server_options services_options(void) {
    static struct weir_linkd_route routes[SERVICE_NONE];
    for (unsigned i = 0; i < SERVICE_NONE; i++)
        routes[i] = (struct weir_linkd_route){.service = (uint16_t)i, .handler = &services[i]};
    return (struct weir_linkd_server_options){.size = sizeof(struct weir_linkd_server_options),
                                              .routes = routes,
                                              .n_routes = SERVICE_NONE};
}
