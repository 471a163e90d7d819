#include "mem/debug.h"
#include "mem/pool.h"
#include "os/memory.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLE_EVERY = 1024, BUCKETS_MIN = 256 };

static const char *const kinds[WEIR__MEM_KINDS] = {"buffer", "object", "link"};

/* --- the table -------------------------------------------------------------------------------- */

static size_t bucket(const struct weir__mem_debug *d, const void *p) {
    return (size_t)(((uintptr_t)p >> 4) * 0x9E3779B97F4A7C15ULL >> 32) & (d->n_buckets - 1);
}

/* Twice the buckets; where there is no memory for them, lists get longer. False: there are none. */
static bool grow(struct weir__mem_debug *d) {
    size_t n = d->n_buckets ? 2 * d->n_buckets : BUCKETS_MIN;
    struct weir__mem_record **fresh = calloc(n, sizeof(void *));
    if (!fresh)
        return d->buckets != NULL;
    free(d->buckets);
    d->buckets = fresh;
    d->n_buckets = n;
    weir__base_list_each(link, &d->records) {
        struct weir__mem_record *r = container_of(link, struct weir__mem_record, link);
        struct weir__mem_record **at = &d->buckets[bucket(d, r->block)];
        r->next = *at;
        *at = r;
    }
    return true;
}

static struct weir__mem_record *record(struct weir__mem_debug *d, const void *p, uint64_t bytes,
                                       unsigned kind, const void *site) {
    if (d->n >= d->n_buckets && !grow(d))
        return NULL;
    struct weir__mem_record *r = calloc(1, sizeof *r), **at = &d->buckets[bucket(d, p)];
    if (!r)
        return NULL;
    r->block = p;
    r->site = site;
    r->bytes = bytes;
    r->kind = (uint8_t)kind;
    r->next = *at;
    *at = r;
    weir__base_list_push_front(&d->records, &r->link);
    d->n++;
    return r;
}

static void forget(struct weir__mem_debug *d, struct weir__mem_record *r) {
    struct weir__mem_record **at = &d->buckets[bucket(d, r->block)];
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    weir__base_list_remove(&r->link);
    d->n--;
    free(r);
}

struct weir__mem_record *weir__mem_debug_find(const struct weir__mem_debug *d, const void *p) {
    struct weir__mem_record *r = d->n ? d->buckets[bucket(d, p)] : NULL;
    while (r && r->block != p)
        r = r->next;
    return r;
}

/* --- options ---------------------------------------------------------------------------------- */

void weir__mem_debug_init(struct weir__mem_debug *d) {
    *d = (struct weir__mem_debug){0};
    weir__base_list_init(&d->records);
}

static void guard_free(struct weir__mem_record *r) {
    if (r->guard)
        weir__os_unmap(r->guard, r->guard_bytes);
}

void weir__mem_debug_fini(struct weir__mem_debug *d) {
    weir__base_list_each(link, &d->records) {
        struct weir__mem_record *r = container_of(link, struct weir__mem_record, link);
        guard_free(r);
        forget(d, r);
    }
    free(d->buckets);
}

static struct weir_mem_debug options_of(const struct weir_mem_debug *given) {
    struct weir_mem_debug o = {.leaks = WEIR_MEM_LEAKS_OFF};
    if (given)
        memcpy(&o, given, given->size < sizeof o ? given->size : sizeof o);
    o.size = sizeof o;
#ifdef WEIR_CHECKED
    if (o.leaks == WEIR_MEM_LEAKS_DEFAULT)
        o.leaks = WEIR_MEM_LEAKS_FULL;
#endif
    if (o.sample_every == 0)
        o.sample_every = SAMPLE_EVERY;
    return o;
}

void weir__mem_debug_set(struct weir_mem *m, const struct weir_mem_debug *options) {
    struct weir__mem_debug *d = &m->debug;
    d->options = options_of(options);
    const struct weir_mem_debug *o = &d->options;
    bool leaks = o->leaks == WEIR_MEM_LEAKS_SAMPLED || o->leaks == WEIR_MEM_LEAKS_FULL;
    d->on = leaks || o->poison || o->guard_min > 0 || d->n > 0;
    d->complete = o->leaks == WEIR_MEM_LEAKS_FULL && weir__mem_alive(m) == d->n;
    d->countdown = o->leaks == WEIR_MEM_LEAKS_FULL ? 1 : o->sample_every;
    weir__mem_cache_use(&m->cache, &m->arena, m->mode == WEIR_MEM_CACHED || o->poison, o->poison);
    weir__mem_cache_slow(&m->cache, WEIR__MEM_SLOW_DEBUG, d->on);
}

/* --- blocks ----------------------------------------------------------------------------------- */

/* A mapping of its own whose last page is out of bounds, the block right before it. A buffer may be
 * used up to its capacity, which is that of its class. */
static void *guard_new(struct weir_mem *m, size_t bytes, unsigned kind, const void *site) {
    unsigned cls = weir__mem_class(bytes);
    size_t page = weir__os_page_size();
    if (kind == WEIR__MEM_BUF && cls < WEIR__MEM_CLASSES)
        bytes = weir__mem_class_bytes[cls];
    if (bytes > PTRDIFF_MAX - 2 * page || weir__mem_budget_afford(m, bytes, bytes) < bytes)
        return NULL;
    size_t room = (bytes + page - 1) & ~(page - 1), all = room + page;
    uint8_t *base = weir__os_map(all, 0);
    if (!base)
        return NULL;
    uint8_t *p = base + room - ((bytes + 15) & ~(size_t)15);
    struct weir__mem_record *r = NULL;
    if (weir__os_map_guard(base + room, page) == 0)
        r = record(&m->debug, p, bytes, kind, site);
    if (!r) {
        weir__os_unmap(base, all);
        return NULL;
    }
    r->guard = base;
    r->guard_bytes = all;
    weir__mem_arena_out(&m->arena, bytes, all);
    weir__mem_cache_count_large(&m->cache, false);
    return p;
}

static bool chosen(struct weir__mem_debug *d) {
    if (d->options.leaks != WEIR_MEM_LEAKS_SAMPLED && d->options.leaks != WEIR_MEM_LEAKS_FULL)
        return false;
    if (--d->countdown > 0)
        return false;
    d->countdown = d->options.leaks == WEIR_MEM_LEAKS_FULL ? 1 : d->options.sample_every;
    return true;
}

void *weir__mem_debug_get(struct weir_mem *m, size_t bytes, unsigned kind, const void *site) {
    struct weir__mem_debug *d = &m->debug;
    if (d->options.guard_min && bytes >= d->options.guard_min)
        return guard_new(m, bytes, kind, site);
    unsigned cls = weir__mem_class(bytes);
    void *p = weir__mem_find(m, cls, bytes);
    if (p && chosen(d) &&
        !record(d, p, cls < WEIR__MEM_CLASSES ? weir__mem_class_bytes[cls] : bytes, kind, site)) {
        d->lost++;
        d->complete = false;
    }
    return p;
}

bool weir__mem_debug_put(struct weir_mem *m, void *p, unsigned kind) {
    struct weir__mem_debug *d = &m->debug;
    struct weir__mem_record *r = weir__mem_debug_find(d, p);
    must(r || !d->complete); /* released twice, or not from here */
    if (!r)
        return false;
    must(r->kind == kind);
    bool guarded = r->guard != NULL;
    if (guarded)
        weir__mem_arena_in(&m->arena, r->bytes, r->guard_bytes);
    guard_free(r);
    forget(d, r);
    return guarded;
}

/* Other threads may not look into the table while the owner changes it. */
static struct weir__mem_record *own_record(const struct weir_mem *m, const void *block) {
    return m == weir__mem_current ? weir__mem_debug_find(&m->debug, block) : NULL;
}

void weir__mem_debug_touch(struct weir_buf *b, const void *site) {
    struct weir__mem_record *r = own_record(b->bin->mem, b);
    if (!r)
        return;
    r->touched[r->touches % WEIR_MEM_TOUCHES] = site;
    r->touches = (uint8_t)(r->touches == 255 ? 255 - WEIR_MEM_TOUCHES + 1 : r->touches + 1);
}

void weir__mem_debug_share(struct weir_buf *b, const void *site) {
    struct weir__mem_record *r = own_record(b->bin->mem, b);
    if (r)
        r->shared = true;
    weir__mem_debug_touch(b, site);
}

void weir__mem_debug_share_part(const struct weir_part *p) {
    struct weir__mem_record *r = own_record(p->mem, p);
    if (r)
        r->shared = true;
}

/* --- reports ---------------------------------------------------------------------------------- */

void weir__mem_debug_leaks(const struct weir_mem *m) {
    const struct weir__mem_debug *d = &m->debug;
    if (!d->options.on_leak)
        return;
    weir__base_list_each(link, &d->records) {
        const struct weir__mem_record *r = container_of(link, struct weir__mem_record, link);
        struct weir_mem_leak leak = {.pool = m->name,
                                     .kind = kinds[r->kind],
                                     .bytes = r->bytes,
                                     .site = r->site,
                                     .shared = r->shared};
        for (unsigned i = 0; i < r->touches && i < WEIR_MEM_TOUCHES; i++)
            leak.touched[i] = r->touched[(r->touches - 1u - i) % WEIR_MEM_TOUCHES];
        d->options.on_leak(&leak, d->options.user);
    }
}

/* Appends to out[0..n), which is full from *at on where *at > n. */
static void say(char *out, size_t n, int *at, const char *before, const char *text) {
    char none[1];
    size_t used = (size_t)*at < n ? (size_t)*at : n;
    int k = snprintf(n > used ? out + used : none, n - used, "%s%s", before, text);
    *at += k > 0 ? k : 0;
}

int weir_mem_leak_text(const struct weir_mem_leak *leak, char *out, size_t n) {
    char place[200];
    int at = snprintf(out, n, "%s: %s of %zu bytes%s", leak->pool, leak->kind, leak->bytes,
                      leak->shared ? ", shared" : "");
    weir__os_place(leak->site, place, sizeof place);
    say(out, n, &at, ", allocated at ", place);
    for (unsigned i = 0; i < WEIR_MEM_TOUCHES && leak->touched[i]; i++) {
        weir__os_place(leak->touched[i], place, sizeof place);
        say(out, n, &at, i ? ", " : ", last touched at ", place);
    }
    return at;
}

void weir__mem_debug_invariants(const struct weir_mem *m) {
    const struct weir__mem_debug *d = &m->debug;
    uint64_t n = 0, bytes = 0;
    weir__base_list_each(link, &d->records) {
        const struct weir__mem_record *r = container_of(link, struct weir__mem_record, link);
        must(r->kind < WEIR__MEM_KINDS && weir__mem_debug_find(d, r->block) == r);
        bytes += r->bytes;
        n++;
    }
    must(n == d->n && n <= weir__mem_alive(m));
    must(bytes <= weir_mem_live(m));
    if (!d->complete)
        return;
    must(n == weir__mem_alive(m) && bytes == weir_mem_live(m));
}
