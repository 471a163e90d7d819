#include "chan/chan.h"

/* Milliseconds wrap after 49 days; differences do not care. 0 means "none", so a deadline that
 * would be 0 is 1. */
static uint32_t now_ms(const struct weir_chan *ch) {
    return (uint32_t)(ch->loop->now_ns / 1000000);
}

static bool passed(uint32_t deadline, uint32_t now) {
    return (int32_t)(now - deadline) >= 0;
}

static void fire(struct weir_timer *t);

static void arm(struct weir_chan *ch) {
    uint32_t now = now_ms(ch), nearest = UINT32_MAX;
    for (unsigned i = 0; i < WEIR__CHAN_DEADLINES; i++) {
        if (!ch->deadlines[i])
            continue;
        uint32_t left = passed(ch->deadlines[i], now) ? 0 : ch->deadlines[i] - now;
        if (left < nearest)
            nearest = left;
    }
    if (nearest != UINT32_MAX)
        weir__loop_timer_in(ch->loop, &ch->timer, nearest, fire);
}

void weir__chan_deadline_set(struct weir_chan *ch, enum weir__chan_deadline which, uint32_t in_ms) {
    uint32_t at = now_ms(ch) + in_ms;
    ch->deadlines[which] = at ? at : 1;
    arm(ch);
}

void weir__chan_deadline_clear(struct weir_chan *ch, enum weir__chan_deadline which) {
    ch->deadlines[which] = 0; /* the timer fires for nothing once: cheaper than moving it */
}

/* Activity is only a store, so the deadline is moved here, when it fires. */
static void idle_due(struct weir_chan *ch) {
    uint32_t silent = now_ms(ch) - (uint32_t)(ch->active_ns / 1000000), idle = ch->limits.idle_ms;
    if (silent < idle) {
        weir__chan_deadline_set(ch, WEIR__CHAN_DL_IDLE, idle - silent);
        return;
    }
    if (ch->state != WEIR__CHAN_OPEN)
        return;
    weir__chan_deadline_set(ch, WEIR__CHAN_DL_IDLE, idle);
    uint64_t before = ch->active_ns;
    weir__chan_event_all(ch, WEIR_EVENT_IDLE, NULL);
    if (ch->active_ns == before)
        weir__chan_close(ch, WEIR_EIDLE, false);
}

static void stage_due(struct weir_chan *ch) {
    if (ch->state == WEIR__CHAN_CONNECTING)
        weir__chan_close(ch, WEIR_ETIMEDOUT, true);
    else if (ch->state == WEIR__CHAN_LINGER)
        weir__chan_close(ch, 0, true);
    else if (ch->state == WEIR__CHAN_DRAINING || ch->write_dead)
        weir__chan_close(ch, WEIR_ETIMEDOUT, true);
}

static void buffers_due(struct weir_chan *ch) {
    ch->paused &= (uint8_t)~WEIR__CHAN_PAUSE_BUFFERS;
    weir__chan_dirty(ch);
}

static void fire(struct weir_timer *t) {
    static void (*const due[WEIR__CHAN_DEADLINES])(struct weir_chan *) = {
        [WEIR__CHAN_DL_IDLE] = idle_due,
        [WEIR__CHAN_DL_STAGE] = stage_due,
        [WEIR__CHAN_DL_BUFFERS] = buffers_due,
        [WEIR__CHAN_DL_LATE] = weir__chan_not_late};
    struct weir_chan *ch = container_of(t, struct weir_chan, timer);
    for (unsigned i = 0; i < WEIR__CHAN_DEADLINES; i++) {
        if (!ch->deadlines[i] || !passed(ch->deadlines[i], now_ms(ch)))
            continue;
        ch->deadlines[i] = 0;
        due[i](ch);
    }
    if (ch->state < WEIR__CHAN_CLOSING)
        arm(ch);
}
