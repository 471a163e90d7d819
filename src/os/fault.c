#include "os/fault.h"

WEIR_TLS struct weir__os_fault *weir__os_plan;

struct weir__os_fault *weir__os_fault_set(struct weir__os_fault *plan) {
    struct weir__os_fault *before = weir__os_plan;
    weir__os_plan = plan;
    return before;
}

int weir__os_fault_hit(enum weir__os_kind kind, size_t *bytes) {
    int rc = 0;
    for (struct weir__os_fault *f = weir__os_plan; f; f = f->next) {
        if (f->kind != kind && f->kind != WEIR__OS_ANY)
            continue;
        f->seen++;
        if (f->persist ? f->seen < f->nth : f->seen != f->nth)
            continue;
        if (f->error) {
            f->hit++;
            rc = rc ? rc : -f->error;
        } else if (bytes && *bytes > f->short_max) {
            f->hit++;
            *bytes = f->short_max ? f->short_max : 1;
        }
    }
    return rc;
}
