#include "rt/verdict.h"
#include <stdio.h>

static int percent(double share) {
    return (int)(share * 100 + 0.5);
}

/* NULL: it may be named; or why not. */
static const char *doubt(const struct weir_profile_handler *h) {
    double apart = h->share - h->account_share;
    if (h->samples < WEIR__RT_VERDICT_SAMPLES_MIN)
        return "it has too few samples";
    if (h->parts < WEIR__RT_VERDICT_PARTS_MIN)
        return "it was met in a small part of the window only";
    if (percent(h->share) < WEIR__RT_VERDICT_SHARE_MIN)
        return "its share is small";
    if (h->account_share < 0)
        return "none of its few calls was timed; /debug/loops names turns over watchdog_ms";
    if ((apart < 0 ? -apart : apart) * 100 > WEIR__RT_VERDICT_APART_MAX)
        return "the engine's accounting says something else";
    return NULL;
}

struct name {
    char text[41];
};

/* A line break in it would end the sentence. */
static struct name name_of(const struct weir_profile_handler *h) {
    struct name out;
    snprintf(out.text, sizeof out.text, "%s", h->name);
    for (char *c = out.text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    return out;
}

static void by_handler(struct weir_profile_summary *s, const struct weir_profile_handler *h) {
    struct weir_profile_verdict *v = &s->verdict;
    const char *why = doubt(h);
    char account[16] = "?";
    if (h->account_share >= 0)
        snprintf(account, sizeof account, "%d %%", percent(h->account_share));
    if (!why) {
        v->cause = WEIR_PROFILE_BY_HANDLER;
        v->handler = h->name;
        v->share = h->share;
    }
    snprintf(v->text, sizeof v->text,
             "%s: handler %s has %d %% of %u samples, met in %u of %d parts of the window; by "
             "the engine's accounting %s%s%s",
             why ? "no cause can be named" : "the CPU time is used by a handler", name_of(h).text,
             percent(h->share), s->samples, h->parts, WEIR__RT_VERDICT_PARTS, account,
             why ? ": " : "", why ? why : "");
}

void weir__rt_verdict(struct weir_profile_summary *s) {
    struct weir_profile_verdict *v = &s->verdict;
    const uint32_t *p = s->phases;
    uint32_t moved = p[WEIR_PROFILE_WAIT] + p[WEIR_PROFILE_RECEIVE] + p[WEIR_PROFILE_SEND];
    *v = (struct weir_profile_verdict){.cause = WEIR_PROFILE_UNKNOWN};
    if (s->samples < WEIR__RT_VERDICT_SAMPLES_MIN) {
        snprintf(v->text, sizeof v->text,
                 "no cause can be named: %u sample%s, and %d are needed; the threads used %llu ms "
                 "of CPU time in %llu ms",
                 s->samples, s->samples == 1 ? "" : "s", WEIR__RT_VERDICT_SAMPLES_MIN,
                 (unsigned long long)(s->cpu_ns / 1000000),
                 (unsigned long long)(s->window_ns / 1000000));
    } else if (moved * 2 > s->samples) {
        v->cause = WEIR_PROFILE_NO_HANDLER;
        v->share = (double)moved / s->samples;
        snprintf(v->text, sizeof v->text,
                 "no handler is to blame: %d %% of %u samples lie in waiting (%u), receiving (%u) "
                 "and sending (%u)",
                 percent(v->share), s->samples, p[WEIR_PROFILE_WAIT], p[WEIR_PROFILE_RECEIVE],
                 p[WEIR_PROFILE_SEND]);
    } else if (s->n_handlers) {
        by_handler(s, &s->handlers[0]);
    } else {
        snprintf(v->text, sizeof v->text,
                 "no cause can be named: none of %u samples was in a handler", s->samples);
    }
}
