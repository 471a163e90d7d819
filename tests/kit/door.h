/* A door without a world: completions are what the test queues, time is what the test says, every
 * call is counted. And a loop on it. */
#ifndef WEIR_TESTS_KIT_DOOR_H
#define WEIR_TESTS_KIT_DOOR_H
#include "io/io.h"
#include "loop/loop.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { KIT_DOOR_QUEUE = 2048, KIT_DOOR_SOCKS = 8 };

struct kit_sock {
    struct weir__io_sock s;
    bool used, armed, closing, aborted;
    int64_t credit;
};

struct kit_door {
    struct weir__io io;
    uint64_t now_ns, tick_ns; /* tick: every look at the clock costs so much */
    uint64_t asked_ns;        /* what the last wait was asked to wait for */
    unsigned waits, submits, starts, nexts;
    int refuse; /* < 0: opening a socket answers this */
    int broken; /* < 0: wait answers this */
    bool stuck; /* close never completes */
    _Atomic unsigned wakes;
    unsigned head, tail;
    struct weir__io_done queue[KIT_DOOR_QUEUE];
    struct kit_sock socks[KIT_DOOR_SOCKS];
    void (*on_submit)(struct kit_door *d);
};

struct kit_loop {
    struct kit_door door;
    struct weir__loop_inbox *inbox;
    struct weir_mem *mem, *mem_before;
    struct weir_loop *loop, *before;
};

/* A loop of its own on this thread. */
void kit_loop_open(struct kit_loop *k);
/* Stops and frees it; nothing may be left. */
void kit_loop_close(struct kit_loop *k);
/* Frees one that has ended (or never turned). */
void kit_loop_free(struct kit_loop *k);
/* A completion for this sink. */
void kit_door_queue(struct kit_door *d, struct weir__loop_sink *sink, struct weir__io_done done);
/* Turns as long as something happens at this time. */
void kit_loop_settle(struct kit_loop *k);

#endif
