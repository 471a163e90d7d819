#include "sweep/rooms.h"

const struct sweep_scenario *const sweep_rooms[] = {
    sweep_connections, sweep_calls,  sweep_loops,   sweep_sockets, sweep_handoff,
    sweep_apart,       sweep_kernel, sweep_workers, NULL,
};
