/* Addresses as text: against inet_pton, where the two agree on what an address is. */
#include "base/rng.h"
#include "codec/proxy/proxy.h"
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void same(const char *text) {
    struct weir_str s = {text, strlen(text)};
    uint8_t ours[16], theirs[16];
    bool ip4 = inet_pton(AF_INET, text, theirs) == 1;
    assert_int_equal(weir__proxy_ip4(s, ours), ip4);
    if (ip4)
        assert_memory_equal(ours, theirs, 4);
    bool ip6 = inet_pton(AF_INET6, text, theirs) == 1;
    assert_int_equal(weir__proxy_ip6(s, ours), ip6);
    if (ip6)
        assert_memory_equal(ours, theirs, 16);
}

static void by_hand(void **state) {
    (void)state;
    static const char *const texts[] = {"",
                                        ":",
                                        "::",
                                        ":::",
                                        "::1",
                                        "1::",
                                        "1::2",
                                        "1::2::3",
                                        "::1:2:3:4:5:6:7:8",
                                        "1:2:3:4:5:6:7:8",
                                        "1:2:3:4:5:6:7",
                                        "1:2:3:4:5:6:7:8:9",
                                        "1:2:3:4:5:6:7::",
                                        "::2:3:4:5:6:7:8",
                                        "1:2:3:4::5:6:7:8",
                                        ":1:2:3:4:5:6:7",
                                        "1:2:3:4:5:6:7:",
                                        "12345::",
                                        "g::",
                                        "::ffff:1.2.3.4",
                                        "1.2.3.4::",
                                        "::1.2.3.4:5",
                                        "1:2:3:4:5:6:1.2.3.4",
                                        "1:2:3:4:5:6:7:1.2.3.4",
                                        "::1.2.3",
                                        "::1.2.3.256",
                                        "0001::",
                                        "FFFF::ffff",
                                        "1.2.3.4",
                                        "1.2.3",
                                        "1.2.3.4.5",
                                        "1.2.3.4.",
                                        ".1.2.3.4",
                                        "1..2.3",
                                        "256.1.1.1",
                                        "0.0.0.0",
                                        "01.2.3.4",
                                        "1.2.3.04",
                                        "1.2.3.x",
                                        "1.2.3.-4",
                                        "1.2.3.4 ",
                                        " 1.2.3.4",
                                        "1234.1.1.1",
                                        "::1%1"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        same(texts[i]);
}

static void by_chance(void **state) {
    (void)state;
    static const char letters[] = "0123456789abcF:::::....g";
    struct weir__base_rng r;
    weir__base_rng_seed(&r, 7);
    for (int i = 0; i < 200000; i++) {
        char text[24];
        size_t n = (size_t)weir__base_rng_below(&r, sizeof text);
        for (size_t k = 0; k < n; k++)
            text[k] = letters[weir__base_rng_below(&r, sizeof letters - 1)];
        text[n] = 0;
        same(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_hand), cmocka_unit_test(by_chance)};
    return cmocka_run_group_tests_name("codec/proxy/text", tests, NULL, NULL);
}
