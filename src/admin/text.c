#include "admin/text.h"
#include <stdarg.h>
#include <stdio.h>

enum { PRINT_MAX = 1024, REAL_DIGITS = 9 };

void weir__admin_write(struct weir__admin_text *t, const void *data, size_t n) {
    if (n && weir_chain_write(t->mem, &t->chain, data, n) < 0)
        t->failed = true;
}

void weir__admin_print(struct weir__admin_text *t, const char *format, ...) {
    char line[PRINT_MAX];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (n < 0)
        t->failed = true;
    else
        weir__admin_write(t, line, n < PRINT_MAX ? (size_t)n : PRINT_MAX - 1);
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
