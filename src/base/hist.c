#include "weir/hist.h"
#include "base/assert.h"
#include "base/compiler.h"
#include <string.h>

/* 2^10 buckets per doubling: a bucket is at most 1/1024 of its values wide, so its upper end is
 * under 0.1 % too high. */
enum { SUB_BITS = 10, SUB = 1 << SUB_BITS };

struct weir_hist {
    uint64_t value_max, count, saturated, min, max;
    uint64_t sum_low, sum_high; /* one 128-bit sum */
    uint64_t buckets;
    uint64_t at[];
};

/* Values below 2 * SUB are their own bucket; above, the top SUB_BITS + 1 bits and the shift name
 * it, without a gap. */
static size_t bucket_of(uint64_t v) {
    if (v < 2 * SUB)
        return (size_t)v;
    unsigned shift = (unsigned)(63 - __builtin_clzll(v)) - SUB_BITS;
    return ((size_t)shift << SUB_BITS) + (size_t)(v >> shift);
}

static uint64_t bucket_low(size_t i) {
    if (i < 2 * SUB)
        return i;
    unsigned shift = (unsigned)(i >> SUB_BITS) - 1;
    return (uint64_t)(i - ((size_t)shift << SUB_BITS)) << shift;
}

static uint64_t bucket_high(size_t i) {
    unsigned shift = i < 2 * SUB ? 0 : (unsigned)(i >> SUB_BITS) - 1;
    return bucket_low(i) + ((UINT64_C(1) << shift) - 1);
}

size_t weir_hist_bytes(uint64_t value_max) {
    return sizeof(struct weir_hist) + (bucket_of(value_max) + 1) * sizeof(uint64_t);
}

struct weir_hist *weir_hist_init(void *mem, size_t bytes, uint64_t value_max) {
    if (!mem || bytes < weir_hist_bytes(value_max))
        return NULL;
    struct weir_hist *h = mem;
    h->value_max = value_max;
    h->buckets = bucket_of(value_max) + 1;
    weir_hist_reset(h);
    return h;
}

void weir_hist_reset(struct weir_hist *h) {
    h->count = h->saturated = h->max = h->sum_low = h->sum_high = 0;
    h->min = UINT64_MAX;
    memset(h->at, 0, h->buckets * sizeof h->at[0]);
}

static void add_sum(struct weir_hist *h, unsigned __int128 more) {
    unsigned __int128 sum = ((unsigned __int128)h->sum_high << 64 | h->sum_low) + more;
    h->sum_low = (uint64_t)sum;
    h->sum_high = (uint64_t)(sum >> 64);
}

void weir_hist_add(struct weir_hist *h, uint64_t value) {
    weir_hist_add_n(h, value, 1);
}

void weir_hist_add_n(struct weir_hist *h, uint64_t value, uint64_t n) {
    if (n == 0)
        return;
    if (likely(value <= h->value_max))
        h->at[bucket_of(value)] += n;
    else
        h->saturated += n;
    h->count += n;
    add_sum(h, (unsigned __int128)value * n);
    if (value < h->min)
        h->min = value;
    if (value > h->max)
        h->max = value;
}

void weir_hist_merge(struct weir_hist *dst, const struct weir_hist *src) {
    for (size_t i = 0; i < src->buckets; i++) {
        if (i < dst->buckets && bucket_low(i) <= dst->value_max)
            dst->at[i] += src->at[i];
        else
            dst->saturated += src->at[i];
    }
    dst->saturated += src->saturated;
    dst->count += src->count;
    add_sum(dst, (unsigned __int128)src->sum_high << 64 | src->sum_low);
    if (src->min < dst->min)
        dst->min = src->min;
    if (src->max > dst->max)
        dst->max = src->max;
}

uint64_t weir_hist_count(const struct weir_hist *h) {
    return h->count;
}

uint64_t weir_hist_saturated(const struct weir_hist *h) {
    return h->saturated;
}

uint64_t weir_hist_min(const struct weir_hist *h) {
    return h->count ? h->min : 0;
}

uint64_t weir_hist_max(const struct weir_hist *h) {
    return h->max;
}

double weir_hist_mean(const struct weir_hist *h) {
    unsigned __int128 sum = (unsigned __int128)h->sum_high << 64 | h->sum_low;
    return h->count ? (double)sum / (double)h->count : 0;
}

/* ceil(q * count) within 1..count; the product is nudged down by its own rounding error, so that
 * 0.07 of 100 is the 7th. */
static uint64_t rank_of(double q, uint64_t count) {
    if (!(q > 0))
        return 1;
    if (q >= 1)
        return count;
    double x = q * (double)count * (1 - 1e-15);
    uint64_t rank = (uint64_t)x;
    if ((double)rank < x)
        rank++;
    return rank < 1 ? 1 : rank > count ? count : rank;
}

uint64_t weir_hist_at(const struct weir_hist *h, double q) {
    if (h->count == 0)
        return 0;
    uint64_t rank = rank_of(q, h->count), seen = 0;
    for (size_t i = 0; i < h->buckets; i++) {
        seen += h->at[i];
        if (seen >= rank) {
            uint64_t high = bucket_high(i);
            return high > h->max ? h->max : high < h->min ? h->min : high;
        }
    }
    return h->max;
}

uint64_t weir_hist_count_to(const struct weir_hist *h, uint64_t value) {
    if (value >= h->max)
        return h->count;
    uint64_t seen = 0;
    size_t last = bucket_of(value < h->value_max ? value : h->value_max);
    for (size_t i = 0; i <= last; i++)
        seen += h->at[i];
    return seen;
}

bool weir_hist_next(const struct weir_hist *h, struct weir_hist_bucket *b) {
    for (; b->next < h->buckets; b->next++) {
        size_t i = b->next;
        if (h->at[i]) {
            b->low = bucket_low(i);
            b->high = bucket_high(i);
            b->count = h->at[i];
            b->next++;
            return true;
        }
    }
    return false;
}
