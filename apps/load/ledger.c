/* Errors by class: a small table per worker, so that a run with a million errors needs no more
 * memory than one with ten. */
#include "load/run.h"
#include <stdio.h>
#include <string.h>

static bool same(const struct load_error *a, const struct load_error *b) {
    return a->fault == b->fault && a->code == b->code && a->wire == b->wire &&
           a->warmup == b->warmup;
}

void load_fault_merge(struct load_error *to, unsigned *n, uint64_t *dropped,
                      const struct load_error *e) {
    for (unsigned i = 0; i < *n; i++) {
        if (!same(&to[i], e))
            continue;
        uint64_t count = to[i].count + e->count;
        if (e->at_ns < to[i].at_ns)
            to[i] = *e;
        to[i].count = count;
        return;
    }
    if (*n == LOAD_ERRORS_MAX)
        *dropped += e->count;
    else
        to[(*n)++] = *e;
}

void load_fault_count(struct load_worker *w, const struct load_error *e, uint64_t now) {
    struct load_error one = *e;
    one.count = 1;
    one.at_ns = now;
    one.warmup = !w->measuring;
    if (!one.first[0])
        snprintf(one.first, sizeof one.first, "%s",
                 e->code ? weir_strerror(e->code) : "the peer closed the connection");
    load_fault_merge(w->errors, &w->n_errors, &w->errors_dropped, &one);
}

void load_fault_name(const struct load_error *e, char *out, size_t cap) {
    static const char *const name[] = {
        [LOAD_FAULT_CONNECT] = "connect", [LOAD_FAULT_CLOSED] = "closed",
        [LOAD_FAULT_TIMEOUT] = "timeout", [LOAD_FAULT_SIBLING] = "given up",
        [LOAD_FAULT_VERIFY] = "verify",   [LOAD_FAULT_ANSWER] = "answer",
        [LOAD_FAULT_LOCAL] = "local",
    };
    if (e->wire)
        snprintf(out, cap, "%s %u %s", name[e->fault], e->wire, weir_linkd_code_text(e->wire));
    else if (e->code && e->fault != LOAD_FAULT_TIMEOUT)
        snprintf(out, cap, "%s %s", name[e->fault], weir_errname(e->code));
    else
        snprintf(out, cap, "%s", name[e->fault]);
}
