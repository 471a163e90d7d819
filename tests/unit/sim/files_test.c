/* Simulated files: a reader copies a whole file while it grows, shrinks, goes cold or fails. */
#include "loop/files.h"
#include "loop/group.h"
#include "weir/sim.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

enum { BYTES = 5000, PIECE = 700 };

static uint8_t content[2 * BYTES];

struct copy {
    struct weir_sim *sim;
    struct weir__loop_file_op op;
    struct weir_file *file;
    uint8_t got[2 * BYTES];
    uint64_t n;
    unsigned at_once, later;
    const char *path;
    void (*midway)(struct copy *c); /* once half of it is read */
    bool over;
    int64_t result;
};

static void finish(struct copy *c, int64_t result) {
    c->over = true;
    c->result = result;
    weir_file_release(c->file);
}

static bool take(struct copy *c, int64_t n) {
    if (n <= 0) {
        finish(c, n);
        return false;
    }
    c->n += (uint64_t)n;
    if (c->midway && c->n > BYTES / 2) {
        c->midway(c);
        c->midway = NULL;
    }
    return true;
}

static void read_on(struct weir_loop *l, struct copy *c) {
    for (;;) {
        struct weir_slice into = {.p = c->got + c->n, .n = PIECE};
        int rc = weir__loop_file_read(l, &c->op, c->file, c->n, into, false);
        if (rc == 0)
            return;
        c->at_once++;
        if (!take(c, rc < 0 ? rc : c->op.result))
            return;
    }
}

static void was_read(struct weir_loop *l, struct weir__loop_file_op *op, int64_t result) {
    struct copy *c = container_of(op, struct copy, op);
    c->later++;
    if (take(c, result))
        read_on(l, c);
}

static void was_opened(struct weir_loop *l, struct weir__loop_file_op *op, int64_t result) {
    struct copy *c = container_of(op, struct copy, op);
    c->file = op->opened;
    if (result < 0) {
        finish(c, result);
        return;
    }
    assert_int_equal(op->stat.size, BYTES);
    op->done = was_read;
    read_on(l, c);
}

static void start(struct weir_loop *l, void *user) {
    struct copy *c = user;
    c->op.done = was_opened;
    assert_int_equal(weir__loop_file_open(l, &c->op, NULL, c->path, 0), 0);
}

static bool is_over(void *user) {
    return ((struct copy *)user)->over;
}

static void copy_file(struct copy *c, uint64_t seed, uint32_t cold_ppm, uint32_t eio_ppm) {
    struct weir_sim_options o = {
        .size = sizeof o, .seed = seed, .cold_ppm = cold_ppm, .file_eio_ppm = eio_ppm};
    c->sim = weir_sim_new(&o);
    c->path = c->path ? c->path : "a";
    weir_sim_file(c->sim, "a", content, BYTES);
    weir_sim_file(c->sim, "b", content, 1);
    struct weir_group *g = weir_sim_group(c->sim);
    assert_int_equal(weir_loop_post(weir_group_loop(g, 0), start, c), 0);
    assert_int_equal(weir_sim_run(c->sim, 60000, is_over, c), 1);
    weir_group_stop(g, 0);
    assert_int_equal(weir_group_join(g), 0);
    assert_int_equal(weir_sim_free(c->sim), 0);
    assert_memory_equal(c->got, content, (size_t)c->n);
}

static void hot_files_are_read_at_once(void **state) {
    struct copy c = {0};
    (void)state;
    copy_file(&c, 1, 0, 0);
    assert_true(c.result == 0 && c.n == BYTES && c.later == 0 && c.at_once > BYTES / PIECE);
}

static void cold_ones_later(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct copy c = {0};
        copy_file(&c, seed, 500000, 0);
        assert_true(c.result == 0 && c.n == BYTES && c.later > 0);
    }
}

static void grow(struct copy *c) {
    weir_sim_file(c->sim, "a", content, 2 * BYTES - PIECE);
}

static void shrink(struct copy *c) {
    weir_sim_file(c->sim, "a", content, 10);
}

static void remove_it(struct copy *c) {
    weir_sim_file(c->sim, "a", NULL, 0);
    weir_sim_file(c->sim, "a", "another", 7);
}

static void files_change_while_they_are_read(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct copy bigger = {.midway = grow}, smaller = {.midway = shrink},
                    gone = {.midway = remove_it};
        copy_file(&bigger, seed, 300000, 0);
        assert_int_equal(bigger.n, 2 * BYTES - PIECE);
        copy_file(&smaller, seed, 300000, 0);
        assert_in_range(smaller.n, BYTES / 2, BYTES / 2 + PIECE);
        copy_file(&gone, seed, 300000, 0);
        assert_int_equal(gone.n, BYTES); /* who has it open keeps it */
    }
}

static void files_fail(void **state) {
    (void)state;
    unsigned failed = 0;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct copy c = {0};
        copy_file(&c, seed, 500000, 200000);
        assert_true(c.result == 0 || c.result == WEIR_EIO);
        failed += c.result < 0;
    }
    assert_in_range(failed, 5, 49);
    struct copy none = {.path = "none"};
    copy_file(&none, 1, 0, 0);
    assert_int_equal(none.result, WEIR_ESYS(ENOENT));
}

int main(void) {
    for (unsigned i = 0; i < sizeof content; i++)
        content[i] = (uint8_t)(i * 7 + i / 256);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hot_files_are_read_at_once),
        cmocka_unit_test(cold_ones_later),
        cmocka_unit_test(files_change_while_they_are_read),
        cmocka_unit_test(files_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
