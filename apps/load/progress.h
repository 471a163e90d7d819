/* One line on a terminal's stderr, rewritten while the run lasts. */
#ifndef LOAD_PROGRESS_H
#define LOAD_PROGRESS_H
#include "load/run.h"

struct load_progress {
    bool on, shown;
    uint64_t began_ns, last_ns, last_ok;
};

void load_progress_init(struct load_progress *p, const struct load_run *r);
void load_progress_show(struct load_progress *p, const struct load_run *r);
/* Clears the line. */
void load_progress_fini(struct load_progress *p);

#endif
