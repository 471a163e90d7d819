/* Zero-copy sends: what the door still reads from after its SENT. */
#ifndef WEIR_CHAN_PIN_H
#define WEIR_CHAN_PIN_H
#include <stdbool.h>
#include <stdint.h>
#include "weir/mem.h"

struct weir_chan;
struct weir__io_done;

struct weir__chan_pin { /* one send */
    struct weir__chan_pin *next;
    struct weir_chain chain;
    uint64_t held; /* capacity of its buffers */
    intptr_t number;
};

struct weir__chan_pins { /* of a channel that sends without copies; gone when nothing is pinned */
    struct weir__chan_pin *list, *spare; /* spare: for the flight under way */
    uint64_t bytes, held;                /* of the list */
};

/* What is in flight may go without a copy: there is a place to keep it, and not too much is pinned
 * already. */
bool weir__chan_pin_prepare(struct weir_chan *ch);
/* SENT said `pinned`: what was in flight is kept under that number, and nothing is in flight. */
void weir__chan_pin(struct weir_chan *ch, intptr_t number);
void weir__chan_on_unpinned(struct weir_chan *ch, const struct weir__io_done *d);
void weir__chan_pins_free(struct weir_chan *ch);
/* NULL: nothing is pinned. */
const struct weir__chan_pins *weir__chan_pinned(const struct weir_chan *ch);

#endif
