#include "echo/burn.h"
#include <stdlib.h>
#include <time.h>

struct burn {
    struct weir_group *group;
    struct burn *self; /* what the stage is configured with */
    uint64_t ns;
    bool lit[]; /* per loop, on its thread */
};

/* --- the handler ----------------------------------------------------------------------------- */

static uint64_t cpu_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int burn_open(struct weir_ctx *c, const void *config) {
    *(uint64_t *)weir_ctx_state(c) = *(const uint64_t *)config;
    return 0;
}

/* Some 20 microseconds of a function with a name, so that profiles show where the time goes. */
static __attribute__((noinline)) uint64_t burn_spin(uint64_t x) {
    for (unsigned i = 0; i < 20000; i++)
        x = x * 6364136223846793005ULL + 1442695040888963407ULL;
    return x;
}

static int burn_read(struct weir_ctx *c, struct weir_chain *in) {
    uint64_t until = cpu_now() + *(const uint64_t *)weir_ctx_state(c);
    volatile uint64_t x = until;
    while (cpu_now() < until)
        x = burn_spin(x);
    return weir_ctx_forward(c, in);
}

static const struct weir_handler burner = {
    .name = "burn", .state_size = sizeof(uint64_t), .open = burn_open, .read = burn_read};

/* --- the stage in front of it ---------------------------------------------------------------- */

struct gate {
    const struct burn *burn;
    bool inserted;
};

static int gate_open(struct weir_ctx *c, const void *config) {
    ((struct gate *)weir_ctx_state(c))->burn = *(struct burn *const *)config;
    return 0;
}

static int gate_read(struct weir_ctx *c, struct weir_chain *in) {
    struct gate *gate = weir_ctx_state(c);
    const struct burn *b = gate->burn;
    if (!gate->inserted && b->lit[weir_loop_index(weir_ctx_loop(c))]) {
        int rc = weir_ctx_insert_next(c, &burner, &b->ns);
        if (rc < 0)
            return rc;
        gate->inserted = true;
    }
    return weir_ctx_forward(c, in);
}

static const struct weir_handler gate = {
    .name = "gate", .state_size = sizeof(struct gate), .open = gate_open, .read = gate_read};

/* --- life ------------------------------------------------------------------------------------ */

struct burn *burn_new(struct weir_group *g, uint64_t us) {
    unsigned n = weir_group_loops(g);
    struct burn *b = calloc(1, sizeof *b + n * sizeof b->lit[0]);
    if (!b)
        return NULL;
    b->group = g;
    b->self = b;
    b->ns = us * 1000;
    return b;
}

struct weir_stage burn_stage(struct burn *b) {
    return (struct weir_stage){&gate, &b->self};
}

static void light(struct weir_loop *l, void *user) {
    ((struct burn *)user)->lit[weir_loop_index(l)] = true;
}

int burn_start(struct burn *b) {
    int rc = 0;
    for (unsigned i = 0; i < weir_group_loops(b->group) && rc >= 0; i++)
        rc = weir_loop_post(weir_group_loop(b->group, i), light, b);
    return rc;
}

void burn_free(struct burn *b) {
    free(b);
}
