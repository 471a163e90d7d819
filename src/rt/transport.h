/* Which transport a group gets, from the words of its options. */
#ifndef WEIR_RT_TRANSPORT_H
#define WEIR_RT_TRANSPORT_H
#include "weir/loop.h"

struct weir__rt_transport {
    const char *name; /* "uring", "epoll-lt", "epoll-et" */
    bool uring, edge;
    bool by_name;     /* io_uring was asked for: going without it is worth a line */
    unsigned without; /* features of io_uring that are not to be used */
    const char *why;  /* why "auto" is epoll; NULL: it is not, or nothing was to be chosen */
    bool open;        /* "auto" has to be decided: until then uring is set */
};

/* EINVAL: a word that is not known. */
int weir__rt_transport_of(const struct weir_group_options *o, struct weir__rt_transport *out);
/* Decides "auto", which tries what io_uring does here. */
void weir__rt_transport_decide(struct weir__rt_transport *t);
/* Runs fn(user) on a thread of its own, or without one on this, and waits. A thread that had to do
 * with a ring is interrupted when the kernel takes the ring down, a while after its close: of the
 * calls it waits in then, some fail with EINTR. The threads of a program shall not see that. */
void weir__rt_transport_apart(void (*fn)(void *user), void *user);
/* epoll in place of io_uring. */
void weir__rt_transport_fall_back(struct weir__rt_transport *t, const char *why);
/* The rule of "auto": NULL, or why it is not io_uring with these features, less those that are
 * switched off. */
const char *weir__rt_transport_refusal(unsigned has, unsigned without);
/* "-multi-recv,-zero-copy" to the bits that it takes away; NULL: none. EINVAL: not such a list. */
int weir__rt_transport_features(const char *list, unsigned *without);

#endif
