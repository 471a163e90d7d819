#include "base/addr.h"
#include "weir/error.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static int fail(struct weir_addr *out, const char **why, const char *text) {
    memset(out, 0, sizeof *out);
    if (why)
        *why = text;
    return WEIR_EINVAL;
}

/* Decimal digits only, at most `max`. */
static bool number(const char *s, uint64_t max, uint64_t *out) {
    uint64_t v = 0;
    if (!*s)
        return false;
    for (; *s; s++) {
        if (*s < '0' || *s > '9')
            return false;
        v = v * 10 + (uint64_t)(*s - '0');
        if (v > max)
            return false;
    }
    *out = v;
    return true;
}

static int parse_unix(const char *path, struct weir_addr *out, const char **why) {
    size_t n = strlen(path);
    if (n == 0 || (path[0] == '@' && n == 1))
        return fail(out, why, "unix: needs a path, as in unix:/run/weir.sock or unix:@name");
    if (n > WEIR__ADDR_PATH_MAX)
        return fail(out, why, "unix: path is longer than 107 bytes");
    memset(out, 0, sizeof *out);
    out->kind = WEIR__ADDR_UNIX;
    out->path_len = (uint8_t)n;
    memcpy(out->path, path, n);
    if (path[0] == '@')
        out->path[0] = 0;
    return 0;
}

static int parse_ip6(const char *host, struct weir_addr *out, const char **why) {
    char digits[INET6_ADDRSTRLEN];
    const char *zone = strchr(host, '%');
    size_t n = zone ? (size_t)(zone - host) : strlen(host);
    uint64_t scope = 0;
    if (zone && !number(zone + 1, UINT32_MAX, &scope))
        return fail(out, why, "IPv6 zone must be an interface number, as in [fe80::1%2]:80");
    if (n >= sizeof digits)
        return fail(out, why, "not an IPv6 address between [ and ]");
    memcpy(digits, host, n);
    digits[n] = 0;
    if (inet_pton(AF_INET6, digits, out->ip6) != 1)
        return fail(out, why, "not an IPv6 address between [ and ]");
    out->kind = WEIR__ADDR_IP6;
    out->scope = (uint32_t)scope;
    return 0;
}

static int parse_ip4(const char *host, struct weir_addr *out, const char **why) {
    if (strcmp(host, "localhost") == 0)
        host = "127.0.0.1";
    else if (!*host || strcmp(host, "*") == 0)
        host = "0.0.0.0";
    if (strchr(host, ':'))
        return fail(out, why, "an IPv6 address needs brackets, as in [::1]:80");
    if (inet_pton(AF_INET, host, out->ip4) != 1)
        return fail(out, why, "not a numeric address (names are not resolved here)");
    out->kind = WEIR__ADDR_IP4;
    return 0;
}

int weir__base_addr_parse(const char *text, struct weir_addr *out, const char **why) {
    if (strncmp(text, "unix:", 5) == 0)
        return parse_unix(text + 5, out, why);
    memset(out, 0, sizeof *out);
    char host[80];
    const char *colon = strrchr(text, ':');
    uint64_t port;
    if (!colon)
        return fail(out, why, "no port: write host:port, [ipv6]:port, :port or unix:/path");
    if ((size_t)(colon - text) >= sizeof host)
        return fail(out, why, "the host part is too long");
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = 0;
    size_t n = strlen(host);
    bool ip6 = n >= 2 && host[0] == '[' && host[n - 1] == ']';
    if (ip6)
        host[n - 1] = 0;
    else if (host[0] == '[')
        return fail(out, why, "no port after ], as in [::1]:80");
    int rc = ip6 ? parse_ip6(host + 1, out, why) : parse_ip4(host, out, why);
    if (rc < 0)
        return rc;
    if (!number(colon + 1, UINT16_MAX, &port))
        return fail(out, why, "the port must be a number from 0 to 65535");
    out->port = (uint16_t)port;
    return 0;
}

size_t weir__base_addr_format(const struct weir_addr *a, char *buf, size_t cap) {
    char host[INET6_ADDRSTRLEN], text[WEIR__ADDR_TEXT_MAX];
    switch ((enum weir__base_addr_kind)a->kind) {
    case WEIR__ADDR_IP4:
        inet_ntop(AF_INET, a->ip4, host, sizeof host);
        snprintf(text, sizeof text, "%s:%u", host, a->port);
        break;
    case WEIR__ADDR_IP6:
        inet_ntop(AF_INET6, a->ip6, host, sizeof host);
        if (a->scope)
            snprintf(text, sizeof text, "[%s%%%u]:%u", host, a->scope, a->port);
        else
            snprintf(text, sizeof text, "[%s]:%u", host, a->port);
        break;
    case WEIR__ADDR_UNIX:
        if (a->path_len && !a->path[0])
            snprintf(text, sizeof text, "unix:@%.*s", a->path_len - 1, a->path + 1);
        else
            snprintf(text, sizeof text, "unix:%.*s", a->path_len, a->path);
        break;
    default: snprintf(text, sizeof text, "none");
    }
    size_t n = strlen(text);
    if (cap == 0)
        return 0;
    n = n < cap ? n : cap - 1;
    memcpy(buf, text, n);
    buf[n] = 0;
    return n;
}

bool weir__base_addr_equal(const struct weir_addr *a, const struct weir_addr *b) {
    if (a->kind != b->kind)
        return false;
    switch ((enum weir__base_addr_kind)a->kind) {
    case WEIR__ADDR_IP4: return a->port == b->port && memcmp(a->ip4, b->ip4, 4) == 0;
    case WEIR__ADDR_IP6:
        return a->port == b->port && a->scope == b->scope && memcmp(a->ip6, b->ip6, 16) == 0;
    case WEIR__ADDR_UNIX:
        return a->path_len == b->path_len && memcmp(a->path, b->path, a->path_len) == 0;
    default: return true;
    }
}
