#include "os/sample.h"
#include "base/compiler.h"
#include "os/fault.h"
#include "os/signal.h"
#include "os/thread.h"
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { CANDIDATES = 8 };

static WEIR_TLS struct weir__os_sampled *here;

/* A signal's handler belongs to the process, so who uses it is counted for the process. */
static struct weir__os_mutex lock = {PTHREAD_MUTEX_INITIALIZER};
static unsigned users;
static _Atomic int number;
static struct sigaction before;

static void on_signal(int sig, siginfo_t *info, void *context) {
    int saved = errno;
    struct weir__os_sampled *s = here;
    (void)sig;
    if (s && (info->si_code == SI_QUEUE || info->si_code == SI_TIMER)) {
        struct weir__os_stack at;
        weir__os_stack_walk(context, &s->stack, &at);
        s->note(s, info->si_value.sival_int, &at);
    }
    errno = saved;
}

static bool is_free(int sig) {
    struct sigaction a;
    return sigaction(sig, NULL, &a) == 0 && !(a.sa_flags & SA_SIGINFO) && a.sa_handler == SIG_DFL;
}

static int take(void) {
    for (int sig = SIGRTMAX - 1; sig >= SIGRTMIN && sig >= SIGRTMAX - CANDIDATES; sig--) {
        if (!is_free(sig))
            continue;
        int rc = weir__os_signal_handle(sig, on_signal, &before);
        if (rc == 0)
            atomic_store(&number, sig);
        return rc;
    }
    return -ENOTSUP;
}

int weir__os_sample_open(void) {
    weir__os_mutex_lock(&lock);
    weir__os_stack_learn();
    int rc = users ? 0 : take();
    users += rc == 0;
    weir__os_mutex_unlock(&lock);
    return rc;
}

void weir__os_sample_close(void) {
    weir__os_mutex_lock(&lock);
    if (--users == 0) {
        weir__os_signal_restore(atomic_load(&number), &before);
        atomic_store(&number, 0);
    }
    weir__os_mutex_unlock(&lock);
}

int weir__os_sample_signal(void) {
    return atomic_load(&number);
}

void weir__os_sampled_join(struct weir__os_sampled *s,
                           void (*note)(struct weir__os_sampled *s, int what,
                                        const struct weir__os_stack *at)) {
    sigset_t set;
    (void)weir__os_stack_bounds(&s->stack);
    s->note = note;
    s->timed = false;
    here = s;
    if (atomic_load(&number)) {
        sigemptyset(&set);
        sigaddset(&set, atomic_load(&number));
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    }
    atomic_store(&s->tid, weir__os_thread_tid());
}

void weir__os_sampled_leave(struct weir__os_sampled *s) {
    atomic_store(&s->tid, 0);
    here = NULL;
}

int weir__os_sampled_ask(struct weir__os_sampled *s, int what) {
    int tid = atomic_load(&s->tid), rc = weir__os_fault(WEIR__OS_SIGNAL, NULL);
    siginfo_t info;
    if (rc < 0)
        return rc;
    if (!tid || !atomic_load(&number))
        return -ESRCH;
    memset(&info, 0, sizeof info);
    info.si_signo = atomic_load(&number);
    info.si_code = SI_QUEUE;
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_int = what;
    return syscall(SYS_rt_tgsigqueueinfo, info.si_pid, tid, info.si_signo, &info) < 0 ? -errno : 0;
}

/* The kernel's name for the CPU clock of one thread (clock_getcpuclockid(3), by thread). */
static clockid_t cpu_clock(int tid) {
    return (clockid_t)(~(unsigned)tid << 3 | 6);
}

static int arm(timer_t timer, unsigned hz) {
    long ns = 1000000000L / (long)hz;
    struct timespec t = {.tv_sec = ns / 1000000000L, .tv_nsec = ns % 1000000000L};
    struct itimerspec every = {.it_interval = t, .it_value = t};
    return timer_settime(timer, 0, &every, NULL) < 0 ? -errno : 0;
}

int weir__os_sampled_start(struct weir__os_sampled *s, unsigned hz, int what) {
    int tid = atomic_load(&s->tid), rc = weir__os_fault(WEIR__OS_TIMER, NULL);
    if (rc < 0)
        return rc;
    if (!tid || !atomic_load(&number))
        return -ESRCH;
    struct sigevent e = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = atomic_load(&number)};
    e.sigev_value.sival_int = what;
    e.sigev_notify_thread_id = tid;
    if (timer_create(cpu_clock(tid), &e, &s->timer) < 0)
        return -errno;
    rc = arm(s->timer, hz);
    if (rc < 0)
        timer_delete(s->timer);
    s->timed = rc == 0;
    return rc;
}

void weir__os_sampled_stop(struct weir__os_sampled *s) {
    if (s->timed)
        timer_delete(s->timer);
    s->timed = false;
}

int weir__os_sampled_cpu(const struct weir__os_sampled *s, uint64_t *ns) {
    struct timespec at;
    int tid = atomic_load(&s->tid);
    if (!tid)
        return -ESRCH;
    if (clock_gettime(cpu_clock(tid), &at) < 0)
        return -errno;
    *ns = (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
    return 0;
}
