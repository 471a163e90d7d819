/* CRC-32C: the published values (RFC 3720, appendix B.4), in one piece and in two. */
#include "codec/proxy/proxy.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void published_values(void **state) {
    (void)state;
    uint8_t bytes[32];
    assert_int_equal(weir__proxy_crc(0, "123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(weir__proxy_crc(0, bytes, sizeof bytes), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(weir__proxy_crc(0, bytes, sizeof bytes), 0x62a8ab43);
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    assert_int_equal(weir__proxy_crc(0, bytes, sizeof bytes), 0x46dd794e);
    for (unsigned i = 0; i <= sizeof bytes; i++)
        assert_int_equal(weir__proxy_crc(weir__proxy_crc(0, bytes, i), bytes + i, sizeof bytes - i),
                         0x46dd794e);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(published_values)};
    return cmocka_run_group_tests_name("codec/proxy/crc", tests, NULL, NULL);
}
