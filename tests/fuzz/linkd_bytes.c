/* Raw bytes at either end: what is sent back does not depend on how they were cut. */
#include "fuzz/linkd_host.h"

static int echo_call(struct weir_linkd_call *x, void *user) {
    (void)user;
    return weir_linkd_answer(x, weir_linkd_payload(x));
}

static const struct weir_linkd_service echo = {.name = "echo", .call = echo_call};
static const struct weir_linkd_route routes[] = {{0, &echo, NULL}};
static const struct weir_linkd_server_options server = {
    .size = sizeof server, .routes = routes, .n_routes = 1, .frame_max = 300};

static uint64_t run(const uint8_t *p, size_t n, size_t cut, bool is_server) {
    struct weir_mem *m = weir_mem_open("fuzz");
    struct fuzz_end e = {.now_ns = 1};
    uint64_t hash = 0;
    if (is_server)
        fuzz_open_server(&e, &server, m, 1);
    else
        fuzz_open_client(&e, NULL, m, 1);
    for (size_t at = 0; at < n && !e.s.why; at += cut) {
        must(weir_chain_write(m, &e.in, p + at, cut < n - at ? cut : n - at) == 0);
        weir__linkd_read(&e.s, &e.in, UINT64_MAX);
        must(e.s.why || e.s.decoder.want > e.in.bytes);
    }
    for (const struct weir_part *part = e.s.out.first; part; part = part->next)
        for (size_t i = 0; i < part->slice.n; i++)
            hash = (hash ^ part->slice.p[i]) * 0x100000001b3u;
    hash += (uint64_t)e.s.why;
    fuzz_close(&e);
    must(weir_mem_live(m) == 0);
    weir_mem_close(m);
    return hash;
}

/* Random bytes are linkd once in four billion: most inputs get heads, where the plan's bytes fill
 * the fields. */
static size_t dress(struct fuzz_plan *f, uint8_t *out, size_t max) {
    size_t n = 0;
    while (f->n && n + WEIR_LINKD_HEAD_BYTES + 256 < max) {
        struct weir__linkd_head h = {.type = (uint8_t)(1 + fuzz_below(f, 8)),
                                     .service = (uint16_t)fuzz_below(f, 2),
                                     .id = fuzz_below(f, 5),
                                     .length = fuzz_take(f, 1)};
        h.flags = (uint16_t)(fuzz_below(f, 4) & weir__linkd_flags_of(h.type));
        h.length = h.type == WEIR_LINKD_CREDIT ? 4
                   : h.type == WEIR_LINKD_PING ? h.length % 70
                                               : h.length;
        weir__linkd_put_head(out + n, &h);
        if (fuzz_one_in(f, 50))
            out[n + fuzz_below(f, 20)] ^= (uint8_t)fuzz_take(f, 1);
        n += WEIR_LINKD_HEAD_BYTES;
        for (uint32_t i = 0; i < h.length; i++)
            out[n++] = (uint8_t)i;
    }
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static uint8_t wire[16 << 10];
    struct fuzz_plan f = {data, n};
    bool is_server = fuzz_one_in(&f, 2), raw = fuzz_one_in(&f, 8);
    size_t cut = 1 + fuzz_below(&f, 40);
    const uint8_t *p = raw ? f.p : wire;
    size_t bytes = raw ? f.n : dress(&f, wire, sizeof wire);
    if (bytes)
        must(run(p, bytes, bytes, is_server) == run(p, bytes, cut, is_server));
    return 0;
}
