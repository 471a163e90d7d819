/* Simulation: the same group type, its loops on one thread in virtual time, on a network made of
 * one seed.
 *
 * A test makes a world, serves or connects on its group as a program does, lets raw peers behave
 * badly, and runs. One seed replays everything, bit for bit. The network is as mean as its
 * options say, and a little more: no send completes in the turn it was made in, every transfer
 * is cut, completions come late and in any order, cancels race.
 *
 * Thread: all of it belongs to the thread that made it. Nothing moves outside weir_sim_run. */
#ifndef WEIR_SIM_H
#define WEIR_SIM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "weir/error.h"
#include "weir/loop.h"
#ifdef __cplusplus
extern "C" {
#endif

struct weir_sim;
struct weir_sim_peer;

struct weir_sim_options { /* 0: the default in brackets; rates and limits are off at 0 */
    size_t size;          /* sizeof this struct */
    uint64_t seed;
    unsigned loops;        /* [1] */
    unsigned segment_max;  /* bytes a segment, and so a read, carries at most [1400] */
    uint32_t delay_us_max; /* latency, drawn per segment up to this [1000] */
    uint32_t reset_ppm;    /* per segment: the connection is reset */
    uint32_t enomem_ppm;   /* per receive: no buffer */
    uint32_t emfile_at;    /* open sockets of all loops at which opening another fails with EFDS */
    uint32_t refuse_ppm;   /* per connect: refused */
    uint32_t window_bytes; /* unread bytes of one direction at which its sender waits [65536] */
    uint32_t backlog_max;  /* connections a listener queues at most [4096] */
    uint32_t loss_ppm;     /* per datagram: lost */
    uint32_t reorder_ppm;  /* per datagram: may overtake others */
    uint64_t bytes_per_s;  /* bandwidth of one direction [no limit] */
    uint64_t memory_max;   /* bytes for all loops together [no limit] */
    uint32_t job_us_max;   /* work on a worker is over after up to this, in any order [1000] */
    uint32_t job_enomem_ppm; /* per job: no worker can take it */
    uint32_t cold_ppm;       /* per read of a file: its bytes are not in memory, a worker reads */
    uint32_t file_eio_ppm;   /* per operation on a file that a worker does: EIO */
};

/* A new world; NULL options: defaults. NULL: no memory, or options outside what is documented
 * here. */
struct weir_sim *weir_sim_new(const struct weir_sim_options *o);
/* Its group: what weir_serve and weir_connect want. weir_group_start does nothing here;
 * weir_group_run and weir_group_join run until every loop has ended. The group is freed with the
 * world, never by them. */
struct weir_group *weir_sim_group(struct weir_sim *s);
/* Runs for at most `ms` of virtual time: 1 until(user) held (NULL: never holds), 0 the time is
 * up, ESTOPPED until can not hold any more, because nothing will ever happen. until is asked
 * after every turn and every step of time, outside any loop. */
int weir_sim_run(struct weir_sim *s, uint64_t ms, bool (*until)(void *user), void *user);
/* The file of this name has these bytes from now on, which are copied; who has it open sees them,
 * and so sees it grow or shrink. NULL: the name is gone, who has it open keeps it. Any time. */
void weir_sim_file(struct weir_sim *s, const char *path, const void *bytes, size_t n);
/* The callback that runs now costs this much CPU: deadlines pass, budgets run out, the loop's
 * busy share grows. */
void weir_sim_burn(struct weir_sim *s, uint64_t us);
/* Virtual time in nanoseconds; the clock of every loop. */
uint64_t weir_sim_now(const struct weir_sim *s);
/* Ends the world, peers too. Returns how many sockets, handles, timers, channels and pieces of
 * memory were still alive: 0, or the test has found a leak. A group that was not stopped counts
 * with everything it still had open. */
int weir_sim_free(struct weir_sim *s);

/* Every completion so far as one number: equal seeds and equal programs give equal numbers. */
uint64_t weir_sim_trace(const struct weir_sim *s);
/* How often fault number `index` was injected; *name (unless NULL) is its name, or NULL past the
 * last one. */
uint64_t weir_sim_fault(const struct weir_sim *s, unsigned index, const char **name);

/* Raw peers: scripted ends of a connection with no loop behind them. They live as long as the
 * world. A peer that connects to `address`; NULL: not an address. What comes of it is
 * weir_sim_peer_state. */
struct weir_sim_peer *weir_sim_dial(struct weir_sim *s, const char *address);
/* A raw listener, for clients under test; NULL: not an address, or in use. */
struct weir_sim_peer *weir_sim_listen(struct weir_sim *s, const char *address);
/* The oldest connection to a raw listener that was not taken yet; NULL: none. */
struct weir_sim_peer *weir_sim_accept(struct weir_sim_peer *listener);
/* Queues a copy of n bytes; they leave as the window allows. EGONE: it was shut down, closed or
 * reset. */
int weir_sim_peer_send(struct weir_sim_peer *p, const void *data, size_t n);
/* From now on it reads at most `bytes` per every_us. bytes 0: it stops reading; every_us 0: as
 * fast as it comes (so it begins). */
void weir_sim_peer_read(struct weir_sim_peer *p, uint32_t bytes, uint32_t every_us);
/* End of stream behind everything queued. */
void weir_sim_peer_shutdown(struct weir_sim_peer *p);
/* Resets the connection now. */
void weir_sim_peer_reset(struct weir_sim_peer *p);
/* Resets it as soon as that many bytes were sent in all. */
void weir_sim_peer_reset_at(struct weir_sim_peer *p, uint64_t sent_bytes);
/* Closes like a program that exits: what is queued is lost, unread input means a reset. A raw
 * listener stops listening. */
void weir_sim_peer_close(struct weir_sim_peer *p);
/* Everything it has read so far, valid until the world runs on; returns how many bytes. */
size_t weir_sim_peer_got(const struct weir_sim_peer *p, const uint8_t **out);
/* < 0 refused or reset, 0 open or connecting, 1 the other side ended and everything was read. */
int weir_sim_peer_state(const struct weir_sim_peer *p);
/* Bytes the network has taken from it. */
uint64_t weir_sim_peer_sent(const struct weir_sim_peer *p);

#ifdef __cplusplus
}
#endif
#endif
