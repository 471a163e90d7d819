/* How the epoll door is made. */
#ifndef WEIR_IO_EPOLL_EPOLL_H
#define WEIR_IO_EPOLL_EPOLL_H
#include "io/io.h"

/* ENOTSUP: not on this machine (*why says what is missing, static storage); ENOMEM; EFDS. */
int weir__epoll_new(const struct weir__io_config *c, struct weir__io **out, const char **why);

#endif
