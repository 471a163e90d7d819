#include "wire/peer.h"
#include "wire/services.h"
#include <stdio.h>
#include <string.h>

void peer_put16(uint8_t *p, unsigned v) {
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

void peer_put32(uint8_t *p, uint32_t v) {
    peer_put16(p, v >> 16);
    peer_put16(p + 2, v & 0xffff);
}

static uint64_t get(const uint8_t *p, unsigned n) {
    uint64_t v = 0;
    for (unsigned i = 0; i < n; i++)
        v = v << 8 | p[i];
    return v;
}

uint8_t peer_pattern(uint64_t id, size_t i) {
    return (uint8_t)(id * 29 + i * 7 + (i >> 8));
}

uint64_t peer_digest(const uint8_t *p, size_t n) {
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 1099511628211u;
    return h;
}

void script_add_bytes(struct script *s, const void *data, size_t n) {
    wire_demand(n <= sizeof s->bytes - s->n);
    memcpy(s->bytes + s->n, data, n);
    s->n += n;
}

void script_add(struct script *s, struct frame f) {
    uint8_t head[WEIR_LINKD_HEAD_BYTES];
    size_t n = f.text ? strlen(f.text) : f.n;
    peer_put16(head, WEIR_LINKD_MAGIC);
    head[2] = WEIR_LINKD_VERSION;
    head[3] = (uint8_t)f.type;
    peer_put16(head + 4, f.flags);
    peer_put16(head + 6, f.service);
    peer_put32(head + 8, (uint32_t)(f.id >> 32));
    peer_put32(head + 12, (uint32_t)f.id);
    peer_put32(head + 16, f.lie ? f.lie : (uint32_t)n);
    script_add_bytes(s, head, sizeof head);
    if (f.text) {
        script_add_bytes(s, f.text, n);
        return;
    }
    wire_demand(n <= sizeof s->bytes - s->n);
    for (size_t i = 0; i < n; i++)
        s->bytes[s->n++] = peer_pattern(f.id, i);
}

/* ---- the ear ---- */

/* n bytes at `used`, or the end of the connection. */
static bool need(struct ear *e, size_t n) {
    while (e->n - e->used < n) {
        long r = wire_recv(e->fd, e->bytes + e->n, sizeof e->bytes - e->n);
        if (r <= 0) {
            e->end = r ? "reset" : "end";
            if (!r && e->n > e->used)
                wire_fail("a frame was cut");
            return false;
        }
        e->n += (size_t)r;
    }
    return true;
}

bool ear_hear(struct ear *e) {
    memmove(e->bytes, e->bytes + e->used, e->n - e->used);
    e->n -= e->used;
    e->used = 0;
    if (e->end || !need(e, WEIR_LINKD_HEAD_BYTES))
        return false;
    const uint8_t *h = e->bytes;
    e->type = h[3];
    e->flags = (unsigned)get(h + 4, 2);
    e->id = get(h + 8, 8);
    e->length = (uint32_t)get(h + 16, 4);
    wire_demand(get(h, 2) == WEIR_LINKD_MAGIC && h[2] == WEIR_LINKD_VERSION);
    wire_demand(e->length <= PEER_PAYLOAD_MAX);
    if (!need(e, WEIR_LINKD_HEAD_BYTES + e->length))
        return false;
    e->payload = e->bytes + WEIR_LINKD_HEAD_BYTES;
    e->used = WEIR_LINKD_HEAD_BYTES + e->length;
    return true;
}

/* An ERROR is its code, and the code's own phrase. */
static int tell_error(const struct ear *e, char *out, size_t cap) {
    wire_demand(e->length > 2);
    unsigned code = (unsigned)get(e->payload, 2);
    const char *phrase = weir_linkd_code_text(code);
    wire_demand(e->length - 2 == strlen(phrase) && !memcmp(e->payload + 2, phrase, e->length - 2));
    return snprintf(out, cap, "E%u#%llu ", code, (unsigned long long)e->id);
}

static int tell(const struct ear *e, char *out, size_t cap) {
    char what[80];
    unsigned long long id = e->id;
    if (e->length <= 24)
        snprintf(what, sizeof what, "'%.*s'", (int)e->length, (const char *)e->payload);
    else
        snprintf(what, sizeof what, "[%u]", e->length);
    switch (e->type) {
    case WEIR_LINKD_RESPONSE:
        return snprintf(out, cap, "%c%llu%s ", e->flags & WEIR_LINKD_MORE ? 'r' : 'R', id, what);
    case WEIR_LINKD_ERROR: return tell_error(e, out, cap);
    case WEIR_LINKD_PONG: return snprintf(out, cap, "P%s ", what);
    case WEIR_LINKD_GOAWAY: return snprintf(out, cap, "G ");
    case WEIR_LINKD_CREDIT:
        return snprintf(out, cap, "C%llu+%llu ", id, (unsigned long long)get(e->payload, 4));
    default: return snprintf(out, cap, "?%u#%llu ", e->type, id);
    }
}

void ear_expect(struct ear *e, const char *want) {
    char told[1024] = "";
    size_t n = 0;
    while (n < strlen(want) && n < sizeof told - 128) {
        if (ear_hear(e)) {
            n += (size_t)tell(e, told + n, sizeof told - n);
            continue;
        }
        snprintf(told + n, sizeof told - n, "%s", e->end);
        break;
    }
    if (strcmp(told, want) != 0)
        wire_fail("told \"%s\", not \"%s\"", told, want);
}

/* ---- the witness ---- */

void peer_testify(int fd) {
    static struct script s;
    static struct ear e;
    static uint64_t id;
    s.n = 0;
    e = (struct ear){.fd = fd};
    uint64_t echo = ++id, digest = ++id;
    size_t bytes = 1 + id % 700;
    script_add(&s,
               (struct frame){
                   .type = WEIR_LINKD_REQUEST, .service = SERVICE_ECHO, .id = echo, .n = bytes});
    wire_send(fd, s.bytes, s.n);
    wire_demand(ear_hear(&e) && e.type == WEIR_LINKD_RESPONSE && e.id == echo && !e.flags);
    wire_demand(e.length == bytes && !memcmp(e.payload, s.bytes + WEIR_LINKD_HEAD_BYTES, bytes));
    s.n = 0;
    script_add(
        &s, (struct frame){
                .type = WEIR_LINKD_REQUEST, .service = SERVICE_DIGEST, .id = digest, .n = bytes});
    wire_send(fd, s.bytes, s.n);
    wire_demand(ear_hear(&e) && e.type == WEIR_LINKD_RESPONSE && e.id == digest && !e.flags);
    wire_demand(e.length == 8 &&
                get(e.payload, 8) == peer_digest(s.bytes + WEIR_LINKD_HEAD_BYTES, bytes));
    wire_demand(e.n == e.used);
}
