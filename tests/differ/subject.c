#include "differ/differ.h"
#include "base/assert.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void words_add(struct words *w, const char *fmt, ...) {
    char word[64];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(word, sizeof word, fmt, ap);
    va_end(ap);
    must(n > 0 && (size_t)n < sizeof word);
    if (w->more == 0 && w->n + (size_t)n <= sizeof w->text) {
        memcpy(w->text + w->n, word, (size_t)n);
        w->n += (size_t)n;
        return;
    }
    w->more++;
    for (int i = 0; i < n; i++)
        w->hash = (w->hash ^ (uint8_t)word[i]) * 16777619u;
}

/* What may be told: who lost the connection says so in one of these ways on each door. */
static const char *reason(int why) {
    if (why == WEIR_ERESET || why == WEIR_EIO)
        return "broken";
    return why ? weir_errname(why) : "0";
}

static struct subject *of(struct weir_ctx *c) {
    return *(struct subject **)weir_ctx_state(c);
}

/* --- sending --------------------------------------------------------------------------------- */

/* The next n bytes of the pattern, in pieces. */
static int pour_pieces(struct subject *s, uint64_t n, uint32_t piece) {
    struct weir_mem *m = weir_ctx_mem(s->ctx);
    struct weir_chain c = {0};
    for (uint64_t done = 0; done < n;) {
        size_t cut = n - done < piece ? (size_t)(n - done) : piece;
        struct weir_slice slice;
        must(weir_slice_new(m, cut, &slice) == 0);
        pattern_fill(slice.p, s->poured + done, cut);
        must(weir_chain_add(m, &c, &slice) == 0);
        done += cut;
    }
    int rc = weir_ctx_send(s->ctx, &c);
    if (rc >= 0)
        s->poured += n;
    else
        words_add(&s->writes, " send %s", weir_errname(rc));
    weir_chain_fini(&c);
    return rc;
}

static void refill(struct subject *s) {
    while (s->refill_left && weir_ctx_room(s->ctx) > 0) {
        uint32_t n = s->refill_left < s->refill_piece ? (uint32_t)s->refill_left : s->refill_piece;
        s->refill_left -= n;
        if (pour_pieces(s, n, n) < 0)
            return;
    }
}

bool subject_has_sent(const struct subject *s) {
    struct weir_chan_counters n;
    weir_chan_counters(weir_ctx_chan(s->ctx), &n);
    return !s->source_left && !s->refill_left && n.queued + n.inflight == 0;
}

/* --- the handler ----------------------------------------------------------------------------- */

static int on_open(struct weir_ctx *c, const void *config) {
    struct subject *s = (struct subject *)(uintptr_t)config;
    *(struct subject **)weir_ctx_state(c) = s;
    must(!s->opened);
    s->ctx = c;
    s->opened = true;
    return 0;
}

static uint64_t take(struct subject *s, struct weir_chain *in) {
    uint64_t n = in->bytes, may = s->allow - s->in, left;
    n = n < may ? n : may;
    n -= n % s->unit;
    left = n;
    for (const struct weir_part *p = in->first; left; p = p->next) {
        size_t cut = p->slice.n < left ? p->slice.n : (size_t)left;
        s->bad |= !pattern_is(p->slice.p, s->in, cut);
        s->in += cut;
        left -= cut;
    }
    weir_chain_drop(in, n);
    return n;
}

static int on_read(struct weir_ctx *c, struct weir_chain *in) {
    struct subject *s = of(c);
    uint64_t n = take(s, in);
    if (n && s->answers)
        (void)pour_pieces(s, n, (uint32_t)n);
    return 0;
}

static void on_eof(struct weir_ctx *c, bool clean) {
    struct subject *s = of(c);
    words_add(&s->reads, " eof at %llu %s", (unsigned long long)s->in, clean ? "clean" : "unclean");
}

static int64_t on_pull(struct weir_ctx *c, uint64_t room) {
    struct subject *s = of(c);
    uint64_t n = room < s->source_piece ? room : s->source_piece;
    struct weir_chan_counters now;
    weir_chan_counters(weir_ctx_chan(c), &now);
    s->bad |= now.inflight != 0;
    n += s->source_over;
    n = n < s->source_left ? n : s->source_left;
    if (s->pulls++ < PULLS_SHOWN && !s->busy)
        words_add(&s->writes, " pull %llu of %llu", (unsigned long long)n,
                  (unsigned long long)room);
    s->pulls_hash = (s->pulls_hash ^ room) * 0x9e3779b97f4a7c15u;
    s->pulls_hash = (s->pulls_hash ^ n) * 0x9e3779b97f4a7c15u;
    if (n == 0)
        return 0;
    s->source_left -= n;
    return pour_pieces(s, n, (uint32_t)n) < 0 ? 0 : (int64_t)n;
}

static void on_writable(struct weir_ctx *c, bool yes) {
    struct subject *s = of(c);
    struct weir_chan_counters n;
    weir_chan_counters(weir_ctx_chan(c), &n);
    if (!s->busy && yes)
        words_add(&s->writes, " writable at %llu", (unsigned long long)n.queued);
    else if (!s->busy)
        words_add(&s->writes, " full");
    if (yes)
        refill(s);
}

static void on_close(struct weir_ctx *c, int why) {
    struct subject *s = of(c);
    words_add(&s->reads, " close %s", reason(why));
    must(!s->closed);
    s->closed = true;
    s->ctx = NULL;
}

const struct weir_handler subject_handler = {
    .name = "subject",
    .state_size = sizeof(struct subject *),
    .open = on_open,
    .read = on_read,
    .eof = on_eof,
    .pull = on_pull,
    .writable = on_writable,
    .close = on_close,
};

/* --- the script's words ---------------------------------------------------------------------- */

static void say_deed(struct subject *s, const struct step *step) {
    switch (step->deed) {
    case WRITE: (void)pour_pieces(s, step->n, step->piece); break;
    case WRITE_MANY:
        for (uint32_t i = 0; i < step->m; i++)
            (void)pour_pieces(s, step->n, step->n);
        break;
    case WRITE_PUSH:
        if (pour_pieces(s, step->n, step->piece) < 0)
            break;
        weir_chan_flush(weir_ctx_chan(s->ctx));
        (void)pour_pieces(s, step->m, step->piece);
        break;
    case SOURCE:
        s->source_left += step->n;
        s->source_piece = step->piece;
        s->source_over = step->m;
        weir_ctx_ready(s->ctx);
        break;
    case REFILL:
        s->refill_left += step->n;
        s->refill_piece = step->piece;
        refill(s);
        break;
    default: break;
    }
}

static void read_deed(struct subject *s, const struct step *step) {
    struct weir_chan *ch = weir_ctx_chan(s->ctx);
    switch (step->deed) {
    case CREDIT: weir_chan_credit(ch, step->n); break;
    case CREDIT_ALL: weir_chan_credit(ch, -1); break;
    case ALLOW: s->allow = s->in + step->n; break;
    case ALLOW_ALL: s->allow = UINT64_MAX; break;
    case WANT:
        s->unit = step->n;
        weir_ctx_want(s->ctx, step->n);
        break;
    case PING: /* whole units: an answer is not cut as its question was */
        s->answers = true;
        s->unit = step->n;
        weir_ctx_want(s->ctx, step->n);
        break;
    default: return;
    }
    weir_ctx_wake(s->ctx);
}

static void end_deed(struct subject *s, const struct step *step) {
    struct weir_chan *ch = weir_ctx_chan(s->ctx);
    switch (step->deed) {
    case SHUT: weir_chan_shutdown(ch); break;
    case CLOSE: weir_chan_close(ch, WEIR_DRAIN); break;
    case ABORT: weir_chan_close(ch, WEIR_ABORT); break;
    default: break;
    }
}

void subject_do(struct subject *s, const struct step *step) {
    if (!s->ctx)
        return;
    if (step->deed != REST)
        s->answers = false;
    say_deed(s, step);
    read_deed(s, step);
    end_deed(s, step);
}
