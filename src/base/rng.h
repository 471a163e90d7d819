/* Seeded random numbers: xoshiro256** filled by splitmix64 (Blackman and Vigna, 2018). Not for
 * secrets. */
#ifndef WEIR_BASE_RNG_H
#define WEIR_BASE_RNG_H
#include <stdbool.h>
#include <stdint.h>

struct weir__base_rng {
    uint64_t s[4];
};

/* The next value of splitmix64; also a good mixer of one integer. */
static inline uint64_t weir__base_splitmix(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline void weir__base_rng_seed(struct weir__base_rng *r, uint64_t seed) {
    for (int i = 0; i < 4; i++)
        r->s[i] = weir__base_splitmix(&seed);
}

static inline uint64_t weir__base_rng_next(struct weir__base_rng *r) {
    uint64_t *s = r->s, x = s[1] * 5, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = s[3] << 45 | s[3] >> 19;
    return (x << 7 | x >> 57) * 9;
}

/* Uniform in [0, n) without bias (Lemire); 0 when n is 0. */
static inline uint64_t weir__base_rng_below(struct weir__base_rng *r, uint64_t n) {
    unsigned __int128 m = (unsigned __int128)weir__base_rng_next(r) * n;
    if ((uint64_t)m < n && n) {
        uint64_t floor = -n % n;
        while ((uint64_t)m < floor)
            m = (unsigned __int128)weir__base_rng_next(r) * n;
    }
    return (uint64_t)(m >> 64);
}

/* True with a probability of ppm in a million. Draws a number also for 0, so that plans with other
 * rates keep the sequence. */
static inline bool weir__base_rng_chance_ppm(struct weir__base_rng *r, uint32_t ppm) {
    return weir__base_rng_below(r, 1000000) < ppm;
}

#endif
