/* The size classes: what a block holds, how blocks lie in a run of pages, how many are cached.
 *
 * Four classes per doubling above 64 B. From 1 KiB on a class is a round payload plus a buffer's
 * header, so that 1, 2 .. 64 KiB of payload fit exactly. */
#ifndef WEIR_MEM_CLASS_H
#define WEIR_MEM_CLASS_H
#include "base/compiler.h"
#include <stddef.h>
#include <stdint.h>

enum {
    WEIR__MEM_CLASSES = 44,    /* 16 B .. 64 KiB */
    WEIR__MEM_HUGE = 44,       /* the "class" of what is larger: a run of its own, or a mapping */
    WEIR__MEM_SMALL_MAX = 896, /* classes above it carry a header on top */
    WEIR__MEM_BIG_MAX = 65536, /* largest payload of a class */
    WEIR__MEM_HEAD_BYTES = 32, /* a buffer's header */
    WEIR__MEM_TABLE_MAX = 4096 + WEIR__MEM_HEAD_BYTES,
    WEIR__MEM_PAGE_BITS = 13, /* a page of a chunk: 8 KiB */
    WEIR__MEM_PAGE_BYTES = 1 << WEIR__MEM_PAGE_BITS,
    WEIR__MEM_BLOCKS_MAX = 512, /* of one run */
};

struct weir__mem_shape {
    uint32_t inverse;   /* 2^32 / bytes: from an offset in a run to the block's index */
    uint16_t pages;     /* of a run: at most 16, chosen so that little is left over */
    uint16_t blocks;    /* in it */
    uint16_t cache_max; /* blocks in a thread cache */
    uint16_t batch;     /* blocks fetched at once: enough to matter, few enough that an idle class
                           touches no pages */
};

extern const uint32_t weir__mem_class_bytes[WEIR__MEM_CLASSES];
extern const struct weir__mem_shape weir__mem_shapes[WEIR__MEM_CLASSES];

/* The class by (bytes + 15) / 16 up to TABLE_MAX, by (payload + 255) / 256 above. */
extern const uint8_t weir__mem_class_small[WEIR__MEM_TABLE_MAX / 16 + 1];
extern const uint8_t weir__mem_class_big[WEIR__MEM_BIG_MAX / 256 + 1];

/* The same, computed: for what the compiler knows. */
WEIR_INLINE unsigned weir__mem_class_computed(size_t bytes) {
    if (bytes > WEIR__MEM_SMALL_MAX) {
        if (bytes > WEIR__MEM_BIG_MAX + WEIR__MEM_HEAD_BYTES)
            return WEIR__MEM_HUGE;
        bytes -= WEIR__MEM_HEAD_BYTES;
        if (bytes <= WEIR__MEM_SMALL_MAX)
            bytes = WEIR__MEM_SMALL_MAX + 1;
    }
    size_t x = bytes ? bytes - 1 : 0;
    if (x < 64)
        return (unsigned)(x >> 4);
    unsigned lg = 63U - (unsigned)__builtin_clzll(x);
    return (lg - 6) * 4 + (unsigned)(x >> (lg - 2));
}

/* The class of a block of `bytes` bytes, header included. */
WEIR_INLINE unsigned weir__mem_class(size_t bytes) {
    if (__builtin_constant_p(bytes))
        return weir__mem_class_computed(bytes);
    if (likely(bytes <= WEIR__MEM_TABLE_MAX))
        return weir__mem_class_small[(bytes + 15) >> 4];
    if (unlikely(bytes > WEIR__MEM_BIG_MAX + WEIR__MEM_HEAD_BYTES))
        return WEIR__MEM_HUGE;
    return weir__mem_class_big[(bytes - WEIR__MEM_HEAD_BYTES + 255) >> 8];
}

#endif
