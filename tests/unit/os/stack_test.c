/* Stacks as a signal handler finds them: frames, bounds, system calls. */
#include "os/stack.h"
#include "base/compiler.h"
#include "os/fault.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

static struct weir__os_stack_bounds bounds;
static struct weir__os_stack seen;

static void on_signal(int sig, siginfo_t *info, void *context) {
    (void)sig;
    (void)info;
    weir__os_stack_walk(context, &bounds, &seen);
}

static void listen_to(int sig, bool on) {
    struct sigaction a = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    if (!on)
        a = (struct sigaction){.sa_handler = SIG_DFL};
    assert_int_equal(sigaction(sig, &a, NULL), 0);
}

/* Each keeps a frame: the compiler may not make a jump of the call. */
static volatile unsigned depth_guard;

WEIR_NOINLINE static void innermost(void) {
    pthread_kill(pthread_self(), SIGUSR1);
    depth_guard++;
}

WEIR_NOINLINE static void middle(void) {
    innermost();
    depth_guard++;
}

WEIR_NOINLINE static void outer(void) {
    middle();
    depth_guard++;
}

static bool returns_into(const struct weir__os_stack *s, void (*fn)(void), unsigned *at) {
    for (; *at < s->n; ++*at)
        if (s->pc[*at] > (uintptr_t)fn && s->pc[*at] < (uintptr_t)fn + 256)
            return true;
    return false;
}

/* The signal arrives in the C library, which keeps no frame pointers: the nearest function of ours
 * is found all the same. */
static void frames_are_followed(void **state) {
    unsigned at = 0;
    (void)state;
    assert_int_equal(weir__os_stack_bounds(&bounds), 0);
    assert_true((uintptr_t)&at >= bounds.low && (uintptr_t)&at < bounds.high);
    weir__os_stack_learn();
    listen_to(SIGUSR1, true);
    outer();
    listen_to(SIGUSR1, false);
    assert_true(seen.n >= 4);
    assert_true(returns_into(&seen, innermost, &at));
    assert_true(returns_into(&seen, middle, &at));
    assert_true(returns_into(&seen, outer, &at));
}

static void nothing_outside_the_stack_is_read(void **state) {
    (void)state;
    bounds = (struct weir__os_stack_bounds){0};
    listen_to(SIGUSR1, true);
    outer();
    listen_to(SIGUSR1, false);
    assert_int_equal(seen.n, 1);
}

WEIR_NOINLINE static void deeper(unsigned n) {
    if (n)
        deeper(n - 1);
    else
        innermost();
    depth_guard++;
}

static void a_deep_stack_is_cut(void **state) {
    (void)state;
    assert_int_equal(weir__os_stack_bounds(&bounds), 0);
    listen_to(SIGUSR1, true);
    deeper(100);
    listen_to(SIGUSR1, false);
    assert_int_equal(seen.n, WEIR__OS_STACK_MAX);
}

/* A signal that a thread sends to itself is delivered when the system call returns. */
static void a_system_call_is_noticed(void **state) {
    (void)state;
    listen_to(SIGUSR1, true);
    raise(SIGUSR1);
    assert_true(seen.in_call);
    listen_to(SIGUSR1, false);
}

#if defined(__x86_64__)
static void a_trap_is_no_system_call(void **state) {
    (void)state;
    listen_to(SIGTRAP, true);
    __asm__ volatile("int3; nop");
    listen_to(SIGTRAP, false);
    assert_false(seen.in_call);
    assert_true(seen.n > 1);
}
#endif

static void bounds_that_cannot_be_had(void **state) {
    struct weir__os_fault f = {.kind = WEIR__OS_THREAD, .nth = 1, .error = ENOMEM};
    struct weir__os_stack_bounds b = {1, 2};
    (void)state;
    weir__os_fault_set(&f);
    assert_int_equal(weir__os_stack_bounds(&b), -ENOMEM);
    weir__os_fault_set(NULL);
    assert_int_equal(b.low, 0);
    assert_int_equal(b.high, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_followed),
        cmocka_unit_test(nothing_outside_the_stack_is_read),
        cmocka_unit_test(a_deep_stack_is_cut),
        cmocka_unit_test(a_system_call_is_noticed),
#if defined(__x86_64__)
        cmocka_unit_test(a_trap_is_no_system_call),
#endif
        cmocka_unit_test(bounds_that_cannot_be_had),
    };
    return cmocka_run_group_tests_name("os/stack", tests, NULL, NULL);
}
