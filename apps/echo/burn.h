/* A lab handler that spends CPU time on every read, inserted into pipelines that run already: a
 * fault to look for with the admin pages. */
#ifndef APPS_ECHO_BURN_H
#define APPS_ECHO_BURN_H
#include "weir/chan.h"

struct burn;

/* us microseconds of CPU per read. NULL: no memory. */
struct burn *burn_new(struct weir_group *g, uint64_t us);
/* The stage behind which it inserts itself; it lets everything through. */
struct weir_stage burn_stage(struct burn *b);
/* Posts to every loop that the handler go into its pipelines, each at its next read. 0 or an error.
 */
int burn_start(struct burn *b);
/* After the group has ended. */
void burn_free(struct burn *b);

#endif
