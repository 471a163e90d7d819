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

/* --- idle --------------------------------------------------------------------------------- */

static uint32_t since(const struct weir_chan *ch, uint64_t ns) {
    return now_ms(ch) - (uint32_t)(ns / 1000000);
}

static uint32_t since_all(const struct weir_chan *ch) {
    uint32_t touched = ch->touched_ms ? now_ms(ch) - ch->touched_ms : UINT32_MAX;
    uint32_t read = since(ch, ch->read_ns), written = since(ch, ch->written_ns);
    uint32_t bytes = read < written ? read : written;
    return bytes < touched ? bytes : touched;
}

/* Activity is only a store, so the deadline is moved here, when it fires. False: it was moved. */
static bool silent_for(struct weir_chan *ch, enum weir__chan_deadline which, uint32_t silent,
                       uint32_t ms) {
    if (silent < ms) {
        weir__chan_deadline_set(ch, which, ms - silent);
        return false;
    }
    if (ch->state != WEIR__CHAN_OPEN)
        return false;
    weir__chan_deadline_set(ch, which, ms);
    return true;
}

static void idle_due(struct weir_chan *ch) {
    uint32_t silent = since_all(ch);
    if (!silent_for(ch, WEIR__CHAN_DL_IDLE, silent, ch->plan->limits.idle_ms))
        return;
    weir__chan_event_all(ch, WEIR_EVENT_IDLE, NULL);
    if (since_all(ch) == silent)
        weir__chan_close(ch, WEIR_EIDLE, false);
}

static void idle_read_due(struct weir_chan *ch) {
    uint32_t ms = ch->read_idle_ms;
    if (ms && silent_for(ch, WEIR__CHAN_DL_IDLE_READ, since(ch, ch->read_ns), ms))
        weir__chan_event_all(ch, WEIR_EVENT_IDLE_READ, NULL);
}

static void idle_write_due(struct weir_chan *ch) {
    if (silent_for(ch, WEIR__CHAN_DL_IDLE_WRITE, since(ch, ch->written_ns),
                   ch->plan->limits.write_idle_ms))
        weir__chan_event_all(ch, WEIR_EVENT_IDLE_WRITE, NULL);
}

void weir__chan_idle_begin(struct weir_chan *ch) {
    ch->read_ns = ch->written_ns = ch->loop->now_ns;
    if (ch->plan->limits.idle_ms)
        weir__chan_deadline_set(ch, WEIR__CHAN_DL_IDLE, ch->plan->limits.idle_ms);
    if (ch->read_idle_ms)
        weir__chan_deadline_set(ch, WEIR__CHAN_DL_IDLE_READ, ch->read_idle_ms);
    if (ch->plan->limits.write_idle_ms)
        weir__chan_deadline_set(ch, WEIR__CHAN_DL_IDLE_WRITE, ch->plan->limits.write_idle_ms);
}

void weir_chan_touch(struct weir_chan *ch) {
    uint32_t now = now_ms(ch);
    ch->touched_ms = now ? now : 1;
}

void weir_chan_read_idle(struct weir_chan *ch, uint32_t ms) {
    ch->read_idle_ms = ms < INT32_MAX / 2 ? ms : INT32_MAX / 2;
    if (ch->read_idle_ms && ch->state == WEIR__CHAN_OPEN)
        weir__chan_deadline_set(ch, WEIR__CHAN_DL_IDLE_READ, ch->read_idle_ms);
}

struct weir__chan_signs weir__chan_signs(const struct weir_chan *ch) {
    bool full = ch->paused & WEIR__CHAN_PAUSE_OUTPUT;
    return (struct weir__chan_signs){
        .life_ns = full ? ch->written_ns : ch->read_ns, .full = full, .deaf = ch->paused && !full};
}

/* --- the others --------------------------------------------------------------------------- */

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
        [WEIR__CHAN_DL_IDLE_READ] = idle_read_due,
        [WEIR__CHAN_DL_IDLE_WRITE] = idle_write_due,
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
