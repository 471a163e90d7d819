/* Memory that is never given back: tables which any thread may read at any time, also long after
 * their owner ended. */
#ifndef WEIR_MEM_FOREVER_H
#define WEIR_MEM_FOREVER_H
#include <stddef.h>

/* Zeroed bytes in whole pages, or NULL. Any thread. */
void *weir__mem_forever(size_t bytes);

#endif
