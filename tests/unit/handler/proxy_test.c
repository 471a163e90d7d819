/* The PROXY handler over an embedded channel, whose peer is the unix socket "embedded". */
#include "codec/proxy/proxy.h"
#include "kit/embedded.h"
#include "loop/loop.h"
#include "mem/pool.h"
#include <stdio.h>
#include <stdlib.h>

enum { ADDRESS = 128 };

static const struct weir_proxy_net unix_net = {.family = WEIR_PROXY_UNIX};
static const struct weir_proxy_net elsewhere = {WEIR_PROXY_IP4, 8, {10}};

static void tell_refused(struct weir_chan *ch, int why, void *user) {
    (void)ch, (void)user;
    tell("refused %s;", weir_errname(why));
}

static const struct weir_proxy_options required = {.size = sizeof required,
                                                   .refused = tell_refused};
static const struct weir_proxy_options optional = {.size = sizeof optional,
                                                   .trusted = &unix_net,
                                                   .n_trusted = 1,
                                                   .optional = true,
                                                   .refused = tell_refused};

/* --- an application ----------------------------------------------------------------------- */

static int app_open(struct weir_ctx *c, const void *config) {
    char peer[ADDRESS], local[ADDRESS];
    (void)config;
    assert_int_equal(weir_chan_peer(weir_ctx_chan(c), peer, sizeof peer), 0);
    assert_int_equal(weir_chan_local(weir_ctx_chan(c), local, sizeof local), 0);
    tell("open %s > %s;", peer, local);
    return emb_say(c, "hello;"); /* it speaks first */
}

static int app_read(struct weir_ctx *c, struct weir_chain *in) {
    size_t n = (size_t)in->bytes;
    tell("'%.*s';", (int)n, (const char *)weir_chain_peek(weir_ctx_mem(c), in, n));
    weir_chain_fini(in);
    return 0;
}

static void app_eof(struct weir_ctx *c, bool clean) {
    (void)c;
    tell(clean ? "eof;" : "cut;");
}

static void app_close(struct weir_ctx *c, int why) {
    (void)c;
    tell("close %s;", why ? weir_errname(why) : "0");
}

static const struct weir_handler app = {
    .name = "app", .open = app_open, .read = app_read, .eof = app_eof, .close = app_close};

static struct weir_loop *loop; /* of the last server */

static struct weir_embedded *server(const struct weir_proxy_options *o) {
    static const struct weir_limits limits = {.linger_ms = 10};
    struct weir_stage line[] = {{&weir_proxy_handler, o}, {&app, NULL}};
    struct weir_embedded *e = emb_line(line, 2, &limits);
    loop = weir_chan_loop(weir_embedded_chan(e));
    return e;
}

static void push(struct weir_embedded *e, const void *p, size_t n) {
    assert_int_equal(weir_embedded_push(e, p, n), 0);
}

static size_t header(uint8_t *out, size_t cap) {
    const struct weir_proxy_header h = {.version = 2,
                                        .command = WEIR_PROXY_PROXY,
                                        .family = WEIR_PROXY_IP4,
                                        .transport = WEIR_PROXY_STREAM,
                                        .checksum = true,
                                        .from = {1000, {10, 1, 2, 3}},
                                        .to = {443, {10, 0, 0, 2}}};
    const struct weir_proxy_tlv tlvs[] = {{WEIR_PROXY_AUTHORITY, {"example.org", 11}},
                                          {WEIR_PROXY_UNIQUE_ID, {"id-7", 4}}};
    int n = weir_proxy_encode(&h, tlvs, 2, out, cap);
    assert_true(n > 0);
    return (size_t)n;
}

#define SEEN "open 10.1.2.3:1000 > 10.0.0.2:443;"
#define LINE "PROXY TCP4 10.1.2.3 10.0.0.2 1000 443\r\n"

/* --- what is told ------------------------------------------------------------------------- */

static void nothing_runs_before_the_header(void **state) {
    (void)state;
    struct weir_embedded *e = server(&required);
    emb_expect_out(e, "");
    emb_push(e, "PROXY TCP4 10.1.2.3 10.0.0.2 1000 443\r");
    assert_string_equal(told(), "");
    emb_push(e, "\n");
    assert_string_equal(told(), SEEN);
    emb_expect_out(e, "hello;");
    assert_null(weir_chan_ctx(weir_embedded_chan(e), &weir_proxy_handler));
    emb_push(e, "request");
    weir_embedded_eof(e);
    weir_embedded_advance(e, 20);
    assert_string_equal(told(), SEEN "'request';eof;close 0;");
    assert_int_equal(weir_embedded_state(e), 0);
    emb_end(e);
}

static void the_rest_is_the_applications(void **state) {
    (void)state;
    struct weir_embedded *e = server(&required);
    emb_push(e, LINE "request");
    assert_string_equal(told(), SEEN "'request';");
    char socket[ADDRESS];
    assert_int_equal(weir_chan_proxy_peer(weir_embedded_chan(e), socket, sizeof socket), 0);
    assert_string_equal(socket, "unix:embedded");
    emb_end(e);
}

/* Also where header and request come in one piece that ends the stream. */
static void every_split_is_the_same(void **state) {
    (void)state;
    uint8_t bytes[200];
    size_t n = header(bytes, sizeof bytes);
    memcpy(bytes + n, "abc", 3);
    for (int line = 0; line < 2; line++) {
        if (line)
            n = (size_t)snprintf((char *)bytes, sizeof bytes, LINE "abc") - 3;
        for (size_t cut = 0; cut <= n + 3; cut++) {
            forget();
            struct weir_embedded *e = server(&required);
            if (cut)
                push(e, bytes, cut);
            if (cut < n + 3)
                push(e, bytes + cut, n + 3 - cut);
            weir_embedded_eof(e);
            weir_embedded_advance(e, 20);
            const char *two = cut > n && cut < n + 3 ? cut == n + 1 ? "'a';'bc';" : "'ab';'c';"
                                                     : "'abc';";
            char expected[200];
            snprintf(expected, sizeof expected, SEEN "%seof;close 0;", two);
            assert_string_equal(told(), expected);
            emb_end(e);
        }
    }
}

static void byte_by_byte(void **state) {
    (void)state;
    uint8_t bytes[200];
    size_t n = header(bytes, sizeof bytes);
    struct weir_embedded *e = server(&required);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(told(), "");
        push(e, bytes + i, 1);
    }
    assert_string_equal(told(), SEEN);
    emb_end(e);
}

static void the_header_stays_with_the_channel(void **state) {
    (void)state;
    uint8_t bytes[200];
    size_t n = header(bytes, sizeof bytes);
    struct weir_embedded *e = server(&required);
    assert_null(weir_proxy_header_of(weir_embedded_chan(e)));
    push(e, bytes, n);
    memset(bytes, 0, sizeof bytes);
    for (int i = 0; i < 100; i++)
        emb_push(e, "other bytes in the same buffers");
    const struct weir_proxy_header *h = weir_proxy_header_of(weir_embedded_chan(e));
    struct weir_str value;
    assert_non_null(h);
    assert_true(h->checksum && h->version == 2 && h->from.port == 1000);
    assert_true(weir_proxy_find(h, WEIR_PROXY_AUTHORITY, &value));
    assert_int_equal(value.n, 11);
    assert_memory_equal(value.p, "example.org", 11);
    assert_true(weir_proxy_find(h, WEIR_PROXY_UNIQUE_ID, &value));
    assert_memory_equal(value.p, "id-7", 4);
    emb_end(e);
}

static void local_and_unknown_keep_the_sockets_ends(void **state) {
    (void)state;
    struct weir_embedded *e = server(&required);
    emb_push(e, "PROXY UNKNOWN 1.2.3.4 5.6.7.8 9 9\r\n");
    assert_string_equal(told(), "open unix:embedded > unix:embedded;");
    assert_int_equal(weir_proxy_header_of(weir_embedded_chan(e))->family, WEIR_PROXY_UNSPEC);
    emb_end(e);
    forget();
    e = server(&required);
    push(e, "\r\n\r\n\0\r\nQUIT\n\x20\x11\0\x0c\1\1\1\1\2\2\2\2\0\1\0\2", 28);
    assert_string_equal(told(), "open unix:embedded > unix:embedded;");
    assert_int_equal(weir_proxy_header_of(weir_embedded_chan(e))->command, WEIR_PROXY_LOCAL);
    emb_end(e);
}

static void unix_paths_are_safe_to_print(void **state) {
    (void)state;
    uint8_t out[400];
    struct weir_proxy_header h = {.version = 2,
                                  .command = WEIR_PROXY_PROXY,
                                  .family = WEIR_PROXY_UNIX,
                                  .transport = WEIR_PROXY_STREAM,
                                  .from = {0, "/run/a\nb\x1b[2J"},
                                  .to = {0, "\0abstract"}};
    int n = weir_proxy_encode(&h, NULL, 0, out, sizeof out);
    struct weir_embedded *e = server(&required);
    push(e, out, (size_t)n);
    assert_string_equal(told(), "open unix:/run/a?b?[2J > unix:@abstract;");
    emb_end(e);
}

/* --- refused ------------------------------------------------------------------------------ */

static uint64_t sum_of(const struct weir_proxy_stats *s) {
    return s->headers + s->without + s->silent + s->refused_trust + s->refused_header +
           s->refused_size + s->refused_time + s->refused_memory;
}

/* The last server's loop has counted one connection, as this. */
static void assert_counted(size_t offset) {
    struct weir_proxy_stats s;
    assert_int_equal(weir_proxy_stats(loop, &s), 0);
    assert_int_equal(sum_of(&s), 1);
    assert_int_equal(*(const uint64_t *)(const void *)((const char *)&s + offset), 1);
}

#define COUNTED(member) assert_counted(offsetof(struct weir_proxy_stats, member))

static void refused(const struct weir_proxy_options *o, const void *p, size_t n, int why) {
    char expected[64];
    forget();
    struct weir_embedded *e = server(o);
    push(e, p, n);
    assert_int_equal(weir_embedded_state(e), why); /* at once: no lingering */
    snprintf(expected, sizeof expected, "refused %s;", weir_errname(why));
    assert_string_equal(told(), expected);
    assert_counted(why == WEIR_ETOOBIG ? offsetof(struct weir_proxy_stats, refused_size)
                                       : offsetof(struct weir_proxy_stats, refused_header));
    emb_expect_out(e, "");
    emb_end(e);
}

static void no_header_no_service(void **state) {
    (void)state;
    struct weir_proxy_options tight = required;
    tight.header_max = 27;
    refused(&required, "GET / HTTP/1.1\r\n\r\n", 18, WEIR_EPROTO);
    refused(&required, "PROXY TCP4 10.1.2.3 10.0.0.2 01000 443\r\n", 40, WEIR_EPROTO);
    refused(&required, "\r\n\r\n\0\r\nQUIT\n\x31", 13, WEIR_EPROTO);
    refused(&required, "\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff", 16, WEIR_ETOOBIG);
    refused(&tight, "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c", 16, WEIR_ETOOBIG);
    refused(&optional, "PROXY nonsense\r\n", 16, WEIR_EPROTO);
}

static void a_header_that_does_not_come_in_time(void **state) {
    (void)state;
    struct weir_proxy_options o = required;
    o.header_ms = 50;
    const struct weir_proxy_options *const both[] = {&required, &o};
    for (int i = 0; i < 2; i++) {
        uint32_t ms = i ? 50 : 5000;
        forget();
        struct weir_embedded *e = server(both[i]);
        weir_embedded_advance(e, ms / 2);
        emb_push(e, "PROXY "); /* what trickles in does not move it */
        weir_embedded_advance(e, ms / 2 - 2);
        assert_int_equal(weir_embedded_state(e), 1);
        weir_embedded_advance(e, 4);
        assert_int_equal(weir_embedded_state(e), WEIR_ETIMEDOUT);
        assert_string_equal(told(), "refused ETIMEDOUT;");
        COUNTED(refused_time);
        emb_end(e);
    }
}

static void the_deadline_ends_with_the_header(void **state) {
    (void)state;
    struct weir_embedded *e = server(&required);
    emb_push(e, LINE);
    weir_embedded_advance(e, 20000);
    assert_int_equal(weir_embedded_state(e), 1);
    COUNTED(headers);
    emb_end(e);
}

static void a_stream_that_ends_too_early(void **state) {
    (void)state;
    struct weir_embedded *e = server(&required);
    emb_push(e, "PROXY TCP4");
    weir_embedded_eof(e);
    assert_int_equal(weir_embedded_state(e), WEIR_EPROTO);
    assert_string_equal(told(), "refused EPROTO;");
    COUNTED(refused_header);
    emb_end(e);
    forget();
    e = server(&required); /* a health check that only connects is no offence */
    weir_embedded_eof(e);
    assert_int_equal(weir_embedded_state(e), 0);
    assert_string_equal(told(), "");
    COUNTED(silent);
    emb_end(e);
}

static void a_drain_before_the_header(void **state) {
    (void)state;
    struct weir_embedded *e = server(&required);
    weir_chan_close(weir_embedded_chan(e), WEIR_DRAIN);
    weir_embedded_advance(e, 6000);
    assert_int_equal(weir_embedded_state(e), 0);
    assert_string_equal(told(), "");
    emb_end(e);
}

static int no_open(struct weir_ctx *c, const void *config) {
    (void)c, (void)config;
    tell("no;");
    return WEIR_EFULL;
}

/* The header comes while the loop ends already: one behind it that refuses still ends the channel,
 * and nobody behind that one is opened. */
static void late_and_refused_behind_the_header(void **state) {
    (void)state;
    static const struct weir_handler no = {.name = "no", .open = no_open};
    struct weir_stage line[] = {{&weir_proxy_handler, &required}, {&no, NULL}, {&app, NULL}};
    struct weir_embedded *e = emb_line(line, 3, NULL);
    weir__loop_stop(weir_chan_loop(weir_embedded_chan(e)), 1000);
    weir_embedded_advance(e, 1);
    assert_int_equal(weir_embedded_state(e), 1);
    emb_push(e, LINE "request");
    assert_string_equal(told(), "no;");
    emb_expect_out(e, "");
    weir_embedded_eof(e);
    assert_int_equal(weir_embedded_state(e), WEIR_EFULL);
    emb_end(e);
}

static void who_is_not_trusted_is_not_heard(void **state) {
    (void)state;
    struct weir_proxy_options o = required;
    struct weir_embedded *e;
    o.trusted = &elsewhere;
    o.n_trusted = 1;
    struct weir_stage line[] = {{&weir_proxy_handler, &o}, {&app, NULL}};
    assert_int_equal(weir_embedded_new(line, 2, NULL, &e), WEIR_ECANCELLED);
    assert_string_equal(told(), "refused ECANCELLED;");
}

/* Wherever memory runs out, it is refused or served, and nothing leaks. */
static void memory_for_it_is_needed(void **state) {
    (void)state;
    unsigned served = 0, short_of = 0;
    for (uint64_t nth = 1; nth < 12; nth++) {
        forget();
        struct weir_embedded *e = server(&required);
        struct weir_mem *m = weir_loop_mem(weir_chan_loop(weir_embedded_chan(e)));
        emb_push(e, "PROXY TCP4 10.1.2.3 10.0.0.2 1000 443\r");
        weir__mem_fail(m, nth, false);
        (void)weir_embedded_push(e, "\n", 1);
        weir__mem_fail(m, 0, false);
        served += strcmp(told(), SEEN) == 0;
        if (strcmp(told(), "refused ENOMEM;") == 0) {
            short_of++;
            COUNTED(refused_memory);
        }
        assert_int_equal(weir_embedded_free(e), 0);
    }
    assert_true(served > 0 && short_of > 0);
}

/* --- optional ----------------------------------------------------------------------------- */

static void optional_takes_both(void **state) {
    (void)state;
    struct weir_embedded *e = server(&optional);
    emb_push(e, "P");
    assert_string_equal(told(), "");
    emb_push(e, "UT /");
    assert_string_equal(told(), "open unix:embedded > unix:embedded;'PUT /';");
    assert_null(weir_proxy_header_of(weir_embedded_chan(e)));
    COUNTED(without);
    emb_end(e);
    forget();
    e = server(&optional);
    emb_push(e, LINE "x");
    assert_string_equal(told(), SEEN "'x';");
    emb_end(e);
}

static void optional_serves_who_waits(void **state) {
    (void)state;
    struct weir_embedded *e = server(&optional);
    weir_embedded_advance(e, 5001);
    assert_string_equal(told(), "open unix:embedded > unix:embedded;");
    COUNTED(without);
    emb_push(e, LINE); /* too late to be a header */
    assert_non_null(strstr(told(), "'PROXY TCP4"));
    emb_end(e);
    forget();
    e = server(&optional); /* but not who began one */
    emb_push(e, "PROXY ");
    weir_embedded_advance(e, 5001);
    assert_string_equal(told(), "refused ETIMEDOUT;");
    emb_end(e);
}

/* --- options ------------------------------------------------------------------------------ */

static void options_that_break_a_rule(void **state) {
    (void)state;
    struct weir_proxy_options o[4] = {required, required, required, required};
    o[0].size = 3;
    o[1].optional = true; /* from anybody */
    o[2].header_max = WEIR_PROXY_HEADER_MAX + 1;
    o[3].n_trusted = 1; /* and no list */
    for (size_t i = 0; i < ARRAY_LEN(o); i++) {
        struct weir_stage line[] = {{&weir_proxy_handler, &o[i]}, {&app, NULL}};
        struct weir_embedded *e;
        assert_int_equal(weir_embedded_new(line, 2, NULL, &e), WEIR_EINVAL);
    }
    struct weir_embedded *e = server(NULL);
    emb_push(e, LINE);
    assert_string_equal(told(), SEEN);
    emb_end(e);
}

static void a_second_one_has_no_place(void **state) {
    (void)state;
    struct weir_stage line[] = {
        {&weir_proxy_handler, &required}, {&weir_proxy_handler, &required}, {&app, NULL}};
    struct weir_embedded *e = emb_line(line, 3, NULL);
    emb_push(e, LINE LINE "request");
    assert_string_equal(told(), "");
    weir_embedded_eof(e);
    assert_int_equal(weir_embedded_state(e), WEIR_EINVAL);
    emb_end(e);
}

static void nets(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int rc, family, bits;
    } of[] = {
        {"10.0.0.0/8", 0, WEIR_PROXY_IP4, 8},
        {"10.1.2.3", 0, WEIR_PROXY_IP4, 32},
        {"0.0.0.0/0", 0, WEIR_PROXY_IP4, 0},
        {"::1", 0, WEIR_PROXY_IP6, 128},
        {"fd00::/8", 0, WEIR_PROXY_IP6, 8},
        {"unix", 0, WEIR_PROXY_UNIX, 0},
        {"10.0.0.1/8", WEIR_EINVAL, 0, 0},
        {"10.0.0.0/33", WEIR_EINVAL, 0, 0},
        {"10.0.0.0/", WEIR_EINVAL, 0, 0},
        {"10.0.0.0/x", WEIR_EINVAL, 0, 0},
        {"10.0.0.0/8 ", WEIR_EINVAL, 0, 0},
        {"::/129", WEIR_EINVAL, 0, 0},
        {"::/4294967304", WEIR_EINVAL, 0, 0},
        {"localhost", WEIR_EINVAL, 0, 0},
        {"", WEIR_EINVAL, 0, 0},
        {"/8", WEIR_EINVAL, 0, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(of); i++) {
        struct weir_proxy_net net;
        const char *why = NULL;
        assert_int_equal(weir_proxy_net_parse(of[i].text, &net, &why), of[i].rc);
        assert_int_equal(why != NULL, of[i].rc < 0);
        if (!of[i].rc) {
            assert_int_equal(net.family, of[i].family);
            assert_int_equal(net.bits, of[i].bits);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_runs_before_the_header, emb_begin),
        cmocka_unit_test_setup(the_rest_is_the_applications, emb_begin),
        cmocka_unit_test_setup(every_split_is_the_same, emb_begin),
        cmocka_unit_test_setup(byte_by_byte, emb_begin),
        cmocka_unit_test_setup(the_header_stays_with_the_channel, emb_begin),
        cmocka_unit_test_setup(local_and_unknown_keep_the_sockets_ends, emb_begin),
        cmocka_unit_test_setup(unix_paths_are_safe_to_print, emb_begin),
        cmocka_unit_test_setup(no_header_no_service, emb_begin),
        cmocka_unit_test_setup(a_header_that_does_not_come_in_time, emb_begin),
        cmocka_unit_test_setup(the_deadline_ends_with_the_header, emb_begin),
        cmocka_unit_test_setup(a_stream_that_ends_too_early, emb_begin),
        cmocka_unit_test_setup(a_drain_before_the_header, emb_begin),
        cmocka_unit_test_setup(late_and_refused_behind_the_header, emb_begin),
        cmocka_unit_test_setup(who_is_not_trusted_is_not_heard, emb_begin),
        cmocka_unit_test_setup(memory_for_it_is_needed, emb_begin),
        cmocka_unit_test_setup(optional_takes_both, emb_begin),
        cmocka_unit_test_setup(optional_serves_who_waits, emb_begin),
        cmocka_unit_test_setup(options_that_break_a_rule, emb_begin),
        cmocka_unit_test_setup(a_second_one_has_no_place, emb_begin),
        cmocka_unit_test_setup(nets, emb_begin),
    };
    return cmocka_run_group_tests_name("handler/proxy", tests, NULL, NULL);
}
