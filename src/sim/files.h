/* The files of the simulated world: a name and its bytes, which a test changes as it likes; a read
 * finds them in memory or not, by chance. */
#ifndef WEIR_SIM_FILES_H
#define WEIR_SIM_FILES_H
#include "base/list.h"
#include "io/sim/sim.h"
#include "loop/files.h"

struct weir__sim_files {
    struct weir__loop_files base;
    struct weir__iosim_net *net;
    uint32_t cold_ppm, fail_ppm;
    struct weir__base_list all;
};

/* cold_ppm: reads whose bytes are not in memory; fail_ppm: operations that end with EIO. */
void weir__sim_files_init(struct weir__sim_files *fs, struct weir__iosim_net *net,
                          uint32_t cold_ppm, uint32_t fail_ppm);
/* Before the net's. The number of open files left. */
unsigned weir__sim_files_fini(struct weir__sim_files *fs);
/* As weir_sim_file. */
void weir__sim_files_put(struct weir__sim_files *fs, const char *path, const void *bytes, size_t n);

#endif
