/* The simulated door: an in-process network in virtual time, driven by one seed. It is the
 * meanest of the three doors: no send ends in the turn it was submitted, every transfer is cut,
 * terminals come late and shuffled, cancels race.
 *
 * Everything here belongs to one thread. Nothing happens by itself: events run in
 * weir__iosim_advance() only, so what a turn submits is never answered within that turn. The
 * simulator's own memory is asserted, not reported: without it there is no result to speak of. */
#ifndef WEIR_IO_SIM_SIM_H
#define WEIR_IO_SIM_SIM_H
#include "io/io.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weir__iosim_net;
struct weir__iosim_peer;

/* 0 means the default in brackets; the _ppm and _at fields are off at 0. */
struct weir__iosim_options {
    uint64_t seed;
    uint32_t segment_max;  /* bytes one segment or one RECEIVED carries at most [1400] */
    uint32_t delay_us_max; /* latency of a segment, drawn per segment [1000] */
    uint32_t window_bytes; /* what one direction holds unread before a send waits [65536] */
    uint32_t backlog_max;  /* upper limit of every listener's backlog [4096] */
    uint64_t bytes_per_s;  /* bandwidth of one direction [unlimited] */
    uint32_t reset_ppm;    /* per segment: the connection is reset */
    uint32_t refuse_ppm;   /* per connect: nobody listens */
    uint32_t enomem_ppm;   /* per receive: no buffer */
    uint32_t loss_ppm;     /* per datagram: lost */
    uint32_t reorder_ppm;  /* per datagram: may overtake */
    uint32_t emfile_at;    /* live handles at which the next one fails with EFDS */
};

enum weir__iosim_fault {
    WEIR__IOSIM_CUT,          /* a send or receive moved less than was there */
    WEIR__IOSIM_DELAY,        /* a segment arrived later than it was sent */
    WEIR__IOSIM_BLOCKED,      /* a send had to wait for the peer's window */
    WEIR__IOSIM_RESET,        /* a connection was reset by chance */
    WEIR__IOSIM_RESET_SCRIPT, /* ... by a peer's script or an abort */
    WEIR__IOSIM_RESET_UNREAD, /* ... because input was unread at close */
    WEIR__IOSIM_RESET_LATE,   /* ... because bytes came for a closed socket */
    WEIR__IOSIM_REFUSED,
    WEIR__IOSIM_BACKLOG_FULL,
    WEIR__IOSIM_EFDS,
    WEIR__IOSIM_ENOMEM,
    WEIR__IOSIM_LATE,        /* a terminal that was due came in a later turn */
    WEIR__IOSIM_HELD,        /* input was there at recv_arm and showed up later */
    WEIR__IOSIM_CANCEL_WON,  /* the op ended as cancelled */
    WEIR__IOSIM_CANCEL_LOST, /* the op ended otherwise after its cancel */
    WEIR__IOSIM_PARKED,      /* a cancel found bytes the kernel had handed over */
    WEIR__IOSIM_HINT,        /* `more` was wrong */
    WEIR__IOSIM_DGRAM_LOST,
    WEIR__IOSIM_DGRAM_REORDERED,
    WEIR__IOSIM_FAULTS,
};

/* o NULL: defaults. ENOMEM. */
int weir__iosim_net_new(const struct weir__iosim_options *o, struct weir__iosim_net **out);
/* After every door was freed; frees the peers too. Returns what the doors' users left open:
 * sockets + handles. */
unsigned weir__iosim_net_free(struct weir__iosim_net *net);
/* One door per loop. mem and slots are the loop's. ENOMEM. */
int weir__iosim_door_new(struct weir__iosim_net *net, const struct weir__io_config *c,
                         struct weir__io **out);

uint64_t weir__iosim_now(const struct weir__iosim_net *net);
/* Moves the clock without running events: CPU that a callback used. */
void weir__iosim_burn(struct weir__iosim_net *net, uint64_t us);
/* Runs every event up to to_ns in order; the clock ends at to_ns, or stays where it is when that
 * is earlier. */
void weir__iosim_advance(struct weir__iosim_net *net, uint64_t to_ns);
/* When the next event is due; UINT64_MAX: none. */
uint64_t weir__iosim_next_ns(const struct weir__iosim_net *net);
/* A number below n from the net's seed, for who drives the loops. */
uint64_t weir__iosim_draw(struct weir__iosim_net *net, uint64_t n);

/* Is there something for this door's next turn: completions, or a wake? Deadlines are the loop's
 * to know. */
bool weir__iosim_due(const struct weir__io *io);
/* The driver lets this door's loop sleep from now until its next wait, which answers 1. */
void weir__iosim_sleep(struct weir__io *io);
/* Until when its last wait meant to sleep, in ns. */
uint64_t weir__iosim_until(const struct weir__io *io);

/* Handles and sockets that are open now. */
unsigned weir__iosim_open(const struct weir__iosim_net *net);
/* Every completion yielded so far, folded: equal seeds and equal callers give equal hashes. */
uint64_t weir__iosim_trace_hash(const struct weir__iosim_net *net);
void weir__iosim_faults(const struct weir__iosim_net *net, uint64_t out[WEIR__IOSIM_FAULTS]);
const char *weir__iosim_fault_name(enum weir__iosim_fault f);

/* What send_file finds in f: bytes stay the caller's until weir__iosim_file_forget. A file
 * nobody described holds (uint8_t)offset, up to its size. n may be less than the file's size: it
 * shrank. */
void weir__iosim_file_content(struct weir__iosim_net *net, const struct weir_file *f,
                              const void *bytes, uint64_t n);
void weir__iosim_file_forget(struct weir__iosim_net *net, const struct weir_file *f);

/* Raw scripted peers: outside any loop, not counted as handles, freed with the net. */
struct weir__iosim_peer *weir__iosim_dial(struct weir__iosim_net *net, const struct weir_addr *to);
/* A raw listener: whoever connects becomes a peer at once. NULL: the address is in use. */
struct weir__iosim_peer *weir__iosim_peer_listen(struct weir__iosim_net *net,
                                                 const struct weir_addr *at);
/* The oldest connection of a raw listener that nobody took; NULL: none. */
struct weir__iosim_peer *weir__iosim_peer_accept(struct weir__iosim_peer *listener);
/* Queues n bytes; they leave as the window allows. EGONE: it was shut, closed or reset. */
int weir__iosim_peer_send(struct weir__iosim_peer *p, const void *data, size_t n);
/* At most `bytes` per every_us; bytes 0 stops reading; every_us 0 (the default) takes everything
 * as it comes. */
void weir__iosim_peer_read(struct weir__iosim_peer *p, uint32_t bytes, uint32_t every_us);
/* FIN behind what was queued. */
void weir__iosim_peer_shutdown(struct weir__iosim_peer *p);
/* RST now. */
void weir__iosim_peer_reset(struct weir__iosim_peer *p);
/* RST once that many bytes were sent in all. */
void weir__iosim_peer_reset_at(struct weir__iosim_peer *p, uint64_t sent_bytes);
/* Close: RST when input is unread, otherwise FIN. What was not sent yet is lost. */
void weir__iosim_peer_close(struct weir__iosim_peer *p);
/* Everything read so far; valid until the next event. */
size_t weir__iosim_peer_got(const struct weir__iosim_peer *p, const uint8_t **out);
/* < 0 refused or reset, 0 open, 1 the other side ended and everything was read. */
int weir__iosim_peer_state(const struct weir__iosim_peer *p);
/* Bytes the network took from it. */
uint64_t weir__iosim_peer_sent(const struct weir__iosim_peer *p);

#endif
