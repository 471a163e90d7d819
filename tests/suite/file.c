/* File regions: whole, cut short, between bytes. */
#include "suite/suite.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { KIB = 1024 };

/* A file that says it has `size` bytes and holds `there` of them, byte i being pattern byte i. */
struct source {
    struct weir_file *file;
    uint8_t *bytes;
};

static void file_open(struct pair *p, struct source *f, uint64_t size, uint64_t there) {
    f->bytes = malloc(there);
    pattern_fill(f->bytes, 0, there);
    int fd = memfd_create("region", MFD_CLOEXEC);
    demand(p, fd >= 0 && write(fd, f->bytes, there) == (ssize_t)there);
    pair_act_as(p, CLIENT);
    f->file = weir_file_new(p->side[CLIENT].mem, fd, size);
    demand(p, f->file);
    if (p->net)
        weir__iosim_file_content(p->net, f->file, f->bytes, there);
    weir__loop_enter(NULL);
}

static void file_close(struct pair *p, struct source *f) {
    if (p->net)
        weir__iosim_file_forget(p->net, f->file);
    pair_act_as(p, CLIENT);
    weir_file_release(f->file);
    weir__loop_enter(NULL);
    free(f->bytes);
}

static void add_region(struct actor *a, struct weir_chain *c, struct source *f, uint64_t off,
                       uint64_t n) {
    demand(a->pair, weir_chain_add_file(a->pair->side[CLIENT].mem, c, f->file, off, n) == 0);
}

static void add_bytes(struct actor *a, struct weir_chain *c, uint64_t at, size_t n) {
    uint8_t *p = weir_chain_reserve(a->pair->side[CLIENT].mem, c, n);
    demand(a->pair, p);
    pattern_fill(p, at, n);
    weir_chain_commit(c, n);
}

static int send_region(struct actor *a, struct source *f, uint64_t off, uint64_t n) {
    struct weir_chain c = {0};
    pair_act_as(a->pair, CLIENT);
    add_region(a, &c, f, off, n);
    int rc = send_chain(a, &c);
    weir__loop_enter(NULL);
    return rc;
}

static void whole(struct pair *p) {
    struct actor s = {.pattern = true}, c = {.hush_marks = true};
    struct source f;
    file_open(p, &f, 1500 * KIB, 1500 * KIB);
    link_up(p, &s, &c);
    demand(p, send_region(&c, &f, 0, 1500 * KIB) == 0);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 1536000 ok; eof clean; close 0", &c, "open; close 0");
    file_close(p, &f);
    pair_close(p);
}

static void in_pieces(struct pair *p) {
    struct actor s = {.pattern = true}, c = {.hush_marks = true};
    struct source f;
    file_open(p, &f, 300 * KIB, 300 * KIB);
    link_up(p, &s, &c);
    for (uint64_t off = 0; off < 300 * KIB; off += 10 * KIB)
        demand(p, send_region(&c, &f, off, 10 * KIB) == 0);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 307200 ok; eof clean; close 0", &c, "open; close 0");
    file_close(p, &f);
    pair_close(p);
}

static void between_bytes(struct pair *p) {
    struct actor s = {.pattern = true}, c = {.hush_marks = true};
    struct source f;
    file_open(p, &f, 200 * KIB, 200 * KIB);
    link_up(p, &s, &c);
    for (int i = 0; i < 3; i++) { /* one chain: head, region, middle, region, tail */
        struct weir_chain out = {0};
        uint64_t at = (uint64_t)i * 60 * KIB;
        pair_act_as(p, CLIENT);
        add_bytes(&c, &out, at, 1000);
        add_region(&c, &out, &f, at + 1000, 30000);
        add_bytes(&c, &out, at + 31000, 440);
        add_region(&c, &out, &f, at + 31440, 29000);
        add_bytes(&c, &out, at + 60440, 1000);
        demand(p, send_chain(&c, &out) == 0);
        weir__loop_enter(NULL);
    }
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 184320 ok; eof clean; close 0", &c, "open; close 0");
    file_close(p, &f);
    pair_close(p);
}

static void shorter_than_it_said(struct pair *p) {
    struct actor s = {.pattern = true}, c = {.hush_marks = true};
    struct source f;
    file_open(p, &f, 500 * KIB, 100 * KIB);
    link_up(p, &s, &c);
    demand(p, send_region(&c, &f, 0, 500 * KIB) == 0);
    until(p, c.closes && s.closes);
    expect(&c, "open; close ETRUNCATED");
    demand(p, s.why == WEIR_ERESET && s.eofs == 0 && s.got <= 100 * KIB);
    file_close(p, &f);
    pair_close(p);
}

static void counts_in_the_marks(struct pair *p) {
    struct actor s = {.pattern = true};
    struct actor c = {.limits = {.high_bytes = 256 * KIB, .batch_bytes = 64 * KIB}};
    struct source f;
    file_open(p, &f, 1024 * KIB, 1024 * KIB);
    link_up(p, &s, &c);
    demand(p, send_region(&c, &f, 0, 512 * KIB) == 0);
    demand(p, room_of(&c) <= 0 && counters_of(&c).queued == 512 * KIB);
    demand(p, counters_of(&c).held == 0);
    demand(p, send_region(&c, &f, 512 * KIB, 512 * KIB) == 0);
    until(p, s.got == 1024 * KIB && c.writables);
    pair_settle(p);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 1048576 ok; eof clean; close 0", &c,
               "open; full; writable; close 0");
    file_close(p, &f);
    pair_close(p);
}

static int zero_credit(struct actor *a) {
    credit_it(a, 0);
    return 0;
}

static void aborted_in_flight(struct pair *p) {
    struct actor s = {.open = zero_credit, .pattern = true}, c = {.hush_marks = true};
    struct source f;
    file_open(p, &f, 16 * KIB * KIB, 16 * KIB * KIB);
    link_up(p, &s, &c);
    demand(p, send_region(&c, &f, 0, 16 * KIB * KIB) == 0);
    pair_settle(p);
    close_it(&c, WEIR_ABORT);
    until(p, c.closes);
    expect(&c, "open; close ECANCELLED");
    credit_it(&s, -1);
    until(p, s.closes);
    demand(p, s.why == WEIR_ERESET);
    file_close(p, &f);
    pair_close(p);
}

static void to_a_slow_reader(struct pair *p) {
    struct actor s = {.pattern = true}, c = {.hush_marks = true};
    struct source f;
    file_open(p, &f, 12 * KIB * KIB, 12 * KIB * KIB);
    link_up(p, &s, &c);
    demand(p, send_region(&c, &f, 0, 12 * KIB * KIB) == 0);
    close_it(&c, WEIR_DRAIN);
    for (uint64_t got = 0; got < 12 * KIB * KIB; got = s.got) {
        credit_it(&s, KIB * KIB);
        until(p, s.got == got + KIB * KIB);
    }
    demand(p, c.max_held == 0);
    credit_it(&s, -1);
    expect_end(p, &s, "open; read 12582912 ok; eof clean; close 0", &c, "open; close 0");
    file_close(p, &f);
    pair_close(p);
}

const struct suite_case suite_file[] = {
    {"file.whole", whole, ANYWHERE, WIDE_NET},
    {"file.in_pieces", in_pieces, ANYWHERE, WIDE_NET},
    {"file.between_bytes", between_bytes, ANYWHERE, WIDE_NET},
    {"file.truncated", shorter_than_it_said, RESETS, WIDE_NET},
    {"file.counts_in_the_marks", counts_in_the_marks, ANYWHERE, WIDE_NET},
    {"file.aborted_in_flight", aborted_in_flight, RESETS, WIDE_NET},
    {"file.slow_reader", to_a_slow_reader, ANYWHERE, WIDE_NET},
    {0},
};
