#include "chan/chan.h"
#include "mem/raw.h"

static uint32_t or_default(uint32_t value, uint32_t otherwise) {
    return value ? value : otherwise;
}

/* Deadlines are differences of 32-bit milliseconds: twelve days are as good as for ever. */
static uint32_t ms_or(uint32_t value, uint32_t otherwise) {
    uint32_t ms = or_default(value, otherwise);
    return ms < INT32_MAX / 2 ? ms : INT32_MAX / 2;
}

static struct weir_limits with_defaults(const struct weir_limits *given) {
    struct weir_limits l = given ? *given : (struct weir_limits){0};
    l.high_bytes = or_default(l.high_bytes, 64 * 1024);
    l.low_bytes = or_default(l.low_bytes, l.high_bytes / 2);
    l.held_max = or_default(l.held_max, 16 * 1024 * 1024);
    l.linger_ms = ms_or(l.linger_ms, 1000);
    l.drain_ms = ms_or(l.drain_ms, 5000);
    l.idle_ms = ms_or(l.idle_ms, 0);
    l.read_idle_ms = ms_or(l.read_idle_ms, 0);
    l.write_idle_ms = ms_or(l.write_idle_ms, 0);
    l.offload_max = or_default(l.offload_max, 64);
    return l;
}

/* A flight that large must be possible. */
static bool flights_valid(const struct weir_limits *l) {
    uint32_t largest = or_default(l->batch_bytes, WEIR__IO_SEND_BYTES_MAX);
    return largest <= WEIR__IO_SEND_BYTES_MAX && l->zero_copy_bytes <= largest;
}

static uint32_t quick_bytes(const struct weir_limits *l) {
    uint32_t n = or_default(l->batch_bytes, WEIR__CHAN_BATCH_MIN);
    if (l->high_bytes < n)
        n = l->high_bytes;
    if (l->zero_copy_bytes && l->zero_copy_bytes < n)
        n = l->zero_copy_bytes;
    return n;
}

static bool stages_valid(const struct weir_stage *stages, unsigned n) {
    if (!stages)
        return false;
    for (unsigned i = 0; i < n; i++)
        if (!stages[i].handler || !stages[i].handler->name)
            return false;
    return n > 0 && n <= WEIR__CHAN_STAGES_MAX;
}

int weir__chan_plan_new(struct weir_loop *l, const struct weir_stage *stages, unsigned n,
                        const struct weir_limits *limits, struct weir__chan_plan **out) {
    struct weir_limits full = with_defaults(limits);
    if (!stages_valid(stages, n) || full.low_bytes >= full.high_bytes || !flights_valid(&full))
        return WEIR_EINVAL;
    struct weir__chan_plan *p = weir__mem_raw_new(sizeof *p + n * sizeof p->stages[0]);
    if (!p)
        return WEIR_ENOMEM;
    p->loop = l;
    p->refs = 1;
    p->n_stages = n;
    p->limits = full;
    p->quick_bytes = quick_bytes(&full);
    p->bytes = (sizeof(struct weir_chan) + 15) & ~(size_t)15;
    for (unsigned i = 0; i < n; i++) {
        p->stages[i].handler = stages[i].handler;
        p->stages[i].config = stages[i].config;
        p->stages[i].account = weir__loop_intern(&l->account, stages[i].handler->name);
        p->bytes += weir__chan_ctx_bytes(stages[i].handler);
    }
    *out = p;
    return 0;
}

void weir__chan_plan_release(struct weir__chan_plan *p) {
    check(p->refs > 0);
    if (--p->refs == 0)
        weir__mem_raw_free(p);
}
