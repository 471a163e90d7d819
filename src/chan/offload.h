/* Offloading for handlers whose work has a name of its own. */
#ifndef WEIR_CHAN_OFFLOAD_H
#define WEIR_CHAN_OFFLOAD_H
#include "weir/job.h"

struct weir__loop_handler;

/* weir_ctx_offload; CPU time and done() count as account's. */
int weir__chan_offload(struct weir_ctx *c, struct weir_job *j, enum weir_order order,
                       struct weir__loop_handler *account);

#endif
