/* Where a thread is: its program counter and the return addresses below it. Async-signal-safe. */
#ifndef WEIR_OS_STACK_H
#define WEIR_OS_STACK_H
#include <stdbool.h>
#include <stdint.h>

enum { WEIR__OS_STACK_MAX = 32 };

struct weir__os_stack { /* innermost first: the program counter, then return addresses */
    uint32_t n;
    bool in_call; /* at a system call instruction: on its way into the kernel or out of it */
    uintptr_t pc[WEIR__OS_STACK_MAX];
};

struct weir__os_stack_bounds {
    uintptr_t low, high; /* [low, high); both 0: not known, and no frame is followed */
};

/* Of the calling thread; not for signal handlers. 0 or a negative errno. */
int weir__os_stack_bounds(struct weir__os_stack_bounds *out);
/* Learns which code is ours (the program and this library); once, before walks, not in a signal
 * handler. Without it frames that keep no frame pointer hide their callers. */
void weir__os_stack_learn(void);
/* The stack that the signal whose third argument is `context` interrupted, by frame pointers. Only
 * addresses within b are read. Code of other libraries often keeps no frame pointers: the nearest
 * return address into our own code is then searched for on the stack. */
void weir__os_stack_walk(const void *context, const struct weir__os_stack_bounds *b,
                         struct weir__os_stack *out);

#endif
