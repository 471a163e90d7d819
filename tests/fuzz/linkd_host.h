/* A session under a fuzz target: a server whose service a plan drives, or a client. */
#ifndef WEIR_TESTS_FUZZ_LINKD_HOST_H
#define WEIR_TESTS_FUZZ_LINKD_HOST_H
#include "codec/linkd/session.h"
#include "fuzz/fuzz.h"

struct fuzz_end {
    struct weir__linkd_line line;
    union {
        struct weir__linkd_session s;
        struct weir_linkd_client k;
    };
    struct weir_chain in; /* on its way to this end */
    struct weir_linkd_stats stats;
    uint64_t now_ns;
};

static void fuzz_kick(struct weir__linkd_session *s) {
    (void)s;
}

static uint64_t fuzz_now(struct weir__linkd_session *s) {
    return container_of(s, struct fuzz_end, s)->now_ns;
}

static const struct weir__linkd_host fuzz_host = {.kick = fuzz_kick, .now_ns = fuzz_now};

static inline void fuzz_open_server(struct fuzz_end *e, const struct weir_linkd_server_options *o,
                                    struct weir_mem *m, uint64_t n) {
    weir__linkd_server_line(&e->line, o, m, &fuzz_host, &e->stats);
    weir__linkd_server_init(&e->s, &e->line, n, (struct weir_ref){n});
}

static inline void fuzz_open_client(struct fuzz_end *e, const struct weir_linkd_client_options *o,
                                    struct weir_mem *m, uint64_t n) {
    weir__linkd_client_line(&e->line, o, m, &fuzz_host, &e->stats);
    weir__linkd_client_init(&e->k, &e->line, o, n, (struct weir_ref){n});
}

static inline void fuzz_close(struct fuzz_end *e) {
    weir__linkd_fini(&e->s, WEIR_ERESET);
    weir__linkd_line_fini(&e->line);
    weir_chain_fini(&e->in);
}

/* Any open call of this end, or NULL. */
static inline struct weir_linkd_call *fuzz_any(struct fuzz_plan *f, struct fuzz_end *e) {
    uint32_t n = e->s.table.size, at = fuzz_below(f, !n ? 1 : n < 256 ? n : 256);
    for (uint32_t i = 0; i < n; i++) {
        struct weir_linkd_call *x = e->s.table.slots[(at + i) & (n - 1)];
        if (x && !(x->flags & WEIR__LINKD_OVER))
            return x;
    }
    return NULL;
}

/* 256 bytes of the pattern of call `id` from offset `from` on. */
static inline const uint8_t *fuzz_pattern(uint64_t id, uint64_t from) {
    static uint8_t ramp[512];
    if (!ramp[1])
        for (unsigned i = 0; i < sizeof ramp; i++)
            ramp[i] = (uint8_t)i;
    return ramp + (uint8_t)(id * 7 + from);
}

static inline struct weir_chain fuzz_chain(struct weir_mem *m, uint64_t id, uint64_t from,
                                           size_t n) {
    struct weir_chain c = {0};
    struct weir_slice s;
    if (!n || weir_slice_new(m, n, &s) < 0)
        return c;
    for (size_t i = 0; i < n; i += 256)
        memcpy(s.p + i, fuzz_pattern(id, from + i), n - i < 256 ? n - i : 256);
    if (weir_chain_add(m, &c, &s) < 0)
        weir_slice_release(&s);
    return c;
}

#endif
