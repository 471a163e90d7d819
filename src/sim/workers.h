/* The workers of the simulated world: work is over at a seeded time, in any order, and runs on the
 * one thread there is, between turns. */
#ifndef WEIR_SIM_WORKERS_H
#define WEIR_SIM_WORKERS_H
#include "base/list.h"
#include "io/sim/sim.h"
#include "loop/work.h"

struct weir__sim_workers {
    struct weir__loop_workers base;
    struct weir__iosim_net *net;
    uint32_t delay_us_max, refuse_ppm;
    struct weir__base_fifo pending; /* by arrival; each has its time */
};

/* delay_us_max 0: 1000. refuse_ppm: submits that fail with ENOMEM. */
void weir__sim_workers_init(struct weir__sim_workers *p, struct weir__iosim_net *net,
                            uint32_t delay_us_max, uint32_t refuse_ppm);
/* Does what is due; the time at which more is, UINT64_MAX: nothing is pending. */
void weir__sim_workers_run(struct weir__sim_workers *p);
uint64_t weir__sim_workers_next_ns(const struct weir__sim_workers *p);

#endif
