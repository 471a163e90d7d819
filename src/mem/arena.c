#include "mem/arena.h"
#include "mem/poison.h"
#include "os/memory.h"
#include <stdlib.h>

/* In front of a block outside of chunks. A mapping is aligned like a chunk, where no block can lie
 * right behind the beginning: that is how it is told from a run. */
struct outside {
    alignas(64) uint64_t bytes; /* of the block */
    uint64_t mapped;            /* with this; 0: from the heap */
};
_Static_assert(sizeof(struct outside) < sizeof(struct weir__mem_chunk), "inside a chunk's books");

void weir__mem_arena_init(struct weir__mem_arena *a, uint64_t chunk_bytes, bool heap) {
    *a = (struct weir__mem_arena){.heap = heap};
    weir__mem_chunks_init(&a->chunks, chunk_bytes);
    for (unsigned i = 0; i < WEIR__MEM_CLASSES; i++)
        weir__base_list_init(&a->partial[i]);
}

void weir__mem_arena_fini(struct weir__mem_arena *a) {
    weir__mem_chunks_fini(&a->chunks);
}

static void went_out(struct weir__mem_arena *a, uint64_t bytes) {
    a->out_bytes += bytes;
    if (a->out_bytes > a->out_peak)
        a->out_peak = a->out_bytes;
}

/* --- blocks of a class ------------------------------------------------------------------------ */

static uint64_t run_slack(unsigned cls) {
    const struct weir__mem_shape *s = &weir__mem_shapes[cls];
    return (uint64_t)s->pages * WEIR__MEM_PAGE_BYTES -
           (uint64_t)s->blocks * weir__mem_class_bytes[cls];
}

static struct weir__mem_run *run_new(struct weir__mem_arena *a, unsigned cls) {
    const struct weir__mem_shape *s = &weir__mem_shapes[cls];
    struct weir__mem_run *r = weir__mem_pages_take(&a->chunks, s->pages);
    if (!r)
        return NULL;
    r->cls = (uint8_t)cls;
    r->n_free = s->blocks;
    for (unsigned i = 0; i < ARRAY_LEN(r->free); i++) {
        unsigned left = s->blocks > i * 64 ? s->blocks - i * 64 : 0;
        r->free[i] = left >= 64 ? UINT64_MAX : ((uint64_t)1 << left) - 1;
    }
    a->block_bytes += (uint64_t)s->blocks * weir__mem_class_bytes[cls];
    a->slack_bytes += run_slack(cls);
    weir__base_list_push_front(&a->partial[cls], &r->link);
    return r;
}

static void run_free(struct weir__mem_arena *a, struct weir__mem_run *r) {
    weir__base_list_remove(&r->link);
    a->block_bytes -= (uint64_t)r->n_free * weir__mem_class_bytes[r->cls];
    a->slack_bytes -= run_slack(r->cls);
    weir__mem_pages_give(&a->chunks, r);
}

/* Blocks of r, lowest first, onto the end of a list. Returns how many. */
static unsigned run_take(struct weir__mem_arena *a, struct weir__mem_run *r, unsigned want,
                         struct weir__mem_block ***end) {
    uint32_t size = weir__mem_class_bytes[r->cls];
    uint8_t *base = weir__mem_run_base(weir__mem_chunk_of(&a->chunks, r), r);
    unsigned k = 0;
    for (unsigned w = 0; k < want && k < r->n_free; w++) {
        while (r->free[w] && k < want) {
            unsigned i = w * 64 + (unsigned)__builtin_ctzll(r->free[w]);
            struct weir__mem_block *b = (struct weir__mem_block *)(base + (size_t)i * size);
            r->free[w] &= r->free[w] - 1;
            WEIR__MEM_SHOW(b, size);
            **end = b;
            *end = &b->next;
            k++;
        }
    }
    r->n_free = (uint16_t)(r->n_free - k);
    if (r->n_free == 0)
        weir__base_list_remove(&r->link);
    a->block_bytes -= (uint64_t)k * size;
    return k;
}

static unsigned heap_take(struct weir__mem_arena *a, unsigned cls, struct weir__mem_block **list) {
    struct weir__mem_block *b = malloc(weir__mem_class_bytes[cls]);
    if (!b)
        return 0;
    b->next = NULL;
    *list = b;
    a->outside_bytes += weir__mem_class_bytes[cls];
    a->outside_blocks++;
    went_out(a, weir__mem_class_bytes[cls]);
    return 1;
}

unsigned weir__mem_arena_take(struct weir__mem_arena *a, unsigned cls, unsigned want,
                              struct weir__mem_block **list) {
    if (a->heap)
        return heap_take(a, cls, list);
    struct weir__mem_block **end = list;
    unsigned k = 0;
    while (k < want) {
        struct weir__base_link *link = weir__base_list_first(&a->partial[cls]);
        struct weir__mem_run *r = link ? container_of(link, struct weir__mem_run, link) : NULL;
        if (!r && (k > 0 || !(r = run_new(a, cls)))) /* a few are enough */
            break;
        k += run_take(a, r, want - k, &end);
    }
    *end = NULL;
    went_out(a, (uint64_t)k * weir__mem_class_bytes[cls]);
    return k;
}

/* A run that becomes partial is the fullest of them. One empty run per class is kept, or a block
 * that comes and goes would take its pages along each time. */
static void run_give(struct weir__mem_arena *a, struct weir__mem_run *r) {
    struct weir__base_list *partial = &a->partial[r->cls];
    if (r->n_free++ == 0)
        weir__base_list_push_front(partial, &r->link);
    if (r->n_free == weir__mem_shapes[r->cls].blocks && partial->head.next != partial->head.prev)
        run_free(a, r);
}

void weir__mem_arena_give(struct weir__mem_arena *a, void *p, unsigned cls) {
    uint32_t size = weir__mem_class_bytes[cls];
    if (a->heap) {
        a->out_bytes -= size;
        a->outside_bytes -= size;
        free(p);
        return;
    }
    struct weir__mem_run *r = weir__mem_run_of(&a->chunks, p);
    uint8_t *base = weir__mem_run_base(weir__mem_chunk_of(&a->chunks, p), r);
    unsigned i = (unsigned)((uint64_t)((uint8_t *)p - base) * weir__mem_shapes[cls].inverse >> 32);
    must(r->cls == cls && base + (size_t)i * size == (uint8_t *)p && !weir__mem_bit(r->free, i));
    r->free[i / 64] |= (uint64_t)1 << (i % 64);
    a->block_bytes += size;
    a->out_bytes -= size;
    WEIR__MEM_HIDE(p, size);
    run_give(a, r);
}

/* --- larger blocks ---------------------------------------------------------------------------- */

static bool is_outside(const struct weir__mem_arena *a, const void *p) {
    return a->heap || ((uintptr_t)p & (a->chunks.chunk_bytes - 1)) == sizeof(struct outside);
}

static void *outside_take(struct weir__mem_arena *a, size_t bytes) {
    if (bytes > PTRDIFF_MAX - sizeof(struct outside) - a->chunks.chunk_bytes)
        return NULL;
    uint64_t all = bytes + sizeof(struct outside), page = weir__os_page_size();
    uint64_t mapped = a->heap ? 0 : (all + page - 1) & ~(page - 1);
    struct outside *o = mapped ? weir__os_map(mapped, a->chunks.chunk_bytes)
                               : aligned_alloc(64, (all + 63) & ~63ULL);
    if (!o)
        return NULL;
    *o = (struct outside){.bytes = bytes, .mapped = mapped};
    weir__mem_arena_out(a, bytes, mapped ? mapped : all);
    return o + 1;
}

static void outside_free(struct outside *o) {
    if (o->mapped)
        weir__os_unmap(o, o->mapped);
    else
        free(o);
}

static uint64_t outside_took(const struct outside *o) {
    return o->mapped ? o->mapped : o->bytes + sizeof *o;
}

static void *run_take_large(struct weir__mem_arena *a, size_t bytes) {
    unsigned pages = (unsigned)((bytes + WEIR__MEM_PAGE_BYTES - 1) >> WEIR__MEM_PAGE_BITS);
    struct weir__mem_run *r = weir__mem_pages_take(&a->chunks, pages);
    if (!r)
        return NULL;
    r->cls = WEIR__MEM_HUGE;
    r->n_free = 0;
    r->bytes = (uint32_t)bytes;
    a->slack_bytes += (uint64_t)pages * WEIR__MEM_PAGE_BYTES - bytes;
    void *p = weir__mem_run_base(weir__mem_chunk_of(&a->chunks, r), r);
    WEIR__MEM_SHOW(p, bytes);
    went_out(a, bytes);
    return p;
}

void *weir__mem_arena_take_large(struct weir__mem_arena *a, size_t bytes) {
    bool fits = !a->heap && bytes <= a->chunks.chunk_bytes / 2;
    return fits ? run_take_large(a, bytes) : outside_take(a, bytes);
}

size_t weir__mem_arena_large_bytes(const struct weir__mem_arena *a, const void *p) {
    if (is_outside(a, p))
        return ((const struct outside *)p - 1)->bytes;
    return weir__mem_run_of(&a->chunks, p)->bytes;
}

void weir__mem_arena_give_large(struct weir__mem_arena *a, void *p) {
    size_t bytes = weir__mem_arena_large_bytes(a, p);
    if (is_outside(a, p)) {
        struct outside *o = (struct outside *)p - 1;
        weir__mem_arena_in(a, bytes, outside_took(o));
        outside_free(o);
        return;
    }
    struct weir__mem_run *r = weir__mem_run_of(&a->chunks, p);
    must(r->cls == WEIR__MEM_HUGE && r->pages > 0);
    a->out_bytes -= bytes;
    a->slack_bytes -= (uint64_t)r->pages * WEIR__MEM_PAGE_BYTES - bytes;
    WEIR__MEM_HIDE(p, bytes);
    weir__mem_pages_give(&a->chunks, r);
}

void weir__mem_arena_out(struct weir__mem_arena *a, uint64_t bytes, uint64_t took) {
    a->outside_bytes += took;
    a->outside_blocks++;
    a->slack_bytes += took - bytes;
    went_out(a, bytes);
}

void weir__mem_arena_in(struct weir__mem_arena *a, uint64_t bytes, uint64_t took) {
    a->outside_bytes -= took;
    a->slack_bytes -= took - bytes;
    a->out_bytes -= bytes;
}

void weir__mem_arena_abandon(const struct weir__mem_arena *a, void *p, unsigned cls) {
    if (cls == WEIR__MEM_HUGE && is_outside(a, p))
        outside_free((struct outside *)p - 1);
    else if (a->heap)
        free(p);
}

/* --- all of it -------------------------------------------------------------------------------- */

void weir__mem_arena_trim(struct weir__mem_arena *a, bool all) {
    for (unsigned cls = 0; cls < WEIR__MEM_CLASSES; cls++) {
        weir__base_list_each(link, &a->partial[cls]) {
            struct weir__mem_run *r = container_of(link, struct weir__mem_run, link);
            if (r->n_free == weir__mem_shapes[cls].blocks)
                run_free(a, r);
        }
    }
    weir__mem_chunks_trim(&a->chunks, all);
}

struct sum {
    uint64_t pages, head, free_pages, block, slack, out;
};

static void run_invariants(const struct weir__mem_run *r, struct sum *s) {
    uint64_t bytes = (uint64_t)r->pages * WEIR__MEM_PAGE_BYTES;
    if (r->cls == WEIR__MEM_HUGE) {
        must(r->n_free == 0 && r->bytes <= bytes);
        s->out += r->bytes;
        s->slack += bytes - r->bytes;
        return;
    }
    const struct weir__mem_shape *shape = &weir__mem_shapes[r->cls];
    unsigned n_free = 0;
    for (unsigned i = 0; i < ARRAY_LEN(r->free); i++)
        n_free += (unsigned)__builtin_popcountll(r->free[i]);
    must(r->pages == shape->pages && n_free == r->n_free && n_free <= shape->blocks);
    must(weir__base_linked(&r->link) == (n_free > 0));
    s->block += (uint64_t)n_free * weir__mem_class_bytes[r->cls];
    s->out += (uint64_t)(shape->blocks - n_free) * weir__mem_class_bytes[r->cls];
    s->slack += run_slack(r->cls);
}

static void chunk_sum(const struct weir__mem_chunk *c, struct sum *s) {
    for (unsigned i = c->head; i < c->pages;) {
        if (weir__mem_bit(c->bits, i)) {
            i++;
            continue;
        }
        run_invariants(&c->runs[i], s);
        i += c->runs[i].pages;
    }
    s->pages += c->pages;
    s->head += c->head;
    s->free_pages += c->free;
}

void weir__mem_arena_invariants(const struct weir__mem_arena *a) {
    const struct weir__mem_chunks *cs = &a->chunks;
    struct sum s = {0};
    for (unsigned b = 0; b < WEIR__MEM_BANDS; b++) {
        uint64_t n = 0;
        weir__base_list_each(link, &cs->bands[b]) {
            const struct weir__mem_chunk *c = container_of(link, struct weir__mem_chunk, link);
            must(c->band == b);
            weir__mem_chunk_invariants(cs, c);
            chunk_sum(c, &s);
            n++;
        }
        must(n == cs->n[b]);
    }
    must(cs->head_bytes == s.head * WEIR__MEM_PAGE_BYTES);
    must(cs->free_bytes == s.free_pages * WEIR__MEM_PAGE_BYTES &&
         cs->clean_bytes <= cs->free_bytes);
    must(a->block_bytes == s.block);
    must(s.pages * WEIR__MEM_PAGE_BYTES + a->outside_bytes ==
         a->out_bytes + a->block_bytes + cs->free_bytes + cs->head_bytes + a->slack_bytes);
    must(a->outside_bytes > 0 || (a->out_bytes == s.out && a->slack_bytes == s.slack));
    must(cs->empty <= WEIR__MEM_EMPTY_MAX);
}
