#include "kit/linkd.h"
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_MAX = 40 };

static const char *const type_names[] = {"?",    "REQUEST", "RESPONSE", "ERROR", "PING",
                                         "PONG", "CANCEL",  "GOAWAY",   "CREDIT"};

void kit_linkd_say(struct kit_linkd *t, const char *format, ...) {
    size_t at = strlen(t->log);
    va_list args;
    if (at)
        t->log[at++] = '|';
    va_start(args, format);
    int n = vsnprintf(t->log + at, sizeof t->log - at, format, args);
    va_end(args);
    assert_true(n >= 0 && (size_t)n < sizeof t->log - at);
}

/* 'abc', or 100000 bytes. */
static void show(const struct weir_chain *c, char out[SHOWN_MAX + 20]) {
    char text[SHOWN_MAX + 1] = "";
    if (c->bytes > SHOWN_MAX) {
        snprintf(out, SHOWN_MAX + 20, "%llu bytes", (unsigned long long)c->bytes);
        return;
    }
    if (c->bytes)
        assert_int_equal(weir_chain_read(c, 0, text, c->bytes), 0);
    snprintf(out, SHOWN_MAX + 20, "'%s'", text);
}

/* ---- the scripted owner ---- */

static struct kit_linkd *kit_of(struct weir_linkd_call *x) {
    return container_of(x->s, struct kit_linkd, s);
}

static void say_call(struct weir_linkd_call *x, const char *what) {
    char text[SHOWN_MAX + 20];
    show(weir_linkd_payload(x), text);
    kit_linkd_say(kit_of(x), "%s %llu %s", what, (unsigned long long)weir_linkd_id(x), text);
}

static int echo_call(struct weir_linkd_call *x, void *user) {
    (void)user;
    say_call(x, "call");
    return weir_linkd_answer(x, weir_linkd_payload(x));
}

static int park_call(struct weir_linkd_call *x, void *user) {
    (void)user;
    struct weir_linkd_ref r = weir_linkd_call_ref(x);
    assert_ptr_equal(weir__linkd_find(x->s, r.id, r.serial), x);
    say_call(x, "call");
    return 0;
}

static int fail_call(struct weir_linkd_call *x, void *user) {
    (void)user;
    say_call(x, "call");
    return WEIR_EFULL;
}

static int speak_call(struct weir_linkd_call *x, void *user) {
    (void)user;
    return weir_linkd_fail(x, WEIR_LINKD_INTERNAL, "no luck today");
}

static int lazy_body(struct weir_linkd_call *x, struct weir_chain *in, bool last) {
    (void)in;
    say_call(x, last ? "last" : "body");
    return 0;
}

static int stream_body(struct weir_linkd_call *x, struct weir_chain *in, bool last) {
    say_call(x, last ? "last" : "body");
    weir_chain_fini(in);
    return 0;
}

static void room(struct weir_linkd_call *x, uint64_t bytes) {
    kit_linkd_say(kit_of(x), "room %llu %llu", (unsigned long long)weir_linkd_id(x),
                  (unsigned long long)bytes);
}

static void done(struct weir_linkd_call *x, int why) {
    kit_linkd_say(kit_of(x), "done %llu %s", (unsigned long long)weir_linkd_id(x),
                  why ? weir_errname(why) : "0");
}

static const struct weir_linkd_service echo = {.name = "echo", .call = echo_call, .done = done};
static const struct weir_linkd_service park = {
    .name = "park", .state_size = 24, .call = park_call, .room = room, .done = done};
static const struct weir_linkd_service stream = {
    .name = "stream", .call = park_call, .body = stream_body, .room = room, .done = done};
static const struct weir_linkd_service lazy = {
    .name = "lazy", .call = park_call, .body = lazy_body, .room = room, .done = done};
static const struct weir_linkd_service fail = {.name = "fail", .call = fail_call, .done = done};
static const struct weir_linkd_service speak = {.name = "speak", .call = speak_call};
static const struct weir_linkd_route routes[] = {
    {KIT_ECHO, &echo, NULL}, {KIT_PARK, &park, NULL}, {KIT_STREAM, &stream, NULL},
    {KIT_LAZY, &lazy, NULL}, {KIT_FAIL, &fail, NULL}, {KIT_SPEAK, &speak, NULL},
};

void kit_linkd_reply(const struct weir_linkd_reply *r, void *user) {
    char text[SHOWN_MAX + 20];
    show(r->payload, text);
    kit_linkd_say(user, "%s %llu %s %s", r->last ? "reply" : "piece",
                  (unsigned long long)weir_linkd_id(r->call),
                  r->status ? weir_errname(r->status) : "0", text);
    if (r->code)
        kit_linkd_say(user, "code %u %.*s", r->code, (int)r->text.n, r->text.p);
    weir_chain_fini(r->payload);
}

/* ---- the session ---- */

static void kick(struct weir__linkd_session *s) {
    container_of(s, struct kit_linkd, s)->kicks++;
}

static uint64_t now_ns(struct weir__linkd_session *s) {
    return container_of(s, struct kit_linkd, s)->now_ns;
}

static const struct weir__linkd_host host = {.kick = kick, .now_ns = now_ns};

void kit_linkd_open_server(struct kit_linkd *t) {
    t->m = weir_mem_open("linkd");
    assert_non_null(t->m);
    t->so.size = sizeof t->so;
    if (!t->so.routes) {
        t->so.routes = routes;
        t->so.n_routes = ARRAY_LEN(routes);
    }
    weir__linkd_server_line(&t->line, &t->so, t->m, &host, &t->stats);
    weir__linkd_server_init(&t->s, &t->line, 0x5eed, (struct weir_ref){1});
}

void kit_linkd_open_client(struct kit_linkd *t) {
    t->m = weir_mem_open("linkd");
    assert_non_null(t->m);
    t->client = true;
    t->co.size = sizeof t->co;
    weir__linkd_client_line(&t->line, &t->co, t->m, &host, &t->stats);
    weir__linkd_client_init(&t->k, &t->line, &t->co, 0x5eed, (struct weir_ref){1});
}

void kit_linkd_close(struct kit_linkd *t) {
    weir__linkd_fini(&t->s, WEIR_ECANCELLED);
    weir__linkd_line_fini(&t->line);
    weir_chain_fini(&t->in);
    assert_int_equal(weir_mem_live(t->m), 0);
    weir_mem_close(t->m);
}

size_t kit_frame_bytes(const struct kit_frame *f, uint8_t *p) {
    const void *data = f->text ? f->text : f->data;
    size_t n = f->text ? strlen(f->text) : f->n;
    if (p) {
        struct weir__linkd_head h = {.type = (uint8_t)f->type,
                                     .flags = (uint16_t)f->flags,
                                     .service = (uint16_t)f->service,
                                     .id = f->id,
                                     .length = f->lie ? f->length : (uint32_t)n};
        weir__linkd_put_head(p, &h);
        if (data)
            memcpy(p + WEIR_LINKD_HEAD_BYTES, data, n);
        else
            memset(p + WEIR_LINKD_HEAD_BYTES, 'x', n);
    }
    return WEIR_LINKD_HEAD_BYTES + n;
}

void kit_linkd_queue(struct kit_linkd *t, struct kit_frame f) {
    struct weir_slice s;
    assert_int_equal(weir_slice_new(t->m, kit_frame_bytes(&f, NULL), &s), 0);
    kit_frame_bytes(&f, s.p);
    assert_int_equal(weir_chain_add(t->m, &t->in, &s), 0);
}

int kit_linkd_run(struct kit_linkd *t) {
    return weir__linkd_read(&t->s, &t->in, UINT64_MAX);
}

int kit_linkd_push(struct kit_linkd *t, struct kit_frame f) {
    kit_linkd_queue(t, f);
    return kit_linkd_run(t);
}

int kit_linkd_push_bytes(struct kit_linkd *t, const void *data, size_t n) {
    struct weir_slice s;
    assert_int_equal(weir_slice_copy(t->m, data, n, &s), 0);
    assert_int_equal(weir_chain_add(t->m, &t->in, &s), 0);
    return kit_linkd_run(t);
}

/* One frame of out as text: "out ERROR 7 1 'malformed'", "out RESPONSE 7+ 'abc'" (+: more, @:
 * deadline). */
static void tell_frame(struct kit_linkd *t) {
    uint8_t b[WEIR_LINKD_HEAD_BYTES];
    struct weir__linkd_head h;
    struct weir_chain payload = {0};
    char text[SHOWN_MAX + 20], number[16] = "";
    uint64_t v;
    assert_int_equal(weir_chain_read(&t->s.out, 0, b, sizeof b), 0);
    assert_int_equal(weir__linkd_judge(b, &h), WEIR__LINKD_GOOD);
    weir_chain_drop(&t->s.out, sizeof b);
    assert_true(t->s.out.bytes >= h.length);
    assert_int_equal(weir_chain_move(t->m, &payload, &t->s.out, h.length), 0);
    unsigned width = h.type == WEIR_LINKD_ERROR                                     ? 2
                     : h.type == WEIR_LINKD_CREDIT || h.flags & WEIR_LINKD_DEADLINE ? 4
                                                                                    : 0;
    if (width) {
        assert_int_equal(weir_chain_get_be(&payload, 0, width, &v), 0);
        weir_chain_drop(&payload, width);
        snprintf(number, sizeof number, " %llu", (unsigned long long)v);
    }
    show(&payload, text);
    kit_linkd_say(t, "out %s %llu%s%s%s %s", type_names[h.type], (unsigned long long)h.id,
                  h.flags & WEIR_LINKD_DEADLINE ? "@" : "", h.flags & WEIR_LINKD_MORE ? "+" : "",
                  number, text);
    weir_chain_fini(&payload);
}

const char *kit_linkd_told(struct kit_linkd *t) {
    static char text[sizeof t->log];
    while (t->s.out.bytes)
        tell_frame(t);
    memcpy(text, t->log, sizeof text);
    t->log[0] = 0;
    return text;
}

struct weir_linkd_call *kit_linkd_call(struct kit_linkd *t, uint64_t id) {
    struct weir_linkd_call *x = weir__linkd_table_find(&t->s.table, id);
    return x && !(x->flags & WEIR__LINKD_OVER) ? x : NULL;
}

struct weir_chain kit_chain(struct weir_mem *m, const char *text, size_t n) {
    struct weir_chain c = {0};
    struct weir_slice s;
    n = text ? strlen(text) : n;
    if (!n)
        return c;
    assert_int_equal(weir_slice_new(m, n, &s), 0);
    if (text)
        memcpy(s.p, text, n);
    else
        memset(s.p, 'x', n);
    assert_int_equal(weir_chain_add(m, &c, &s), 0);
    return c;
}
