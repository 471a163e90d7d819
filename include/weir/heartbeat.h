/* A heartbeat for any protocol that has a ping: asks a silent peer, and closes when it stays so.
 *
 * Any bytes from the peer are a sign of life, so a busy connection is never asked, and costs
 * nothing. linkd has it built in (heartbeat_ms in its options). */
#ifndef WEIR_HEARTBEAT_H
#define WEIR_HEARTBEAT_H
#include "weir/chan.h"
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Config of weir_heartbeat_handler; outlives the server or channel. */
struct weir_heartbeat_options {
    size_t size;
    uint32_t interval_ms; /* ping after so long without a byte from the peer; not 0 */
    uint32_t missed_max;  /* pings in a row without an answer before the end: 3 */
    /* Sends the protocol's ping, with weir_ctx_send(c, ...). < 0 closes with that reason. Loop. */
    int (*ping)(struct weir_ctx *c, void *user);
    void *user;
};

/* Anywhere between the socket (or TLS) and the codec. The channel closes with ETIMEDOUT when
 * missed_max pings in a row had no answer: interval_ms * (missed_max + 1) after the last byte.
 * While this side does not read (credit, a handler that takes nothing) nothing is counted; while it
 * does not read because the peer takes no output, a peer that takes none at all counts as silent.
 * It uses read_idle_ms: what the channel's limits say there is replaced. A ping is traffic for
 * idle_ms. Opening fails with EINVAL without interval_ms or ping. */
extern const struct weir_handler weir_heartbeat_handler;

#ifdef __cplusplus
}
#endif
#endif
