/* Where scenarios live: one table per file. */
#ifndef WEIR_TESTS_SWEEP_ROOMS_H
#define WEIR_TESTS_SWEEP_ROOMS_H
#include "sweep/sweep.h"

extern const struct sweep_scenario sweep_connections[], sweep_calls[], sweep_loops[],
    sweep_sockets[], sweep_handoff[], sweep_apart[], sweep_kernel[], sweep_workers[];

#endif
