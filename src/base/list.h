/* Intrusive lists: a doubly linked ring (remove anything in O(1)) and a singly linked FIFO. A
 * zeroed link is in no list. */
#ifndef WEIR_BASE_LIST_H
#define WEIR_BASE_LIST_H
#include "base/assert.h"
#include "base/compiler.h"
#include <stdbool.h>
#include <stddef.h>

struct weir__base_link {
    struct weir__base_link *prev, *next;
};

struct weir__base_list { /* the ring's head; never moves while it has members */
    struct weir__base_link head;
};

static inline void weir__base_list_init(struct weir__base_list *l) {
    l->head.prev = l->head.next = &l->head;
}

static inline bool weir__base_list_empty(const struct weir__base_list *l) {
    return l->head.next == &l->head;
}

static inline bool weir__base_linked(const struct weir__base_link *n) {
    return n->next != NULL;
}

static inline void weir__base_link_between(struct weir__base_link *n, struct weir__base_link *prev,
                                           struct weir__base_link *next) {
    check(!weir__base_linked(n));
    n->prev = prev;
    n->next = next;
    prev->next = n;
    next->prev = n;
}

static inline void weir__base_list_push_back(struct weir__base_list *l, struct weir__base_link *n) {
    weir__base_link_between(n, l->head.prev, &l->head);
}

static inline void weir__base_list_push_front(struct weir__base_list *l,
                                              struct weir__base_link *n) {
    weir__base_link_between(n, &l->head, l->head.next);
}

/* Takes n out of the list it is in and zeroes its link. */
static inline void weir__base_list_remove(struct weir__base_link *n) {
    check(weir__base_linked(n));
    n->prev->next = n->next;
    n->next->prev = n->prev;
    n->prev = n->next = NULL;
}

static inline struct weir__base_link *weir__base_list_first(const struct weir__base_list *l) {
    return weir__base_list_empty(l) ? NULL : l->head.next;
}

static inline struct weir__base_link *weir__base_list_pop_front(struct weir__base_list *l) {
    struct weir__base_link *n = weir__base_list_first(l);
    if (n)
        weir__base_list_remove(n);
    return n;
}

/* Moves everything of src behind dst; src is empty afterwards. */
static inline void weir__base_list_append(struct weir__base_list *dst,
                                          struct weir__base_list *src) {
    if (weir__base_list_empty(src))
        return;
    src->head.next->prev = dst->head.prev;
    dst->head.prev->next = src->head.next;
    src->head.prev->next = &dst->head;
    dst->head.prev = src->head.prev;
    weir__base_list_init(src);
}

/* Visits every link; the body may remove the visited one, nothing else. */
#define weir__base_list_each(n, l)                                                         \
    for (struct weir__base_link *n = (l)->head.next, *n##_next = n->next; n != &(l)->head; \
         n = n##_next, n##_next = n->next)

struct weir__base_fifo_link {
    struct weir__base_fifo_link *next;
};

struct weir__base_fifo { /* {0} is empty; may be moved */
    struct weir__base_fifo_link *first, *last;
};

static inline bool weir__base_fifo_empty(const struct weir__base_fifo *f) {
    return f->first == NULL;
}

static inline void weir__base_fifo_push(struct weir__base_fifo *f, struct weir__base_fifo_link *n) {
    n->next = NULL;
    if (f->first)
        f->last->next = n;
    else
        f->first = n;
    f->last = n;
}

static inline struct weir__base_fifo_link *weir__base_fifo_pop(struct weir__base_fifo *f) {
    struct weir__base_fifo_link *n = f->first;
    if (n) {
        f->first = n->next;
        n->next = NULL;
        if (!f->first)
            f->last = NULL;
    }
    return n;
}

/* Moves everything of src behind dst; src is empty afterwards. */
static inline void weir__base_fifo_append(struct weir__base_fifo *dst,
                                          struct weir__base_fifo *src) {
    if (!src->first)
        return;
    if (dst->first)
        dst->last->next = src->first;
    else
        dst->first = src->first;
    dst->last = src->last;
    src->first = src->last = NULL;
}

#endif
