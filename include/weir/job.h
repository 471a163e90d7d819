/* The executor: work that would keep a loop too long, or that waits, runs on the group's workers
 * and comes back to the loop as a callback.
 *
 *   loop      weir_ctx_offload -----------------------------------> done()
 *   worker                      \--> waits --> run() --> finished --/
 *
 * A worker touches the bytes it was handed and nothing that is counted: no slices or chains are
 * made, referenced or released in run(). Whatever done() needs is had before the job leaves. */
#ifndef WEIR_JOB_H
#define WEIR_JOB_H
#include <stdbool.h>
#ifdef __cplusplus
extern "C" {
#endif

struct weir_ctx;

enum weir_order {
    WEIR_ORDERED,  /* done() in the order of the offloads of this channel; they run in parallel */
    WEIR_UNORDERED /* done() as they finish */
};

/* Embed it first in a struct of your own, which lives until done(): in memory of the loop's pool,
 * not in the state of a handler, which may end before. */
struct weir_job {
    void (*run)(struct weir_job *j); /* on a worker */
    /* On the loop, exactly once, in a frame of the handler's. status 0: run() has run and c is
     * there. EGONE: the channel or the handler's place in it has ended; ESTOPPED: the loop is
     * ending and run() never ran. c may be NULL then. Sends of one batch of results leave with one
     * flush. */
    void (*done)(struct weir_ctx *c, struct weir_job *j, int status);
    void *link[14]; /* the library's */
};

/* Whether another job of c's channel is taken now: fewer than weir_limits.offload_max are out.
 * false: leave your input where it is; read comes again when there is room. Loop. */
bool weir_ctx_offload_room(struct weir_ctx *c);
/* Takes j until its done(), which never comes from inside this call. A channel that drains waits
 * for its jobs, within the drain's deadline. EFULL: no room; EGONE: the channel is closing;
 * ESTOPPED: the loop is ending; ENOMEM; ESYS: no worker could be started. Loop. */
int weir_ctx_offload(struct weir_ctx *c, struct weir_job *j, enum weir_order order);

#ifdef __cplusplus
}
#endif
#endif
