#include "rt/transport.h"
#include "base/compiler.h"
#include "io/uring/uring.h"
#include "os/thread.h"
#include "weir/host.h"
#include <string.h>

/* --- the words of uring_features ------------------------------------------------------------- */

static unsigned bit_of(const char *name, size_t n) {
    for (const struct weir__uring_feature_name *f = weir__uring_features; f->bit; f++)
        if (strlen(f->name) == n && !memcmp(f->name, name, n))
            return f->bit;
    return 0;
}

static bool is(const char *word, size_t n, const char *name) {
    return strlen(name) == n && !memcmp(word, name, n);
}

/* One word of the list changes what the words before it left. */
static int apply(const char *word, size_t n, unsigned *without) {
    bool off = n && word[0] == '-';
    unsigned bit = bit_of(word + off, n - off);
    if (bit)
        *without = off ? *without | bit : *without & ~bit;
    else if (is(word, n, "all"))
        *without = 0;
    else if (is(word, n, "none"))
        *without = WEIR__URING_FEATURES;
    else
        return WEIR_EINVAL;
    return 0;
}

int weir__rt_transport_features(const char *list, unsigned *without) {
    *without = 0;
    while (list) {
        size_t n = strcspn(list, ",");
        if (apply(list, n, without) < 0)
            return WEIR_EINVAL;
        list = list[n] ? list + n + 1 : NULL;
    }
    return 0;
}

/* --- the choice ------------------------------------------------------------------------------ */

#define NEED(bit, name) \
    { bit, "the kernel's io_uring has no " name, "io_uring's " name " is switched off" }

/* With these four, an echo over io_uring takes 0.83 to 0.99 of the CPU time that it takes over
 * epoll, in each case of `./dev bench echo` (bench/README.md); without one of them it does not. */
const char *weir__rt_transport_refusal(unsigned has, unsigned without) {
    static const struct {
        unsigned bit;
        const char *missing, *off;
    } needed[] = {
        NEED(WEIR__URING_DEFER, "defer"),
        NEED(WEIR__URING_MULTI_ACCEPT, "multi-accept"),
        NEED(WEIR__URING_MULTI_RECV, "multi-recv"),
        NEED(WEIR__URING_INC_BUFFERS, "inc-buffers"),
    };
    for (unsigned i = 0; i < ARRAY_LEN(needed); i++)
        if (!(has & ~without & needed[i].bit))
            return without & needed[i].bit ? needed[i].off : needed[i].missing;
    return NULL;
}

static const char *try_uring(unsigned without) {
    unsigned has;
    const char *why = NULL;
    int rc = weir__uring_probe(without, &has, &why);
    return rc < 0 ? why : weir__rt_transport_refusal(has, without);
}

void weir__rt_transport_fall_back(struct weir__rt_transport *t, const char *why) {
    t->uring = false;
    t->name = t->edge ? "epoll-et" : "epoll-lt";
    t->why = why;
}

int weir__rt_transport_of(const struct weir_group_options *o, struct weir__rt_transport *out) {
    const char *name = o->transport ? o->transport : "auto";
    const char *trigger = o->trigger ? o->trigger : "lt";
    *out = (struct weir__rt_transport){
        .name = "uring", .edge = !strcmp(trigger, "et"), .by_name = !strcmp(name, "uring")};
    out->open = !strcmp(name, "auto");
    if ((!out->open && !out->by_name && strcmp(name, "epoll") != 0) ||
        (!out->edge && strcmp(trigger, "lt") != 0) ||
        weir__rt_transport_features(o->uring_features, &out->without) < 0)
        return WEIR_EINVAL;
    out->open &= !o->trigger; /* who names a trigger means epoll */
    out->uring = out->by_name || out->open;
    if (!out->uring)
        weir__rt_transport_fall_back(out, NULL);
    return 0;
}

void weir__rt_transport_decide(struct weir__rt_transport *t) {
    const char *why = t->open ? try_uring(t->without) : NULL;
    if (why)
        weir__rt_transport_fall_back(t, why);
    t->open = false;
}

void weir__rt_transport_apart(void (*fn)(void *user), void *user) {
    struct weir__os_thread thread;
    if (weir__os_thread_start(&thread, "weir-ring", fn, user) < 0)
        fn(user);
    else
        weir__os_thread_join(&thread);
}

/* --- what there is --------------------------------------------------------------------------- */

struct trial {
    unsigned without, has;
    const char *why;
};

static void try_apart(void *user) {
    struct trial *t = user;
    if (weir__uring_probe(t->without, &t->has, &t->why) >= 0)
        t->why = NULL;
}

int weir_host_uring(const char *features, struct weir_host_uring *out) {
    if (out->size != sizeof *out)
        return WEIR_EINVAL;
    *out = (struct weir_host_uring){.size = sizeof *out};
    struct trial t = {.has = 0};
    int rc = weir__rt_transport_features(features, &t.without);
    if (rc >= 0)
        weir__rt_transport_apart(try_apart, &t);
    unsigned without = t.without, has = t.has;
    out->why = t.why;
    for (const struct weir__uring_feature_name *f = weir__uring_features; f->bit; f++)
        out->features[out->n_features++] = (struct weir_uring_feature){
            .name = f->name,
            .what = f->what,
            .state = rc < 0 || without & f->bit ? WEIR_URING_OFF
                     : has & f->bit             ? WEIR_URING_WORKS
                                                : WEIR_URING_MISSING,
        };
    if (rc >= 0)
        out->why_not_auto = out->why ? out->why : weir__rt_transport_refusal(has, without);
    return rc;
}
