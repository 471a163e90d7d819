#include "os/thread.h"
#include "os/fault.h"
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void *body(void *arg) {
    struct weir__os_thread *t = arg;
    pthread_setname_np(pthread_self(), t->name);
    t->fn(t->user);
    return NULL;
}

int weir__os_thread_start(struct weir__os_thread *t, const char *name, void (*fn)(void *user),
                          void *user) {
    sigset_t quiet, before;
    int rc = weir__os_fault(WEIR__OS_THREAD, NULL);
    if (rc < 0)
        return rc;
    *t = (struct weir__os_thread){.fn = fn, .user = user};
    memcpy(t->name, name, strnlen(name, sizeof t->name - 1));
    sigemptyset(&quiet);
    sigaddset(&quiet, SIGPIPE);
    sigaddset(&quiet, SIGTERM);
    sigaddset(&quiet, SIGINT);
    sigaddset(&quiet, SIGHUP);
    /* The mask is inherited: blocked around the creation, the new thread never runs without it. */
    pthread_sigmask(SIG_BLOCK, &quiet, &before);
    rc = -pthread_create(&t->id, NULL, body, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

void weir__os_thread_join(struct weir__os_thread *t) {
    pthread_join(t->id, NULL);
}

int weir__os_thread_pin(unsigned cpu) {
    cpu_set_t set;
    int rc = weir__os_fault(WEIR__OS_AFFINITY, NULL);
    if (rc < 0)
        return rc;
    if (cpu >= CPU_SETSIZE)
        return -EINVAL;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return -pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

int weir__os_thread_tid(void) {
    return (int)gettid();
}

int weir__os_thread_cpu(const struct weir__os_thread *t, uint64_t *ns) {
    clockid_t clock;
    struct timespec at;
    int rc = -pthread_getcpuclockid(t->id, &clock);
    if (rc < 0)
        return rc;
    if (clock_gettime(clock, &at) < 0)
        return -errno;
    *ns = (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
    return 0;
}

int weir__os_thread_signal(const struct weir__os_thread *t, int sig) {
    return -pthread_kill(t->id, sig);
}

int weir__os_mutex_init(struct weir__os_mutex *m) {
    int rc = weir__os_fault(WEIR__OS_THREAD, NULL);
    return rc < 0 ? rc : -pthread_mutex_init(&m->m, NULL);
}

void weir__os_mutex_fini(struct weir__os_mutex *m) {
    pthread_mutex_destroy(&m->m);
}

void weir__os_mutex_lock(struct weir__os_mutex *m) {
    pthread_mutex_lock(&m->m);
}

void weir__os_mutex_unlock(struct weir__os_mutex *m) {
    pthread_mutex_unlock(&m->m);
}

int weir__os_cond_init(struct weir__os_cond *c) {
    pthread_condattr_t attr;
    int rc = weir__os_fault(WEIR__OS_THREAD, NULL);
    if (rc < 0)
        return rc;
    rc = -pthread_condattr_init(&attr);
    if (rc < 0)
        return rc;
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    rc = -pthread_cond_init(&c->c, &attr);
    pthread_condattr_destroy(&attr);
    return rc;
}

void weir__os_cond_fini(struct weir__os_cond *c) {
    pthread_cond_destroy(&c->c);
}

void weir__os_cond_wait(struct weir__os_cond *c, struct weir__os_mutex *m) {
    pthread_cond_wait(&c->c, &m->m);
}

bool weir__os_cond_wait_until(struct weir__os_cond *c, struct weir__os_mutex *m,
                              uint64_t until_ns) {
    struct timespec t = {.tv_sec = (time_t)(until_ns / 1000000000u),
                         .tv_nsec = (long)(until_ns % 1000000000u)};
    return pthread_cond_timedwait(&c->c, &m->m, &t) != ETIMEDOUT;
}

void weir__os_cond_signal(struct weir__os_cond *c) {
    pthread_cond_signal(&c->c);
}

void weir__os_cond_broadcast(struct weir__os_cond *c) {
    pthread_cond_broadcast(&c->c);
}
