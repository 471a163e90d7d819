/* Small blocks for threads that own no pool: what travels to a loop from anywhere. Off the data
 * path of a loop by design. */
#ifndef WEIR_MEM_RAW_H
#define WEIR_MEM_RAW_H
#include <stddef.h>
#include <stdint.h>

/* n zeroed bytes or NULL. Any thread. */
void *weir__mem_raw_new(size_t n);
void weir__mem_raw_free(void *p);
/* The nth call of raw_new from now fails on every thread (1 = the next); 0: off. For tests. */
void weir__mem_raw_fail(uint64_t nth);

#endif
