/* A channel: one connection on one loop. This header is for the files of this room and for serve;
 * programs see weir/chan.h.
 *
 *      connect                    accept
 *         |                         |
 *         v       connected         v       close(DRAIN), eof, error
 *     CONNECTING ----------------> OPEN ----------------------------> DRAINING
 *         |                         |                                  |   |
 *         |                         |             all sent, shut down  |   |
 *         | refused, late, closed   |                                  v   |
 *         |                         | close(ABORT), reset          LINGER  | deadline, reset,
 *         |                         |                                  |   | close(ABORT)
 *         |                         |     eof, deadline, close(ABORT)  |   |
 *         v                         v                                  v   v
 *     CLOSING <---------------------+----------------------------------+---+
 *         |
 *         | CLOSED, from the door
 *         v
 *       DEAD ---- end of turn ----> freed
 *
 *   OPEN      reads and writes
 *   DRAINING  sends what was accepted, then shuts the write side down; reads and discards, but
 *             as OPEN while a handler holds
 *   LINGER    waits for the peer's end, bounded in time and bytes, so that closing does not reset
 *             what we sent
 *   CLOSING   the door was asked to close; every terminal comes, then CLOSED
 *   DEAD      handlers' close ran, the ref is dead; memory goes at the end of the turn (chan must
 *             also have left the dirty list)
 *
 * Reading: `paused` holds the reasons not to read; `armed` says what the door was told;
 * `cancelling` that it was told to stop. Reading is wanted when no reason is left, and settle()
 * makes the door agree, once per batch or drain.
 *
 * Writing: queue -> (flush: at most one batch) -> inflight -> terminal. What a zero-copy send has
 * pinned is kept in `pins` from there to its notice. Marks are looked at in the drain only
 * (docs/adr/0001). */
#ifndef WEIR_CHAN_CHAN_H
#define WEIR_CHAN_CHAN_H
#include "base/addr.h"
#include "base/footprint.h"
#include "base/list.h"
#include "base/probe.h"
#include "chan/offload.h"
#include "chan/local.h"
#include "chan/pin.h"
#include "loop/loop.h"
#include "mem/chain.h"
#include "weir/chan.h"
#include <stdalign.h>

enum weir__chan_state {
    WEIR__CHAN_CONNECTING,
    WEIR__CHAN_OPEN,
    WEIR__CHAN_DRAINING,
    WEIR__CHAN_LINGER,
    WEIR__CHAN_CLOSING,
    WEIR__CHAN_DEAD,
};

enum { WEIR__CHAN_BATCH_MIN = 64 * 1024 };
enum { WEIR__CHAN_LATE_MS = 100 };   /* what a channel that came late has for its first bytes */
enum { WEIR__CHAN_STAGES_MAX = 32 }; /* of a plan; frames of attribution are as many */

/* Reasons not to read. */
enum weir__chan_pause {
    WEIR__CHAN_PAUSE_CREDIT = 1,   /* the user's credit is 0 */
    WEIR__CHAN_PAUSE_OUTPUT = 2,   /* our own output is at its high mark */
    WEIR__CHAN_PAUSE_STALL = 4,    /* a handler left what it could have taken */
    WEIR__CHAN_PAUSE_EOF = 8,      /* there is nothing more */
    WEIR__CHAN_PAUSE_BUFFERS = 16, /* no receive buffer: a timer asks again */
};

enum weir__chan_deadline {
    WEIR__CHAN_DL_IDLE,
    WEIR__CHAN_DL_IDLE_READ,
    WEIR__CHAN_DL_IDLE_WRITE,
    WEIR__CHAN_DL_STAGE,
    WEIR__CHAN_DL_BUFFERS,
    WEIR__CHAN_DL_LATE,
    WEIR__CHAN_DEADLINES
};

/* A pipeline, compiled once per server (or client) and loop: limits with their defaults, names
 * interned, sizes summed. */
struct weir__chan_plan {
    struct weir_loop *loop;
    uint32_t refs;
    unsigned n_stages;
    size_t bytes; /* of a channel with its contexts */
    struct weir_limits limits;
    uint32_t quick_bytes; /* output of at least so many is looked at closely: its marks, its batch,
                             whether it goes without a copy */
    struct weir__chan_plan_stage {
        const struct weir_handler *handler;
        const void *config;
        struct weir__loop_handler *account;
    } stages[];
};

/* What a plan counts for a context and a channel lays it out by. */
static inline size_t weir__chan_ctx_bytes(const struct weir_handler *h) {
    return (sizeof(struct weir_ctx) + h->state_size + 15) & ~(size_t)15;
}

struct weir__chan_jobs {         /* of a channel that has offloaded */
    struct weir__base_fifo line; /* ordered jobs in the order of their submit */
    uint32_t out, seats;         /* jobs that are out; the last number given to a context */
};

struct weir_chan {
    /* Hot: every read and write. */
    struct weir__loop_sink sink;
    struct weir_loop *loop;
    struct weir__io *io;
    struct weir__io_sock *sock;
    struct weir_mem *mem;
    struct weir_ctx *head, *tail;
    struct weir_chain queue, inflight;
    uint64_t ref;
    uint8_t state, paused;
    uint8_t armed : 1, cancelling : 1; /* what the door was told about receiving */
    uint8_t in_batch : 1, file_flight : 1, eof_clean : 1, aborted : 1, buried : 1, heard : 1;
    /* late: its loop ends before it was heard; held until its first bytes were answered */
    /* openings_held: the handlers behind one that asked for it are not opened yet */
    uint8_t late : 1, drain_told : 1, openings_held : 1;
    /* job_hold: a hold for its jobs; job_wanted: a handler waits for room for one */
    uint8_t job_hold : 1, job_wanted : 1;
    uint8_t read_while_full : 1; /* as of weir_limits, for this one */
    union { /* anything that keeps a batch from ending with "flushed, go on reading" */
        uint16_t unusual;
        struct {
            uint16_t unwritable : 1, announced : 1, pull_ready : 1, offer : 1, shut_asked : 1,
                write_shut : 1, eof_pending : 1, write_dead : 1;
        };
    };
    uint16_t writers;    /* open contexts with write */
    uint16_t read_dones; /* open contexts with read_done */
    uint16_t stalls;     /* contexts that left what they could have taken */
    uint16_t pulling;    /* depth of pull calls: they may send while draining */
    uint16_t unwalked;   /* sends since held memory was last summed up */
    uint32_t holds; /* handlers that still answer what was accepted: reading and sending go on while
                       draining */
    uint32_t batch; /* most bytes in one flight */
    uint64_t read_ns, written_ns; /* when bytes last came, and last went */
    int64_t credit;
    struct weir__chan_plan *plan;
    struct weir__loop_dirty dirty;
    uint64_t leftover;
    union {
        struct {
            uint64_t staged;
            struct weir__chan_pins *pins; /* NULL: nothing is pinned, nor may be soon */
        };
        struct { /* CONNECTING */
            void (*connected)(struct weir_chan *ch, int status, void *user);
            void *connected_user;
        };
    };
    /* Cold: life. */
    uint32_t flight_slept; /* loop->slept when the flight began, its low half */
    uint8_t batch_streak;
    uint8_t closer_how; /* 0 none, else enum weir_close + 1 */
    uint8_t n_opened;   /* stages of the plan whose turn to open has come */
    int why;
    uint32_t linger_left;
    uint32_t read_idle_ms;                    /* as of weir_limits, for this one */
    uint32_t touched_ms;                      /* as deadlines, 0 = never */
    uint32_t deadlines[WEIR__CHAN_DEADLINES]; /* ms since the loop's clock began, 0 = none */
    union {
        struct weir_timer timer;
        struct weir__loop_grave grave; /* DEAD: there are no deadlines any more */
    };
    struct weir__loop_member member;
    struct weir__loop_node closer; /* a close from elsewhere, between its arrival and its run */
    struct weir__chan_jobs *jobs;  /* NULL: it never had one */
    struct weir__chan_origin *origin;
};

_Static_assert(sizeof(struct weir_chan) <= WEIR__IDLE_CHANNEL, "see base/footprint.h");
_Static_assert(sizeof(struct weir_ctx) + WEIR__IDLE_STATE <= WEIR__IDLE_CONTEXT,
               "see base/footprint.h");

/* --- plan.c */
/* ENOMEM; EINVAL: no stages, a stage without handler, low >= high, or flights larger than they can
 * be. Loop, or before it runs. */
int weir__chan_plan_new(struct weir_loop *l, const struct weir_stage *stages, unsigned n,
                        const struct weir_limits *limits, struct weir__chan_plan **out);
void weir__chan_plan_release(struct weir__chan_plan *p);

/* --- chan.c: birth and death */
/* A channel on an accepted handle, opened at once. Takes handle. 0 also when a handler's open
 * refused: the channel then closes itself. ENOMEM, EFDS. */
int weir__chan_accept(struct weir__chan_plan *p, intptr_t handle);
/* As weir_connect, with a plan and an address; options NULL: defaults. */
int weir__chan_connect(struct weir__chan_plan *p, const struct weir_addr *to, uint32_t connect_ms,
                       const struct weir_socket_options *options,
                       void (*fn)(struct weir_chan *ch, int status, void *user), void *user);
/* A late channel has had its chance. */
void weir__chan_not_late(struct weir_chan *ch);
/* Makes the door agree with what the channel wants now: reading, shutdown, the next step of
 * closing. */
void weir__chan_settle(struct weir_chan *ch);
/* It does already: open, reading, nothing to be told. */
WEIR_INLINE bool weir__chan_is_settled(const struct weir_chan *ch) {
    return ch->state == WEIR__CHAN_OPEN && !ch->unusual && !ch->paused && ch->armed;
}
void weir__chan_dirty(struct weir_chan *ch);
/* A completion that is not about receiving. */
void weir__chan_on_other(struct weir_chan *ch, struct weir__io_done *d);
/* The channel behind a live ref of this loop, or NULL (also for refs of listeners). */
struct weir_chan *weir__chan_of_ref(uint64_t ref);
void weir__chan_invariants(const struct weir_chan *ch);

/* --- read.c */
/* The sink of every channel. */
void weir__chan_on_io(struct weir__loop_sink *s, struct weir__io_done *d);
/* Offers leftovers again, then the end of stream when everything was taken. */
void weir__chan_offer(struct weir_chan *ch);
/* Makes the door's receive arm agree with `paused`. */
void weir__chan_arm_read(struct weir_chan *ch);
/* Calls c's read while it takes and has at least what it wants. */
void weir__chan_read_ctx(struct weir_ctx *c);
void weir__chan_drop_leftover(struct weir_ctx *c);

/* --- write.c */
int weir__chan_queue_more(struct weir_chan *ch, struct weir_chain *out); /* takes out */
/* Nothing waits and out is at most two slices, and small, as usual: takes out and answers true. */
WEIR_INLINE bool weir__chan_queue_first(struct weir_chan *ch, struct weir_chain *out) {
    if (unlikely(ch->queue.bytes | ch->inflight.bytes) ||
        unlikely(out->bytes >= ch->plan->quick_bytes) ||
        unlikely(out->first != out->last && out->first->next != out->last))
        return false;
    WEIR_PROBE_WRITE(ch->ref, out->bytes);
    ch->queue = *out;
    *out = (struct weir_chain){0};
    return true;
}
/* Takes out. EFULL: over held_max. */
WEIR_INLINE int weir__chan_queue(struct weir_chan *ch, struct weir_chain *out) {
    if (unlikely(!weir__chan_queue_first(ch, out)))
        return weir__chan_queue_more(ch, out);
    if (unlikely(!ch->in_batch))
        weir__chan_dirty(ch);
    return 0;
}
/* Hands at most one batch to the door, when nothing is in flight. */
void weir__chan_flush(struct weir_chan *ch);
/* What follows from the door's answer to a send, other than 1. */
void weir__chan_flying(struct weir_chan *ch, int rc);
/* One slice or two (a head and its body), and less than so many bytes: it goes as it is. */
WEIR_INLINE bool weir__chan_queue_is_small(const struct weir_chan *ch, uint32_t bytes) {
    const struct weir_part *first = ch->queue.first, *last = ch->queue.last;
    return ch->queue.bytes < bytes && !first->file &&
           (first == last || (first->next == last && !last->file));
}
WEIR_INLINE void weir__chan_all_aboard(struct weir_chan *ch) {
    ch->inflight = ch->queue;
    ch->queue = (struct weir_chain){0};
}
/* The flush of an open channel in its usual form: all of a small queue, which the door takes at
 * once. False: it was not so; flush and settle see to what is left to do. */
WEIR_INLINE bool weir__chan_flush_small(struct weir_chan *ch) {
    if (unlikely(!ch->queue.bytes || ch->inflight.bytes ||
                 !weir__chan_queue_is_small(ch, ch->plan->quick_bytes)))
        return false;
    weir__chan_all_aboard(ch);
    WEIR_PROBE_FLUSH(ch->ref, ch->inflight.bytes);
    int rc = ch->io->ops->send(ch->io, ch->sock, &ch->inflight);
    if (unlikely(rc != 1)) {
        weir__chan_flying(ch, rc);
        return false;
    }
    ch->written_ns = ch->loop->now_ns;
    weir__mem_chain_fini(&ch->inflight);
    return true;
}
void weir__chan_on_sent(struct weir_chan *ch, struct weir__io_done *d);
/* Looks at the marks and tells the handlers. Only in the drain. */
void weir__chan_marks(struct weir_chan *ch);
void weir__chan_pull(struct weir_chan *ch);
uint64_t weir__chan_held(const struct weir_chan *ch);
static inline bool weir__chan_sent_all(const struct weir_chan *ch) {
    return ch->write_dead || (ch->queue.bytes == 0 && ch->inflight.bytes == 0);
}

/* --- offload.c */
/* The channel is dead: whoever waits in its line hears it. */
void weir__chan_end_jobs(struct weir_chan *ch);

/* --- timing.c: one wheel node per channel, deadlines as small integers, re-armed lazily when it
 * fires */
void weir__chan_deadline_set(struct weir_chan *ch, enum weir__chan_deadline which, uint32_t in_ms);
void weir__chan_deadline_clear(struct weir_chan *ch, enum weir__chan_deadline which);
/* Arms the idle deadlines that the limits have. */
void weir__chan_idle_begin(struct weir_chan *ch);

/* --- pipeline.c: every callback runs inside an attribution frame */
struct weir_ctx *weir__chan_ctx_init(void *where, struct weir_chan *ch,
                                     const struct weir_handler *h,
                                     struct weir__loop_handler *account);
int weir__chan_ctx_open(struct weir_ctx *c, const void *config);
/* Outbound from behind `from` (NULL: from behind the tail). Takes out. */
int weir__chan_send_from(struct weir_chan *ch, struct weir_ctx *from, struct weir_chain *out);
void weir__chan_close_ctxs(struct weir_chan *ch);
void weir__chan_event_all(struct weir_chan *ch, int what, const void *data);
static inline struct weir_ctx *weir__chan_next_reader(struct weir_ctx *c) {
    while (c && !c->handler->read)
        c = c->next;
    return c;
}

static inline void weir__chan_enter(struct weir_ctx *c) {
    weir__loop_frame_enter(&c->chan->loop->account, c->account, c->chan->ref);
}

static inline void weir__chan_leave(struct weir_chan *ch) {
    weir__loop_frame_leave(&ch->loop->account);
}

/* Input is delivered and marks are told: the channel is open, or draining while a handler still
 * answers. */
static inline bool weir__chan_live(const struct weir_chan *ch) {
    return likely(ch->state == WEIR__CHAN_OPEN) || (ch->state == WEIR__CHAN_DRAINING && ch->holds);
}

/* New output is accepted. What is pulled was accepted before, so it may go while draining and
 * behind a shutdown that waits for it. */
static inline bool weir__chan_sendable(const struct weir_chan *ch) {
    if (unlikely(ch->write_dead || ch->write_shut || (ch->shut_asked && !ch->pulling)))
        return false;
    return weir__chan_live(ch) || (ch->state == WEIR__CHAN_DRAINING && ch->pulling);
}

static inline bool weir__chan_callable(const struct weir_ctx *c) {
    return c->opened && !c->removed;
}

#endif
