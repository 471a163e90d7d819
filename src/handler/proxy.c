/* The PROXY header in front of a connection, and who may send one.
 *
 *     open: a peer that is not trusted --------------------------> refused (ECANCELLED)
 *       |
 *       v         not all there
 *     HEADER <----------------+
 *       |  |                  |
 *       |  +------------------+
 *       |  | late (ETIMEDOUT), ended inside, no header, broken, too big -> refused
 *       |
 *       | whole; or optional, and it cannot be one, or the peer stayed silent
 *       v
 *     the origin is noted, the handlers behind are opened, the rest of the bytes is theirs, and
 *     this context takes itself out */
#include "weir/proxy.h"
#include "base/assert.h"
#include "chan/local.h"
#include "codec/proxy/proxy.h"
#include "loop/local.h"
#include <string.h>

enum { HEADER_MS = 5000 };

struct conn {
    struct weir_ctx *ctx;
    const struct weir_proxy_options *o;
    struct weir_proxy_stats *stats; /* the loop's */
    struct weir_timer timer;
    uint32_t header_max;
    bool heard; /* bytes wait that may be a header */
};

struct origin {
    struct weir__chan_origin o; /* first */
    struct weir_proxy_header header;
    char tlvs[];
};

/* --- who is trusted ----------------------------------------------------------------------- */

static bool mapped(const uint8_t ip6[16]) {
    static const uint8_t front[12] = {[10] = 0xff, [11] = 0xff};
    return !memcmp(ip6, front, sizeof front);
}

static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned bits) {
    unsigned whole = bits / 8, rest = bits % 8;
    return !memcmp(a, b, whole) && (!rest || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0);
}

static bool within(const struct weir_addr *a, const struct weir_proxy_net *net) {
    switch (a->kind) {
    case WEIR__ADDR_IP4:
        return net->family == WEIR_PROXY_IP4 && same_bits(a->ip4, net->ip, net->bits);
    case WEIR__ADDR_IP6:
        if (net->family == WEIR_PROXY_IP4)
            return mapped(a->ip6) && same_bits(a->ip6 + 12, net->ip, net->bits);
        return net->family == WEIR_PROXY_IP6 && same_bits(a->ip6, net->ip, net->bits);
    case WEIR__ADDR_UNIX: return net->family == WEIR_PROXY_UNIX;
    default: return false;
    }
}

static bool trusted(struct weir_chan *ch, const struct weir_proxy_options *o) {
    struct weir_addr a;
    if (!o->n_trusted)
        return true;
    if (weir__chan_socket_peer(ch, &a) < 0)
        return false;
    for (unsigned i = 0; i < o->n_trusted; i++)
        if (within(&a, &o->trusted[i]))
            return true;
    return false;
}

static int bad_net(const char **why, const char *text) {
    if (why)
        *why = text;
    return WEIR_EINVAL;
}

static bool clear_below(const uint8_t *ip, unsigned bits, unsigned all) {
    for (unsigned i = bits; i < all; i++)
        if (ip[i / 8] & 0x80 >> i % 8)
            return false;
    return true;
}

/* "/n" behind the address; none: all of it. */
static bool prefix(const char *slash, unsigned all, uint8_t *bits) {
    unsigned v = 0;
    *bits = (uint8_t)all;
    if (!slash)
        return true;
    const char *p = slash + 1;
    for (; *p >= '0' && *p <= '9' && v <= all; p++)
        v = v * 10 + (unsigned)(*p - '0');
    *bits = (uint8_t)v;
    return p > slash + 1 && !*p && v <= all;
}

int weir_proxy_net_parse(const char *text, struct weir_proxy_net *out, const char **why) {
    const char *slash = strchr(text, '/');
    struct weir_str host = {text, slash ? (size_t)(slash - text) : strlen(text)};
    unsigned all = 32;
    *out = (struct weir_proxy_net){0};
    if (!strcmp(text, "unix")) {
        out->family = WEIR_PROXY_UNIX;
        return 0;
    }
    if (weir__proxy_ip4(host, out->ip)) {
        out->family = WEIR_PROXY_IP4;
    } else if (weir__proxy_ip6(host, out->ip)) {
        out->family = WEIR_PROXY_IP6;
        all = 128;
    } else {
        return bad_net(why, "not an address: write 10.0.0.0/8, ::1, fd00::/8 or unix");
    }
    if (!prefix(slash, all, &out->bits))
        return bad_net(why, "the number behind / must be 0 to 32 for IPv4, 0 to 128 for IPv6");
    if (!clear_below(out->ip, out->bits, all))
        return bad_net(why, "the address has bits set below its /n");
    return 0;
}

/* --- the origin --------------------------------------------------------------------------- */

/* A unix path comes from outside and goes into logs: what is not printable becomes '?'. */
static void unix_end(const uint8_t bytes[108], struct weir_addr *out) {
    size_t n = 0, from = bytes[0] ? 0 : 1; /* an abstract name has a zero in front */
    out->kind = WEIR__ADDR_UNIX;
    for (size_t i = from; i < WEIR__ADDR_PATH_MAX && bytes[i]; i++)
        n = i + 1;
    for (size_t i = from; i < n; i++)
        out->path[i] = bytes[i] > 0x20 && bytes[i] < 0x7f ? (char)bytes[i] : '?';
    out->path_len = (uint8_t)n;
}

static void end_of(const struct weir_proxy_header *h, const struct weir_proxy_end *end,
                   struct weir_addr *out) {
    *out = (struct weir_addr){0};
    if (h->family == WEIR_PROXY_UNIX) {
        unix_end(end->bytes, out);
    } else if (h->family != WEIR_PROXY_UNSPEC) {
        out->kind = h->family == WEIR_PROXY_IP4 ? WEIR__ADDR_IP4 : WEIR__ADDR_IP6;
        memcpy(out->ip6, end->bytes, h->family == WEIR_PROXY_IP4 ? 4 : 16);
        out->port = end->port;
    }
}

/* The header's TLVs lie in the input and go with it: the channel keeps a copy. */
static int note_origin(struct weir_ctx *c, const struct weir_proxy_header *h) {
    struct origin *n = weir_mem_new(weir_ctx_mem(c), sizeof *n + h->tlvs.n);
    if (!n)
        return WEIR_ENOMEM;
    n->header = *h;
    if (h->tlvs.n)
        memcpy(n->tlvs, h->tlvs.p, h->tlvs.n);
    n->header.tlvs.p = n->tlvs;
    end_of(h, &h->from, &n->o.peer);
    end_of(h, &h->to, &n->o.local);
    weir__chan_set_origin(weir_ctx_chan(c), &n->o);
    return 0;
}

const struct weir_proxy_header *weir_proxy_header_of(const struct weir_chan *ch) {
    struct weir__chan_origin *o = weir__chan_origin(ch);
    return o ? &container_of(o, struct origin, o)->header : NULL;
}

/* --- counting ----------------------------------------------------------------------------- */

static struct weir_proxy_stats *stats_of(struct weir_loop *l) {
    static const char key;
    return weir__loop_local(l, &key, sizeof(struct weir_proxy_stats));
}

int weir_proxy_stats(struct weir_loop *l, struct weir_proxy_stats *out) {
    const struct weir_proxy_stats *s = stats_of(l);
    *out = s ? *s : (struct weir_proxy_stats){0};
    return s ? 0 : WEIR_ENOMEM;
}

static void count_refusal(struct weir_proxy_stats *s, int why) {
    switch (why) {
    case WEIR_ECANCELLED: s->refused_trust++; break;
    case WEIR_ETOOBIG: s->refused_size++; break;
    case WEIR_ETIMEDOUT: s->refused_time++; break;
    case WEIR_ENOMEM: s->refused_memory++; break;
    default: s->refused_header++; break;
    }
}

/* --- the connection ----------------------------------------------------------------------- */

/* A reset, at once: whoever breaks the rule that protects the addresses is not waited for. */
static void refuse(struct weir_ctx *c, int why) {
    struct conn *n = weir_ctx_state(c);
    weir_timer_disarm(&n->timer);
    count_refusal(n->stats, why);
    if (n->o->refused)
        n->o->refused(weir_ctx_chan(c), why, n->o->user);
    weir__chan_close(weir_ctx_chan(c), why, true);
}

/* The bytes behind the header are handed on here and not left to the drain: a channel that came
 * late has only this batch. */
static void begin(struct weir_ctx *c, struct weir_chain *in) {
    struct conn *n = weir_ctx_state(c);
    weir_timer_disarm(&n->timer);
    weir__chan_open_rest(weir_ctx_chan(c));
    if (in && in->bytes)
        (void)weir_ctx_forward(c, in); /* EGONE: one of them ended the channel */
    weir_ctx_remove(c);
}

/* The longest contiguous piece the decoder can use, then a longer one where it asks. */
static int decode(struct conn *n, struct weir_chain *in, struct weir_proxy_header *h,
                  size_t *need) {
    struct weir_mem *m = weir_ctx_mem(n->ctx);
    size_t take = WEIR__PROXY_HEAD_BYTES;
    for (;;) {
        take = take < in->bytes ? take : (size_t)in->bytes;
        const uint8_t *p = weir_chain_peek(m, in, take);
        if (!p)
            return WEIR_ENOMEM;
        int rc = weir_proxy_decode(p, take, n->header_max, h, need);
        if (rc || *need > in->bytes)
            return rc;
        bool line = weir__proxy_look(p, take) == WEIR__PROXY_LINE;
        take = line ? WEIR_PROXY_V1_MAX : *need;
    }
}

static bool is_something_else(struct conn *n, struct weir_chain *in) {
    uint8_t p[WEIR__PROXY_HEAD_BYTES];
    size_t bytes = in->bytes < sizeof p ? (size_t)in->bytes : sizeof p;
    return n->o->optional && weir_chain_read(in, 0, p, bytes) == 0 &&
           weir__proxy_look(p, bytes) == WEIR__PROXY_STRANGE;
}

static int proxy_read(struct weir_ctx *c, struct weir_chain *in) {
    struct conn *n = weir_ctx_state(c);
    struct weir_proxy_header h;
    size_t need;
    if (is_something_else(n, in)) {
        n->stats->without++;
        begin(c, in);
        return 0;
    }
    int rc = decode(n, in, &h, &need);
    if (rc == 0) {
        n->heard = true;
        weir_ctx_want(c, need);
        return 0;
    }
    int bytes = rc;
    if (rc > 0)
        rc = note_origin(c, &h);
    if (rc < 0) {
        refuse(c, rc);
        return 0;
    }
    n->stats->headers++;
    weir_chain_drop(in, (uint64_t)bytes);
    begin(c, in);
    return 0;
}

static void proxy_late(struct weir_timer *t) {
    struct conn *n = container_of(t, struct conn, timer);
    if (n->o->optional && !n->heard) {
        n->stats->without++;
        begin(n->ctx, NULL);
    } else {
        refuse(n->ctx, WEIR_ETIMEDOUT);
    }
}

/* A part of a header is none; somebody who said nothing at all (a port scan, a TCP health check)
 * ends in order, also where the application would be half open. */
static void proxy_eof(struct weir_ctx *c, bool clean) {
    if (!clean) {
        refuse(c, WEIR_EPROTO);
        return;
    }
    ((struct conn *)weir_ctx_state(c))->stats->silent++;
    weir_chan_close(weir_ctx_chan(c), WEIR_DRAIN);
}

static void proxy_event(struct weir_ctx *c, int what, const void *data) {
    (void)data;
    if (what == WEIR_EVENT_DRAIN) /* the drain has a deadline of its own */
        weir_timer_disarm(&((struct conn *)weir_ctx_state(c))->timer);
}

static void proxy_close(struct weir_ctx *c, int why) {
    (void)why;
    weir_timer_disarm(&((struct conn *)weir_ctx_state(c))->timer);
}

static bool options_valid(const struct weir_proxy_options *o) {
    return o->size == sizeof *o && o->header_max <= WEIR_PROXY_HEADER_MAX &&
           (!o->n_trusted || o->trusted) && (!o->optional || o->n_trusted);
}

static int proxy_open(struct weir_ctx *c, const void *config) {
    static const struct weir_proxy_options none = {.size = sizeof none};
    struct conn *n = weir_ctx_state(c);
    struct weir_loop *l = weir_ctx_loop(c);
    n->ctx = c;
    n->o = config ? config : &none;
    if (!options_valid(n->o) || weir__chan_origin(weir_ctx_chan(c)))
        return WEIR_EINVAL; /* or: one in front of it has read a header already */
    n->stats = stats_of(l);
    if (!n->stats)
        return WEIR_ENOMEM;
    n->header_max = n->o->header_max ? n->o->header_max : WEIR_PROXY_HEADER_BYTES;
    weir__chan_hold_openings(weir_ctx_chan(c));
    if (!trusted(weir_ctx_chan(c), n->o)) {
        refuse(c, WEIR_ECANCELLED);
        return 0;
    }
    uint64_t ms = n->o->header_ms ? n->o->header_ms : HEADER_MS;
    weir_timer_arm(l, &n->timer, weir_loop_now(l) + ms * 1000000, proxy_late);
    return 0;
}

const struct weir_handler weir_proxy_handler = {
    .name = "proxy",
    .state_size = sizeof(struct conn),
    .open = proxy_open,
    .read = proxy_read,
    .eof = proxy_eof,
    .event = proxy_event,
    .close = proxy_close,
};
