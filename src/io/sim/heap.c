#include "io/sim/heap.h"
#include "base/assert.h"
#include <stdbool.h>
#include <string.h>

static bool before(const struct weir__iosim_event *a, const struct weir__iosim_event *b) {
    if (a->at_ns != b->at_ns)
        return a->at_ns < b->at_ns;
    return a->tie != b->tie ? a->tie < b->tie : a->seq < b->seq;
}

static void grow(struct weir__iosim_heap *h, struct weir_mem *m) {
    size_t cap = h->cap ? h->cap * 2 : 64;
    struct weir__iosim_event *at = weir_mem_new(m, cap * sizeof *at);
    must(at);
    if (h->n)
        memcpy(at, h->at, h->n * sizeof *at);
    weir_mem_free(h->at);
    h->at = at;
    h->cap = cap;
}

void weir__iosim_heap_push(struct weir__iosim_heap *h, struct weir_mem *m,
                           const struct weir__iosim_event *e) {
    if (h->n == h->cap)
        grow(h, m);
    size_t i = h->n++;
    for (size_t up; i > 0 && before(e, &h->at[up = (i - 1) / 2]); i = up)
        h->at[i] = h->at[up];
    h->at[i] = *e;
}

struct weir__iosim_event weir__iosim_heap_pop(struct weir__iosim_heap *h) {
    must(h->n > 0);
    struct weir__iosim_event top = h->at[0], last = h->at[--h->n];
    size_t i = 0;
    for (size_t down; (down = 2 * i + 1) < h->n; i = down) {
        if (down + 1 < h->n && before(&h->at[down + 1], &h->at[down]))
            down++;
        if (!before(&h->at[down], &last))
            break;
        h->at[i] = h->at[down];
    }
    h->at[i] = last;
    return top;
}

void weir__iosim_heap_fini(struct weir__iosim_heap *h) {
    must(h->n == 0);
    weir_mem_free(h->at);
    *h = (struct weir__iosim_heap){0};
}
