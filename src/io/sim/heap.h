/* What is to happen, ordered by virtual time; equal times in an order the seed draws. */
#ifndef WEIR_IO_SIM_HEAP_H
#define WEIR_IO_SIM_HEAP_H
#include <stddef.h>
#include <stdint.h>
#include "weir/mem.h"

struct weir__iosim_seg;

struct weir__iosim_event {
    uint64_t at_ns;
    uint64_t tie; /* drawn; the sequence number decides what is still equal */
    uint64_t seq;
    void *object; /* a stream, socket, port or peer, by kind */
    struct weir__iosim_seg *seg;
    uint32_t n; /* bytes, tries, or which arm */
    int code;
    uint8_t kind, side, op;
};

struct weir__iosim_heap { /* {0} is empty */
    struct weir__iosim_event *at;
    size_t n, cap;
};

void weir__iosim_heap_push(struct weir__iosim_heap *h, struct weir_mem *m,
                           const struct weir__iosim_event *e);
/* The heap must not be empty. */
struct weir__iosim_event weir__iosim_heap_pop(struct weir__iosim_heap *h);
void weir__iosim_heap_fini(struct weir__iosim_heap *h);

#endif
