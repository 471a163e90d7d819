#include "mem/pool.h"
#include "base/rng.h"
#include "os/fault.h"

#include <pthread.h>
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

static jmp_buf broke;

WEIR_UNUSED static void jump_away(const char *message) {
    (void)message;
    longjmp(broke, 1);
}

/* True when `statement` ends in a panic. */
#define BREAKS(statement)                \
    ({                                   \
        volatile bool broke_ = true;     \
        weir__base_on_panic = jump_away; \
        if (setjmp(broke) == 0) {        \
            statement;                   \
            broke_ = false;              \
        }                                \
        weir__base_on_panic = NULL;      \
        broke_;                          \
    })

static struct weir_mem *enter_new(void) {
    struct weir_mem *m = weir__mem_pool_new("test");
    assert_non_null(m);
    weir__mem_enter(m);
    return m;
}

static void payloads_of_whole_kibibytes_fit_exactly(void **state) {
    (void)state;
    struct weir_mem *m = enter_new();
    for (size_t n = 1024; n <= 65536; n *= 2) {
        struct weir_buf *b = weir__mem_buf_new(m, n);
        assert_int_equal(b->capacity, n);
        assert_int_equal((uintptr_t)b->data % 16, 0);
        weir__mem_buf_release(b);
    }
    assert_int_equal(weir__mem_pool_free(m), 0);
}

static void blocks_are_reused_last_in_first_out(void **state) {
    (void)state;
    struct weir_mem *m = enter_new();
    void *a = weir_mem_new(m, 100), *b = weir_mem_new(m, 100);
    weir_mem_free(a);
    weir_mem_free(b);
    assert_ptr_equal(weir_mem_new(m, 97), b);
    assert_ptr_equal(weir_mem_new(m, 112), a);
    weir_mem_free(a);
    weir_mem_free(b);
    assert_int_equal(weir__mem_pool_free(m), 0);
}

static void objects_of_every_size_are_zeroed_and_counted(void **state) {
    (void)state;
    enum { N = 600 };
    static uint8_t *p[N];
    static const uint8_t zero[N * N];
    struct weir_mem *m = enter_new();
    for (int round = 0; round < 2; round++) {
        uint64_t bytes = 0;
        for (size_t i = 0; i < N; i++) {
            p[i] = weir_mem_new(m, i * i);
            assert_memory_equal(p[i], zero, i * i);
            memset(p[i], (int)i, i * i);
            bytes += i * i;
        }
        struct weir__mem_stats st;
        weir__mem_stats(m, &st);
        assert_int_equal(st.blocks, N);
        assert_true(st.live_bytes >= bytes && st.live_bytes == weir_mem_live(m));
        assert_true(st.chunk_bytes + st.huge_bytes >= st.live_bytes);
        weir__mem_invariants(m);
        for (size_t i = 0; i < N; i++) {
            for (size_t k = 0; k < i * i; k += 97)
                assert_int_equal(p[i][k], (uint8_t)i);
            weir_mem_free(p[i]);
        }
        assert_int_equal(weir_mem_live(m), 0);
    }
    weir_mem_free(NULL);
    assert_int_equal(weir__mem_pool_free(m), 0);
}

static void sizes_that_wrap_are_refused(void **state) {
    (void)state;
    struct weir_mem *m = enter_new();
    struct weir_slice s;
    for (size_t n = SIZE_MAX; n > SIZE_MAX - 100; n--) {
        assert_null(weir_mem_new(m, n));
        assert_int_equal(weir_slice_new(m, n, &s), WEIR_ENOMEM);
    }
    assert_null(weir_mem_new(m, PTRDIFF_MAX));
    assert_int_equal(weir__mem_pool_free(m), 0);
}

static void over_budget_is_null_and_counted(void **state) {
    (void)state;
    struct weir_mem *m = enter_new();
    weir__mem_budget_set(m, 4096);
    void *p[64];
    unsigned n = 0;
    while (n < 64 && (p[n] = weir_mem_new(m, 240)))
        n++;
    assert_int_equal(n, 16);
    struct weir__mem_stats st;
    weir__mem_stats(m, &st);
    assert_int_equal(st.failures, 1);
    assert_int_equal(st.live_bytes, 4096);
    assert_null(weir_mem_new(m, 1 << 20));
    weir_mem_free(p[--n]);
    p[n] = weir_mem_new(m, 240);
    assert_non_null(p[n++]);
    weir__mem_budget_set(m, 8192);
    void *more = weir_mem_new(m, 240);
    assert_non_null(more);
    weir_mem_free(more);
    while (n > 0)
        weir_mem_free(p[--n]);
    assert_int_equal(weir__mem_pool_free(m), 0);
}

static void no_pages_from_the_system_is_null(void **state) {
    (void)state;
    struct weir_mem *m = enter_new();
    struct weir__os_fault fault = {.kind = WEIR__OS_MAP, .nth = 1, .error = 12};
    struct weir__os_fault *before = weir__os_fault_set(&fault);
    assert_null(weir_mem_new(m, 10));
    assert_int_equal(fault.hit, 1);
    void *p = weir_mem_new(m, 10);
    weir__os_fault_set(before);
    assert_non_null(p);
    weir_mem_free(p);
    assert_int_equal(weir__mem_pool_free(m), 0);
}

static void the_nth_allocation_fails_once_or_from_then_on(void **state) {
    (void)state;
    struct weir_mem *m = enter_new();
    for (int warm = 0; warm < 2; warm++) {
        for (uint64_t nth = 1; nth <= 4; nth++) {
            for (int persist = 0; persist < 2; persist++) {
                weir__mem_fail(m, nth, persist);
                for (uint64_t i = 1; i <= 5; i++) {
                    void *p = weir_mem_new(m, 8);
                    assert_int_equal(p == NULL, persist ? i >= nth : i == nth);
                    weir_mem_free(p);
                }
            }
        }
        weir__mem_fail(m, 0, false);
        weir_mem_free(weir_mem_new(m, 8));
    }
    struct weir__mem_stats st;
    weir__mem_stats(m, &st);
    assert_int_equal(st.failures, 2 * (4 + 5 + 4 + 3 + 2));
    assert_int_equal(weir__mem_pool_free(m), 0);
}

static void enter_says_who_ran_before(void **state) {
    (void)state;
    weir__mem_enter(NULL);
    struct weir_mem *a = weir_mem_open("a"), *b = weir_mem_open("b");
    assert_ptr_equal(weir__mem_current, a);
    assert_ptr_equal(weir__mem_enter(b), a);
    /* An opened pool may be used by its thread whichever runs. */
    struct weir_slice s;
    assert_int_equal(weir_slice_new(a, 10, &s), 0);
    weir_slice_release(&s);
    assert_int_equal(weir_mem_live(a), 0);
    assert_ptr_equal(weir__mem_enter(a), b);
    weir_mem_close(b);
    assert_ptr_equal(weir__mem_current, a);
    weir_mem_close(a);
    assert_null(weir__mem_current);
    weir_mem_close(NULL);
}

static void count_live(enum weir__mem_kind kind, size_t bytes, const void *site, void *user) {
    assert_int_equal(kind, WEIR__MEM_OBJECT);
    assert_true(bytes >= 32 && site != NULL);
    ++*(unsigned *)user;
}

/* In checked builds a leak is the end of the program, unless somebody wants to hear of it. */
static void may_leak(struct weir_mem *m) {
    struct weir_mem_debug o = {.size = sizeof o};
    weir__mem_debug_set(m, &o);
}

static void leaks_are_returned_and_listed(void **state) {
    (void)state;
    struct weir_mem *m = enter_new();
    may_leak(m);
    void *a = weir_mem_new(m, 16), *b = weir_mem_new(m, 1 << 20);
    unsigned seen = 0;
    assert_int_equal(weir__mem_dump(m, count_live, &seen), 2);
#ifdef WEIR_CHECKED
    assert_int_equal(seen, 2);
#else
    assert_int_equal(seen, 0);
#endif
    assert_int_equal(weir__mem_pool_free(m), 2);
    assert_null(weir__mem_current);
    /* The storage lives until the last one goes. */
    memset(a, 1, 16);
    weir_mem_free(a);
    memset(b, 1, 1 << 20);
    weir_mem_free(b);
}

static void a_second_free_is_caught(void **state) {
    (void)state;
#ifdef WEIR__MEM_ASAN
    skip();
#else
    struct weir_mem *m = enter_new();
    void *a = weir_mem_new(m, 64);
    weir_mem_free(a);
    assert_true(BREAKS(weir_mem_free(a)));
    assert_int_equal(weir__mem_pool_free(m), 0);
#endif
}

static void a_write_after_free_is_caught(void **state) {
    (void)state;
#if defined(WEIR__MEM_ASAN) || !defined(WEIR_CHECKED)
    skip();
#else
    struct weir_mem *m = enter_new();
    volatile uint8_t *a = weir_mem_new(m, 64);
    weir_mem_free((void *)a);
    uint8_t was = a[20];
    a[20] = 1;
    assert_true(BREAKS(weir_mem_new(m, 64)));
    /* The panic left the block off the list: nothing is handed out twice. */
    a[20] = was;
    assert_int_equal(weir__mem_pool_free(m), 0);
#endif
}

static void unshared_things_of_another_pool_are_caught(void **state) {
    (void)state;
#ifndef WEIR_CHECKED
    skip();
#else
    struct weir_mem *a = enter_new(), *b = enter_new();
    struct weir_slice s, copy;
    assert_true(BREAKS(weir_slice_new(a, 10, &s)));
    weir__mem_enter(a);
    assert_int_equal(weir_slice_new(a, 10, &s), 0);
    copy = s;
    weir__mem_enter(b);
    assert_true(BREAKS(weir_slice_release(&copy)));
    assert_true(BREAKS(weir_slice_ref(s, 0, 1)));
    weir__mem_enter(a);
    weir_slice_release(&s);
    assert_int_equal(weir__mem_pool_free(a), 0);
    weir__mem_enter(b);
    assert_int_equal(weir__mem_pool_free(b), 0);
#endif
}

enum { THREADS = 3, BATCH = 16 };

struct bag {
    struct weir_slice slices[THREADS][BATCH];
    struct weir_chain chains[THREADS];
    void *objects[THREADS][BATCH];
    unsigned sum[THREADS];
};

struct worker {
    struct bag *bag;
    unsigned me;
};

static void *release_all(void *arg) {
    struct worker *w = arg;
    unsigned sum = 0;
    for (unsigned i = 0; i < BATCH; i++) {
        sum += w->bag->slices[w->me][i].p[0];
        weir_slice_release(&w->bag->slices[w->me][i]);
        weir_mem_free(w->bag->objects[w->me][i]);
    }
    weir_chain_fini(&w->bag->chains[w->me]);
    w->bag->sum[w->me] = sum;
    return NULL;
}

/* One shared buffer with a reference for every thread, objects and chains for each. */
static void fill_bag(struct weir_mem *m, struct bag *bag, size_t n) {
    for (unsigned i = 0; i < BATCH; i++) {
        struct weir_slice s;
        assert_int_equal(weir_slice_new(m, n + i * 100, &s), 0);
        memset(s.p, 1, s.n);
        weir_slice_share(&s);
        for (unsigned t = 0; t < THREADS; t++) {
            bag->slices[t][i] = weir_slice_ref(s, 0, n);
            bag->objects[t][i] = weir_mem_new(m, n);
            assert_non_null(bag->objects[t][i]);
            struct weir_slice part = weir_slice_ref(s, 1, n - 1);
            assert_int_equal(weir_chain_add(m, &bag->chains[t], &part), 0);
        }
        weir_slice_release(&s);
    }
    for (unsigned t = 0; t < THREADS; t++)
        weir_chain_share(&bag->chains[t]);
}

static void start_all(struct bag *bag, struct worker *w, pthread_t *threads) {
    for (unsigned t = 0; t < THREADS; t++) {
        w[t] = (struct worker){.bag = bag, .me = t};
        assert_int_equal(pthread_create(&threads[t], NULL, release_all, &w[t]), 0);
    }
}

static void join_all(struct bag *bag, pthread_t *threads) {
    for (unsigned t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        assert_int_equal(bag->sum[t], BATCH);
    }
}

static void what_others_release_comes_home(void **state) {
    (void)state;
    struct weir_mem *m = enter_new();
    pthread_t threads[THREADS];
    struct worker w[THREADS];
    uint64_t chunk_bytes = 0;
    for (unsigned round = 0; round < 40; round++) {
        struct bag bag = {0};
        fill_bag(m, &bag, 50);
        start_all(&bag, w, threads);
        /* The owner goes on meanwhile, and takes home what it meets. */
        for (unsigned i = 0; i < 200; i++) {
            struct weir_slice s;
            assert_int_equal(weir_slice_new(m, 50 + i, &s), 0);
            weir_slice_release(&s);
            if (i % 16 == 0)
                weir__mem_collect(m);
        }
        join_all(&bag, threads);
        weir__mem_collect(m);
        assert_int_equal(weir_mem_live(m), 0);
        struct weir__mem_stats st;
        weir__mem_stats(m, &st);
        assert_true(round < 2 || st.chunk_bytes == chunk_bytes);
        chunk_bytes = st.chunk_bytes;
        assert_int_equal(st.foreign, (round + 1) * (BATCH + 2 * THREADS * BATCH));
    }
    assert_int_equal(weir__mem_pool_free(m), 0);
}

static void foreign_blocks_are_reused_before_new_ones_are_carved(void **state) {
    (void)state;
    struct weir_mem *m = enter_new();
    void *p[200];
    for (unsigned round = 0; round < 20000; round += 200) {
        for (unsigned i = 0; i < 200; i++)
            p[i] = weir_mem_new(m, 1000);
        weir__mem_enter(NULL);
        for (unsigned i = 0; i < 200; i++)
            weir_mem_free(p[i]);
        weir__mem_enter(m);
    }
    struct weir__mem_stats st;
    weir__mem_stats(m, &st);
    assert_int_equal(st.chunk_bytes, WEIR__MEM_CHUNK_BYTES);
    /* At the budget, what others gave back counts as free. */
    weir__mem_collect(m);
    weir__mem_budget_set(m, 1056);
    p[0] = weir_mem_new(m, 1000);
    weir__mem_enter(NULL);
    weir_mem_free(p[0]);
    weir__mem_enter(m);
    p[0] = weir_mem_new(m, 1000);
    assert_non_null(p[0]);
    weir_mem_free(p[0]);
    assert_int_equal(weir__mem_pool_free(m), 0);
}

static void a_closed_pool_lives_until_the_last_release(void **state) {
    (void)state;
    for (unsigned round = 0; round < 200; round++) {
        weir__mem_enter(NULL);
        struct weir_mem *m = weir_mem_open("closing");
        pthread_t threads[THREADS];
        struct worker w[THREADS];
        struct bag bag = {0};
        may_leak(m);
        fill_bag(m, &bag, round % 4 == 0 ? 100000 : 64);
        start_all(&bag, w, threads);
        weir_mem_close(m);
        join_all(&bag, threads);
    }
}

static void an_orphan_goes_with_its_own_threads_last_release(void **state) {
    (void)state;
    struct weir_mem *m = enter_new();
    struct weir_slice s;
    assert_int_equal(weir_slice_copy(m, "stay", 4, &s), 0);
    weir_slice_share(&s);
    struct weir_slice t = weir_slice_ref(s, 1, 2);
    assert_int_equal(weir__mem_pool_free(m), 1);
    weir_slice_release(&s);
    assert_memory_equal(t.p, "ta", 2);
    weir_slice_release(&t);
}

/* --- against a model -------------------------------------------------------------------------- */

enum { SLOTS = 200, STEPS = 3000 };

struct model {
    struct weir_mem *m;
    struct weir__base_rng rng;
    struct slot {
        struct weir_slice s;
        uint8_t *object;
        size_t n;
        uint8_t fill;
    } slots[SLOTS];
    unsigned alive;
    uint64_t refused;
};

static size_t random_size(struct model *x) {
    unsigned bits = (unsigned)weir__base_rng_below(&x->rng,
                                                   weir__base_rng_below(&x->rng, 30) ? 15 : 20);
    return 1 + weir__base_rng_below(&x->rng, (uint64_t)1 << bits);
}

static void slot_fill(struct model *x, struct slot *slot) {
    slot->n = random_size(x);
    slot->fill = (uint8_t)weir__base_rng_next(&x->rng);
    if (weir__base_rng_below(&x->rng, 2)) {
        slot->object = weir_mem_new(x->m, slot->n);
    } else if (weir_slice_new(x->m, slot->n, &slot->s) < 0) {
        slot->s = (struct weir_slice){0};
    }
    uint8_t *p = slot->object ? slot->object : slot->s.p;
    x->refused += p == NULL;
    x->alive += p != NULL;
    if (p)
        memset(p, slot->fill, slot->n);
}

static void slot_empty(struct model *x, struct slot *slot) {
    const uint8_t *p = slot->object ? slot->object : slot->s.p;
    for (size_t i = 0; i < slot->n; i += slot->n / 7 + 1)
        assert_int_equal(p[i], slot->fill);
    assert_int_equal(p[slot->n - 1], slot->fill);
    if (weir__base_rng_below(&x->rng, 8) == 0) { /* elsewhere */
        if (slot->s.buf)
            weir_slice_share(&slot->s);
        weir__mem_enter(NULL);
    }
    weir_mem_free(slot->object);
    weir_slice_release(&slot->s);
    weir__mem_enter(x->m);
    slot->object = NULL;
    x->alive--;
}

static void model_step(struct model *x) {
    struct slot *slot = &x->slots[weir__base_rng_below(&x->rng, SLOTS)];
    if (slot->object || slot->s.p)
        slot_empty(x, slot);
    else
        slot_fill(x, slot);
    switch (weir__base_rng_below(&x->rng, 200)) {
    case 0: weir__mem_trim(x->m, false); break;
    case 1: weir__mem_trim(x->m, true); break;
    case 2: weir__mem_fail(x->m, 1 + weir__base_rng_below(&x->rng, 9), false); break;
    case 3: weir__mem_fail(x->m, 0, false); break;
    case 4: weir__mem_budget_set(x->m, weir__base_rng_below(&x->rng, 1 << 22)); break;
    case 5: weir__mem_budget_set(x->m, UINT64_MAX); break;
    case 6: weir__mem_collect(x->m); break;
    default: break;
    }
    weir__mem_invariants(x->m);
}

static void model_run(const struct weir_mem_options *o, uint64_t seed) {
    static struct model x;
    memset(&x, 0, sizeof x);
    struct weir__mem_stats st;
    x.m = enter_new();
    weir__base_rng_seed(&x.rng, seed);
    assert_int_equal(weir_mem_configure(x.m, o), 0);
    for (unsigned i = 0; i < STEPS; i++)
        model_step(&x);
    weir__mem_collect(x.m);
    weir__mem_stats(x.m, &st);
    assert_int_equal(st.blocks, x.alive);
    assert_int_equal(st.failures, x.refused);
    assert_true(st.foreign > 0);
    for (unsigned i = 0; i < SLOTS; i++)
        if (x.slots[i].object || x.slots[i].s.p)
            slot_empty(&x, &x.slots[i]);
    assert_int_equal(weir__mem_pool_free(x.m), 0);
}

static void every_mode_behaves_like_a_model(void **state) {
    (void)state;
    static const struct weir_mem_debug off = {.size = sizeof off, .leaks = WEIR_MEM_LEAKS_OFF};
    static const struct weir_mem_debug sampled = {
        .size = sizeof sampled, .leaks = WEIR_MEM_LEAKS_SAMPLED, .sample_every = 7};
    static const struct weir_mem_debug hard = {
        .size = sizeof hard, .leaks = WEIR_MEM_LEAKS_FULL, .poison = true, .guard_min = 20000};
    static const struct weir_mem_debug *const debugs[] = {&off, &sampled, &hard};
    uint64_t seed = 1;
    for (enum weir_mem_mode mode = WEIR_MEM_CACHED; mode <= WEIR_MEM_UNPOOLED; mode++) {
        for (unsigned i = 0; i < ARRAY_LEN(debugs); i++) {
            struct weir_mem_options o = {.size = sizeof o,
                                         .mode = mode,
                                         .chunk_bytes = WEIR__MEM_CHUNK_MIN << seed % 3,
                                         .debug = debugs[i]};
            model_run(&o, seed++);
        }
    }
}

static void a_pool_is_set_up_while_it_is_empty(void **state) {
    (void)state;
    struct weir_mem *m = enter_new();
    static const uint32_t wrong[] = {1, 128 << 10, (256 << 10) + 1, 3 << 20, 32 << 20};
    for (unsigned i = 0; i < ARRAY_LEN(wrong); i++) {
        struct weir_mem_options o = {.size = sizeof o, .chunk_bytes = wrong[i]};
        assert_int_equal(weir_mem_configure(m, &o), WEIR_EINVAL);
    }
    struct weir_mem_options o = {.size = sizeof o, .chunk_bytes = 16 << 20};
    struct weir__mem_stats st;
    void *p = weir_mem_new(m, 10);
    assert_int_equal(weir_mem_configure(m, &o), WEIR_EINVAL);
    weir_mem_free(p);
    assert_int_equal(weir_mem_configure(m, &o), 0);
    p = weir_mem_new(m, 10);
    weir__mem_stats(m, &st);
    assert_int_equal(st.chunk_bytes, 16 << 20);
    weir_mem_free(p);
    o.mode = (enum weir_mem_mode)7;
    assert_int_equal(weir_mem_configure(m, &o), WEIR_EINVAL);
    assert_int_equal(weir__mem_pool_free(m), 0);
}

static void ticks_collect_and_trim(void **state) {
    (void)state;
    struct weir_mem *m = enter_new();
    struct weir__mem_stats st;
    static void *p[20000];
    for (unsigned i = 0; i < 20000; i++)
        p[i] = weir_mem_new(m, 1008);
    assert_true(weir__mem_tick(m, &st));
    assert_true(st.resident_bytes >= 20000 * 1056);
    weir__mem_enter(NULL);
    for (unsigned i = 0; i < 20000; i++)
        weir_mem_free(p[i]);
    weir__mem_enter(m);
    assert_true(weir__mem_tick(m, &st));
    assert_int_equal(st.foreign, 20000);
    assert_int_equal(st.live_bytes, 0);
    for (unsigned i = 0; i < 600; i++)
        (void)weir__mem_tick(m, &st);
    weir__mem_stats(m, &st);
    assert_true(st.resident_bytes < 4 << 20);
    assert_true(st.chunks_unmapped > 0);
    assert_int_equal(weir__mem_pool_free(m), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(payloads_of_whole_kibibytes_fit_exactly),
        cmocka_unit_test(blocks_are_reused_last_in_first_out),
        cmocka_unit_test(objects_of_every_size_are_zeroed_and_counted),
        cmocka_unit_test(sizes_that_wrap_are_refused),
        cmocka_unit_test(over_budget_is_null_and_counted),
        cmocka_unit_test(no_pages_from_the_system_is_null),
        cmocka_unit_test(the_nth_allocation_fails_once_or_from_then_on),
        cmocka_unit_test(enter_says_who_ran_before),
        cmocka_unit_test(leaks_are_returned_and_listed),
        cmocka_unit_test(a_second_free_is_caught),
        cmocka_unit_test(a_write_after_free_is_caught),
        cmocka_unit_test(unshared_things_of_another_pool_are_caught),
        cmocka_unit_test(what_others_release_comes_home),
        cmocka_unit_test(foreign_blocks_are_reused_before_new_ones_are_carved),
        cmocka_unit_test(a_closed_pool_lives_until_the_last_release),
        cmocka_unit_test(an_orphan_goes_with_its_own_threads_last_release),
        cmocka_unit_test(every_mode_behaves_like_a_model),
        cmocka_unit_test(a_pool_is_set_up_while_it_is_empty),
        cmocka_unit_test(ticks_collect_and_trim),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
