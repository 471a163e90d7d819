/* Every rule of docs/linkd.md that a peer can break, broken against a real server: told as the page
 * says, and nobody else is harmed. */
#include "wire/peer.h"
#include "wire/services.h"
#include <stdio.h>
#include <string.h>

enum {
    FRAME_MAX = 2048,
    CALLS_MAX = 40,
    HELD_MAX = 300 << 10, /* above a stream's credit, below that and CALLS_MAX frames */
    OVER = FRAME_MAX + 1,
    HARD = WEIR_LINKD_FRAME_MAX + 1,
    DRAIN_MS = 500, /* then an end is a reset, and no longer what was to be told */
};

enum { REQUEST = WEIR_LINKD_REQUEST, RESPONSE, ERROR, PING, PONG, CANCEL, GOAWAY, CREDIT };
enum { DEADLINE = WEIR_LINKD_DEADLINE, MORE = WEIR_LINKD_MORE };
enum { ECHO, DIGEST, LATER, STREAM, SINK, SILENT, LAZY, NONE };
_Static_assert((int)CREDIT == WEIR_LINKD_CREDIT && (int)NONE == SERVICE_NONE, "short names");

static struct script script;
static struct ear ear;

static void attack(const char *name) {
    script.n = 0;
    wire_attack(name);
}

/* ---- one script, one outcome ---- */

typedef void sender(int fd, const void *data, size_t n);

static bool ends(const char *told) {
    size_t n = strlen(told);
    return n >= 3 && !strcmp(told + n - 3, "end");
}

/* The script is sent and answered with `told`. Where that does not close the connection, it carries
 * a good call next. */
static void play(sender *send, const char *told) {
    char want[512];
    ear = (struct ear){.fd = wire_dial(0)};
    snprintf(want, sizeof want, "%s%s", told, ends(told) ? "" : "R4242'alive' ");
    if (!ends(told))
        script_add(&script, (struct frame){.type = REQUEST, .id = 4242, .text = "alive"});
    size_t half = script.n / 2;
    send(ear.fd, script.bytes, half);
    wire_testify();
    send(ear.fd, script.bytes + half, script.n - half);
    ear_expect(&ear, want);
    wire_hang_up(ear.fd);
    script.n = 0;
}

/* ---- the rules ---- */

struct rule {
    const char *name;
    struct frame frames[4];
    const char *told;
};

static const char sixty_four[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

static const struct rule rules[] = {
    {"a good call", {{REQUEST, .id = 7, .text = "x"}}, "R7'x' "},
    {"an empty call", {{REQUEST, .id = UINT64_MAX}}, "R18446744073709551615'' "},
    {"id 0", {{REQUEST, .text = "x"}}, "E1#0 "},
    {"id 0, streamed", {{REQUEST, MORE, .text = "x"}, {REQUEST, .text = "y"}}, "E1#0 E1#0 "},
    {"the id of an open call",
     {{REQUEST, .service = SILENT, .id = 7}, {REQUEST, .id = 7, .text = "x"}, {CANCEL, .id = 7}},
     "E1#7 E6#7 "},
    {"an id that is free again",
     {{REQUEST, .id = 7, .text = "a"}, {REQUEST, .id = 7, .text = "b"}},
     "R7'a' R7'b' "},
    {"no such service", {{REQUEST, .service = NONE, .id = 7, .text = "x"}}, "E3#7 "},
    {"no such service, streamed",
     {{REQUEST, MORE, NONE, .id = 7, .text = "x"},
      {REQUEST, MORE, NONE, .id = 7, .text = "y"},
      {REQUEST, 0, NONE, .id = 7, .text = "z"}},
     "E3#7 "},
    {"over the limit", {{REQUEST, .id = 7, .n = OVER}}, "E2#7 "},
    {"far over the limit", {{REQUEST, .id = 7, .n = 4 * OVER}}, "E2#7 "},
    {"over the limit twice",
     {{REQUEST, .id = 7, .n = OVER}, {REQUEST, .id = 7, .n = OVER}},
     "E2#7 E2#7 "},
    {"at the limit", {{REQUEST, .id = 7, .n = FRAME_MAX}}, "R7[2048] "},
    {"a piece over the limit",
     {{REQUEST, MORE, SINK, .id = 7, .text = "x"},
      {REQUEST, MORE, SINK, .id = 7, .n = OVER},
      {REQUEST, 0, SINK, .id = 7, .text = "z"}},
     "E2#7 "},
    {"a collected message over the limit",
     {{REQUEST, MORE, .id = 7, .n = FRAME_MAX},
      {REQUEST, MORE, .id = 7, .text = "x"},
      {REQUEST, .id = 7}},
     "E2#7 "},
    {"RESPONSE over the limit", {{RESPONSE, .id = 7, .n = OVER}}, "E2#7 "},
    {"CANCEL over the limit", {{CANCEL, .id = 7, .n = OVER}}, "E2#7 "},
    {"ERROR over the limit", {{ERROR, .id = 7, .n = OVER}}, ""},
    {"REQUEST over the hard limit", {{REQUEST, .id = 7, .text = "x", .lie = HARD}}, "E2#7 end"},
    {"the longest REQUEST", {{REQUEST, .id = 7, .text = "x", .lie = UINT32_MAX}}, "E2#7 end"},
    {"RESPONSE over the hard limit", {{RESPONSE, .id = 7, .lie = HARD}}, "E2#7 end"},
    {"CANCEL over the hard limit", {{CANCEL, .id = 7, .lie = HARD}}, "E2#7 end"},
    {"GOAWAY over the hard limit", {{GOAWAY, .lie = HARD}}, "E2#0 end"},
    {"PING", {{PING, .text = "are you there"}}, "P'are you there' "},
    {"an empty PING", {{.type = PING}}, "P'' "},
    {"PING of 64 bytes", {{PING, .text = sixty_four}}, "P[64] "},
    {"PING of 65 bytes", {{PING, .n = 65}}, "E1#0 end"},
    {"a PING that says 65", {{PING, .lie = 65}}, "E1#0 end"},
    {"PONG of 65 bytes", {{PONG, .n = 65}}, "E1#0 end"},
    {"PING with an id", {{PING, .id = 7, .text = "x"}}, "E1#7 end"},
    {"PONG with an id", {{PONG, .id = 7, .text = "x"}}, "E1#7 end"},
    {"GOAWAY with an id", {{GOAWAY, .id = 7}}, "E1#7 end"},
    {"CREDIT of 0 bytes", {{CREDIT, .id = 7}}, "E1#7 end"},
    {"CREDIT of 3 bytes", {{CREDIT, .id = 7, .text = "abc"}}, "E1#7 end"},
    {"CREDIT of 5 bytes", {{CREDIT, .id = 7, .text = "abcde"}}, "E1#7 end"},
    {"CREDIT of 8 bytes", {{CREDIT, .id = 7, .text = "abcdefgh"}}, "E1#7 end"},
    {"RESPONSE to nothing", {{RESPONSE, .id = 7, .text = "x"}, {RESPONSE, MORE, .id = 8}}, ""},
    {"ERROR to nothing", {{ERROR, .id = 7, .text = "xxhello"}, {ERROR, .id = 8}}, ""},
    {"CANCEL of nothing",
     {{CANCEL, .id = 7}, {.type = CANCEL}, {CANCEL, .id = 8, .text = "why"}},
     ""},
    {"CREDIT for nothing", {{CREDIT, .id = 7, .text = "abcd"}, {CREDIT, .text = "abcd"}}, ""},
    {"PONG to nothing", {{PONG, .text = "x"}, {.type = PONG}}, ""},
    {"GOAWAY from a client", {{.type = GOAWAY}, {GOAWAY, .text = "bye"}}, ""},
    {"ERROR with id 0", {{ERROR, .text = "xxyou"}}, "end"},
    {"ERROR for an open call",
     {{REQUEST, .service = SILENT, .id = 7},
      {ERROR, .id = 7, .text = "xx"},
      {REQUEST, .id = 7, .text = "again"}},
     "R7'again' "},
    {"CANCEL twice",
     {{REQUEST, .service = SILENT, .id = 7}, {CANCEL, .id = 7}, {CANCEL, .id = 7}},
     "E6#7 "},
    {"CANCEL of a half-sent call",
     {{REQUEST, MORE, SINK, .id = 7, .text = "x"},
      {CANCEL, .id = 7},
      {REQUEST, .id = 7, .text = "again"}},
     "E6#7 R7'again' "},
    {"CANCEL after the answer", {{REQUEST, .id = 7, .text = "x"}, {CANCEL, .id = 7}}, "R7'x' "},
    {"a deadline", {{REQUEST, DEADLINE, ECHO, .id = 7, .text = "~~~~x"}}, "R7'x' "},
    {"a deadline of 3 bytes", {{REQUEST, DEADLINE, ECHO, .id = 7, .text = "abc"}}, "E1#7 "},
    {"an empty deadline", {{REQUEST, DEADLINE, ECHO, .id = 7}}, "E1#7 "},
    {"a later deadline",
     {{REQUEST, MORE, SINK, .id = 7, .text = "x"},
      {REQUEST, MORE | DEADLINE, SINK, .id = 7, .text = "abcd"},
      {REQUEST, 0, SINK, .id = 7}},
     "E1#7 "},
    {"another service",
     {{REQUEST, MORE, SINK, .id = 7, .text = "x"},
      {REQUEST, MORE, ECHO, .id = 7, .text = "y"},
      {REQUEST, 0, SINK, .id = 7}},
     "E1#7 "},
    {"a streamed call",
     {{REQUEST, MORE, ECHO, .id = 7, .text = "a"},
      {REQUEST, MORE, ECHO, .id = 7, .text = "b"},
      {REQUEST, 0, ECHO, .id = 7, .text = "c"}},
     "R7'abc' "},
    {"streams that cross",
     {{REQUEST, MORE, ECHO, .id = 7, .text = "a"},
      {REQUEST, MORE, ECHO, .id = 8, .text = "x"},
      {REQUEST, 0, ECHO, .id = 8, .text = "y"},
      {REQUEST, 0, ECHO, .id = 7, .text = "b"}},
     "R8'xy' R7'ab' "},
    {"nothing after the offence is looked at",
     {{REQUEST, .id = 6, .text = "a"},
      {PING, .id = 7},
      {REQUEST, .id = 8, .text = "b"},
      {PING, .id = 9}},
     "R6'a' E1#7 end"},
    {"an offence while a call is open",
     {{REQUEST, .service = SILENT, .id = 7}, {PING, .id = 9}},
     "E1#9 end"},
    {"an offence while a call waits for its timer",
     {{REQUEST, .service = LATER, .id = 7, .text = "\x05"}, {PING, .id = 9}},
     "E1#9 end"},
    {"an offence inside a streamed call",
     {{REQUEST, MORE, SINK, .id = 7, .text = "x"},
      {PING, .id = 9},
      {REQUEST, 0, SINK, .id = 7, .text = "y"}},
     "E1#9 end"},
};

static void add_frames(const struct rule *r) {
    for (size_t i = 0; i < sizeof r->frames / sizeof r->frames[0] && r->frames[i].type; i++)
        script_add(&script, r->frames[i]);
}

static void play_rules(sender *send) {
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        attack(rules[i].name);
        add_frames(&rules[i]);
        play(send, rules[i].told);
        wire_peace();
    }
}

static void every_rule_whole(void **state) {
    (void)state;
    play_rules(wire_send);
}

static void every_rule_a_byte_at_a_time(void **state) {
    (void)state;
    play_rules(wire_send_bytes);
}

/* A deadline comes from the wire or not at all: the silent service would wait for ever. */
static void deadlines_pass(void **state) {
    static const uint8_t ms[][4] = {{0}, {0, 0, 0, 1}, {0, 0, 0, 20}};
    (void)state;
    for (size_t i = 0; i < sizeof ms / sizeof ms[0]; i++) {
        attack("a deadline that passes");
        script_add(&script, (struct frame){REQUEST, DEADLINE, SILENT, .id = 7, .n = 9});
        memcpy(script.bytes + WEIR_LINKD_HEAD_BYTES, ms[i], 4);
        ear = (struct ear){.fd = wire_dial(0)};
        wire_send(ear.fd, script.bytes, script.n);
        ear_expect(&ear, "E5#7 ");
        wire_hang_up(ear.fd);
        script.n = 0;
        wire_peace();
    }
}

/* ---- every wrong value of a field ---- */

/* A header of this type as it should be. */
static uint8_t *good_head(unsigned type) {
    bool whole = type == PING || type == PONG || type == GOAWAY;
    script_add(
        &script,
        (struct frame){.type = type, .id = whole ? 0 : 7, .text = type == CREDIT ? "abcd" : ""});
    return script.bytes;
}

static void every_wrong_magic(void **state) {
    (void)state;
    attack("wrong magic");
    for (unsigned bit = 0; bit < 16; bit++) {
        good_head(REQUEST)[bit / 8] ^= (uint8_t)(1 << bit % 8);
        play(wire_send, "E1#0 end");
    }
    script_add_bytes(&script, "GE", 2); /* two bytes are enough to know */
    play(wire_send, "E1#0 end");
    script_add_bytes(&script, "GET / HTTP/1.1\r\n\r\n", 18);
    play(wire_send_bytes, "E1#0 end");
    wire_peace();
}

static void every_wrong_version(void **state) {
    (void)state;
    attack("wrong version");
    for (unsigned v = 0; v < 256; v++) {
        if (v == WEIR_LINKD_VERSION)
            continue;
        good_head(REQUEST)[2] = (uint8_t)v;
        play(wire_send, "E1#7 end");
    }
    wire_peace();
}

static void every_unknown_type(void **state) {
    (void)state;
    attack("unknown type");
    for (unsigned t = 0; t < 256; t++) {
        if (t >= REQUEST && t <= CREDIT)
            continue;
        good_head(REQUEST)[3] = (uint8_t)t;
        play(t % 2 ? wire_send : wire_send_bytes, "E1#7 end");
    }
    wire_peace();
}

static void every_flag_a_type_may_not_carry(void **state) {
    (void)state;
    attack("reserved flag");
    for (unsigned t = REQUEST; t <= CREDIT; t++) {
        unsigned allowed = t == REQUEST ? DEADLINE | MORE : t == RESPONSE ? MORE : 0;
        bool whole = t == PING || t == PONG || t == GOAWAY;
        for (unsigned bit = 0; bit < 16; bit++) {
            if (allowed & 1u << bit)
                continue;
            peer_put16(good_head(t) + 4, 1u << bit);
            play(wire_send, whole ? "E1#0 end" : "E1#7 end");
        }
    }
    wire_peace();
}

/* ---- limits of a connection ---- */

static void more_calls_than_may_be_open(void **state) {
    char want[1024] = "";
    size_t n = 0;
    (void)state;
    attack("calls_max");
    for (unsigned i = 1; i <= CALLS_MAX; i++)
        script_add(&script, (struct frame){REQUEST, 0, SILENT, .id = i});
    script_add(&script, (struct frame){REQUEST, 0, ECHO, .id = 100, .text = "x"});
    n += (size_t)snprintf(want, sizeof want, "E4#100 ");
    for (unsigned i = 1; i <= CALLS_MAX; i++) {
        script_add(&script, (struct frame){CANCEL, .id = i});
        n += (size_t)snprintf(want + n, sizeof want - n, "E6#%u ", i);
    }
    play(wire_send, want);
    wire_peace();
}

static void more_bytes_than_may_be_held(void **state) {
    char want[512];
    unsigned id = 1;
    (void)state;
    attack("held_max");
    for (size_t held = 0; held < 256 << 10; held += FRAME_MAX) /* a window's worth, in one stream */
        script_add(&script, (struct frame){REQUEST, MORE, LAZY, .id = id, .n = FRAME_MAX});
    for (size_t held = 256 << 10; held + FRAME_MAX <= HELD_MAX; held += FRAME_MAX)
        script_add(&script, (struct frame){REQUEST, 0, SILENT, ++id, .n = FRAME_MAX});
    script_add(&script, (struct frame){REQUEST, 0, ECHO, .id = 100, .n = FRAME_MAX});
    size_t n = (size_t)snprintf(want, sizeof want, "E4#100 ");
    for (unsigned i = 1; i <= id; i++) {
        script_add(&script, (struct frame){CANCEL, .id = i});
        n += (size_t)snprintf(want + n, sizeof want - n, "E6#%u ", i);
    }
    play(wire_send, want);
    wire_peace();
}

static void more_of_a_stream_than_there_is_credit(void **state) {
    (void)state;
    attack("over the credit");
    for (size_t sent = 0; sent <= WEIR_LINKD_CREDIT_BYTES; sent += FRAME_MAX)
        script_add(&script, (struct frame){REQUEST, MORE, LAZY, .id = 7, .n = FRAME_MAX});
    script_add(&script, (struct frame){REQUEST, MORE, LAZY, .id = 7, .n = FRAME_MAX});
    script_add(&script, (struct frame){REQUEST, 0, LAZY, .id = 7});
    play(wire_send, "E1#7 ");
    wire_peace();
}

/* ---- streams of bytes cut anywhere ---- */

/* Three frames: a call, half of one, and the other half. */
static void add_cut_frames(void) {
    script_add(&script, (struct frame){REQUEST, .id = 7, .text = "hello"});
    script_add(&script, (struct frame){REQUEST, MORE, SINK, .id = 8, .text = "half"});
    script_add(&script, (struct frame){REQUEST, 0, SINK, .id = 8, .text = "other half"});
}

static void after_the_cut(size_t cut, bool reset) {
    enum { FIRST = WEIR_LINKD_HEAD_BYTES + 5 };
    ear = (struct ear){.fd = wire_dial(0)};
    wire_send(ear.fd, script.bytes, cut);
    if (cut % 8 == 0)
        wire_testify();
    if (reset) {
        wire_reset(ear.fd);
        return;
    }
    wire_end_output(ear.fd);
    ear_expect(&ear, cut < FIRST      ? "G end"
                     : cut < script.n ? "R7'hello' G end"
                                      : "R7'hello' R8'\0\0\0\x0e' G end");
    wire_hang_up(ear.fd);
}

static void every_cut(bool reset) {
    add_cut_frames();
    for (size_t cut = 0; cut < script.n; cut++) {
        after_the_cut(cut, reset);
        if (cut % 16 == 15)
            wire_peace();
    }
    script.n = 0;
    wire_peace();
}

static void every_cut_then_fin(void **state) {
    (void)state;
    attack("cut, then FIN");
    every_cut(false);
}

static void every_cut_then_reset(void **state) {
    (void)state;
    attack("cut, then RST");
    every_cut(true);
}

static void every_split(void **state) {
    (void)state;
    attack("split in two");
    add_cut_frames();
    ear = (struct ear){.fd = wire_dial(0)};
    for (size_t cut = 1; cut < script.n; cut++) {
        wire_send(ear.fd, script.bytes, cut);
        wire_send(ear.fd, script.bytes + cut, script.n - cut);
        wire_demand(ear_hear(&ear) && ear.type == RESPONSE && ear.id == 7 && ear.length == 5);
        wire_demand(ear_hear(&ear) && ear.type == RESPONSE && ear.id == 8 && ear.length == 4);
        wire_demand(ear.payload[3] == strlen("halfother half"));
    }
    wire_hang_up(ear.fd);
    script.n = 0;
    wire_peace();
}

/* ---- garbage ---- */

enum { GARBAGE_BYTES = 64 << 10, GARBAGE_SEEDS = 16, BENT_SEEDS = 300 };

static void garbage(void **state) {
    (void)state;
    attack("garbage");
    for (uint64_t seed = 1; seed <= GARBAGE_SEEDS; seed++) {
        uint64_t r = seed * 0x9E3779B97F4A7C15u;
        for (script.n = 0; script.n < GARBAGE_BYTES; script.n++)
            script.bytes[script.n] = (uint8_t)(wire_random(&r) >> 32);
        play(wire_send, "E1#0 end");
    }
    wire_peace();
}

/* Good frames with some bits bent, cut at random, ended at random: nothing is promised but peace.
 */
static void bend(uint64_t *r) {
    for (size_t i = 0; i < 6; i++)
        add_frames(&rules[wire_random(r) % (sizeof rules / sizeof rules[0])]);
    for (unsigned bends = wire_random(r) % 4; bends; bends--)
        script.bytes[wire_random(r) % script.n] ^= (uint8_t)(1 << wire_random(r) % 8);
    if (wire_random(r) % 4 == 0)
        script.n = wire_random(r) % script.n;
}

static void bent_frames(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= BENT_SEEDS; seed++) {
        char name[64];
        uint64_t r = seed * 0x9E3779B97F4A7C15u;
        snprintf(name, sizeof name, "bent frames, seed %u", (unsigned)seed);
        attack(name);
        bend(&r);
        ear = (struct ear){.fd = wire_dial(0)};
        for (size_t at = 0, n; at < script.n; at += n) {
            n = 1 + wire_random(&r) % 5000;
            n = n < script.n - at ? n : script.n - at;
            wire_send(ear.fd, script.bytes + at, n);
        }
        script.n = 0;
        if (seed % 2)
            wire_reset(ear.fd);
        else
            wire_hang_up(ear.fd);
        wire_peace();
    }
}

/* ---- the server ---- */

static struct weir_linkd_server_options options;

static int open_server(void **state) {
    static const struct weir_limits limits = {.drain_ms = DRAIN_MS};
    const struct weir_stage line[] = {{&weir_linkd_server, &options}};
    (void)state;
    options = services_options();
    options.frame_max = FRAME_MAX;
    options.calls_max = CALLS_MAX;
    options.held_max = HELD_MAX;
    wire_open(line, 1, &limits, peer_testify, services_balance);
    return 0;
}

static int close_server(void **state) {
    (void)state;
    wire_close();
    assert_int_equal(services_balance(), 0);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_whole),
        cmocka_unit_test(every_rule_a_byte_at_a_time),
        cmocka_unit_test(deadlines_pass),
        cmocka_unit_test(every_wrong_magic),
        cmocka_unit_test(every_wrong_version),
        cmocka_unit_test(every_unknown_type),
        cmocka_unit_test(every_flag_a_type_may_not_carry),
        cmocka_unit_test(more_calls_than_may_be_open),
        cmocka_unit_test(more_bytes_than_may_be_held),
        cmocka_unit_test(more_of_a_stream_than_there_is_credit),
        cmocka_unit_test(every_cut_then_fin),
        cmocka_unit_test(every_cut_then_reset),
        cmocka_unit_test(every_split),
        cmocka_unit_test(garbage),
        cmocka_unit_test(bent_frames),
    };
    return wire_run("linkd", tests, sizeof tests / sizeof tests[0], open_server, close_server);
}
