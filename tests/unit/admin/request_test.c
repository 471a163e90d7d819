#include "admin/request.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define HOST "Host: x\r\n"

static struct weir__admin_request last;

static int read_text(const char *text) {
    last = (struct weir__admin_request){0};
    return weir__admin_request_read(text, strlen(text), &last);
}

static void what_a_browser_sends(void **state) {
    (void)state;
    const char *text = "GET /debug/profile?seconds=7&x HTTP/1.1\r\n" HOST
                       "Accept: */*\r\nUser-Agent: curl/8\r\nContent-Length: 0\r\n\r\nmore";
    assert_int_equal(read_text(text), 1);
    assert_true(weir__admin_str_is(last.path, "/debug/profile"));
    assert_true(weir__admin_str_is(last.query, "seconds=7&x"));
    assert_int_equal(read_text("GET / HTTP/1.0\r\n\r\n"), 1);
    assert_true(weir__admin_str_is(last.path, "/"));
    assert_int_equal(last.query.n, 0);
}

static void every_beginning_of_a_request_asks_for_more(void **state) {
    (void)state;
    const char *text = "GET /stats?a=b HTTP/1.1\r\n" HOST "A:b\r\nC: d \t\r\n\r\n";
    for (size_t n = 0; n < strlen(text); n++) {
        char *copy = malloc(n + 1); /* so that a sanitizer sees a look beyond */
        memcpy(copy, text, n);
        assert_int_equal(weir__admin_request_read(copy, n, &last), 0);
        free(copy);
    }
    assert_int_equal(read_text(text), 1);
}

static void what_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int rc;
    } rows[] = {
        {"POST / HTTP/1.1\r\n", -405},
        {"GETS / HTTP/1.1\r\n", -405},
        {"GE / HTTP/1.1\r\n", -405},
        {"HEAD ", -405},
        {" GET / HTTP/1.1\r\n", -400},
        {"\r\nGET / HTTP/1.1\r\n", -400},
        {"\x16\x03\x01\x02", -400},
        {"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", -400},
        {"GET /\r\n", -400},
        {"GET  / HTTP/1.1\r\n", -400},
        {"GET x HTTP/1.1\r\n", -400},
        {"GET http://h/ HTTP/1.1\r\n", -400},
        {"GET / HTTP/2.0\r\n", -400},
        {"GET / HTTP/1.x\r\n", -400},
        {"GET / HTTP/1.1 \r\n", -400},
        {"GET / HTTP/1.1\n", -400},
        {"GET / HTTP/1.1\rX", -400},
        {"GET /\x01 HTTP/1.1\r\n", -400},
        {"GET / HTTP/1.1\r\n\r\n", -400},
        {"GET / HTTP/1.1\r\n" HOST HOST "\r\n", -400},
        {"GET / HTTP/1.1\r\nHost : x\r\n\r\n", -400},
        {"GET / HTTP/1.1\r\n" HOST " folded\r\n\r\n", -400},
        {"GET / HTTP/1.1\r\n" HOST ": x\r\n\r\n", -400},
        {"GET / HTTP/1.1\r\n" HOST "nothing\r\n\r\n", -400},
        {"GET / HTTP/1.1\r\n" HOST "Content-Length: 1\r\n", -400},
        {"GET / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n", -400},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (read_text(rows[i].text) != rows[i].rc)
            fail_msg("%s: %d", rows[i].text, read_text(rows[i].text));
}

static void a_head_has_a_limit(void **state) {
    (void)state;
    static char text[WEIR__ADMIN_HEAD_MAX + 100];
    size_t n = (size_t)snprintf(text, sizeof text, "GET / HTTP/1.1\r\n" HOST "A: ");
    memset(text + n, 'a', sizeof text - n);
    assert_int_equal(weir__admin_request_read(text, WEIR__ADMIN_HEAD_MAX - 1, &last), 0);
    assert_int_equal(weir__admin_request_read(text, WEIR__ADMIN_HEAD_MAX, &last), -431);
    assert_int_equal(weir__admin_request_read(text, sizeof text, &last), -431);
    memcpy(text + WEIR__ADMIN_HEAD_MAX - 4, "\r\n\r\n", 4);
    assert_int_equal(weir__admin_request_read(text, WEIR__ADMIN_HEAD_MAX, &last), 1);
    memcpy(text + WEIR__ADMIN_HEAD_MAX - 4, "a\r\n\r\n", 5);
    assert_int_equal(weir__admin_request_read(text, sizeof text, &last), -431);
}

static void fields_of_the_query(void **state) {
    (void)state;
    uint32_t v;
    struct weir__admin_request r = {.query = WEIR_STR("seconds=7&format=text&flag&big=99999999999"
                                                      "&empty=&seconds2=8&bad=1x")};
    assert_true(weir__admin_str_is(weir__admin_query(&r, "format"), "text"));
    assert_false(weir__admin_str_is(weir__admin_query(&r, "format"), "tex"));
    assert_non_null(weir__admin_query(&r, "flag").p);
    assert_int_equal(weir__admin_query(&r, "flag").n, 0);
    assert_null(weir__admin_query(&r, "second").p);
    assert_true(weir__admin_query_number(&r, "seconds", 1, 60, 5, &v));
    assert_int_equal(v, 7);
    assert_true(weir__admin_query_number(&r, "absent", 1, 60, 5, &v));
    assert_int_equal(v, 5);
    assert_false(weir__admin_query_number(&r, "seconds", 8, 60, 5, &v));
    assert_false(weir__admin_query_number(&r, "seconds", 1, 6, 5, &v));
    assert_false(weir__admin_query_number(&r, "big", 1, 60, 5, &v));
    assert_false(weir__admin_query_number(&r, "bad", 1, 60, 5, &v));
    assert_false(weir__admin_query_number(&r, "empty", 0, 60, 5, &v));
    assert_false(weir__admin_query_number(&r, "flag", 0, 60, 5, &v));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_browser_sends),
        cmocka_unit_test(every_beginning_of_a_request_asks_for_more),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(a_head_has_a_limit),
        cmocka_unit_test(fields_of_the_query),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
