/* Sends and closes from other threads: each thread's order holds. */
#include "suite/suite.h"
#include <pthread.h>
#include <string.h>

enum { PIECES = 1500, PIECE = 16, SENDERS = 2 };

struct sender {
    pthread_t thread;
    struct weir_ref to;
    uint8_t tag;
    bool close;
    _Atomic unsigned sent;
    int refused; /* the first answer below 0 */
};

/* Piece i of sender t: the tag, then i, then both again. */
static void piece_of(uint8_t *out, uint8_t tag, uint32_t i) {
    for (int k = 0; k < PIECE; k += 8) {
        out[k] = tag;
        memcpy(out + k + 1, &i, sizeof i);
        memset(out + k + 5, tag ^ 0xff, 3);
    }
}

static void *send_all(void *user) {
    struct sender *t = user;
    struct weir_mem *m = weir_mem_open("sender");
    for (uint32_t i = 0; i < PIECES && !t->refused; i++) {
        uint8_t bytes[PIECE];
        struct weir_chain c = {0};
        piece_of(bytes, t->tag, i);
        int rc = weir_chain_write(m, &c, bytes, sizeof bytes);
        if (rc == 0)
            rc = weir_send(t->to, &c);
        weir_chain_fini(&c);
        if (rc < 0)
            t->refused = rc;
        else
            atomic_fetch_add(&t->sent, 1);
    }
    if (t->close)
        (void)weir_close(t->to, WEIR_DRAIN);
    weir_mem_close(m);
    return NULL;
}

struct check {
    uint8_t have[PIECE];
    size_t n;
    uint32_t next[SENDERS];
};

static struct check check;

static int check_pieces(struct actor *a, struct weir_chain *in) {
    while (in->bytes) {
        size_t cut = PIECE - check.n < in->bytes ? PIECE - check.n : (size_t)in->bytes;
        demand(a->pair, weir_chain_read(in, 0, check.have + check.n, cut) == 0);
        weir_chain_drop(in, cut);
        check.n += cut;
        a->got += cut;
        if (check.n < PIECE)
            return 0;
        check.n = 0;
        uint8_t want[PIECE], tag = check.have[0];
        demand(a->pair, tag < SENDERS);
        piece_of(want, tag, check.next[tag]++);
        demand(a->pair, !memcmp(want, check.have, PIECE));
    }
    return 0;
}

static void start(struct sender *t, struct weir_ref to, uint8_t tag, bool close) {
    memset(t, 0, sizeof *t);
    t->to = to;
    t->tag = tag;
    t->close = close;
    pthread_create(&t->thread, NULL, send_all, t);
}

static void each_thread_keeps_its_order(struct pair *p) {
    struct actor s = {.hush_marks = true}, c = {.read = check_pieces};
    static struct sender senders[SENDERS];
    check = (struct check){0};
    link_up(p, &s, &c);
    for (uint8_t i = 0; i < SENDERS; i++)
        start(&senders[i], s.ref, i, false);
    until(p, c.got == PIECES * PIECE * SENDERS);
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(senders[i].thread, NULL);
        demand(p, senders[i].refused == 0);
    }
    close_it(&s, WEIR_DRAIN);
    expect_end(p, &s, "open; close 0", &c, "open; eof clean; close 0");
    pair_close(p);
}

static void a_close_comes_after_what_was_sent(struct pair *p) {
    struct actor s = {.hush_marks = true}, c = {.read = check_pieces};
    static struct sender sender;
    check = (struct check){0};
    link_up(p, &s, &c);
    start(&sender, s.ref, 0, true);
    until(p, s.closes && c.closes);
    pthread_join(sender.thread, NULL);
    demand(p, sender.refused == 0 && c.got == PIECES * PIECE);
    expect(&s, "open; close 0");
    expect(&c, "open; eof clean; close 0");
    pair_close(p);
}

static void a_channel_dies_under_a_sender(struct pair *p) {
    struct actor s = {.hush_marks = true}, c = {.read = check_pieces};
    static struct sender sender;
    check = (struct check){0};
    link_up(p, &s, &c);
    start(&sender, s.ref, 0, true);
    until(p, c.got > 0);
    close_it(&s, WEIR_ABORT);
    until(p, s.closes && c.closes);
    pthread_join(sender.thread, NULL);
    pair_settle(p); /* what still arrives is dropped and counted */
    demand(p, sender.refused == 0 || sender.refused == WEIR_EGONE);
    expect(&s, "open; close ECANCELLED");
    pair_close(p);
}

static void *close_it_elsewhere(void *user) {
    (void)weir_close(*(struct weir_ref *)user, WEIR_ABORT);
    return NULL;
}

static void closed_by_many_threads(struct pair *p) {
    struct actor s = {0}, c = {0};
    pthread_t threads[4];
    link_up(p, &s, &c);
    pair_settle(p);
    struct weir_ref ref = s.ref;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, close_it_elsewhere, &ref);
    until(p, s.closes && c.closes);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    pair_settle(p);
    expect(&s, "open; close ECANCELLED");
    expect(&c, "open; close ERESET");
    pair_close(p);
}

const struct suite_case suite_threads[] = {
    {"threads.each_keeps_its_order", each_thread_keeps_its_order, REAL_ONLY, {0}},
    {"threads.close_after_sends", a_close_comes_after_what_was_sent, REAL_ONLY, {0}},
    {"threads.dies_under_a_sender", a_channel_dies_under_a_sender, REAL_ONLY, {0}},
    {"threads.closed_by_many", closed_by_many_threads, REAL_ONLY | RESETS, {0}},
    {0},
};
