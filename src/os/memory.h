/* Pages from the kernel. */
#ifndef WEIR_OS_MEMORY_H
#define WEIR_OS_MEMORY_H
#include <stddef.h>

size_t weir__os_page_size(void);
/* Zeroed private pages, bytes rounded up to pages, at a multiple of align (a power of two; 0: a
 * page). NULL: no memory. */
void *weir__os_map(size_t bytes, size_t align);
/* Exactly what map gave. */
void weir__os_unmap(void *p, size_t bytes);
/* Hints: the content may go (it reads as zero afterwards); huge pages are welcome. A hint that
 * fails changes nothing. */
void weir__os_map_forget(void *p, size_t bytes);
void weir__os_map_huge(void *p, size_t bytes);
/* No access from now on: 0 or a negative errno. Page-aligned. */
int weir__os_map_guard(void *p, size_t bytes);

#endif
