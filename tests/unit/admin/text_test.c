#include "admin/text.h"
#include "mem/pool.h"
#include "mem/raw.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void assert_text(struct weir__admin_text *t, const char *want) {
    char *got = calloc(1, t->chain.bytes + 1);
    assert_int_equal(weir_chain_read(&t->chain, 0, got, t->chain.bytes), 0);
    assert_string_equal(got, want);
    free(got);
    weir_chain_fini(&t->chain);
}

static void lines(void **state) {
    (void)state;
    struct weir_mem *m = weir_mem_open("test");
    struct weir__admin_text t = {.mem = m};
    weir__admin_print(&t, "%s %d\n", "a", 1);
    weir__admin_write(&t, "bc", 2);
    weir__admin_write(&t, "", 0);
    assert_text(&t, "a 1\nbc");
    assert_false(t.failed);
    weir_mem_close(m);
}

static void a_long_line_is_whole(void **state) {
    (void)state;
    char text[3000];
    struct weir_mem *m = weir_mem_open("test");
    struct weir__admin_text t = {.mem = m};
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    weir__admin_print(&t, "%s", text);
    assert_text(&t, text);
    assert_false(t.failed);
    weir__mem_fail(m, 1, true);
    weir__admin_print(&t, "%s", text);
    assert_true(t.failed);
    assert_int_equal(t.chain.bytes, 0);
    weir__mem_fail(m, 0, false);
    weir_mem_close(m);
}

static void names(void **state) {
    (void)state;
    char name[200];
    assert_string_equal(weir__admin_name("a b;c").text, "a b;c");
    assert_string_equal(weir__admin_name("").text, "");
    assert_string_equal(weir__admin_name("a\nb\x7f\t\xe9").text, "a?b??\xe9");
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = 0;
    assert_int_equal(strlen(weir__admin_name(name).text), 63);
    assert_string_equal(weir__admin_s(0), "s");
    assert_string_equal(weir__admin_s(1), "");
}

static void documents(void **state) {
    (void)state;
    struct weir_mem *m = weir_mem_open("test");
    struct weir__admin_text t = {.mem = m};
    weir__admin_json(&t, json_pack("{s:I}", "n", (json_int_t)5));
    assert_text(&t, "{\n \"n\": 5\n}\n");
    assert_false(t.failed);
    weir__admin_json(&t, NULL);
    assert_true(t.failed);
    weir_chain_fini(&t.chain);
    weir_mem_close(m);
}

static void assert_string(const char *s, const char *want) {
    json_t *j = weir__admin_string(s);
    assert_string_equal(json_string_value(j), want);
    json_decref(j);
}

static void strings(void **state) {
    (void)state;
    assert_string("a \"b\"", "a \"b\"");
    assert_string("\xc3\xa9", "\xc3\xa9");
    assert_string("\xc3\xa9 \xe9", "?? ?"); /* not UTF-8 as a whole */
    json_t *none = weir__admin_string(NULL);
    assert_true(json_is_null(none));
    weir__mem_raw_fail(1);
    assert_null(weir__admin_string("\xe9"));
    weir__mem_raw_fail(0);
}

static void no_memory(void **state) {
    (void)state;
    struct weir_mem *m = weir_mem_open("test");
    struct weir__admin_text t = {.mem = m};
    weir__mem_fail(m, 1, true);
    weir__admin_print(&t, "x");
    assert_true(t.failed);
    t.failed = false;
    weir__admin_json(&t, json_pack("[i]", 1));
    assert_true(t.failed);
    assert_int_equal(t.chain.bytes, 0);
    weir__mem_fail(m, 0, false);
    weir_mem_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines),   cmocka_unit_test(a_long_line_is_whole),
        cmocka_unit_test(names),   cmocka_unit_test(documents),
        cmocka_unit_test(strings), cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
