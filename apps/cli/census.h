/* What the loops of a server did, taken on each loop when the end begins, and over the time in
 * which it had connections. */
#ifndef APPS_CLI_CENSUS_H
#define APPS_CLI_CENSUS_H
#include "weir/chan.h"
#include "weir/stats.h"

struct census;

/* Opens path, "-" for stdout: what cannot be written is known before anything is served. NULL with
 * errno: it cannot be opened, or no memory. Before the group starts. */
struct census *census_new(struct weir_group *g, const char *path);
/* Posts to every loop that its numbers be taken at the end. 0 or -1 with errno. */
int census_start(struct census *c);
/* The stage that notes when connections come and go; put it first in the pipeline. */
struct weir_stage census_stage(struct census *c);
/* Writes JSON (weir.stats/1), once. After the group has ended. 0 or -1 with errno. */
int census_write(struct census *c);
void census_free(struct census *c);

#endif
