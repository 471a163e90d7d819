#include "admin/field.h"
#include "base/compiler.h"
#include "weir/proxy.h"
#include "weir/stats.h"

#define LOOP(member, metric, unit, gauge, help) \
    { #member, metric, help, offsetof(struct weir_loop_stats, member), WEIR__ADMIN_##unit, gauge }

const struct weir__admin_field weir__admin_loop_fields[] = {
    LOOP(at_ns, "at_seconds", NS, true, "The loop's clock when its last turn ended"),
    LOOP(busy_ns, "busy_seconds", NS, false, "Time spent working"),
    LOOP(poll_ns, "poll_seconds", NS, false, "Time asleep, waiting for events"),
    LOOP(cpu_ns, "cpu_seconds", NS, false, "CPU time of the loop's thread"),
    LOOP(turns, "turns", COUNT, false, "Turns of the loop"),
    LOOP(sleeps, "sleeps", COUNT, false, "Turns that slept"),
    LOOP(tasks, "tasks", COUNT, false, "Posted tasks that ran"),
    LOOP(timers, "timers", COUNT, false, "Timers that fired"),
    LOOP(turn_max_ns, "turn_max_seconds", NS, true, "The longest turn so far"),
    LOOP(channels, "channels", COUNT, true, "Channels open now"),
    LOOP(opened, "opened", COUNT, false, "Channels opened"),
    LOOP(closed, "closed", COUNT, false, "Channels closed"),
    LOOP(refused_fds, "refused_fds", COUNT, false, "Accepts that found no free descriptor"),
    LOOP(listeners, "listeners", COUNT, true, "Listeners open now"),
    LOOP(listeners_lost, "listeners_lost", COUNT, false, "Listeners closed by an error"),
    LOOP(handed, "handed", COUNT, false, "Connections that another loop accepted for this one"),
    LOOP(handed_lost, "handed_lost", COUNT, false, "Of those, closed unserved at the end"),
    LOOP(received, "received", COUNT, false, "Receives that brought bytes"),
    LOOP(received_bytes, "received_bytes", BYTES, false, "Bytes received"),
    LOOP(sent, "sent", COUNT, false, "Sends"),
    LOOP(sent_bytes, "sent_bytes", BYTES, false, "Bytes sent"),
    LOOP(control_calls, "control_calls", COUNT, false, "System calls that only ask for events"),
    LOOP(memory_live, "memory_live_bytes", BYTES, true, "Bytes handed out by the loop's pool"),
    LOOP(memory_chunks, "memory_chunk_bytes", BYTES, true, "Bytes the pool has from the system"),
    LOOP(inbox, "inbox", COUNT, false, "Things that came from other threads"),
    LOOP(wakes, "wakes", COUNT, false, "Wake-ups they needed"),
    LOOP(dropped_dead, "dropped_dead", COUNT, false, "Sends and closes that came too late"),
    LOOP(file_copied_bytes, "file_copied_bytes", BYTES, false,
         "File contents that went through memory"),
};
const unsigned weir__admin_n_loop_fields = ARRAY_LEN(weir__admin_loop_fields);

#define REFUSAL(member, reason) \
    { .name = reason, .offset = offsetof(struct weir_proxy_stats, member) }

const struct weir__admin_field weir__admin_refusal_fields[] = {
    REFUSAL(refused_trust, "trust"),   REFUSAL(refused_header, "header"),
    REFUSAL(refused_size, "size"),     REFUSAL(refused_time, "time"),
    REFUSAL(refused_memory, "memory"),
};
const unsigned weir__admin_n_refusal_fields = ARRAY_LEN(weir__admin_refusal_fields);

#define IO(member, metric, help) \
    { #member, metric, help, offsetof(struct weir__io_stats, member), false }
#define RING(member, metric, help) \
    { #member, metric, help, offsetof(struct weir__io_stats, member), true }

/* Without a metric: the loop's own fields have it. */
const struct weir__admin_io_field weir__admin_io_fields[] = {
    IO(waits, NULL, NULL),
    IO(sleeps, NULL, NULL),
    IO(events, NULL, NULL),
    IO(stale, NULL, NULL),
    IO(accepts, NULL, NULL),
    IO(receives, NULL, NULL),
    IO(sends, NULL, NULL),
    IO(partial_sends, NULL, NULL),
    IO(parked, NULL, NULL),
    IO(no_buffer, NULL, NULL),
    IO(opened, NULL, NULL),
    IO(closed, NULL, NULL),
    IO(control_calls, NULL, NULL),
    RING(enters, "ring_enters", "System calls that enter the ring"),
    RING(starved, "ring_starved", "Receives that found no buffer"),
    RING(overflows, "ring_overflows", "Enters that found completions left over"),
    RING(zero_copies, "zero_copies", "Sends that went without a copy"),
    RING(copied_after_all, "copied_after_all", "Zero-copy sends that the kernel copied"),
};
const unsigned weir__admin_n_io_fields = ARRAY_LEN(weir__admin_io_fields);

const char *const weir__admin_io_requests[] = {
    [WEIR__IO_REQUEST_ACCEPT] = "accept", [WEIR__IO_REQUEST_RECV] = "recv",
    [WEIR__IO_REQUEST_SEND] = "send",     [WEIR__IO_REQUEST_ZERO_COPY] = "zero_copy_send",
    [WEIR__IO_REQUEST_POLL] = "poll",     [WEIR__IO_REQUEST_CANCEL] = "cancel",
};
_Static_assert(ARRAY_LEN(weir__admin_io_requests) == WEIR__IO_REQUESTS, "each has a name");
