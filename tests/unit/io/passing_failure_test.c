/* What the kernel has for a moment only, no memory, must not end a connection: the doors once took
 * it for the end of receiving, and the channel asked them again for ever. */
#include "kit/actor.h"
#include "os/fault.h"
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void talk(struct pair *p) {
    struct actor s = {0}, c = {0};
    struct weir__os_fault f = {.kind = WEIR__OS_RECV, .nth = 1, .error = ENOMEM};
    link_up(p, &s, &c);
    weir__os_fault_set(&f);
    say(&c, "hello");
    until(p, s.got == 5);
    weir__os_fault_set(NULL);
    demand(p, f.hit == 1);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 5 'hello'; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static void a_receive_without_memory_is_tried_again(void **state) {
    static struct pair p;
    const char *why = "";
    assert_int_equal(pair_open(&p, pair_kind_of(*state), NULL, &why), 0);
    if (setjmp(p.escape) == 0)
        talk(&p);
    weir__os_fault_set(NULL);
    assert_true(p.closed);
}

#define ON(door)                                                                                  \
    {                                                                                             \
        "a_receive_without_memory_is_tried_again." door, a_receive_without_memory_is_tried_again, \
            NULL, NULL, (void *)(uintptr_t)door                                                   \
    }

int main(void) {
    const struct CMUnitTest tests[] = {ON("lt"), ON("et")};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
