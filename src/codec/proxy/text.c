/* Version 1: one line of words. Every word is taken whole or not at all. */
#include "codec/proxy/proxy.h"
#include <string.h>

enum { PORT_MAX = 65535, GROUPS = 8 };

/* --- numbers and addresses ---------------------------------------------------------------- */

/* Decimal, no zero in front, at most `max`. */
static bool number(struct weir_str s, uint32_t max, uint32_t *out) {
    uint32_t v = 0;
    if (!s.n || s.n > 5 || (s.p[0] == '0' && s.n > 1))
        return false;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
        v = v * 10 + (uint32_t)(s.p[i] - '0');
    }
    *out = v;
    return v <= max;
}

/* Cuts s at the first `sep`: what was before it. Without one it is all of s, and s is {NULL}. */
static struct weir_str cut(struct weir_str *s, char sep) {
    const char *at = s->n ? memchr(s->p, sep, s->n) : NULL;
    struct weir_str word = *s;
    if (!at) {
        *s = (struct weir_str){0};
        return word;
    }
    word.n = (size_t)(at - s->p);
    *s = (struct weir_str){at + 1, s->n - word.n - 1};
    return word;
}

bool weir__proxy_ip4(struct weir_str s, uint8_t out[4]) {
    for (int i = 0; i < 4; i++) {
        uint32_t v;
        if (!s.p || !number(cut(&s, '.'), 255, &v))
            return false;
        out[i] = (uint8_t)v;
    }
    return !s.p;
}

static int hex(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool group(struct weir_str s, uint8_t out[2]) {
    unsigned v = 0;
    if (!s.n || s.n > 4)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        int h = hex(s.p[i]);
        if (h < 0)
            return false;
        v = v << 4 | (unsigned)h;
    }
    out[0] = (uint8_t)(v >> 8);
    out[1] = (uint8_t)v;
    return true;
}

/* Groups between single colons, the last of which may be a dotted IPv4 address. How many of 16
 * bits, or -1. Empty is none. */
static int groups(struct weir_str s, uint8_t out[16]) {
    int n = 0;
    if (!s.n)
        return 0;
    while (s.p) {
        struct weir_str word = cut(&s, ':');
        if (!s.p && n <= GROUPS - 2 && weir__proxy_ip4(word, out + 2 * n))
            return n + 2;
        if (n == GROUPS || !group(word, out + 2 * n))
            return -1;
        n++;
    }
    return n;
}

/* The place of "::", or NULL. */
static const char *gap_in(struct weir_str s) {
    for (size_t i = 0; i + 1 < s.n; i++)
        if (s.p[i] == ':' && s.p[i + 1] == ':')
            return s.p + i;
    return NULL;
}

bool weir__proxy_ip6(struct weir_str s, uint8_t out[16]) {
    uint8_t front[16], back[16];
    const char *gap = gap_in(s);
    if (!gap)
        return groups(s, out) == GROUPS;
    struct weir_str before = {s.p, (size_t)(gap - s.p)};
    struct weir_str after = {gap + 2, s.n - before.n - 2};
    int n = groups(before, front), m = groups(after, back);
    if (n < 0 || m < 0 || n + m >= GROUPS || (before.n && memchr(before.p, '.', before.n)))
        return false;
    memset(out, 0, 16);
    memcpy(out, front, 2 * (size_t)n);
    memcpy(out + 16 - 2 * m, back, 2 * (size_t)m);
    return true;
}

/* --- the line ----------------------------------------------------------------------------- */

/* Where the line ends: bytes with CRLF; 0: not there yet; EPROTO: a CR or LF without the other, or
 * too long. */
static int line_bytes(const uint8_t *p, size_t n) {
    size_t max = n < WEIR_PROXY_V1_MAX ? n : WEIR_PROXY_V1_MAX;
    for (size_t i = 0; i < max; i++) {
        if (p[i] == '\n')
            return WEIR_EPROTO;
        if (p[i] != '\r')
            continue;
        if (i + 1 < max)
            return p[i + 1] == '\n' ? (int)i + 2 : WEIR_EPROTO;
    }
    return n < WEIR_PROXY_V1_MAX ? 0 : WEIR_EPROTO;
}

static bool is(struct weir_str s, const char *word) {
    return s.n == strlen(word) && !memcmp(s.p, word, s.n);
}

static bool port(struct weir_str s, uint16_t *out) {
    uint32_t v;
    if (!number(s, PORT_MAX, &v))
        return false;
    *out = (uint16_t)v;
    return true;
}

static bool ends(struct weir_str rest, struct weir_proxy_header *out) {
    bool (*ip)(struct weir_str, uint8_t *) = out->family == WEIR_PROXY_IP4 ? weir__proxy_ip4
                                                                           : weir__proxy_ip6;
    struct weir_str from = cut(&rest, ' '), to = cut(&rest, ' '), sport = cut(&rest, ' ');
    return rest.p && ip(from, out->from.bytes) && ip(to, out->to.bytes) &&
           port(sport, &out->from.port) && port(rest, &out->to.port);
}

int weir__proxy_line(const uint8_t *p, size_t n, struct weir_proxy_header *out, size_t *need) {
    int bytes = line_bytes(p, n);
    if (bytes <= 0) {
        *need = n + 1;
        return bytes;
    }
    struct weir_str rest = {(const char *)p + 6, (size_t)bytes - 8};
    struct weir_str family = cut(&rest, ' ');
    *out = (struct weir_proxy_header){.version = 1, .command = WEIR_PROXY_PROXY};
    if (is(family, "UNKNOWN"))
        return bytes; /* whatever follows is to be ignored */
    out->transport = WEIR_PROXY_STREAM;
    out->family = is(family, "TCP4")   ? WEIR_PROXY_IP4
                  : is(family, "TCP6") ? WEIR_PROXY_IP6
                                       : WEIR_PROXY_UNSPEC;
    return out->family && ends(rest, out) ? bytes : WEIR_EPROTO;
}

/* --- writing ------------------------------------------------------------------------------ */

static uint8_t *word(uint8_t *p, const char *text) {
    while (*text)
        *p++ = (uint8_t)*text++;
    return p;
}

static uint8_t *digits(uint8_t *p, unsigned v, unsigned base) {
    char text[6];
    int n = 0;
    do {
        text[n++] = "0123456789abcdef"[v % base];
        v /= base;
    } while (v);
    while (n)
        *p++ = (uint8_t)text[--n];
    return p;
}

/* IPv6 with all its groups: every receiver reads that. */
static uint8_t *address(uint8_t *p, const struct weir_proxy_header *h,
                        const struct weir_proxy_end *end) {
    if (h->family == WEIR_PROXY_IP4) {
        for (int i = 0; i < 4; i++) {
            p = digits(p, end->bytes[i], 10);
            *p++ = i < 3 ? '.' : ' ';
        }
        return p;
    }
    for (int i = 0; i < GROUPS; i++) {
        p = digits(p, (unsigned)end->bytes[2 * i] << 8 | end->bytes[2 * i + 1], 16);
        *p++ = i < GROUPS - 1 ? ':' : ' ';
    }
    return p;
}

size_t weir__proxy_write_line(const struct weir_proxy_header *h, uint8_t *text) {
    bool ip = h->family == WEIR_PROXY_IP4 || h->family == WEIR_PROXY_IP6;
    if (!ip || h->command == WEIR_PROXY_LOCAL || h->transport != WEIR_PROXY_STREAM)
        return (size_t)(word(text, "PROXY UNKNOWN\r\n") - text);
    uint8_t *p = word(text, h->family == WEIR_PROXY_IP4 ? "PROXY TCP4 " : "PROXY TCP6 ");
    p = address(p, h, &h->from);
    p = address(p, h, &h->to);
    p = digits(p, h->from.port, 10);
    *p++ = ' ';
    p = digits(p, h->to.port, 10);
    return (size_t)(word(p, "\r\n") - text);
}
