#include "differ/differ.h"
#include "base/assert.h"
#include "base/rng.h"
#include <stdio.h>

enum { KIB = 1024, TRIES_MAX = 1000, VOLUME_MAX = 2048 * KIB };

const char *const deed_names[DEEDS] = {
    "rest",       "write",      "write many", "write and push", "source", "refill", "peer sends",
    "credit",     "credit all", "allow",      "allow all",      "want",   "ping",   "peer stops",
    "peer reads", "peer shuts", "peer ends",  "peer resets",    "shut",   "close",  "abort",
};

const char *plan_says(const struct turn *t) {
    static char text[128];
    const struct step *s = &t->step, *a = &t->also;
    int n = snprintf(text, sizeof text, "%s %u %u %u", deed_names[s->deed], s->n, s->m, s->piece);
    if (a->deed != REST)
        snprintf(text + n, sizeof text - (size_t)n, " with %s %u", deed_names[a->deed], a->n);
    return text;
}

/* What a channel must have come to. */
struct model {
    struct weir__base_rng *rng;
    const struct weir_limits *limits;
    bool closed, app_shut, peer_shut;
    bool lost;            /* the peer has reset it, and nothing reads that would tell */
    bool blocked;         /* the peer does not read */
    bool stuck;           /* ... and a flight waits for it */
    uint64_t sent, taken; /* input: by the peer, by the handler */
    uint64_t cap, allow;  /* what credit and the handler let through, from the beginning on */
    uint32_t unit, small_left, volume;
};

static uint32_t draw(struct model *m, uint32_t n) {
    return (uint32_t)weir__base_rng_below(m->rng, n);
}

/* From 1 to max, every magnitude as often as the others. */
static uint32_t draw_size(struct model *m, uint32_t max) {
    unsigned bits = 0;
    while ((2u << bits) <= max)
        bits++;
    uint32_t top = 1u << draw(m, bits + 1), n = top + draw(m, top);
    return n < max ? n : max;
}

static uint32_t draw_piece(struct model *m, uint32_t n) {
    uint32_t least = n / 256 + 1, piece = draw_size(m, 16 * KIB);
    return piece > least ? piece : least;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static bool paused(const struct model *m) {
    return m->cap != UINT64_MAX && m->sent >= m->cap;
}

static bool limited(const struct model *m) {
    return m->cap != UINT64_MAX || m->allow != UINT64_MAX;
}

static uint64_t pending(const struct model *m) {
    return m->sent - least(m->sent, least(m->cap, m->allow));
}

static bool open_both(const struct model *m) {
    return !m->blocked && !m->app_shut && !m->peer_shut;
}

static bool is_write(enum deed d) {
    return d >= WRITE && d <= REFILL;
}

/* --- may it be? ------------------------------------------------------------------------------ */

static bool may_write(const struct model *m, enum deed d) {
    if (m->app_shut || m->volume > VOLUME_MAX)
        return false;
    if (!m->blocked || m->stuck)
        return true;
    return d == WRITE && (m->small_left || m->limits->batch_bytes >= SWALLOWED_NEVER);
}

static bool may_read(const struct model *m, enum deed d) {
    if (m->stuck)
        return d == PEER_SEND && !m->peer_shut && pending(m) == 0 && m->unit == 1 && !limited(m);
    switch (d) {
    case PEER_SEND: return !m->peer_shut && pending(m) < PENDING_MAX && m->volume < VOLUME_MAX;
    case CREDIT: return m->allow == UINT64_MAX;
    case CREDIT_ALL: return m->cap != UINT64_MAX;
    case ALLOW: return m->cap == UINT64_MAX;
    case ALLOW_ALL: return m->allow != UINT64_MAX;
    case WANT: return m->allow == UINT64_MAX;
    default: return open_both(m) && !limited(m) && m->taken == m->sent; /* PING */
    }
}

static bool may_end(const struct model *m, enum deed d) {
    switch (d) {
    case PEER_LAST:
        if (pending(m) >= PENDING_MAX || m->stuck || m->volume > VOLUME_MAX)
            return false; /* fallthrough */
    case PEER_SHUT: return !m->peer_shut && (m->limits->half_open || !m->blocked);
    case PEER_RESET: /* without anything under way nobody notices it behind an end */
        return m->stuck ||
               (!m->peer_shut && m->allow == UINT64_MAX && pending(m) <= SWALLOWED_SURELY);
    case SHUT: return !m->app_shut && !m->blocked && m->limits->half_open;
    case CLOSE: return !m->blocked;
    default: return true; /* ABORT */
    }
}

static bool may(const struct model *m, enum deed d) {
    if (d == REST || m->closed)
        return d == REST;
    if (m->lost)
        return d == CREDIT_ALL;
    if (is_write(d))
        return may_write(m, d);
    if (d <= PING)
        return may_read(m, d);
    if (d == PEER_STOP)
        return !m->blocked && !m->app_shut && (m->limits->half_open || !m->peer_shut);
    return d == PEER_GO || may_end(m, d);
}

/* --- the numbers ----------------------------------------------------------------------------- */

static void number_write(struct model *m, struct step *s) {
    s->n = draw_size(m, SIZE_MAX_BYTES);
    s->m = 1 + draw(m, 8);
    if (s->deed == WRITE && m->blocked && !m->stuck) {
        bool small = m->small_left && (m->limits->batch_bytes < SWALLOWED_NEVER || draw(m, 2));
        if (small) {
            s->n = draw_size(m, m->small_left);
            m->small_left -= s->n;
        } else {
            s->n = SWALLOWED_NEVER + draw(m, 512 * KIB);
            m->stuck = true;
        }
    } else if (s->deed == WRITE_MANY) {
        s->n = draw_size(m, 64 * KIB);
    } else if (s->deed == WRITE_PUSH) {
        s->m = draw_size(m, 128 * KIB);
        s->n = s->m + draw_size(m, 128 * KIB);
    }
    s->piece = m->stuck ? 8 * KIB : draw_piece(m, s->n);
    if (s->deed == SOURCE)
        s->m = draw(m, 2) ? draw_size(m, KIB) : 0;
    m->volume += s->deed == WRITE_MANY ? s->n * s->m : s->n;
}

static void number_read(struct model *m, struct step *s) {
    switch (s->deed) {
    case PEER_LAST: m->peer_shut = true; /* fallthrough */
    case PEER_SEND:
        s->n = draw_size(m, limited(m) || m->stuck ? PENDING_MAX : SIZE_MAX_BYTES);
        m->sent += s->n;
        m->volume += s->n;
        break;
    case CREDIT:
        s->n = draw(m, 3) ? draw_size(m, 2 * PENDING_MAX) : 0;
        m->cap = least(m->sent, m->cap) + s->n;
        break;
    case CREDIT_ALL: m->cap = UINT64_MAX; break;
    case ALLOW:
        s->n = draw_size(m, 2 * PENDING_MAX);
        m->allow = m->taken + s->n;
        break;
    case ALLOW_ALL: m->allow = UINT64_MAX; break;
    case WANT: m->unit = s->n = draw(m, 3) ? draw_size(m, 4 * KIB) : 1; break;
    case PING:
        m->unit = s->n = draw_size(m, 16 * KIB);
        s->m = 1 + draw(m, 12);
        m->sent += (uint64_t)s->n * s->m;
        break;
    default: break;
    }
}

static void number_end(struct model *m, struct step *s) {
    switch (s->deed) {
    case PEER_STOP:
        m->blocked = true;
        m->small_left = SWALLOWED_SURELY;
        break;
    case PEER_GO:
        s->n = draw(m, 2) ? 512 + draw_size(m, 32 * KIB) : 0;
        m->blocked = m->stuck = false;
        break;
    case PEER_SHUT: m->peer_shut = true; break;
    case PEER_RESET:
        m->lost = !m->stuck && paused(m);
        m->closed = !m->lost;
        break;
    case SHUT: m->app_shut = true; break;
    case CLOSE:
    case ABORT: m->closed = true; break;
    default: break;
    }
}

static void number(struct model *m, struct step *s) {
    if (is_write(s->deed))
        number_write(m, s);
    number_read(m, s);
    number_end(m, s);
}

/* --- where it leads -------------------------------------------------------------------------- */

static void set_goal(struct model *m, struct turn *t) {
    bool was_closed = m->closed;
    if (!m->stuck) {
        uint64_t may_take = least(least(m->sent, m->cap), m->allow) - m->taken;
        m->taken += may_take / m->unit * m->unit;
    }
    bool read_on = !paused(m) && least(m->sent, m->allow) - m->taken < m->unit && !m->stuck;
    bool heard = m->peer_shut && read_on && m->sent <= m->allow;
    if (heard && (!m->limits->half_open || m->app_shut))
        m->closed = true;
    if (heard)
        m->sent = m->taken; /* what was no whole unit is dropped */
    if (m->lost && t->step.deed == CREDIT_ALL)
        m->closed = true;
    t->goal = (struct goal){
        .closed = m->closed,
        .sent = !m->closed && !m->stuck && !m->lost,
        .peer_idle = m->blocked,
        .takes = !was_closed && !m->stuck && !m->lost && t->step.deed != CREDIT_ALL,
        .taken = m->taken,
    };
}

static enum deed draw_deed(struct model *m, unsigned round, unsigned rounds) {
    static const enum deed ends[] = {PEER_SHUT, PEER_LAST, PEER_RESET, SHUT, CLOSE, ABORT};
    enum deed d;
    int tries = 0;
    if (round + 3 == rounds && m->lost)
        return CREDIT_ALL;
    if (round + 2 == rounds && m->blocked && !m->closed)
        return PEER_GO;
    if (round + 1 == rounds)
        return m->closed ? REST : draw(m, 4) ? CLOSE : ABORT;
    do {
        must(tries++ < TRIES_MAX);
        d = draw(m, 16) ? (enum deed)(WRITE + draw(m, PEER_SHUT - WRITE)) : REST;
        if (draw(m, 12) == 0)
            d = ends[draw(m, ARRAY_LEN(ends))];
        if (m->closed)
            d = REST;
        if (round + 3 >= rounds && (d == PEER_RESET || d == PEER_STOP))
            d = REST;
    } while (!may(m, d));
    return d;
}

static enum deed draw_also(struct model *m) {
    static const enum deed reads[] = {PEER_SEND, PEER_SEND, CREDIT, CREDIT_ALL,
                                      ALLOW,     ALLOW_ALL, WANT,   PEER_LAST};
    enum deed d = reads[draw(m, ARRAY_LEN(reads))];
    bool ends = m->peer_shut || d == PEER_LAST; /* the channel too, while it still sends */
    return may(m, d) && (m->limits->half_open || !ends) ? d : REST;
}

static void draw_channel(struct channel_plan *c, struct weir__base_rng *rng, unsigned rounds) {
    static const uint32_t batches[] = {0, 16 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 256 * KIB};
    static const uint32_t highs[] = {0, 8 * KIB, 64 * KIB, 256 * KIB};
    struct model m = {
        .rng = rng, .limits = &c->limits, .cap = UINT64_MAX, .allow = UINT64_MAX, .unit = 1};
    c->limits.batch_bytes = batches[draw(&m, ARRAY_LEN(batches))];
    c->limits.high_bytes = highs[draw(&m, ARRAY_LEN(highs))];
    c->limits.half_open = draw(&m, 2);
    c->limits.read_while_full = draw(&m, 4) == 0;
    c->limits.linger_ms = c->limits.drain_ms = 20000;
    for (unsigned i = 0; i < rounds; i++) {
        struct turn *t = &c->turns[i];
        t->step.deed = draw_deed(&m, i, rounds);
        number(&m, &t->step);
        if (is_write(t->step.deed) && !m.blocked && draw(&m, 3) == 0)
            t->also.deed = draw_also(&m);
        number(&m, &t->also);
        set_goal(&m, t);
    }
}

void plan_draw(struct plan *plan, uint64_t seed) {
    struct weir__base_rng rng;
    weir__base_rng_seed(&rng, seed);
    *plan = (struct plan){.seed = seed};
    plan->n_channels = 1 + (unsigned)weir__base_rng_below(&rng, CHANNELS_MAX);
    plan->n_rounds = 8 + (unsigned)weir__base_rng_below(&rng, ROUNDS_MAX - 8 + 1);
    plan->sim = (struct weir__iosim_options){
        .seed = seed,
        .segment_max = 4000u << weir__base_rng_below(&rng, 4),
        .delay_us_max = 1u << weir__base_rng_below(&rng, 10),
        .window_bytes = WINDOW_BYTES,
    };
    for (unsigned i = 0; i < plan->n_channels; i++)
        draw_channel(&plan->channels[i], &rng, plan->n_rounds);
}
