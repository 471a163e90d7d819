/* Pipelines that change while bytes flow. */
#include "suite/suite.h"
#include <string.h>

/* --- a mask over every byte: what a security layer looks like from outside ------------------- */

enum { MASK = 0x55 };

/* A chain with every byte of in masked; empties in. */
static int masked(struct weir_ctx *c, struct weir_chain *in, struct weir_chain *out) {
    struct weir_mem *m = weir_ctx_mem(c);
    while (in->bytes) {
        size_t n = in->first->slice.n;
        uint8_t *p = weir_chain_reserve(m, out, n);
        if (!p || weir_chain_read(in, 0, p, n) < 0)
            return WEIR_ENOMEM;
        for (size_t i = 0; i < n; i++)
            p[i] ^= MASK;
        weir_chain_commit(out, n);
        weir_chain_drop(in, n);
    }
    return 0;
}

static int mask_read(struct weir_ctx *c, struct weir_chain *in) {
    struct weir_chain plain = {0};
    int rc = masked(c, in, &plain);
    return rc < 0 ? rc : weir_ctx_forward(c, &plain);
}

static int mask_write(struct weir_ctx *c, struct weir_chain *out) {
    struct weir_chain wire = {0};
    int rc = masked(c, out, &wire);
    return rc < 0 ? rc : weir_ctx_send(c, &wire);
}

static const struct weir_handler mask = {.name = "mask", .read = mask_read, .write = mask_write};

/* --- a greeter that steps aside after "GO\n" ------------------------------------------------- */

static int greeter_read(struct weir_ctx *c, struct weir_chain *in) {
    char word[3];
    if (in->bytes < sizeof word)
        return 0;
    if (weir_chain_read(in, 0, word, sizeof word) < 0 || memcmp(word, "GO\n", sizeof word) != 0)
        return WEIR_EPROTO;
    weir_chain_drop(in, sizeof word);
    int rc = weir_ctx_insert_next(c, &mask, NULL);
    if (rc == 0)
        weir_ctx_remove(c); /* what it has not taken goes to the mask */
    return rc;
}

static int greeter_open(struct weir_ctx *c, const void *config) {
    (void)config;
    weir_ctx_want(c, 3);
    return 0;
}

static const struct weir_handler greeter = {
    .name = "greeter", .open = greeter_open, .read = greeter_read};

static void say_masked(struct actor *a, const char *plain, const char *text) {
    char all[64];
    size_t n = strlen(plain);
    memcpy(all, plain, n);
    for (const char *t = text; *t; t++)
        all[n++] = (char)(*t ^ MASK);
    all[n] = 0;
    say(a, all);
}

static int answer(struct actor *a, struct weir_chain *in) {
    actor_take(a, in, in->bytes);
    if (a->got == a->goal)
        say(a, "OK");
    return 0;
}

static int unmask(struct actor *a, struct weir_chain *in) {
    struct weir_chain plain = {0};
    if (masked(a->ctx, in, &plain) < 0)
        return WEIR_ENOMEM;
    actor_take(a, &plain, plain.bytes);
    return 0;
}

static void a_layer_comes_between_in_one_write(struct pair *p) {
    struct actor s = {.front = {{&greeter, NULL}}, .n_front = 1, .read = answer, .goal = 6};
    struct actor c = {.read = unmask};
    link_up(p, &s, &c);
    say_masked(&c, "GO\n", "secret");
    until(p, c.got == 2);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 6 'secret'; eof clean; close 0", &c,
               "open; read 2 'OK'; close 0");
    pair_close(p);
}

static void a_layer_comes_between_piece_by_piece(struct pair *p) {
    struct actor s = {.front = {{&greeter, NULL}}, .n_front = 1, .read = answer, .goal = 6};
    struct actor c = {.read = unmask};
    link_up(p, &s, &c);
    for (const char *t = "GO\n"; *t; t++) {
        say(&c, (char[]){*t, 0});
        pair_settle(p);
    }
    for (const char *t = "secret"; *t; t++) {
        say_masked(&c, "", (char[]){*t, 0});
        pair_settle(p);
    }
    until(p, c.got == 2);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 6 'secret'; eof clean; close 0", &c,
               "open; read 2 'OK'; close 0");
    pair_close(p);
}

static void the_wrong_word(struct pair *p) {
    struct actor s = {.front = {{&greeter, NULL}}, .n_front = 1}, c = {0};
    link_up(p, &s, &c);
    say(&c, "NO\nsecret");
    expect_end(p, &s, "open; close EPROTO", &c, "open; eof clean; close 0");
    pair_close(p);
}

static void the_end_inside_the_greeting(struct pair *p) {
    struct actor s = {.front = {{&greeter, NULL}}, .n_front = 1}, c = {0};
    link_up(p, &s, &c);
    say(&c, "G");
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; eof unclean; close 0", &c, "open; close 0");
    pair_close(p);
}

/* --- one that counts bytes and leaves -------------------------------------------------------- */

static int toll_read(struct weir_ctx *c, struct weir_chain *in) {
    uint64_t *left = weir_ctx_state(c);
    uint64_t n = in->bytes < *left ? in->bytes : *left;
    struct weir_chain some = {0};
    int rc = weir_chain_move(weir_ctx_mem(c), &some, in, n);
    *left -= n;
    if (rc == 0 && n)
        rc = weir_ctx_forward(c, &some);
    if (rc == 0 && *left == 0)
        weir_ctx_remove(c);
    return rc;
}

static int toll_open(struct weir_ctx *c, const void *config) {
    *(uint64_t *)weir_ctx_state(c) = config ? *(const uint64_t *)config : 100000;
    return 0;
}

static const struct weir_handler toll = {
    .name = "toll", .state_size = sizeof(uint64_t), .open = toll_open, .read = toll_read};

static void a_handler_leaves_in_mid_stream(struct pair *p) {
    struct actor s = {.front = {{&toll, NULL}}, .n_front = 1, .pattern = true};
    struct actor c = {.hush_marks = true};
    link_up(p, &s, &c);
    demand(p, pour(&c, 400000) == 0);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 400000 ok; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static int only_when_allowed(struct actor *a, struct weir_chain *in) {
    if (a->goal)
        actor_take(a, in, in->bytes);
    return 0;
}

/* What it had passed on lies untouched when it leaves: what it had not comes behind that. */
static void a_handler_leaves_before_an_idle_one(struct pair *p) {
    static const uint64_t ten = 10;
    struct actor s = {.front = {{&toll, &ten}}, .n_front = 1, .pattern = true};
    struct actor c = {0};
    s.read = only_when_allowed;
    link_up(p, &s, &c);
    demand(p, pour(&c, 50000) == 0);
    close_it(&c, WEIR_DRAIN);
    until(p, counters_of(&s).leftover > 0);
    pair_settle(p);
    s.goal = 1;
    wake_it(&s);
    expect_end(p, &s, "open; read 50000 ok; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static void two_leave_one_after_the_other(struct pair *p) {
    struct actor s = {.front = {{&toll, NULL}, {&toll, NULL}}, .n_front = 2, .pattern = true};
    struct actor c = {.hush_marks = true};
    link_up(p, &s, &c);
    demand(p, pour(&c, 400000) == 0);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 400000 ok; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

/* --- filters that stay ----------------------------------------------------------------------- */

static void masks_on_both_ends(struct pair *p) {
    struct actor s = {.front = {{&mask, NULL}}, .n_front = 1, .pattern = true, .hush_marks = true};
    struct actor c = {.front = {{&mask, NULL}}, .n_front = 1, .pattern = true, .hush_marks = true};
    c.limits.read_while_full = s.limits.read_while_full = true;
    link_up(p, &s, &c);
    demand(p, pour(&s, 300000) == 0 && pour(&c, 300000) == 0);
    until(p, s.got == 300000 && c.got == 300000);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 300000 ok; eof clean; close 0", &c,
               "open; read 300000 ok; close 0");
    pair_close(p);
}

static void two_masks_are_none(struct pair *p) {
    struct actor s = {.front = {{&mask, NULL}, {&mask, NULL}}, .n_front = 2}, c = {0};
    link_up(p, &s, &c);
    say(&c, "plain");
    until(p, s.got == 5);
    say(&s, "text");
    until(p, c.got == 4);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 5 'plain'; eof clean; close 0", &c,
               "open; read 4 'text'; close 0");
    pair_close(p);
}

/* --- inserting while bytes flow -------------------------------------------------------------- */

static int refusing_open(struct weir_ctx *c, const void *config) {
    (void)c, (void)config;
    return WEIR_ENOTSUP;
}

static const struct weir_handler refusing = {.name = "refusing", .open = refusing_open};

static int insert_refused(struct actor *a, struct weir_chain *in) {
    actor_take(a, in, in->bytes);
    demand(a->pair, weir_ctx_insert_next(a->ctx, &refusing, NULL) == WEIR_ENOTSUP);
    return 0;
}

static void one_that_does_not_want_in(struct pair *p) {
    struct actor s = {.read = insert_refused}, c = {0};
    link_up(p, &s, &c);
    say(&c, "a");
    until(p, s.got == 1);
    say(&c, "b");
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 2 'ab'; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static int mask_after_first(struct weir_ctx *c, struct weir_chain *in) {
    if (!*(bool *)weir_ctx_state(c)) {
        *(bool *)weir_ctx_state(c) = true;
        int rc = weir_ctx_insert_next(c, &mask, NULL);
        if (rc == 0)
            rc = weir_ctx_insert_next(c, &mask, NULL);
        if (rc < 0)
            return rc;
    }
    return weir_ctx_forward(c, in);
}

static const struct weir_handler widening = {
    .name = "widening", .state_size = sizeof(bool), .read = mask_after_first};

static void two_come_in_while_bytes_flow(struct pair *p) {
    struct actor s = {.front = {{&widening, NULL}}, .n_front = 1, .pattern = true};
    struct actor c = {.hush_marks = true};
    link_up(p, &s, &c);
    demand(p, pour(&c, 200000) == 0);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 200000 ok; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

const struct suite_case suite_pipeline[] = {
    {"pipeline.layer_in_one_write", a_layer_comes_between_in_one_write, ANYWHERE, {0}},
    {"pipeline.layer_piece_by_piece", a_layer_comes_between_piece_by_piece, ANYWHERE, {0}},
    {"pipeline.wrong_word", the_wrong_word, ANYWHERE, {0}},
    {"pipeline.end_inside_greeting", the_end_inside_the_greeting, ANYWHERE, {0}},
    {"pipeline.leaves_in_mid_stream", a_handler_leaves_in_mid_stream, ANYWHERE, {0}},
    {"pipeline.leaves_before_an_idle_one", a_handler_leaves_before_an_idle_one, ANYWHERE, {0}},
    {"pipeline.two_leave", two_leave_one_after_the_other, ANYWHERE, {0}},
    {"pipeline.masks_on_both_ends", masks_on_both_ends, ANYWHERE, WIDE_NET},
    {"pipeline.two_masks", two_masks_are_none, ANYWHERE, {0}},
    {"pipeline.insert_refused", one_that_does_not_want_in, ANYWHERE, {0}},
    {"pipeline.insert_while_reading", two_come_in_while_bytes_flow, ANYWHERE, {0}},
    {0},
};
