/* Places where a tracer may look in (USDT, provider "weir"): a nop each while nobody does, nothing
 * at all where <sys/sdt.h> was missing at build time. docs/tuning.md has scripts.
 *
 *   accept(loop, ref)       a connection has become a channel, its handlers are about to open
 *   read(ref, bytes)        bytes came from the transport
 *   write(ref, bytes)       bytes went into the channel's output queue
 *   flush(ref, bytes)       a batch is handed to the transport
 *   close(loop, ref, why)   a channel is over; why is 0 or a negative error */
#ifndef WEIR_BASE_PROBE_H
#define WEIR_BASE_PROBE_H
#ifdef WEIR_PROBES
#include <sys/sdt.h>
#define WEIR_PROBE_ACCEPT(loop, ref) DTRACE_PROBE2(weir, accept, loop, ref)
#define WEIR_PROBE_READ(ref, bytes) DTRACE_PROBE2(weir, read, ref, bytes)
#define WEIR_PROBE_WRITE(ref, bytes) DTRACE_PROBE2(weir, write, ref, bytes)
#define WEIR_PROBE_FLUSH(ref, bytes) DTRACE_PROBE2(weir, flush, ref, bytes)
#define WEIR_PROBE_CLOSE(loop, ref, why) DTRACE_PROBE3(weir, close, loop, ref, why)
#else
#define WEIR_PROBE_ACCEPT(loop, ref) ((void)0)
#define WEIR_PROBE_READ(ref, bytes) ((void)0)
#define WEIR_PROBE_WRITE(ref, bytes) ((void)0)
#define WEIR_PROBE_FLUSH(ref, bytes) ((void)0)
#define WEIR_PROBE_CLOSE(loop, ref, why) ((void)0)
#endif
#endif
