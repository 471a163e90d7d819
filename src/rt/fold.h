/* From samples to folded stacks and a summary. */
#ifndef WEIR_RT_FOLD_H
#define WEIR_RT_FOLD_H
#include "rt/samples.h"
#include "weir/profile.h"
#include <stdbool.h>

struct weir__os_symbols;

struct weir__rt_text { /* grows; {0}: empty. Memory is raw */
    char *at;
    size_t n, cap;
};

struct weir_profile {
    struct weir__rt_text folded;
    struct weir_profile_summary summary;
    struct weir_profile_handler *handlers;
    char **names; /* of handlers, which may outlive their group; summary.n_handlers of them */
    unsigned handlers_cap;
};

struct weir__rt_window { /* what the samples belong to */
    uint64_t from_ns, until_ns;
    const char (*threads)[16]; /* names */
};

void weir__rt_fold_fini(struct weir_profile *p);
/* The phase by the innermost functions. */
enum weir_profile_phase weir__rt_phase(const char *const *functions, unsigned n, bool in_call,
                                       bool in_handler);
/* Fills p's text, phases and handlers (without account_share) from n samples. ENOMEM. */
int weir__rt_fold(struct weir_profile *p, const struct weir__rt_sample *samples, uint32_t n,
                  const struct weir__rt_window *w, struct weir__os_symbols *symbols);

#endif
