#include "cli/opt.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit counts[] = {
    {"", 1},        {"k", 1000},       {"K", 1000},       {"M", 1000000},
    {"m", 1000000}, {"G", 1000000000}, {"g", 1000000000},
};
static const struct unit durations[] = {
    {"h", 3600000000000}, {"m", 60000000000}, {"s", 1000000000},
    {"ms", 1000000},      {"us", 1000},       {"ns", 1},
};
static const struct unit sizes[] = {
    {"G", 1 << 30},   {"M", 1 << 20},   {"k", 1 << 10}, {"", 1},
    {"K", 1 << 10},   {"m", 1 << 20},   {"g", 1 << 30}, {"KiB", 1 << 10},
    {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1},
};

static const struct unit rates[] = {
    {"Gbit", 1000000000}, {"Mbit", 1000000}, {"kbit", 1000}, {"bit", 1}, {"Tbit", 1000000000000},
};

/* The digits of a number without its dot, and how many of them stood behind it. */
static const char *digits(const char *p, uint64_t *mantissa, uint64_t *scale) {
    const char *start = p;
    bool dot = false;
    *mantissa = 0;
    *scale = 1;
    for (; (*p >= '0' && *p <= '9') || (*p == '.' && !dot); p++) {
        if (*p == '.') {
            dot = true;
            continue;
        }
        if (__builtin_mul_overflow(*mantissa, 10, mantissa) ||
            __builtin_add_overflow(*mantissa, (uint64_t)(*p - '0'), mantissa))
            return NULL;
        if (dot && __builtin_mul_overflow(*scale, 10, scale))
            return NULL;
    }
    bool number = p > start && *start != '.' && p[-1] != '.';
    return number ? p : NULL;
}

static bool number(const char *text, const struct unit *units, unsigned n, uint64_t *out) {
    uint64_t mantissa, scale, product;
    const char *end = digits(text, &mantissa, &scale);
    for (unsigned i = 0; end && i < n; i++) {
        if (strcmp(end, units[i].name) != 0)
            continue;
        if (__builtin_mul_overflow(mantissa, units[i].factor, &product) || product % scale)
            return false;
        *out = product / scale;
        return true;
    }
    return false;
}

bool cli_count(const char *text, uint64_t *out) {
    return number(text, counts, CLI_LENGTH(counts), out);
}

bool cli_duration(const char *text, uint64_t *ns) {
    if (!strcmp(text, "0")) { /* the one duration that needs no unit */
        *ns = 0;
        return true;
    }
    return number(text, durations, CLI_LENGTH(durations), ns);
}

bool cli_bytes(const char *text, uint64_t *out) {
    return number(text, sizes, CLI_LENGTH(sizes), out);
}

bool cli_bdp(const char *text, uint64_t *bytes) {
    char rate[32];
    const char *comma = strchr(text, ',');
    uint64_t bits_per_s, ns;
    size_t n = comma ? (size_t)(comma - text) : sizeof rate;
    if (n >= sizeof rate)
        return false;
    memcpy(rate, text, n);
    rate[n] = 0;
    if (!number(rate, rates, CLI_LENGTH(rates), &bits_per_s) || !cli_duration(comma + 1, &ns))
        return false;
    unsigned __int128 bits = (unsigned __int128)bits_per_s * ns;
    const uint64_t byte = UINT64_C(8000000000); /* bits, times nanoseconds of a second */
    bits = (bits + byte - 1) / byte;
    *bytes = (uint64_t)bits;
    return bits > 0 && bits <= UINT64_MAX;
}

/* The first unit that divides the value; the tables begin with the largest. */
static void shortest(uint64_t value, const struct unit *units, char *text) {
    unsigned i = 0;
    while (value % units[i].factor)
        i++;
    snprintf(text, 32, "%" PRIu64 "%s", value / units[i].factor, units[i].name);
}

void cli_duration_text(uint64_t ns, char *text) {
    if (ns)
        shortest(ns, durations, text);
    else
        memcpy(text, "0", 2);
}

void cli_bytes_text(uint64_t bytes, char *text) {
    if (bytes)
        shortest(bytes, sizes, text);
    else
        memcpy(text, "0", 2);
}
