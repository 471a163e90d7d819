#include "base/assert.h"
#include <stdio.h>
#include <stdlib.h>

void (*weir__base_on_panic)(const char *message);

static _Atomic(struct weir__base_site *) sites;

void weir__base_panic(const char *file, unsigned line, const char *text) {
    char message[512];
    snprintf(message, sizeof message, "weir: %s:%u: must hold: %s\n", file, line, text);
    if (weir__base_on_panic)
        weir__base_on_panic(message);
    fputs(message, stderr);
    abort();
}

bool weir__base_hit(struct weir__base_site *site) {
    if (atomic_fetch_add_explicit(&site->hits, 1, memory_order_relaxed) > 0)
        return true;
    site->next = atomic_load_explicit(&sites, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&sites, &site->next, site, memory_order_release,
                                                  memory_order_relaxed))
        continue;
    return true;
}

void weir__base_sites(void (*fn)(const struct weir__base_site *site, uint64_t hits, void *user),
                      void *user) {
    struct weir__base_site *s = atomic_load_explicit(&sites, memory_order_acquire);
    for (; s; s = s->next)
        fn(s, atomic_load_explicit(&s->hits, memory_order_relaxed), user);
}

uint64_t weir__base_hits(enum weir__base_site_kind kind) {
    uint64_t sum = 0;
    struct weir__base_site *s = atomic_load_explicit(&sites, memory_order_acquire);
    for (; s; s = s->next)
        if (s->kind == kind)
            sum += atomic_load_explicit(&s->hits, memory_order_relaxed);
    return sum;
}
