/* What one attribution frame costs: entered and left around a callback that does nothing, with the
 * samples of one call in 64. bench/accounting.py sets it against what a whole echo costs.
 *
 *     frame_bench [FRAMES]     prints ns of CPU per frame, the median of 21 rounds */
#include "io/io.h"
#include "loop/account.h"
#include "os/clock.h"
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 21, FRAMES = 2000000 };

static uint64_t now(struct weir__io *io) {
    (void)io;
    return weir__os_clock_mono();
}

static void *(*volatile callback)(void *x);

static void *nothing(void *x) {
    return x;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double per_call(struct weir__loop_account *a, struct weir__loop_handler *h, unsigned long n,
                       bool framed) {
    uint64_t before = weir__os_clock_thread_cpu();
    for (unsigned long i = 0; i < n; i++) {
        if (framed)
            weir__loop_frame_enter(a, h, i);
        callback(h);
        if (framed)
            weir__loop_frame_leave(a);
    }
    return (double)(weir__os_clock_thread_cpu() - before) / (double)n;
}

int main(int argc, char **argv) {
    static const struct weir__io_ops ops = {.name = "none", .now = now};
    static struct weir__loop_account a;
    struct weir__io io = {.ops = &ops};
    unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 10) : FRAMES;
    double cost[ROUNDS];
    callback = nothing;
    weir__loop_account_init(&a, &io);
    struct weir__loop_handler *h = weir__loop_intern(&a, "nothing");
    for (unsigned i = 0; i < ROUNDS && n > 0; i++) {
        double bare = per_call(&a, h, n, false);
        cost[i] = per_call(&a, h, n, true) - bare;
    }
    if (n == 0)
        return 2;
    qsort(cost, ROUNDS, sizeof cost[0], by_size);
    printf("%.2f\n", cost[ROUNDS / 2]);
    return 0;
}
