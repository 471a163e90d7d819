/* One budget for many pools. A pool leases steps of it and pays its own allocations from the lease,
 * so that the shared counter is touched once per some hundred KiB. Charged is what left a pool's
 * arena: blocks in use and blocks in its cache. */
#ifndef WEIR_MEM_BUDGET_H
#define WEIR_MEM_BUDGET_H
#include <stdatomic.h>
#include <stdint.h>

struct weir_mem;

struct weir__mem_budget {
    /* Constant. */
    uint64_t max, step;
    /* Any thread. */
    _Atomic uint64_t used; /* leased out */
    _Atomic uint64_t
        refused; /* leases that were not to be had: a sign to give back what lies idle */
};

/* Outlives the pools that are attached to it. */
void weir__mem_budget_init(struct weir__mem_budget *b, uint64_t max_bytes);
/* Bytes leased: at least `least` and at most `want`, or 0, which is counted. Any thread. */
uint64_t weir__mem_budget_take(struct weir__mem_budget *b, uint64_t least, uint64_t want);
void weir__mem_budget_give(struct weir__mem_budget *b, uint64_t bytes);

/* From now on m pays from b (NULL: from nobody's) beside its own limit. What m already holds is
 * leased at once; ENOMEM: b has not that much, and m stays where it was. Owner. */
int weir__mem_budget_attach(struct weir_mem *m, struct weir__mem_budget *b);
/* Bytes that m may take out of its arena now, at most want; less than least: 0. Leases, takes home
 * what others released and empties the cache before it says so. Owner. */
uint64_t weir__mem_budget_afford(struct weir_mem *m, uint64_t least, uint64_t want);
/* Gives back what is leased beyond need and a step. Owner. */
void weir__mem_budget_settle(struct weir_mem *m);

#endif
