#include "io/uring/pin.h"
#include "base/assert.h"
#include <errno.h>

static struct weir__uring_pins *pins_of(struct weir__uring *d, struct weir__uring_sock *s) {
    if (!s->pins) {
        s->pins = weir_mem_new(d->k.io.mem, sizeof *s->pins);
        if (s->pins)
            s->pins->current = -1;
    }
    return s->pins;
}

static bool in_flight(const struct weir__uring_sock *s) {
    return s->pins && s->pins->current >= 0;
}

bool weir__uring_pin_begin(struct weir__uring *d, struct weir__uring_sock *s,
                           const struct weir_chain *c) {
    if (!(d->has & WEIR__URING_ZERO_COPY) || c->bytes < WEIR__URING_PIN_BYTES_MIN)
        return false;
    struct weir__uring_pins *p = pins_of(d, s);
    if (!p || p->off || p->used == UINT32_MAX)
        return false;
    p->current = __builtin_ctz(~p->used);
    p->used |= UINT32_C(1) << p->current;
    p->copied &= ~(UINT32_C(1) << p->current);
    p->copying = false;
    weir__io_count(&d->k.io.stats.zero_copies, 1);
    return true;
}

uint64_t weir__uring_pin_token(const struct weir__uring_sock *s) {
    unsigned kind = in_flight(s) && !s->pins->copying
                        ? WEIR__URING_ZC_KIND + (unsigned)s->pins->current
                        : WEIR__IO_SEND;
    return weir__io_token(s->k.base.ref, kind);
}

void weir__uring_pin_prepare(struct weir__uring *d, struct weir__uring_sock *s,
                             struct uring_sqe *e) {
    (void)d;
    if (likely(!in_flight(s)) || s->pins->copying)
        return;
    e->opcode = e->opcode == OP_SEND ? OP_SEND_ZC : OP_SENDMSG_ZC;
    e->ioprio |= SEND_ZC_REPORT_USAGE;
    e->user_data = weir__uring_pin_token(s);
    s->pins->notices[s->pins->current]++;
}

bool weir__uring_pin_gives_up(struct weir__uring_sock *s, int res) {
    if (!in_flight(s) || s->pins->copying || (res != -ENOMEM && res != -EOPNOTSUPP))
        return false;
    s->pins->copying = s->pins->off = true;
    return true;
}

static void let_go(struct weir__uring *d, struct weir__uring_sock *s, unsigned i) {
    struct weir__uring_pins *p = s->pins;
    uint32_t bit = UINT32_C(1) << i;
    if (p->notices[i] || !(p->pinned & bit))
        return;
    p->due |= bit;
    if (!(s->k.ended & WEIR__KERNEL_UNPINNED))
        weir__kernel_end(&d->k, &s->k, WEIR__KERNEL_UNPINNED, 0);
}

static void judge(struct weir__uring *d, struct weir__uring_pins *p, unsigned i, bool copied) {
    if (!copied) {
        p->vain = 0;
        return;
    }
    weir__io_count(&d->k.io.stats.copied_after_all, 1);
    p->copied |= UINT32_C(1) << i;
    if (++p->vain >= WEIR__URING_PIN_VAIN_MAX)
        p->off = true;
}

bool weir__uring_pin_completed(struct weir__uring *d, struct weir__uring_sock *s,
                               const struct uring_cqe *e) {
    unsigned i = weir__io_token_kind(e->user_data) - WEIR__URING_ZC_KIND;
    must(i < WEIR__URING_PINS_MAX && s->pins && s->pins->notices[i]);
    bool notice = e->flags & CQE_NOTIF;
    if (!notice && e->flags & CQE_MORE)
        return true;
    s->pins->notices[i]--;
    if (notice)
        judge(d, s->pins, i, (uint32_t)e->res & NOTIF_COPIED);
    let_go(d, s, i);
    return !notice;
}

void weir__uring_pin_sent(struct weir__uring_sock *s, struct weir__io_done *out) {
    if (likely(!in_flight(s)))
        return;
    struct weir__uring_pins *p = s->pins;
    uint32_t bit = UINT32_C(1) << p->current;
    if (p->notices[p->current]) {
        p->pinned |= bit;
        s->k.busy |= WEIR__KERNEL_UNPINNED;
        out->pinned = true;
        out->handle = p->current;
    } else {
        p->used &= ~bit;
    }
    p->current = -1;
}

void weir__uring_pin_freed(struct weir__uring *d, struct weir__uring_sock *s,
                           struct weir__io_done *out) {
    struct weir__uring_pins *p = s->pins;
    unsigned i = (unsigned)__builtin_ctz(p->due);
    uint32_t bit = UINT32_C(1) << i;
    out->handle = (intptr_t)i;
    out->copied = p->copied & bit;
    p->due &= ~bit;
    p->pinned &= ~bit;
    p->used &= ~bit;
    if (p->pinned)
        s->k.busy |= WEIR__KERNEL_UNPINNED;
    if (p->due)
        weir__kernel_end(&d->k, &s->k, WEIR__KERNEL_UNPINNED, 0);
}

void weir__uring_pin_forget(struct weir__uring *d, struct weir__uring_sock *s) {
    if (!s->pins)
        return;
    for (unsigned i = 0; i < WEIR__URING_PINS_MAX; i++) {
        s->pins->notices[i] = 0;
        let_go(d, s, i);
    }
}
