/* What a handler may ask of its loop beside the public face. */
#ifndef WEIR_LOOP_LOCAL_H
#define WEIR_LOOP_LOCAL_H
#include <stddef.h>
#include <stdint.h>

struct weir_loop;
struct weir__loop_handler;

/* Zeroed memory of this loop under a key (the address of something static): the same each time,
 * freed with the loop. NULL: no memory. */
void *weir__loop_local(struct weir_loop *l, const void *key, size_t bytes);
/* The statistics entry of a name that outlives the loop; frames of attribution under it, around a
 * callback that is nobody's handler. */
struct weir__loop_handler *weir__loop_name(struct weir_loop *l, const char *name);
void weir__loop_attribute(struct weir_loop *l, struct weir__loop_handler *h, uint64_t ref);
void weir__loop_attribute_end(struct weir_loop *l);
/* 64 bits of chance from the loop's door. Loop. */
uint64_t weir__loop_entropy(struct weir_loop *l);

#endif
