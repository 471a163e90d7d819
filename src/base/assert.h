/* The assertion ladder, from always fatal to only counted. */
#ifndef WEIR_BASE_ASSERT_H
#define WEIR_BASE_ASSERT_H
#include "base/compiler.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum weir__base_site_kind { WEIR__SITE_COUNT, WEIR__SITE_ODD };

/* One count_if/odd_if in the source. It joins the list of sites with its first hit. */
struct weir__base_site {
    const char *file, *text;
    uint32_t line;
    enum weir__base_site_kind kind;
    _Atomic uint64_t hits;
    struct weir__base_site *next; /* written once, before the site is listed */
};

/* Says what broke on stderr and aborts. Any thread. */
WEIR_COLD WEIR_NORETURN void weir__base_panic(const char *file, unsigned line, const char *text);

/* Called with the finished message before it is printed (a crash report, a test that jumps away).
 * Set it before threads run; NULL: none. */
extern void (*weir__base_on_panic)(const char *message);

/* Counts one hit; returns true. Any thread. */
WEIR_COLD bool weir__base_hit(struct weir__base_site *site);

/* Visits every site that was hit at least once, newest first. Any thread. */
void weir__base_sites(void (*fn)(const struct weir__base_site *site, uint64_t hits, void *user),
                      void *user);

/* Hits over all sites of this kind. Any thread. */
uint64_t weir__base_hits(enum weir__base_site_kind kind);

/* Always checked; false: message and abort. */
#define must(cond) (likely(cond) ? (void)0 : weir__base_panic(__FILE__, __LINE__, #cond))

/* For hot paths: must() in WEIR_CHECKED builds; elsewhere never evaluated and never assumed. */
#ifdef WEIR_CHECKED
#define check(cond) must(cond)
#else
#define check(cond) ((void)(0 && (cond)))
#endif

#define WEIR__HIT(site_kind, words)                                                    \
    ({                                                                                 \
        static struct weir__base_site site_ = {                                        \
            .file = __FILE__, .text = (words), .line = __LINE__, .kind = (site_kind)}; \
        weir__base_hit(&site_);                                                        \
    })

/* "Should not happen": the value of cond, counted at this place when true, seen in statistics. */
#define count_if(cond) (unlikely(cond) ? WEIR__HIT(WEIR__SITE_COUNT, #cond) : false)
/* "The peer did something strange": the same, another kind. */
#define odd_if(cond) (unlikely(cond) ? WEIR__HIT(WEIR__SITE_ODD, #cond) : false)

#endif
