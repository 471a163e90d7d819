/* Names for addresses of this process: functions of the program, static ones too, and of the shared
 * libraries it has mapped, from their own ELF symbol tables. Results: >= 0 or a negative errno. */
#ifndef WEIR_OS_SYMBOL_H
#define WEIR_OS_SYMBOL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weir__os_symbols;

/* One line of /proc/self/maps. */
struct weir__os_mapping {
    uintptr_t low, high;
    uint64_t offset; /* in the file */
    bool executable;
    const char *path; /* within the line, zero-terminated; "" when there is none */
};

/* What is mapped now; tables are read when the first address in them is asked for. */
int weir__os_symbols_new(struct weir__os_symbols **out);
void weir__os_symbols_free(struct weir__os_symbols *s);
/* Writes the name at pc into out: "digest_rounds", with `offset` "digest_rounds+0x1f"; where no
 * symbol is known "libcrypto.so.3" or "libcrypto.so.3+0x1234", where nothing is mapped "0x1234".
 * The length written. For a return address ask for pc - 1. */
size_t weir__os_symbols_name(struct weir__os_symbols *s, uintptr_t pc, bool offset, char *out,
                             size_t cap);
/* Takes one line apart, which it changes; false: it is not such a line. */
bool weir__os_mapping_parse(char *line, struct weir__os_mapping *out);

#endif
