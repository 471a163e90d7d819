#include "rt/fold.h"
#include "base/compiler.h"
#include "mem/raw.h"
#include "os/symbol.h"
#include "rt/verdict.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_BYTES = 4096, NAME_MAX_BYTES = 128, PHASE_FRAMES = 3 };

/* --- phases ---------------------------------------------------------------------------------- */

static const struct {
    const char *function;
    enum weir_profile_phase phase;
} calls[] = {
    {"weir__os_epoll_wait", WEIR_PROFILE_WAIT},
    {"epoll_look", WEIR_PROFILE_WAIT}, /* of os/epoll.c, where it is not inlined */
    {"weir__uring_ring_enter", WEIR_PROFILE_WAIT},
    {"weir__uring_enter", WEIR_PROFILE_WAIT},
    {"weir__os_cond_wait", WEIR_PROFILE_WAIT},
    {"weir__os_recv", WEIR_PROFILE_RECEIVE},
    {"weir__os_recvmsg", WEIR_PROFILE_RECEIVE},
    {"weir__epoll_receive", WEIR_PROFILE_RECEIVE},
    {"weir__os_send", WEIR_PROFILE_SEND},
    {"weir__os_sendv", WEIR_PROFILE_SEND},
    {"weir__os_sendmsg", WEIR_PROFILE_SEND},
    {"weir__os_sendfile", WEIR_PROFILE_SEND},
    {"weir__epoll_send", WEIR_PROFILE_SEND},
    {"epoll_send_parts", WEIR_PROFILE_SEND}, /* of io/epoll/send.c; a name no program has */
    {"weir__kernel_send_chain", WEIR_PROFILE_SEND},
    {"weir__uring_send", WEIR_PROFILE_SEND},
};

/* Calls into the kernel are seen at the instruction behind them, in the wrapper or in whatever it
 * was inlined into. */
enum weir_profile_phase weir__rt_phase(const char *const *functions, unsigned n, bool in_call,
                                       bool in_handler) {
    for (unsigned f = 0; in_call && f < n && f < PHASE_FRAMES; f++)
        for (size_t i = 0; i < ARRAY_LEN(calls); i++)
            if (strcmp(functions[f], calls[i].function) == 0)
                return calls[i].phase;
    return in_handler ? WEIR_PROFILE_HANDLER : WEIR_PROFILE_OTHER;
}

/* --- one sample as text ---------------------------------------------------------------------- */

struct line {
    char at[LINE_MAX_BYTES];
    size_t n;
};

/* A part that does not fit is left out whole. A ';' in a name would be two names, and a space the
 * end of the stack for tools that split lines at the first one. */
static void add_part(struct line *l, const char *before, const char *name) {
    size_t n = strlen(before) + strlen(name);
    if (l->n + n >= sizeof l->at)
        return;
    snprintf(l->at + l->n, sizeof l->at - l->n, "%s%s", before, name);
    for (char *c = l->at + l->n + strlen(before); *c; c++)
        if (*c == ';' || (unsigned char)*c <= ' ' || *c == 0x7f)
            *c = '_';
    l->n += n;
}

struct names {
    char text[WEIR__OS_STACK_MAX][NAME_MAX_BYTES];
    const char *at[WEIR__OS_STACK_MAX];
    unsigned n;
};

/* How a thread begins. */
static bool is_root(const char *name) {
    return !strcmp(name, "body") || !strcmp(name, "turn_until_the_end") ||
           !strcmp(name, "start_thread") || !strncmp(name, "clone", 5) ||
           !strncmp(name, "libc.so", 7);
}

/* Innermost first, down to the loop's turn or the thread's begin: what is below is the same in
 * every stack. */
static void name_frames(const struct weir__os_stack *s, struct weir__os_symbols *symbols,
                        struct names *out) {
    out->n = 0;
    for (unsigned i = 0; i < s->n; i++) {
        char *name = out->text[out->n];
        weir__os_symbols_name(symbols, s->pc[i] - (i > 0), false, name, NAME_MAX_BYTES);
        if (i > 0 && strcmp(name, "weir__loop_turn") == 0)
            return;
        out->at[out->n++] = name;
    }
    while (out->n > 1 && is_root(out->at[out->n - 1]))
        out->n--;
}

static void write_line(struct line *l, const struct weir__rt_sample *x, const char *thread,
                       const struct names *names) {
    l->n = 0;
    add_part(l, "", thread);
    for (unsigned i = x->n_handlers; i > 0; i--)
        add_part(l, ";handler:", x->handlers[i - 1]);
    for (unsigned i = names->n; i > 0; i--)
        add_part(l, ";", names->at[i - 1]);
}

/* --- many as one text ------------------------------------------------------------------------ */

static bool grow(struct weir__rt_text *t, size_t by) {
    if (t->cap - t->n >= by)
        return true;
    size_t cap = t->cap ? t->cap : 4096;
    while (cap - t->n < by)
        cap *= 2;
    char *at = weir__mem_raw_new(cap);
    if (!at)
        return false;
    if (t->n)
        memcpy(at, t->at, t->n);
    weir__mem_raw_free(t->at);
    t->at = at;
    t->cap = cap;
    return true;
}

struct stack { /* one distinct line */
    size_t at, n;
    uint32_t count;
    uint64_t hash;
};

struct fold { /* a table of lines, its lines' text, in open addressing */
    struct weir__rt_text text;
    struct stack *table;
    size_t mask;
};

static uint64_t hash_of(const char *p, size_t n) { /* FNV-1a */
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)p[i]) * 0x100000001b3u;
    return h;
}

static bool count_line(struct fold *f, const struct line *l) {
    uint64_t h = hash_of(l->at, l->n);
    struct stack *s = &f->table[h & f->mask];
    while (s->count &&
           (s->hash != h || s->n != l->n || memcmp(f->text.at + s->at, l->at, l->n) != 0))
        s = s == &f->table[f->mask] ? f->table : s + 1;
    if (!s->count) {
        if (!grow(&f->text, l->n))
            return false;
        memcpy(f->text.at + f->text.n, l->at, l->n);
        *s = (struct stack){.at = f->text.n, .n = l->n, .hash = h};
        f->text.n += l->n;
    }
    s->count++;
    return true;
}

static int by_count(const void *a, const void *b) {
    const struct stack *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* The most frequent first. */
static bool write_all(struct fold *f, struct weir__rt_text *out) {
    qsort(f->table, f->mask + 1, sizeof *f->table, by_count);
    for (size_t i = 0; i <= f->mask && f->table[i].count; i++) {
        const struct stack *s = &f->table[i];
        if (!grow(out, s->n + 16))
            return false;
        memcpy(out->at + out->n, f->text.at + s->at, s->n);
        out->n += s->n;
        out->n += (size_t)snprintf(out->at + out->n, 16, " %u\n", s->count);
    }
    if (!grow(out, 1))
        return false;
    out->at[out->n] = 0;
    return true;
}

/* --- handlers -------------------------------------------------------------------------------- */

static unsigned part_of(const struct weir__rt_window *w, uint64_t at_ns) {
    uint64_t length = w->until_ns > w->from_ns ? w->until_ns - w->from_ns : 1;
    uint64_t in = at_ns > w->from_ns ? at_ns - w->from_ns : 0;
    uint64_t part = in * WEIR__RT_VERDICT_PARTS / length;
    return part < WEIR__RT_VERDICT_PARTS ? (unsigned)part : WEIR__RT_VERDICT_PARTS - 1;
}

/* A handler that was not met before; its name may end with the group, so it is copied. NULL: no
 * memory. */
static struct weir_profile_handler *add_handler(struct weir_profile *p, const char *name) {
    unsigned n = p->summary.n_handlers, cap = n ? n * 2 : 16;
    if (n == p->handlers_cap) {
        struct weir_profile_handler *more = weir__mem_raw_new(cap * sizeof *more);
        char **names = weir__mem_raw_new(cap * sizeof *names);
        if (!more || !names) {
            weir__mem_raw_free(more);
            weir__mem_raw_free(names);
            return NULL;
        }
        if (n) {
            memcpy(more, p->handlers, n * sizeof *more);
            memcpy(names, p->names, n * sizeof *names);
        }
        weir__mem_raw_free(p->handlers);
        weir__mem_raw_free(p->names);
        p->handlers = more;
        p->names = names;
        p->handlers_cap = cap;
    }
    size_t bytes = strlen(name) + 1;
    char *copy = weir__mem_raw_new(bytes);
    if (!copy)
        return NULL;
    memcpy(copy, name, bytes);
    p->names[n] = copy;
    p->handlers[n] = (struct weir_profile_handler){.name = copy, .account_share = -1};
    p->summary.n_handlers++;
    return &p->handlers[n];
}

/* While counting, `parts` is a set of bits. */
static bool count_handler(struct weir_profile *p, const char *name, unsigned part) {
    unsigned i = 0, n = p->summary.n_handlers;
    while (i < n && strcmp(p->handlers[i].name, name) != 0)
        i++;
    struct weir_profile_handler *h = i < n ? &p->handlers[i] : add_handler(p, name);
    if (!h)
        return false;
    h->samples++;
    h->parts |= 1u << part;
    return true;
}

void weir__rt_fold_fini(struct weir_profile *p) {
    for (unsigned i = 0; i < p->summary.n_handlers; i++)
        weir__mem_raw_free(p->names[i]);
    weir__mem_raw_free(p->names);
    weir__mem_raw_free(p->handlers);
    weir__mem_raw_free(p->folded.at);
}

static int by_samples(const void *a, const void *b) {
    const struct weir_profile_handler *x = a, *y = b;
    if (x->samples != y->samples)
        return x->samples < y->samples ? 1 : -1;
    return strcmp(x->name, y->name);
}

static void finish_handlers(struct weir_profile *p) {
    struct weir_profile_summary *s = &p->summary;
    for (unsigned i = 0; i < s->n_handlers; i++) {
        p->handlers[i].parts = (uint32_t)__builtin_popcount(p->handlers[i].parts);
        p->handlers[i].share = (double)p->handlers[i].samples / s->samples;
    }
    if (s->n_handlers)
        qsort(p->handlers, s->n_handlers, sizeof *p->handlers, by_samples);
    s->handlers = p->handlers;
}

/* --- all of it ------------------------------------------------------------------------------- */

static bool fold_one(struct weir_profile *p, struct fold *f, const struct weir__rt_sample *x,
                     const struct weir__rt_window *w, struct weir__os_symbols *symbols) {
    struct names names;
    struct line line;
    name_frames(&x->stack, symbols, &names);
    enum weir_profile_phase phase = weir__rt_phase(names.at, names.n, x->stack.in_call,
                                                   x->n_handlers > 0);
    p->summary.phases[phase]++;
    write_line(&line, x, w->threads[x->thread], &names);
    return count_line(f, &line) && (phase != WEIR_PROFILE_HANDLER ||
                                    count_handler(p, x->handlers[0], part_of(w, x->at_ns)));
}

int weir__rt_fold(struct weir_profile *p, const struct weir__rt_sample *samples, uint32_t n,
                  const struct weir__rt_window *w, struct weir__os_symbols *symbols) {
    size_t slots = 64;
    while (slots < (size_t)n * 2)
        slots *= 2;
    struct fold f = {.table = weir__mem_raw_new(slots * sizeof *f.table), .mask = slots - 1};
    bool good = f.table != NULL;
    p->summary.samples = n;
    for (uint32_t i = 0; good && i < n; i++)
        good = fold_one(p, &f, &samples[i], w, symbols);
    if (good)
        good = write_all(&f, &p->folded);
    finish_handlers(p);
    weir__mem_raw_free(f.table);
    weir__mem_raw_free(f.text.at);
    return good ? 0 : WEIR_ENOMEM;
}
