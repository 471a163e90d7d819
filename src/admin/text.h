/* Text that grows in a chain: what the pages are written with. Out of memory is remembered, not
 * reported per call. */
#ifndef WEIR_ADMIN_TEXT_H
#define WEIR_ADMIN_TEXT_H
#include "base/compiler.h"
#include "weir/mem.h"
#include <jansson.h>

struct weir__admin_text {
    struct weir_mem *mem;
    struct weir_chain chain;
    bool failed; /* something is missing */
};

void weir__admin_write(struct weir__admin_text *t, const void *data, size_t n);
WEIR_PRINTF(2, 3)
void weir__admin_print(struct weir__admin_text *t, const char *format, ...);
/* The document and a line feed. Takes j; NULL: it could not be made. */
void weir__admin_json(struct weir__admin_text *t, json_t *j);

/* A text of others: JSON holds UTF-8 only, so of one that is not the bytes beyond ASCII become '?'.
 * NULL: null. */
json_t *weir__admin_string(const char *s);

struct weir__admin_name { /* a handler's, as far as it fits on a line */
    char text[64];
};

/* A name of others for a page of text: control characters, which could begin a line of their own,
 * become '?'. */
struct weir__admin_name weir__admin_name(const char *name);

/* What a number's noun ends in. */
static inline const char *weir__admin_s(uint64_t n) {
    return n == 1 ? "" : "s";
}

static inline json_t *weir__admin_integer(uint64_t v) {
    return json_integer((json_int_t)v);
}

#endif
