/* What each call can fail with, from section ERRORS of its man page. What only a wrong argument or
 * a wrong descriptor causes is left out, but for one per kind where the library passes on whatever
 * comes. An interrupted call is tried again, so EINTR never persists; "not now" persists nowhere,
 * because something would end it. */
#include "io/uring/abi.h"
#include "os/fault.h"
#include "sweep/sweep.h"
#include <errno.h>

static const struct sweep_errnos memory = {"allocation", {ENOMEM}, {ENOMEM}, 0};

static const struct sweep_errnos os[WEIR__OS_KINDS] = {
    [WEIR__OS_SOCKET] = {"socket",
                         {EMFILE, ENFILE, ENOBUFS, ENOMEM, EACCES, EAFNOSUPPORT, EPROTONOSUPPORT},
                         {EMFILE, ENOMEM, EAFNOSUPPORT},
                         0},
    [WEIR__OS_BIND] = {"bind",
                       {EADDRINUSE, EACCES, EADDRNOTAVAIL, ENOMEM, EROFS, ENOENT, EINVAL},
                       {EADDRINUSE, EADDRNOTAVAIL},
                       0},
    [WEIR__OS_LISTEN] = {"listen", {EADDRINUSE, EOPNOTSUPP}, {EADDRINUSE}, 0},
    [WEIR__OS_ACCEPT] = {"accept4",
                         {EINTR, EMFILE, ENFILE, ENOBUFS, ENOMEM, ECONNABORTED, EPROTO, EPERM,
                          ENETDOWN, EHOSTUNREACH, EOPNOTSUPP, EINVAL, ETIMEDOUT},
                         {EMFILE, ENOMEM, EINVAL},
                         0},
    [WEIR__OS_CONNECT] = {"connect",
                          {ECONNREFUSED, ETIMEDOUT, ENETUNREACH, EHOSTUNREACH, EADDRNOTAVAIL,
                           EACCES, EPERM, EAGAIN, EAFNOSUPPORT, ECONNRESET},
                          {ECONNREFUSED, EADDRNOTAVAIL},
                          0},
    [WEIR__OS_SOCKNAME] = {"getsockname", {ENOBUFS, ENOTCONN}, {ENOBUFS}, 0},
    [WEIR__OS_SOCKOPT] = {"setsockopt", {ENOPROTOOPT, EINVAL, ENOMEM}, {ENOPROTOOPT}, 0},
    [WEIR__OS_SOCKPAIR] = {"socketpair", {EMFILE, ENFILE, ENOMEM, EOPNOTSUPP}, {EMFILE}, 0},
    [WEIR__OS_SHUTDOWN] = {"shutdown", {ENOTCONN, ENOBUFS}, {ENOTCONN}, 0},
    [WEIR__OS_RECV] = {"recv",
                       {EINTR, EAGAIN, ECONNRESET, ECONNREFUSED, ETIMEDOUT, EHOSTUNREACH, ENOTCONN,
                        ENOMEM},
                       {ECONNRESET, ENOMEM},
                       1},
    [WEIR__OS_SEND] = {"send",
                       {EINTR, EAGAIN, EPIPE, ECONNRESET, ENOBUFS, ENOMEM, ETIMEDOUT, EHOSTUNREACH,
                        ENETUNREACH, EMSGSIZE, EACCES, EPERM},
                       {EPIPE, ENOBUFS},
                       1},
    [WEIR__OS_SENDFILE] = {"sendfile",
                           {EINTR, EAGAIN, EIO, ENOMEM, EINVAL, EPIPE, ECONNRESET, EOVERFLOW},
                           {EIO, EPIPE},
                           1},
    [WEIR__OS_FDS] = {"sendmsg and recvmsg with descriptors",
                      {EAGAIN, EMFILE, ETOOMANYREFS, EPIPE, ECONNRESET, ENOMEM},
                      {EPIPE},
                      0},
    [WEIR__OS_EPOLL_NEW] = {"epoll_create1", {EMFILE, ENFILE, ENOMEM}, {EMFILE}, 0},
    [WEIR__OS_EPOLL_SET] = {"epoll_ctl", {ENOMEM, ENOSPC}, {ENOSPC}, 0},
    [WEIR__OS_EPOLL_WAIT] = {"epoll_pwait2", {EINTR, ENOSYS, EBADF, EINVAL}, {ENOSYS, EBADF}, 0},
    [WEIR__OS_EVENT] = {"eventfd", {EMFILE, ENFILE, ENODEV, ENOMEM}, {EMFILE}, 0},
    [WEIR__OS_OPEN] = {"openat",
                       {EINTR, EACCES, EMFILE, ENFILE, ENOENT, ENOMEM, ENOSPC, EIO, EISDIR, ELOOP,
                        ENOTDIR, EROFS},
                       {EMFILE, ENOENT},
                       0},
    [WEIR__OS_STAT] = {"fstat", {ENOMEM, EIO, EOVERFLOW}, {EIO}, 0},
    [WEIR__OS_READ] = {"pread", {EINTR, EAGAIN, EIO, EISDIR, EOPNOTSUPP}, {EIO}, 1},
    [WEIR__OS_WRITE] = {"write", {EINTR, ENOSPC, EIO, EDQUOT, EPIPE, EFBIG, EAGAIN}, {ENOSPC}, 1},
    [WEIR__OS_THREAD] = {"pthread_create and pthread_*_init", {EAGAIN, EPERM, ENOMEM}, {EAGAIN}, 0},
    [WEIR__OS_AFFINITY] = {"sched_getaffinity and sched_setaffinity", {EINVAL, EPERM}, {EINVAL}, 0},
    [WEIR__OS_SIGNAL] = {"signalfd and sigaction", {EMFILE, ENFILE, ENODEV, ENOMEM}, {EMFILE}, 0},
    [WEIR__OS_TIMER] = {"timer_create", {EAGAIN, ENOMEM}, {EAGAIN}, 0},
    [WEIR__OS_ENTROPY] = {"getrandom", {ENOSYS, EINTR}, {ENOSYS}, 0},
    [WEIR__OS_LIMIT] = {"getrlimit and setrlimit", {EPERM, EINVAL}, {EPERM}, 0},
    [WEIR__OS_MAP] = {"mmap", {ENOMEM}, {ENOMEM}, 0},
    [WEIR__OS_PROTECT] = {"mprotect", {ENOMEM, EACCES}, {ENOMEM}, 0},
};

static const struct sweep_errnos ring[SWEEP_RINGS] = {
    [SWEEP_SETUP] = {"io_uring_setup",
                     {ENOSYS, EPERM, EMFILE, ENFILE, ENOMEM, EINVAL},
                     {EINVAL},
                     0},
    [SWEEP_ENTER] = {"io_uring_enter",
                     {EINTR, EAGAIN, EBUSY, EBADR, EBADF, ENXIO, EOPNOTSUPP},
                     {EBADF},
                     0},
    [SWEEP_REGISTER] = {"io_uring_register", {ENOMEM, EINVAL, EEXIST, EBADF}, {EINVAL}, 0},
    [SWEEP_MAP_RING] = {"mmap of a ring", {ENOMEM, EAGAIN, ENFILE}, {ENOMEM}, 0},
    /* No free entry; and handing over the full ring ends so. */
    [SWEEP_FULL] = {"a full ring, and io_uring_enter", {EAGAIN, EBADF, EINTR}, {0}, 0},
};

static const struct sweep_errnos libc[SWEEP_LIBCS] = {
    [SWEEP_SOCKET] = {"socket itself", {EMFILE, ENOBUFS}, {EMFILE}, 0},
    [SWEEP_SETSOCKOPT] = {"setsockopt itself", {ENOPROTOOPT, ENOMEM}, {ENOMEM}, 0},
    [SWEEP_GETSOCKOPT] = {"getsockopt itself", {ENOPROTOOPT, ENOBUFS}, {ENOBUFS}, 0},
    [SWEEP_SIGNALFD] = {"signalfd itself", {EMFILE, ENOMEM}, {EMFILE}, 0},
    [SWEEP_GETRLIMIT] = {"getrlimit itself", {EPERM}, {EPERM}, 0},
    [SWEEP_SETRLIMIT] = {"setrlimit itself", {EPERM}, {EPERM}, 0},
    [SWEEP_GETAFFINITY] = {"sched_getaffinity itself", {EINVAL}, {EINVAL}, 0},
    [SWEEP_GETRANDOM] = {"getrandom itself", {EINTR, ENOSYS}, {ENOSYS}, 0},
    [SWEEP_TIMER] = {"timer_create itself", {EAGAIN, ENOMEM}, {EAGAIN}, 0},
    [SWEEP_SETTIME] = {"timer_settime itself", {EINVAL}, {EINVAL}, 0},
    [SWEEP_PPOLL] = {"ppoll itself", {EINTR, ENOMEM, EINVAL}, {0}, 0},
};

/* Requests come back with what their system call would have failed with. A cancel is not here: its
 * own result says nothing that its target's does not. */
static const struct sweep_errnos poll_request = {"poll", {ENOMEM}, {ENOMEM}, 0};
static const struct sweep_errnos accept_request = {
    "accept request",
    {EINTR, EAGAIN, EMFILE, ENFILE, ENOBUFS, ENOMEM, ECONNABORTED, EPROTO, EPERM, ENETDOWN, EINVAL},
    {EMFILE, ENOMEM, EINVAL},
    0};
static const struct sweep_errnos recv_request = {
    "recv request",
    {EINTR, EAGAIN, ECONNRESET, ETIMEDOUT, EHOSTUNREACH, ENOTCONN, ENOMEM, ENOBUFS},
    {ECONNRESET},
    1};
static const struct sweep_errnos send_request = {
    "send request",
    {EINTR, EAGAIN, EPIPE, ECONNRESET, ENOBUFS, ENOMEM, ETIMEDOUT, EHOSTUNREACH, EOPNOTSUPP},
    {EPIPE, ENOBUFS},
    1};

static const struct sweep_errnos *of_request(unsigned opcode) {
    switch (opcode) {
    case OP_POLL_ADD: return &poll_request;
    case OP_ACCEPT: return &accept_request;
    case OP_RECV: return &recv_request;
    case OP_SEND:
    case OP_SENDMSG:
    case OP_SEND_ZC:
    case OP_SENDMSG_ZC: return &send_request;
    default: return NULL;
    }
}

const struct sweep_errnos *sweep_errnos(enum sweep_place place, unsigned kind) {
    switch (place) {
    case SWEEP_POOL:
    case SWEEP_HEAP: return &memory;
    case SWEEP_OS: return kind < WEIR__OS_KINDS && os[kind].name ? &os[kind] : NULL;
    case SWEEP_RING: return kind < SWEEP_RINGS ? &ring[kind] : NULL;
    case SWEEP_LIBC: return kind < SWEEP_LIBCS ? &libc[kind] : NULL;
    default: return of_request(kind);
    }
}
