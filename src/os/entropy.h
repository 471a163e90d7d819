#ifndef WEIR_OS_ENTROPY_H
#define WEIR_OS_ENTROPY_H
#include <stddef.h>

/* n bytes fit for keys and hash seeds: 0 or a negative errno. */
int weir__os_entropy(void *out, size_t n);

#endif
