/* A fuzz target as an ordinary test: `smoke [runs] [first seed]`. One line on stderr names the seed
 * of a run that crashes. */
#include "base/rng.h"
#include "fuzz/fuzz.h"
#include <stdio.h>
#include <stdlib.h>

enum { BYTES_MAX = 1200, RUNS = 600 };

static uint64_t seed;

static void say_seed(const char *message) {
    (void)message;
    fprintf(stderr, "smoke: seed %llu\n", (unsigned long long)seed);
}

int main(int argc, char **argv) {
    static uint8_t data[BYTES_MAX];
    uint64_t runs = argc > 1 ? strtoull(argv[1], NULL, 10) : RUNS;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    weir__base_on_panic = say_seed;
    for (seed = first; seed < first + runs; seed++) {
        struct weir__base_rng r;
        weir__base_rng_seed(&r, seed);
        size_t n = weir__base_rng_below(&r, BYTES_MAX);
        for (size_t i = 0; i < n; i++)
            data[i] = (uint8_t)weir__base_rng_next(&r);
        uint8_t *exact = malloc(n ? n : 1); /* so that a sanitizer sees one byte too far */
        memcpy(exact, data, n);
        LLVMFuzzerTestOneInput(exact, n);
        free(exact);
    }
    return 0;
}
