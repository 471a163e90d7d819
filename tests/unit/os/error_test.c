#include "os/error.h"
#include "weir/error.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void every_errno_has_a_code(void **state) {
    (void)state;
    static const struct {
        int error, code;
    } known[] = {
        {EMFILE, WEIR_EFDS},           {ENFILE, WEIR_EFDS},
        {ECONNRESET, WEIR_ERESET},     {EPIPE, WEIR_ERESET},
        {ECONNREFUSED, WEIR_EREFUSED}, {ETIMEDOUT, WEIR_ETIMEDOUT},
        {ENETUNREACH, WEIR_EUNREACH},  {EHOSTUNREACH, WEIR_EUNREACH},
        {EADDRINUSE, WEIR_EINUSE},     {ENOMEM, WEIR_ENOMEM},
        {ENOBUFS, WEIR_ENOMEM},        {ECANCELED, WEIR_ECANCELLED},
        {EAGAIN, WEIR_EAGAIN},         {EIO, WEIR_EIO},
        {EMSGSIZE, WEIR_ETOOBIG},      {EACCES, WEIR_ESYS(EACCES)},
        {EBADF, WEIR_ESYS(EBADF)},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        assert_int_equal(weir__os_error(-known[i].error), known[i].code);
    for (int e = 1; e < 140; e++)
        assert_true(weir__os_error(-e) <= -100);
    assert_int_equal(weir__os_error(0), 0);
    assert_int_equal(weir__os_error(5), 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_errno_has_a_code)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
