/* One table of what a loop counts: the stats page and the metrics page are written from it. */
#ifndef WEIR_ADMIN_FIELD_H
#define WEIR_ADMIN_FIELD_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdatomic.h>
#include "io/io.h"

enum weir__admin_unit { WEIR__ADMIN_COUNT, WEIR__ADMIN_BYTES, WEIR__ADMIN_NS };

struct weir__admin_field {
    const char *name;   /* in JSON: the member's own */
    const char *metric; /* in Prometheus: without "weir_loop_" and "_total", in seconds and bytes */
    const char *help;
    size_t offset; /* of a uint64_t */
    enum weir__admin_unit unit;
    bool gauge; /* it can fall */
};

extern const struct weir__admin_field weir__admin_loop_fields[]; /* of struct weir_loop_stats */
extern const unsigned weir__admin_n_loop_fields;

/* Why PROXY headers were refused, by reason: name and offset, of struct weir_proxy_stats. */
extern const struct weir__admin_field weir__admin_refusal_fields[];
extern const unsigned weir__admin_n_refusal_fields;

/* What a door counts, of struct weir__io_stats: not of every door (ring: of one with a ring). */
struct weir__admin_io_field {
    const char *name, *metric, *help;
    size_t offset; /* of an _Atomic uint64_t */
    bool ring;
};

extern const struct weir__admin_io_field weir__admin_io_fields[];
extern const unsigned weir__admin_n_io_fields;
/* Requests to a ring: their names in the order of enum weir__io_request. */
extern const char *const weir__admin_io_requests[];

static inline uint64_t weir__admin_io_field_of(const struct weir__admin_io_field *f,
                                               const struct weir__io_stats *s) {
    return atomic_load_explicit(
        (const _Atomic uint64_t *)(const void *)((const char *)s + f->offset),
        memory_order_relaxed);
}

static inline uint64_t weir__admin_field_of(const struct weir__admin_field *f, const void *p) {
    return *(const uint64_t *)(const void *)((const char *)p + f->offset);
}

#endif
