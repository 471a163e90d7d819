#include "loop/account.h"
#include <string.h>

void weir__loop_account_init(struct weir__loop_account *a) {
    memset(a, 0, sizeof *a);
    a->handlers[0].name = "(loop)";
    atomic_store_explicit(&a->n_handlers, 1, memory_order_relaxed);
}

struct weir__loop_handler *weir__loop_intern(struct weir__loop_account *a, const char *name) {
    unsigned n = atomic_load_explicit(&a->n_handlers, memory_order_relaxed);
    for (unsigned i = 0; i < n; i++)
        if (strcmp(a->handlers[i].name, name) == 0)
            return &a->handlers[i];
    if (count_if(n == WEIR__LOOP_HANDLERS_MAX))
        return &a->handlers[0];
    a->handlers[n].name = name;
    atomic_store_explicit(&a->n_handlers, n + 1,
                          memory_order_release); /* readers see the name first */
    return &a->handlers[n];
}

void weir__loop_frame_begin(struct weir__loop_frame *f, struct weir__loop_account *a,
                            struct weir__io *io, bool sampled) {
    a->timed++;
    f->sampled = sampled;
    f->inner_ns = 0;
    f->start_ns = io->ops->now(io);
}

void weir__loop_frame_end(struct weir__loop_frame *f, struct weir__loop_account *a,
                          struct weir__io *io) {
    uint64_t took = io->ops->now(io) - f->start_ns;
    a->timed--;
    uint64_t self = took > f->inner_ns ? took - f->inner_ns : 0;
    if (f->sampled) {
        weir__loop_add(&f->handler->sampled, 1);
        weir__loop_add(&f->handler->sampled_ns, self);
    }
    if (a->depth && f[-1].start_ns)
        f[-1].inner_ns += took;
}
