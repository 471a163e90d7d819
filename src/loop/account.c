#include "loop/account.h"
#include "io/io.h"
#include <string.h>

void weir__loop_account_init(struct weir__loop_account *a, struct weir__io *io) {
    memset(a, 0, sizeof *a);
    a->io = io;
    a->sample_mask = WEIR__LOOP_SAMPLE_MASK;
    a->top = a->frames;
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

unsigned weir__loop_depth(const struct weir__loop_account *a) {
    return (unsigned)(a->top - a->frames) + a->deep;
}

unsigned weir__loop_frames(const struct weir__loop_account *a, const char **names, unsigned n_max,
                           uint64_t *ref) {
    const struct weir__loop_frame *f = a->top;
    unsigned n = 0;
    atomic_signal_fence(memory_order_acquire);
    *ref = f > a->frames ? f[-1].ref : 0;
    while (f > a->frames && n < n_max)
        names[n++] = (--f)->handler->name;
    return n;
}

static void slow_down(struct weir__loop_account *a) {
    a->slow++;
    a->sample_mask = 0;
}

static void speed_up(struct weir__loop_account *a) {
    if (--a->slow == 0)
        a->sample_mask = WEIR__LOOP_SAMPLE_MASK;
}

/* Deeper than can be told apart: counted with the frame around it. */
void weir__loop_frame_deep(struct weir__loop_account *a) {
    a->deep++;
    slow_down(a);
}

/* Inside a timed frame every one is timed, so that its time can be taken off. */
void weir__loop_frame_begin(struct weir__loop_account *a) {
    struct weir__loop_frame *f = a->top - 1;
    uint64_t before = atomic_load_explicit(&f->handler->calls, memory_order_relaxed) - 1;
    f->sampled = (before & WEIR__LOOP_SAMPLE_MASK) == 0;
    slow_down(a);
    f->inner_ns = f->cpu_inner_ns = 0;
    weir__loop_cpu_fn *cpu = atomic_load_explicit(&a->cpu_now, memory_order_relaxed);
    f->cpu_start_ns = unlikely(cpu) ? cpu() : 0;
    uint64_t now_ns = a->io->ops->now(a->io);
    f->start_ns = now_ns ? now_ns : 1;
}

/* A call that others pushed off its CPU is long by the clock, and only by that. */
static void time_cpu(struct weir__loop_frame *f, struct weir__loop_account *a) {
    weir__loop_cpu_fn *cpu = atomic_load_explicit(&a->cpu_now, memory_order_relaxed);
    if (!cpu)
        return; /* the profile has ended meanwhile */
    uint64_t took = cpu() - f->cpu_start_ns;
    if (f->sampled) {
        weir__loop_add(&f->handler->cpu_timed, 1);
        weir__loop_add(&f->handler->cpu_ns, took > f->cpu_inner_ns ? took - f->cpu_inner_ns : 0);
    }
    if (f > a->frames && f[-1].start_ns)
        f[-1].cpu_inner_ns += took;
}

static void time_frame(struct weir__loop_frame *f, struct weir__loop_account *a, uint64_t now_ns) {
    uint64_t took = now_ns - f->start_ns;
    uint64_t self = took > f->inner_ns ? took - f->inner_ns : 0;
    speed_up(a);
    if (unlikely(f->cpu_start_ns))
        time_cpu(f, a);
    if (f->sampled) {
        weir__loop_add(&f->handler->sampled, 1);
        weir__loop_add(&f->handler->sampled_ns, self);
    }
    if (f > a->frames && f[-1].start_ns)
        f[-1].inner_ns += took;
    f->start_ns = 0;
}

void weir__loop_frame_end(struct weir__loop_account *a) {
    if (a->deep) {
        a->deep--;
        speed_up(a);
        return;
    }
    struct weir__loop_frame *f = --a->top;
    if (f->start_ns)
        time_frame(f, a, a->io->ops->now(a->io));
}
