#include "kit/embedded.h"
#include "base/assert.h"
#include <stdio.h>

static char trace[128 * 1024];
static uint64_t hits_before;

void tell(const char *fmt, ...) {
    size_t n = strlen(trace);
    va_list ap;
    va_start(ap, fmt);
    int m = vsnprintf(trace + n, sizeof trace - n, fmt, ap);
    va_end(ap);
    assert_true(m >= 0 && (size_t)m < sizeof trace - n);
}

const char *told(void) {
    return trace;
}

void forget(void) {
    trace[0] = 0;
}

int emb_begin(void **state) {
    (void)state;
    forget();
    emb_gate_open = false;
    hits_before = weir__base_hits(WEIR__SITE_COUNT);
    return 0;
}

struct weir_embedded *emb_line(const struct weir_stage *line, unsigned n,
                               const struct weir_limits *limits) {
    struct weir_embedded *e;
    assert_int_equal(weir_embedded_new(line, n, limits, &e), 0);
    return e;
}

struct weir_embedded *emb_open(const struct weir_handler *h, const void *config,
                               const struct weir_limits *limits) {
    struct weir_stage line[] = {{h, config}};
    return emb_line(line, 1, limits);
}

void emb_push(struct weir_embedded *e, const char *text) {
    assert_int_equal(weir_embedded_push(e, text, strlen(text)), 0);
}

void emb_expect_out(struct weir_embedded *e, const char *text) {
    size_t n;
    const uint8_t *p = weir_embedded_out(e, &n);
    assert_int_equal(n, strlen(text));
    if (n)
        assert_memory_equal(p, text, n);
}

struct weir_chan_counters emb_counters(struct weir_embedded *e) {
    struct weir_chan_counters n;
    weir_chan_counters(weir_embedded_chan(e), &n);
    return n;
}

struct weir_ctx *emb_ctx(struct weir_embedded *e, const struct weir_handler *h) {
    struct weir_ctx *c = weir_chan_ctx(weir_embedded_chan(e), h);
    assert_non_null(c);
    return c;
}

void emb_end(struct weir_embedded *e) {
    assert_int_equal(weir_embedded_free(e), 0);
    assert_int_equal(weir__base_hits(WEIR__SITE_COUNT), hits_before);
}

static int send_or_drop(struct weir_ctx *c, struct weir_chain *out) {
    uint64_t bytes = out->bytes;
    int rc = weir_ctx_send(c, out);
    assert_int_equal(out->bytes, rc < 0 ? bytes : 0); /* taken whole, or untouched */
    weir_chain_fini(out);
    return rc;
}

int emb_say(struct weir_ctx *c, const char *text) {
    struct weir_chain out = {0};
    int rc = weir_chain_write(weir_ctx_mem(c), &out, text, strlen(text));
    return rc < 0 ? rc : send_or_drop(c, &out);
}

int emb_pour(struct weir_ctx *c, size_t n) {
    struct weir_chain out = {0};
    uint8_t *p = weir_chain_reserve(weir_ctx_mem(c), &out, n);
    if (!p)
        return WEIR_ENOMEM;
    memset(p, 'x', n);
    weir_chain_commit(&out, n);
    return send_or_drop(c, &out);
}

/* --- handlers -------------------------------------------------------------------------------- */

static void tell_close(struct weir_ctx *c, int why) {
    (void)c;
    tell("close %s;", why ? weir_errname(why) : "0");
}

static void tell_eof(struct weir_ctx *c, bool clean) {
    (void)c;
    tell(clean ? "eof;" : "cut;");
}

static int echo_read(struct weir_ctx *c, struct weir_chain *in) {
    return weir_ctx_send(c, in);
}

const struct weir_handler emb_echo = {.name = "echo", .read = echo_read, .close = tell_close};

static int sink_read(struct weir_ctx *c, struct weir_chain *in) {
    (void)c;
    tell("%d;", (int)in->bytes);
    weir_chain_fini(in);
    return 0;
}

const struct weir_handler emb_sink = {.name = "sink", .read = sink_read};

static int four_read(struct weir_ctx *c, struct weir_chain *in) {
    struct weir_slice s;
    weir_ctx_want(c, 4);
    if (in->bytes < 4)
        return 0;
    int rc = weir_chain_take(weir_ctx_mem(c), in, 4, &s);
    if (rc < 0)
        return rc;
    tell("%.4s;", (const char *)s.p);
    weir_slice_release(&s);
    return 0;
}

const struct weir_handler emb_four = {.name = "four", .read = four_read, .eof = tell_eof};

static int forward_read(struct weir_ctx *c, struct weir_chain *in) {
    return weir_ctx_forward(c, in);
}

const struct weir_handler emb_forward = {.name = "forward", .read = forward_read};

bool emb_gate_open;

static int gate_read(struct weir_ctx *c, struct weir_chain *in) {
    (void)c;
    if (!emb_gate_open)
        return 0;
    tell("took %d;", (int)in->bytes);
    weir_chain_fini(in);
    return 0;
}

const struct weir_handler emb_gate = {.name = "gate", .read = gate_read, .eof = tell_eof};
