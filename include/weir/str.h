/* A borrowed string: not terminated, never owned. */
#ifndef WEIR_STR_H
#define WEIR_STR_H
#include <stddef.h>

struct weir_str {
    const char *p;
    size_t n;
};

#define WEIR_STR(literal) ((struct weir_str){(literal), sizeof(literal) - 1})
#endif
