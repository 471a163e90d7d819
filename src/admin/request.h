/* The head of a GET request, and nothing else of HTTP: bytes in, a path and a query out. */
#ifndef WEIR_ADMIN_REQUEST_H
#define WEIR_ADMIN_REQUEST_H
#include "weir/str.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WEIR__ADMIN_HEAD_MAX = 8192 };

struct weir__admin_request { /* points into the bytes it was read from */
    struct weir_str path;    /* "/debug/profile", as it stood: nothing here needs unescaping */
    struct weir_str query;   /* "seconds=5"; without a question mark: empty */
};

/* Reads a request from its first n bytes: 1 it is whole, 0 more bytes are needed; < 0: minus the
 * status to answer with, as soon as it is known: 400, 405 (not GET), 431 (the head does not fit
 * into WEIR__ADMIN_HEAD_MAX). */
int weir__admin_request_read(const char *p, size_t n, struct weir__admin_request *out);
/* The value of a query's field; an absent one is {NULL, 0}. */
struct weir_str weir__admin_query(const struct weir__admin_request *r, const char *name);
/* A field that is a whole number of min to max; otherwise when it is absent. false: it is there and
 * none. */
bool weir__admin_query_number(const struct weir__admin_request *r, const char *name, uint32_t min,
                              uint32_t max, uint32_t otherwise, uint32_t *out);

static inline bool weir__admin_str_is(struct weir_str s, const char *word) {
    size_t n = 0;
    while (n < s.n && word[n] && s.p[n] == word[n])
        n++;
    return n == s.n && !word[n];
}

#endif
