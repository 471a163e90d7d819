/* A node waits at the level of the highest 6-bit digit in which its tick differs from the wheel's,
 * in the slot of that digit:
 *
 *     wheel at 3|17|60     node 3|17|63 -> level 0, slot 63   fires from there
 *                          node 3|21| 5 -> level 1, slot 21   comes down at 3|21|0
 *                          node 5| 0| 0 -> level 2, slot  5   fires at 5|0|0
 *
 * So everything on a level is earlier than everything above it, the earliest slot is the lowest
 * bit of the lowest used level, and the wheel may jump to any tick before that slot without
 * touching a node. */
#include "time/wheel.h"
#include "base/assert.h"
#include "base/compiler.h"

enum {
    DIGIT_BITS = 6,
    ALL_BITS = WEIR__TIME_LEVELS * DIGIT_BITS,
    PLACE_DUE = WEIR__TIME_LEVELS * WEIR__TIME_SLOTS + 1,
    PLACE_FAR,
};

_Static_assert(1 << DIGIT_BITS == WEIR__TIME_SLOTS, "a slot is one digit");

static uint64_t tick_at(uint64_t ns) {
    return ns / WEIR__TIME_TICK_NS;
}

static uint64_t tick_after(uint64_t ns) {
    return ns / WEIR__TIME_TICK_NS + (ns % WEIR__TIME_TICK_NS != 0);
}

static void place(struct weir__time_wheel *w, struct weir__time_node *n) {
    if (n->tick <= w->tick) {
        n->place = PLACE_DUE;
        weir__base_list_push_back(&w->due, &n->link);
        return;
    }
    unsigned level = (unsigned)(63 - __builtin_clzll(n->tick ^ w->tick)) / DIGIT_BITS;
    if (level >= WEIR__TIME_LEVELS) {
        n->place = PLACE_FAR;
        weir__base_list_push_back(&w->far, &n->link);
        return;
    }
    unsigned slot = (unsigned)(n->tick >> (level * DIGIT_BITS)) % WEIR__TIME_SLOTS;
    n->place = level * WEIR__TIME_SLOTS + slot + 1;
    w->used[level] |= UINT64_C(1) << slot;
    weir__base_list_push_back(&w->slot[level][slot], &n->link);
}

/* The list that a place stands for has lost its members. */
static void mark_empty(struct weir__time_wheel *w, unsigned at) {
    if (at < PLACE_DUE)
        w->used[(at - 1) / WEIR__TIME_SLOTS] &= ~(UINT64_C(1) << (at - 1) % WEIR__TIME_SLOTS);
}

static void lift(struct weir__time_wheel *w, struct weir__time_node *n) {
    struct weir__base_link *neighbour = n->link.prev;
    weir__base_list_remove(&n->link);
    if (neighbour->next == neighbour)
        mark_empty(w, n->place);
    n->place = 0;
}

/* The earliest list that has members, and the first tick that belongs there; NULL: all empty. */
static struct weir__base_list *earliest(const struct weir__time_wheel *w, uint64_t *start) {
    for (unsigned level = 0; level < WEIR__TIME_LEVELS; level++) {
        if (!w->used[level])
            continue;
        unsigned slot = (unsigned)__builtin_ctzll(w->used[level]), bits = level * DIGIT_BITS;
        uint64_t above = w->tick >> (bits + DIGIT_BITS) << (bits + DIGIT_BITS);
        *start = above | (uint64_t)slot << bits;
        return (struct weir__base_list *)&w->slot[level][slot];
    }
    *start = ((w->tick >> ALL_BITS) + 1) << ALL_BITS;
    return weir__base_list_empty(&w->far) ? NULL : (struct weir__base_list *)&w->far;
}

void weir__time_wheel_init(struct weir__time_wheel *w, uint64_t now) {
    *w = (struct weir__time_wheel){.tick = tick_at(now)};
    for (unsigned level = 0; level < WEIR__TIME_LEVELS; level++)
        for (unsigned slot = 0; slot < WEIR__TIME_SLOTS; slot++)
            weir__base_list_init(&w->slot[level][slot]);
    weir__base_list_init(&w->far);
    weir__base_list_init(&w->due);
}

void weir__time_wheel_fini(struct weir__time_wheel *w) {
    weir__time_wheel_invariants(w);
    must(w->armed == 0);
}

void weir__time_wheel_arm(struct weir__time_wheel *w, struct weir__time_node *n,
                          uint64_t deadline_ns, uint64_t now) {
    weir__time_wheel_disarm(w, n);
    if (deadline_ns == WEIR__TIME_NEVER)
        return;
    uint64_t tick = tick_after(deadline_ns), soonest = tick_at(now) + 1;
    n->tick = tick > soonest ? tick : soonest;
    w->armed++;
    place(w, n);
}

static void forget_list(struct weir__time_wheel *w, struct weir__base_list *l) {
    struct weir__base_link *link;
    while ((link = weir__base_list_first(l)))
        weir__time_wheel_disarm(w, container_of(link, struct weir__time_node, link));
}

void weir__time_wheel_forget(struct weir__time_wheel *w) {
    for (unsigned level = 0; level < WEIR__TIME_LEVELS; level++)
        for (unsigned slot = 0; slot < WEIR__TIME_SLOTS; slot++)
            forget_list(w, &w->slot[level][slot]);
    forget_list(w, &w->due);
    forget_list(w, &w->far);
}

bool weir__time_wheel_disarm(struct weir__time_wheel *w, struct weir__time_node *n) {
    if (!n->place)
        return false;
    lift(w, n);
    w->armed--;
    return true;
}

struct weir__time_node *weir__time_wheel_pop(struct weir__time_wheel *w, uint64_t now) {
    uint64_t target = tick_at(now), start;
    if (likely(w->armed == 0)) {
        w->tick = target > w->tick ? target : w->tick;
        return NULL;
    }
    while (weir__base_list_empty(&w->due)) {
        struct weir__base_list *from = earliest(w, &start), moved;
        if (!from || start > target) {
            w->tick = target > w->tick ? target : w->tick;
            return NULL;
        }
        w->tick = start;
        mark_empty(w, container_of(from->head.next, struct weir__time_node, link)->place);
        weir__base_list_init(&moved);
        weir__base_list_append(&moved, from);
        for (struct weir__base_link *l; (l = weir__base_list_pop_front(&moved));)
            place(w, container_of(l, struct weir__time_node, link));
    }
    struct weir__base_link *l = weir__base_list_first(&w->due);
    struct weir__time_node *n = container_of(l, struct weir__time_node, link);
    weir__time_wheel_disarm(w, n);
    return n;
}

uint64_t weir__time_wheel_next(const struct weir__time_wheel *w) {
    uint64_t start;
    if (likely(w->armed == 0))
        return WEIR__TIME_NEVER;
    if (!weir__base_list_empty(&w->due))
        return w->tick * WEIR__TIME_TICK_NS;
    if (!earliest(w, &start))
        return WEIR__TIME_NEVER;
    return start > WEIR__TIME_NEVER / WEIR__TIME_TICK_NS ? WEIR__TIME_NEVER
                                                         : start * WEIR__TIME_TICK_NS;
}

static size_t count_list(const struct weir__base_list *l, unsigned place_first,
                         unsigned place_last) {
    size_t n = 0;
    weir__base_list_each(at, l) {
        const struct weir__time_node *node = container_of(at, struct weir__time_node, link);
        must(node->place >= place_first && node->place <= place_last);
        n++;
    }
    return n;
}

void weir__time_wheel_invariants(const struct weir__time_wheel *w) {
    size_t n = count_list(&w->due, PLACE_DUE, PLACE_DUE) +
               count_list(&w->far, PLACE_FAR, PLACE_FAR);
    for (unsigned level = 0; level < WEIR__TIME_LEVELS; level++) {
        for (unsigned slot = 0; slot < WEIR__TIME_SLOTS; slot++) {
            unsigned place_of = level * WEIR__TIME_SLOTS + slot + 1;
            size_t here = count_list(&w->slot[level][slot], place_of, place_of);
            must((here > 0) == (w->used[level] >> slot & 1));
            n += here;
        }
    }
    must(n == w->armed);
}
