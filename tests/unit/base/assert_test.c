#include "base/assert.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <pthread.h>

static jmp_buf back;
static char said[512];

static void jump(const char *message) {
    snprintf(said, sizeof said, "%s", message);
    longjmp(back, 1);
}

static void must_says_where_and_what(void **state) {
    (void)state;
    int two = 2;
    weir__base_on_panic = jump;
    must(two == 2);
    if (setjmp(back) == 0) {
        must(two == 3);
        fail();
    }
    weir__base_on_panic = NULL;
    assert_non_null(strstr(said, "assert_test.c:"));
    assert_non_null(strstr(said, "two == 3"));
}

static int evaluated;

static bool costly(void) {
    evaluated++;
    return false;
}

static void check_runs_in_checked_builds_only(void **state) {
    (void)state;
    weir__base_on_panic = jump;
    if (setjmp(back) == 0)
        check(costly());
    weir__base_on_panic = NULL;
#ifdef WEIR_CHECKED
    assert_int_equal(evaluated, 1);
#else
    assert_int_equal(evaluated, 0);
#endif
}

struct seen {
    unsigned sites;
    uint64_t hits;
};

static void find_rare(const struct weir__base_site *site, uint64_t hits, void *user) {
    struct seen *s = user;
    if (strcmp(site->text, "rare > 3") == 0) {
        s->sites++;
        s->hits += hits;
        assert_non_null(strstr(site->file, "assert_test.c"));
    }
}

static void count_if_counts_its_place(void **state) {
    (void)state;
    struct seen s = {0};
    unsigned yes = 0;
    uint64_t odd_before = weir__base_hits(WEIR__SITE_ODD);
    weir__base_sites(find_rare, &s);
    assert_int_equal(s.sites, 0);
    for (int rare = 0; rare < 10; rare++)
        yes += count_if(rare > 3);
    assert_int_equal(yes, 6);
    weir__base_sites(find_rare, &s);
    assert_int_equal(s.sites, 1);
    assert_int_equal(s.hits, 6);
    assert_int_equal(weir__base_hits(WEIR__SITE_ODD), odd_before);
    assert_true(odd_if(yes == 6));
    assert_int_equal(weir__base_hits(WEIR__SITE_ODD), odd_before + 1);
}

static void *hit_many(void *arg) {
    (void)arg;
    for (int i = 0; i < 1000; i++) {
        count_if(i >= 0);
        odd_if(i % 2 == 0);
    }
    return NULL;
}

static void sites_join_once_from_many_threads(void **state) {
    (void)state;
    pthread_t t[4];
    uint64_t odd = weir__base_hits(WEIR__SITE_ODD), count = weir__base_hits(WEIR__SITE_COUNT);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, hit_many, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(weir__base_hits(WEIR__SITE_COUNT) - count, 4000);
    assert_int_equal(weir__base_hits(WEIR__SITE_ODD) - odd, 2000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_says_where_and_what),
        cmocka_unit_test(check_runs_in_checked_builds_only),
        cmocka_unit_test(count_if_counts_its_place),
        cmocka_unit_test(sites_join_once_from_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
