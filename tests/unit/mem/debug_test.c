#include "mem/pool.h"
#include "os/fault.h"

#include <signal.h>
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static jmp_buf broke;

WEIR_UNUSED static void jump_away(const char *message) {
    (void)message;
    longjmp(broke, 1);
}

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

struct report {
    struct weir_mem_leak leaks[64];
    unsigned n;
    char text[8192];
};

static void on_leak(const struct weir_mem_leak *leak, void *user) {
    struct report *r = user;
    size_t used = strlen(r->text);
    assert_string_equal(leak->pool, "watched");
    if (r->n < ARRAY_LEN(r->leaks))
        r->leaks[r->n] = *leak;
    r->n++;
    (void)weir_mem_leak_text(leak, r->text + used, sizeof r->text - used);
}

static struct weir_mem *watched(const struct weir_mem_debug *debug, enum weir_mem_mode mode) {
    struct weir_mem *m = weir__mem_pool_new("watched");
    struct weir_mem_options o = {.size = sizeof o, .debug = debug, .mode = mode};
    assert_non_null(m);
    assert_int_equal(weir_mem_configure(m, &o), 0);
    weir__mem_enter(m);
    return m;
}

WEIR_NOINLINE static struct weir_slice leak_here(struct weir_mem *m, const void **after) {
    struct weir_slice s;
    assert_int_equal(weir_slice_new(m, 1000, &s), 0);
    *after = __builtin_return_address(0);
    return s;
}

/* Code of this program near one of its functions. */
static bool near(const void *code, const void *function) {
    return (uintptr_t)code > (uintptr_t)function && (uintptr_t)code < (uintptr_t)function + 4096;
}

static void a_leak_says_where_it_came_from_and_who_had_it(void **state) {
    (void)state;
    struct report r = {0};
    struct weir_mem_debug d = {
        .size = sizeof d, .leaks = WEIR_MEM_LEAKS_FULL, .on_leak = on_leak, .user = &r};
    struct weir_mem *m = watched(&d, WEIR_MEM_CACHED);
    const void *after;
    struct weir_slice s = leak_here(m, &after), more[6], out;
    struct weir_chain c = {0};
    for (unsigned i = 0; i < 6; i++)
        more[i] = weir_slice_ref(s, i, 10);
    for (unsigned i = 0; i < 6; i++)
        weir_slice_release(&more[i]);
    assert_int_equal(weir_chain_add(m, &c, &s), 0);
    assert_int_equal(weir_chain_take(m, &c, 1000, &out), 0);
    void *object = weir_mem_new(m, 100);
    weir__mem_invariants(m);
    assert_int_equal(weir__mem_pool_free(m), 2);
    assert_int_equal(r.n, 2);
    assert_string_equal(r.leaks[0].kind, "object"); /* newest first */
    assert_null(r.leaks[0].touched[0]);
    const struct weir_mem_leak *leak = &r.leaks[1];
    assert_string_equal(leak->kind, "buffer");
    assert_int_equal(leak->bytes, 1056);
    assert_false(leak->shared);
    assert_true(near(leak->site, (const void *)leak_here));
    for (unsigned i = 0; i < WEIR_MEM_TOUCHES; i++)
        assert_non_null(leak->touched[i]);
    assert_true(
        near(leak->touched[0], (const void *)a_leak_says_where_it_came_from_and_who_had_it));
    assert_non_null(strstr(r.text, "watched: buffer of 1056 bytes, allocated at "));
    assert_non_null(strstr(r.text, "+0x"));
    assert_non_null(strstr(r.text, ", last touched at "));
    out.buf->flags |= WEIR__MEM_SHARED; /* so that it may be released after all */
    weir_slice_release(&out);
    weir_mem_free(object);
}

static void a_long_text_is_cut_like_snprintf_does(void **state) {
    (void)state;
    struct weir_mem_leak leak = {.pool = "p", .kind = "link", .bytes = 64};
    char whole[400], cut[10];
    int n = weir_mem_leak_text(&leak, whole, sizeof whole);
    assert_int_equal(n, strlen(whole));
    assert_int_equal(weir_mem_leak_text(&leak, cut, sizeof cut), n);
    assert_memory_equal(cut, whole, 9);
    assert_int_equal(cut[9], 0);
    assert_int_equal(weir_mem_leak_text(&leak, NULL, 0), n);
}

static void shared_things_are_told_apart(void **state) {
    (void)state;
    struct report r = {0};
    struct weir_mem_debug d = {
        .size = sizeof d, .leaks = WEIR_MEM_LEAKS_FULL, .on_leak = on_leak, .user = &r};
    struct weir_mem *m = watched(&d, WEIR_MEM_CACHED);
    struct weir_slice s;
    assert_int_equal(weir_slice_new(m, 10, &s), 0);
    weir_slice_share(&s);
    struct weir_slice t = weir_slice_ref(s, 0, 5);
    assert_int_equal(weir__mem_pool_free(m), 1);
    assert_int_equal(r.n, 1);
    assert_true(r.leaks[0].shared);
    weir_slice_release(&s);
    weir_slice_release(&t);
}

static void one_in_so_many_is_watched(void **state) {
    (void)state;
    struct report r = {0};
    struct weir_mem_debug d = {.size = sizeof d,
                               .leaks = WEIR_MEM_LEAKS_SAMPLED,
                               .sample_every = 10,
                               .on_leak = on_leak,
                               .user = &r};
    struct weir_mem *m = watched(&d, WEIR_MEM_CACHED);
    void *p[100];
    for (unsigned i = 0; i < 100; i++)
        p[i] = weir_mem_new(m, 40);
    assert_int_equal(m->debug.n, 10);
    weir__mem_invariants(m);
    for (unsigned i = 0; i < 50; i++)
        weir_mem_free(p[i]);
    assert_int_equal(m->debug.n, 5);
    assert_int_equal(weir__mem_pool_free(m), 50);
    assert_int_equal(r.n, 5);
    for (unsigned i = 50; i < 100; i++)
        weir_mem_free(p[i]);
}

static void watching_begins_and_ends_at_any_time(void **state) {
    (void)state;
    struct weir_mem_debug off = {.size = sizeof off, .leaks = WEIR_MEM_LEAKS_OFF};
    struct weir_mem_debug full = {.size = sizeof full, .leaks = WEIR_MEM_LEAKS_FULL};
    struct weir_mem *m = watched(&off, WEIR_MEM_CACHED);
    void *before = weir_mem_new(m, 40);
    weir__mem_debug_set(m, &full);
    void *during = weir_mem_new(m, 40);
    assert_null(weir__mem_debug_find(&m->debug, (char *)before - 16));
    assert_non_null(weir__mem_debug_find(&m->debug, (char *)during - 16));
    weir__mem_invariants(m);
    weir_mem_free(before);
    before = weir_mem_new(m, 40);
    weir__mem_debug_set(m, &off);
    void *after = weir_mem_new(m, 40);
    assert_null(weir__mem_debug_find(&m->debug, (char *)after - 16));
    weir__mem_invariants(m);
    weir_mem_free(during);
    weir_mem_free(before);
    weir_mem_free(after);
    assert_int_equal(m->debug.n, 0);
    assert_int_equal(weir__mem_pool_free(m), 0);
}

WEIR_UNUSED WEIR_NOINLINE static struct weir_buf *new_buf(struct weir_mem *m) {
    return weir__mem_buf_new(m, 200);
}

WEIR_UNUSED WEIR_NOINLINE static void release_buf(struct weir_buf *b) {
    weir__mem_buf_release(b);
}

static void a_second_free_is_caught(void **state) {
    (void)state;
#ifdef WEIR__MEM_ASAN
    skip();
#else
    struct weir_mem_debug d = {.size = sizeof d, .leaks = WEIR_MEM_LEAKS_FULL};
    struct weir_mem *m = watched(&d, WEIR_MEM_CACHED);
    struct weir_buf *b = new_buf(m), was;
    memcpy(&was, b, sizeof was);
    release_buf(b);
    struct weir__mem_block block = *(struct weir__mem_block *)b;
    memcpy(b, &was, sizeof was); /* as if nobody had used the memory since */
    assert_true(BREAKS(release_buf(b)));
    *(struct weir__mem_block *)b = block;
    assert_int_equal(weir__mem_pool_free(m), 0);
#endif
}

WEIR_UNUSED static void write_after_free(enum weir_mem_mode mode) {
    struct weir_mem_debug d = {.size = sizeof d, .leaks = WEIR_MEM_LEAKS_OFF, .poison = true};
    struct weir_mem *m = watched(&d, mode);
    volatile uint8_t *a = weir_mem_new(m, 300);
    weir_mem_free((void *)a);
    assert_int_equal(a[299 - 16], 0xA5);
    a[100] = 1;
    assert_true(BREAKS(weir_mem_new(m, 300)));    /* when it is used again */
    assert_true(BREAKS(weir__mem_trim(m, true))); /* or goes back */
    a[100] = 0xA5;
    assert_ptr_equal(weir_mem_new(m, 300), a);
    weir_mem_free((void *)a);
    assert_int_equal(weir__mem_pool_free(m), 0);
}

static void a_write_after_free_is_caught(void **state) {
    (void)state;
#ifdef WEIR__MEM_ASAN
    skip();
#else
    write_after_free(WEIR_MEM_CACHED);
    write_after_free(WEIR_MEM_POOLED);
    write_after_free(WEIR_MEM_UNPOOLED);
#endif
}

/* The signal that ends a child which runs fn. */
static int dies_of(void (*fn)(struct weir_mem *m, uint8_t *p, size_t n), size_t n) {
    pid_t child = fork();
    if (child == 0) {
        struct weir_mem_debug d = {.size = sizeof d, .leaks = WEIR_MEM_LEAKS_OFF, .guard_min = 100};
        struct weir_mem *m = watched(&d, WEIR_MEM_CACHED);
        signal(SIGSEGV, SIG_DFL);
        fn(m, weir_mem_new(m, n), n);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

static void behave(struct weir_mem *m, uint8_t *p, size_t n) {
    memset(p, 1, n);
    weir_mem_free(p);
    if (weir__mem_pool_free(m) != 0)
        _exit(9);
}

static void write_beyond(struct weir_mem *m, uint8_t *p, size_t n) {
    (void)m;
    ((volatile uint8_t *)p)[(n + 15) & ~(size_t)15] = 1;
}

static void write_late(struct weir_mem *m, uint8_t *p, size_t n) {
    (void)m;
    weir_mem_free(p);
    ((volatile uint8_t *)p)[n / 2] = 1;
}

static void a_guard_page_catches_an_overrun(void **state) {
    (void)state;
    static const size_t sizes[] = {100, 1000, 4096, 16384, 70000, 5 << 20};
    for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
        assert_int_equal(dies_of(behave, sizes[i]), 0);
        assert_int_equal(dies_of(write_beyond, sizes[i]), SIGSEGV);
        assert_int_equal(dies_of(write_late, sizes[i]), SIGSEGV);
    }
}

static void guarded_buffers_end_at_their_capacity(void **state) {
    (void)state;
    struct weir_mem_debug d = {.size = sizeof d, .leaks = WEIR_MEM_LEAKS_OFF, .guard_min = 1};
    struct weir_mem *m = watched(&d, WEIR_MEM_CACHED);
    struct weir__mem_stats st;
    for (size_t n = 1; n < 200000; n = n * 3 / 2 + 1) {
        struct weir_buf *b = weir__mem_buf_new(m, n);
        memset(b->data, 7, b->capacity);
        assert_int_equal((uintptr_t)(b->data + b->capacity + 15) % 4096 < 16, true);
        weir__mem_invariants(m);
        weir__mem_stats(m, &st);
        assert_int_equal(st.chunks, 0);
        assert_true(st.huge_bytes >= b->capacity + 4096);
        weir__mem_buf_release(b);
        weir__mem_invariants(m);
    }
    struct weir__os_fault fault = {.kind = WEIR__OS_PROTECT, .nth = 1, .error = 12};
    struct weir__os_fault *before = weir__os_fault_set(&fault);
    assert_null(weir_mem_new(m, 10));
    weir__os_fault_set(before);
    fault = (struct weir__os_fault){.kind = WEIR__OS_MAP, .nth = 1, .error = 12};
    before = weir__os_fault_set(&fault);
    assert_null(weir_mem_new(m, 10));
    weir__os_fault_set(before);
    assert_int_equal(weir__mem_pool_free(m), 0);
}

static void *release(void *arg) {
    weir_slice_release(arg);
    return NULL;
}

static void guarded_and_unpooled_orphans_end_on_another_thread(void **state) {
    (void)state;
    for (unsigned guard = 0; guard < 2; guard++) {
        for (enum weir_mem_mode mode = WEIR_MEM_CACHED; mode <= WEIR_MEM_UNPOOLED; mode++) {
            struct weir_mem_debug d = {
                .size = sizeof d, .leaks = WEIR_MEM_LEAKS_FULL, .guard_min = guard};
            struct weir_mem *m = watched(&d, mode);
            struct weir_slice s[4];
            static const size_t sizes[4] = {10, 10000, 100000, 5 << 20};
            pthread_t t[4];
            for (unsigned i = 0; i < 4; i++) {
                assert_int_equal(weir_slice_new(m, sizes[i], &s[i]), 0);
                weir_slice_share(&s[i]);
            }
            assert_int_equal(pthread_create(&t[0], NULL, release, &s[0]), 0);
            assert_in_range(weir__mem_pool_free(m), 3, 4);
            for (unsigned i = 1; i < 4; i++)
                assert_int_equal(pthread_create(&t[i], NULL, release, &s[i]), 0);
            for (unsigned i = 0; i < 4; i++)
                pthread_join(t[i], NULL);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leak_says_where_it_came_from_and_who_had_it),
        cmocka_unit_test(a_long_text_is_cut_like_snprintf_does),
        cmocka_unit_test(shared_things_are_told_apart),
        cmocka_unit_test(one_in_so_many_is_watched),
        cmocka_unit_test(watching_begins_and_ends_at_any_time),
        cmocka_unit_test(a_second_free_is_caught),
        cmocka_unit_test(a_write_after_free_is_caught),
        cmocka_unit_test(a_guard_page_catches_an_overrun),
        cmocka_unit_test(guarded_buffers_end_at_their_capacity),
        cmocka_unit_test(guarded_and_unpooled_orphans_end_on_another_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
