/* The floor of alloc.c: blocks of one size, and nothing is ever given back. */
#ifndef BENCH_MICRO_ALLOC_BARE_H
#define BENCH_MICRO_ALLOC_BARE_H
#include <stddef.h>

void *bench_bare_get(size_t n);
void bench_bare_put(void *p);
/* Before another size: drops the list. */
void bench_bare_forget(void);

#endif
