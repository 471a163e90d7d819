/* What a pool says of itself. */
#include "admin/admin.h"
#include <stddef.h>

static const struct field {
    const char *name;
    size_t offset;
} fields[] = {
#define FIELD(member) \
    { #member, offsetof(struct weir__mem_stats, member) }
    FIELD(live_bytes),      FIELD(peak_bytes),      FIELD(budget_bytes),   FIELD(blocks),
    FIELD(chunk_bytes),     FIELD(huge_bytes),      FIELD(cached_bytes),   FIELD(free_block_bytes),
    FIELD(free_page_bytes), FIELD(overhead_bytes),  FIELD(resident_bytes), FIELD(arenas),
    FIELD(chunks),          FIELD(chunks_unmapped), FIELD(forgot_bytes),   FIELD(outside_blocks),
    FIELD(allocations),     FIELD(misses),          FIELD(failures),       FIELD(over_budget),
    FIELD(foreign),         FIELD(leased_bytes),    FIELD(unwatched),
#undef FIELD
};

static json_t *bands_json(const struct weir__mem_stats *s) {
    static const char *const names[WEIR__MEM_BANDS] = {"init", "low", "mid", "high", "top", "full"};
    json_t *o = json_object();
    for (unsigned i = 0; i < WEIR__MEM_BANDS; i++)
        json_object_set_new(o, names[i], weir__admin_integer(s->bands[i]));
    return o;
}

static double ratio(uint64_t part, uint64_t whole) {
    return whole ? (double)part / (double)whole : 0;
}

void weir__admin_memory_fields(json_t *o, const struct weir__mem_stats *s) {
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        uint64_t v = *(const uint64_t *)(const void *)((const char *)s + fields[i].offset);
        json_t *value = v == UINT64_MAX ? json_null() : weir__admin_integer(v); /* no limit */
        json_object_set_new(o, fields[i].name, value);
    }
    json_object_set_new(o, "bands", bands_json(s));
    json_object_set_new(o, "hit_rate",
                        json_real(s->allocations ? 1 - ratio(s->misses, s->allocations) : 0));
    json_object_set_new(o, "fragmentation", json_real(ratio(s->resident_bytes, s->live_bytes)));
}
