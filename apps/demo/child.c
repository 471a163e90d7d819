#include "demo/child.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void become(char *const argv[], pid_t parent, int out) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) /* it ended before the line above */
        _exit(127);
    dup2(out, STDOUT_FILENO);
    execv("/proc/self/exe", argv);
    _exit(127);
}

static int open_out(bool keep, int ends[2]) {
    if (keep)
        return pipe2(ends, O_CLOEXEC) < 0 ? -errno : 0;
    ends[0] = -1;
    ends[1] = open("/dev/null", O_WRONLY | O_CLOEXEC);
    return ends[1] < 0 ? -errno : 0;
}

int child_start(struct child *c, char *const argv[], bool keep_stdout) {
    int ends[2];
    int rc = open_out(keep_stdout, ends);
    if (rc < 0)
        return rc;
    pid_t parent = getpid();
    c->pid = fork();
    if (c->pid == 0)
        become(argv, parent, ends[1]);
    rc = c->pid < 0 ? -errno : 0;
    close(ends[1]);
    c->out = ends[0];
    if (rc < 0 && c->out >= 0)
        close(c->out);
    return rc;
}

bool child_line(struct child *c, char *line, size_t cap, int timeout_ms) {
    struct pollfd p = {.fd = c->out, .events = POLLIN};
    size_t n = 0;
    while (n + 1 < cap && poll(&p, 1, timeout_ms) == 1) {
        if (read(c->out, line + n, 1) != 1)
            return false;
        if (line[n] == '\n') {
            line[n] = 0;
            return true;
        }
        n++;
    }
    return false;
}

static int code_of(int status) {
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int child_wait(struct child *c) {
    int status = 0;
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (c->out >= 0)
        close(c->out);
    c->out = -1;
    return code_of(status);
}

int child_stop(struct child *c, int timeout_ms) {
    const struct timespec tick = {.tv_nsec = 5000000};
    siginfo_t info;
    kill(c->pid, SIGTERM);
    for (int waited = 0; waited < timeout_ms; waited += 5) {
        info.si_pid = 0;
        if (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
            return child_wait(c);
        nanosleep(&tick, NULL);
    }
    kill(c->pid, SIGKILL);
    return child_wait(c);
}
