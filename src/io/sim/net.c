/* The network as a whole: virtual time, chance, the events and who they are for. */
#include "io/sim/net.h"
#include "base/assert.h"
#include "mem/pool.h"
#include <string.h>

#define TRACE_START UINT64_C(0xcbf29ce484222325)

void *weir__iosim_alloc(struct weir__iosim_net *net, size_t n) {
    void *p = weir_mem_new(net->mem, n);
    must(p);
    return p;
}

void *weir__iosim_room(struct weir__iosim_net *net, void *array, uint32_t n, uint32_t *cap) {
    if (n < *cap)
        return array;
    uint32_t more = *cap ? *cap * 2 : 16;
    void **bigger = weir__iosim_alloc(net, more * sizeof *bigger);
    if (n)
        memcpy(bigger, array, n * sizeof *bigger);
    weir_mem_free(array);
    *cap = more;
    return bigger;
}

static void set_defaults(struct weir__iosim_options *o) {
    if (!o->segment_max)
        o->segment_max = 1400;
    if (o->segment_max > WEIR__IO_RECV_BYTES)
        o->segment_max = WEIR__IO_RECV_BYTES;
    if (!o->delay_us_max)
        o->delay_us_max = 1000;
    if (!o->window_bytes)
        o->window_bytes = 65536;
    if (!o->backlog_max)
        o->backlog_max = 4096;
}

int weir__iosim_net_new(const struct weir__iosim_options *o, struct weir__iosim_net **out) {
    struct weir_mem *before = weir__mem_current, *mem = weir_mem_open("sim net");
    weir__mem_enter(before);
    struct weir__iosim_net *net = mem ? weir_mem_new(mem, sizeof *net) : NULL;
    if (!net) {
        weir_mem_close(mem);
        return WEIR_ENOMEM;
    }
    net->mem = mem;
    if (o)
        net->opt = *o;
    set_defaults(&net->opt);
    weir__base_rng_seed(&net->rng, net->opt.seed);
    net->now_ns = 1000000000; /* a clock that starts at 0 would hide "0 = never" mistakes */
    net->trace = TRACE_START;
    net->next_port = 20000;
    weir__base_list_init(&net->streams);
    weir__base_list_init(&net->ports);
    weir__base_list_init(&net->peers);
    weir__base_list_init(&net->contents);
    *out = net;
    return 0;
}

static void dispatch(struct weir__iosim_net *net, const struct weir__iosim_event *e) {
    switch ((enum weir__iosim_event_kind)e->kind) {
    case WEIR__IOSIM_EV_SEGMENT:
    case WEIR__IOSIM_EV_FIN:
    case WEIR__IOSIM_EV_RESET:
    case WEIR__IOSIM_EV_WINDOW:
    case WEIR__IOSIM_EV_SYN:
    case WEIR__IOSIM_EV_UP: weir__iosim_stream_event(net, e); break;
    case WEIR__IOSIM_EV_DGRAM: weir__iosim_dgram_arrive(net, e->seg); break;
    case WEIR__IOSIM_EV_TERMINAL:
    case WEIR__IOSIM_EV_CANCEL:
    case WEIR__IOSIM_EV_READY:
    case WEIR__IOSIM_EV_UNPIN:
    case WEIR__IOSIM_EV_CLOSED: weir__iosim_sock_event(e); break;
    case WEIR__IOSIM_EV_READ: weir__iosim_peer_sip(e->object); break;
    }
}

/* What is left when the doors are gone still names streams and peers: it runs out before they
 * are freed. */
static void run_out(struct weir__iosim_net *net) {
    while (net->events.n) {
        struct weir__iosim_event e = weir__iosim_heap_pop(&net->events);
        net->now_ns = e.at_ns > net->now_ns ? e.at_ns : net->now_ns;
        dispatch(net, &e);
    }
}

unsigned weir__iosim_net_free(struct weir__iosim_net *net) {
    must(net->doors == 0);
    unsigned left = net->leaked + net->handles;
    for (uint32_t i = 0; i < net->n_files; i++)
        if (net->files[i])
            weir__iosim_handle_close(net, (intptr_t)i + WEIR__IOSIM_HANDLE_MIN, true);
    weir__iosim_peers_free(net);
    run_out(net);
    must(weir__base_list_empty(&net->streams) && weir__base_list_empty(&net->ports));
    struct weir__base_link *link;
    while ((link = weir__base_list_pop_front(&net->contents)))
        weir_mem_free(container_of(link, struct weir__iosim_content, link));
    weir__iosim_heap_fini(&net->events);
    weir_mem_free(net->files);
    struct weir_mem *mem = net->mem;
    weir_mem_free(net);
    weir__mem_collect(mem);
    must(weir_mem_live(mem) == 0);
    weir_mem_close(mem);
    return left;
}

/* --- time and chance ------------------------------------------------------------------------- */

uint64_t weir__iosim_now(const struct weir__iosim_net *net) {
    return net->now_ns;
}

void weir__iosim_burn(struct weir__iosim_net *net, uint64_t us) {
    net->now_ns += us * 1000;
}

uint64_t weir__iosim_next_ns(const struct weir__iosim_net *net) {
    return net->events.n ? net->events.at[0].at_ns : UINT64_MAX;
}

void weir__iosim_advance(struct weir__iosim_net *net, uint64_t to_ns) {
    if (to_ns < net->now_ns)
        to_ns = net->now_ns;
    while (net->events.n && net->events.at[0].at_ns <= to_ns) {
        struct weir__iosim_event e = weir__iosim_heap_pop(&net->events);
        if (e.at_ns > net->now_ns)
            net->now_ns = e.at_ns;
        dispatch(net, &e);
    }
    net->now_ns = to_ns;
}

uint64_t weir__iosim_draw(struct weir__iosim_net *net, uint64_t n) {
    return weir__base_rng_below(&net->rng, n);
}

bool weir__iosim_coin(struct weir__iosim_net *net, uint32_t one_in) {
    return weir__base_rng_below(&net->rng, one_in) == 0;
}

uint64_t weir__iosim_latency_ns(struct weir__iosim_net *net) {
    return weir__base_rng_below(&net->rng, (uint64_t)net->opt.delay_us_max * 1000) + 1;
}

void weir__iosim_at(struct weir__iosim_net *net, uint64_t at_ns, struct weir__iosim_event e) {
    e.at_ns = at_ns;
    e.tie = weir__base_rng_next(&net->rng);
    e.seq = net->seq++;
    weir__iosim_heap_push(&net->events, net->mem, &e);
}

/* --- what it did ----------------------------------------------------------------------------- */

unsigned weir__iosim_open(const struct weir__iosim_net *net) {
    return net->socks + net->handles;
}

void weir__iosim_fold(struct weir__iosim_net *net, uint64_t v) {
    uint64_t x = net->trace ^ v;
    net->trace = weir__base_splitmix(&x);
}

void weir__iosim_fold_bytes(struct weir__iosim_net *net, const uint8_t *p, size_t n) {
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        net->trace = (net->trace ^ v) * UINT64_C(0x9e3779b97f4a7c15);
        net->trace ^= net->trace >> 29;
    }
    for (; n; p++, n--)
        net->trace = (net->trace ^ *p) * UINT64_C(0x100000001b3);
}

uint64_t weir__iosim_trace_hash(const struct weir__iosim_net *net) {
    return net->trace;
}

void weir__iosim_fault(struct weir__iosim_net *net, enum weir__iosim_fault f) {
    net->faults[f]++;
}

void weir__iosim_faults(const struct weir__iosim_net *net, uint64_t out[WEIR__IOSIM_FAULTS]) {
    memcpy(out, net->faults, sizeof net->faults);
}

const char *weir__iosim_fault_name(enum weir__iosim_fault f) {
    static const char *const names[] = {
        [WEIR__IOSIM_CUT] = "cut",
        [WEIR__IOSIM_DELAY] = "delay",
        [WEIR__IOSIM_BLOCKED] = "blocked",
        [WEIR__IOSIM_RESET] = "reset",
        [WEIR__IOSIM_RESET_SCRIPT] = "reset-script",
        [WEIR__IOSIM_RESET_UNREAD] = "reset-unread",
        [WEIR__IOSIM_RESET_LATE] = "reset-late",
        [WEIR__IOSIM_REFUSED] = "refused",
        [WEIR__IOSIM_BACKLOG_FULL] = "backlog-full",
        [WEIR__IOSIM_EFDS] = "efds",
        [WEIR__IOSIM_ENOMEM] = "enomem",
        [WEIR__IOSIM_LATE] = "late-terminal",
        [WEIR__IOSIM_HELD] = "held-input",
        [WEIR__IOSIM_CANCEL_WON] = "cancel-won",
        [WEIR__IOSIM_CANCEL_LOST] = "cancel-lost",
        [WEIR__IOSIM_PARKED] = "parked",
        [WEIR__IOSIM_HINT] = "wrong-hint",
        [WEIR__IOSIM_DGRAM_LOST] = "dgram-lost",
        [WEIR__IOSIM_DGRAM_REORDERED] = "dgram-reordered",
    };
    _Static_assert(ARRAY_LEN(names) == WEIR__IOSIM_FAULTS, "every fault has a name");
    return (unsigned)f < WEIR__IOSIM_FAULTS ? names[f] : NULL;
}
