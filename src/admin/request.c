/* Temporary: replaced by the engine's own HTTP server once that is there. Until then this reads
 * what curl, a browser and Prometheus send, and refuses the rest. */
#include "admin/request.h"
#include <string.h>

enum { BAD = -400, NOT_GET = -405, TOO_LARGE = -431 };

static bool is_space(char c) {
    return c == ' ' || c == '\t';
}

/* RFC 9110, section 5.6.2: what methods and field names are made of. */
static bool is_token(char c) {
    bool word = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    return word || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool same_name(struct weir_str s, const char *name) {
    return s.n == strlen(name) && strncasecmp(s.p, name, s.n) == 0;
}

/* The bytes of a line up to CR LF. 1 whole, 0 not there yet, BAD: a control character within. */
static int line_of(const char *p, size_t n, struct weir_str *out) {
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        if (c == '\r') {
            if (i + 1 == n)
                return 0;
            *out = (struct weir_str){p, i};
            return p[i + 1] == '\n' ? 1 : BAD;
        }
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return BAD;
    }
    return 0;
}

/* A method that begins as no GET does is told so before the rest has come. */
static int method_of(const char *p, size_t n, size_t *length) {
    size_t i = 0;
    while (i < n && is_token(p[i]))
        i++;
    *length = i;
    if (i == n)
        return i > 32 ? BAD : 0;
    if (i == 0 || p[i] != ' ')
        return BAD;
    return i == 3 && !memcmp(p, "GET", 3) ? 1 : NOT_GET;
}

static int target_of(struct weir_str s, struct weir__admin_request *out) {
    if (!s.n || s.p[0] != '/')
        return BAD;
    const char *mark = memchr(s.p, '?', s.n);
    size_t path = mark ? (size_t)(mark - s.p) : s.n;
    out->path = (struct weir_str){s.p, path};
    out->query = (struct weir_str){s.p + path + (mark != NULL), s.n - path - (mark != NULL)};
    return 1;
}

static int request_line(struct weir_str line, size_t method, bool *wants_host,
                        struct weir__admin_request *out) {
    const char *target = line.p + method + 1, *end = line.p + line.n;
    const char *gap = memchr(target, ' ', (size_t)(end - target));
    struct weir_str version = {gap ? gap + 1 : end, gap ? (size_t)(end - gap - 1) : 0};
    if (version.n != 8 || memcmp(version.p, "HTTP/1.", 7) != 0 || version.p[7] < '0' ||
        version.p[7] > '9')
        return BAD;
    *wants_host = version.p[7] != '0';
    return target_of((struct weir_str){target, (size_t)(gap - target)}, out);
}

/* A body would be read as the next request by somebody, so there must be none. */
static int field(struct weir_str line, unsigned *hosts) {
    struct weir_str name = {line.p, 0}, value;
    while (name.n < line.n && is_token(line.p[name.n]))
        name.n++;
    if (!name.n || name.n == line.n || line.p[name.n] != ':')
        return BAD;
    value = (struct weir_str){line.p + name.n + 1, line.n - name.n - 1};
    while (value.n && is_space(value.p[0]))
        value = (struct weir_str){value.p + 1, value.n - 1};
    while (value.n && is_space(value.p[value.n - 1]))
        value.n--;
    if (same_name(name, "transfer-encoding"))
        return BAD;
    if (same_name(name, "content-length") && !weir__admin_str_is(value, "0"))
        return BAD;
    *hosts += same_name(name, "host");
    return 1;
}

static int fields(const char *p, size_t n, bool wants_host) {
    unsigned hosts = 0;
    for (size_t at = 0;;) {
        struct weir_str line;
        int rc = line_of(p + at, n - at, &line);
        if (rc <= 0)
            return rc;
        at += line.n + 2;
        if (!line.n)
            return hosts == 1 || (hosts == 0 && !wants_host) ? 1 : BAD;
        rc = field(line, &hosts);
        if (rc < 0)
            return rc;
    }
}

static int read_head(const char *p, size_t n, struct weir__admin_request *out) {
    struct weir_str line;
    size_t method;
    bool wants_host;
    int rc = method_of(p, n, &method);
    if (rc <= 0)
        return rc;
    rc = line_of(p, n, &line);
    if (rc <= 0)
        return rc;
    rc = request_line(line, method, &wants_host, out);
    return rc < 0 ? rc : fields(p + line.n + 2, n - line.n - 2, wants_host);
}

int weir__admin_request_read(const char *p, size_t n, struct weir__admin_request *out) {
    bool full = n >= WEIR__ADMIN_HEAD_MAX;
    int rc = read_head(p, full ? WEIR__ADMIN_HEAD_MAX : n, out);
    return rc == 0 && full ? TOO_LARGE : rc;
}

struct weir_str weir__admin_query(const struct weir__admin_request *r, const char *name) {
    size_t n = strlen(name);
    for (size_t at = 0; at < r->query.n;) {
        const char *p = r->query.p + at;
        const char *end = memchr(p, '&', r->query.n - at);
        size_t length = end ? (size_t)(end - p) : r->query.n - at;
        if (length >= n && !memcmp(p, name, n) && (length == n || p[n] == '='))
            return (struct weir_str){p + n + (length > n), length - n - (length > n)};
        at += length + 1;
    }
    return (struct weir_str){NULL, 0};
}

bool weir__admin_query_number(const struct weir__admin_request *r, const char *name, uint32_t min,
                              uint32_t max, uint32_t otherwise, uint32_t *out) {
    struct weir_str s = weir__admin_query(r, name);
    uint64_t value = 0;
    *out = otherwise;
    if (!s.p)
        return true;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9' || value > max)
            return false;
        value = value * 10 + (uint64_t)(s.p[i] - '0');
    }
    *out = (uint32_t)value;
    return s.n && value >= min && value <= max;
}
