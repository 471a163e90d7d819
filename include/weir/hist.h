/* Histogram of values (nanoseconds, bytes) with a relative error below 0.1 %: exact up to 2047,
 * then 1024 buckets per doubling. One writer at a time; it allocates nothing and lives in memory of
 * the caller. */
#ifndef WEIR_HIST_H
#define WEIR_HIST_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

struct weir_hist;

/* The usual range for latencies: 2^40 ns, about 18 minutes; 256 KiB of memory. */
#define WEIR_HIST_NS_MAX (UINT64_C(1) << 40)

struct weir_hist_bucket { /* a cursor: start from {0} */
    uint64_t low, high;   /* the bucket holds values low..high, both inside */
    uint64_t count;
    uint32_t next;
};

/* Bytes that a histogram of values 0..value_max needs. Any thread. */
size_t weir_hist_bytes(uint64_t value_max);
/* An empty histogram in mem (aligned to 8), which must outlive it; nothing has to be freed. NULL:
 * bytes < weir_hist_bytes(value_max). */
struct weir_hist *weir_hist_init(void *mem, size_t bytes, uint64_t value_max);
/* Forgets every value. */
void weir_hist_reset(struct weir_hist *h);
/* Adds one value. Over value_max it is saturated: in count, sum and max, in no bucket. */
void weir_hist_add(struct weir_hist *h, uint64_t value);
/* Adds a value n times. */
void weir_hist_add_n(struct weir_hist *h, uint64_t value, uint64_t n);
/* Adds everything of src; ranges may differ: what dst's range does not hold becomes saturated
 * there. */
void weir_hist_merge(struct weir_hist *dst, const struct weir_hist *src);

/* Values added, saturated ones too. */
uint64_t weir_hist_count(const struct weir_hist *h);
/* Values over the range: a result with saturated values has no upper quantiles to trust. */
uint64_t weir_hist_saturated(const struct weir_hist *h);
/* Smallest and largest value, exact; 0 when empty. */
uint64_t weir_hist_min(const struct weir_hist *h);
uint64_t weir_hist_max(const struct weir_hist *h);
/* Mean of an exact sum; 0 when empty. */
double weir_hist_mean(const struct weir_hist *h);
/* The value at quantile q (0..1): an upper bound, at most 0.1 % too high, of the ceil(q * count)-th
 * smallest value (the first for q = 0), never outside min..max; a rank among the saturated values
 * gives max. 0 when empty. */
uint64_t weir_hist_at(const struct weir_hist *h, double q);
/* How many values are at most `value`, counting the whole bucket that holds it. */
uint64_t weir_hist_count_to(const struct weir_hist *h, uint64_t value);
/* Steps to the next bucket that is not empty, upwards. false: no more (saturated values have no
 * bucket). */
bool weir_hist_next(const struct weir_hist *h, struct weir_hist_bucket *b);

#ifdef __cplusplus
}
#endif
#endif
