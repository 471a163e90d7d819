/* Embedded channels with few words, handlers that many tests need, and one trace of what they saw.
 */
#ifndef WEIR_TESTS_KIT_EMBEDDED_H
#define WEIR_TESTS_KIT_EMBEDDED_H
#include "base/compiler.h"
#include "weir.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

/* The trace: every handler below and every test tells into it; "a;b;". */
WEIR_PRINTF(1, 2) void tell(const char *fmt, ...);
const char *told(void);
void forget(void);
/* For cmocka's setup: forgets, and notes how often something happened that should not. */
int emb_begin(void **state);

struct weir_embedded *emb_open(const struct weir_handler *h, const void *config,
                               const struct weir_limits *limits);
struct weir_embedded *emb_line(const struct weir_stage *line, unsigned n,
                               const struct weir_limits *limits);
void emb_push(struct weir_embedded *e, const char *text);
void emb_expect_out(struct weir_embedded *e, const char *text);
struct weir_chan_counters emb_counters(struct weir_embedded *e);
struct weir_ctx *emb_ctx(struct weir_embedded *e, const struct weir_handler *h);
/* Frees it: nothing leaked, and nothing happened that should not. */
void emb_end(struct weir_embedded *e);
/* Sends a copy of text, n bytes of 'x'; the result of weir_ctx_send, with what it refused dropped.
 */
int emb_say(struct weir_ctx *c, const char *text);
int emb_pour(struct weir_ctx *c, size_t n);

extern const struct weir_handler emb_echo;    /* sends back; tells "close WHY" */
extern const struct weir_handler emb_sink;    /* takes all, tells the number of bytes */
extern const struct weir_handler emb_four;    /* takes groups of four, tells them, and eof or cut */
extern const struct weir_handler emb_forward; /* gives its input to the next reader */
extern const struct weir_handler
    emb_gate; /* takes all when emb_gate_open; tells "took N", eof, cut */
extern bool emb_gate_open;

#endif
