/* What other rooms may ask about slices and chains beside include/weir/mem.h.
 *
 * Every part of a chain holds at least one byte, with one exception: an open reservation on a fresh
 * buffer is an empty last part (commit fills or drops it). A chain is empty when bytes == 0,
 * whatever first says. */
#ifndef WEIR_MEM_CHAIN_H
#define WEIR_MEM_CHAIN_H
#include "mem/pool.h"

/* Payload bytes of the buffer behind s; 0 for static storage and empty slices. */
static inline size_t weir__mem_slice_capacity(struct weir_slice s) {
    return s.buf ? s.buf->capacity : 0;
}

/* Bytes of that buffer which s keeps alive without naming them. */
static inline size_t weir__mem_slice_waste(struct weir_slice s) {
    return s.buf ? s.buf->capacity - s.n : 0;
}

/* True when s is the only reference on its buffer and never was shared: the rest of the buffer is
 * free to write. */
static inline bool weir__mem_buf_exclusive(struct weir_slice s) {
    return s.buf && !s.buf->shared && s.buf->refs == 1;
}

/* Bytes behind the end of an exclusive slice in its buffer; 0 otherwise. */
static inline size_t weir__mem_slice_room(struct weir_slice s) {
    return weir__mem_buf_exclusive(s) ? (size_t)(s.buf->data + s.buf->capacity - (s.p + s.n)) : 0;
}

/* Capacity of the buffers behind c, a buffer once per run of consecutive parts. File regions and
 * static storage: nothing. */
uint64_t weir__mem_chain_capacity(const struct weir_chain *c);
/* Copies what uses less than a quarter of its buffer (runs of parts on one buffer count together)
 * into a fitting one. Returns how many buffers were replaced. ENOMEM: c holds the same bytes, some
 * may have been moved. Owner. */
int weir__mem_chain_compact(struct weir_mem *m, struct weir_chain *c);
/* Asserts that c is well formed: the first 64 parts, and the sums when that is all of it. */
void weir__mem_chain_invariants(const struct weir_chain *c);

#endif
