/* epoll with 64 bits of the caller's data per descriptor and a wait in nanoseconds. Results: >= 0
 * or a negative errno. */
#ifndef WEIR_OS_EPOLL_H
#define WEIR_OS_EPOLL_H
#include <stdint.h>
#include <sys/epoll.h>

int weir__os_epoll_new(void);
int weir__os_epoll_add(int ep, int fd, uint32_t events, uint64_t data);
int weir__os_epoll_mod(int ep, int fd, uint32_t events, uint64_t data);
int weir__os_epoll_del(int ep, int fd);
/* Number of events; 0 also when a signal came. timeout_ns < 0: no limit. Kernels before 5.11 wait
 * in whole milliseconds, rounded up. */
int weir__os_epoll_wait(int ep, struct epoll_event *out, int max, int64_t timeout_ns);

#endif
