#include "admin/text.h"
#include "mem/raw.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LINE_BYTES = 512, REAL_DIGITS = 9 };

void weir__admin_write(struct weir__admin_text *t, const void *data, size_t n) {
    if (n && weir_chain_write(t->mem, &t->chain, data, n) < 0)
        t->failed = true;
}

/* A line that a buffer on the stack does not hold: n bytes. */
static void print_long(struct weir__admin_text *t, size_t n, const char *format, va_list args) {
    char *at = (char *)weir_chain_reserve(t->mem, &t->chain, n + 1);
    if (!at) {
        t->failed = true;
        return;
    }
    vsnprintf(at, n + 1, format, args);
    weir_chain_commit(&t->chain, n);
}

void weir__admin_print(struct weir__admin_text *t, const char *format, ...) {
    char line[LINE_BYTES];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(line, sizeof line, format, args);
    if (n < 0)
        t->failed = true;
    else if ((size_t)n < sizeof line)
        weir__admin_write(t, line, (size_t)n);
    else
        print_long(t, (size_t)n, format, again);
    va_end(again);
    va_end(args);
}

static int dump(const char *data, size_t n, void *user) {
    struct weir__admin_text *t = user;
    weir__admin_write(t, data, n);
    return t->failed ? -1 : 0;
}

void weir__admin_json(struct weir__admin_text *t, json_t *j) {
    if (!j || json_dump_callback(j, dump, t, JSON_INDENT(1) | JSON_REAL_PRECISION(REAL_DIGITS)) < 0)
        t->failed = true;
    json_decref(j);
    weir__admin_write(t, "\n", 1);
}

json_t *weir__admin_string(const char *s) {
    json_t *j = s ? json_string(s) : json_null();
    size_t n = s ? strlen(s) : 0;
    char *ascii = j ? NULL : weir__mem_raw_new(n + 1);
    if (!ascii)
        return j;
    for (size_t i = 0; i < n; i++)
        ascii[i] = (unsigned char)s[i] < 0x80 ? s[i] : '?';
    j = json_string(ascii);
    weir__mem_raw_free(ascii);
    return j;
}

struct weir__admin_name weir__admin_name(const char *name) {
    struct weir__admin_name out;
    size_t n = 0;
    for (; n < sizeof out.text - 1 && name[n]; n++) {
        unsigned char c = (unsigned char)name[n];
        out.text[n] = c < 0x20 || c == 0x7f ? '?' : name[n];
    }
    out.text[n] = 0;
    return out;
}
