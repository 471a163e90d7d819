#include "os/signal.h"
#include "os/fault.h"
#include <errno.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

int weir__os_signal_block_pipe(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    return -pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void stop_signals(sigset_t *set) {
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
}

int weir__os_stop_open(struct weir__os_stop *s) {
    sigset_t set;
    int rc = weir__os_fault(WEIR__OS_SIGNAL, NULL);
    if (rc < 0)
        return rc;
    stop_signals(&set);
    rc = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (rc < 0)
        return -errno;
    s->fd = rc;
    s->held = false;
    return 0;
}

void weir__os_stop_hold(struct weir__os_stop *s) {
    sigset_t set;
    stop_signals(&set);
    pthread_sigmask(SIG_BLOCK, &set, &s->before);
    s->held = true;
}

int weir__os_stop_take(struct weir__os_stop *s) {
    struct signalfd_siginfo info;
    ssize_t rc;
    do
        rc = read(s->fd, &info, sizeof info);
    while (rc < 0 && errno == EINTR);
    if (rc < 0)
        return errno == EAGAIN ? 0 : -errno;
    return (int)info.ssi_signo;
}

int weir__os_stop_wait(struct weir__os_stop *s, int bell, int64_t timeout_ns) {
    struct pollfd watched[2] = {{.fd = s->fd, .events = POLLIN}, {.fd = bell, .events = POLLIN}};
    struct timespec t = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
    int rc = ppoll(watched, 2, timeout_ns < 0 ? NULL : &t, NULL);
    if (rc < 0)
        return errno == EINTR ? 0 : -errno;
    return watched[0].revents ? weir__os_stop_take(s) : 0;
}

void weir__os_stop_close(struct weir__os_stop *s) {
    while (s->held && weir__os_stop_take(s) > 0)
        continue;
    close(s->fd);
    s->fd = -1;
    if (s->held)
        pthread_sigmask(SIG_SETMASK, &s->before, NULL);
    s->held = false;
}

int weir__os_signal_handle(int sig, void (*fn)(int sig, siginfo_t *info, void *context),
                           struct sigaction *before) {
    struct sigaction a = {.sa_sigaction = fn, .sa_flags = SA_RESTART | SA_SIGINFO};
    int rc = weir__os_fault(WEIR__OS_SIGNAL, NULL);
    if (rc < 0)
        return rc;
    sigemptyset(&a.sa_mask);
    return sigaction(sig, &a, before) < 0 ? -errno : 0;
}

int weir__os_signal_restore(int sig, const struct sigaction *before) {
    return sigaction(sig, before, NULL) < 0 ? -errno : 0;
}
