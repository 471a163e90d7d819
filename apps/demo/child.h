/* Child processes of the demo. A child ends with its parent, however that ends. */
#ifndef APPS_DEMO_CHILD_H
#define APPS_DEMO_CHILD_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct child {
    pid_t pid;
    int out; /* its stdout; -1: goes nowhere */
};

/* Runs this very program with argv (NULL-terminated). stderr is shared. 0 or a negative errno. */
int child_start(struct child *c, char *const argv[], bool keep_stdout);
/* The next line of its stdout, without the newline. false: it ended, or said nothing for
 * timeout_ms. */
bool child_line(struct child *c, char *line, size_t cap, int timeout_ms);
/* Waits for its end: the exit code, or 128 + the signal that ended it. */
int child_wait(struct child *c);
/* Asks it to end, waits at most timeout_ms, then kills it. The code as above. */
int child_stop(struct child *c, int timeout_ms);

#endif
