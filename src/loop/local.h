/* What a handler may ask of its loop beside the public face. */
#ifndef WEIR_LOOP_LOCAL_H
#define WEIR_LOOP_LOCAL_H
#include "base/list.h"
#include <stddef.h>
#include <stdint.h>

struct weir_loop;
struct weir_buf;
struct weir__loop_account;
struct weir__loop_handler;

/* Zeroed memory of this loop under a key (the address of something static): the same each time,
 * freed with the loop. NULL: no memory. */
void *weir__loop_local(struct weir_loop *l, const void *key, size_t bytes);
/* The statistics entry of a name that outlives the loop; frames of attribution under it, around a
 * callback that is nobody's handler. */
struct weir__loop_handler *weir__loop_name(struct weir_loop *l, const char *name);
void weir__loop_attribute(struct weir_loop *l, struct weir__loop_handler *h, uint64_t ref);
void weir__loop_attribute_end(struct weir_loop *l);
/* What the inline frames of loop/account.h work on. */
struct weir__loop_account *weir__loop_account_of(struct weir_loop *l);
/* Where the door tells which buffer it receives into (io/io.h). */
const struct weir_buf *const *weir__loop_receiving(const struct weir_loop *l);
/* 64 bits of chance from the loop's door. Loop. */
uint64_t weir__loop_entropy(struct weir_loop *l);

struct weir__loop_grave { /* freed at the end of the turn, when nobody on the stack can still hold
                             it */
    struct weir__base_fifo_link link;
    void (*bury)(struct weir__loop_grave *g);
};
/* Those of a turn in the order they came. */
void weir__loop_bury(struct weir_loop *l, struct weir__loop_grave *g);

#endif
