#include "base/addr.h"
#include "base/rng.h"
#include "weir/error.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void reads_and_writes(void **state) {
    (void)state;
    static const struct {
        const char *in, *out;
        int kind;
        unsigned port;
    } good[] = {
        {"127.0.0.1:9988", "127.0.0.1:9988", WEIR__ADDR_IP4, 9988},
        {"localhost:1", "127.0.0.1:1", WEIR__ADDR_IP4, 1},
        {":80", "0.0.0.0:80", WEIR__ADDR_IP4, 80},
        {"*:0", "0.0.0.0:0", WEIR__ADDR_IP4, 0},
        {"255.255.255.255:65535", "255.255.255.255:65535", WEIR__ADDR_IP4, 65535},
        {"[::1]:80", "[::1]:80", WEIR__ADDR_IP6, 80},
        {"[::]:443", "[::]:443", WEIR__ADDR_IP6, 443},
        {"[fe80::1%2]:7", "[fe80::1%2]:7", WEIR__ADDR_IP6, 7},
        {"[::ffff:1.2.3.4]:5", "[::ffff:1.2.3.4]:5", WEIR__ADDR_IP6, 5},
        {"unix:/run/weir.sock", "unix:/run/weir.sock", WEIR__ADDR_UNIX, 0},
        {"unix:@name", "unix:@name", WEIR__ADDR_UNIX, 0},
        {"unix:a:b", "unix:a:b", WEIR__ADDR_UNIX, 0},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct weir_addr a, b;
        char text[WEIR__ADDR_TEXT_MAX];
        assert_int_equal(weir__base_addr_parse(good[i].in, &a, NULL), 0);
        assert_int_equal(a.kind, good[i].kind);
        assert_int_equal(a.port, good[i].port);
        assert_int_equal(weir__base_addr_format(&a, text, sizeof text), strlen(good[i].out));
        assert_string_equal(text, good[i].out);
        assert_int_equal(weir__base_addr_parse(text, &b, NULL), 0);
        assert_true(weir__base_addr_equal(&a, &b));
    }
}

static void refuses_with_a_reason(void **state) {
    (void)state;
    static const struct {
        const char *in, *why;
    } bad[] = {
        {"", "no port"},
        {"127.0.0.1", "no port"},
        {"127.0.0.1:", "port must"},
        {"127.0.0.1:65536", "port must"},
        {"127.0.0.1:-1", "port must"},
        {"127.0.0.1:8x", "port must"},
        {"127.0.0.1:99999999999999999999", "port must"},
        {"example.org:80", "numeric"},
        {"1.2.3:80", "numeric"},
        {"::1:80", "brackets"},
        {"[::1]", "no port after ]"},
        {"[::1:80", "no port after ]"},
        {"[::g]:80", "IPv6"},
        {"[]:80", "IPv6"},
        {"[fe80::1%eth0]:80", "zone"},
        {"[1111:2222:3333:4444:5555:6666:7777:8888:9999:0000:1111]:1", "IPv6"},
        {"unix:", "needs a path"},
        {"unix:@", "needs a path"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct weir_addr a;
        const char *why = NULL;
        memset(&a, 0xff, sizeof a);
        assert_int_equal(weir__base_addr_parse(bad[i].in, &a, &why), WEIR_EINVAL);
        assert_non_null(strstr(why, bad[i].why));
        assert_int_equal(a.kind, WEIR__ADDR_NONE);
    }
}

static void unix_path_has_its_limit(void **state) {
    (void)state;
    char text[160] = "unix:";
    struct weir_addr a;
    memset(text + 5, 'p', WEIR__ADDR_PATH_MAX);
    assert_int_equal(weir__base_addr_parse(text, &a, NULL), 0);
    assert_int_equal(a.path_len, WEIR__ADDR_PATH_MAX);
    text[5 + WEIR__ADDR_PATH_MAX] = 'p';
    assert_int_equal(weir__base_addr_parse(text, &a, NULL), WEIR_EINVAL);
    memset(text, 'h', 150);
    text[150] = ':';
    assert_int_equal(weir__base_addr_parse(text, &a, NULL), WEIR_EINVAL);
}

static void format_cuts_to_the_buffer(void **state) {
    (void)state;
    struct weir_addr a;
    char text[8];
    weir__base_addr_parse("127.0.0.1:80", &a, NULL);
    assert_int_equal(weir__base_addr_format(&a, text, sizeof text), 7);
    assert_string_equal(text, "127.0.0");
    assert_int_equal(weir__base_addr_format(&a, text, 0), 0);
    assert_int_equal(weir__base_addr_format(&(struct weir_addr){0}, text, sizeof text), 4);
}

static void different_is_not_equal(void **state) {
    (void)state;
    static const char *const texts[] = {"1.2.3.4:5", "1.2.3.4:6",    "1.2.3.5:5", "[::1]:5",
                                        "[::1%3]:5", "[::2]:5",      "[::1]:6",   "unix:/a",
                                        "unix:/b",   "unix:/a/long", "unix:@a"};
    enum { N = sizeof texts / sizeof texts[0] };
    struct weir_addr a, b, none = {0};
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++) {
            weir__base_addr_parse(texts[i], &a, NULL);
            weir__base_addr_parse(texts[j], &b, NULL);
            assert_int_equal(weir__base_addr_equal(&a, &b), i == j);
            assert_false(weir__base_addr_equal(&a, &none));
        }
    assert_true(weir__base_addr_equal(&none, &none));
}

static void random_text_never_breaks_it(void **state) {
    (void)state;
    static const char letters[] = "0123456789.:[]%*@/unixlocalhost:f";
    struct weir__base_rng r;
    weir__base_rng_seed(&r, 1);
    for (int i = 0; i < 200000; i++) {
        char in[40], text[WEIR__ADDR_TEXT_MAX];
        struct weir_addr a, b;
        size_t n = weir__base_rng_below(&r, sizeof in - 1);
        for (size_t k = 0; k < n; k++)
            in[k] = letters[weir__base_rng_below(&r, sizeof letters - 1)];
        in[n] = 0;
        if (weir__base_addr_parse(in, &a, NULL) < 0)
            continue;
        weir__base_addr_format(&a, text, sizeof text);
        assert_int_equal(weir__base_addr_parse(text, &b, NULL), 0);
        assert_true(weir__base_addr_equal(&a, &b));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_and_writes),        cmocka_unit_test(refuses_with_a_reason),
        cmocka_unit_test(unix_path_has_its_limit), cmocka_unit_test(format_cuts_to_the_buffer),
        cmocka_unit_test(different_is_not_equal),  cmocka_unit_test(random_text_never_breaks_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
