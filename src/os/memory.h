/* Pages from the kernel. */
#ifndef WEIR_OS_MEMORY_H
#define WEIR_OS_MEMORY_H
#include "base/pause.h"
#include <stddef.h>

size_t weir__os_page_size(void);
/* Zeroed private pages, bytes rounded up to pages, at a multiple of align (a power of two; 0: a
 * page). NULL: no memory. */
void *weir__os_map(size_t bytes, size_t align);
/* From now on the calling thread counts what asking for memory costs it (NULL: no longer). */
void weir__os_map_watch(struct weir__base_pause *p);
/* Exactly what map gave. */
void weir__os_unmap(void *p, size_t bytes);
/* Hints: the content may go (it reads as zero afterwards); huge pages are welcome. A hint that
 * fails changes nothing. */
void weir__os_map_forget(void *p, size_t bytes);
void weir__os_map_huge(void *p, size_t bytes);
/* No access from now on: 0 or a negative errno. Page-aligned. */
int weir__os_map_guard(void *p, size_t bytes);
/* Code as people and addr2line read it: "file+0xoffset (function)", or the bare address. Returns
 * the length it would have, like snprintf. */
int weir__os_place(const void *code, char *out, size_t n);

#endif
