#include "mem/raw.h"
#include "base/compiler.h"
#include <stdatomic.h>
#include <stdlib.h>

static _Atomic uint64_t fail_in;

void *weir__mem_raw_new(size_t n) {
    if (unlikely(atomic_load_explicit(&fail_in, memory_order_relaxed)) &&
        atomic_fetch_sub_explicit(&fail_in, 1, memory_order_relaxed) == 1)
        return NULL;
    return calloc(1, n);
}

void weir__mem_raw_free(void *p) {
    free(p);
}

void weir__mem_raw_fail(uint64_t nth) {
    atomic_store_explicit(&fail_in, nth, memory_order_relaxed);
}
