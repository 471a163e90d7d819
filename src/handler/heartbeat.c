/* The heartbeat rides on the channel's IDLE_READ event: a byte costs nothing, and there is no other
 * timer.
 *
 *     silent for interval_ms:   missed < max: ping, missed + 1      else: the end
 *     any byte from the peer:   missed = 0 (seen at the next event) */
#include "weir/heartbeat.h"
#include "chan/local.h"
#include "handler/heartbeat.h"

static void hear(struct weir__handler_pulse *h, const struct weir__chan_signs *signs) {
    if ((int32_t)((uint32_t)(signs->life_ns / 1000000) - h->beat_ms) >= 0)
        h->missed = 0;
}

void weir__handler_heard(struct weir__handler_pulse *h, struct weir_chan *ch) {
    struct weir__chan_signs signs = weir__chan_signs(ch);
    hear(h, &signs);
}

int weir__handler_beat(struct weir__handler_pulse *h, struct weir_chan *ch, uint32_t missed_max) {
    struct weir__chan_signs signs = weir__chan_signs(ch);
    hear(h, &signs);
    h->beat_ms = (uint32_t)(weir_loop_now(weir_chan_loop(ch)) / 1000000);
    if (signs.deaf)
        return 0;
    if (h->missed == (missed_max ? missed_max : WEIR__HANDLER_MISSED_MAX))
        return WEIR_ETIMEDOUT;
    h->missed++;
    return !signs.full; /* a ping that waits behind a full output asks nobody */
}

struct heart {
    const struct weir_heartbeat_options *o;
    struct weir__handler_pulse pulse;
};

static int heartbeat_open(struct weir_ctx *c, const void *config) {
    const struct weir_heartbeat_options *o = config;
    struct heart *h = weir_ctx_state(c);
    if (!o || o->size != sizeof *o || !o->interval_ms || !o->ping)
        return WEIR_EINVAL;
    h->o = o;
    weir_chan_read_idle(weir_ctx_chan(c), o->interval_ms);
    return 0;
}

static void heartbeat_event(struct weir_ctx *c, int what, const void *data) {
    struct heart *h = weir_ctx_state(c);
    (void)data;
    if (what != WEIR_EVENT_IDLE_READ)
        return;
    int rc = weir__handler_beat(&h->pulse, weir_ctx_chan(c), h->o->missed_max);
    if (rc == 1)
        rc = h->o->ping(c, h->o->user);
    if (rc < 0)
        weir_chan_fail(weir_ctx_chan(c), rc);
}

const struct weir_handler weir_heartbeat_handler = {
    .name = "heartbeat",
    .state_size = sizeof(struct heart),
    .open = heartbeat_open,
    .event = heartbeat_event,
};
