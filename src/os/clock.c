#include "os/clock.h"
#include <errno.h>
#include <time.h>

static uint64_t get(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t weir__os_clock_mono(void) {
    return get(CLOCK_MONOTONIC);
}

uint64_t weir__os_clock_wall(void) {
    return get(CLOCK_REALTIME);
}

uint64_t weir__os_clock_thread_cpu(void) {
    return get(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t weir__os_clock_process_cpu(void) {
    return get(CLOCK_PROCESS_CPUTIME_ID);
}

void weir__os_clock_sleep(uint64_t ns) {
    uint64_t until = weir__os_clock_mono() + ns;
    struct timespec t = {.tv_sec = (time_t)(until / 1000000000u),
                         .tv_nsec = (long)(until % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        continue;
}
