/* What the admin of a group asks of the real world. */
#include "os/cpu.h"
#include "os/error.h"
#include "os/listener.h"
#include "os/proc.h"
#include "rt/rt.h"
#include "weir/profile.h"

static int group(const char *thread, struct weir_group **out) {
    struct weir_group_options o = {.size = sizeof o,
                                   .loops = 1,
                                   .transport = "epoll", /* it does little, and needs no ring */
                                   .workers = 1,
                                   .watchdog_ms = UINT32_MAX};
    int rc = weir_group_new(&o, out);
    if (rc >= 0)
        ((struct weir__rt *)(*out)->world_data)->thread = thread;
    return rc;
}

static void process(struct weir_group *g, struct weir__loop_process *out) {
    (void)g;
    unsigned cpus[WEIR__OS_CPUS_MAX];
    int n = weir__os_cpu_list(cpus, WEIR__OS_CPUS_MAX);
    *out = (struct weir__loop_process){
        .id = (uint64_t)weir__os_proc_id(),
        .resident_bytes = weir__os_proc_resident(),
        .cpus = weir__os_cpu_count(),
        .idle_ns = n > 0 ? weir__os_proc_idle(cpus, (unsigned)n) : 0,
    };
}

static bool switches(struct weir_group *g, unsigned index, struct weir__loop_switches *out) {
    struct weir__rt *rt = g->world_data;
    int tid = atomic_load(&rt->loops[index].seen.os.tid);
    return tid && weir__os_proc_switches(tid, &out->voluntary, &out->involuntary) == 0;
}

static int queue(intptr_t handle, uint32_t *depth, uint32_t *depth_max) {
    return weir__os_error(weir__os_listener_queue((int)handle, depth, depth_max));
}

const struct weir__loop_outside weir__rt_outside = {
    .group = group,
    .process = process,
    .switches = switches,
    .queue = queue,
    .profile_start = weir_profile_start,
    .profile_folded = weir_profile_folded,
    .profile_summary = weir_profile_summary,
    .profile_free = weir_profile_free,
};
