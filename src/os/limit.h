/* The limit on open files. */
#ifndef WEIR_OS_LIMIT_H
#define WEIR_OS_LIMIT_H
#include <stdint.h>

/* 0 or a negative errno. */
int weir__os_limit_files(uint64_t *soft, uint64_t *hard);
/* Raises the soft limit to `want`, or to the hard limit when that is lower (want 0: to the hard
 * limit). Never lowers it. *now (NULL: not wanted) is the soft limit afterwards. 0 or a negative
 * errno. Process-wide: programs call this, the library never. */
int weir__os_limit_files_raise(uint64_t want, uint64_t *now);

#endif
