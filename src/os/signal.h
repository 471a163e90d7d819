/* Signals. Results: >= 0 or a negative errno. */
#ifndef WEIR_OS_SIGNAL_H
#define WEIR_OS_SIGNAL_H
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* Blocks SIGPIPE on the calling thread. */
int weir__os_signal_block_pipe(void);

struct weir__os_stop { /* the stop signals, while they are ours */
    int fd;            /* readable when one came and is held back */
    bool held;
    sigset_t before;
};

/* Takes the descriptor early, while there are some; signals do what they did. */
int weir__os_stop_open(struct weir__os_stop *s);
/* From now on SIGTERM and SIGINT are blocked on the calling thread and readable at s->fd instead.
 * Threads started later inherit the block. */
void weir__os_stop_hold(struct weir__os_stop *s);
/* The signal that came, or 0: none yet. */
int weir__os_stop_take(struct weir__os_stop *s);
/* Waits for a signal or for a ring of the eventfd `bell` (-1: none) for at most timeout_ns (< 0: no
 * limit). The signal, or 0: the bell rang, or time is up. The ring stays pending. */
int weir__os_stop_wait(struct weir__os_stop *s, int bell, int64_t timeout_ns);
/* Restores the mask if it was changed; a signal that is still pending is dropped then. */
void weir__os_stop_close(struct weir__os_stop *s);

/* Installs a handler with SA_RESTART | SA_SIGINFO; `before` (NULL: not wanted) gets the old one. */
int weir__os_signal_handle(int sig, void (*fn)(int sig, siginfo_t *info, void *context),
                           struct sigaction *before);
/* Puts back what weir__os_signal_handle gave. */
int weir__os_signal_restore(int sig, const struct sigaction *before);

#endif
