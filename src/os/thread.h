/* Threads, locks and where they run. Results: 0 or a negative errno. */
#ifndef WEIR_OS_THREAD_H
#define WEIR_OS_THREAD_H
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct weir__os_thread {
    pthread_t id;
    void (*fn)(void *user);
    void *user;
    char name[16];
};

/* Runs fn(user) on a new thread, with SIGPIPE and the stop signals (SIGTERM, SIGINT, SIGHUP)
 * blocked there. t must live until join. */
int weir__os_thread_start(struct weir__os_thread *t, const char *name, void (*fn)(void *user),
                          void *user);
void weir__os_thread_join(struct weir__os_thread *t);
/* The calling thread runs on this CPU only. */
int weir__os_thread_pin(unsigned cpu);
/* The kernel's id of the calling thread. */
int weir__os_thread_tid(void);
/* CPU time used by another thread that has not been joined. */
int weir__os_thread_cpu(const struct weir__os_thread *t, uint64_t *ns);
/* Sends a signal to that thread. */
int weir__os_thread_signal(const struct weir__os_thread *t, int sig);

struct weir__os_mutex {
    pthread_mutex_t m;
};

struct weir__os_cond { /* waits on the monotonic clock */
    pthread_cond_t c;
};

int weir__os_mutex_init(struct weir__os_mutex *m);
void weir__os_mutex_fini(struct weir__os_mutex *m);
void weir__os_mutex_lock(struct weir__os_mutex *m);
void weir__os_mutex_unlock(struct weir__os_mutex *m);

int weir__os_cond_init(struct weir__os_cond *c);
void weir__os_cond_fini(struct weir__os_cond *c);
void weir__os_cond_wait(struct weir__os_cond *c, struct weir__os_mutex *m);
/* false: until_ns (weir__os_clock_mono) has passed. */
bool weir__os_cond_wait_until(struct weir__os_cond *c, struct weir__os_mutex *m, uint64_t until_ns);
void weir__os_cond_signal(struct weir__os_cond *c);
void weir__os_cond_broadcast(struct weir__os_cond *c);

#endif
