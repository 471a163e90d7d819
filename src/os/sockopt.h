/* Socket options as a policy: what a program asked for, applied to one socket and read back. */
#ifndef WEIR_OS_SOCKOPT_H
#define WEIR_OS_SOCKOPT_H
#include "weir/socket.h"
#include <stdbool.h>

/* Applies o (NULL: all defaults) to a socket before it listens or connects. 0; WEIR_ESOCKOPT(which)
 * when the kernel refuses one (weir__os_error leaves that as it is), or a negative errno for what
 * is no fault of the option. On other sockets than TCP only the buffers are set. */
int weir__os_sock_apply(int fd, const struct weir_socket_options *o, bool listener);
/* What the kernel really uses, in the unit in which it was asked (it doubles buffers for its own
 * needs; this halves them again). 0 or a negative errno. TCP sockets. */
int weir__os_sock_effective(int fd, bool listener, struct weir_socket_options *out);
/* Once for all sockets that share fd's address: a connection that CPU cpus[i] received goes to the
 * i-th of them, in the order in which they began to listen. n is 1 to WEIR__OS_STEER_MAX. 0 or a
 * negative errno. */
enum { WEIR__OS_STEER_MAX = 256 };
int weir__os_sock_steer(int fd, const unsigned *cpus, unsigned n);

#endif
