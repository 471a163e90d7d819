/* Any bytes, any format, any cuts: what is told does not depend on the cuts, and nothing is lost or
 * kept. */
#include "fuzz/fuzz.h"
#include "weir/frame.h"

enum { FRAMES_MAX = 4096 };

struct told { /* a digest of the events in order */
    uint64_t hash;
    unsigned frames, too_big;
    bool broken;
};

static void mix(struct told *t, const void *data, size_t n) {
    const uint8_t *p = data;
    for (size_t i = 0; i < n; i++)
        t->hash = (t->hash ^ p[i]) * 0x100000001b3u;
}

static void plan_format(struct fuzz_plan *f, struct weir_frame_options *o, char delimiter[4]) {
    static const uint8_t widths[] = {1, 2, 3, 4, 8};
    o->size = sizeof *o;
    o->kind = (enum weir_frame_kind)fuzz_below(f, 4);
    o->frame_max = 1 + fuzz_below(f, 100);
    o->fail_late = fuzz_one_in(f, 2);
    o->offset = fuzz_below(f, 5);
    o->width = widths[fuzz_below(f, 5)];
    o->adjust = (int64_t)fuzz_below(f, 16) - 8;
    o->strip = fuzz_below(f, 12);
    o->little_endian = fuzz_one_in(f, 2);
    o->keep_cr = fuzz_one_in(f, 2);
    o->varint_bits = fuzz_one_in(f, 2) ? 64 : 32;
    for (int i = 0; i < 4; i++)
        delimiter[i] = (char)('a' + fuzz_below(f, 2));
    o->delimiter = (struct weir_str){delimiter, 1 + fuzz_below(f, 4)};
}

static bool step(const struct weir_frame_format *f, struct weir_frame_decoder *d,
                 struct weir_mem *m, struct weir_chain *in, bool slices, struct told *t) {
    struct weir_slice s = {0};
    struct weir_chain c = {0};
    int rc = slices ? weir_frame_next_slice(f, d, m, in, &s) : weir_frame_next(f, d, m, in, &c);
    uint64_t n = slices ? s.n : c.bytes;
    if (rc == 1) {
        t->frames++;
        mix(t, &n, sizeof n);
        mix(t, s.p, s.n);
        for (struct weir_part *p = c.first; p; p = p->next)
            mix(t, p->slice.p, p->slice.n);
    } else if (rc == WEIR_ETOOBIG) {
        t->too_big++;
        mix(t, "!", 1);
    } else if (rc < 0) {
        must(rc == WEIR_EPROTO);
        t->broken = true;
    }
    weir_slice_release(&s);
    weir_chain_fini(&c);
    return rc && !t->broken;
}

static struct told run(const struct weir_frame_format *f, const uint8_t *p, size_t n, size_t cut,
                       bool slices) {
    struct weir_mem *m = weir_mem_open("fuzz");
    struct weir_frame_decoder d = {0};
    struct weir_chain in = {0};
    struct told t = {0};
    for (size_t at = 0; at < n && !t.broken; at += cut) {
        struct weir_slice s;
        must(weir_slice_copy(m, p + at, cut < n - at ? cut : n - at, &s) == 0);
        must(weir_chain_add(m, &in, &s) == 0);
        while (t.frames + t.too_big < FRAMES_MAX && step(f, &d, m, &in, slices, &t))
            ;
        must(t.broken || t.frames + t.too_big >= FRAMES_MAX || d.need > in.bytes);
    }
    weir_chain_fini(&in);
    must(weir_mem_live(m) == 0);
    weir_mem_close(m);
    return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct fuzz_plan plan = {data, n};
    struct weir_frame_options o = {0};
    struct weir_frame_format f;
    char delimiter[4];
    plan_format(&plan, &o, delimiter);
    size_t cut = 1 + fuzz_below(&plan, 7);
    if (weir_frame_format_init(&f, &o, NULL) < 0 || !plan.n)
        return 0;
    struct told whole = run(&f, plan.p, plan.n, plan.n, false);
    struct told cuts = run(&f, plan.p, plan.n, cut, true);
    must(whole.hash == cuts.hash && whole.broken == cuts.broken);
    return 0;
}
