/* Clocks, in nanoseconds. They cannot fail. */
#ifndef WEIR_OS_CLOCK_H
#define WEIR_OS_CLOCK_H
#include <stdint.h>

uint64_t weir__os_clock_mono(void);
/* Since 1970. */
uint64_t weir__os_clock_wall(void);
/* CPU time of the calling thread: a real system call, about 0.3 us. */
uint64_t weir__os_clock_thread_cpu(void);
uint64_t weir__os_clock_process_cpu(void);
/* Sleeps at least ns, through signals. */
void weir__os_clock_sleep(uint64_t ns);

#endif
