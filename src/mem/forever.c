#include "mem/forever.h"
#include "os/memory.h"

void *weir__mem_forever(size_t bytes) {
    return weir__os_map(bytes, 0);
}
