/* The open calls of one connection by id. Ids are the peer's choice, so the hash is seeded. Never
 * moves calls. */
#ifndef WEIR_CODEC_LINKD_TABLE_H
#define WEIR_CODEC_LINKD_TABLE_H
#include "base/compiler.h"
#include "weir/linkd.h"

enum {
    WEIR__LINKD_SLOTS_MIN = 8, /* of the first table: an empty one has none */
    WEIR__LINKD_SLOTS_KEEP = 8 /* most slots that an empty table keeps */
};

struct weir__linkd_table {
    struct weir_linkd_call **slots; /* a power of two of them. NULL: free. Linear probing, no
                                       tombstones */
    uint32_t size, count;
    uint64_t seed;
};

void weir__linkd_table_init(struct weir__linkd_table *t, uint64_t seed);
/* Frees the slots, not the calls. */
void weir__linkd_table_fini(struct weir__linkd_table *t);
struct weir_linkd_call *weir__linkd_table_lookup(const struct weir__linkd_table *t, uint64_t id);
/* The call of this id or NULL. Where calls are answered at once the table is empty. */
WEIR_INLINE struct weir_linkd_call *weir__linkd_table_find(const struct weir__linkd_table *t,
                                                           uint64_t id) {
    return likely(!t->count) ? NULL : weir__linkd_table_lookup(t, id);
}
/* x->id is not in the table. ENOMEM: it did not grow. */
int weir__linkd_table_add(struct weir__linkd_table *t, struct weir_mem *m,
                          struct weir_linkd_call *x);
/* x is in the table. Later members of its run move down, so a scan that removes looks at the same
 * slot again. */
void weir__linkd_table_remove(struct weir__linkd_table *t, const struct weir_linkd_call *x);

#endif
