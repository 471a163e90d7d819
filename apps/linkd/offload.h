/* --offload: how many workers, and in which order answers leave. */
#ifndef APPS_LINKD_OFFLOAD_H
#define APPS_LINKD_OFFLOAD_H
#include "weir/job.h"
#include <stddef.h>

enum { OFFLOAD_WORKERS_MAX = 256 };

struct offload {
    unsigned workers; /* 0: calls are answered on their loop */
    enum weir_order order;
};

/* "2", "2,ordered", "2,unordered", "0". 0, or the exit code after one line that says what is wrong.
 */
int offload_read(const char *text, struct offload *out);
/* The handler of the start line: "digest(16)", or "digest(16) offload 2,ordered". */
void offload_label(const struct offload *o, const char *handler, char *label, size_t cap);

#endif
