/* One fuzz target is one function over bytes. libFuzzer calls it under clang; smoke.c calls it with
 * seeded bytes everywhere. A finding is a failed must() or a sanitizer's report. Structured targets
 * read their bytes as a plan. */
#ifndef WEIR_TESTS_FUZZ_H
#define WEIR_TESTS_FUZZ_H
#include "base/assert.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct fuzz_plan { /* what is left to read; zeroes once it is used up */
    const uint8_t *p;
    size_t n;
};

static inline uint32_t fuzz_take(struct fuzz_plan *f, unsigned bytes) {
    uint32_t v = 0;
    for (; bytes && f->n; bytes--, f->n--)
        v = v << 8 | *f->p++;
    return v;
}

/* 0 .. n - 1. */
static inline uint32_t fuzz_below(struct fuzz_plan *f, uint32_t n) {
    return n ? fuzz_take(f, n > 256 ? 3 : 1) % n : 0;
}

static inline bool fuzz_one_in(struct fuzz_plan *f, uint32_t n) {
    return f->n && fuzz_below(f, n) == 0;
}

#endif
