/* Peers that never read, never finish, leave in the middle or change their minds: memory stays
 * below a bound computed from the limits, and comes back whole. */
#include "wire/peer.h"
#include "wire/services.h"
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    FRAME_MAX = 16 << 10,
    HIGH_BYTES = 64 << 10,  /* of the channel's output */
    BATCH_BYTES = 64 << 10, /* in flight */
    STAGE_MAX = 64 << 10,   /* of a stream */
    ROUND = 64 << 10,    /* answers that one round of the codec collects before it looks at marks */
    RECEIVE = 128 << 10, /* a receive and the rest of the buffer it lies in */
    OBJECTS = 32 << 10,  /* channel, socket, links, call, headers */
    /* Nobody reads: the output is filled once over its mark by a round, and a batch is in flight. A
     * queued slice keeps a buffer of at most four times its length. Half a frame waits for its end.
     */
    HELD_BOUND = 4 * (HIGH_BYTES + ROUND + BATCH_BYTES) + FRAME_MAX + RECEIVE + OBJECTS,
    /* A stream adds what it may stage and the piece it may overshoot by. */
    STREAM_BOUND = HELD_BOUND + 2 * (STAGE_MAX + 4096),
};

enum { REQUEST = WEIR_LINKD_REQUEST, RESPONSE, ERROR, PING, PONG, CANCEL, GOAWAY, CREDIT };
enum { MORE = WEIR_LINKD_MORE };

static struct script script;
static struct ear ear;

static void attack(const char *name) {
    script.n = 0;
    wire_attack(name);
}

static void send_script(int fd) {
    wire_send(fd, script.bytes, script.n);
    script.n = 0;
}

/* ---- never reads ---- */

enum { CALLS = 1000, CALL_BYTES = FRAME_MAX, SMALL_WINDOW = 16 << 10 };

struct flood {
    int fd;
    struct frame frame; /* with numbers from 1 on where it has an id */
    unsigned next, n;
    size_t at; /* sent of the script */
};

/* Sends what the socket takes. True: all is sent. */
static bool pour(struct flood *f) {
    while (f->next < f->n) {
        if (f->at == script.n) {
            f->next++;
            f->frame.id += f->frame.id != 0;
            f->at = script.n = 0;
            if (f->next < f->n)
                script_add(&script, f->frame);
            continue;
        }
        size_t sent = wire_send_some(f->fd, script.bytes + f->at, script.n - f->at);
        if (!sent)
            return false;
        f->at += sent;
    }
    return true;
}

/* Until the server's patience is full: it has read all it will, and says so by a closed window. */
static void pour_until_blocked(struct flood *f, uint64_t bound) {
    script_add(&script, f->frame);
    do {
        wire_demand(!pour(f)); /* it took everything: then it holds it, or the flood is too small */
        wire_bounded(bound);
    } while (wire_writable(f->fd, 50));
    wire_testify();
    wire_bounded(bound);
}

static void a_thousand_calls_and_nobody_reads(void **state) {
    struct flood f = {.frame = {REQUEST, .id = 1, .n = CALL_BYTES}, .n = CALLS};
    unsigned heard = 0;
    (void)state;
    attack("a thousand calls, never read");
    f.fd = wire_dial(SMALL_WINDOW);
    pour_until_blocked(&f, HELD_BOUND);
    ear = (struct ear){.fd = f.fd};
    for (; heard < CALLS; heard++) {
        (void)pour(&f);
        wire_demand(ear_hear(&ear) && ear.type == RESPONSE && ear.id == heard + 1);
        wire_demand(ear.length == CALL_BYTES && !ear.flags);
        for (size_t i = 0; i < CALL_BYTES; i++)
            wire_demand(ear.payload[i] == peer_pattern(ear.id, i));
        if (heard % 100 == 0)
            wire_bounded(HELD_BOUND);
    }
    wire_hang_up(f.fd);
    wire_peace();
}

static void flood_and_leave(const char *name, struct frame frame, uint64_t bound) {
    struct flood f = {.frame = frame, .n = UINT32_MAX};
    attack(name);
    f.fd = wire_dial(SMALL_WINDOW);
    pour_until_blocked(&f, bound);
    wire_reset(f.fd);
    wire_peace();
}

static void floods_that_provoke_answers(void **state) {
    (void)state;
    flood_and_leave("PING, never read", (struct frame){PING, .n = 64}, HELD_BOUND);
    flood_and_leave("id 0, never read", (struct frame){REQUEST, .n = 10}, HELD_BOUND);
    flood_and_leave("unknown service, never read",
                    (struct frame){REQUEST, 0, SERVICE_NONE, .id = 1, .n = 900}, HELD_BOUND);
    flood_and_leave("echo, never read, then RST", (struct frame){REQUEST, .id = 1, .n = 3000},
                    HELD_BOUND);
}

/* ---- streams ---- */

enum { STREAM_BYTES = 1 << 20 };

static void ask_for_stream(uint64_t id, uint32_t bytes) {
    script_add(&script, (struct frame){REQUEST, 0, SERVICE_STREAM, .id = id, .n = 4});
    peer_put32(script.bytes + script.n - 4, bytes);
}

static void give_credit(uint64_t id, uint32_t bytes) {
    script_add(&script, (struct frame){CREDIT, .id = id, .n = 4});
    peer_put32(script.bytes + script.n - 4, bytes);
}

/* Hears one piece of stream `id` at *at. True: it was the last. */
static bool hear_piece(uint64_t id, uint64_t *at) {
    wire_demand(ear_hear(&ear) && ear.type == RESPONSE && ear.id == id);
    for (size_t i = 0; i < ear.length; i++)
        wire_demand(ear.payload[i] == peer_pattern(id, (size_t)*at + i));
    *at += ear.length;
    return !(ear.flags & MORE);
}

static void a_stream_without_credit_waits(void **state) {
    uint64_t at = 0;
    (void)state;
    attack("a stream without credit");
    ear = (struct ear){.fd = wire_dial(0)};
    ask_for_stream(7, STREAM_BYTES);
    send_script(ear.fd);
    while (at < WEIR_LINKD_CREDIT_BYTES)
        wire_demand(!hear_piece(7, &at));
    wire_demand(at == WEIR_LINKD_CREDIT_BYTES);
    script_add(&script, (struct frame){REQUEST, .id = 8, .text = "others go on"});
    send_script(ear.fd);
    ear_expect(&ear, "R8'others go on' ");
    wire_bounded(STREAM_BOUND);
    for (unsigned i = 0; i < 3; i++)
        give_credit(7, UINT32_MAX); /* more than any stream, three times */
    send_script(ear.fd);
    while (!hear_piece(7, &at))
        ;
    wire_demand(at == STREAM_BYTES);
    wire_hang_up(ear.fd);
    wire_peace();
}

static void a_stream_that_nobody_reads(void **state) {
    (void)state;
    attack("streams, never read");
    ear = (struct ear){.fd = wire_dial(SMALL_WINDOW)};
    for (uint64_t id = 1; id <= 4; id++) {
        ask_for_stream(id, 64 << 20);
        give_credit(id, UINT32_MAX);
    }
    send_script(ear.fd);
    for (unsigned i = 0; i < 50; i++) {
        wire_testify();
        wire_bounded(STREAM_BOUND + 3 * 2 * (STAGE_MAX + 4096));
    }
    wire_reset(ear.fd);
    wire_peace();
}

static void streams_that_are_left(void **state) {
    static const unsigned cuts[] = {0,     1,     19,    20,    21,     100,   4096,
                                    20000, 32788, 32789, 65576, 200000, 262144};
    static uint8_t sink[1 << 18];
    (void)state;
    for (size_t i = 0; i < 3 * (sizeof cuts / sizeof cuts[0]); i++) {
        size_t left = cuts[i / 3];
        attack(i % 3 == 0   ? "RST inside a stream"
               : i % 3 == 1 ? "FIN inside a stream"
                            : "CANCEL inside a stream");
        int fd = wire_dial(0);
        ask_for_stream(7, STREAM_BYTES);
        send_script(fd);
        while (left) {
            long r = wire_recv(fd, sink, left);
            wire_demand(r > 0);
            left -= (size_t)r;
        }
        if (i % 3 == 2) {
            script_add(&script, (struct frame){CANCEL, .id = 7});
            send_script(fd);
        }
        if (i % 3 == 0)
            wire_reset(fd);
        else
            wire_hang_up(fd);
        wire_peace();
    }
}

/* ---- half an end ---- */

static void what_was_asked_before_the_fin_is_answered(void **state) {
    (void)state;
    attack("half-close");
    ear = (struct ear){.fd = wire_dial(0)};
    script_add(&script, (struct frame){REQUEST, 0, SERVICE_LATER, .id = 7,
                                       .text = "\x05"
                                               "five"});
    script_add(&script, (struct frame){REQUEST, 0, SERVICE_LATER, .id = 8,
                                       .text = "\x01"
                                               "one"});
    script_add(&script, (struct frame){REQUEST, .id = 9, .text = "now"});
    send_script(ear.fd);
    wire_end_output(ear.fd);
    ear_expect(&ear, "R9'now' G R8'\x01"
                     "one' R7'\x05"
                     "five' end");
    wire_hang_up(ear.fd);
    wire_peace();
}

static void half_a_request_before_the_fin_is_over(void **state) {
    (void)state;
    attack("half a streamed request, then FIN");
    for (unsigned service = SERVICE_SINK; service < SERVICE_NONE; service++) {
        ear = (struct ear){.fd = wire_dial(0)};
        script_add(&script, (struct frame){REQUEST, MORE, service, .id = 7, .text = "half"});
        send_script(ear.fd);
        wire_end_output(ear.fd);
        ear_expect(&ear, "G end");
        wire_hang_up(ear.fd);
        wire_peace();
    }
}

/* ---- second thoughts ---- */

/* The answer and the CANCEL cross: one of both endings comes, never two. */
static void cancel_races(void **state) {
    enum { RACES = 100 };
    uint8_t heard[RACES + 1] = {0};
    (void)state;
    attack("CANCEL races");
    ear = (struct ear){.fd = wire_dial(0)};
    for (unsigned id = 1; id <= RACES; id++) {
        char after[2] = {(char)(1 + id % 3), 0};
        script_add(&script, (struct frame){REQUEST, 0, SERVICE_LATER, .id = id, .text = after});
        send_script(ear.fd);
        if (id % 2)
            wire_testify(); /* about as long as the timer */
        script_add(&script, (struct frame){CANCEL, .id = id});
        send_script(ear.fd);
    }
    script_add(&script, (struct frame){REQUEST, 0, SERVICE_LATER, .id = 4242, .text = "\x14"});
    send_script(ear.fd);
    for (;;) {
        wire_demand(ear_hear(&ear) && (ear.type == RESPONSE || ear.type == ERROR));
        if (ear.id == 4242)
            break; /* every timer before it was due long ago */
        wire_demand(ear.id >= 1 && ear.id <= RACES && !heard[ear.id]++);
        wire_demand(ear.type == RESPONSE || ear.payload[1] == WEIR_LINKD_CANCELLED);
    }
    for (unsigned id = 1; id <= RACES; id++)
        wire_demand(heard[id] == 1);
    wire_hang_up(ear.fd);
    wire_peace();
}

static void open_calls_that_are_left(void **state) {
    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        attack(i % 2 ? "open calls, then RST" : "open calls, then FIN and no more reading");
        int fd = wire_dial(0);
        for (unsigned id = 1; id <= 200; id++)
            script_add(&script,
                       (struct frame){REQUEST, 0, id % 2 ? SERVICE_LATER : SERVICE_LAZY, .id = id,
                                      .text = "\x03"
                                              "abc"});
        wire_send(fd, script.bytes, script.n / 20 * (i + 1));
        if (i % 4 > 1)
            wire_testify();
        if (i % 2)
            wire_reset(fd);
        else
            wire_hang_up(fd);
        wire_peace();
    }
}

/* ---- slow ---- */

static void fifty_that_send_a_byte_a_turn(void **state) {
    enum { SLOW = 50 };
    int fds[SLOW];
    (void)state;
    attack("fifty slow senders");
    script_add(&script, (struct frame){REQUEST, .id = 7, .text = "slow"});
    for (unsigned i = 0; i < SLOW; i++)
        fds[i] = wire_dial(0);
    for (size_t at = 0; at < script.n; at++) {
        for (unsigned i = 0; i < SLOW; i++)
            wire_send(fds[i], script.bytes + at, 1);
        wire_testify();
        wire_bounded((uint64_t)SLOW * 4096);
    }
    for (unsigned i = 0; i < SLOW; i++) {
        ear = (struct ear){.fd = fds[i]};
        ear_expect(&ear, "R7'slow' ");
        wire_hang_up(fds[i]);
    }
    wire_peace();
}

/* A promise of a frame that never comes costs nothing but what has come. */
static void fifty_that_promise_a_frame(void **state) {
    enum { PROMISES = 50 };
    int fds[PROMISES];
    (void)state;
    attack("fifty promises of a frame");
    script_add(&script, (struct frame){REQUEST, .id = 7, .text = "x", .lie = FRAME_MAX});
    for (unsigned i = 0; i < PROMISES; i++) {
        fds[i] = wire_dial(0);
        wire_send(fds[i], script.bytes, script.n);
    }
    for (unsigned i = 0; i < 10; i++) {
        wire_testify();
        wire_bounded((uint64_t)PROMISES * 4096);
    }
    for (unsigned i = 0; i < PROMISES; i++)
        wire_reset(fds[i]);
    wire_peace();
}

/* ---- the end ---- */

/* A stop while calls are open: no new ones, the open ones are answered, then the end. Last: the
 * server is gone after it. */
static void a_stop_with_open_calls(void **state) {
    struct ear *late = &ear;
    static struct ear new_call;
    (void)state;
    attack("stop with open calls");
    *late = (struct ear){.fd = wire_dial(0)};
    new_call = (struct ear){.fd = wire_dial(0)};
    script_add(&script, (struct frame){REQUEST, 0, SERVICE_LATER, .id = 7,
                                       .text = "\x78"
                                               "open"});
    wire_send(late->fd, script.bytes, script.n);
    send_script(new_call.fd);
    script_add(&script,
               (struct frame){PING, .text = "both are there"}); /* and so is what was before */
    wire_send(late->fd, script.bytes, script.n);
    send_script(new_call.fd);
    ear_expect(late, "P'both are there' ");
    ear_expect(&new_call, "P'both are there' ");
    weir_group_stop(wire.group, WIRE_PATIENCE_MS);
    ear_expect(late, "G R7'\x78"
                     "open' end");
    ear_expect(&new_call, "G R7'\x78"
                          "open' end");
    wire_hang_up(late->fd);
    wire_hang_up(new_call.fd);
}

/* ---- the server ---- */

static struct weir_linkd_server_options options;

static int open_server(void **state) {
    static const struct weir_limits limits = {
        .high_bytes = HIGH_BYTES, .batch_bytes = BATCH_BYTES, .drain_ms = 5000};
    const struct weir_stage line[] = {{&weir_linkd_server, &options}};
    (void)state;
    options = services_options();
    options.frame_max = FRAME_MAX;
    options.stage_max = STAGE_MAX;
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
        cmocka_unit_test(a_thousand_calls_and_nobody_reads),
        cmocka_unit_test(floods_that_provoke_answers),
        cmocka_unit_test(a_stream_without_credit_waits),
        cmocka_unit_test(a_stream_that_nobody_reads),
        cmocka_unit_test(streams_that_are_left),
        cmocka_unit_test(what_was_asked_before_the_fin_is_answered),
        cmocka_unit_test(half_a_request_before_the_fin_is_over),
        cmocka_unit_test(cancel_races),
        cmocka_unit_test(open_calls_that_are_left),
        cmocka_unit_test(fifty_that_send_a_byte_a_turn),
        cmocka_unit_test(fifty_that_promise_a_frame),
        cmocka_unit_test(a_stop_with_open_calls),
    };
    return wire_run("linkd flow", tests, sizeof tests / sizeof tests[0], open_server, close_server);
}
