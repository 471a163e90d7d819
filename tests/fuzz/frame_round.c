/* Whatever the encoder accepts, the decoder gives back, for every format and every cut. */
#include "fuzz/fuzz.h"
#include "weir/frame.h"

static bool plan_format(struct fuzz_plan *f, struct weir_frame_format *out) {
    static const uint8_t widths[] = {1, 2, 3, 4, 8};
    struct weir_frame_options o = {.size = sizeof o,
                                   .kind = (enum weir_frame_kind)fuzz_below(f, 4),
                                   .frame_max = 1 + fuzz_below(f, 200),
                                   .offset = fuzz_below(f, 4),
                                   .width = widths[fuzz_below(f, 5)],
                                   .adjust = (int64_t)fuzz_below(f, 8) - 4,
                                   .little_endian = fuzz_one_in(f, 2),
                                   .write_crlf = fuzz_one_in(f, 2),
                                   .varint_bits = fuzz_one_in(f, 2) ? 64 : 32};
    char delimiter[3] = {'a', (char)('a' + fuzz_below(f, 2)), 'a'};
    o.delimiter = (struct weir_str){delimiter, 1 + fuzz_below(f, 3)};
    return weir_frame_format_init(out, &o, NULL) == 0;
}

/* What must come back: the payload, and for a length field the field itself in its place. */
static void expect(const struct weir_frame_format *f, struct weir_mem *m,
                   const struct weir_slice *payload, const struct weir_chain *wire,
                   struct weir_chain *out) {
    uint32_t at = f->o.offset;
    uint8_t field[8];
    if (f->o.kind != WEIR_FRAME_LENGTH) {
        must(weir_chain_write(m, out, payload->p, payload->n) == 0);
        return;
    }
    must(weir_chain_read(wire, wire->bytes - payload->n - f->o.width + at, field, f->o.width) == 0);
    must(weir_chain_write(m, out, payload->p, at) == 0);
    must(weir_chain_write(m, out, field, f->o.width) == 0);
    if (payload->n > at)
        must(weir_chain_write(m, out, payload->p + at, payload->n - at) == 0);
}

static void same(const struct weir_chain *a, const struct weir_chain *b) {
    uint8_t x, y;
    must(a->bytes == b->bytes);
    for (uint64_t i = 0; i < a->bytes; i++) {
        must(weir_chain_read(a, i, &x, 1) == 0 && weir_chain_read(b, i, &y, 1) == 0);
        must(x == y);
    }
}

static void round_trip(struct fuzz_plan *plan, const struct weir_frame_format *f,
                       struct weir_mem *m) {
    struct weir_chain wire = {0}, want = {0}, in = {0}, got = {0};
    struct weir_frame_decoder d = {0};
    unsigned frames = 0, back = 0;
    while (plan->n && frames < 20) {
        struct weir_slice s, kept;
        struct weir_chain c = {0};
        size_t n = fuzz_below(plan, 60);
        n = n < plan->n ? n : plan->n;
        must(weir_slice_copy(m, plan->p, n, &s) == 0);
        plan->p += n;
        plan->n -= n;
        kept = weir_slice_ref(s, 0, s.n);
        must(weir_chain_add(m, &c, &s) == 0);
        int rc = weir_frame_write(f, m, &c, &wire);
        must(rc == 0 || rc == WEIR_EINVAL || rc == WEIR_ETOOBIG);
        if (rc == 0) {
            expect(f, m, &kept, &wire, &want);
            frames++;
        }
        weir_slice_release(&kept);
        weir_chain_fini(&c);
    }
    while (wire.bytes) {
        uint64_t n = 1 + fuzz_below(plan, 50);
        must(weir_chain_move(m, &in, &wire, n < wire.bytes ? n : wire.bytes) == 0);
        int rc;
        while ((rc = weir_frame_next(f, &d, m, &in, &got)) == 1)
            back++;
        must(rc == 0);
    }
    must(frames == back && !in.bytes);
    same(&got, &want);
    weir_chain_fini(&got);
    weir_chain_fini(&want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct fuzz_plan plan = {data, n};
    struct weir_frame_format f;
    struct weir_mem *m = weir_mem_open("fuzz");
    if (plan_format(&plan, &f))
        round_trip(&plan, &f, m);
    must(weir_mem_live(m) == 0);
    weir_mem_close(m);
    return 0;
}
