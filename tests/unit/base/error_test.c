#include "weir/error.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static const struct {
    int code;
    const char *name;
    enum weir_severity severity;
} all[] = {
    {0, "OK", WEIR_SEV_OK},
    {WEIR_EGONE, "EGONE", WEIR_SEV_REFUSED},
    {WEIR_EFULL, "EFULL", WEIR_SEV_REFUSED},
    {WEIR_ENOMEM, "ENOMEM", WEIR_SEV_REFUSED},
    {WEIR_ESTOPPED, "ESTOPPED", WEIR_SEV_REFUSED},
    {WEIR_EINVAL, "EINVAL", WEIR_SEV_REFUSED},
    {WEIR_EINUSE, "EINUSE", WEIR_SEV_REFUSED},
    {WEIR_ENOTSUP, "ENOTSUP", WEIR_SEV_REFUSED},
    {WEIR_EAGAIN, "EAGAIN", WEIR_SEV_REFUSED},
    {WEIR_EFDS, "EFDS", WEIR_SEV_REFUSED},
    {WEIR_EPROTO, "EPROTO", WEIR_SEV_CONNECTION},
    {WEIR_ETOOBIG, "ETOOBIG", WEIR_SEV_CONNECTION},
    {WEIR_ERESET, "ERESET", WEIR_SEV_CONNECTION},
    {WEIR_ETIMEDOUT, "ETIMEDOUT", WEIR_SEV_CONNECTION},
    {WEIR_EREFUSED, "EREFUSED", WEIR_SEV_CONNECTION},
    {WEIR_EUNREACH, "EUNREACH", WEIR_SEV_CONNECTION},
    {WEIR_ECANCELLED, "ECANCELLED", WEIR_SEV_CONNECTION},
    {WEIR_ETRUNCATED, "ETRUNCATED", WEIR_SEV_CONNECTION},
    {WEIR_EIO, "EIO", WEIR_SEV_CONNECTION},
    {WEIR_EIDLE, "EIDLE", WEIR_SEV_CONNECTION},
    {WEIR_ECALL, "ECALL", WEIR_SEV_CALL},
    {WEIR_EDEADLINE, "EDEADLINE", WEIR_SEV_CALL},
    {WEIR_EBUG, "EBUG", WEIR_SEV_BUG},
};

enum { CODES = sizeof all / sizeof all[0] };

static void every_code_has_name_text_and_severity(void **state) {
    (void)state;
    for (size_t i = 0; i < CODES; i++) {
        assert_string_equal(weir_errname(all[i].code), all[i].name);
        assert_int_equal(weir_severity(all[i].code), all[i].severity);
        assert_true(strlen(weir_strerror(all[i].code)) > 6);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(weir_strerror(all[i].code), weir_strerror(all[j].code));
    }
}

static void no_code_between_is_named(void **state) {
    (void)state;
    unsigned named = 0;
    for (int code = -500; code <= 0; code++) {
        assert_non_null(weir_strerror(code));
        named += strcmp(weir_errname(code), "E?") != 0;
    }
    assert_int_equal(named, CODES);
}

static void system_errors_speak(void **state) {
    (void)state;
    assert_string_equal(weir_errname(WEIR_ESYS(EACCES)), "EACCES");
    assert_string_equal(weir_strerror(WEIR_ESYS(EACCES)), "Permission denied");
    assert_int_equal(weir_severity(WEIR_ESYS(EACCES)), WEIR_SEV_SYSTEM);
}

static void strange_codes_are_safe(void **state) {
    (void)state;
    const int codes[] = {-1, -5000, -999999, INT32_MIN, INT32_MIN + 1};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        assert_string_equal(weir_errname(codes[i]), "E?");
        assert_string_equal(weir_strerror(codes[i]), "unknown error code");
    }
    assert_string_equal(weir_errname(17), "OK");
    assert_int_equal(weir_severity(17), WEIR_SEV_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_name_text_and_severity),
        cmocka_unit_test(no_code_between_is_named),
        cmocka_unit_test(system_errors_speak),
        cmocka_unit_test(strange_codes_are_safe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
