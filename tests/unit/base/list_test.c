#include "base/list.h"
#include "base/rng.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

enum { N = 12 };

struct item {
    struct weir__base_link link;
    struct weir__base_fifo_link one;
};

static struct item items[N];

static size_t index_of(struct weir__base_link *l) {
    return (size_t)(container_of(l, struct item, link) - items);
}

static void same(const struct weir__base_list *l, const size_t *model, size_t n) {
    size_t at = 0;
    weir__base_list_each(link, l) {
        assert_true(at < n);
        assert_int_equal(index_of(link), model[at]);
        assert_ptr_equal(link->next->prev, link);
        at++;
    }
    assert_int_equal(at, n);
    assert_int_equal(weir__base_list_empty(l), n == 0);
}

static void ring_follows_a_plain_array(void **state) {
    (void)state;
    struct weir__base_rng r;
    struct weir__base_list l;
    size_t model[N], n = 0;
    weir__base_rng_seed(&r, 3);
    weir__base_list_init(&l);
    memset(items, 0, sizeof items);
    for (int step = 0; step < 20000; step++) {
        size_t i = weir__base_rng_below(&r, N), at = 0;
        struct weir__base_link *link = &items[i].link;
        while (at < n && model[at] != i)
            at++;
        assert_int_equal(weir__base_linked(link), at < n);
        if (at < n) {
            weir__base_list_remove(link);
            memmove(model + at, model + at + 1, (--n - at) * sizeof *model);
        } else if (weir__base_rng_below(&r, 2)) {
            weir__base_list_push_back(&l, link);
            model[n++] = i;
        } else {
            weir__base_list_push_front(&l, link);
            memmove(model + 1, model, n++ * sizeof *model);
            model[0] = i;
        }
        if (n && weir__base_rng_below(&r, 8) == 0) {
            assert_int_equal(index_of(weir__base_list_pop_front(&l)), model[0]);
            memmove(model, model + 1, --n * sizeof *model);
        }
        same(&l, model, n);
    }
}

static void append_moves_everything(void **state) {
    (void)state;
    for (size_t cut = 0; cut <= 4; cut++) {
        struct weir__base_list a, b;
        const size_t model[] = {0, 1, 2, 3};
        memset(items, 0, sizeof items);
        weir__base_list_init(&a);
        weir__base_list_init(&b);
        for (size_t i = 0; i < 4; i++)
            weir__base_list_push_back(i < cut ? &a : &b, &items[i].link);
        weir__base_list_append(&a, &b);
        same(&a, model, 4);
        same(&b, model, 0);
        assert_null(weir__base_list_pop_front(&b));
    }
}

static void each_may_remove_the_visited(void **state) {
    (void)state;
    struct weir__base_list l;
    size_t n = 0;
    memset(items, 0, sizeof items);
    weir__base_list_init(&l);
    for (size_t i = 0; i < N; i++)
        weir__base_list_push_back(&l, &items[i].link);
    weir__base_list_each(link, &l) {
        if (index_of(link) % 2)
            weir__base_list_remove(link);
        n++;
    }
    assert_int_equal(n, N);
    const size_t left[] = {0, 2, 4, 6, 8, 10};
    same(&l, left, 6);
}

static void fifo_keeps_order(void **state) {
    (void)state;
    for (size_t cut = 0; cut <= N; cut++) {
        struct weir__base_fifo a = {0}, b = {0};
        for (size_t i = 0; i < N; i++)
            weir__base_fifo_push(i < cut ? &a : &b, &items[i].one);
        weir__base_fifo_append(&a, &b);
        assert_true(weir__base_fifo_empty(&b));
        for (size_t i = 0; i < N; i++)
            assert_ptr_equal(weir__base_fifo_pop(&a), &items[i].one);
        assert_null(weir__base_fifo_pop(&a));
        assert_true(weir__base_fifo_empty(&a));
        weir__base_fifo_push(&a, &items[0].one);
        assert_ptr_equal(weir__base_fifo_pop(&a), &items[0].one);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_follows_a_plain_array),
        cmocka_unit_test(append_moves_everything),
        cmocka_unit_test(each_may_remove_the_visited),
        cmocka_unit_test(fifo_keeps_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
