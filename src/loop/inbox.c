#include "loop/inbox.h"
#include "base/assert.h"
#include "loop/loop.h"
#include "mem/raw.h"
#include "weir/error.h"

static struct weir__loop_node closed_mark;
#define CLOSED (&closed_mark)

static _Atomic(struct weir__loop_inbox *) idle;
static atomic_flag idle_busy =
    ATOMIC_FLAG_INIT; /* opening is rare; a pop of one from a stack would need tags */

static struct weir__loop_inbox *idle_pop(void) {
    while (atomic_flag_test_and_set_explicit(&idle_busy, memory_order_acquire))
        ;
    struct weir__loop_inbox *b = atomic_load_explicit(&idle, memory_order_acquire);
    if (b)
        atomic_store_explicit(&idle, b->next, memory_order_relaxed);
    atomic_flag_clear_explicit(&idle_busy, memory_order_release);
    return b;
}

static void idle_push(struct weir__loop_inbox *b) {
    while (atomic_flag_test_and_set_explicit(&idle_busy, memory_order_acquire))
        ;
    b->next = atomic_load_explicit(&idle, memory_order_relaxed);
    atomic_store_explicit(&idle, b, memory_order_release);
    atomic_flag_clear_explicit(&idle_busy, memory_order_release);
}

struct weir__loop_inbox *weir__loop_inbox_get(void) {
    struct weir__loop_inbox *b = idle_pop();
    if (b)
        return b;
    b = weir__mem_raw_new(sizeof *b);
    if (!b)
        return NULL;
    weir__io_slots_init(&b->slots, b);
    atomic_store(&b->head, CLOSED);
    return b;
}

void weir__loop_inbox_put(struct weir__loop_inbox *b) {
    idle_push(b);
}

void weir__loop_inbox_open(struct weir__loop_inbox *b, struct weir_loop *l) {
    b->loop = l;
    atomic_store(&b->sleeping, 0);
    atomic_store(&b->pushed, 0);
    atomic_store(&b->wakes, 0);
    atomic_store(&b->head, NULL);
}

static struct weir__loop_node *reversed(struct weir__loop_node *n) {
    struct weir__loop_node *out = NULL;
    while (n && n != CLOSED) {
        struct weir__loop_node *next = n->next;
        n->next = out;
        out = n;
        n = next;
    }
    return out;
}

struct weir__loop_node *weir__loop_inbox_close(struct weir__loop_inbox *b) {
    struct weir__loop_node *n = atomic_exchange(&b->head, CLOSED);
    must(n != CLOSED);
    while (atomic_load(&b->visitors))
        ; /* a visitor is between its push and its wake: a few instructions and one write */
    b->loop = NULL;
    return reversed(n);
}

int weir__loop_inbox_push(struct weir__loop_inbox *b, struct weir__loop_node *n) {
    atomic_fetch_add(&b->visitors, 1);
    struct weir__loop_node *head = atomic_load(&b->head);
    do {
        if (head == CLOSED) {
            atomic_fetch_sub(&b->visitors, 1);
            return WEIR_ESTOPPED;
        }
        n->next = head;
    } while (!atomic_compare_exchange_weak(&b->head, &head, n));
    atomic_fetch_add_explicit(&b->pushed, 1, memory_order_relaxed);
    if (atomic_load(&b->sleeping) && atomic_exchange(&b->sleeping, 0)) {
        atomic_fetch_add_explicit(&b->wakes, 1, memory_order_relaxed);
        weir__loop_wake(b->loop);
    }
    atomic_fetch_sub(&b->visitors, 1);
    return 0;
}

struct weir__loop_node *weir__loop_inbox_take(struct weir__loop_inbox *b) {
    struct weir__loop_node *head = atomic_load_explicit(&b->head, memory_order_relaxed);
    if (likely(!head) || head == CLOSED)
        return NULL; /* only the loop itself closes, so this look cannot be outrun */
    return reversed(atomic_exchange(&b->head, NULL));
}

bool weir__loop_inbox_doze(struct weir__loop_inbox *b) {
    atomic_store(&b->sleeping, 1);
    struct weir__loop_node *head = atomic_load(&b->head);
    if (likely(!head) || head == CLOSED)
        return true;
    atomic_store(&b->sleeping, 0);
    return false;
}

void weir__loop_inbox_awake(struct weir__loop_inbox *b) {
    atomic_store_explicit(&b->sleeping, 0, memory_order_relaxed);
}
